"""Reads replay buffers of Stable-Baselines3, which is not imported.

A buffer is a ring of slots, one for each step of all its environments. `pos` is the slot that is
written next. With `optimize_memory_usage` there is no array of next observations: a step writes its
next observation into the slot after its own, and the next step writes its observation there. Two
things are lost by that. The last observation of an episode is replaced by the first one of the
next. And the observation of the oldest step, whose slot comes after the newest one in a full
buffer, is replaced by the newest next observation.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from jaxtyping import Bool

from drogo.data import arrays
from drogo.data.step import Key, part_of
from drogo.data.table import merge_equal
from drogo.errors import ArgumentTypeError, DataError

NEEDED = ("observations", "actions", "rewards", "dones", "timeouts", "pos", "full", "buffer_size",
          "observation_space", "action_space", "handle_timeout_termination",
          "optimize_memory_usage")  # fmt: skip
"""The attributes of a `ReplayBuffer` or a `DictReplayBuffer` that are read."""


def recorded(
    buffer: Any, key: Key, terminated: npt.ArrayLike | None, terminal_observation: Any, scaled: bool
) -> dict[str, np.ndarray]:
    """Returns the columns of a buffer; see `Transitions.from_replay_buffer`."""
    if not all(hasattr(buffer, name) for name in NEEDED):
        raise ArgumentTypeError(
            f"buffer is a {type(buffer).__qualname__}; it must be a ReplayBuffer or a "
            "DictReplayBuffer of Stable-Baselines3. (A RolloutBuffer does not hold which steps "
            "reached a terminal state.)",
            argument="buffer",
        )
    slots = np.arange(buffer.pos)
    if buffer.full:
        first = 1 if buffer.optimize_memory_usage else 0  # the oldest step lost its observation
        slots = (buffer.pos + np.arange(first, buffer.buffer_size)) % buffer.buffer_size
    if slots.size == 0:
        raise arrays.wrong(
            "buffer",
            "has no complete step.",
            "Fill it first, with model.learn(...) or model.load_replay_buffer(path): saving and "
            "loading a model does not keep its buffer.",
        )
    done = _flags("dones", buffer.dones, slots)
    over = _terminated(buffer, terminated, slots, done)
    before, after, lost = _observations(buffer, slots, key, done)
    if (lost & over).any():
        after[lost & over] = _stand_in(terminal_observation, key, before)
    kept = ~lost | over
    table, index = merge_equal(np.concatenate([before[kept], after[kept]]))
    state, next_state = np.split(index, 2)
    return {
        "observations": table,
        "state": state,
        "next_state": next_state,
        "terminated": over[kept],
        "truncated": (done & ~over)[kept],
        "reward": np.asarray(buffer.rewards)[slots].ravel()[kept],
        "action": _actions(buffer, slots, scaled)[kept],
    }


def _flags(name: str, values: npt.ArrayLike, slots: np.ndarray) -> Bool[np.ndarray, " n"]:
    chosen = np.asarray(values)[slots]
    return arrays.flags(name, chosen.ravel(), chosen.size)


def _terminated(
    buffer: Any, given: npt.ArrayLike | None, slots: np.ndarray, done: np.ndarray
) -> Bool[np.ndarray, " n"]:
    """Returns which steps reached a terminal state and were not cut off."""
    if given is None:
        if not buffer.handle_timeout_termination and done.any():
            raise arrays.wrong(
                "terminated",
                "is missing: a buffer with handle_timeout_termination=False does not distinguish "
                "episodes that terminated from those that a time limit cut off.",
                "Give it in the shape of buffer.dones; without a time limit it is buffer.dones.",
            )
        return done & ~_flags("timeouts", buffer.timeouts, slots)
    shape, expected = np.shape(given), np.shape(buffer.dones)
    if shape != expected:
        raise arrays.wrong("terminated", f"has shape {shape}; buffer.dones has {expected}.")
    over = _flags("terminated", given, slots)
    wrong = int((over & ~done).sum())
    if wrong:
        raise arrays.wrong("terminated", f"is True at {wrong} steps where buffer.dones is 0.")
    return over


def _observations(
    buffer: Any, slots: np.ndarray, key: Key, done: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Bool[np.ndarray, " n"]]:
    """Returns observations, next observations, and which of the latter were overwritten."""

    def flat(observations: Any, chosen: np.ndarray) -> np.ndarray:
        original = _as_observed(observations, buffer.observation_space, chosen)
        part = part_of(original, key, batch=2)
        return part.reshape(-1, *part.shape[2:])

    before = flat(buffer.observations, slots)
    if not buffer.optimize_memory_usage:
        return before, flat(buffer.next_observations, slots), np.zeros_like(done)
    newest = np.repeat(slots == (buffer.pos - 1) % buffer.buffer_size, done.size // slots.size)
    return before, flat(buffer.observations, (slots + 1) % buffer.buffer_size), done & ~newest


def _as_observed(values: Any, space: gymnasium.Space, slots: np.ndarray) -> Any:
    """Returns the observations of some slots as the environment returned them.

    A buffer holds the numbers of a `Discrete` space as vectors of length 1, and images with the
    channels first, as `VecTransposeImage` makes them for the networks of Stable-Baselines3.
    """
    if isinstance(space, spaces.Dict):
        return {name: _as_observed(part, space[name], slots) for name, part in values.items()}
    array = np.asarray(values)[slots]
    if isinstance(space, spaces.Discrete):
        return array[..., 0]
    shape = space.shape or ()
    if array.dtype == np.uint8 and len(shape) == 3 and shape[0] < min(shape[1:]):
        return np.moveaxis(array, 2, -1)
    return array


def _stand_in(given: Any, key: Key, before: np.ndarray) -> np.ndarray:
    if given is None:
        raise arrays.wrong(
            "terminal_observation",
            "is missing: a buffer with optimize_memory_usage=True loses the last observations of "
            "episodes.",
            "Give one observation, which stands for every terminal state, or make the buffer "
            "with optimize_memory_usage=False.",
        )
    observation, expected = part_of(given, key), before.shape[1:]
    if observation.shape != expected:
        problem = f"has shape {observation.shape}; the observations have {expected}."
        raise arrays.wrong("terminal_observation", problem)
    return arrays.as_type("the replay buffer", observation, before.dtype)


def _actions(buffer: Any, slots: np.ndarray, scaled: bool) -> np.ndarray:
    """Returns the actions in the numbers of their space."""
    space, stored = buffer.action_space, np.asarray(buffer.actions)[slots]
    rows = stored.reshape(-1, *stored.shape[2:])
    if isinstance(space, spaces.Discrete):
        return rows[:, 0]
    if not isinstance(space, spaces.Box):
        return rows
    rows = rows.reshape(len(rows), *space.shape)
    if not scaled:
        return rows
    outside = np.abs(rows).reshape(len(rows), -1).max(axis=1, initial=0.0) > 1 + 1e-4
    if outside.any() or not space.is_bounded():
        raise DataError(
            f"the action of step {int(outside.argmax())} is {rows[outside.argmax()]}, but the "
            f"algorithms of Stable-Baselines3 scale actions of a bounded Box ({space}) to [-1, 1].",
            remedy="Give scaled_actions=False if these are as the environment took them.",
            argument="scaled_actions",
        )
    return space.low + (rows + 1) / 2 * (space.high - space.low)
