"""Collects transitions of an environment under its default policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict, Unpack

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from drogo.data.arrays import check_names
from drogo.data.environments import as_gymnasium, is_pure
from drogo.data.recorded import volume
from drogo.data.step import Key, NumberOfStep, Step, StepNumbers, as_key, info_of, part_of
from drogo.data.table import TableBuilder
from drogo.data.transitions import Transitions
from drogo.errors import AlreadyExists, ArgumentError, check_whole
from drogo.mdp import MDP, HasMDP

Policy = Callable[[Any, Any], Any]
"""`policy(observation, rng)` returns an action; for a vector of environments, both are batches. For
a JAX environment, a key takes the place of the generator `rng`."""
Start = Callable[[Any, Any], Any]
"""`start(env, rng)` puts the environment into a state and returns its observation. For a JAX
environment, `start(env, key)` returns what `reset` returns."""

MOST_SEED = 2**128 - 1
"""The largest seed of NumPy's generator."""
MAX_WALKERS = 1000
"""The largest number of episodes that are sampled side by side from an MDP."""
TRANSPARENT = (gymnasium.wrappers.OrderEnforcing, gymnasium.wrappers.PassiveEnvChecker)
"""Wrappers that change nothing, so the MDP of the environment inside may be sampled."""
ROW = np.dtype("i8, i8, f8, ?, ?, f8, f8")
COLUMNS = ("state", "next_state", "reward", "terminated", "truncated", "terminal_reward",
           "behaviour")  # fmt: skip
ROW.names = COLUMNS


class CollectOptions(TypedDict, total=False):
    """Further options of `collect`."""

    behaviour: Callable[[Step], float] | None
    """Returns the probability (of a vector: the density) with which `policy` took the action of a
    `Step`. Only importance weights need it: of vectors as actions, or without `objective="q"` where
    states do not repeat."""
    key: str | Sequence[str] | None
    """The part of a `Dict` observation to keep. Several parts, such as `("position", "velocity")`,
    are joined in this order to one flat vector."""
    merge: bool | None
    """Whether equal observations become one row of the table. By default they do unless
    observations turn out not to repeat."""
    file: str | Path | None
    """A new file for the observations, if they are too large for memory."""


def collect(
    env: gymnasium.Env | VectorEnv | Any,
    n: int,
    *,
    seed: int,
    start: str | Start | None = None,
    policy: Policy | None = None,
    reward: NumberOfStep = None,
    terminal_reward: NumberOfStep = None,
    **options: Unpack[CollectOptions],
) -> Transitions:
    """Collects transitions from an environment.

    Args:
        env: A Gymnasium environment, a vector of environments, a `VecEnv` of Stable-Baselines3, or
            a JAX environment with the interface of gymnax (alone, or with its parameters as
            `gymnax.make` returns them) or navix. All functions below are then pure JAX functions
            of a single observation or step, with a key in place of `rng`.
        n: The number of transitions.
        seed: The seed of all random numbers.
        start: Where transitions begin. `"uniform"`: each in a non-terminal state sampled uniformly,
            as in the paper; this needs an environment that knows its MDP (drogo's grid worlds,
            `MiniGridWorld`, or any `drogo.mdp.HasMDP`). `"reset"`: whole episodes, one after
            another. A function `start(env, rng)`: each where it puts the environment; it returns
            the observation (of a JAX environment: what `reset` returns). By default `"uniform"`
            where that is possible, otherwise `"reset"`.
        policy: A function `policy(observation, rng)` that returns an action. By default the default
            policy of the environment's MDP, or else uniform over the action space. It may be any
            policy: actions are recorded, and a fit weights them like the default policy's.
        reward: Replaces the environment's reward: a step cost, or a function of a `Step`.
        terminal_reward: The value of a terminal state, in units of reward (`v` there is
            `terminal_reward / lam`): a number, or a function of the last `Step` of an episode. By
            default `info["terminal_reward"]` of that step, which is then subtracted from the step's
            reward, or else 0.
        **options: `behaviour`, `key`, `merge` and `file`; see `CollectOptions`.
    """
    check_names("collect", options, tuple(CollectOptions.__annotations__))
    n, seed = check_whole("n", n, 1), check_whole("seed", seed, 0, MOST_SEED)
    if isinstance(start, str) and start not in ("uniform", "reset"):
        problem = f"start is {start!r}; choose 'uniform', 'reset', or give a function."
        raise ArgumentError(problem, argument="start")
    behaviour, file = options.get("behaviour"), options.get("file")
    numbers = StepNumbers(reward, terminal_reward, behaviour).checked()
    if behaviour is not None and policy is None:
        problem = "behaviour says how policy chooses its actions; give policy too."
        raise ArgumentError(problem, argument="behaviour")
    key, rng = as_key(options.get("key")), np.random.default_rng(seed)
    if file is not None and Path(file).exists():
        problem = f"{file} exists already; give a new file for the observations."
        raise AlreadyExists(problem, argument="file")
    table = TableBuilder(options.get("merge"), None if file is None else Path(file))
    if not isinstance(env, gymnasium.Env | VectorEnv) and is_pure(env):
        return _roll_out(env, n, rng, start, policy, numbers, key, table)
    env = as_gymnasium(env)
    inner = without_transparent(env)
    unsampled = (behaviour, numbers.terminal_reward, key, file)
    is_plain = all(option is None for option in unsampled) and not callable(numbers.reward)
    if is_plain and not callable(start) and isinstance(inner, HasMDP):
        return _sample(inner, n, rng, start or "uniform", policy, numbers.reward)
    if start == "uniform":
        raise ArgumentError(
            f"start='uniform' needs an environment that knows its MDP (not {env}), and no "
            "behaviour, terminal_reward, key, file, or function as reward.",
            remedy="Use start='reset' for episodes, or a function start(env, rng) that returns an "
            "observation.",
            argument="start",
        )
    if isinstance(env, VectorEnv):
        if callable(start):
            problem = "start is a function, which is for a single environment only."
            raise ArgumentError(problem, argument="start")
        steps, space = _steps_of_vector(env, rng, policy, key), env.single_action_space
    else:
        steps, space = _steps_of_env(env, rng, start, policy, key), env.action_space
    return _gather(islice(steps, n), n, space, numbers, table, is_uniform=policy is None)


