"""A world of seven cells, and its transitions as columns of arrays."""

import gymnasium
import numpy as np

from drogo import GridWorld, collect
from drogo_paper.reach_goals import ReachGoals

WORLD = GridWorld.parse("step-limit: 40\n\n######\n#S..G#\n#.x..#\n######")
BOX = gymnasium.spaces.Box(-0.5, 0.5, (2,), np.float32)
FOUR = gymnasium.spaces.Discrete(4)
CORRIDOR = GridWorld.parse("step-limit: 20\n\n######\n#S.xG#\n######")
"""A line of states 0 to 3, of which 2 costs 20."""
RIGHT = 0


def reaching(observation="state", **options):
    """The corridor with a goal for each episode."""
    env = gymnasium.make("drogo/GridWorld-v0", world=CORRIDOR, observation=observation)
    return ReachGoals(env, **options)


def make(**options):
    kind = {"observation": "coordinates", **options}
    return gymnasium.make("drogo/GridWorld-v0", world=WORLD, **kind)


def steps_of(n):
    """Random transitions of the world, as columns."""
    return next(iter(collect(make(), n, seed=0).batches(n)))


def rows(columns, chosen):
    return tuple(column[chosen] for column in columns)


def feed(online, columns, chunk=30):
    """Lets a map observe steps and train, chunk by chunk."""
    for begin in range(0, len(columns[0]), chunk):
        online.observe(*rows(columns, slice(begin, begin + chunk)))
        online.train()
    return online
