"""`Continuing`: the map of a task that never ends, and its gain.

A reference state takes the place of the terminal one: the map is 0 there. With all rewards lowered
by the gain, the way from the reference back to it is worth nothing on balance.

- `Regression` computes the gain from the data, where states repeat: it is the largest eigenvalue of
  the problem that they describe. What is left is a `Column` with the reference as its terminal
  state.
- `Drogo` learns the map and the gain together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from drogo import exact as exact_solvers
from drogo.data import Transitions, under
from drogo.data.arrays import as_batch
from drogo.data.empirical import unseen_pairs
from drogo.data.index import ObservationIndex
from drogo.errors import ArgumentError, DamagedFile, DataError, NotConverged
from drogo.learn.anchored import Drogo, Regression
from drogo.learn.architectures import AbstractArchitecture
from drogo.learn.judge import TOLERATED_SHARE, Judge, Row, outputs
from drogo.learn.method import AbstractMethod
from drogo.learn.problem import Prepared
from drogo.learn.solution import Solution
from drogo.learn.value import Policy
from drogo.problems.column import (
    STEPS_OF_A_SCALE,
    Column,
    check_shapes,
    check_source,
    exact_arrays,
    observations_of,
    with_cap,
)
from drogo.problems.growth import growth_around
from drogo.problems.matrices import evenly

TARGET_RATE = 0.3
"""Without a target network, and with no terminal state to bound it, v runs away."""


class Continuing(Column):
    """v and the gain of a task that never ends: `exp(v(s) + k) = E[exp(r/lam + v(s'))]`, with v = 0
    at a reference state. The gain is `lam k`, the largest eigenvalue of `diag(exp(r/lam)) P` in
    units of reward per step. Rewards may have any sign, and may depend on the action and the next
    state.

    A solution has the arrays of `Column` (with no terminal states), `log_eigenvalue` and `gain`
    (seeds,), and the `reference`.
    """

    reference: Any = None
    """The observation at which the map is 0; by default that of the first transition. Where states
    repeat, every state must lead to it."""

    kind: ClassVar[str] = "continuing"
    host_only: ClassVar[tuple[str, ...]] = (*Column.host_only, "reference")

    def __check_init__(self) -> None:
        if self.reference is not None:  # a list would stand for a sweep
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
            raise DataError(
                f"{int(data.terminated.sum())} of the {len(data)} transitions are terminated, so "
                "this task ends.",
                remedy="Use drogo.Column, in which terminal states hold the map in place, or "
                "collect from drogo.NeverEnding(env), whose episodes lead on to the next one.",
                argument="data",
            )
        if not (method.scaled and method.weigh_actions):
            raise ArgumentError(
                "a task that never ends needs scaled=True and weigh_actions=True: otherwise the "
                "gain would belong to another problem than the map.",
                argument="method",
            )
        place = self._reference(data)
        if method.needs_solution:
            return self._lowered(data, place)
        by_action = method.per_action
        data, notes = under(data, self.default_policy, by_action=by_action)
        data = evenly(data) if data.repeats else data  # states that are seldom seen count as well
        mean = float(np.average(data.reward, weights=data.weight))
        shown = replace(data, reward=data.reward - mean)
        complete = unseen_pairs(data) == 0
        return Prepared(data, shown, tuple(notes), complete, {"place": place, "mean": mean})

    def _lowered(self, data: Transitions, place: np.ndarray) -> Prepared:
        """Returns transitions whose rewards are lowered by the gain, and which end at the
        reference."""
        if not data.repeats:
            raise DataError(
                "the gain is computed from states that repeat, and in these "
                f"{len(data)} transitions there are {len(data.observations)} different "
                "observations.",
                remedy="Use drogo.Drogo(), which learns it.",
            )
        lam, row = float(self.lam), self._row(data, place)
        weighed, notes = under(data, self.default_policy)
        log_eigenvalue = growth_around(weighed, lam, row)[0].log_eigenvalue
        lowered = replace(
            weighed,
            reward=weighed.reward - lam * log_eigenvalue,
            terminated=weighed.next_state == row,
            terminal_reward=np.zeros(len(weighed)),
        )
        facts = {"place": place, "row": row, "log_eigenvalue": log_eigenvalue}
        return Prepared(lowered, lowered, tuple(notes), unseen_pairs(weighed) == 0, facts)

    def exact(self, prepared: Prepared, method: AbstractMethod) -> Any:
        data = prepared.data
        if method.needs_solution:
            try:
                return self.exact_of_data(data)
            except NotConverged as error:
                raise NotConverged(
                    f"the map at lam = {self.lam:g} could not be computed: {error}",
                    remedy="Use a larger lam.",
                ) from error
        if data.repeats:
            row = self._row(data, prepared.facts["place"])
            with contextlib.suppress(NotConverged):  # it is learned all the same, and not verified
                found, part = growth_around(data, float(self.lam), row)  # pyright: ignore
                if part.all():
                    return found.log_e, found.log_eigenvalue
        return None

    def scaled(
        self, prepared: Prepared, method: AbstractMethod, exact: Any, step_size: float
    ) -> tuple[AbstractMethod, dict[str, float]]:
        if method.needs_solution:
            return super().scaled(prepared, method, exact, step_size)
        lam, shown = float(self.lam), prepared.shown
        spread = float(np.ptp(shown.reward)) / lam or 1.0
        return with_cap(method, shown, lam), {"scale": spread, "extra_scale": spread}

    def judge(self, **parts: Any) -> Judge:
        if parts["points"][0].method.needs_solution:
            return LoweredJudge(**parts)
        return GainJudge(**parts)

    def solve(self, source: Any) -> Solution:
        if isinstance(source, Transitions):
            method = Regression(action_values=False)
            prepared = self.prepare(source, method)
            v, row = self.exact(prepared, method), prepared.facts["row"]
            k, error = prepared.facts["log_eigenvalue"], np.inf
            complete = prepared.complete and bool(np.isfinite(v).all())
            notes: tuple[str, ...] = prepared.notes
        else:
            check_source(source)
            vector = exact_solvers.perron(source, self.lam).checked()
            v, k, error = vector.log_e, vector.log_eigenvalue, vector.error
            row = 0
            if self.reference is not None:
                row = self._row_of(observations_of(source), self.reference)
            complete, notes = True, ()
        none = np.zeros(0, dtype=np.int64)
        arrays = exact_arrays(v - v[row], source, none, np.zeros(0))
        arrays |= {"log_eigenvalue": np.array([k]), "gain": np.array([self.lam * k])}
        arrays["reference"] = arrays["observations"][row]
        return Solution.exact(self, arrays, complete=complete, error=error, notes=notes)

    def policy(self, solution: Solution, seed: int, **options: Any) -> Policy:
        if solution.learner is not None and solution.n_actions is None:
            raise ArgumentError(
                "a policy needs a value for each action, and the actions of these data are not "
                "discrete.",
                remedy="Collect with a wrapper that offers the agent a few actions, or use the map "
                "as a potential.",
            )
        return super().policy(solution, seed, **options)

    def check_file(self, header: Mapping[str, Any], seeds: int) -> None:
        super().check_file(header, seeds)
        shapes = dict.fromkeys(("log_eigenvalue", "gain"), (seeds,))
        check_shapes(header, {**shapes, "reference": header["observations"].shape[1:]})

    def check_arrays(
        self, arrays: Mapping[str, np.ndarray], good: Sequence[bool], n_actions: int | None
    ) -> None:
        super().check_arrays(arrays, good, n_actions)
        if not np.isfinite(arrays["log_eigenvalue"]).all():
            raise DamagedFile("its eigenvalue is not a number.")

    def _reference(self, data: Transitions) -> np.ndarray:
        """Returns the reference as one observation like those of the data."""
        table = data.observations
        if self.reference is None:
            return np.asarray(table[data.state[0]])
        given = np.asarray(self.reference)
        if given.shape != table.shape[1:] or given.dtype.kind not in "biuf":
            raise ArgumentError(
                f"reference is {self.reference!r}; expected one observation of shape "
                f"{table.shape[1:]}.",
                argument="reference",
            )
        place = as_batch("this fit", given[None], table)[0]
        if place.dtype.kind == "f" and not np.isfinite(place).all():
            raise ArgumentError(
                f"reference is {self.reference!r}, which is not finite.", argument="reference"
            )
        return np.asarray(place)

    def _row(self, data: Transitions, place: np.ndarray) -> int:
        return self._row_of(np.asarray(data.observations), place)

    def _row_of(self, table: np.ndarray, place: Any) -> int:
        """Returns the row of an observation in a table."""
        row = int(ObservationIndex(table).rows(np.asarray(place, table.dtype)[None])[0])
        if row < 0:
            raise ArgumentError(
                f"reference is {np.asarray(place).tolist()}, which is none of the {len(table)} "
                "observations.",
                argument="reference",
            )
        return row


@dataclass(frozen=True)
class LoweredJudge(Judge):
    """Measures maps of rewards that were lowered by a gain that is computed from the data."""

    def status(self, row: Mapping[str, np.ndarray]) -> list[str]:
        # The way from the reference back to it is worth nothing if the gain and the map agree.
        assert self.solution is not None
        known = np.where(np.isfinite(self.solution), self.solution, 0.0)
        away = np.abs(known[:, self.prepared.facts["row"]])
        limit = np.maximum(self.tolerance, TOLERATED_SHARE * np.ptp(known, axis=1))
        return [
            "max_updates" if wrong and one == "converged" else one
            for one, wrong in zip(super().status(row), away > limit, strict=True)
        ]

    def finish(self, params: Any) -> dict[str, np.ndarray]:
        arrays, facts = super().finish(params), self.prepared.facts
        k = np.full(len(self.points), facts["log_eigenvalue"])
        at_reference = arrays["v"][:, facts["row"]]
        shifted = {"v": arrays["v"] - at_reference[:, None], "log_scale": at_reference}
        return {**arrays, **shifted, "log_eigenvalue": k, "gain": self.lam * k}

    def shared(self, run: int = 0) -> dict[str, np.ndarray]:
        return {**super().shared(run), "reference": self.prepared.facts["place"]}


@dataclass(frozen=True)
class GainJudge(Judge):
    """Measures maps whose eigenvalue is learned as well.

    An error of its log counts as much as 20 of them in v: it is made at every step.
    """

    @cached_property
    def solution(self) -> Float[np.ndarray, "runs distinct"] | None:
        if self.points[0].exact is None or not self.plan.repeats:
            return None
        rows = [point.exact[0] for point in self.points]
        return np.stack([v - v[self.plan.compared].mean() for v in rows])

    @property
    def level(self) -> Float[np.ndarray, " runs"]:
        """The amount by which r / lam was lowered before training."""
        return self.prepared.facts["mean"] / self.lam

    def learned(self, params: Any) -> Float[np.ndarray, " runs"]:
        """Returns the log of the eigenvalue that each run has learned."""
        raw = np.asarray(params.numbers, dtype=np.float64)
        return np.asarray(self.objectives.extra_scale, dtype=np.float64) * raw + self.level

    def row(self, params: Any, losses: Float[np.ndarray, " runs"]) -> Row:
        row = super().row(params, losses)
        row["log_eigenvalue"] = self.learned(params)
        if self.solution is not None:
            known = np.array([point.exact[1] for point in self.points])
            off = np.abs(row["log_eigenvalue"] - known)
            row["error"] = np.maximum(row["error"], STEPS_OF_A_SCALE * off)
        return row

    def status(self, row: Mapping[str, np.ndarray]) -> list[str]:
        if self.solution is not None:
            return super().status(row)
        # Equations that hold do not tell whose eigenvalue it is, if states fall into classes.
        return ["unverified" if one == "converged" else one for one in super().status(row)]

    def finish(self, params: Any) -> dict[str, np.ndarray]:
        arrays, place = super().finish(params), self.prepared.facts["place"]
        values, shift = self.log_e_and_scale(outputs(self.learner, params, place[None]))
        at_reference = values[:, 0] + shift  # without any shift
        v = arrays["v"] + (arrays["log_scale"] - at_reference)[:, None]
        k = self.learned(params)
        gain = {"log_eigenvalue": k, "gain": self.lam * k}
        return {**arrays, **gain, "v": v, "log_scale": at_reference}

    def shared(self, run: int = 0) -> dict[str, np.ndarray]:
        return {**super().shared(run), "reference": self.prepared.facts["place"]}
