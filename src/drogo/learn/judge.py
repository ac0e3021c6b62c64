"""`Judge`: measures every run of a fit, which is one seed at one point of a sweep."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from drogo.data import Transitions
from drogo.data.index import read_rows
from drogo.device import to_device
from drogo.learn.batches import Plan, weighed_batch
from drogo.learn.learner import Batch, Learner, Objective
from drogo.learn.problem import Point, Prepared
from drogo.mdp.model import mean_gap

HUGE = 1e38  # The number that stands for an infinite residual, so that means are finite.
STANDARD_ERRORS = 3.0  # The number of standard errors that are subtracted from a group's residual.
NUMBERS_AT_ONCE, MOST_AT_ONCE, FEW = 2**22, 4096, 64
"""The most numbers and observations of one evaluation. Up to `FEW` are padded to a power of two."""
TOLERATED_SHARE, MOST_SHARE = 1e-3, 0.05
"""The share of a map's depth that is always tolerated, and the most that the tolerance allows."""
STOP_AT_ERROR, STOP_AT_RESIDUAL = 0.1, 0.01
"""The share of the tolerance at which a fit stops early, by errors or by residuals."""

Runs = Float[np.ndarray, " runs"]
Raw = Float[np.ndarray, "runs n ..."]
Each = Float[np.ndarray, "runs n"]
Measures = Mapping[str, np.ndarray]
Row = dict[str, Runs]  # One row of the history: a number for each run, by name.
Measured = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Residuals, the worst of each run, differences of v, their counts, and v itself."""
Truths = Mapping[str, Float[np.ndarray, "runs ..."]]


@dataclass(frozen=True)
class Judge:
    """Measures every run against the equations of its method, and against known vectors."""

    prepared: Prepared
    plan: Plan
    learner: Learner
    objectives: Objective  # The objective of each run, stacked.
    points: list[Point]  # The settings of each run.
    truths: Truths  # Known vectors over the observations for each run, by name.
    logged: int = 40  # The number of logged updates of a fit.

    @property
    def data(self) -> Transitions:
        return self.prepared.shown

    @cached_property
    def solution(self) -> Float[np.ndarray, "runs distinct"] | None:
        """The exact solutions of the data, if there are any, infinite or NaN where undetermined."""
        if self.points[0].exact is None:
            return None
        return np.stack([point.exact for point in self.points])

    @cached_property
    def depth(self) -> Runs:
        """The depth of the exact solutions: of lost states only where there are no others."""
        assert self.solution is not None
        live = np.setdiff1d(self.data.state, self.prepared.facts.get("lost", ()))
        return depth_of(self.solution, live if live.size else self.data.state)

    @property
    def lam(self) -> Runs:
        return np.array([point.problem.lam for point in self.points])

    @property
    def tolerance(self) -> Runs:
        return np.array([point.problem.tolerance for point in self.points])

    @np.errstate(invalid="ignore", over="ignore")  # a run that diverges has no finite numbers
    def row(self, params: Any, losses: Runs) -> Row:
        """Returns one more row of the history."""
        compared = self.plan.compared if self.truths or self.plan.repeats else self.plan.kept[:1]
        outputs = self.outputs(params, compared)
        v = self.log_e(outputs, compared)
        extra = jax.vmap(lambda run: self.learner.network(run).extra())(params)
        by_state = self.plan.repeats
        measured = self._by_state(outputs, v, extra) if by_state else self._by_group(params, extra)
        residuals, worst, step, count, of_states = measured
        cap = np.array([getattr(point.method, "cap", np.inf) for point in self.points])[:, None]
        row = {
            "loss": losses,
            "violation": np.abs(residuals).mean(axis=1),
            "worst": worst,
            "spread": residuals.max(axis=1) - residuals.min(axis=1),
            "at_cap": (step >= cap) @ (count / count.sum()),
            "level": of_states.mean(axis=1),
        }
        if self.solution is not None:
            gaps = np.where(np.isfinite(self.solution), np.abs(v - self.solution), 0.0)
            row["error"] = gaps.max(axis=1)
        for name, vectors in self.truths.items():
            # A terminal state of the data, in which both are 0.
            anchor = self.prepared.facts.get("anchor", self.data.terminal_states[0])
            anchor = int(np.searchsorted(self.plan.compared, anchor))
            truth = vectors[:, self.plan.compared]
            gaps = differences(v, truth, anchor)
            row[f"cosine_{name}"] = np.concatenate(list(map(cosine, v[:, None], truth)))
            row[f"difference_{name}"] = gaps.max(axis=1)
            row[f"mean_difference_{name}"] = gaps.mean(axis=1)
        return row

    def converged(self, row: Measures, share: float = 1.0) -> Bool[np.ndarray, " runs"]:
        """Returns the runs in which every value is right, or else every equation holds."""
        if self.solution is not None:
            return row["error"] <= share * allowed(self.tolerance, self.depth)
        # The vector that is zero everywhere must not pass. Its residual is 1 - exp(r/lam) in a
        # state and the mean of that over a group, in which more is hidden.
        reward = self.data.reward
        reward = reward.min() if self.plan.repeats else reward[self.plan.checked]
        with np.errstate(over="ignore"):  # the limit is then the tolerance
            zero = [np.abs(np.expm1(reward / lam)).mean() for lam in self.lam]
        limit = np.minimum(self.tolerance, np.array(zero) / (2 if self.plan.repeats else 10))
        return row["worst"] <= share * limit

    def enough(self, row: Measures) -> Bool[np.ndarray, " runs"]:
        """Returns the runs that need no more updates, where training may stop early."""
        share = STOP_AT_RESIDUAL if self.solution is None else STOP_AT_ERROR
        return self.converged(row, share) & self.stops_early

    @property
    def stops_early(self) -> bool:
        return self.points[0].method.stop_early and self.plan.repeats

    @property
    def verified(self) -> bool:
        """Whether a run without visible errors is `converged` and not merely `unverified`: the data
        determine every value, and show every action that the default policy takes."""
        weighed = self.points[0].method.weigh_actions or self.points[0].method.needs_solution
        if not self.prepared.sound or (weighed and not self.prepared.complete):
            return False
        if self.solution is None:
            return self.plan.repeats
        return bool(np.isfinite(self.solution).all())

    def finish(self, params: Any) -> dict[str, np.ndarray]:
        """Returns the arrays of a solution, each with an axis over runs, by name."""
        kept = self.plan.kept
        outputs = self.outputs(params, kept)
        v, log_scale = self.log_e(outputs, kept), self.log_e_and_scale(outputs)[1]
        return {"v": v, "log_scale": log_scale, "mean_step": self._mean_step(params, v)}

    def shared(self, run: int = 0) -> dict[str, np.ndarray]:
        """Returns the arrays of a solution that all seeds share, by name."""
        kept, table = self.plan.kept, self.data.observations
        states, rewards = self.data.pure_terminal_states
        is_kept = np.isin(states, kept) & self.points[0].method.anchored
        whole = kept.size == len(table)
        return {
            "observations": table if whole else np.asarray(table[kept]),
            "terminal_states": np.searchsorted(kept, states[is_kept]),
            "terminal_rewards": rewards[is_kept],
        }

    def outputs(self, params: Any, which: np.ndarray) -> Raw:
        """Returns the raw outputs of every run at some rows of the table of observations."""
        table = self.data.observations
        whole = which.size == len(table) and np.array_equal(which, np.arange(which.size))
        return outputs(self.learner, params, table if whole else read_rows(table, which))

    def log_e(self, outputs: Raw, which: np.ndarray) -> Float[np.ndarray, "runs n"]:
        """Returns log e for the outputs at some rows, with the given values of terminal states."""
        v = self.log_e_and_scale(outputs)[0]
        if self.points[0].method.anchored:
            states, rewards = self.data.pure_terminal_states
            given = np.isin(which, states)
            v[:, given] = rewards[np.searchsorted(states, which[given])][None] / self.lam[:, None]
        return v

    def log_e_and_scale(self, outputs: Raw) -> tuple[Float[np.ndarray, "runs n"], Runs]:
        """Returns log e, and the constant that was subtracted to fix its scale."""
        log_e, log_scale = _log_e(self.objectives, to_device(outputs, jnp.float32))
        scale = np.asarray(log_scale, dtype=np.float64)
        return np.asarray(log_e, dtype=np.float64) - scale[:, None], scale

    @cached_property
    def _edges(self) -> Batch:
        return self._batch(self.data.edges)

    def _batch(self, source: Any, which: Any = slice(None)) -> Batch:
        weight = source.weight / source.weight[which].sum()
        return weighed_batch(source, weight, which, per_action=self.points[0].method.per_action)

    def _by_state(self, outputs: Any, v: np.ndarray, extra: Array | None) -> Measured:
        edges, single = self.data.edges, to_device(outputs, jnp.float32)
        residuals = state_residuals(self.learner, self.objectives, single, self._edges, extra)
        seen = np.bincount(edges.state, minlength=outputs.shape[1]) > 0
        residuals = np.asarray(residuals, dtype=np.float64)[:, seen]
        residuals = np.nan_to_num(residuals, posinf=HUGE, neginf=-HUGE).reshape(len(residuals), -1)
        step = v[:, edges.next_state] - v[:, edges.state]
        entries = np.asarray(self.learner.objective.entry(single))
        mixed = (entries < 0).any(axis=1) & (entries > 0).any(axis=1)
        # The principal eigenvector has one sign, so a vector of two has not converged.
        worst = np.where(mixed, np.inf, np.abs(residuals).max(axis=1))
        return residuals, worst, step, edges.count, v

    def _by_group(self, params: Any, extra: Array | None) -> Measured:
        data, rows = self.data, self.plan.checked
        both = np.concatenate([data.state[rows], data.next_state[rows]])
        outputs = to_device(self.outputs(params, both), dtype=jnp.float32)
        before, after = outputs[:, : rows.size], outputs[:, rows.size :]
        given = (self.learner, self.objectives, before, after, self._batch(data, rows), extra)
        slopes, units = (np.asarray(part, np.float64) for part in transition_slopes(*given))
        v = np.asarray(_log_e(self.objectives, before)[0], dtype=np.float64)
        step = np.asarray(_log_e(self.objectives, after)[0], dtype=np.float64) - v
        mean, error = in_groups(slopes, units, v)
        beyond = np.maximum(np.abs(mean) - STANDARD_ERRORS * error, 0.0).max(axis=1)
        # For the overall mean only one standard error is subtracted: with few transitions, three
        # would excuse anything.
        together = np.abs(mean.mean(axis=1)) - np.sqrt((error**2).mean(axis=1) / error.shape[1])
        return mean, np.maximum(beyond, together), step, np.ones(rows.size), v

    def _mean_step(self, params: Any, v: np.ndarray) -> Runs:
        data, pairs = self.data, self.data.neighbours
        if self.plan.kept.size < len(data.observations):  # of the transitions that were checked
            some = self.plan.checked
            some = some[data.state[some] != data.next_state[some]]
            both = np.concatenate([data.state[some], data.next_state[some]])
            v = self.log_e(self.outputs(params, both), both)
            pairs = np.arange(2 * some.size).reshape(2, -1).T
        return mean_gap(v, pairs)


def depth_of(v: Float[np.ndarray, "*runs states"], live: np.ndarray) -> Any:
    """Returns the depth of maps, from the lowest value of a live state to the best of all: the
    given value of a bad end may be far below all values that follow from it."""
    finite = np.isfinite(v)
    lowest = np.where(finite, v, np.inf)[..., live].min(axis=-1)
    return np.where(finite, v, -np.inf).max(axis=-1) - lowest


def allowed(tolerance: Any, depth: Any) -> Any:
    """Returns the largest error of a converged map."""
    return np.clip(tolerance, TOLERATED_SHARE * depth, MOST_SHARE * depth)


@eqx.filter_jit
def _log_e(objectives: Objective, outputs: Array) -> tuple[Array, Array]:
    def of_run(objective: Objective, outputs: Array) -> tuple[Array, Array]:
        log_e = objective.log_e(outputs)
        return log_e, objective.log_scale(log_e)

    return eqx.filter_vmap(of_run)(objectives, outputs)


@eqx.filter_jit
def _outputs(learner: Learner, params: PyTree[Array], prepared: Array) -> Array:
    numbers = learner.inputs.finish(prepared)
    return jax.lax.map(lambda run: learner.network(run)(numbers), params)


def outputs(learner: Learner, params: PyTree[Array], observations: np.ndarray) -> Raw:
    """Returns the raw outputs of every run at some observations, in pieces of few sizes."""
    row = max(1, math.prod(observations.shape[1:]))
    size = int(np.clip(NUMBERS_AT_ONCE // row, FEW, MOST_AT_ONCE))
    parts = []
    for begin in range(0, len(observations), size):
        shown = learner.inputs.prepare(np.asarray(observations[begin : begin + size]))
        n = len(shown)
        rows = 1 << (n - 1).bit_length() if len(observations) <= FEW else size if begin else n
        filled = to_device(np.resize(shown, (rows, *shown.shape[1:])))
        parts.append(np.asarray(_outputs(learner, params, filled), dtype=np.float64)[:, :n])
    return np.concatenate(parts, axis=1)


def cosine(v: Float[np.ndarray, "runs states"], truth: Float[np.ndarray, " states"]) -> Runs:
    """Returns the cosine similarity of the logs, the paper's measure. Zeros have the cosine 0, and
    vectors are divided by their largest entry first, for finite squares."""
    with np.errstate(invalid="ignore"):
        small = [np.nan_to_num(x / np.abs(x).max(axis=-1, keepdims=True)) for x in (v, truth)]
    norms = (np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1.0) for x in small)
    one, other = (x / norm for x, norm in zip(small, norms, strict=True))
    return one @ other


def differences(
    v: Float[np.ndarray, "runs states"], truth: Float[np.ndarray, "*runs states"], anchor: int
) -> Float[np.ndarray, "runs states"]:
    """Returns the absolute differences of the logs, both shifted to 0 at the anchor."""
    return np.abs((v - v[:, [anchor]]) - (truth - truth[..., [anchor]]))


IN_A_GROUP, MOST_GROUPS = 500, 20  # The fewest transitions in a group, and the most groups.


def _bare(learner: Learner, objective: Objective) -> Learner:
    """Returns the learner without the cap and the ceiling, which only serve the training."""
    none, method = jnp.full_like(objective.ceiling, jnp.inf), objective.method.equation()
    if hasattr(method, "cap"):
        method = eqx.tree_at(lambda method: method.cap, method, none)
    bare = eqx.tree_at(lambda o: (o.method, o.ceiling), objective, (method, none))
    return eqx.tree_at(lambda learner: learner.objective, learner, bare)


@eqx.filter_jit
def state_residuals(
    learner: Learner,
    objectives: Objective,
    outputs: Float[Array, "runs states ..."],
    batch: Batch,
    extra: Float[Array, "runs ..."] | None = None,
) -> Float[Array, "runs states ..."]:
    """Returns the residual of every output, NaN if no transition leaves the state (by its action):
    the derivative of the expected loss over `AbstractMethod.unit`, for `Drogo` 1 - E[exp(r/lam +
    v(s') - v(s))], which is exp(r/lam) times the Collatz-Wielandt quotient."""

    def of_run(objective: Objective, outputs: Array, extra: Array | None) -> Array:
        bare = _bare(learner, objective)

        def total_unit(outputs: Array) -> Array:
            """A sum whose derivative is the unit of every equation."""
            assert batch.state is not None
            output = bare.objective.at_action(outputs[batch.state], batch.action)
            units = bare.objective.method.unit(output, bare.log_cost(batch))
            return (batch.weight * jax.lax.stop_gradient(units)) @ output

        slopes = jax.grad(lambda x: bare.loss_of_outputs(x, x, batch, extra=extra))(outputs)
        unit = jax.grad(total_unit)(outputs)
        return jnp.where(unit > 0, slopes / unit, jnp.nan)

    return eqx.filter_vmap(of_run)(objectives, outputs, extra)


@eqx.filter_jit
def transition_slopes(
    learner: Learner,
    objectives: Objective,
    outputs: Float[Array, "runs n ..."],
    next_outputs: Float[Array, "runs n ..."],
    batch: Batch,
    extra: Float[Array, "runs ..."] | None = None,
) -> tuple[Float[Array, "runs n"], Float[Array, "runs n"]]:
    """Returns the slope and the unit of single transitions, NaN if not separable."""
    if not learner.objective.method.separable:
        unknown = jnp.full(outputs.shape[:2], jnp.nan)
        return unknown, jnp.ones_like(unknown)

    def of_run(
        objective: Objective, outputs: Array, next_outputs: Array, extra: Array | None
    ) -> tuple[Array, Array]:
        bare = _bare(learner, objective).objective
        log_cost = learner.with_objective(objective).log_cost(batch)
        moment = bare.moment(outputs, batch.weight)
        output = bare.at_action(outputs, batch.action)
        next_output = bare.next_output(next_outputs, batch.terminated, batch.terminal_reward)
        rest = (next_output, log_cost, batch.terminated, moment, extra)
        return bare.slopes(output, *rest), bare.method.unit(output, log_cost)

    return eqx.filter_vmap(of_run)(objectives, outputs, next_outputs, extra)


def in_groups(
    slopes: Each, units: Each, v: Each
) -> tuple[Float[np.ndarray, "runs groups"], Float[np.ndarray, "runs groups"]]:
    """Returns the residuals of transitions grouped by value, and their standard errors."""
    groups = int(np.clip(v.shape[1] // IN_A_GROUP, 1, MOST_GROUPS))
    order = np.argsort(v, axis=1)
    ordered = (np.take_along_axis(array, order, axis=1) for array in (slopes, units))
    parts = [np.array_split(array, groups, axis=1) for array in ordered]
    mean, unit = (np.stack([part.mean(axis=1) for part in both], axis=1) for both in parts)
    error = np.stack([part.std(axis=1) / np.sqrt(part.shape[1]) for part in parts[0]], axis=1)
    return mean / unit, error / unit
