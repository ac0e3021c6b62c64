"""`Judge`: what is logged of a fit under way, whether it has converged, and the outputs of trained
networks from which that is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree, Shaped

from drogo.config import Config
from drogo.data import Transitions
from drogo.data.default import unseen_pairs
from drogo.data.table import read_rows
from drogo.device import to_device
from drogo.learn.learner import Batch, Learner
from drogo.learn.objectives import AbstractObjective, Numbers
from drogo.learn.plan import Plan
from drogo.learn.residuals import in_groups, state_residuals, transition_slopes
from drogo.learn.sampling import device_rows

STANDARD_ERRORS = 3.0
"""How many standard errors of a group's residual are subtracted from it before it counts."""
NUMBERS_AT_ONCE, MOST_AT_ONCE, FEW = 2**22, 4096, 64
"""How many numbers and how many observations go through a network at a time. No more than the last
number are filled up to a power of two."""
TOLERATED_SHARE, MOST_SHARE = 1e-3, 0.05
"""The share of a map's depth by which values may always be off, and the most that the tolerance may
allow: a map that is shallower than the tolerance is not right before anything was learned."""

Row = dict[str, Float[np.ndarray, " lanes"]]
"""One row of the history: a number for each lane, by name."""
Truths = Mapping[str, Float[np.ndarray, "lanes distinct"]]


