"""Batches of pairs of a state and a goal, and the outputs of networks for any pairs."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from drogo.data.arrays import as_type
from drogo.device import to_device
from drogo.errors import ArgumentError, DataError
from drogo.learn.batches import LONGEST_CHUNK
from drogo.learn.learner import Batch, Learner
from drogo.learn.method import AbstractMethod
from drogo.learn.networks import Pairs
from drogo.learn.problem import Prepared
from drogo.learn.solution import Solution
from drogo.problems.shared import filled

Reached = Callable[[np.ndarray, np.ndarray], Any]
"""From a batch of observations and a goal for each of them to whether it is reached there."""
ASKED_AT_ONCE = 4096  # The number of observations that a user's function is called with at a time.
PAIRS_AT_ONCE = 4**7  # The number of pairs that a network evaluates at a time.


class PairDraw(NamedTuple):
    """Sampled pairs of some updates; on the device, of one."""

    state: Int[Any, "*updates n"]
    goal: Int[Any, "*updates n"]
    value: Float[Any, "*updates n"]
    """The value of the pair, or of the next state and the goal, where it is known."""
    given: Bool[Any, "*updates n"]
    weight: Float[Any, "*updates n"]
    action: Int[Any, "*updates n"] | None = None
    next_state: Int[Any, "*updates n"] | None = None  # None where all values are known.
    reward: Float[Any, "*updates n"] | None = None
    log_default: Float[Any, "*updates n"] | None = None


Draws = Callable[[int, int, int], PairDraw]
"""From a seed, the first of some updates and their number to the pairs of these updates."""


class PairData(eqx.Module):
    """Assembles batches of pairs on the device."""

    features: Float[Array, "distinct size"]

    def batch(self, learner: Learner, draw: PairDraw) -> Batch:
        pairs = self._pairs(draw.state, draw.goal)
        after = None if draw.next_state is None else self._pairs(draw.next_state, draw.goal)
        reward = jnp.zeros(draw.state.size) if draw.reward is None else draw.reward
        terminal_reward = draw.value * learner.objective.problem.lam
        rest = (reward, draw.given, terminal_reward, draw.weight, draw.action, draw.log_default)
        return Batch(pairs, after, None, None, *rest)

    def _pairs(self, state: Int[Array, " n"], goal: Int[Array, " n"]) -> Pairs:
        if len(self.features) <= state.size:
            return Pairs(self.features, self.features, state, goal)
        return Pairs(self.features[state], self.features[goal])  # a table would cost more


class PairSampler:
    """Samples pairs for every seed, in blocks that do not depend on when a fit was interrupted."""

    longest = LONGEST_CHUNK

    def __init__(self, seeds: list[int], draws: Draws) -> None:
        self.seeds = seeds
        self._block = lru_cache(2 * len(seeds))(draws)  # a draw may need two blocks of a seed

    def draw(self, update: int, count: int) -> PairDraw:
        """Returns the draws of `count` updates from `update` on, as `Batches.sampler` says."""
        start = update - update % self.longest
        blocks = range(start, update + count, self.longest)

        def joined(*parts: np.ndarray) -> np.ndarray:
            return np.concatenate(parts)[update - start :][:count]

        def padded(*parts: np.ndarray) -> Array:
            stacked = np.stack(parts, axis=1)
            rest = np.zeros((self.longest - count, *stacked.shape[1:]), dtype=stacked.dtype)
            return to_device(np.concatenate([stacked, rest]))

        of_seeds = (
            jax.tree.map(joined, *(self._block(seed, first, self.longest) for first in blocks))
            for seed in self.seeds
        )
        return jax.tree.map(padded, *of_seeds)


def known_pairs(
    v: Float[np.ndarray, "goals distinct"],
    goals: Int[np.ndarray, " goals"],
    action_values: Float[np.ndarray, "goals distinct actions"] | None,
    batch_size: int | str,
) -> Draws:
    """Returns a sampler of pairs whose value is known exactly, uniform over all of them."""
    values = (v if action_values is None else action_values).copy()
    # In the goal itself the value is 0 and no action follows, whatever is learned.
    values[np.arange(goals.size), goals] = -np.inf
    where = np.nonzero(np.isfinite(values))
    goal, state, *action = (part.astype(np.int32) for part in (goals[where[0]], *where[1:]))
    value = values[where].astype(np.float32)

    most = state.size if isinstance(batch_size, str) else min(batch_size, state.size)

    def draws(seed: int, first: int, count: int) -> PairDraw:
        size = (count, most)
        rows = np.broadcast_to(np.arange(most), size)
        if most < state.size:
            rows = np.random.default_rng([seed, first]).integers(state.size, size=size)
        weight, given = np.full(size, 1 / most, dtype=np.float32), np.ones(size, dtype=bool)
        taken = (part[rows] for part in action)
        return PairDraw(state[rows], goal[rows], value[rows], given, weight, *taken)

    return draws


def relabelled(
    prepared: Prepared,
    method: AbstractMethod,
    nearest: Int[np.ndarray, "n few"],
    near: float,
    missed: float,
    reached: Reached | None,
) -> Draws:
    """Returns a sampler of transitions, each with a goal: a share `near` of goals are among the
    `nearest` of the state that is left. A goal that is missed for good has the value `missed`.

    A goal must not depend on the state that is reached: transitions that reach it would come too
    often, and every value would be too high.
    """
    data, goals = prepared.data, prepared.facts["goals"]
    batch_size = method.batch_size if isinstance(method.batch_size, int) else len(data)

    def arrived(state: np.ndarray, goal: np.ndarray) -> Bool[np.ndarray, "updates n"]:
        if reached is None:
            return state == goal
        table, flat = data.observations, (state.ravel(), goal.ravel())
        slices = [slice(k, k + ASKED_AT_ONCE) for k in range(0, state.size, ASKED_AT_ONCE)]
        answers = [ask(reached, *(table[rows[part]] for rows in flat)) for part in slices]
        return np.concatenate(answers).reshape(state.shape)

    def draws(seed: int, first: int, count: int) -> PairDraw:
        rng, size = np.random.default_rng([seed, first]), (count, batch_size)
        rows = rng.integers(len(data), size=size)
        close = nearest[rows, rng.integers(nearest.shape[1], size=size)]
        goal = np.where(rng.random(size) < near, close, rng.choice(goals, size))
        state, after = data.state[rows], data.next_state[rows]
        arrives = arrived(after, goal)
        over = data.terminated[rows] & ~arrives  # an episode that is over never reaches its goal
        weight = data.weight[rows] * ~arrived(state, goal)
        total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-9)
        draw = PairDraw(
            state=state,
            goal=goal.astype(np.int32),
            value=np.where(over, missed, 0.0).astype(np.float32),
            given=arrives | over,
            weight=(weight / total).astype(np.float32),
            next_state=after,
            reward=data.reward[rows].astype(np.float32),
        )
        if not method.per_action:
            return draw
        assert data.action is not None
        assert data.log_default is not None
        log_default = data.log_default[rows].astype(np.float32)
        return draw._replace(action=data.action[rows], log_default=log_default)

    return draws


def ask(reached: Reached, observations: np.ndarray, goals: np.ndarray) -> Bool[np.ndarray, " n"]:
    """Returns the checked answer of a user's function about observations and goals."""
    answer = np.asarray(reached(observations, goals))
    if answer.shape != (len(observations),) or answer.dtype != bool:
        wanted = f"give True or False for each of {len(observations)} observations."
        problem = f"reached returned {answer.dtype} of shape {answer.shape}; {wanted}"
        raise ArgumentError(problem, argument="reached")
    return answer


