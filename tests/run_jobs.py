"""Jobs for the tests of engines: found by name in other processes."""

import os
import signal
import time

import numpy as np

from drogo.runs.job import Job, Outcome


def square(settings, scratch, report):
    report(0.5)
    time.sleep(settings.get("wait", 0))
    if "log" in settings:  # who ran, and how often
        with open(settings["log"], "a") as stream:
            stream.write(f"{settings['x']}\n")
    return Outcome({"y": np.array(settings["x"] ** 2)})


def broken(settings, scratch, report):
    raise ArithmeticError("no square today")


def dies_once(settings, scratch, report):
    """Killed the first time, as by a machine out of memory."""
    mark = scratch / "been-here"
    if not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome({"y": np.array(1)})


def always_dies(settings, scratch, report):
    os.kill(os.getpid(), signal.SIGKILL)


LEARN = Job(
    "drogo_paper.fits:learn",
    {"world": "grid-task", "input": "coordinates", "preset": "fast", "seeds": 2, "lam": 20.0,
     "overrides": {"updates": 50}},
    "a short fit",
)  # fmt: skip


def ray_jobs():
    """Eight that take a while, one that cannot be done, and one that shares its task."""
    jobs = [
        Job("run_jobs:square", {"x": x, "wait": 0.5}, f"square of {x}", 100.0) for x in range(8)
    ]
    jobs += [Job("run_jobs:broken", {"x": 0}, "broken of 0", 1.0)]
    return [*jobs, Job("run_jobs:square", {"x": 9}, "square of 9", 1.0)]