def without_transparent(env: gymnasium.Env | VectorEnv) -> Any:
    """Returns the environment inside of wrappers that change nothing."""
    while isinstance(env, TRANSPARENT):
        env = env.env
    return env


def _roll_out(
    env: object,
    n: int,
    rng: np.random.Generator,
    start: str | Start | None,
    policy: Policy | None,
    numbers: StepNumbers,
    key: Key,
    table: TableBuilder,
) -> Transitions:
    """Collects transitions of a JAX environment."""
    from drogo.data.jax_env import pure_env, roll_out  # JAX takes long to import

    if start == "uniform":
        raise ArgumentError(
            "start='uniform' needs an environment that knows its MDP.",
            remedy="For a JAX environment, give a function start(env, key) that returns what reset "
            "returns.",
            argument="start",
        )
    begin, seed = start if callable(start) else None, int(rng.integers(2**31))
    columns = roll_out(pure_env(env), n, seed, begin, policy, numbers, key, table)
    return Transitions.from_table(**columns)


def _sample(
    env: HasMDP, n: int, rng: np.random.Generator, start: str, policy: Policy | None, reward: Any
) -> Transitions:
    """Samples indices from the MDP; the table of observations is made once."""
    mdp, truncated, table = env.mdp, None, env.all_observations()

    def act(state: np.ndarray) -> np.ndarray:
        if policy is not None:
            return np.array([policy(table[one], rng) for one in state], dtype=np.int64)
        if np.ptp(mdp.default_policy[~mdp.terminal]) == 0:
            return rng.integers(0, mdp.n_actions, size=state.size)
        return _sample_rows(mdp.default_policy[state].cumsum(axis=1), rng)

    if start == "uniform":
        state = rng.choice(np.flatnonzero(~mdp.terminal), size=n)
        action = act(state)
        next_state = outcomes(mdp, state, action, rng)
    else:
        state, action, next_state, truncated = _sample_episodes(mdp, act, env.step_limit, n, rng)
    terminated, default = mdp.terminal[next_state], mdp.default_policy[state, action]
    return Transitions.from_table(
        table,
        state,
        next_state,
        mdp.reward[state] if reward is None else reward,
        terminated,
        truncated,
        np.where(terminated, mdp.reward[next_state], 0.0),
        action=action,
        behaviour=default if policy is None else None,
        default=default,
        n_actions=mdp.n_actions,
    )


