"""`Continuing`: the map of a task that never ends, and its gain.

`Regression` computes the gain from the data, where states repeat. With rewards lowered by it, the
map is a `Column` whose terminal state is the reference. `Drogo` learns the map and the gain.
"""

import contextlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from drogo import exact as exact_solvers
from drogo.data import Transitions
from drogo.data.arrays import as_batch
from drogo.data.index import ObservationIndex
from drogo.errors import ArgumentError, DamagedFile, DataError, NotConverged
from drogo.exact.growth import Growth, classes, growth
from drogo.exact.rows import Mask
from drogo.learn.architectures import AbstractArchitecture
from drogo.learn.judge import TOLERATED_SHARE, Judge, Measures, Row, outputs
from drogo.learn.method import AbstractMethod
from drogo.learn.methods import Drogo, Regression
from drogo.learn.problem import Point, Prepared
from drogo.learn.solution import Solution
from drogo.mdp.arrays import as_floats, leads_to
from drogo.problems import shared
from drogo.problems.column import Column, exact_arrays

MOST_SPREAD = 3.0
"""The largest range of rewards, over lam, at which a gain is learned without a warning. A Pendulum
of five actions (range 16) has a policy of -190 at lam 20, of -1,600 at lam 5, and none at lam 1."""
TARGET_RATE = 0.3  # Without a target network, and with no terminal state to bound it, v runs away.


