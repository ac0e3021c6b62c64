"""`Eigenvectors`: what a fit of several vectors returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int, Shaped

from drogo.config import Config
from drogo.data.arrays import as_batch
from drogo.errors import ArgumentError
from drogo.exact import Spectrum, cosines, overlap
from drogo.learn.judge import outputs
from drogo.learn.learner import Learner, State
from drogo.learn.prepare import take
from drogo.learn.spectrum.judge import NEAR
from drogo.potential import Potential, mean_step


@dataclass(frozen=True, eq=False, repr=False)
class Eigenvectors:
    """The leading eigenvectors of a representation, learned, for each seed."""

    vectors: Float[np.ndarray, "seeds vectors distinct"]
    """The vectors over every distinct observation of the data: of unit norm, with the largest entry
    positive. Those of `gdo` are not orthogonal, and span a subspace: `rotated` makes eigenvectors
    of them."""
    eigenvalues: Float[np.ndarray, "seeds vectors"]
    """The eigenvalue of the matrix that each vector belongs to, by the transitions (its Rayleigh
    quotient). The representation, its inverse, has the reciprocal."""
    cosines: Float[np.ndarray, "seeds vectors"]
    """The cosine of each vector with the exact eigenvector of what the data describe; of vectors
    with nearly equal eigenvalues, with their subspace. NaN where states do not repeat."""
    overlap: Float[np.ndarray, " seeds"]
    """How much of the exact subspace is in that of the vectors, from 0 to 1. NaN where states do
    not repeat."""
    status: tuple[str, ...]
    """For each seed:

    - "converged": the cosine of every vector with its exact one is at least 0.99 (for `gdo`, until
      it is rotated: that of every exact vector with the subspace).
    - "unverified": states do not repeat, so that the vectors were not compared with anything; or
      they are near those of what the data describe, which do not tell what all actions do.
    - "max_updates": neither is the case.
    - "diverged": a number became infinite.
    """
    diverged_at: tuple[int | None, ...]
    """For each seed the update at which it diverged, or None."""
    history: Mapping[str, np.ndarray]
    """`update` (logged,) and arrays (logged, seeds): the mean `loss` since the last row, NaN where
    a seed made no update; `level`, the mean square of all entries; and, where states repeat, the
    mean `cosine`, the `overlap`, and `violation`, how far the worst cosine is below 1 (for `gdo`:
    that of an exact vector with the subspace)."""
    objective: str
    matrix: str
    discount: float
    config: Config
    seeds: tuple[int, ...]
    observations: Shaped[np.ndarray, "distinct ..."]
    neighbours: Int[np.ndarray, "pairs 2"] = field(repr=False)
    """Pairs of observations one step apart, by which potentials are normalised."""
    mixing: Float[np.ndarray, "seeds vectors outputs"] = field(repr=False)
    """From the network's outputs to the vectors: signs, norms, and a rotation if there was one."""
    energy: Float[np.ndarray, "seeds outputs outputs"] = field(repr=False)
    """u_i' M u_j of the network's outputs, by the transitions."""
    products: Float[np.ndarray, "seeds outputs outputs"] = field(repr=False)
    """The mean of u_i u_j over the states."""
    solution: Spectrum | None = field(repr=False)
    """The exact eigenvectors of what the data describe, if states repeat."""
    complete: bool
    """Whether the data tell what every action of the default policy does."""
    learner: Learner = field(repr=False)
    state: State = field(repr=False)
    """The state of training of all seeds."""
    notes: tuple[str, ...]
    data_digest: str
    own: Mapping[str, str]
    versions: Mapping[str, str]

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.status.count(s)} {s}" for s in sorted(set(self.status)))
        return (
            f"Eigenvectors({len(self.seeds)} seed(s), {self.vectors.shape[1]} vectors over "
            f"{self.vectors.shape[2]} observations, {self.objective} of {self.matrix}, "
            f"{self.updates} updates, status: {counts})"
        )

    @property
    def updates(self) -> int:
        """The number of updates made."""
        return int(np.asarray(self.state.update).max())

    def __call__(self, observations: Any) -> Float[np.ndarray, "seeds vectors batch"]:
        """Returns the entries of the vectors at any observations, also unseen ones.

        Args:
            observations: A batch of observations.
        """
        batch = as_batch("this fit", observations, self.observations)
        return self.mixing @ np.moveaxis(outputs(self.learner, self.state.params, batch), 2, 1)

    def score(self, truth: Spectrum) -> Float[np.ndarray, "seeds vectors"]:
        """Returns the cosine of each vector with known eigenvectors, as `exact.cosines` does.

        Args:
            truth: The eigenvectors over `observations`, in their order.
        """
        return np.stack([cosines(lane, truth) for lane in self.vectors])

    def subspace(self, truth: Spectrum) -> Float[np.ndarray, " seeds"]:
        """Returns how much of the subspace of known eigenvectors is in that of the vectors.

        Args:
            truth: The eigenvectors over `observations`, in their order.
        """
        return np.array([overlap(lane, truth) for lane in self.vectors])

    def rotated(self) -> Eigenvectors:
        """Returns the same subspace with the eigenvectors within it (the Rayleigh-Ritz method): by
        the transitions alone, and with no further training."""
        mixing = self.mixing.copy()
        for k, seed in enumerate(self.seeds):
            if self.status[k] == "diverged":
                continue
            try:
                mixing[k] = scipy.linalg.eigh(self.energy[k], self.products[k])[1].T
            except (np.linalg.LinAlgError, ValueError) as error:
                raise ArgumentError(
                    f"the vectors of seed {seed} are not independent, so that there is no rotation "
                    "that makes eigenvectors of them. Train for longer, or with a larger penalty."
                ) from error
        found = mixed(self, mixing)
        if self.solution is None:
            return found
        near = found.cosines.min(axis=1) >= 1 - NEAR
        good = "converged" if self.complete else "unverified"
        both = zip(self.status, near, strict=True)
        return replace(found, status=tuple(
            "diverged" if old == "diverged" else good if right else "max_updates"
            for old, right in both
        ))  # fmt: skip

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the vectors and the networks to one `.npz` file, without objects.

        Args:
            path: The file.
            overwrite: Whether to replace a file that is there.
        """
        from drogo.learn.spectrum.files import write_spectrum  # which imports this file

        write_spectrum(self, Path(path), overwrite=overwrite)

    def potential(
        self,
        seed: int = 0,
        vector: int = 0,
        *,
        negated: bool | None = None,
        normalised: bool = True,
    ) -> Potential:
        """Returns one vector of one seed as a potential for `PotentialShaping`.

        Observations of the data are looked up; others go through the network.

        Args:
            seed: One of the seeds of this fit.
            vector: Which vector; 0 is the first.
            negated: Whether to take minus the vector. By default so for the first vector of the
                successor representation, which is smallest at the goal.
            normalised: Whether to divide by the mean difference between neighbours in the data.
        """
        if seed not in self.seeds:
            raise ArgumentError(f"seed {seed} is none of this fit's seeds: {list(self.seeds)}.")
        if not 0 <= vector < self.vectors.shape[1]:
            raise ArgumentError(
                f"vector is {vector}; there are {self.vectors.shape[1]}, from 0 on."
            )
        lane = self.seeds.index(seed)
        if self.status[lane] == "diverged":
            raise ArgumentError(
                f"seed {seed} diverged at update {self.diverged_at[lane]} and cannot be used as a "
                "potential. Use another seed, or train again."
            )
        if self.matrix == "laplacian" and vector == 0:
            raise ArgumentError(
                "the first vector of the Laplacian is constant, and no potential.",
                remedy="Use another vector=, or the first one of matrix='successor'.",
            )
        if negated is None:
            negated = self.matrix == "successor" and vector == 0
        values = (-1.0 if negated else 1.0) * self.vectors[lane, vector]
        scale = float(mean_step(values, self.neighbours)) if normalised else 1.0
        mixing = (-1.0 if negated else 1.0) * self.mixing[lane, vector] / scale
        params, learner = take(self.state.params, slice(lane, lane + 1)), self.learner
        name = f"the potential of a fit (seed {seed}, vector {vector})"

        def unseen(batch: np.ndarray) -> np.ndarray:
            return outputs(learner, params, batch)[0] @ mixing

        network_alone = Potential(unseen, name=name)
        return Potential.from_states(
            self.observations, values / scale, name=name, otherwise=network_alone
        )


def mixed(result: Eigenvectors, mixing: Float[np.ndarray, "seeds vectors outputs"]) -> Eigenvectors:
    """Returns a result with other combinations of the network's outputs, of unit norm and with the
    largest entry positive, and all that follows from these.

    Args:
        result: The result, whose vectors are combined already by its own `mixing`.
        mixing: The combinations.
    """
    before = np.moveaxis(outputs(result.learner, result.state.params, result.observations), 2, 1)
    found = mixing @ before
    length = np.linalg.norm(found, axis=2)
    at = np.abs(found).argmax(axis=2)
    largest = np.take_along_axis(found, at[:, :, None], axis=2)[:, :, 0]
    factor = np.where(largest < 0, -1.0, 1.0) / np.where(length > 0, length, 1.0)
    mixing = factor[:, :, None] * mixing
    vectors = factor[:, :, None] * found
    top, bottom = (
        np.einsum("svi,sij,svj->sv", mixing, part, mixing)
        for part in (result.energy, result.products)
    )
    known = result.solution
    each, together = np.full(top.shape, np.nan), np.full(len(top), np.nan)
    if known is not None:
        clean = np.nan_to_num(vectors, posinf=0.0, neginf=0.0)
        each = np.stack([cosines(lane, known) for lane in clean])
        together = np.array([overlap(lane, known) for lane in clean])
    return replace(
        result,
        vectors=vectors,
        eigenvalues=top / np.where(bottom > 0, bottom, np.nan),
        cosines=each,
        overlap=together,
        mixing=mixing,
    )
