"""`Judge`: what is logged of a fit under way, and whether it has converged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from drogo.config import Config
from drogo.data import Transitions
from drogo.learn.evaluate import outputs_at
from drogo.learn.learner import Batch, Learner
from drogo.learn.metrics import cosine, differences
from drogo.learn.objectives import AbstractObjective, Numbers
from drogo.learn.plan import Plan
from drogo.learn.residuals import in_groups, state_residuals, transition_slopes
from drogo.learn.sampling import device_rows

STANDARD_ERRORS = 3.0
"""How many standard errors of a group's residual are subtracted from it before it counts."""
STOP_AT = 0.01
"""The share of the tolerance below which all residuals must be for a fit to stop early. At the
tolerance itself the values may still be off by as much as many small residuals add up to."""

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
    """

    data: Transitions
    plan: Plan
    learner: Learner
    numbers: Numbers
    configs: list[Config]
    truths: Truths

    def row(self, params: Any, losses: Float[np.ndarray, " lanes"]) -> Row:
        """Returns one more row of the history.

        Args:
            params: The parameters of every lane, stacked.
            losses: The mean loss of each lane since the last row.
        """
        compared = self.plan.compared if self.truths or self.plan.repeats else self.plan.kept[:1]
        outputs = outputs_at(self.learner, params, self.data, compared)
        v = self.log_e(outputs, compared)
        row = self._by_state(outputs, v) if self.plan.repeats else self._by_group(params)
        row = {"loss": losses, **row}
        anchor = int(np.searchsorted(self.plan.compared, self.data.terminal_states[0]))
        for name, vectors in self.truths.items():
            pairs = [
                (lane[None], t[self.plan.compared]) for lane, t in zip(v, vectors, strict=True)
            ]
            gaps = np.concatenate([differences(lane, truth, anchor) for lane, truth in pairs])
            row[f"cosine_{name}"] = np.concatenate([cosine(*pair) for pair in pairs])
            row[f"difference_{name}"] = gaps.max(axis=1)
            row[f"mean_difference_{name}"] = gaps.mean(axis=1)
        return row

    def converged(
        self, worst: Float[np.ndarray, " lanes"], share: float = 1.0
    ) -> Bool[np.ndarray, " lanes"]:
        """Returns in which lanes every equation holds.

        Args:
            worst: The largest residual in each lane.
            share: The share of the tolerance that is allowed.
        """
        # The vector that is zero everywhere must not pass. Its residual is 1 - exp(r/lam) in a
        # state and the mean of that over a group, in which more is hidden.
        reward = self.data.reward
        reward = reward.min() if self.plan.repeats else reward[self.plan.checked]
        zero = [-np.expm1(reward / config.lam).mean() for config in self.configs]
        part = 2 if self.plan.repeats else 10
        allowed = [min(c.tolerance, z / part) for c, z in zip(self.configs, zero, strict=True)]
        return worst <= share * np.array(allowed)

    def log_e(
        self, outputs: Float[np.ndarray, "lanes n"], which: np.ndarray
    ) -> Float[np.ndarray, "lanes n"]:
        """Returns log e for some outputs, in the scale of the objective.

        Args:
            outputs: The outputs at some rows of the table of observations.
            which: These rows.
        """
        log_e, log_scale = scaled_log_e(self.learner, outputs)
        v = log_e - log_scale[:, None]
        if self.learner.objective.anchored:
            states, values = self.data.pure_terminal_states
            lam = np.array([config.lam for config in self.configs])
            if states.size:
                at = np.minimum(np.searchsorted(states, which), states.size - 1)
                known = states[at] == which
                v[:, known] = values[at[known]][None] / lam[:, None]
        return v

    @cached_property
    def _edges(self) -> Batch:
        return _as_batch(self.data.edges, self.data.edges.count / len(self.data))

    def _by_state(self, outputs: np.ndarray, v: np.ndarray) -> Row:
        edges = self.data.edges
        residuals = state_residuals(
            self.learner, self.numbers, jnp.asarray(outputs, jnp.float32), self._edges
        )
        seen = np.bincount(edges.state, minlength=outputs.shape[1]) > 0
        residuals = np.asarray(residuals, dtype=np.float64)[:, seen]
        step = v[:, edges.next_state] - v[:, edges.state]
        entries = np.asarray(self.learner.objective.entry(jnp.asarray(outputs, jnp.float32)))
        mixed = (entries < 0).any(axis=1) & (entries > 0).any(axis=1)
        # The principal eigenvector has one sign, so a vector of two has not converged.
        worst = np.where(mixed, np.inf, np.abs(residuals).max(axis=1))
        row = self._summary(residuals, worst, step, edges.count)
        return {**row, "level": v.mean(axis=1)}

    def _by_group(self, params: Any) -> Row:
        data, rows = self.data, self.plan.checked
        both = np.concatenate([data.state[rows], data.next_state[rows]])
        outputs = jnp.asarray(outputs_at(self.learner, params, data, both), dtype=jnp.float32)
        before, after = outputs[:, : rows.size], outputs[:, rows.size :]
        batch = _as_batch(data, np.full(rows.size, 1 / rows.size), rows)
        slopes, units = (
            np.asarray(part, dtype=np.float64)
            for part in transition_slopes(self.learner, self.numbers, before, after, batch)
        )
        v = np.asarray(self.learner.objective.log_e(before), dtype=np.float64)
        step = np.asarray(self.learner.objective.log_e(after), dtype=np.float64) - v
        mean, error = in_groups(slopes, units, v)
        beyond = np.maximum(np.abs(mean) - STANDARD_ERRORS * error, 0.0).max(axis=1)
        # For the overall mean only one standard error is subtracted: with few transitions, three
        # would excuse anything.
        together = np.abs(mean.mean(axis=1)) - np.sqrt((error**2).mean(axis=1) / error.shape[1])
        row = self._summary(mean, np.maximum(beyond, together), step, np.ones(rows.size))
        return {**row, "level": v.mean(axis=1)}

    def _summary(
        self, residuals: np.ndarray, worst: np.ndarray, step: np.ndarray, count: np.ndarray
    ) -> Row:
        cap = np.asarray(self.numbers.cap, dtype=np.float64)[:, None]
        return {
            "violation": np.abs(residuals).mean(axis=1),
            "worst": worst,
            "spread": residuals.max(axis=1) - residuals.min(axis=1),
            "at_cap": (step >= cap) @ (count / count.sum()),
        }


def scaled_log_e(
    learner: Learner, outputs: Float[np.ndarray, "lanes n"]
) -> tuple[Float[np.ndarray, "lanes n"], Float[np.ndarray, " lanes"]]:
    """Returns log e for some outputs, up to a constant, and the constants that fix its scale."""
    log_e, log_scale = _log_e(learner.objective, jnp.asarray(outputs, jnp.float32))
    return np.array(log_e, dtype=np.float64), np.asarray(log_scale, dtype=np.float64)


@eqx.filter_jit
def _log_e(objective: AbstractObjective, outputs: Array) -> tuple[Array, Array]:
    log_e = objective.log_e(outputs)
    return log_e, jax.vmap(objective.log_scale)(log_e)


def _as_batch(source: Any, weight: np.ndarray, rows: Any = slice(None)) -> Batch:
    columns = vars(device_rows(source, rows))
    return Batch(None, None, **columns, weight=jnp.asarray(weight, dtype=jnp.float32))
