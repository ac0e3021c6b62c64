"""Collects transitions of pure JAX environments, in the interfaces of gymnax and navix."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from drogo.data.index import TableBuilder
from drogo.data.recorded import complete
from drogo.data.step import Key, Step, StepNumbers, part_of
from drogo.errors import ArgumentError, ArgumentTypeError

MAX_WALKERS = 1000  # The largest number of episodes side by side.
ROWS_AT_ONCE, BYTES_AT_ONCE = 2**16, 2**27  # The most steps and bytes of one compiled loop.
NO_LIMIT = np.iinfo(np.int32).max
UNKNOWN_LIMIT = 1000  # The assumed step limit of an environment whose limit is unknown.


class PureEnv(NamedTuple):
    """An environment as pure functions. Its steps do not reset."""

    begin: Callable[[Array], tuple[Any, Any]]
    """Maps a key to the first observation and state of an episode."""
    step: Callable[[Array, Any, Any], tuple[Step, Any]]
    """Maps a key, a state and an action to a step (without these) and the next state."""
    action_space: gymnasium.Space
    step_limit: int


def _of_gymnax(env: Any, params: Any, start: Callable[[Array], Any] | None) -> PureEnv:
    """`done` of gymnax before 1.0 includes the time limit. Where the limit is one of the
    parameters, the same step without it shows whether the state is terminal."""
    params = getattr(env, "default_params", None) if params is None else params
    limit = getattr(params, "max_steps_in_episode", None)
    reports_truncation = hasattr(env, "is_truncated")
    if not reports_truncation and (limit is None or not dataclasses.is_dataclass(type(params))):
        problem = f"whether done of {type(env).__qualname__} includes a time limit is unknown."
        remedy = "Give it a method is_truncated(state, params), and let done leave the limit out."
        raise ArgumentTypeError(problem, remedy=remedy, argument="env")

    def step(key: Array, state: Any, action: Any) -> tuple[Step, Any]:
        observation, after, reward, done, info = env.step_env(key, state, action, params)
        if reports_truncation:
            over, cut = done, env.is_truncated(after, params)
        else:
            endless = dataclasses.replace(params, max_steps_in_episode=NO_LIMIT)
            over, cut = env.step_env(key, state, action, endless)[3], done
        return _as_step(reward, observation, over, cut, info), after

    step_limit = UNKNOWN_LIMIT if limit is None else int(limit)
    begin = start or (lambda key: env.reset(key, params))
    return PureEnv(begin, step, _space(env.action_space(params)), step_limit)


def _of_navix(env: Any, reset: Callable[[Array], Any]) -> PureEnv:
    """A step of navix resets only after the last step of an episode, where none is taken."""

    def begin(key: Array) -> tuple[Any, Any]:
        first = reset(key)
        return first.observation, first

    def step(key: Array, state: Any, action: Any) -> tuple[Step, Any]:
        after = env.step(state, action)
        flags = after.is_termination(), after.is_truncation()
        return _as_step(after.reward, after.observation, *flags, after.info), after

    limit = int(getattr(env, "max_steps", UNKNOWN_LIMIT))
    return PureEnv(begin, step, _space(env.action_space), limit)


def _as_step(reward: Any, next_observation: Any, over: Any, cut: Any, info: Any) -> Step:
    over = jnp.asarray(over, dtype=bool)
    cut = jnp.asarray(cut, dtype=bool) & ~over
    return Step._make((None, None, jnp.asarray(reward), next_observation, over, cut, dict(info)))


def _space(space: Any) -> gymnasium.Space:
    """Returns the space of Gymnasium for one of gymnax or navix."""
    if isinstance(space, gymnasium.Space):
        return space
    low = getattr(space, "low", getattr(space, "minimum", None))
    high = getattr(space, "high", getattr(space, "maximum", None))
    shape = tuple(getattr(space, "shape", ()))
    if hasattr(space, "n") and shape == ():
        return gymnasium.spaces.Discrete(int(space.n))
    if low is None or high is None or hasattr(space, "n"):
        raise ArgumentTypeError(f"the actions are {space!r}, no Discrete or Box.", argument="env")
    low, high = (np.broadcast_to(np.asarray(bound, np.float32), shape) for bound in (low, high))
    return gymnasium.spaces.Box(low, high, dtype=np.float32)


def _uniform_policy(space: gymnasium.Space) -> Callable[[Any, Array], Array]:
    """Returns the uniform policy, because the space of navix 0.7 never samples its last action."""
    if isinstance(space, gymnasium.spaces.Discrete):
        first, count = int(space.start), int(space.n)
        return lambda observation, key: jax.random.randint(key, (), first, first + count)
    if not isinstance(space, gymnasium.spaces.Box) or not space.is_bounded():
        problem = f"the actions are a {space}, over which there is no uniform policy."
        remedy = "Give policy=, a pure function of an observation and a key."
        raise ArgumentError(problem, remedy=remedy, argument="policy")
    low, high = jnp.asarray(space.low), jnp.asarray(space.high)
    return lambda observation, key: jax.random.uniform(key, low.shape, low.dtype, low, high)


Rows = Int[np.ndarray, " walkers"]


class Walker(NamedTuple):
    """An episode in progress."""

    key: Array
    observation: Any
    state: Any
    over: Bool[Array, " *walkers"]  # Whether its next step begins a new episode.


def roll_out(
    env: Any,
    n: int,
    seed: int,
    start: Callable[[Any, Array], Any] | None,
    policy: Callable[[Any, Array], Any] | None,
    numbers: StepNumbers,
    key: Key,
    table: TableBuilder,
) -> dict[str, Any]:
    """Returns the arguments of `Transitions.from_table` for n steps; see `collect`."""
    env, params = env if isinstance(env, tuple) and len(env) == 2 else (env, None)
    begin = None if start is None else partial(start, env)
    if hasattr(type(env), "step_env"):
        pure = _of_gymnax(env, params, begin)
    elif hasattr(env, "step") and "timestep" in inspect.signature(env.step).parameters:
        pure = _of_navix(env, begin or env.reset)
    else:
        problem = f"env is a {type(env).__qualname__}, whose step may reset by itself."
        remedy = "Give an environment (not a wrapper) that has step_env(key, state, action, params)"
        remedy += " as in gymnax, or use drogo.Transitions.from_arrays."
        raise ArgumentTypeError(problem, remedy=remedy, argument="env")
    count = min(max(1, n // pure.step_limit), MAX_WALKERS)
    act = _uniform_policy(pure.action_space) if policy is None else policy
    one = partial(_one_step, pure, act, numbers, start is not None)
    rows, chunks, length = np.full(count, -1), [], 0
    try:
        keys = jax.random.split(jax.random.PRNGKey(seed), count)
        # The first step of every walker begins an episode, so these states are replaced at once.
        observation, state = jax.jit(jax.vmap(pure.begin))(keys)
        walkers = Walker(keys, observation, state, jnp.ones(count, dtype=bool))
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(observation)) / count
        rows_at_once = int(min(ROWS_AT_ONCE, BYTES_AT_ONCE / max(1.0, size), n))
        scan = partial(jax.lax.scan, length=max(1, -(-rows_at_once // count)))
        loop = jax.jit(lambda walkers: scan(lambda carry, _: jax.vmap(one)(carry), walkers))
        while length < n:
            walkers, chunk = loop(walkers)
            chunk = jax.tree.map(np.asarray, chunk)
            kept = min(n - length, chunk["terminated"].size)
            columns, rows = _flat(chunk, kept, rows, key, table)
            chunks.append(columns)
            length += kept
    except jax.errors.JAXTypeError as error:
        problem = f"a function is not a pure JAX function: {str(error).splitlines()[0]}"
        remedy = "JAX traces policy, reward, behaviour and terminal_reward: use jax.numpy, and "
        raise ArgumentTypeError(problem, remedy=f"{remedy}jnp.where instead of if.") from error
    joined = {name: np.concatenate([part[name] for part in chunks]) for name in chunks[0]}
    reward, value = (None if callable(number) else number for number in numbers[:2])
    given = StepNumbers(reward, value)  # the others are in the chunks
    columns = complete({"observations": table.finish(), **joined}, pure.action_space, given, key)
    if policy is None:
        columns["behaviour"] = columns["default"]
    return columns


def _one_step(
    env: PureEnv, policy: Callable, numbers: StepNumbers, always_begins: bool, walker: Walker
) -> tuple[Walker, dict[str, Any]]:
    """Takes the step of one walker, which begins again where an episode is over (or always)."""
    key, for_policy, for_step, for_start = jax.random.split(walker.key, 4)
    current = walker.observation, walker.state
    choose = lambda new, old: jax.lax.select(walker.over, _as(new, old), old)  # noqa: E731
    observation, state = jax.tree.map(choose, env.begin(for_start), current)
    action = policy(observation, for_policy)
    step, after = env.step(for_step, state, action)
    reached, after = jax.tree.map(_as, (step.next_observation, after), current)
    step = step._replace(observation=observation, action=action, next_observation=reached)
    over = jnp.asarray(always_begins) | step.terminated | step.truncated
    columns = {**step._asdict(), "action": jnp.asarray(action), "begins": walker.over}
    del columns["info"]
    return Walker(key, reached, after, over), columns | _numbers(numbers, step)


def _numbers(given: StepNumbers, step: Step) -> dict[str, Any]:
    """Returns the numbers of a step that are not the same for all steps."""
    reported = jnp.asarray(step.info.get("terminal_reward", 0.0), dtype=jnp.float32)
    reported = jnp.where(step.terminated, reported, jnp.zeros_like(reported))
    reward = jnp.asarray(step.reward).astype(jnp.float32) - reported
    value = given.terminal_reward(step) if callable(given.terminal_reward) else reported
    numbers = {"reward": given.reward(step) if callable(given.reward) else reward}
    if given.terminal_reward is None and "terminal_reward" not in step.info:
        numbers["outcome"] = jnp.asarray(step.reward)
    else:
        over = step.terminated
        numbers["terminal_reward"] = jnp.where(over, jnp.asarray(value, jnp.float32), 0.0)
    if given.behaviour is not None:
        numbers["behaviour"] = given.behaviour(step)
    return jax.tree.map(lambda number: jnp.asarray(number, jnp.float32).reshape(()), numbers)


def _as(leaf: Any, like: Array) -> Array:
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return leaf
    return jax.lax.convert_element_type(leaf, like.dtype)


def _flat(
    chunk: dict[str, Any], kept: int, rows: Rows, key: Key, table: TableBuilder
) -> tuple[dict[str, np.ndarray], Rows]:
    """Returns the columns of the first steps of a chunk, and the row that each walker reached."""

    def flat(part: np.ndarray) -> np.ndarray:
        return part.reshape(-1, *part.shape[2:])[:kept]

    begins = chunk.pop("begins")
    both = (chunk.pop(name) for name in ("observation", "next_observation"))
    before, after = (flat(part_of(part, key, batch=2)) for part in both)
    next_state = np.full(begins.shape, -1)
    next_state.ravel()[:kept] = table.add_rows(after)
    # Within an episode, an observation is the last step's next observation: one row.
    state = np.concatenate([rows[None], next_state[:-1]]).ravel()[:kept]
    state[flat(begins)] = table.add_rows(before[flat(begins)])
    columns = {name: flat(part) for name, part in chunk.items()}
    columns["environment"] = np.arange(kept) % begins.shape[1]
    return {"state": state, "next_state": flat(next_state), **columns}, next_state[-1]
