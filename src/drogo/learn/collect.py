"""Transitions from an environment, under its default (uniform random) policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from drogo.gridworld.environment import GridWorldEnv
from drogo.gridworld.world import GridWorld
from drogo.learn.transitions import DataError, Transitions

Policy = Callable[[Any, np.random.Generator], Any]
"""`policy(observation, rng)` gives an action."""
Start = Callable[[gymnasium.Env, np.random.Generator], Any]
"""`start(env, rng)` puts the environment into a state of its choice and gives the observation."""

MOST_WALKERS = 1000
"""Episodes walked side by side in a grid world: fewer if they could not end."""
HARMLESS = (
    gymnasium.wrappers.OrderEnforcing,
    gymnasium.wrappers.PassiveEnvChecker,
)
"""Wrappers that change nothing an agent sees, so that a grid world may be sampled directly."""


def collect(
    env: gymnasium.Env,
    n: int,
    *,
    seed: int,
    start: str | Start = "uniform",
    policy: Policy | None = None,
    reward: float | None = None,
) -> Transitions:
    """`n` transitions of `env`.

    - `start="uniform"`: each transition starts anew in a state drawn uniformly (the paper's way;
      our worlds only, others have no notion of it).
    - `start="reset"`: whole episodes, one after another.
    - `start=f`: each transition starts where `f(env, rng)` puts the environment.

    `policy` is uniform over the actions unless given. `reward` replaces the environment's by a
    constant step cost.
    """
    if n < 1:
        raise ValueError(f"n is {n}; at least one transition is needed.")
    if isinstance(start, str) and start not in ("uniform", "reset"):
        raise ValueError(f"start is {start!r}; choose 'uniform', 'reset', or give a function.")
    if reward is not None and not reward < 0:
        raise ValueError(f"reward is {reward}; a step cost is negative.")
    rng = np.random.default_rng(seed)
    grid = _plain_grid_world(env)
    if grid is not None and policy is None and isinstance(start, str):
        return _from_grid_world(grid, n, rng, start, reward)
    if start == "uniform":
        raise ValueError(
            f"start='uniform' needs one of drogo's worlds with the default policy, not {env}. Use "
            "start='reset' for episodes, or a function start(env, rng) -> observation."
        )
    return _by_stepping(env, n, rng, start, policy, reward)


def _plain_grid_world(env: gymnasium.Env) -> GridWorldEnv | None:
    while isinstance(env, HARMLESS):
        env = env.env
    return env if isinstance(env, GridWorldEnv) else None


def _from_grid_world(
    env: GridWorldEnv, n: int, rng: np.random.Generator, start: str, reward: float | None
) -> Transitions:
    """Indices only; the table of observations is made once."""
    world = env.world
    if start == "uniform":
        state = rng.choice(np.flatnonzero(~world.terminal), size=n)
        following = world.next_state[state, rng.integers(0, world.next_state.shape[1], size=n)]
        truncated = np.zeros(n, dtype=bool)
    else:
        state, following, truncated = _walk(world, env.start, env.step_limit, n, rng)
    terminated = world.terminal[following]
    return Transitions.from_table(
        world.observations(env.observation_kind, env.tile),
        state,
        following,
        world.reward[state] if reward is None else np.full(n, reward),
        terminated,
        truncated,
        np.where(terminated, world.reward[following], 0.0),
    )


def _walk(
    world: GridWorld, start: str, step_limit: int, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random episodes of many walkers side by side."""
    begin = np.flatnonzero(~world.terminal if start == "uniform" else world.start > 0)
    walkers = min(max(1, n // step_limit), MOST_WALKERS)
    here = rng.choice(begin, size=walkers)
    age = np.zeros(walkers, dtype=np.int64)
    parts = []
    for _ in range(-(-n // walkers)):
        action = rng.integers(0, world.next_state.shape[1], size=walkers)
        there = world.next_state[here, action]
        age += 1
        cut = (age >= step_limit) & ~world.terminal[there]
        parts.append((here, there, cut))
        over = cut | world.terminal[there]
        here = np.where(over, rng.choice(begin, size=walkers), there)
        age[over] = 0
    state, following, truncated = (
        np.concatenate(column)[:n] for column in zip(*parts, strict=True)
    )
    return state, following, truncated


def _by_stepping(
    env: gymnasium.Env,
    n: int,
    rng: np.random.Generator,
    start: str | Start,
    policy: Policy | None,
    reward: float | None,
) -> Transitions:
    """Any environment, one step at a time."""
    env.action_space.seed(int(rng.integers(2**31)))
    before, after, rewards, ended, cut = [], [], [], [], []
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    over = False
    for _ in range(n):
        if callable(start):
            observation = start(env, rng)
        elif over:
            observation, _ = env.reset()
        action = env.action_space.sample() if policy is None else policy(observation, rng)
        following, received, terminated, truncated, _ = env.step(action)
        before.append(_as_row(observation))
        after.append(_as_row(following))
        rewards.append(float(received) if reward is None else reward)
        ended.append(bool(terminated))
        cut.append(bool(truncated))
        observation, over = following, terminated or truncated
    return Transitions.from_arrays(
        _stack(before), _stack(after), np.array(rewards), np.array(ended), np.array(cut)
    )


def _as_row(observation: Any) -> np.ndarray:
    if isinstance(observation, dict | tuple):
        raise DataError(
            f"the observation is a {type(observation).__name__}, not an array. Choose one part of "
            "it with gymnasium.wrappers.TransformObservation or FilterObservation."
        )
    return np.array(observation)


def _stack(rows: list[np.ndarray]) -> np.ndarray:
    shapes = {row.shape for row in rows}
    if len(shapes) > 1:
        raise DataError(f"observations change their shape: {' and '.join(map(str, shapes))}.")
    return np.stack(rows)