@dataclass(frozen=True)
class Judge:
    """Measures the lanes of a fit against their own equations, and against a truth if there is one.

    Args:
        data: The transitions, with absorbing terminal states if the objective needs them.
        plan: What of the data is used for what.
        learner: The learner.
        numbers: The numbers of the objective in each lane.
        configs: The settings of each lane.
        truths: Known vectors over the observations for each lane, by name.
        solution: The exact solution of the data for each lane, if there is one. It is not finite
            where the data do not determine it.
    """

    data: Transitions
    plan: Plan
    learner: Learner
    numbers: Numbers
    configs: list[Config]
    truths: Truths
    solution: Float[np.ndarray, "lanes distinct"] | None = None

    def row(self, params: Any, losses: Float[np.ndarray, " lanes"]) -> Row:
        """Returns one more row of the history.

        Args:
            params: The parameters of every lane, stacked.
            losses: The mean loss of each lane since the last row.
        """
        compared = self.plan.compared if self.truths or self.plan.repeats else self.plan.kept[:1]
        outputs = self.outputs(params, compared)
        v = self.log_e(outputs, compared)
        held = jax.vmap(lambda lane: self.learner.network(lane).held())(params)
        by_state = self.plan.repeats
        row = self._by_state(outputs, v, held) if by_state else self._by_group(params, held)
        row = {"loss": losses, **row}
        if self.solution is not None:
            gaps = np.where(np.isfinite(self.solution), np.abs(v - self.solution), 0.0)
            row["error"] = gaps.max(axis=1)
        for name, vectors in self.truths.items():
            anchor = int(np.searchsorted(self.plan.compared, self.data.terminal_states[0]))
            known = vectors[:, self.plan.compared]
            gaps = differences(v, known, anchor)
            row[f"cosine_{name}"] = np.concatenate(list(map(cosine, v[:, None], known)))
            row[f"difference_{name}"] = gaps.max(axis=1)
            row[f"mean_difference_{name}"] = gaps.mean(axis=1)
        return row

    def converged(
        self, row: Mapping[str, np.ndarray], share: float = 1.0
    ) -> Bool[np.ndarray, " lanes"]:
        """Returns in which lanes every value is known to be right, or else every equation holds.

        Args:
            row: The newest row of the history.
            share: The share of the tolerance that is allowed.
        """
        tolerance = np.array([config.tolerance for config in self.configs])
        if self.solution is not None:
            finite = np.where(np.isfinite(self.solution), self.solution, 0.0)
            depth = np.ptp(finite, axis=1)
            allowed = np.clip(tolerance, TOLERATED_SHARE * depth, MOST_SHARE * depth)
            return row["error"] <= share * allowed
        # The vector that is zero everywhere must not pass. Its residual is 1 - exp(r/lam) in a
        # state and the mean of that over a group, in which more is hidden.
        reward = self.data.reward
        reward = reward.min() if self.plan.repeats else reward[self.plan.checked]
        zero = [np.abs(np.expm1(reward / config.lam)).mean() for config in self.configs]
        allowed = np.minimum(tolerance, np.array(zero) / (2 if self.plan.repeats else 10))
        return row["worst"] <= share * allowed

    def status(self, row: Mapping[str, np.ndarray]) -> list[str]:
        """Returns the status of each lane, as far as the newest row of the history tells it.

        The solution of the data is that of the default policy only if the data tell what each of
        its actions does.

        Args:
            row: The newest row.
        """
        verified = self.plan.repeats
        if self.solution is not None:
            complete = not self.configs[0].weigh_actions or unseen_pairs(self.data) == 0
            verified = complete and bool(np.isfinite(self.solution).all())
        good = "converged" if verified else "unverified"
        return np.where(self.converged(row), good, "max_updates").tolist()

    def outputs(self, params: Any, which: np.ndarray) -> Float[np.ndarray, "lanes n ..."]:
        """Returns the outputs of every lane at some rows of the table of observations.

        Args:
            params: The parameters of every lane, stacked.
            which: The rows.
        """
        table = self.data.observations
        whole = which.size == len(table) and np.array_equal(which, np.arange(which.size))
        return outputs(self.learner, params, table if whole else read_rows(table, which))

    def log_e(
        self, outputs: Float[np.ndarray, "lanes n ..."], which: np.ndarray
    ) -> Float[np.ndarray, "lanes n"]:
        """Returns log e for some outputs, in the scale of the objective.

        Args:
            outputs: The outputs at some rows of the table of observations.
            which: These rows.
        """
        v = self.log_e_and_scale(outputs)[0]
        if self.learner.objective.anchored:
            states, values = self.data.pure_terminal_states
            lam = np.array([config.lam for config in self.configs])
            known = np.isin(which, states)
            at = np.searchsorted(states, which[known])
            v[:, known] = values[at][None] / lam[:, None]
        return v

    def log_e_and_scale(
        self, outputs: Float[np.ndarray, "lanes n ..."]
    ) -> tuple[Float[np.ndarray, "lanes n"], Float[np.ndarray, " lanes"]]:
        """Returns log e for some outputs, in the scale of the objective, and what was subtracted to
        fix that scale."""
        single = to_device(outputs, jnp.float32)
        log_e, log_scale = _log_e(self.learner.objective, self.numbers, single)
        scale = np.asarray(log_scale, dtype=np.float64)
        return np.asarray(log_e, dtype=np.float64) - scale[:, None], scale

    @cached_property
    def _edges(self) -> Batch:
        weight = self.data.edges.weight
        return self._batch(self.data.edges, weight / weight.sum())

    def _batch(self, source: Any, weight: np.ndarray, which: Any = slice(None)) -> Batch:
        columns = vars(device_rows(source, which, per_action=self.learner.objective.per_action))
        return Batch(None, None, **columns, weight=to_device(weight, dtype=jnp.float32))

    def _by_state(self, outputs: np.ndarray, v: np.ndarray, held: Array | None) -> Row:
        edges = self.data.edges
        residuals = state_residuals(
            self.learner, self.numbers, to_device(outputs, jnp.float32), self._edges, held
        )
        seen = np.bincount(edges.state, minlength=outputs.shape[1]) > 0
        residuals = np.asarray(residuals, dtype=np.float64)[:, seen]
        residuals = np.nan_to_num(residuals).reshape(len(residuals), -1)
        step = v[:, edges.next_state] - v[:, edges.state]
        entries = np.asarray(self.learner.objective.entry(to_device(outputs, jnp.float32)))
        mixed = (entries < 0).any(axis=1) & (entries > 0).any(axis=1)
        # The principal eigenvector has one sign, so a vector of two has not converged.
        worst = np.where(mixed, np.inf, np.abs(residuals).max(axis=1))
        return self._summary(residuals, worst, step, edges.count, v)

    def _by_group(self, params: Any, held: Array | None) -> Row:
        data, rows = self.data, self.plan.checked
        both = np.concatenate([data.state[rows], data.next_state[rows]])
        outputs = to_device(self.outputs(params, both), dtype=jnp.float32)
        before, after = outputs[:, : rows.size], outputs[:, rows.size :]
        weight = data.weight[rows]
        batch = self._batch(data, weight / weight.sum(), rows)
        slopes, units = (
            np.asarray(part, dtype=np.float64)
            for part in transition_slopes(self.learner, self.numbers, before, after, batch, held)
        )
        v = np.asarray(self.learner.objective.log_e(before), dtype=np.float64)
        step = np.asarray(self.learner.objective.log_e(after), dtype=np.float64) - v
        mean, error = in_groups(slopes, units, v)
        beyond = np.maximum(np.abs(mean) - STANDARD_ERRORS * error, 0.0).max(axis=1)
        # For the overall mean only one standard error is subtracted: with few transitions, three
        # would excuse anything.
        together = np.abs(mean.mean(axis=1)) - np.sqrt((error**2).mean(axis=1) / error.shape[1])
        return self._summary(mean, np.maximum(beyond, together), step, np.ones(rows.size), v)

    def _summary(
        self,
        residuals: np.ndarray,
        worst: np.ndarray,
        step: np.ndarray,
        count: np.ndarray,
        v: np.ndarray,
    ) -> Row:
        cap = np.asarray(self.numbers.cap, dtype=np.float64)[:, None]
        return {
            "violation": np.abs(residuals).mean(axis=1),
            "worst": worst,
            "spread": residuals.max(axis=1) - residuals.min(axis=1),
            "at_cap": (step >= cap) @ (count / count.sum()),
            "level": v.mean(axis=1),
        }


