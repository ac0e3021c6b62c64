"""`GoalsJudge`: measures maps to every goal, and makes the arrays of their solutions."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from drogo.errors import counted
from drogo.learn.judge import Judge, Measures, Row, allowed
from drogo.learn.problem import Prepared
from drogo.problems import goal_batches, shared
from drogo.problems.shared import MODEL, ActionModel


@dataclass(frozen=True)
class GoalsJudge(Judge):
    """Measures maps to every goal against the exact one of the data, where states repeat."""

    @cached_property
    def solution(self) -> Float[np.ndarray, "goals distinct"] | None:
        exact = self.points[0].exact
        return None if exact is None else exact.log_e

    def values(self, params: Any) -> Float[np.ndarray, "runs goals distinct"]:
        """Returns v(s, g) of every run at all goals and observations of the data."""
        assert self.solution is not None
        goals, table = self.prepared.facts["goals"], self.data.observations
        goal, state = np.nonzero(~np.isneginf(self.solution))
        v = np.full((len(self.points), *self.solution.shape), -np.inf)
        pairs = ((table, table), state, goals[goal])
        v[:, goal, state] = goal_batches.pair_values(self.learner, params, *pairs)
        v[:, np.arange(goals.size), goals] = 0.0
        return v

    def row(self, params: Any, losses: Float[np.ndarray, " runs"]) -> Row:
        runs = len(self.points)
        row = {"loss": losses, "violation": np.full(runs, np.nan), "level": np.zeros(runs)}
        if self.solution is None:
            return row
        finite = np.isfinite(self.solution)
        v = self.values(params)[:, finite]
        row["error"] = np.abs(v - self.solution[finite]).max(axis=1)
        row["level"] = v.mean(axis=1)
        for name, truth in self.truths.items():
            gaps = np.abs(v - truth[:, finite])
            row[f"difference_{name}"] = gaps.max(axis=1)
            row[f"mean_difference_{name}"] = gaps.mean(axis=1)
        return row

    def converged(self, row: Measures, share: float = 1.0) -> Bool[np.ndarray, " runs"]:
        if self.solution is None:  # nothing is seen to be wrong
            return np.ones(len(self.points), dtype=bool)
        depth = -float(self.solution[np.isfinite(self.solution)].min())
        return row["error"] <= share * allowed(self.tolerance, depth)

    @property
    def verified(self) -> bool:
        return self.solution is not None and coverage(self.prepared, self.points[0].exact)[0]

    def finish(self, params: Any) -> dict[str, np.ndarray]:
        if self.solution is not None:
            return {"v": self.values(params)}
        shown = self.shared()["observations"]
        n = len(shown)
        goal, state = np.divmod(np.arange(n * n), n)
        v = goal_batches.pair_values(self.learner, params, (shown, shown), state, goal)
        reached = self.points[0].problem.reached_by(self.learner)
        v[:, goal_batches.ask(reached, shown[state], shown[goal]) | (state == goal)] = 0.0
        return {"v": v.reshape(-1, n, n)}

    def shared(self, run: int = 0) -> dict[str, np.ndarray]:
        data, facts = self.data, self.prepared.facts
        if self.solution is not None:
            model = ActionModel.of(data, self.points[run].problem.lam)
            return shared_arrays(data, facts["goals"], data.terminal_states, model)
        some = facts["some"]
        both = np.stack([data.state[some], data.next_state[some]], axis=1)
        kept, rows = np.unique(both, return_inverse=True)
        rows = rows.reshape(-1, 2)
        return {
            "goals": np.arange(kept.size),
            "observations": np.asarray(data.observations[kept]),
            "terminal_states": np.flatnonzero(np.isin(kept, data.terminal_states)),
            "neighbours": rows[rows[:, 0] != rows[:, 1]],
        }


def shared_arrays(
    source: Any, goals: np.ndarray, terminal_states: np.ndarray, model: ActionModel | None
) -> dict[str, np.ndarray]:
    arrays = {"goals": goals, "observations": shared.observations_of(source)}
    arrays["terminal_states"] = terminal_states.astype(np.int64)
    arrays["neighbours"] = source.neighbours
    return arrays if model is None else arrays | dict(zip(MODEL, vars(model).values(), strict=True))


def coverage(prepared: Prepared, exact: Any) -> tuple[bool, list[str]]:
    """Returns whether the data determine every value, and notes about what they lack."""
    v, data = exact.log_e, prepared.data
    live = np.setdiff1d(np.arange(v.shape[1]), data.terminal_states)
    apart, unknown = int(np.isneginf(v[:, live]).sum()), int(np.isnan(v[0]).sum())
    notes = list(prepared.notes)
    if unknown:
        notes.append(f"The data show no way on from {counted(unknown, 'state')}, left out here.")
    if apart:
        notes.append(f"The data do not connect {counted(apart, 'pair')} of a state and a goal.")
    return not (unknown or apart) and prepared.complete and bool(exact.converged.all()), notes
