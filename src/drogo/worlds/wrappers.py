"""Wrappers that make another task of an environment: without end, or with numbered actions."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from drogo.errors import check_number

MOST_ACTIONS = 256  # Actions of several parts are numbered if there are at most this many of them.


class NeverEnding(gymnasium.Wrapper, RecordConstructorArgs):
    """An environment in which the last step of an episode leads to the first state of the next.

    The step that would be terminated returns the first observation of a new episode and is not
    terminated, so agents and `drogo.Continuing` see one task that goes on forever. A step limit
    truncates it as before.

    Args:
        env: The environment.
        at_end: The reward of a step that ends an episode; by default the environment's own. Where
            all steps are paid the same, as in CartPole, give 0, or nothing tells an end from none.
    """

    def __init__(self, env: gymnasium.Env, *, at_end: float | None = None) -> None:
        RecordConstructorArgs.__init__(self, at_end=at_end)
        gymnasium.Wrapper.__init__(self, env)
        self.at_end = None if at_end is None else check_number("at_end", at_end)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not terminated:
            return observation, reward, False, truncated, info
        reward = reward if self.at_end is None else self.at_end
        observation, begun = self.env.reset()
        return observation, reward, False, False, {**begun, "ended": info}


def numbered_actions(env: gymnasium.Env) -> gymnasium.Env:
    """Returns an environment with numbers in place of actions that consist of several choices, as
    `drogo.collect` numbers them: `MultiDiscrete`, `MultiBinary`, or a `Tuple` or `Dict` of these
    and `Discrete`, with at most 256 different actions. Any other is returned as it is."""
    actions = all_actions(env.action_space)
    if not actions or isinstance(env.action_space, gymnasium.spaces.Discrete):
        return env
    numbers = gymnasium.spaces.Discrete(len(actions))
    return gymnasium.wrappers.TransformAction(env, lambda k: actions[int(k)], numbers)


def all_actions(space: Any) -> Sequence[Any]:
    """Returns all actions of a space of at most `MOST_ACTIONS` choices, and none of any other."""
    kind = gymnasium.spaces
    choices: list[Any] = []
    if isinstance(space, kind.Discrete):
        return range(int(space.start), int(space.start + space.n))
    if isinstance(space, kind.MultiBinary):
        choices = [range(2)] * math.prod(space.shape)
    elif isinstance(space, kind.MultiDiscrete):
        first = space.start.ravel().tolist()
        choices = list(map(range, first, (space.start + space.nvec).ravel().tolist()))
    elif isinstance(space, kind.Tuple | kind.Dict):
        parts = space.values() if isinstance(space, kind.Dict) else space.spaces
        choices = [all_actions(part) for part in parts]
    if not choices or math.prod(map(len, choices)) > MOST_ACTIONS:
        return ()
    every = itertools.product(*choices)
    if isinstance(space, kind.Tuple):
        return list(every)
    if isinstance(space, kind.Dict):
        return [dict(zip(space.spaces, one, strict=True)) for one in every]
    return [np.array(one, space.dtype).reshape(space.shape) for one in every]