@eqx.filter_jit
def _log_e(objective: AbstractObjective, numbers: Numbers, outputs: Array) -> tuple[Array, Array]:
    def of_lane(numbers: Numbers, outputs: Array) -> tuple[Array, Array]:
        log_e = replace(objective, numbers=numbers).log_e(outputs)
        return log_e, objective.log_scale(log_e)

    return jax.vmap(of_lane)(numbers, outputs)


@eqx.filter_jit
def _outputs(learner: Learner, params: PyTree[Array], prepared: Array) -> Array:
    numbers = learner.inputs.finish(prepared)
    return jax.lax.map(lambda lane: learner.network(lane)(numbers), params)


def outputs(
    learner: Learner, params: PyTree[Array], observations: Shaped[np.ndarray, "n ..."]
) -> Float[np.ndarray, "lanes n outputs"] | Float[np.ndarray, "lanes n"]:
    """Returns the outputs of every lane at some observations.

    Each shape is compiled once, so the pieces are filled up to few different sizes.

    Args:
        learner: The learner.
        params: The parameters of every lane, stacked.
        observations: Any number of observations.
    """
    row = max(1, math.prod(observations.shape[1:]))
    size = int(np.clip(NUMBERS_AT_ONCE // row, FEW, MOST_AT_ONCE))
    parts = []
    for begin in range(0, len(observations), size):
        shown = learner.inputs.prepare(np.asarray(observations[begin : begin + size]))
        missing = size - len(shown) if begin else 0
        if len(observations) <= FEW:
            missing = (1 << (len(shown) - 1).bit_length()) - len(shown)
        if missing:
            shown = np.concatenate([shown, np.repeat(shown[-1:], missing, axis=0)])
        out = np.asarray(_outputs(learner, params, to_device(shown)), dtype=np.float64)
        parts.append(out[:, : out.shape[1] - missing])
    return np.concatenate(parts, axis=1)


def cosine(
    v: Float[np.ndarray, "lanes states"], truth: Float[np.ndarray, " states"]
) -> Float[np.ndarray, " lanes"]:
    """Returns the cosine similarity of the logs, the paper's measure, which ignores scale.

    A vector of zeros has no direction, and its cosine is 0.

    Args:
        v: The learned vectors.
        truth: The known vector.
    """
    return _directions(v) @ _directions(truth)


def differences(
    v: Float[np.ndarray, "lanes states"], truth: Float[np.ndarray, "*lanes states"], anchor: int
) -> Float[np.ndarray, "lanes states"]:
    """Returns the absolute differences of the logs, both shifted to 0 at the anchor.

    Args:
        v: The learned vectors.
        truth: The known vector, or one for each learned one.
        anchor: A state, usually a terminal one.
    """
    return np.abs((v - v[:, [anchor]]) - (truth - truth[..., [anchor]]))


def _directions(v: Float[np.ndarray, "*lanes states"]) -> Float[np.ndarray, "*lanes states"]:
    """Returns vectors of length 1. They are divided by their largest entry first: the squares of
    very small or very large numbers are 0 or infinity."""
    with np.errstate(invalid="ignore"):
        within_one = np.nan_to_num(v / np.abs(v).max(axis=-1, keepdims=True))
    return within_one / np.maximum(np.linalg.norm(within_one, axis=-1, keepdims=True), 1.0)