def outcomes(
    mdp: MDP, state: np.ndarray, action: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Samples the next state of each pair of a state and an action."""
    next_state, cumulative = mdp.outcomes
    if next_state.shape[2] == 1:
        return next_state[state, action, 0]
    return next_state[state, action, _sample_rows(cumulative[state, action], rng)]


def _sample_rows(cumulative: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Samples an index from each row of cumulative probabilities."""
    number = rng.random(len(cumulative)) * cumulative[:, -1]
    return (number[:, None] >= cumulative[:, :-1]).sum(axis=1)


def _sample_episodes(
    mdp: MDP,
    act: Callable[[np.ndarray], np.ndarray],
    step_limit: int,
    n: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, ...]:
    """Samples episodes side by side: states, actions, next states, and which were truncated."""
    walkers = min(max(1, n // step_limit), MAX_WALKERS)
    starts = np.flatnonzero(mdp.start)
    chance = mdp.start[starts] / mdp.start.sum()
    chance = None if np.ptp(chance) == 0 else chance
    state = rng.choice(starts, size=walkers, p=chance)
    age = np.zeros(walkers, dtype=np.int64)
    parts = []
    for _ in range(-(-n // walkers)):
        action = act(state)
        next_state = outcomes(mdp, state, action, rng)
        age += 1
        truncated = (age >= step_limit) & ~mdp.terminal[next_state]
        parts.append((state, action, next_state, truncated))
        over = truncated | mdp.terminal[next_state]
        state = np.where(over, rng.choice(starts, size=walkers, p=chance), next_state)
        age[over] = 0
    return tuple(np.concatenate(column)[:n] for column in zip(*parts, strict=True))


def _steps_of_env(
    env: gymnasium.Env,
    rng: np.random.Generator,
    start: str | Start | None,
    policy: Policy | None,
    key: Key,
) -> Iterator[tuple[int, Step]]:
    """Steps an environment forever, and yields its number, which is 0, and each step."""
    env.action_space.seed(int(rng.integers(2**31)))
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    over, kept = False, None
    while True:
        if callable(start):
            observation, kept = start(env, rng), None
        elif over:
            observation, kept = env.reset()[0], None
        kept = part_of(observation, key) if kept is None else kept
        action = env.action_space.sample() if policy is None else policy(observation, rng)
        observation, reward, terminated, truncated, info = env.step(action)
        arrived = part_of(observation, key)
        yield 0, Step(kept, action, float(reward), arrived, bool(terminated), bool(truncated), info)
        kept, over = arrived, terminated or truncated


def _steps_of_vector(
    envs: VectorEnv, rng: np.random.Generator, policy: Policy | None, key: Key
) -> Iterator[tuple[int, Step]]:
    """Steps a vector of environments forever, in any of Gymnasium's autoreset modes, and yields the
    number of the environment and each step."""
    mode = envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    envs.action_space.seed(int(rng.integers(2**31)))
    observations, _ = envs.reset(seed=int(rng.integers(2**31)))
    count = envs.num_envs
    over = np.zeros(count, dtype=bool)
    kept: list[Any] = [None] * count
    while True:
        if mode == AutoresetMode.DISABLED and over.any():
            observations, _ = envs.reset(options={"reset_mask": over})
        each = list(gymnasium.vector.utils.iterate(envs.observation_space, observations))
        kept = [part_of(each[k], key) if kept[k] is None else kept[k] for k in range(count)]
        actions = envs.action_space.sample() if policy is None else policy(observations, rng)
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        each_action = list(gymnasium.vector.utils.iterate(envs.action_space, actions))
        each = list(gymnasium.vector.utils.iterate(envs.observation_space, observations))
        replaced = infos.get("_final_obs", np.zeros(count, dtype=bool))
        for k in range(count):
            if mode == AutoresetMode.NEXT_STEP and over[k]:
                kept[k] = None  # This step was a reset and is not part of an episode.
                continue
            arrived = part_of(infos["final_obs"][k] if replaced[k] else each[k], key)
            yield k, Step(
                kept[k], each_action[k], float(rewards[k]), arrived,
                bool(terminated[k]), bool(truncated[k]), info_of(infos, k),
            )  # fmt: skip
            kept[k] = None if terminated[k] or truncated[k] else arrived
        over = np.asarray(terminated | truncated)


def _gather(
    steps: Iterator[tuple[int, Step]],
    n: int,
    space: gymnasium.Space,
    numbers: StepNumbers,
    table: TableBuilder,
    is_uniform: bool,
) -> Transitions:
    """Puts n steps into a table and columns. Actions are recorded in a `Discrete` or a `Box`."""
    actions, size, first = None, 1.0, 0
    if isinstance(space, gymnasium.spaces.Discrete):
        actions, size, first = np.empty(n, dtype=np.int64), float(space.n), int(space.start)
    elif isinstance(space, gymnasium.spaces.Box):
        actions = np.empty((n, int(np.prod(space.shape))), dtype=np.float32)
        if space.is_bounded():  # elsewhere densities are relative to the space's own sampling
            size = volume(space)

    def rows() -> Iterator[tuple[Any, ...]]:
        arrived: dict[int, tuple[Any, int]] = {}
        for k, (environment, step) in enumerate(steps):
            # Within an episode, an observation is the last step's next observation: one row.
            last, row = arrived.get(environment, (None, -1))
            state = row if last is step.observation else table.add(step.observation)
            next_state = table.add(step.next_observation)
            arrived[environment] = step.next_observation, next_state
            reward, value = step.numbers(numbers.reward, numbers.terminal_reward)
            if actions is not None:
                actions[k] = np.asarray(step.action).reshape(actions.shape[1:]) - first
            chance = 1 / size if numbers.behaviour is None else numbers.behaviour(step)
            yield state, next_state, reward, step.terminated, step.truncated, value, chance

    gathered = np.fromiter(rows(), ROW, n)
    columns: dict[str, Any] = {name: gathered[name] for name in COLUMNS}
    if actions is None or not (is_uniform or numbers.behaviour is not None):
        del columns["behaviour"]
    if actions is not None:
        columns |= {"action": actions, "default": np.full(n, 1 / size)}
        columns["n_actions"] = int(size) if actions.ndim == 1 else None
    return Transitions.from_table(table.finish(), **columns)
