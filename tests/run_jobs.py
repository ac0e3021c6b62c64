"""Jobs for the tests of engines: found by name in other processes."""

import os
import signal
import time

import numpy as np

from drogo.runs.job import Outcome


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
