"""`Spectrum`: the leading eigenvectors of a representation."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from drogo import exact as exact_solvers
from drogo.data import Transitions
from drogo.data.arrays import as_batch
from drogo.errors import ArgumentError, DamagedFile, check_choice, check_inside, check_whole
from drogo.exact.spectra import Eigenvectors, cosines, overlap, smallest, symmetric_rows
from drogo.graph import Graph
from drogo.learn.architectures import MLP, AbstractArchitecture, Optimiser, Table
from drogo.learn.judge import Judge, outputs
from drogo.learn.method import AbstractMethod
from drogo.learn.methods import ALLO
from drogo.learn.networks import Outputs
from drogo.learn.problem import AbstractProblem, Point, Prepared
from drogo.learn.settings import Swept
from drogo.learn.solution import Solution
from drogo.learn.value import network_graph
from drogo.potential import Potential, mean_step
from drogo.problems import shared
from drogo.problems.spectrum_judge import NEAR, SpectrumJudge

MATRICES = ("laplacian", "successor", "default")
MOST_VECTORS = 1000
LARGEST_EXPONENT = 20.0
"""The largest -r / lam: exp(-r / lam) is on the diagonal of the default representation's matrix."""
PACE = 1e-3
"""The step of the multipliers of `ALLO` in an update: larger ones, as of a table, overshoot."""
LEAST_PENALTY, TIMES_THE_EIGENVALUES = 0.3, 2.0
"""A penalty holds the vectors in place if it is above their eigenvalues and the differences between
these (Gomez et al. 2024, Theorem 1). One that is far above takes several times as many updates."""