class Continuing(Column):
    """v and the gain of a task that never ends: `exp(v(s) + k) = E[exp(r/lam + v(s'))]`, with v = 0
    at a reference state. The gain is `lam k`, in units of reward per step, where exp(k) is the
    largest eigenvalue of `diag(exp(r/lam)) P`. Rewards may have any sign.

    A solution has the arrays of `Column` (with no terminal states), `log_eigenvalue` and `gain`
    (seeds,), and the `reference`.
    """

    reference: Any = None
    """The observation at which the map is 0; by default that of the first transition. Where states
    repeat, every state must lead to it."""

    kind: ClassVar[str] = "continuing"
    judged: ClassVar[tuple[str, ...]] = ()
    host_only: ClassVar[tuple[str, ...]] = (*Column.host_only, "reference")
    layout: ClassVar[Mapping[str, str]] = {
        **Column.layout, "log_eigenvalue": "seeds", "gain": "seeds", "reference": "...",
    }  # fmt: skip

    def __check_init__(self) -> None:
        if self.reference is not None:  # a list would stand for a sweep
            if not np.isfinite(as_floats("reference", self.reference)).all():
                raise ArgumentError("reference is not finite.", argument="reference")
            object.__setattr__(self, "reference", np.asarray(self.reference))

    def extra(self) -> Array:
        return jnp.zeros(())

    def learns_gain(self, method: AbstractMethod) -> bool:
        return not method.needs_solution

    def recommend(self, data: Transitions) -> AbstractMethod:
        return Regression() if data.repeats else Drogo()

    def recommended(
        self, data: Transitions, method: AbstractMethod, network: AbstractArchitecture
    ) -> dict[str, Any]:
        settings = super().recommended(data, method, network)
        settings["action_values"] = data.n_actions is not None
        if not method.needs_solution:
            settings |= {"target_rate": TARGET_RATE, "terminal_fraction": 0.0}
        return settings

    def prepare(self, data: Transitions, method: AbstractMethod) -> Prepared:
        if data.terminated.any():
            problem = f"{int(data.terminated.sum())} of {len(data)} transitions are terminated."
            remedy = "Use drogo.Column, or collect from drogo.NeverEnding(env)."
            raise DataError(problem, remedy=remedy, argument="data")
        if not (method.scaled and method.weigh_actions):
            problem = "the gain belongs to the map only with scaled=True and weigh_actions=True."
            raise ArgumentError(problem, argument="method")
        table, place, spread = data.observations, self.reference, float(np.ptp(data.reward))
        if place is None:
            place = np.asarray(table[data.state[0]])
        elif place.shape != table.shape[1:] or place.dtype.kind not in "biuf":
            wanted = f"give one observation of shape {table.shape[1:]}, of finite numbers."
            raise ArgumentError(f"reference is {place!r}; {wanted}", argument="reference")
        else:
            place = np.asarray(as_batch("this fit", place[None], table)[0])
        text = ""
        if spread == 0:
            text = f"every reward is {data.reward[0]:g}, so all policies have one gain and the map "
            text += "is flat. If episodes should not end, use drogo.NeverEnding(env, at_end=0.0)."
        elif not method.needs_solution and spread > MOST_SPREAD * float(self.lam):
            text = f"rewards range over {spread:.3g}, which is {spread / self.lam:.3g} times lam: "
            text += f"the gain is rarely learned so. Use a larger lam, of about {spread:.2g}."
        if text:
            warnings.warn(text, UserWarning, stacklevel=6)
        if method.needs_solution:
            # The data of a `Column`: rewards are lowered by the gain, and end at the reference.
            if not data.repeats:
                states = f"{len(table)} different ones in {len(data)} transitions"
                problem = f"the gain is computed from states that repeat, and there are {states}."
                raise DataError(problem, remedy="Use drogo.Drogo(), which learns it.")
            lam, row, prepared = float(self.lam), _row_of(table, place), self.weighed(data)
            data = prepared.data
            log_eigenvalue = growth_around(data, lam, row)[0].log_eigenvalue
            lowered = replace(
                data,
                reward=data.reward - lam * log_eigenvalue,
                terminated=data.next_state == row,
                terminal_reward=np.zeros(len(data)),
            )
            facts = {"place": place, "row": row, "log_eigenvalue": log_eigenvalue}
            return replace(prepared, data=lowered, shown=lowered, facts=facts)
        prepared = self.weighed(data, by_action=method.per_action)
        data = prepared.data  # states that are seldom seen count as well
        data = shared.evenly(data) if data.repeats else data
        mean = float(np.average(data.reward, weights=data.weight))
        shown = replace(data, reward=data.reward - mean)
        return replace(prepared, data=data, shown=shown, facts={"place": place, "mean": mean})

    def exact(self, prepared: Prepared, method: AbstractMethod) -> Any:
        data = prepared.data
        if method.needs_solution:
            try:
                return self.exact_of_data(data)
            except NotConverged as error:
                problem = f"the map at lam = {self.lam:g} could not be computed: {error}"
                raise NotConverged(problem, remedy="Use a larger lam.") from error
        if data.repeats:
            row = _row_of(data.observations, prepared.facts["place"])
            with contextlib.suppress(NotConverged):  # it is learned all the same, and not verified
                largest, part = growth_around(data, float(self.lam), row)
                if part.all():
                    return largest.log_e, largest.log_eigenvalue
        return None

    def scaled(self, prepared: Prepared, point: Point) -> tuple[AbstractMethod, dict[str, float]]:
        if point.method.needs_solution:
            return super().scaled(prepared, point)
        lam, shown = float(self.lam), prepared.shown
        spread = float(np.ptp(shown.reward)) / lam or 1.0
        return shared.with_cap(point.method, shown, lam), {"scale": spread, "extra_scale": spread}

    def judge(self, **parts: Any) -> Judge:
        return ContinuingJudge(**parts)

    def solve(self, source: Any) -> Solution:
        if isinstance(source, Transitions):
            method = Regression(action_values=False)
            prepared = self.prepare(source, method)
            v, row = self.exact(prepared, method), prepared.facts["row"]
            k, error = prepared.facts["log_eigenvalue"], np.inf
            complete = prepared.complete and bool(np.isfinite(v).all())
            notes: tuple[str, ...] = prepared.notes
        else:
            vector = exact_solvers.perron(source, self.lam).checked()
            v, k, error = vector.log_e, vector.log_eigenvalue, vector.error
            row, complete, notes = 0, True, ()
            if self.reference is not None:
                row = _row_of(shared.observations_of(source), self.reference)
        arrays = exact_arrays(v - v[row], source, np.zeros(0, dtype=np.int64), np.zeros(0))
        arrays |= {"log_eigenvalue": np.array([k]), "gain": np.array([self.lam * k])}
        arrays["reference"] = arrays["observations"][row]
        return Solution.exact(self, arrays, complete=complete, error=error, notes=notes)

    def check_solution(self, solution: Solution) -> None:
        super().check_solution(solution)
        if not np.isfinite(solution.log_eigenvalue).all():
            raise DamagedFile("its eigenvalue is not a number.")


def _row_of(table: np.ndarray, place: Any) -> int:
    row = ObservationIndex(table).row(np.asarray(place, table.dtype))
    if row < 0:
        problem = f"reference is {np.asarray(place).tolist()}, none of {len(table)} observations."
        raise ArgumentError(problem, argument="reference")
    return row


