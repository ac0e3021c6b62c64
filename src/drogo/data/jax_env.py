"""Environments that are pure JAX functions, in the interfaces of gymnax and of navix.

Neither package is imported. Many walkers go side by side, and a whole batch of their steps is one
compiled loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from drogo.data.parts import Key, part_of
from drogo.data.pure import arguments
from drogo.data.recorded import Recorded
from drogo.data.step import NumberOfStep, Step
from drogo.data.table import TableBuilder
from drogo.errors import ArgumentError, ArgumentTypeError

MAX_WALKERS = 1000
"""The largest number of episodes side by side."""
ROWS_AT_ONCE, BYTES_AT_ONCE = 2**16, 2**27
"""The largest number of steps, and of bytes of observations, that one compiled loop returns."""
NO_LIMIT = np.iinfo(np.int32).max
UNKNOWN_LIMIT = 1000
"""How many steps a walker makes at least, if enough are asked for and no limit is known."""


class Outcome(NamedTuple):
    """What a step of a pure environment returns."""

    observation: Any
    state: Any
    reward: Array
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    info: dict[str, Any]


@dataclass(frozen=True)
class PureEnv:
    """An environment as pure functions. Its steps do not reset."""

    reset: Callable[[Array], tuple[Any, Any]]
    """From a key to an observation and a state."""
    step: Callable[[Array, Any, Any], Outcome]
    """From a key, a state and an action."""
    started: Callable[[Any], tuple[Any, Any]]
    """From what the environment's own `reset` returns to an observation and a state."""
    action_space: gymnasium.Space
    step_limit: int
    own: Any
    """The environment itself."""


def pure_env(given: object) -> PureEnv:
    """Returns an environment in the interface of gymnax or navix as pure functions.

    Args:
        given: The environment, or the pair of an environment and its parameters that `gymnax.make`
            returns.

    Raises:
        ArgumentTypeError: It cannot be stepped without losing something.
    """
    env, params = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    if hasattr(type(env), "step_env"):
        return _of_gymnax(env, params)
    if "timestep" in arguments(env, "step"):
        return _of_navix(env)
    raise ArgumentTypeError(
        f"env is a {type(env).__module__}.{type(env).__qualname__}, whose step is a pure function "
        "that may reset by itself, so that the last observation of an episode is lost.",
        remedy="Give an environment that has step_env(key, state, action, params), which does not "
        "reset, as in gymnax (instead of a wrapper, the environment inside); or make arrays and "
        "use drogo.Transitions.from_arrays.",
    )


def _of_gymnax(env: Any, params: Any) -> PureEnv:
    """`done` of gymnax before 1.0 includes the time limit. Where the limit is one of the
    parameters, the same step without it tells whether the state is terminal."""
    params = getattr(env, "default_params", None) if params is None else params
    limit = getattr(params, "max_steps_in_episode", None)
    apart = hasattr(env, "is_truncated")
    if not apart and (limit is None or not dataclasses.is_dataclass(type(params))):
        raise ArgumentTypeError(
            f"env is a {type(env).__qualname__}, whose step_env returns done. Whether that "
            "includes a time limit, which is no terminal state, is not known: its parameters have "
            "no max_steps_in_episode.",
            remedy="Give it a method is_truncated(state, params), as in gymnax 1.0, which returns "
            "whether the time is over, and let done leave that out.",
        )

    def step(key: Array, state: Any, action: Any) -> Outcome:
        observation, after, reward, done, info = env.step_env(key, state, action, params)
        if apart:
            over, cut = done, env.is_truncated(after, params)
        else:
            endless = dataclasses.replace(params, max_steps_in_episode=NO_LIMIT)
            over, cut = env.step_env(key, state, action, endless)[3], done
        return _outcome(observation, after, reward, over, cut, info)

    return PureEnv(
        reset=lambda key: env.reset(key, params),
        step=step,
        started=lambda pair: pair,
        action_space=_space(env.action_space(params)),
        step_limit=UNKNOWN_LIMIT if limit is None else int(limit),
        own=env,
    )


def _of_navix(env: Any) -> PureEnv:
    """A step of navix resets only after the last step of an episode, where it is never made."""

    def started(timestep: Any) -> tuple[Any, Any]:
        return timestep.observation, timestep

    def step(key: Array, state: Any, action: Any) -> Outcome:
        after = env.step(state, action)
        ends = after.is_termination(), after.is_truncation()
        return _outcome(after.observation, after, after.reward, *ends, after.info)

    return PureEnv(
        reset=lambda key: started(env.reset(key)),
        step=step,
        started=started,
        action_space=_space(env.action_space),
        step_limit=int(getattr(env, "max_steps", UNKNOWN_LIMIT)),
        own=env,
    )


def _outcome(observation: Any, state: Any, reward: Any, over: Any, cut: Any, info: Any) -> Outcome:
    terminated = jnp.asarray(over, dtype=bool)
    truncated = jnp.asarray(cut, dtype=bool) & ~terminated
    return Outcome(observation, state, jnp.asarray(reward), terminated, truncated, dict(info))