class Spectrum(AbstractProblem):
    """The eigenvectors of the smallest eigenvalues of `D - P~` (the Laplacian), `I - discount P~`
    (whose inverse is the successor representation) or `R - P~` (the default representation).

    Where states repeat, each of them counts the same, however often it was seen. Terminal states
    absorb; those of the successor representation have a zero row. Where states do not repeat,
    u' P~ u has no bound, and `D - P~`, with the row sums of P~ in D, takes the place of `I - P~`.

    A solution has the arrays `v` (seeds, vectors, distinct), of unit norm and with the largest
    entry positive; `eigenvalues`, the Rayleigh quotients by the transitions, and `cosines` with the
    exact vectors of the data (seeds, vectors); `overlap` with the exact subspace (seeds,);
    `observations`; `neighbours`, by which potentials are normalised; and `mixing`, `energy` and
    `products`, from which `rotated` computes the eigenvectors within the subspace.
    """

    vectors: int = eqx.field(static=True, default=8)
    """The number of eigenvectors."""
    matrix: str = eqx.field(static=True, default="laplacian", kw_only=True)
    """One of "laplacian", "successor" and "default"."""
    discount: Annotated[float, check_inside] = eqx.field(static=True, default=0.99, kw_only=True)
    """The discount factor, for "successor" only."""
    bounded: bool | None = eqx.field(static=True, default=None, kw_only=True)
    """Puts the row sums of P~ on the diagonal, not 1, as `fit` does where states do not repeat."""

    # The fields of every problem, after those above.
    lam: Swept = eqx.field(default=20.0, kw_only=True)
    default_policy: Any = eqx.field(default=None, kw_only=True)
    tolerance: float = eqx.field(static=True, default=0.1, kw_only=True)
    costs: Any = eqx.field(static=True, default=None, kw_only=True)

    kind: ClassVar[str] = "spectrum"
    error_name: ClassVar[str] = "distance of a cosine from 1"
    """With the exact vectors of the data; that of an exact solution is its largest residual."""
    views: ClassVar[tuple[str, ...]] = ("rotated", "score", "subspace")
    layout: ClassVar[Mapping[str, str]] = {
        "v": "seeds vectors distinct",
        "observations": "distinct ...",
        "neighbours": "pairs 2",
        "overlap": "seeds",
        **dict.fromkeys(("eigenvalues", "cosines"), "seeds vectors"),
        **dict.fromkeys(("mixing", "energy", "products"), "seeds vectors vectors"),
    }
    optional: ClassVar[Mapping[str, str]] = {
        "exact_vectors": "exact distinct", "exact_eigenvalues": "exact", "exact_next": "",
    }  # fmt: skip
    rows: ClassVar[tuple[str, ...]] = ("neighbours",)

    def __check_init__(self) -> None:
        check_whole("vectors", self.vectors, 1, MOST_VECTORS)
        check_choice("matrix", self.matrix, MATRICES)
        if self.matrix != "default" and isinstance(self.lam, list):
            problem = f"the matrix {self.matrix!r} has no lam, so that a sweep over it is idle."
            raise ArgumentError(problem, argument="lam")

    # On the device

    def outputs(self, method: AbstractMethod, n_actions: int | None) -> Outputs:
        return self.vectors

    def initial(self, method: AbstractMethod) -> None:
        return None

    def energy(self, output: Array, next_output: Array, sample: Any) -> Array:
        difference = 0.5 * (output - next_output) ** 2
        if self.matrix == "laplacian":
            return difference
        flow = output**2 - difference if self.bounded else output * next_output  # u' P~ u
        if self.matrix == "default":
            return sample.cost * output**2 - flow
        return output**2 - jnp.where(sample.terminated, 0.0, self.discount * flow)

    # Recommendations

    def recommend(self, data: Transitions) -> AbstractMethod:
        return ALLO()

    def network(self, data: Transitions, method: AbstractMethod) -> AbstractArchitecture:
        # Without a leak some seeds froze: an image that no unit responds to is learned no better.
        # The CNN takes many more updates than an MLP on the pixels that change.
        return Table() if data.observations.ndim == 1 else MLP(leak=0.1)

    def recommended(
        self, data: Transitions, method: AbstractMethod, network: AbstractArchitecture
    ) -> dict[str, Any]:
        settings = super().recommended(data, method, network)
        settings["penalty"] = None  # it follows from the eigenvalues
        if data.repeats:  # vectors with nearly equal eigenvalues take many updates
            settings["updates"] = 20_000
        return settings

    def optimiser(
        self, data: Transitions, method: AbstractMethod, network: AbstractArchitecture
    ) -> Optimiser:
        if data.repeats and data.observations.ndim > 1:
            return Optimiser(step_size=3e-3)
        return super().optimiser(data, method, network)

    # Learning

    def prepare(self, data: Transitions, method: AbstractMethod) -> Prepared:
        lowest = float(data.reward.min())
        if self.matrix == "default" and -lowest / self.lam > LARGEST_EXPONENT:
            least = f"lam of at least {-lowest / LARGEST_EXPONENT:.3g}"
            problem = f"exp(-r / lam) is too large: the lowest reward is {lowest:g}. Use {least}."
            raise ArgumentError(problem, argument="lam")
        prepared, delta = self.weighed(data), method.delta  # pyright: ignore
        data, notes = prepared.data, prepared.notes
        shared.warn_of_mixed_states(data)
        shown = with_rows_of_terminals(data, delta)
        if shown.repeats:
            # Without those that were never left, or only to such ones, which have no row.
            in_memory = replace(data, observations=np.asarray(data.observations))
            fewer = in_memory[data.edges.usable[data.edges.of_transition]]
            lost = len(data.observations) - len(fewer.observations)
            if lost:
                data = fewer
                notes = (*notes, f"{lost} observations were never left, and are left out.")
            check_whole("vectors", self.vectors, 1, len(data.observations))
            shown = with_rows_of_terminals(data, delta)
        shown = shared.evenly(shown) if shown.repeats else shown
        return replace(prepared, data=data, shown=shown, notes=notes)

    def adapted(self, prepared: Prepared) -> Any:
        return replace(super().adapted(prepared), bounded=not prepared.shown.repeats)

    def exact(self, prepared: Prepared, method: AbstractMethod) -> Eigenvectors | None:
        """Returns the first vectors, and those whose eigenvalues are nearly that of the last."""
        shown, k, asked = prepared.shown, self.vectors, self.vectors
        if not shown.repeats:
            return None
        rows = symmetric_rows(shown.edges, self.matrix, float(self.lam), self.discount)
        first = smallest(rows, asked, self.matrix)
        while asked < rows.n and not any(k - 1 in group for group in first.groups()):
            asked = min(2 * asked, rows.n)
            first = smallest(rows, asked, self.matrix)
        last = max(max(group) for group in first.groups() if k - 1 in group) + 1
        following = float(np.append(first.eigenvalues, first.next_eigenvalue)[last])
        rest = (first.eigenvalues[:last], first.residuals[:last], following)
        return Eigenvectors(first.vectors[:last], *rest)

    def scaled(self, prepared: Prepared, point: Point) -> tuple[AbstractMethod, dict[str, float]]:
        shown, method, exact, size = prepared.shown, point.method, point.exact, 1.0
        if self.matrix == "default":  # its eigenvalues grow with its mean diagonal
            size = float(np.average(np.exp(-shown.reward / self.lam), weights=shown.weight))
        penalty = method.penalty
        if penalty is None and exact is None:
            penalty = 1.0
        elif penalty is None:
            # Three digits are the same on every machine, so checkpoints can move.
            each = exact.eigenvalues[: self.vectors] / size
            largest = TIMES_THE_EIGENVALUES * max(float(np.abs(each).max()), float(np.ptp(each)))
            penalty = float(f"{max(LEAST_PENALTY, largest) / method.target_norm:.3g}")
        step_size = point.optimiser.step_size
        pace = PACE / step_size if step_size < 1 else 1.0
        return replace(method, penalty=size * penalty), {"extra_scale": pace}

    def judge(self, **parts: Any) -> Judge:
        return SpectrumJudge(**parts)

    def truth_shape(self, data: Transitions) -> tuple[int, ...]:
        return (self.vectors, len(data.observations))

    def completed(self, solution: Solution) -> Solution:
        return _mixed(solution, solution.mixing)

    # Solutions

    def solve(self, source: Any) -> Solution:
        if isinstance(source, Transitions):
            prepared = self.prepare(source, ALLO())
            vectors, source = self.exact(prepared, ALLO()), prepared.data
            assert vectors is not None
            rest: dict[str, Any] = {"complete": prepared.complete, "notes": prepared.notes}
        else:
            lam = self.lam if self.matrix == "default" else None
            settings = {"matrix": self.matrix, "discount": self.discount, "lam": lam}
            vectors = exact_solvers.spectrum(source, self.vectors, **settings)
            rest = {"complete": True}
        k = self.vectors
        arrays = {
            "v": vectors.vectors[None, :k],
            "eigenvalues": vectors.eigenvalues[None, :k],
            "cosines": np.ones((1, k)),
            "overlap": np.ones(1),
            "observations": shared.observations_of(source),
            "neighbours": source.neighbours,
            "mixing": np.eye(k)[None],
            "energy": np.diag(vectors.eigenvalues[:k])[None],
            "products": np.eye(k)[None],
        }
        return Solution.exact(self, arrays, error=float(vectors.residuals[:k].max()), **rest)

    def evaluate(self, solution: Solution, *arguments: Any) -> np.ndarray:
        (observations,) = arguments
        batch = as_batch("this solution", observations, solution.observations)
        if solution.learner is None:
            raise self._lacks("values at other observations, because nothing was learned")
        return solution.mixing @ np.moveaxis(outputs(*shared.trained(solution), batch), 2, 1)

    def score(self, solution: Solution, truth: Eigenvectors) -> Float[np.ndarray, "seeds vectors"]:
        """Returns the `exact.cosines` of the vectors with known ones over `observations`."""
        return np.stack([cosines(vectors, truth) for vectors in solution.v])

    def subspace(self, solution: Solution, truth: Eigenvectors) -> Float[np.ndarray, " seeds"]:
        """Returns the share of the subspace of known eigenvectors that the vectors span."""
        return np.array([overlap(vectors, truth) for vectors in solution.v])

    def rotated(self, solution: Solution) -> Solution:
        """Returns the eigenvectors within the same subspace (the Rayleigh-Ritz method), by the
        transitions alone and without further training."""
        if solution.learner is None:
            return solution  # these are the eigenvectors
        mixing = solution.mixing.copy()
        for k, seed in enumerate(solution.seeds):
            if solution.status[k] == "diverged":
                continue
            try:
                mixing[k] = scipy.linalg.eigh(solution.energy[k], solution.products[k])[1].T
            except (np.linalg.LinAlgError, ValueError) as error:
                problem = f"the vectors of seed {seed} are not independent: no rotation fits them."
                remedy = "Train for longer, or with a larger penalty."
                raise ArgumentError(problem, remedy=remedy) from error
        turned = _mixed(solution, mixing)
        if np.isnan(turned.cosines).all():
            return turned
        near = turned.cosines.min(axis=1) >= 1 - NEAR
        good = "converged" if solution.provenance.get("complete", True) else "unverified"
        status = np.where(near, good, "max_updates")
        status = np.where(np.array(solution.status) == "diverged", "diverged", status)
        return replace(turned, status=tuple(status.tolist()))

    def potential(
        self,
        solution: Solution,
        seed: int,
        *,
        vector: int = 0,
        negated: bool | None = None,
        normalised: bool = True,
        **options: Any,
    ) -> Potential:
        shared.check_no_options("potential", options)
        if not 0 <= vector < solution.v.shape[1]:
            problem = f"vector is {vector}; there are {solution.v.shape[1]}, from 0 on."
            raise ArgumentError(problem, argument="vector")
        k = solution.index(seed, usable=True)
        if self.matrix == "laplacian" and vector == 0:
            problem = "the first vector of the Laplacian is constant, and no potential."
            remedy = "Use another vector=, or the first one of matrix='successor'."
            raise ArgumentError(problem, remedy=remedy, argument="vector")
        if negated is None:  # the first vector of the SR is smallest at the goal
            negated = self.matrix == "successor" and vector == 0
        sign = -1.0 if negated else 1.0
        v, mixing = sign * solution.v[k, vector], sign * solution.mixing[k, vector]

        def values(batch: np.ndarray) -> np.ndarray:
            return outputs(*shared.trained(solution, slice(k, k + 1)), batch)[0] @ mixing

        def graph() -> Graph:
            parts = (*shared.trained(solution, k), solution.observations)
            return network_graph(*parts, log_e=False).then("MatMul", mixing)

        scale = float(mean_step(v, solution.neighbours)) if normalised else 1.0
        name = f"the potential of seed {seed}, vector {vector}"
        learned = None if solution.learner is None else values
        return shared.make_potential(solution, v, learned, name, scale, graph)

    def check_solution(self, solution: Solution) -> None:
        super().check_solution(solution)
        if solution.v.shape[1] != self.vectors:
            raise DamagedFile(f"its v has {solution.v.shape[1]} vectors, not {self.vectors}.")
        good = np.array(solution.status) != "diverged"
        for name in ("v", "mixing", "energy", "products"):
            if not np.isfinite(solution.arrays[name][good]).all():
                raise DamagedFile(f"a number of its {name} is not finite.")