@dataclass(frozen=True)
class ContinuingJudge(Judge):
    """Measures maps and their log eigenvalues, whose error counts as 20 errors of v."""

    @property
    def learns_gain(self) -> bool:
        return not self.points[0].method.needs_solution

    @cached_property
    def solution(self) -> Float[np.ndarray, "runs distinct"] | None:
        if self.points[0].exact is None or not self.plan.repeats:
            return None
        if not self.learns_gain:
            return super().solution
        rows = [point.exact[0] for point in self.points]
        return np.stack([v - v[self.plan.compared].mean() for v in rows])

    def log_eigenvalue(self, params: Any) -> Float[np.ndarray, " runs"]:
        facts = self.prepared.facts
        if not self.learns_gain:
            return np.full(len(self.points), facts["log_eigenvalue"])
        raw = np.asarray(params.numbers, dtype=np.float64)
        level = facts["mean"] / self.lam  # r / lam was lowered by it before training
        return np.asarray(self.objectives.extra_scale, dtype=np.float64) * raw + level

    def row(self, params: Any, losses: Float[np.ndarray, " runs"]) -> Row:
        row = super().row(params, losses)
        if self.learns_gain:
            row["log_eigenvalue"] = self.log_eigenvalue(params)
            if self.solution is not None:
                exact = np.array([point.exact[1] for point in self.points])
                off = shared.STEPS_OF_A_SCALE * np.abs(row["log_eigenvalue"] - exact)
                row["error"] = np.maximum(row["error"], off)
        return row

    @property
    def verified(self) -> bool:
        # Equations that hold do not tell whose eigenvalue it is, if states fall into classes.
        return self.solution is not None and super().verified

    def converged(self, row: Measures, share: float = 1.0) -> Bool[np.ndarray, " runs"]:
        right = super().converged(row, share)
        if self.learns_gain or self.solution is None:
            return right
        # The way from the reference back to it is worth nothing if the gain and the map agree.
        v = np.where(np.isfinite(self.solution), self.solution, 0.0)
        limit = np.maximum(self.tolerance, TOLERATED_SHARE * np.ptp(v, axis=1))
        return right & (np.abs(v[:, self.prepared.facts["row"]]) <= limit)

    def finish(self, params: Any) -> dict[str, np.ndarray]:
        arrays, place = super().finish(params), self.prepared.facts["place"]
        values, shift = self.log_e_and_scale(outputs(self.learner, params, place[None]))
        at_reference = values[:, 0] + shift  # without any shift
        v = arrays["v"] + (arrays["log_scale"] - at_reference)[:, None]
        k = self.log_eigenvalue(params)
        gain = {"log_eigenvalue": k, "gain": self.lam * k}
        return {**arrays, **gain, "v": v, "log_scale": at_reference}

    def shared(self, run: int = 0) -> dict[str, np.ndarray]:
        return {**super().shared(run), "reference": self.prepared.facts["place"]}


def growth_around(data: Transitions, lam: float, row: int) -> tuple[Growth, Mask]:
    """Returns the eigenvalue and vector of the states that lead to the reference and back."""
    edges = data.edges.known
    parts = classes(edges, np.ones(edges.n, dtype=bool))
    recurrent = next((part for part in parts if part[row]), None)
    if recurrent is None:
        problem = f"observation {row} of the table, the reference, is never returned to."
        remedy = "Choose another reference=, or collect more transitions."
        raise DataError(problem, remedy=remedy, argument="reference")
    stays = ~edges.terminated
    leads = leads_to(edges.state[stays], edges.next_state[stays], edges.n, np.array([row]))
    lost = np.setdiff1d(edges.state, np.flatnonzero(leads))
    if lost.size:
        first = f"{lost.size} observation(s), the first of them number {int(lost[0])} of the table"
        problem = f"{first}, never lead to the reference: the map is minus infinity there."
        remedy = "Choose another reference=, collect more transitions, or leave these out."
        raise DataError(problem, remedy=remedy)
    result = growth(edges, recurrent, lam)
    others = [(part, growth(edges, part, lam)) for part in parts if part is not recurrent]
    for one in [result, *(other for _, other in others)]:
        if not one.is_known:
            low, high = (lam * bound for bound in one.bracket)
            problem = f"the gain at lam = {lam:g} is only known to be in [{low:.6g}, {high:.6g}]."
            raise NotConverged(problem, remedy="Use a larger lam.")
    for part, other in others:
        if other.log_eigenvalue >= result.log_eigenvalue:
            gains = " >= ".join(f"{lam * one.log_eigenvalue:.6g}" for one in (other, result))
            problem = f"the map is infinite at observation {int(part.argmax())}, in a part that is "
            problem += f"left for good, whose gain is not below that of the reference: {gains}."
            remedy = "Choose a reference= in that part, and leave out what follows it."
            raise DataError(problem, remedy=remedy)
    return result, recurrent
