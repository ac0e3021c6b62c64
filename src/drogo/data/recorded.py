"""Reads steps that were recorded elsewhere: replay buffers, episodes, and data sets of Minari.

Each reader returns the columns that were recorded, with actions in the numbers of their space, and
`complete` makes them the arguments of `Transitions.from_table`. SB3 is not imported.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from jaxtyping import Bool, Shaped

from drogo.data import arrays
from drogo.data.arrays import wrong
from drogo.data.index import merge_equal
from drogo.data.step import Key, Keys, Step, StepNumbers, as_key, part_of
from drogo.errors import ArgumentError, ArgumentTypeError, MissingFile, import_extra

Columns = dict[str, Any]
Space = spaces.Space | None
ROUNDING = 1e-4  # The share of the width of a space by which a vector may lie outside.
BUFFER = ("observations", "actions", "rewards", "dones", "timeouts", "pos", "full", "buffer_size",
          "observation_space", "action_space", "handle_timeout_termination",
          "optimize_memory_usage")  # fmt: skip
"""The attributes of a `ReplayBuffer` or a `DictReplayBuffer` that are read."""
PER_STEP = {"actions": "action", "rewards": "reward", "behaviour": "behaviour"}
"""The optional fields of an episode that have an entry for each step, and the columns they make."""


def complete(columns: Columns, space: Space, numbers: StepNumbers, key: Keys) -> Columns:
    """Returns the arguments of `Transitions.from_table` for recorded steps, with `numbers` in place
    of the recorded ones. Without an action space, whole numbers count from 0."""
    numbers = numbers.checked()
    if numbers.reward is None and "reward" not in columns:
        raise wrong("reward", "was not recorded.", "Give a step cost: reward=-1.0.")
    if numbers.behaviour is not None and "action" not in columns:
        problem = "behaviour is given, but no actions were recorded."
        raise ArgumentError(problem, argument="behaviour")
    terminated, value = columns["terminated"], numbers.terminal_reward
    if callable(value):
        value = _each(columns, value, np.flatnonzero(terminated).tolist())
    values = columns.get("terminal_reward") if value is None else value
    completed = {**columns, "origin": {"key": as_key(key)}}
    if values is not None:
        completed |= {"terminal_reward": np.where(terminated, values, 0.0), "outcome": None}
    else:
        completed.setdefault("outcome", columns.get("reward"))
    for name, given in (("reward", numbers.reward), ("behaviour", numbers.behaviour)):
        if given is not None:
            completed[name] = _each(columns, given) if callable(given) else given
    if "action" in columns:
        completed |= action_columns(columns["action"], space, checked=True)
    return completed


def _each(columns: Columns, function: Callable[[Step], float], which: Any = None) -> np.ndarray:
    """Returns the number that a function returns for each step, or for some of them and else 0."""
    n, table = len(columns["state"]), columns["observations"]
    numbers, rewards = np.zeros(n), columns.get("reward", np.full(n, np.nan))
    for k in range(n) if which is None else which:
        before, after = table[columns["state"][k]], table[columns["next_state"][k]]
        action = columns["action"][k] if "action" in columns else None
        over, cut = bool(columns["terminated"][k]), bool(columns["truncated"][k])
        numbers[k] = function(Step(before, action, float(rewards[k]), after, over, cut, {}))
    return numbers


def action_columns(taken: npt.ArrayLike, space: Space, *, checked: bool) -> Columns:
    """Returns `action`, counted from 0, with `n_actions` and `default` if the space has them."""
    action = arrays.plain("action", taken)
    n, kind = len(action), f"has shape {action.shape} and type {action.dtype}; {space} needs"
    if space is None:
        return {"action": action if action.ndim == 1 else action.reshape(n, -1)}
    if isinstance(space, spaces.Discrete):
        if action.ndim != 1 or action.dtype.kind not in "iu":
            raise wrong("action", f"{kind} one whole number for each transition.")
        first, count = int(space.start), int(space.n)
        outside, default = (action < first) | (action >= first + count), 1 / count
        columns = {"action": action.astype(np.int64) - first, "n_actions": count}
    elif isinstance(space, spaces.Box):
        if action.shape[1:] != space.shape:
            raise wrong("action", f"{kind} one array of shape {space.shape} for each.")
        width = np.where(space.bounded_below & space.bounded_above, space.high - space.low, 1.0)
        low, high = space.low - ROUNDING * width, space.high + ROUNDING * width
        outside = ~((action >= low) & (action <= high)).reshape(n, -1).all(axis=1)
        extent = space.high.astype(np.float64) - space.low.astype(np.float64)
        default = 1 / float(np.where(extent > 0, extent, 1.0).prod())  # a point has the extent 1
        columns = {"action": action.reshape(n, -1)}
    else:
        remedy = "Number the actions, for example with numpy.ravel_multi_index."
        raise wrong("action", f"is of a {space}; Discrete and Box are supported.", remedy)
    if checked and outside.any():
        at = int(outside.argmax())
        problem = f"of transition {at} is {action[at]}, which is not in {space}."
        remedy = "If the environment clips or wraps its actions, do the same to these first."
        raise wrong("action", problem, remedy)
    is_bounded = isinstance(space, spaces.Discrete) or space.is_bounded()
    return {**columns, "default": np.full(n, default)} if is_bounded else columns


# Replay buffers of Stable-Baselines3
#
# A buffer is a ring of slots, one for each step of all its environments, of which `pos` is written
# next. With `optimize_memory_usage`, a next observation is only in the slot after its own. So the
# last observation of an episode is replaced by the first one of the next, and the observation of
# the oldest step of a full buffer by the newest next observation.


def of_buffer(
    buffer: Any, key: Keys, terminated: npt.ArrayLike | None, stand_in: Any, scaled: bool
) -> dict[str, np.ndarray]:
    """Returns the columns of a buffer; see `Transitions.from_replay_buffer`."""
    if not all(hasattr(buffer, name) for name in BUFFER):
        problem = f"buffer is a {type(buffer).__qualname__}; give a (Dict)ReplayBuffer of SB3."
        raise ArgumentTypeError(problem, argument="buffer")
    slots = np.arange(buffer.pos)
    if buffer.full:
        first = 1 if buffer.optimize_memory_usage else 0  # the oldest step lost its observation
        slots = (buffer.pos + np.arange(first, buffer.buffer_size)) % buffer.buffer_size
    if slots.size == 0:
        remedy = "Fill it first, with model.learn(...) or model.load_replay_buffer(path): a saved "
        raise wrong("buffer", "has no complete step.", f"{remedy}model does not keep its buffer.")
    done = _chosen("dones", buffer.dones, slots)
    if terminated is None:
        if not buffer.handle_timeout_termination and done.any():
            problem = "is missing: handle_timeout_termination=False leaves time limits in dones."
            remedy = "Give it in the shape of buffer.dones, or if there is no limit, buffer.dones."
            raise wrong("terminated", problem, remedy)
        over = done & ~_chosen("timeouts", buffer.timeouts, slots)
    else:
        shape, expected = np.shape(terminated), np.shape(buffer.dones)
        if shape != expected:
            raise wrong("terminated", f"has shape {shape}; buffer.dones has {expected}.")
        over = _chosen("terminated", terminated, slots)
        if (over & ~done).any():
            raise wrong("terminated", f"is True at {(over & ~done).sum()} steps that are not done.")
    key = as_key(key)
    before, lost = _observations(buffer.observations, buffer, key, slots), np.zeros_like(done)
    if stand_in is not None:
        _stand_in(stand_in, key, before)  # is checked even where it is not needed
    if buffer.optimize_memory_usage:
        after = _observations(buffer.observations, buffer, key, (slots + 1) % buffer.buffer_size)
        newest = slots == (buffer.pos - 1) % buffer.buffer_size
        lost = done & ~np.repeat(newest, done.size // slots.size)
        if (lost & over).any():
            after[lost & over] = _stand_in(stand_in, key, before)
    else:
        after = _observations(buffer.next_observations, buffer, key, slots)
    space, stored = buffer.action_space, np.asarray(buffer.actions)[slots]
    actions = stored.reshape(-1, *stored.shape[2:])
    if isinstance(space, spaces.Discrete):
        actions = actions[:, 0]
    elif isinstance(space, spaces.Box):
        actions = actions.reshape(len(actions), *space.shape)
    if isinstance(space, spaces.Box) and scaled:
        size = np.abs(actions).reshape(len(actions), -1).max(axis=1, initial=0.0)
        if (size > 1 + ROUNDING).any() or not space.is_bounded():
            at = int((size > 1 + ROUNDING).argmax())
            problem = f"is True, but the action of step {at} is {actions[at]}."
            remedy = "Give scaled_actions=False if actions are as the environment took them."
            raise wrong("scaled_actions", problem, remedy)
        actions = space.low + (actions + 1) / 2 * (space.high - space.low)
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
        "action": actions[kept],
        "environment": np.arange(done.size)[kept] % (done.size // slots.size),
    }


def _chosen(name: str, values: npt.ArrayLike, slots: np.ndarray) -> Bool[np.ndarray, " n"]:
    chosen = np.asarray(values)[slots].ravel()
    return arrays.flags(name, chosen, chosen.size)


def _observations(values: Any, buffer: Any, key: Key, slots: np.ndarray) -> np.ndarray:
    part = part_of(_as_observed(values, buffer.observation_space, slots), key, batch=2)
    return part.reshape(-1, *part.shape[2:])


def _as_observed(values: Any, space: spaces.Space, slots: np.ndarray) -> Any:
    """Returns the observations of some slots as the environment returned them. A buffer holds
    numbers of a `Discrete` space as vectors of length 1, and images with the channels first."""
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
        problem = "is missing: optimize_memory_usage=True loses the last observations of episodes."
        remedy = "Give one observation, which stands for every terminal state."
        raise wrong("terminal_observation", problem, remedy)
    observation, expected = part_of(given, key), before.shape[1:]
    if observation.shape != expected:
        problem = f"has shape {observation.shape}; the observations have {expected}."
        raise wrong("terminal_observation", problem)
    return arrays.as_type("the replay buffer", observation, before.dtype)


# Episodes


def of_episodes(trajectories: Iterable[Any], key: Keys) -> dict[str, np.ndarray]:
    """Returns the columns of episodes, one after the other; see `Transitions.from_trajectories`."""
    if isinstance(trajectories, Mapping | str) or not isinstance(trajectories, Iterable):
        problem = f"trajectories is a {type(trajectories).__qualname__}; give a list of episodes."
        raise ArgumentTypeError(problem, argument="trajectories")
    key = as_key(key)
    episodes = [_episode(number, episode, key) for number, episode in enumerate(trajectories)]
    if not episodes:
        raise wrong("trajectories", "is empty; give at least one.")
    columns = {name: _joined(name, episodes) for name in episodes[0]}
    lengths = np.array([len(episode["terminated"]) for episode in episodes])
    last = np.cumsum(lengths + 1) - 1
    left = np.ones(last[-1] + 1, dtype=bool)
    left[last] = False  # an episode has one observation more than steps
    table, index = merge_equal(columns.pop("observations"))
    state, next_state = index[left], index[1:][left[:-1]]
    named = {PER_STEP.get(name, name): column for name, column in columns.items()}
    return {"observations": table, "state": state, "next_state": next_state, **named}


def _episode(number: int, episode: Any, key: Key) -> dict[str, np.ndarray]:
    get = episode.get if isinstance(episode, Mapping) else lambda name: getattr(episode, name, None)
    values, name = get("observations"), f"observations of episode {number}"
    if values is None or isinstance(values, Number):
        raise wrong(name, f"is {values!r}, not an array.")
    if not isinstance(values, dict):
        values = arrays.real(name, values)
    observations = arrays.plain(name, part_of(values, key, batch=1))
    n = len(observations) - 1 if observations.ndim else 0
    if n < 1:
        raise wrong(name, f"has shape {observations.shape}; a step needs two of them.")
    parts = {"observations": observations}
    for name in PER_STEP:
        if get(name) is not None:
            parts[name] = _per_step(number, name, get(name), n)
    parts["terminated"] = terminated = _last_flag(number, "terminated", get("terminated"), n)
    truncated = not terminated[-1] if get("truncated") is None else get("truncated")
    parts["truncated"] = _last_flag(number, "truncated", truncated, n)
    return parts


def _per_step(number: int, name: str, values: Any, n: int) -> Shaped[np.ndarray, "n ..."]:
    title = f"{name} of episode {number}"
    array = arrays.plain(title, values)
    if array.shape[:1] != (n,) or (name != "actions" and array.ndim > 1):
        problem = f"has shape {array.shape}; expected one for each step of {n + 1} observations."
        remedy = "If the observation after the last action is missing, leave that action out."
        raise wrong(title, problem, remedy)
    return array


def _last_flag(number: int, name: str, values: Any, n: int) -> Bool[np.ndarray, " n"]:
    """Returns a flag for each step, of which only the last one may be True."""
    title = f"{name} of episode {number}"
    if values is None:
        remedy = "Give True if its last step reached a terminal state, otherwise False."
        raise wrong(title, "is missing.", remedy)
    if not np.iterable(values):
        values = [False] * (n - 1) + [values]
    flags = arrays.flags(title, _per_step(number, name, values, n), n)
    if flags[:-1].any():
        problem = f"is True at step {int(flags.argmax())}, and the episode goes on."
        raise wrong(title, problem, "Give each episode as an entry of the list.")
    return flags


def _joined(name: str, episodes: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Returns one column of all episodes, which must have the same shape and type in each."""
    first = episodes[0][name]
    for number, episode in enumerate(episodes):
        missing = min(set(episode) ^ set(episodes[0]), default=None)
        if missing is not None:
            raise wrong(missing, f"is in only one of the episodes 0 and {number}.")
        part = episode[name]
        if (part.shape[1:], part.dtype) != (first.shape[1:], first.dtype):
            kinds = (f"shape {one.shape[1:]} and type {one.dtype}" for one in (part, first))
            raise wrong(name, f"of episode {number} has {'; in episode 0 it has '.join(kinds)}.")
    return np.concatenate([episode[name] for episode in episodes])


