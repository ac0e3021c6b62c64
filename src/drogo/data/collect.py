"""Collects transitions of an environment under its default policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from drogo.data.actions import volume
from drogo.data.parts import Key, as_key, part_of
from drogo.data.pure import GymnaxEnv, NavixEnv, is_pure
from drogo.data.step import NumberOfStep, Step, check_cost, info_of, number_or_function
from drogo.data.table import TableBuilder
from drogo.data.transitions import Transitions
from drogo.data.vec_env import VecEnv, as_gymnasium
from drogo.errors import AlreadyExists, ArgumentError, check_whole
from drogo.mdp import MDP, HasMDP

Policy = Callable[[Any, Any], Any]
"""`policy(observation, rng)` returns an action; for a vector of environments, both are batches. For
a JAX environment, a key takes the place of the generator `rng`."""
Start = Callable[[Any, Any], Any]
"""`start(env, rng)` puts the environment into a state and returns its observation. For a JAX
environment, `start(env, key)` returns what `reset` returns."""

MOST_SEED = 2**128 - 1
"""As much as NumPy's generator has room for."""
MAX_WALKERS = 1000
"""The largest number of episodes that are sampled side by side from an MDP."""
TRANSPARENT = (gymnasium.wrappers.OrderEnforcing, gymnasium.wrappers.PassiveEnvChecker)
"""Wrappers that change nothing, so that the MDP of the environment inside may be sampled."""


COLUMNS = np.dtype("i8, i8, f8, ?, ?, f8")
COLUMNS.names = "state", "next_state", "reward", "terminated", "truncated", "terminal_reward"


def collect(
    env: gymnasium.Env | VectorEnv | VecEnv | GymnaxEnv | tuple[GymnaxEnv, Any] | NavixEnv,
    n: int,
    *,
    seed: int,
    start: str | Start | None = None,
    policy: Policy | None = None,
    behaviour: Callable[[Step], float] | None = None,
    reward: NumberOfStep = None,
    terminal_reward: NumberOfStep = None,
    key: str | Sequence[str] | None = None,
    merge: bool | None = None,
    file: str | Path | None = None,
) -> Transitions:
    """Collects transitions from an environment.

    Args:
        env: A Gymnasium environment, a vector of environments, a `VecEnv` of Stable-Baselines3, or
            a JAX environment with the interface of gymnax (alone, or with its parameters as
            `gymnax.make` returns them) or navix. All functions below are then pure JAX functions
            of a single observation or step, with a key in place of `rng`.
        n: The number of transitions.
        seed: The seed of all random numbers.
        start: Where transitions begin. `"uniform"`: each in a non-terminal state drawn uniformly,
            as in the paper; this needs an environment that knows its MDP (drogo's grid worlds,
            `MiniGridWorld`, or any `drogo.mdp.HasMDP`). `"reset"`: whole episodes, one after
            another. A function `start(env, rng)`: each where it puts the environment; it returns
            the observation (of a JAX environment: what `reset` returns). By default `"uniform"`
            where that is possible, otherwise `"reset"`.
        policy: A function `policy(observation, rng)` that returns an action. By default the default
            policy of the environment's MDP, or else uniform over the action space. It may be any
            policy: actions are recorded, and a fit weighs them like the default policy's.
        behaviour: A function of a `Step` that returns the probability (of a vector: the density)
            with which `policy` took its action. Only importance weights need it: of vectors as
            actions, or without `objective="q"` where states do not repeat.
        reward: Replaces the environment's reward: a step cost, or a function of a `Step`.
        terminal_reward: The terminal state's own value, in units of reward (`v` there is
            `terminal_reward / lam`): a number, or a function of the last `Step` of an episode. By
            default `info["terminal_reward"]` of that step, which is then subtracted from the step's
            reward, or else 0.
        key: The part of a `Dict` observation to keep. Several parts, such as
            `("position", "velocity")`, are joined in this order to one flat vector.
        merge: Whether equal observations become one row of the table. By default they do unless
            observations turn out not to repeat.
        file: A new file for the observations, if they are too large for memory.

    Returns:
        The transitions.

    Raises:
        DataError: Nothing can be learned from these transitions.
    """
    n, seed = check_whole("n", n, 1), check_whole("seed", seed, 0, MOST_SEED)
    if isinstance(start, str) and start not in ("uniform", "reset"):
        raise ArgumentError(f"start is {start!r}; choose 'uniform', 'reset', or give a function.")
    reward = number_or_function("reward", reward)
    terminal_reward = number_or_function("terminal_reward", terminal_reward)
    check_cost(reward)
    if behaviour is not None and policy is None:
        raise ArgumentError("behaviour says how policy chooses its actions; give policy too.")
    key, rng = as_key(key), np.random.default_rng(seed)
    table = _new_table(merge, file)
    if not isinstance(env, gymnasium.Env | VectorEnv) and is_pure(env):
        numbers = (reward, terminal_reward, behaviour)
        return _roll_out(env, n, rng, start, policy, numbers, key, table)
    env = as_gymnasium(env)
    plain = behaviour is None and terminal_reward is None and key is None and file is None
    if plain and not callable(start) and not callable(reward):
        inner = without_transparent(env)
        if isinstance(inner, HasMDP):
            return _sample(inner, n, rng, start or "uniform", policy, reward)
    if start == "uniform":
        raise ArgumentError(
            f"start='uniform' needs an environment that knows its MDP (not {env}), and no "
            "behaviour, terminal_reward, key, file, or function as reward. Use start='reset' for "
            "episodes, or a function start(env, rng) that returns an observation."
        )
    if isinstance(env, VectorEnv):
        if callable(start):
            raise ArgumentError("start is a function, which is for a single environment only.")
        steps = _steps_of_vector(env, rng, policy, key)
    else:
        steps = _steps_of_env(env, rng, start, policy, key)
    single = env.single_action_space if isinstance(env, VectorEnv) else env.action_space
    actions = _Actions(single, n, policy is None, behaviour)
    return _gather(steps, n, reward, terminal_reward, table, actions)


