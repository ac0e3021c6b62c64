"""Collects transitions of an environment under its default policy."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict, Unpack

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, iterate

from drogo import errors
from drogo.data.index import TableBuilder
from drogo.data.recorded import action_columns
from drogo.data.step import Key, NumberOfStep, Step, StepNumbers, as_key, info_of, part_of
from drogo.data.transitions import Transitions
from drogo.files import as_path
from drogo.mdp import MDP, HasMDP
from drogo.worlds.wrappers import all_actions

Policy = Callable[[Any, Any], Any]
"""`policy(observation, rng)` returns an action; for a vector of environments, both are batches. For
a JAX environment, a key takes the place of the generator `rng`."""
Start = Callable[[Any, Any], Any]
"""`start(env, rng)` puts the environment into a state and returns its observation. For a JAX
environment, `start(env, key)` returns what `reset` returns."""

Rng = np.random.Generator
MOST_SEED = 2**128 - 1  # The largest seed of NumPy's generator.
MAX_WALKERS = 1000  # The largest number of episodes that are sampled side by side from an MDP.
TRANSPARENT = (gymnasium.wrappers.OrderEnforcing, gymnasium.wrappers.PassiveEnvChecker)
"""Wrappers that change nothing, so the MDP of the environment inside may be sampled."""
ROW = np.dtype("i8, i8, f8, ?, ?, f8, f8, f8, i4")
ROW.names = ("state", "next_state", "reward", "terminated", "truncated", "terminal_reward",
             "behaviour", "outcome", "environment")  # fmt: skip
VEC_ENV = ("num_envs", "observation_space", "action_space", "reset", "step_async", "step_wait")
"""The attributes of a `VecEnv` of Stable-Baselines3 that are used, besides `seed`."""
TERMINAL, TIME_LIMIT = "terminal_observation", "TimeLimit.truncated"
"""The infos in which a `VecEnv` reports the last observation of an episode and its truncation."""


class CollectOptions(TypedDict, total=False):
    """Further options of `collect`."""

    behaviour: Callable[[Step], float] | None
    """Returns the probability (of a vector: the density) with which `policy` took the action of a
    `Step`. Only importance weights need it: of vectors as actions, or without action values where
    states do not repeat."""
    key: str | Sequence[str] | None
    """The part of a `Dict` observation to keep. Several parts, such as `("position", "velocity")`,
    are joined in this order to one flat vector. By default all numbers of a `Dict` (sorted by
    name) or a `Tuple` are joined, unless there are images among them."""
    merge: bool | None
    """Whether equal observations become one row; by default unless they do not repeat."""
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
            reward; or else `fit` judges ends by their last rewards, as `drogo.mdp.Costs` says.
        **options: `behaviour`, `key`, `merge` and `file`; see `CollectOptions`.
    """
    for name in options.keys() - CollectOptions.__annotations__:
        names = [*inspect.signature(collect).parameters][:-1]
        raise errors.unknown_argument(name, [*names, *CollectOptions.__annotations__])
    n, seed = errors.check_whole("n", n, 1), errors.check_whole("seed", seed, 0, MOST_SEED)
    if isinstance(start, str):
        errors.check_choice("start", start, ("uniform", "reset"))
    behaviour, file = options.get("behaviour"), options.get("file")
    file = None if file is None else as_path("file", file)
    numbers = StepNumbers(reward, terminal_reward, behaviour).checked()
    if behaviour is not None and policy is None:
        problem = "behaviour is of a policy; give policy= too."
        raise errors.ArgumentError(problem, argument="behaviour")
    key, rng = as_key(options.get("key")), np.random.default_rng(seed)
    if file is not None and file.exists():
        problem = f"{file} exists already; give a new file for the observations."
        raise errors.AlreadyExists(problem, argument="file")
    inner = without_transparent(env)
    unsampled = (behaviour, numbers.terminal_reward, key, file)
    is_plain = all(option is None for option in unsampled) and not callable(numbers.reward)
    named = getattr(reward, "__name__", reward)
    name = getattr(getattr(env, "spec", None), "id", None) or type(env).__name__
    origin = {"env": name, "key": key, "reward": named if isinstance(named, str) else reward}
    if is_plain and not callable(start) and isinstance(inner, HasMDP):
        data = _sample(inner, n, rng, start or "uniform", policy, numbers.reward)
        return replace(data, origin=origin)
    if start == "uniform":
        problem = f"start='uniform' needs an environment that knows its MDP (not {env}), and no "
        problem += "behaviour, terminal_reward, key, file, or function as reward."
        remedy = "Use start='reset' for episodes, or a function start(env, rng)."
        raise errors.ArgumentError(problem, remedy=remedy, argument="start")
    table = TableBuilder(options.get("merge"), file)
    begin = start if callable(start) else None
    is_vector = isinstance(env, VectorEnv) or all(hasattr(env, name) for name in VEC_ENV)
    if isinstance(env, gymnasium.Env):
        steps, space = _steps_of_env(env, rng, begin, policy, key), env.action_space
    elif is_vector and begin is not None:
        raise errors.ArgumentError("start is a function, but env is a vector.", argument="start")
    elif is_vector:
        space = env.single_action_space if isinstance(env, VectorEnv) else env.action_space
        steps = _steps_of_vector(env, rng, policy, key)
    elif _is_pure(env):
        from drogo.data.jax_env import roll_out  # JAX takes long to import

        seed = int(rng.integers(2**31))
        columns = roll_out(env, n, seed, begin, policy, numbers, key, table)
        return replace(Transitions.from_table(**columns), origin=origin)
    else:
        problem = f"env is a {type(env).__module__}.{type(env).__qualname__}; give an environment "
        problem += "of Gymnasium, gymnax or navix, a vector of them, or a VecEnv of SB3."
        remedy = "For any other source of data, use drogo.Transitions.from_arrays."
        raise errors.ArgumentTypeError(problem, remedy=remedy, argument="env")
    data = _gather(islice(steps, n), n, space, numbers, table, is_uniform=policy is None)
    return replace(data, origin=origin)


