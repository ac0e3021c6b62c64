"""Jobs for the tests of engines: functions that other processes find by name."""

import os
import signal
import sys
import time

import numpy as np

from drogo.engines.job import Job, Outcome


def square(settings, scratch, report):
    report(0.5)
    time.sleep(settings.get("wait", 0))
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
    if settings["how"] == "exits":
        sys.exit(3)
    if settings["how"] == "leaves":
        os._exit(3)
    if settings["how"] == "interrupts":
        raise KeyboardInterrupt
    if settings["how"] == "raises":
        raise Nameless
    return {
        "none": None,
        "dict": {"y": 1},
        "object": Outcome({"y": np.array([None])}),
        "lambda": Outcome({}, {"f": lambda: None}),
    }[settings["how"]]


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
    {"world": "grid-task", "input": "state", "preset": "fast", "seeds": 2, "lam": 20.0,
     "transitions": 2000, "overrides": {"updates": 20}},
    "a short fit",
)  # fmt: skip


def ray_jobs():
    """Four that take a while, one that fails, and one that shares its task."""
    waits = enumerate((2.0, 0.5, 0.5, 0.5))
    square, broken = "run_jobs:square", Job("run_jobs:broken", {"x": 0}, "broken of 0", 1.0)
    jobs = [Job(square, {"x": x, "wait": wait}, f"square of {x}", 100.0) for x, wait in waits]
    return [*jobs, broken, Job(square, {"x": 9}, "square of 9", 1.0)]