def pair_outputs(
    learner: Learner,
    params: Any,
    tables: tuple[np.ndarray, np.ndarray],
    state: Int[np.ndarray, " n"],
    goal: Int[np.ndarray, " n"],
) -> Float[np.ndarray, "runs n ..."]:
    """Returns the scaled outputs of every run for pairs of rows: v(s, g), or those of actions."""
    both = [to_device(filled(np.asarray(learner.inputs(part)))) for part in tables]
    parts = []
    for begin in range(0, state.size, PAIRS_AT_ONCE):
        rows = [part[begin : begin + PAIRS_AT_ONCE].astype(np.int32) for part in (state, goal)]
        out = _outputs(learner, params, *both, *map(jnp.asarray, map(filled, rows)))
        parts.append(np.asarray(out, dtype=np.float64)[:, : rows[0].size])
    return np.concatenate(parts, axis=1)


def pair_values(learner: Learner, *arguments: Any) -> Float[np.ndarray, "runs n"]:
    """Returns v(s, g) of every run for some pairs; the arguments are those of `pair_outputs`."""
    raw = pair_outputs(learner, *arguments)
    return np.logaddexp.reduce(raw, axis=2) if learner.objective.method.per_action else raw


@eqx.filter_jit
def _outputs(
    learner: Learner, params: Any, observations: Array, goals: Array, state: Array, goal: Array
) -> Array:
    def of_run(run: Any) -> Array:
        network = learner.network(run)
        pairs = Pairs(network.features(observations), network.features(goals), state, goal)
        return learner.objective.scale * network.values(pairs)

    return jax.lax.map(of_run, params)


def check_arriving(draw: Any) -> None:
    """Raises an error if no sampled step reaches its goal, which holds a map in place."""
    begun = draw.weight > 0
    if not begun.any():
        problem = f"all of {begun.size:,} steps began in the goal that was sampled for them."
        raise DataError(problem, remedy="Give a smaller radius, or a stricter function reached.")
    if not (draw.given & (draw.value == 0) & begun).any():
        problem = f"none of {int(begun.sum()):,} steps reached its goal, which anchors the map."
        raise DataError(problem, remedy="Give a larger radius, or a less strict function reached.")


def as_goals(solution: Solution, given: Any, n: int) -> Shaped[np.ndarray, "n ..."]:
    """Returns goals in the type of the data, one for each of n observations."""
    if given is None:
        raise ArgumentError("give the goal as an observation: goal=...", argument="goal")
    shape = solution.observations.shape[1:]
    goals = as_type("this map", given, solution.observations.dtype)
    if goals.shape == shape:
        goals = np.broadcast_to(goals, (n, *shape))
    if goals.shape != (n, *shape):
        problem = f"the goals have shape {goals.shape}; give one of shape {shape}, or {n} of them."
        raise ArgumentError(problem, argument="goal")
    return goals
