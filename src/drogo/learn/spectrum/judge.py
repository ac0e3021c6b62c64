"""`SpectrumJudge`: what is logged of several vectors under way, and whether they have converged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from drogo.config import Config
from drogo.data import Transitions
from drogo.data.table import read_rows
from drogo.device import to_device
from drogo.exact import Spectrum, contained, cosines
from drogo.learn.judge import Row, outputs
from drogo.learn.learner import Learner
from drogo.learn.objectives import Numbers, Sample
from drogo.learn.plan import Plan
from drogo.learn.prepare import take
from drogo.learn.spectrum.objectives import AbstractSeveral

NEAR = 0.01
"""How far below 1 the cosine of every vector of a converged fit may be."""


@dataclass(frozen=True)
class SpectrumJudge:
    """Measures the lanes of a fit of several vectors.

    Args:
        data: The transitions, weighed as they are learned from.
        plan: What of the data is used for what.
        learner: The learner.
        objective: Its objective.
        numbers: The numbers of the objective in each lane.
        configs: The settings of each lane.
        solution: The exact eigenvectors of what the data describe for each lane, if states repeat.
        complete: Whether the data tell what every action of the default policy does, so that what
            they describe is the default policy's.
    """

    data: Transitions
    plan: Plan
    learner: Learner
    objective: AbstractSeveral
    numbers: Numbers
    configs: list[Config]
    solution: list[Spectrum] | None
    complete: bool

    def row(self, params: Any, losses: Float[np.ndarray, " lanes"]) -> Row:
        """Returns one more row of the history.

        Args:
            params: The parameters of every lane, stacked.
            losses: The mean loss of each lane since the last row.
        """
        compared = self.plan.compared if self.solution is not None else self.plan.compared[:1000]
        vectors = self.vectors(params, compared)
        level = (vectors**2).mean(axis=(1, 2))
        row = {"loss": losses, "level": level, "violation": np.full(len(level), np.nan)}
        if self.solution is None:
            return row
        clean = np.nan_to_num(vectors, posinf=0.0, neginf=0.0)
        both = list(zip(clean, self.solution, strict=True))
        inside = np.stack([contained(lane, known) for lane, known in both])
        each = np.stack([cosines(lane, known) for lane, known in both])
        worst = (each if self.objective.ordered else inside).min(axis=1)
        found = {"overlap": (inside**2).mean(axis=1), "cosine": each.mean(axis=1)}
        return row | found | {"violation": 1 - worst}

    def converged(
        self, row: Mapping[str, np.ndarray], share: float = 1.0
    ) -> Bool[np.ndarray, " lanes"]:
        """Returns in which lanes every vector is near its own exact one or, if the objective does
        not determine more, in which every exact vector is nearly in the subspace.

        Args:
            row: The newest row of the history.
            share: The share of what is tolerated that is allowed.
        """
        return np.nan_to_num(row["violation"], nan=np.inf) <= share * NEAR

    def status(self, row: Mapping[str, np.ndarray]) -> list[str]:
        """Returns the status of each lane, as far as the newest row of the history tells it.

        Args:
            row: The newest row.
        """
        if self.solution is None:
            return ["unverified"] * len(self.configs)
        good = "converged" if self.complete else "unverified"
        return np.where(self.converged(row), good, "max_updates").tolist()

    def vectors(self, params: Any, which: np.ndarray) -> Float[np.ndarray, "lanes vectors n"]:
        """Returns the vectors of every lane at some rows of the table of observations.

        Args:
            params: The parameters of every lane, stacked.
            which: The rows.
        """
        found = outputs(self.learner, params, read_rows(self.data.observations, which))
        return np.moveaxis(found, 2, 1)

    def products(
        self, params: Any
    ) -> tuple[
        Float[np.ndarray, "lanes vectors vectors"], Float[np.ndarray, "lanes vectors vectors"]
    ]:
        """Returns u_i' M u_j and <u_i, u_j> of every lane, by the transitions.

        Args:
            params: The parameters of every lane, stacked.
        """
        data, k = self.data, self.objective.vectors
        if self.plan.repeats:
            rows: Any = data.edges
            which, weight = np.arange(rows.state.size), rows.weight
        else:
            rows, which = data, self.plan.checked
            weight = data.weight[which]
        ends, place = np.unique(
            np.concatenate([rows.state[which], rows.next_state[which]]), return_inverse=True
        )
        found = self.vectors(params, ends)
        before, after = np.split(place, 2)
        share = weight / weight.sum()
        energy, norm = [], []
        for lane, numbers in zip(found, _lanes(self.numbers, len(found)), strict=True):
            objective = replace(self.objective, numbers=numbers)
            cost = to_device(-rows.reward[which] / float(numbers.lam), jnp.float32)
            sample = Sample(cost, to_device(rows.terminated[which]), jnp.zeros(which.size))
            of = _energies(objective, lane[:, before], lane[:, after], sample, share)
            energy.append(of.reshape(k, k))
            norm.append((lane[:, before] * share) @ lane[:, before].T)
        return np.stack(energy), np.stack(norm)


def _lanes(numbers: Numbers, count: int) -> list[Numbers]:
    return [take(numbers, lane) for lane in range(count)]


def _energies(
    objective: AbstractSeveral,
    before: np.ndarray,
    after: np.ndarray,
    sample: Sample,
    share: np.ndarray,
) -> Float[np.ndarray, " pairs"]:
    """Returns u_i' M u_j for all pairs: a fourth of the difference between the energies of
    u_i + u_j and of u_i - u_j."""

    def form(u: np.ndarray, w: np.ndarray) -> Array:
        pairs = (to_device(u.T, jnp.float32), to_device(w.T, jnp.float32))
        return jax.vmap(objective.energy)(*pairs, sample)

    k = len(before)
    i, j = (part.ravel() for part in np.meshgrid(np.arange(k), np.arange(k), indexing="ij"))
    plus = np.asarray(form(before[i] + before[j], after[i] + after[j]), dtype=np.float64)
    minus = np.asarray(form(before[i] - before[j], after[i] - after[j]), dtype=np.float64)
    return share @ (plus - minus) / 4
