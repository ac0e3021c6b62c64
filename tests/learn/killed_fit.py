"""A fit that a test kills: `python killed_fit.py CHECKPOINT`. The test resumes it."""

import sys

from drogo import Column, Paper, fit
from drogo.learn import train
from small_data import SLOW, WORLD, data_of

ARGUMENTS = {"problem": Column(), "method": Paper(updates=6000), "seeds": 2, "optimiser": SLOW}

if __name__ == "__main__":
    train.SECONDS_BETWEEN_CHECKPOINTS = 0.0
    fit(data_of(WORLD), **ARGUMENTS, checkpoint=sys.argv[1])
    print("the end", flush=True)
