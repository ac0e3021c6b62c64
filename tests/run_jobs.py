"""Jobs for the tests of engines: functions that other processes find by name."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np

from drogo_paper.engines.job import Job, Outcome


@contextlib.contextmanager
def python_process(code, *arguments):
    """A process that runs a program, and is killed at the end."""
    command, pipe = [sys.executable, "-c", code, *map(str, arguments)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        process.kill()


def square(settings, scratch, report):
    report(0.5)
    time.sleep(settings.get("wait", 0))
    if "warning" in settings:
        warnings.warn(settings["warning"], UserWarning, stacklevel=1)
    if "log" in settings:  # which runs were finished, and how often
        with open(settings["log"], "a") as stream:
            stream.write(f"{settings['x']}\n")
    return Outcome({"y": np.array(settings["x"] ** 2)})


def broken(settings, scratch, report):
    raise ArithmeticError("no square today")


def dies_once(settings, scratch, report):
    mark = scratch / "attempted"
    if not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome({"y": np.array(1)})


def always_dies(settings, scratch, report):
    os.kill(os.getpid(), signal.SIGKILL)


class Nameless(Exception):
    def __str__(self):
        raise RuntimeError


def odd(settings, scratch, report):
    """Ends in a way that no job should."""
    how = settings["how"]
    if how == "leaves":
        os._exit(3)
    errors = {"exits": SystemExit(3), "interrupts": KeyboardInterrupt, "raises": Nameless}
    if how in errors:
        raise errors[how]
    bad, worse = Outcome({"y": np.array([None])}), Outcome({}, {"f": lambda: None})
    return {"none": None, "dict": {"y": 1}, "object": bad, "lambda": worse}[how]


RETURNED = "ArgumentTypeError: run_jobs:odd returned {}; a job must return an Outcome."
ODD = {
    "exits": "SystemExit: 3",
    "leaves": "",  # the engines have their own words for a process that is gone
    "interrupts": "KeyboardInterrupt: ",
    "raises": "Nameless",
    "none": RETURNED.format("NoneType"),
    "dict": RETURNED.format("dict"),
    "object": "ArgumentError: array 'y' has the type object, which cannot be saved.",
    "lambda": "ArgumentError: the facts of run_jobs:odd are not JSON",
}
"""The beginning of the failure of each odd job, on every engine."""


def odd_jobs():
    return [Job("run_jobs:odd", {"how": how}, f"odd {how}", 1.0) for how in ODD]


LEARN = Job(
    "drogo_paper.fits:learn",
    {"world": "grid-task", "input": "state", "settings": "recommended", "episodes": False, "double": False, "seeds": 2, "lam": 20.0,
     "transitions": 2000, "overrides": {"updates": 20}},
    "a short fit",
)  # fmt: skip


def ray_jobs():
    """Four that take a while, one that shares their task, and one that fails."""
    waits = {0: 2.0, 1: 0.5, 2: 0.5, 3: 0.5, 9: 0.0}.items()
    jobs = [
        Job("run_jobs:square", {"x": x, "wait": w}, f"square of {x}", 100 * w) for x, w in waits
    ]
    return [*jobs, Job("run_jobs:broken", {"x": 0}, "broken of 0", 1.0)]