def without_transparent(env: gymnasium.Env | VectorEnv) -> Any:
    """Returns the environment inside of wrappers that change nothing.

    Args:
        env: The environment.
    """
    while isinstance(env, TRANSPARENT):
        env = env.env
    return env


def _new_table(merge: bool | None, file: str | Path | None) -> TableBuilder:
    if file is not None and Path(file).exists():
        raise AlreadyExists(f"{file} exists already; give a new file for the observations.")
    return TableBuilder(merge, None if file is None else Path(file))


def _roll_out(
    env: object,
    n: int,
    rng: np.random.Generator,
    start: str | Start | None,
    policy: Policy | None,
    numbers: tuple[NumberOfStep, NumberOfStep, Callable[[Step], float] | None],
    key: Key,
    table: TableBuilder,
) -> Transitions:
    """Rolls a JAX environment out."""
    from drogo.data.jax_env import Given, pure_env, roll_out  # JAX takes long to import

    if start == "uniform":
        raise ArgumentError(
            "start='uniform' needs an environment that knows its MDP. For a JAX environment, give "
            "a function start(env, key) that returns what reset returns."
        )
    begin = start if callable(start) else None
    seed = int(rng.integers(2**31))
    columns = roll_out(pure_env(env), n, seed, begin, policy, Given(*numbers), key, table)
    return Transitions.from_table(**columns)


def _sample(
    env: HasMDP,
    n: int,
    rng: np.random.Generator,
    start: str,
    policy: Policy | None,
    reward: float | None,
) -> Transitions:
    """Samples indices from the MDP; the table of observations is made once."""
    mdp, truncated, table = env.mdp, None, env.all_observations()

    def act(state: np.ndarray) -> np.ndarray:
        if policy is None:
            return _default_action(mdp, state, rng)
        return np.array([policy(table[one], rng) for one in state], dtype=np.int64)

    if start == "uniform":
        state = rng.choice(np.flatnonzero(~mdp.terminal), size=n)
        action = act(state)
        next_state = outcomes(mdp, state, action, rng)
    else:
        state, action, next_state, truncated = _sample_episodes(mdp, act, env.step_limit, n, rng)
    rewards = mdp.reward[state] if reward is None else np.full(n, reward)
    terminated = mdp.terminal[next_state]
    value = np.where(terminated, mdp.reward[next_state], 0.0)
    default = mdp.default_policy[state, action]
    return Transitions.from_table(
        table,
        state,
        next_state,
        rewards,
        terminated,
        truncated,
        value,
        action=action,
        behaviour=default if policy is None else None,
        default=default,
        n_actions=mdp.n_actions,
    )


