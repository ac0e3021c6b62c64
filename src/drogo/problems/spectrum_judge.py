"""`SpectrumJudge`: measures eigenvectors, and their energies and products by the transitions."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from drogo.device import to_device
from drogo.exact.spectra import contained, cosines
from drogo.learn.judge import Judge, Measures, Row, cosine
from drogo.learn.learner import take
from drogo.learn.method import Sample

NEAR = 0.01  # The largest distance from 1 of the cosine of every vector of a converged fit.


@dataclass(frozen=True)
class SpectrumJudge(Judge):
    """Measures several vectors against the exact ones of the data, where states repeat."""

    @cached_property
    def solution(self) -> Any:
        if self.points[0].exact is None or not self.plan.repeats:
            return None
        return [point.exact for point in self.points]

    def row(self, params: Any, losses: Float[np.ndarray, " runs"]) -> Row:
        compared = self.plan.compared if self.solution is not None else self.plan.compared[:1000]
        vectors = self.vectors(params, compared)
        level = (vectors**2).mean(axis=(1, 2))
        row = {"loss": losses, "level": level, "violation": np.full(len(level), np.nan)}
        clean = np.nan_to_num(vectors, posinf=0.0, neginf=0.0)
        for name, truths in self.truths.items():
            pairs = zip(clean, truths[:, :, compared], strict=True)
            each = [np.abs(list(map(cosine, run[:, None], truth))) for run, truth in pairs]
            row[f"cosine_{name}"] = np.mean(each, axis=(1, 2))
        if self.solution is None:
            return row
        inside = np.stack(list(map(contained, clean, self.solution)))
        each = np.stack(list(map(cosines, clean, self.solution)))
        worst = (each if self.points[0].method.ordered else inside).min(axis=1)
        shares = {"overlap": (inside**2).mean(axis=1), "cosine": each.mean(axis=1)}
        return row | shares | {"violation": 1 - worst, "error": 1 - worst}

    def converged(self, row: Measures, share: float = 1.0) -> Bool[np.ndarray, " runs"]:
        if self.solution is None:  # nothing is seen to be wrong
            return np.ones(len(self.points), dtype=bool)
        return row["violation"] <= share * NEAR

    @property
    def verified(self) -> bool:
        return self.solution is not None and self.prepared.complete

    def finish(self, params: Any) -> dict[str, np.ndarray]:
        energy, products = self.products(params)
        v = self.vectors(params, self.plan.kept)
        mixing = np.tile(np.eye(v.shape[1]), (len(v), 1, 1))
        return {"v": v, "mixing": mixing, "energy": energy, "products": products}

    def shared(self, run: int = 0) -> dict[str, np.ndarray]:
        kept, pairs = self.plan.kept, self.prepared.data.neighbours
        both = np.isin(pairs, kept).all(axis=1)
        shared = {
            "observations": np.asarray(self.data.observations[kept]),
            "neighbours": np.searchsorted(kept, pairs[both]),
        }
        if self.solution is None:
            return shared
        exact = self.solution[run]
        both = {"exact_vectors": exact.vectors, "exact_eigenvalues": exact.eigenvalues}
        return {**shared, **both, "exact_next": np.asarray(exact.next_eigenvalue)}

    def vectors(self, params: Any, which: np.ndarray) -> Float[np.ndarray, "runs vectors n"]:
        """Returns the vectors of every run at some rows of the table of observations."""
        return np.moveaxis(self.outputs(params, which), 2, 1)

    def products(self, params: Any) -> tuple[np.ndarray, np.ndarray]:
        """Returns u_i' M u_j and <u_i, u_j> of every run, by the transitions."""
        data = self.data
        if self.plan.repeats:
            rows: Any = data.edges
            which, weight = np.arange(rows.state.size), rows.weight
        else:
            rows, which = data, self.plan.checked
            weight = data.weight[which]
        both_ends = np.concatenate([rows.state[which], rows.next_state[which]])
        distinct, place = np.unique(both_ends, return_inverse=True)
        values = self.vectors(params, distinct)
        before, after = np.split(place, 2)
        share, terminated = weight / weight.sum(), to_device(rows.terminated[which])
        energy, norm = [], []
        for k, run in enumerate(values):
            ends = (run[:, before], run[:, after])
            log_cost = to_device(-rows.reward[which] / self.lam[k], jnp.float32)
            rest = (take(self.objectives, k).problem, log_cost, terminated)
            plus, minus = (_energies(*ends, sign, *rest) for sign in (1.0, -1.0))
            energy.append(np.tensordot(share, plus - minus, axes=1) / 4)
            norm.append((ends[0] * share) @ ends[0].T)
        return np.stack(energy), np.stack(norm)


def _energies(
    before: np.ndarray, after: np.ndarray, sign: float, problem: Any, *columns: Array
) -> Float[np.ndarray, "n vectors vectors"]:
    """Returns the energies of u_i + u_j of each transition, or, with the sign -1, of u_i - u_j."""
    one = jnp.ones(())

    def energy(output: Array, next_output: Array, log_cost: Array, terminated: Array) -> Array:
        sample = Sample(problem, log_cost, terminated, 0 * one, None, one, one)
        return sample.energy(output, next_output)

    both = (to_device(u.T[:, :, None] + sign * u.T[:, None], jnp.float32) for u in (before, after))
    return np.asarray(jax.vmap(energy)(*both, *columns), dtype=np.float64)