def without_transparent(env: Any) -> Any:
    """Returns the environment inside of wrappers that change nothing."""
    while isinstance(env, TRANSPARENT):
        env = env.env
    return env


def _is_pure(env: object) -> bool:
    """Returns whether an environment, or the first of a pair, consists of pure JAX functions."""
    env = env[0] if isinstance(env, tuple) and env else env
    methods = filter(callable, (getattr(env, name, None) for name in ("reset", "step")))
    named = {name for method in methods for name in inspect.signature(method).parameters}
    return hasattr(type(env), "step_env") or bool({"key", "rng", "timestep"} & named)


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
        return sample_rows(mdp.default_policy[state].cumsum(axis=1), rng)

    if start == "uniform":
        state = rng.choice(np.flatnonzero(~mdp.terminal), size=n)
        action = act(state)
        next_state = outcomes(mdp, state, action, rng)
    else:
        walkers = min(max(1, n // env.step_limit), MAX_WALKERS)  # episodes side by side
        starts = np.flatnonzero(mdp.start)
        chance = mdp.start[starts] / mdp.start.sum()
        chance = None if np.ptp(chance) == 0 else chance
        state = rng.choice(starts, size=walkers, p=chance)
        age, parts = np.zeros(walkers, dtype=np.int64), []
        for _ in range(-(-n // walkers)):
            action = act(state)
            next_state = outcomes(mdp, state, action, rng)
            age += 1
            truncated = (age >= env.step_limit) & ~mdp.terminal[next_state]
            parts.append((state, action, next_state, truncated))
            over = truncated | mdp.terminal[next_state]
            state = np.where(over, rng.choice(starts, size=walkers, p=chance), next_state)
            age[over] = 0
        columns = (np.concatenate(column)[:n] for column in zip(*parts, strict=True))
        state, action, next_state, truncated = columns
    terminated, default = mdp.terminal[next_state], mdp.default_policy[state, action]
    cost = mdp.reward[state] if reward is None else reward
    value = np.where(terminated, mdp.reward[next_state], 0.0)
    actions = {"action": action, "default": default, "n_actions": mdp.n_actions}
    actions["behaviour"] = default if policy is None else None
    columns = (state, next_state, cost, terminated, truncated, value)
    return Transitions.from_table(table, *columns, **actions)


def outcomes(mdp: MDP, state: np.ndarray, action: np.ndarray, rng: Rng) -> np.ndarray:
    """Samples the next state of each pair of a state and an action."""
    next_state, cumulative = mdp.outcomes
    if next_state.shape[2] == 1:
        return next_state[state, action, 0]
    return next_state[state, action, sample_rows(cumulative[state, action], rng)]


def sample_rows(cumulative: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Samples an index from each row of cumulative probabilities."""
    number = rng.random(len(cumulative)) * cumulative[:, -1]
    return (number[:, None] >= cumulative[:, :-1]).sum(axis=1)


def _steps_of_env(
    env: Any, rng: np.random.Generator, start: Start | None, policy: Policy | None, key: Key
) -> Iterator[tuple[int, Step]]:
    """Steps an environment forever, and yields its number, which is 0, and each step."""
    env.action_space.seed(int(rng.integers(2**31)))
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    over, kept = False, None
    while True:
        if start is not None:
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
    envs: Any, rng: np.random.Generator, policy: Policy | None, key: Key
) -> Iterator[tuple[int, Step]]:
    """Steps a vector in any autoreset mode, or a `VecEnv`, forever, and yields numbered steps."""
    count, is_vec_env = envs.num_envs, not isinstance(envs, VectorEnv)
    spaces = envs.observation_space, envs.action_space
    if is_vec_env:
        spaces = tuple(batch_space(space, count) for space in spaces)
    spaces[1].seed(int(rng.integers(2**31)))
    seed = int(rng.integers(2**31))
    if is_vec_env:
        envs.seed(seed)
        observations, mode, step = envs.reset(), AutoresetMode.SAME_STEP, _step_vec_env
    else:
        mode = envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        (observations, _), step = envs.reset(seed=seed), _step_vector
    over = np.zeros(count, dtype=bool)
    kept: list[Any] = [None] * count
    while True:
        if mode == AutoresetMode.DISABLED and over.any():
            observations, _ = envs.reset(options={"reset_mask": over})
        each = list(iterate(spaces[0], observations))
        kept = [part_of(each[k], key) if kept[k] is None else kept[k] for k in range(count)]
        actions = spaces[1].sample() if policy is None else policy(observations, rng)
        observations, rewards, terminated, truncated, last, infos = step(envs, actions)
        each_action = list(iterate(spaces[1], actions))
        each = list(iterate(spaces[0], observations))
        for k in range(count):
            if mode == AutoresetMode.NEXT_STEP and over[k]:
                kept[k] = None  # This step was a reset and is not part of an episode.
                continue
            arrived = part_of(each[k] if last[k] is None else last[k], key)
            numbers = float(rewards[k]), arrived, bool(terminated[k]), bool(truncated[k])
            yield k, Step(kept[k], each_action[k], *numbers, infos[k])
            kept[k] = None if terminated[k] or truncated[k] else arrived
        over = np.asarray(terminated | truncated)


def _step_vector(envs: VectorEnv, actions: Any) -> tuple[Any, ...]:
    """Returns observations, rewards, flags, replaced last observations, and infos."""
    observations, rewards, terminated, truncated, infos = envs.step(actions)
    replaced = infos.get("_final_obs", np.zeros(envs.num_envs, dtype=bool))
    last = [infos["final_obs"][k] if over else None for k, over in enumerate(replaced)]
    each_info = [info_of(infos, k) for k in range(envs.num_envs)]
    return observations, rewards, terminated, truncated, last, each_info


def _step_vec_env(envs: Any, actions: Any) -> tuple[Any, ...]:
    """Returns the same for a `VecEnv`."""
    envs.step_async(actions)
    observations, rewards, over, infos = envs.step_wait()
    over = np.asarray(over, dtype=bool)
    truncated = over & np.array([bool(info.get(TIME_LIMIT)) for info in infos])
    last: list[Any] = [None] * envs.num_envs
    for k in np.flatnonzero(over).tolist():
        if TERMINAL not in infos[k]:
            problem = f"environment {k} ended an episode without info[{TERMINAL!r}]."
            raise errors.ArgumentTypeError(problem, argument="env")
        last[k] = _like(observations, infos[k][TERMINAL])
    return observations, rewards, over & ~truncated, truncated, last, infos


def _like(batch: Any, observation: Any) -> Any:
    """Returns an observation in the types of a batch: a `VecEnv` reports the last one in others."""
    if isinstance(batch, dict):
        return {name: _like(part, observation[name]) for name, part in batch.items()}
    return np.asarray(observation, dtype=batch.dtype)


def _gather(
    steps: Iterator[tuple[int, Step]],
    n: int,
    space: gymnasium.Space,
    numbers: StepNumbers,
    table: TableBuilder,
    is_uniform: bool,
) -> Transitions:
    """Puts n steps into a table and columns. Actions are recorded in a `Discrete` or a `Box`,
    and by their numbers in `all_actions` where they consist of a few choices."""
    actions, known = None, [] if numbers.terminal_reward is None else [True]
    choices = lambda action: tuple(part_of(action, None).ravel().tolist())  # noqa: E731
    number_of: dict[Any, int] = {}
    if not isinstance(space, gymnasium.spaces.Discrete):
        number_of = {choices(action): k for k, action in enumerate(all_actions(space))}
        space = gymnasium.spaces.Discrete(len(number_of)) if number_of else space
    if isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.Box):
        is_discrete = isinstance(space, gymnasium.spaces.Discrete)
        actions = np.empty((n, *space.shape), np.int64 if is_discrete else np.float32)

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
                taken = number_of[choices(step.action)] if number_of else step.action
                actions[k] = np.reshape(taken, actions.shape[1:])
            chance = 0.0 if numbers.behaviour is None else numbers.behaviour(step)
            ended = step.terminated, step.truncated
            yield state, next_state, reward, *ended, value, chance, step.reward, environment
            known.extend([True] * (step.terminated and "terminal_reward" in step.info))

    gathered = np.fromiter(rows(), ROW, n)
    columns: dict[str, Any] = {name: gathered[name] for name in ROW.names or ()}
    if numbers.behaviour is None or actions is None:
        del columns["behaviour"]
    del columns["outcome" if known else "terminal_reward"]
    if actions is not None:
        columns |= action_columns(actions, space, checked=False)
        if is_uniform:  # in an unbounded space, densities are relative to its sampling
            columns["behaviour"] = columns.setdefault("default", np.ones(n))
    return Transitions.from_table(table.finish(), **columns)