def _default_action(mdp: MDP, state: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws an action of the default policy for each state."""
    if np.ptp(mdp.default_policy[~mdp.terminal]) == 0:
        return rng.integers(0, mdp.n_actions, size=state.size)
    return _draw(mdp.default_policy[state].cumsum(axis=1), rng)


def outcomes(
    mdp: MDP, state: np.ndarray, action: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draws where each action leads."""
    next_state, cumulative = mdp.outcomes
    if next_state.shape[2] == 1:
        return next_state[state, action, 0]
    return next_state[state, action, _draw(cumulative[state, action], rng)]


def _draw(cumulative: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws an index from each row of cumulative probabilities."""
    number = rng.random(len(cumulative)) * cumulative[:, -1]
    return (number[:, None] >= cumulative[:, :-1]).sum(axis=1)


def _sample_episodes(
    mdp: MDP,
    act: Callable[[np.ndarray], np.ndarray],
    step_limit: int,
    n: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, ...]:
    """Samples the episodes of many walkers: states, actions, next states, and which were
    truncated."""
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
    """Step an environment for ever. Its number is 0."""
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
        step = Step(kept, action, float(reward), arrived, bool(terminated), bool(truncated), info)
        yield 0, step
        kept, over = arrived, terminated or truncated


def _steps_of_vector(
    envs: VectorEnv, rng: np.random.Generator, policy: Policy | None, key: Key
) -> Iterator[tuple[int, Step]]:
    """Step a vector of environments for ever, in any of Gymnasium's autoreset modes."""
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


class _Actions:
    """What is recorded of the actions of n steps, if the space is a `Discrete` or a `Box`.

    Args:
        space: The actions.
        n: The number of steps.
        random: Whether actions are drawn from the space.
        behaviour: Returns the probability or density of a step's action.
    """

    def __init__(
        self,
        space: gymnasium.Space,
        n: int,
        random: bool,
        behaviour: Callable[[Step], float] | None,
    ) -> None:
        self.taken, self.probability = None, None
        self.behaviour, self.size, self.first = behaviour, 1.0, 0
        if isinstance(space, gymnasium.spaces.Discrete):
            self.taken, self.size = np.empty(n, dtype=np.int64), float(space.n)
            self.first = int(space.start)
        elif isinstance(space, gymnasium.spaces.Box):
            self.taken = np.empty((n, int(np.prod(space.shape))), dtype=np.float32)
            if space.is_bounded():  # elsewhere densities are relative to the space's own sampling
                self.size = volume(space)
        if random or behaviour is not None:
            self.probability = np.full(n, 1 / self.size)
        self.count = 0

    def add(self, step: Step) -> None:
        """Records the action of one more step."""
        if self.taken is not None and self.count < len(self.taken):
            action = np.asarray(step.action).reshape(self.taken.shape[1:])
            self.taken[self.count] = action - self.first
            if self.behaviour is not None and self.probability is not None:
                self.probability[self.count] = self.behaviour(step)
        self.count += 1

    def known(self) -> dict[str, Any]:
        """Returns what `Transitions.from_table` is told."""
        if self.taken is None:
            return {}
        discrete = self.taken.ndim == 1
        return {
            "action": self.taken,
            "behaviour": self.probability,
            "default": np.full(len(self.taken), 1 / self.size),
            "n_actions": int(self.size) if discrete else None,
        }


def _gather(
    steps: Iterator[tuple[int, Step]],
    n: int,
    reward: NumberOfStep,
    terminal_reward: NumberOfStep,
    table: TableBuilder,
    actions: _Actions,
) -> Transitions:
    """Puts the first `n` steps into a table and indices into it."""

    def transitions() -> Iterator[tuple[int, int, float, bool, bool, float]]:
        arrived: dict[int, tuple[Any, int]] = {}
        for environment, step in steps:
            # Within an episode, an observation is the last step's next observation: one row.
            last, row = arrived.get(environment, (None, -1))
            state = row if last is step.observation else table.add(step.observation)
            next_state = table.add(step.next_observation)
            arrived[environment] = step.next_observation, next_state
            own, value = step.numbers(reward, terminal_reward)
            actions.add(step)
            yield state, next_state, own, step.terminated, step.truncated, value

    columns = np.fromiter(transitions(), COLUMNS, n)
    named = {name: columns[name] for name in COLUMNS.names}
    return Transitions.from_table(table.finish(), **named, **actions.known())
