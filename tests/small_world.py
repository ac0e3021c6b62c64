"""A world of seven cells, and its transitions as columns of arrays."""

import gymnasium
import jax
import numpy as np

from drogo import Column, Drogo, GridWorld, collect
from drogo.learn.networks import DenseNetwork
from drogo.online import OnlineLearner, StepBatch
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


def pure(batch_size=32, settings=None):
    """A pure learner of one number and two actions, and a network for it."""
    network, method = DenseNetwork(1, 0, jax.random.key(0), 4, 1, 2), Drogo(batch_size=batch_size)
    options = {"settings": settings, "normalise": "mean"}
    return OnlineLearner(Column(), method, network, 2, **options), network


def as_steps(place, action, after, ended):
    """Steps that cost 1 each."""
    zeros = np.zeros(len(place), np.float32)
    return StepBatch(place, action.astype(np.int32), zeros - 1, after, ended, zeros)