def of_minari(dataset: Any) -> tuple[Iterator[Columns], spaces.Space]:
    """Returns the episodes of a data set of Minari or of its id, and the space of their actions."""
    if isinstance(dataset, str):
        minari = import_extra("minari", "Minari", extra="minari")
        try:
            dataset = minari.load_dataset(dataset)
        except FileNotFoundError as error:
            problem = f"there is no data set {dataset!r} on this machine ({error})."
            remedy = f"Run `minari download {dataset}`, or set MINARI_DATASETS_PATH."
            raise MissingFile(problem, remedy=remedy, argument="dataset") from error
    if not hasattr(dataset, "iterate_episodes"):
        problem = f"dataset is a {type(dataset).__qualname__}; give a MinariDataset or an id."
        raise ArgumentTypeError(problem, argument="dataset")
    space, names = dataset.observation_space, ("observations", "actions", "rewards")
    if isinstance(space, spaces.Tuple | spaces.Text):
        remedy = "Make arrays of its episodes and use Transitions.from_trajectories."
        raise wrong("dataset", f"has observations in {space}, not numbers.", remedy)
    episodes = (
        {name: getattr(episode, name) for name in names}
        | {"terminated": episode.terminations, "truncated": episode.truncations}
        for episode in dataset.iterate_episodes()
    )
    return episodes, dataset.action_space
