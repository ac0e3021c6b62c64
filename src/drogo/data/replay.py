"""Replay buffers of Stable-Baselines3, which is not imported: what counts is what a buffer holds.

A buffer is a ring of slots, one for each step of all its environments. `pos` is the slot that is
written next. With `optimize_memory_usage` there is no array of next observations: a step writes its
next observation into the slot after its own, and the next step writes its own observation there.
Two things are lost by that. The last observation of an episode is replaced by the first one of the
next. And the observation of the oldest step, whose slot comes after the newest one in a full
buffer, is replaced by the newest next observation.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from jaxtyping import Bool, Int

from drogo.data import arrays
from drogo.data.parts import Key, part_of
from drogo.data.recorded import Recorded
from drogo.data.table import merge_equal
from drogo.errors import ArgumentTypeError, DataError


@runtime_checkable
class ReplayBuffer(Protocol):
    """What a `ReplayBuffer` or a `DictReplayBuffer` of Stable-Baselines3 holds."""

    observations: Any
    actions: np.ndarray
    rewards: np.ndarray
    dones: np.ndarray
    timeouts: np.ndarray
    pos: int
    full: bool
    buffer_size: int
    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    handle_timeout_termination: bool
    optimize_memory_usage: bool


def recorded(
    buffer: object,
    key: Key,
    terminated: npt.ArrayLike | None,
    terminal_observation: Any,
    scaled: bool,
) -> Recorded:
    """Returns the steps of a buffer, from the oldest to the newest; see
    `Transitions.from_replay_buffer`."""
    if not isinstance(buffer, ReplayBuffer):
        raise ArgumentTypeError(
            f"buffer is a {type(buffer).__qualname__}; it must be a ReplayBuffer or a "
            "DictReplayBuffer of Stable-Baselines3. (A RolloutBuffer does not hold which steps "
            "reached a terminal state.)"
        )
    slots = _slots(buffer)
    done = _flags("dones", buffer.dones, slots)
    over = _terminated(buffer, terminated, slots, done)
    before, after, lost = _observations(buffer, slots, key, done)
    if (lost & over).any():
        stand_in = _stand_in(terminal_observation, key, before, lost & over)
        after[lost & over] = stand_in
    kept = ~lost | over
    table, index = merge_equal(np.concatenate([before[kept], after[kept]]))
    state, next_state = np.split(index, 2)
    return Recorded(
        table,
        state,
        next_state,
        over[kept],
        (done & ~over)[kept],
        np.asarray(buffer.rewards)[slots].ravel()[kept],
        _actions(buffer, slots, scaled)[kept],
        action_space=buffer.action_space,
    )


def _slots(buffer: ReplayBuffer) -> Int[np.ndarray, " slots"]:
    """Returns the slots of complete steps, the oldest first."""
    if not buffer.full:
        slots = np.arange(buffer.pos)
    else:
        first = 1 if buffer.optimize_memory_usage else 0  # the oldest step lost its observation
        slots = (buffer.pos + np.arange(first, buffer.buffer_size)) % buffer.buffer_size
    if slots.size == 0:
        raise DataError(
            "the replay buffer has no complete step.",
            remedy="Fill it first, with model.learn(...) or model.load_replay_buffer(path): "
            "saving and loading a model does not keep its buffer.",
        )
    return slots


def _flags(name: str, values: npt.ArrayLike, slots: np.ndarray) -> Bool[np.ndarray, " n"]:
    chosen = np.asarray(values)[slots]
    return arrays.flags(name, chosen.ravel(), chosen.size)


def _terminated(
    buffer: ReplayBuffer, given: npt.ArrayLike | None, slots: np.ndarray, done: np.ndarray
) -> Bool[np.ndarray, " n"]:
    """Returns which steps reached a terminal state, in contrast to those that were cut off."""
    if given is None:
        if not buffer.handle_timeout_termination and done.any():
            raise DataError(
                "the replay buffer was made with handle_timeout_termination=False, so it does not "
                "tell episodes that terminated from those that a time limit cut off.",
                remedy="Give terminated=, in the shape of buffer.dones; terminated=buffer.dones if "
                "there is no time limit.",
            )
        return done & ~_flags("timeouts", buffer.timeouts, slots)
    if np.shape(given) != np.shape(buffer.dones):
        raise DataError(
            f"terminated has shape {np.shape(given)}; expected that of buffer.dones, "
            f"{np.shape(buffer.dones)}."
        )
    over = _flags("terminated", given, slots)
    if (over & ~done).any():
        raise DataError(
            f"terminated is True at {int((over & ~done).sum())} steps after which the episode went "
            "on (buffer.dones is 0 there)."
        )
    return over


def _observations(
    buffer: ReplayBuffer, slots: np.ndarray, key: Key, done: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Bool[np.ndarray, " n"]]:
    """Returns observations, next observations, and which of the latter were overwritten."""

    def flat(observations: Any, chosen: np.ndarray) -> np.ndarray:
        seen = _as_seen(observations, buffer.observation_space, chosen)
        part = part_of(seen, key, batch=2)
        return part.reshape(-1, *part.shape[2:])

    before = flat(buffer.observations, slots)
    if not buffer.optimize_memory_usage:
        after = getattr(buffer, "next_observations")  # noqa: B009 - not in the other layout
        return before, flat(after, slots), np.zeros_like(done)
    newest = np.repeat(slots == (buffer.pos - 1) % buffer.buffer_size, done.size // slots.size)
    return before, flat(buffer.observations, (slots + 1) % buffer.buffer_size), done & ~newest


def _as_seen(values: Any, space: gymnasium.Space, slots: np.ndarray) -> Any:
    """Returns observations of some slots as the environment made them.

    The numbers of a `Discrete` space are kept as vectors of length 1, and images with the channels
    first, as `VecTransposeImage` makes them for networks of Stable-Baselines3.
    """
    if isinstance(space, spaces.Dict):
        return {name: _as_seen(part, space[name], slots) for name, part in values.items()}
    array = np.asarray(values)[slots]
    if isinstance(space, spaces.Discrete):
        return array[..., 0]
    shape = space.shape or ()
    if array.dtype == np.uint8 and len(shape) == 3 and shape[0] < min(shape[1:]):
        return np.moveaxis(array, 2, -1)
    return array


def _stand_in(given: Any, key: Key, before: np.ndarray, where: np.ndarray) -> np.ndarray:
    if given is None:
        raise DataError(
            f"the last observations of {int(where.sum())} terminated episodes are lost: with "
            "optimize_memory_usage=True the first observation of the next episode is in their "
            "place.",
            remedy="Make the buffer with optimize_memory_usage=False, or give "
            "terminal_observation=, which stands for every terminal state.",
        )
    observation = part_of(given, key)
    if observation.shape != before.shape[1:]:
        raise DataError(
            f"terminal_observation has shape {observation.shape}; the observations have "
            f"{before.shape[1:]}."
        )
    return arrays.as_type("the replay buffer", observation, before.dtype)


def _actions(buffer: ReplayBuffer, slots: np.ndarray, scaled: bool) -> np.ndarray:
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
    if not space.is_bounded():
        raise DataError(
            f"the actions are a {space}, which cannot have been scaled to [-1, 1].",
            remedy="Give scaled_actions=False.",
        )
    outside = np.abs(rows).reshape(len(rows), -1).max(axis=1, initial=0.0) > 1 + 1e-4
    if outside.any():
        raise DataError(
            f"the action of step {int(outside.argmax())} is {rows[outside.argmax()]}, but the "
            "algorithms of Stable-Baselines3 store actions of a Box scaled to [-1, 1].",
            remedy="Give scaled_actions=False if these are as the environment took them.",
        )
    return space.low + (rows + 1) / 2 * (space.high - space.low)
