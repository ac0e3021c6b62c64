"""Transitions from an environment, under its default (uniform random) policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from drogo.data.table import TableBuilder
from drogo.data.transitions import Transitions
from drogo.errors import AlreadyExists, ArgumentError, DataError
from drogo.mdp import FiniteWorld, HasFiniteWorld

Policy = Callable[[Any, np.random.Generator], Any]
"""`policy(observation, rng)` gives an action; of a vector of environments, both in batches."""
Start = Callable[[gymnasium.Env, np.random.Generator], Any]
"""`start(env, rng)` puts the environment into a state of its choice and gives the observation."""

MOST_WALKERS = 1000
"""Episodes walked side by side in a finite world: fewer if they could not end."""
HARMLESS = (
    gymnasium.wrappers.OrderEnforcing,
    gymnasium.wrappers.PassiveEnvChecker,
)
"""Wrappers that change nothing an agent sees, so that a finite world may be sampled directly."""


class Step(NamedTuple):
    """One step, as the environment tells it."""

    observation: Any
    action: Any
    reward: float
    next_observation: Any
    terminated: bool
    truncated: bool
    info: dict[str, Any]


OfStep = Callable[[Step], float]


def collect(
    env: gymnasium.Env | VectorEnv,
    n: int,
    *,
    seed: int,
    start: str | Start | None = None,
    policy: Policy | None = None,
    reward: float | OfStep | None = None,
    terminal_value: float | OfStep | None = None,
    key: str | None = None,
    merge: bool | None = None,
    file: str | Path | None = None,
) -> Transitions:
    """`n` transitions of `env`, a Gymnasium environment or a vector of them.

    - `start="uniform"`: each transition starts anew in a state drawn uniformly (the paper's way).
      Needs an environment that knows its states: drogo's worlds, `MiniGridWorld`.
    - `start="reset"`: whole episodes, one after another.
    - `start=f`: each transition starts where `f(env, rng)` puts the environment.
    - By default: uniform where that is possible, episodes elsewhere.

    `policy` is uniform over the actions unless given. `reward` replaces the environment's: a
    constant step cost, or a function of a `Step`. `terminal_value` is the reward of an end itself,
    in the same unit (`v` there is `terminal_value / lam`): one number, or a function of the `Step`
    that ended; 0 unless given, or what `info["terminal_value"]` says (which is then no part of the
    step's reward). `key` chooses a part of `Dict` observations.

    Equal observations are merged as long as that pays (`merge=True`, `False` to insist). `file`
    keeps the observations in a new file instead of memory, for data larger than that.
    """
    if n < 1:
        raise ArgumentError(f"n is {n}; at least one transition is needed.")
    if isinstance(start, str) and start not in ("uniform", "reset"):
        raise ArgumentError(f"start is {start!r}; choose 'uniform', 'reset', or give a function.")
    if isinstance(reward, int | float) and not reward < 0:
        raise ArgumentError(f"reward is {reward}; a step cost is negative.")
    rng = np.random.default_rng(seed)
    known = _knows_its_states(env)
    plain = policy is None and terminal_value is None and key is None and not callable(reward)
    if known is not None and plain and not callable(start) and file is None:
        return _from_finite_world(known, n, rng, start or "uniform", reward)
    if start == "uniform":
        raise ArgumentError(
            "start='uniform' needs an environment that knows its states, with the default policy "
            f"and rewards, not {env}. Use start='reset' for episodes, or a function start(env, "
            "rng) -> observation."
        )
    if isinstance(env, VectorEnv):
        if callable(start):
            raise ArgumentError("start=f is for a single environment, not for a vector of them.")
        steps = _steps_of_many(env, rng, policy, key)
    else:
        steps = _steps_of_one(env, rng, start, policy, key)
    return _gather(steps, n, reward, terminal_value, TableBuilder(merge, _new_file(file)))


def _new_file(file: str | Path | None) -> Path | None:
    if file is None:
        return None
    path = Path(file)
    if path.exists():
        raise AlreadyExists(f"{path} is there already; give a new file for the observations.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _knows_its_states(env: Any) -> HasFiniteWorld | None:
    while isinstance(env, HARMLESS):
        env = env.env
    return env if isinstance(env, HasFiniteWorld) else None


def _from_finite_world(
    env: HasFiniteWorld, n: int, rng: np.random.Generator, start: str, reward: Any
) -> Transitions:
    """Indices only; the table of observations is made once."""
    world = env.finite_world()
    if start == "uniform":
        state = rng.choice(np.flatnonzero(~world.terminal), size=n)
        following = world.next_state[state, rng.integers(0, world.next_state.shape[1], size=n)]
        truncated = np.zeros(n, dtype=bool)
    else:
        state, following, truncated = _walk(world, n, rng)
    terminated = world.terminal[following]
    return Transitions.from_table(
        env.all_observations(),
        state,
        following,
        world.reward[state] if reward is None else np.full(n, reward),
        terminated,
        truncated,
        np.where(terminated, world.reward[following], 0.0),
    )


def _walk(
    world: FiniteWorld, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random episodes of many walkers side by side."""
    walkers = min(max(1, n // world.step_limit), MOST_WALKERS)
    here = rng.choice(world.begin, size=walkers)
    age = np.zeros(walkers, dtype=np.int64)
    parts = []
    for _ in range(-(-n // walkers)):
        action = rng.integers(0, world.next_state.shape[1], size=walkers)
        there = world.next_state[here, action]
        age += 1
        cut = (age >= world.step_limit) & ~world.terminal[there]
        parts.append((here, there, cut))
        over = cut | world.terminal[there]
        here = np.where(over, rng.choice(world.begin, size=walkers), there)
        age[over] = 0
    state, following, truncated = (
        np.concatenate(column)[:n] for column in zip(*parts, strict=True)
    )
    return state, following, truncated


def _steps_of_one(
    env: gymnasium.Env,
    rng: np.random.Generator,
    start: str | Start | None,
    policy: Policy | None,
    key: str | None,
) -> Iterator[tuple[int, Step]]:
    """Any environment, one step at a time, for ever; 0 is its number."""
    env.action_space.seed(int(rng.integers(2**31)))
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    over, seen = False, None
    while True:
        if callable(start):
            observation, seen = start(env, rng), None
        elif over:
            observation, seen = env.reset()[0], None
        # Copies: some environments write each observation into the array of the last.
        seen = _copy(_part(observation, key)) if seen is None else seen
        action = env.action_space.sample() if policy is None else policy(observation, rng)
        following, reward, terminated, truncated, info = env.step(action)
        arrived = _copy(_part(following, key))
        step = Step(seen, action, float(reward), arrived, bool(terminated), bool(truncated), info)
        yield 0, step
        observation, seen, over = following, arrived, terminated or truncated


def _steps_of_many(
    envs: VectorEnv, rng: np.random.Generator, policy: Policy | None, key: str | None
) -> Iterator[tuple[int, Step]]:
    """A vector of environments, in any of Gymnasium's ways of starting the next episode."""
    mode = envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    envs.action_space.seed(int(rng.integers(2**31)))
    observations, _ = envs.reset(seed=int(rng.integers(2**31)))
    count = envs.num_envs
    over = np.zeros(count, dtype=bool)
    seen: list[Any] = [None] * count
    while True:
        if mode == AutoresetMode.DISABLED and over.any():
            observations, _ = envs.reset(options={"reset_mask": over})
        parts = _part(observations, key)
        seen = [_copy(parts[k]) if seen[k] is None else seen[k] for k in range(count)]
        actions = envs.action_space.sample() if policy is None else policy(observations, rng)
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        each = list(gymnasium.vector.utils.iterate(envs.action_space, actions))
        parts = _part(observations, key)
        ended_here = infos.get("_final_obs", np.zeros(count, dtype=bool))
        for k in range(count):
            if mode == AutoresetMode.NEXT_STEP and over[k]:
                seen[k] = None  # this step was the reset, and no step of an episode
                continue
            arrived = _copy(_part(infos["final_obs"][k], key) if ended_here[k] else parts[k])
            yield k, Step(
                seen[k], each[k], float(rewards[k]), arrived,
                bool(terminated[k]), bool(truncated[k]), _info_of(infos, k),
            )  # fmt: skip
            seen[k] = None if terminated[k] or truncated[k] else arrived
        over = np.asarray(terminated | truncated)


def _info_of(infos: dict[str, Any], k: int) -> dict[str, Any]:
    """One environment's part of a vector's infos."""
    told = infos
    if "_final_info" in infos and infos["_final_info"][k]:
        told = infos["final_info"]
    return {
        name: values[k]
        for name, values in told.items()
        if not name.startswith("_") and f"_{name}" in told and told[f"_{name}"][k]
    }


def _part(observation: Any, key: str | None) -> Any:
    if isinstance(observation, dict):
        if key is None:
            raise DataError(
                f"the observation is a Dict of {', '.join(map(str, observation))}: choose the part "
                f"to learn from, for example key={next(iter(observation))!r}."
            )
        if key not in observation:
            raise DataError(
                f"key is {key!r}; the observation has {', '.join(map(str, observation))}."
            )
        return observation[key]
    if key is not None:
        raise DataError(f"key is {key!r}, but the observation is no Dict.")
    if isinstance(observation, tuple):
        raise DataError(
            "the observation is a tuple, not an array. Choose one part of it with "
            "gymnasium.wrappers.TransformObservation."
        )
    return observation


def _copy(observation: Any) -> np.ndarray:
    return np.array(observation)


def _number(given: Any, step: Step) -> float:
    value: Any = given(step) if callable(given) else given
    return float(value)


def _gather(
    steps: Iterator[tuple[int, Step]], n: int, reward: Any, terminal_value: Any, table: TableBuilder
) -> Transitions:
    """The first `n` steps, as a table and indices into it."""
    state, following = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    rewards, ends = np.empty(n), np.zeros(n)
    terminated, truncated = np.empty(n, dtype=bool), np.empty(n, dtype=bool)
    arrived: dict[int, tuple[Any, int]] = {}
    for k, (which, step) in zip(range(n), steps, strict=False):
        # Within an episode the next step's observation is this one's: one row, not two.
        last, row = arrived.get(which, (None, -1))
        state[k] = row if last is step.observation else table.add(step.observation)
        following[k] = table.add(step.next_observation)
        arrived[which] = step.next_observation, int(following[k])
        rewards[k] = step.reward
        if step.terminated:
            told = step.info.get("terminal_reward")
            if told is not None:
                ends[k] = told
                rewards[k] -= told
            if terminal_value is not None:
                ends[k] = _number(terminal_value, step)
        if reward is not None:
            rewards[k] = _number(reward, step)
        terminated[k], truncated[k] = step.terminated, step.truncated
    return Transitions.from_table(
        table.finish(), state, following, rewards, terminated, truncated, ends
    )