def _mixed(solution: Solution, mixing: Float[np.ndarray, "seeds vectors outputs"]) -> Solution:
    """Returns a solution with other combinations of the outputs, and all that follows from them."""
    combined = mixing @ np.moveaxis(outputs(*shared.trained(solution), solution.observations), 2, 1)
    length = np.linalg.norm(combined, axis=2)
    at = np.abs(combined).argmax(axis=2)
    largest = np.take_along_axis(combined, at[:, :, None], axis=2)[:, :, 0]
    factor = np.where(largest < 0, -1.0, 1.0) / np.where(length > 0, length, 1.0)
    mixing, v = factor[:, :, None] * mixing, factor[:, :, None] * combined
    top, bottom = (
        np.einsum("svi,sij,svj->sv", mixing, part, mixing)
        for part in (solution.energy, solution.products)
    )
    each, together = np.full(top.shape, np.nan), np.full(len(top), np.nan)
    if "exact_vectors" in solution.arrays:
        eigenvalues = solution.exact_eigenvalues
        rest = (np.zeros(eigenvalues.size), float(solution.exact_next))
        exact = Eigenvectors(solution.exact_vectors, eigenvalues, *rest)
        clean = np.nan_to_num(v, posinf=0.0, neginf=0.0)
        each = np.stack([cosines(run, exact) for run in clean])
        together = np.array([overlap(run, exact) for run in clean])
    arrays = {"v": v, "cosines": each, "overlap": together, "mixing": mixing}
    arrays["eigenvalues"] = top / np.where(bottom > 0, bottom, np.nan)
    return replace(solution, arrays={**solution.arrays, **arrays})


def with_rows_of_terminals(data: Transitions, delta: float) -> Transitions:
    """Adds steps of terminal states to themselves, the only ones that are marked as terminated."""
    flags = np.zeros(len(data), dtype=bool)
    if data.terminated.any():
        longer = data.with_absorbing_terminals(delta)
        flags = np.arange(len(longer)) >= len(data)
        data = longer
    return replace(data, terminated=flags, terminal_reward=np.zeros(len(data)))