def _space(space: Any) -> gymnasium.Space:
    """Returns the space of Gymnasium for one of gymnax or navix."""
    if isinstance(space, gymnasium.Space):
        return space
    low, high = (
        getattr(space, theirs, getattr(space, other, None))
        for theirs, other in (("low", "minimum"), ("high", "maximum"))
    )
    shape = tuple(getattr(space, "shape", ()))
    if hasattr(space, "n") and shape == ():
        return gymnasium.spaces.Discrete(int(space.n))
    if low is None or high is None or hasattr(space, "n"):
        raise ArgumentTypeError(f"the actions are a {space!r}; they must be Discrete or a Box.")
    least, most = (np.broadcast_to(np.asarray(end, np.float32), shape) for end in (low, high))
    return gymnasium.spaces.Box(least, most, dtype=np.float32)


def uniform_policy(space: gymnasium.Space) -> Callable[[Any, Array], Array]:
    """Returns the policy that takes every action equally often.

    Spaces can sample themselves, but that of navix 0.7 never samples its last action.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        first, count = int(space.start), int(space.n)
        return lambda observation, key: jax.random.randint(key, (), first, first + count)
    if not isinstance(space, gymnasium.spaces.Box) or not space.is_bounded():
        raise ArgumentError(
            f"the actions are a {space}, over which there is no uniform policy.",
            remedy="Give policy=, a pure function of an observation and a key.",
        )
    low, high = jnp.asarray(space.low), jnp.asarray(space.high)
    return lambda observation, key: jax.random.uniform(key, low.shape, low.dtype, low, high)


class Walker(NamedTuple):
    """An environment on its way."""

    key: Array
    observation: Any
    state: Any
    over: Bool[Array, " *walkers"]
    """Whether its next step begins somewhere else."""


class Given(NamedTuple):
    """What the user gave: pure functions of a `Step`, or numbers."""

    reward: NumberOfStep
    terminal_reward: NumberOfStep
    behaviour: Callable[[Step], Any] | None


def roll_out(
    env: PureEnv,
    n: int,
    seed: int,
    start: Callable[[Any, Array], Any] | None,
    policy: Callable[[Any, Array], Any] | None,
    given: Given,
    key: Key,
    table: TableBuilder,
) -> dict[str, Any]:
    """Returns the arguments of `Transitions.from_table` for n steps of an environment.

    Args:
        env: The environment.
        n: The number of steps.
        seed: The seed of all random numbers.
        start: Where each step begins, or None for whole episodes: from the environment and a key to
            what its `reset` returns.
        policy: From an observation and a key to an action; by default uniform.
        given: The numbers of the user's own.
        key: The part of the observations to keep.
        table: Where they go.
    """
    count = min(max(1, n // env.step_limit), MAX_WALKERS)
    begin = env.reset if start is None else lambda at: env.started(start(env.own, at))
    act = uniform_policy(env.action_space) if policy is None else policy
    one = _one_step(env, begin, act, given, anew=start is not None)
    columns, at = _Columns(n, key, table, count), 0
    try:
        walkers = _waiting(begin, jax.random.split(jax.random.PRNGKey(seed), count))
        loop = jax.jit(partial(_steps, one, length=_steps_at_once(walkers, n)))
        while at < n:
            walkers, chunk = loop(walkers)
            at = columns.add(jax.tree.map(np.asarray, chunk))
    except jax.errors.JAXTypeError as error:
        raise ArgumentTypeError(
            f"a function that is not a pure JAX function was called on {type(env.own).__qualname__}"
            f": {str(error).splitlines()[0]}",
            remedy="policy(observation, key), and the functions of a step (reward, behaviour and "
            "terminal_reward), are traced by JAX: use jax.numpy, and jnp.where instead of if.",
        ) from error
    return columns.finish(env.action_space, given, uniform=policy is None)


def _waiting(begin: Callable[[Array], tuple[Any, Any]], keys: Array) -> Walker:
    """Returns walkers who have yet to begin, so that only one program has to be compiled."""

    def blank(like: jax.ShapeDtypeStruct) -> Array:
        shape = (len(keys), *like.shape)
        if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
            return jnp.broadcast_to(jax.random.key(0), shape)
        return jnp.zeros(shape, like.dtype)

    observation, state = jax.tree.map(blank, jax.eval_shape(begin, keys[0]))
    return Walker(keys, observation, state, jnp.ones(len(keys), dtype=bool))


def _steps_at_once(walkers: Walker, n: int) -> int:
    """Returns how many steps of all walkers fit into one compiled loop."""
    count = walkers.over.size
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(walkers.observation)) / count
    rows = min(ROWS_AT_ONCE, BYTES_AT_ONCE / max(1.0, size), n)
    return max(1, -(-int(rows) // count))


def _steps(one: Callable[[Walker], Any], walkers: Walker, length: int) -> tuple[Walker, Any]:
    """Makes some steps of all walkers."""
    return jax.lax.scan(lambda walkers, _: jax.vmap(one)(walkers), walkers, length=length)


def _one_step(
    env: PureEnv,
    begin: Callable[[Array], tuple[Any, Any]],
    policy: Callable[[Any, Array], Any],
    given: Given,
    anew: bool,
) -> Callable[[Walker], tuple[Walker, dict[str, Any]]]:
    """Returns a step of one walker, who begins again where an episode is over (or always)."""

    def one(walker: Walker) -> tuple[Walker, dict[str, Any]]:
        key, for_policy, for_step, for_start = jax.random.split(walker.key, 4)
        on_the_way = walker.observation, walker.state
        observation, state = jax.tree.map(
            lambda new, old: jax.lax.select(walker.over, _as(new, old), old),
            begin(for_start), on_the_way,
        )  # fmt: skip
        action = policy(observation, for_policy)
        out = env.step(for_step, state, action)
        reached, after = jax.tree.map(_as, (out.observation, out.state), on_the_way)
        ends = (out.terminated, out.truncated)
        step = Step._make((observation, action, out.reward, reached, *ends, out.info))
        over = jnp.asarray(anew) | out.terminated | out.truncated
        return Walker(key, reached, after, over), {
            "observation": observation,
            "next_observation": reached,
            "action": jnp.asarray(action),
            "terminated": out.terminated,
            "truncated": out.truncated,
            "begins": walker.over,
            **_numbers(given, step, out),
        }

    return one


def _numbers(given: Given, step: Step, out: Outcome) -> dict[str, Any]:
    """Returns the numbers of a step that are not the same for all steps."""
    reported = jnp.asarray(out.info.get("terminal_reward", 0.0), dtype=jnp.float32)
    reported = jnp.where(out.terminated, reported, jnp.zeros_like(reported))
    reward = out.reward.astype(jnp.float32) - reported
    value = given.terminal_reward(step) if callable(given.terminal_reward) else reported
    numbers = {
        "reward": given.reward(step) if callable(given.reward) else reward,
        "terminal_reward": jnp.where(out.terminated, jnp.asarray(value, jnp.float32), 0.0),
    }
    if given.behaviour is not None:
        numbers["behaviour"] = given.behaviour(step)
    return jax.tree.map(lambda number: jnp.asarray(number, jnp.float32).reshape(()), numbers)


def _as(leaf: Any, like: Array) -> Array:
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return leaf
    return jax.lax.convert_element_type(leaf, like.dtype)


class _Columns:
    """Gathers the steps of all walkers, in the order of time.

    Args:
        n: The number of steps to keep.
        key: The part of the observations to keep.
        table: Where they go.
        count: The number of walkers.
    """

    def __init__(self, n: int, key: Key, table: TableBuilder, count: int) -> None:
        self.n, self.key, self.table = n, key, table
        self.at = 0
        self.reached = np.full(count, -1)
        """The row of the table that each walker has reached."""
        self.parts: list[dict[str, np.ndarray]] = []

    def add(self, chunk: dict[str, Any]) -> int:
        """Adds steps (time, walkers), and returns the number of steps so far."""
        kept = min(self.n - self.at, chunk["terminated"].size)
        state, next_state = self._rows(chunk, kept)
        names = set(chunk) - {"observation", "next_observation", "begins"}
        flat = {name: chunk[name].reshape(-1, *chunk[name].shape[2:])[:kept] for name in names}
        self.parts.append({"state": state, "next_state": next_state, **flat})
        self.at += kept
        return self.at

    def _rows(
        self, chunk: dict[str, Any], kept: int
    ) -> tuple[Int[np.ndarray, " kept"], Int[np.ndarray, " kept"]]:
        """Within an episode, an observation is the last step's next observation: one row."""
        before, after = (
            part.reshape(-1, *part.shape[2:])[:kept]
            for part in (
                part_of(chunk[name], self.key, batch=2)
                for name in ("observation", "next_observation")
            )
        )
        begins = chunk["begins"].ravel()[:kept]
        next_state = np.full(chunk["begins"].shape, -1)
        next_state.ravel()[:kept] = self.table.add_rows(after)
        state = np.concatenate([self.reached[None], next_state[:-1]]).ravel()[:kept]
        state[begins] = self.table.add_rows(before[begins])
        self.reached = next_state[-1]
        return state, next_state.ravel()[:kept]

    def finish(self, space: gymnasium.Space, given: Given, uniform: bool) -> dict[str, Any]:
        """Returns the arguments of `Transitions.from_table`."""
        joined = {name: np.concatenate([p[name] for p in self.parts]) for name in self.parts[0]}
        steps = Recorded(self.table.finish(), **joined, action_space=space)
        reward, value = (
            None if callable(one) else one for one in (given.reward, given.terminal_reward)
        )
        columns = steps.columns(reward, value)
        if uniform:
            columns["behaviour"] = columns["default"]
        return columns
