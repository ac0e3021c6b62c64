"""`Soft`: the risk-neutral map, whose policy takes no chances where outcomes are random."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Float

from drogo.data import Transitions
from drogo.data.arrays import as_type
from drogo.data.empirical import Chance, check_terminated, costs_needed, pair_index
from drogo.data.index import ObservationIndex
from drogo.errors import ArgumentError, counted
from drogo.exact.soft import SoftValues, soft_values, soft_values_of_edges
from drogo.learn.architectures import AbstractArchitecture
from drogo.learn.method import AbstractMethod
from drogo.learn.problem import AbstractProblem, Point, Prepared
from drogo.learn.solution import Solution
from drogo.learn.value import Policy
from drogo.problems import dead_ends, shared
from drogo.problems.column import Column

LAM_OF_COST = 0.1  # A lam that suits data, as a share of the mean cost of a step.
TARGET_RATE = 0.3
"""Without a target network, values that nothing bounds from above may rise without end."""


class Soft(Column):
    """v = log sum_a d(a|s) exp(q(s, a)), where d is the default policy and q(s, a) the mean of
    r/lam + v(s') over the outcomes of an action; v = terminal_reward / lam in terminal states.

    It is the same as `Column` where each action has one outcome. Elsewhere `Column` counts lucky
    outcomes as if the agent could choose them, and this problem does not: lam v is the largest mean
    return less lam times the divergence from d, and the policy d(a|s) exp(q - v) attains it. The
    exact solution is found by policy iteration. `Drogo` learns a value for each action from the
    error r/lam + v(s') - q(s, a): this is soft Q-learning with d as prior, on `Drogo`'s batches.

    A solution has the arrays of `Column`; an exact one has `action_values` (distinct, actions) too,
    log d(a|s) + q(s, a), from which its policy follows.
    """

    kind: ClassVar[str] = "soft"
    optional: ClassVar[Mapping[str, str]] = {"action_values": "distinct actions"}

    def growth(self, exponent: Array) -> Array:
        return 1.0 + exponent

    # Learning

    def recommended(
        self, data: Transitions, method: AbstractMethod, network: AbstractArchitecture
    ) -> dict[str, Any]:
        settings = super().recommended(data, method, network)
        return {**settings, "action_values": True, "target_rate": TARGET_RATE}

    def weighed(self, data: Transitions, **options: Any) -> Prepared:
        if data.n_actions is None:
            problem = "Soft has a value for each action, and these have no discrete actions."
            remedy = "Give action= and n_actions= to Transitions.from_arrays, or use drogo.Column."
            raise ArgumentError(problem, remedy=remedy, argument="data")
        check_terminated(data)
        prepared = super().weighed(data, **{**options, "by_action": True})
        if not data.repeats:
            return prepared
        prepared = dead_ends.with_bad_outcomes(prepared, self.floor)
        data = prepared.data  # the default policy chooses among the actions that are known
        assert data.default is not None
        first = np.unique(pair_index(data), return_index=True)[1]
        total = np.bincount(data.state[first], data.default[first])
        data = replace(data, default=data.default / total[data.state])
        return replace(prepared, data=data, shown=data)

    def suited(self, prepared: Prepared) -> "Soft":
        """Returns the problem with a lam that is small beside the mean cost of a step."""
        cost = max(float(-prepared.data.reward.mean()), shared.TINY)
        return replace(self, lam=LAM_OF_COST * cost)

    def prepare(self, data: Transitions, method: AbstractMethod) -> Prepared:
        if not (method.per_action and method.scaled):
            problem = "Soft is learned with action_values=True and scaled=True."
            raise ArgumentError(problem, remedy="Leave both out.", argument="method")
        return super().prepare(data, method)

    def of_chance(self, found: Chance) -> str:
        return AbstractProblem.of_chance(self, found)

    def closed(self, prepared: Prepared) -> Prepared:
        """Returns transitions whose states repeat, without the actions that may lead to a state in
        which no choice of actions is sure to end. In those states, every action becomes a step into
        an end below all other values."""
        data = prepared.data
        values = self._values(data) if data.repeats else None
        if values is None or not (lost := np.isneginf(values.log_e)).any():
            return prepared
        over = lost[data.state]
        kept = over | np.isfinite(values.actions[data.state, data.action])
        data = dead_ends.ending(data, over, self.floor(data)).rows(kept)
        data = replace(data, next_state=np.where(lost[data.state], data.state, data.next_state))
        facts = {"anchor": prepared.data.terminal_states[0], **prepared.facts}
        facts["lost"] = np.flatnonzero(lost)
        note = f"From {counted(int(lost.sum()), 'observation')}, no choice of actions is sure to "
        note += "reach an end, as far as the data show. Their values are below all others, and "
        note += "actions that may lead there are not taken."
        return replace(prepared, data=data, shown=data, notes=(*prepared.notes, note), facts=facts)

    def _check(self, data: Transitions) -> None:
        if (data.reward >= 0).any() and not data.repeats:
            raise costs_needed(data, "Whether the values are finite is not known.")

    def exact_of_data(self, data: Transitions, *, scaled: bool = True) -> np.ndarray:
        return self._values(data).log_e

    def action_values(self, data: Transitions, v: np.ndarray) -> np.ndarray:
        return self._values(data).actions

    def _values(self, source: Any) -> SoftValues:
        if not isinstance(source, Transitions):
            return soft_values(source, float(self.lam)).checked()
        edges, count = source.edges, source.n_actions or 0
        assert edges.action is not None
        assert edges.log_default is not None
        parts = edges, edges.action, np.exp(edges.log_default), float(self.lam), count
        values = soft_values_of_edges(*parts).checked()
        states, rewards = source.pure_terminal_states
        values.log_e[states] = rewards / self.lam
        return values

    def scaled(self, prepared: Prepared, point: Point) -> tuple[AbstractMethod, dict[str, Any]]:
        # A capped error would be biased, but values have an upper bound, as those with a cap do.
        free = getattr(point.method, "cap", None) in ("auto", np.inf)
        given = replace(point.method, cap="auto") if free else point.method
        method, scales = super().scaled(prepared, point._replace(method=given))
        if free:
            method = replace(method, cap=np.inf)  # pyright: ignore[reportCallIssue]
        return method, scales

    # Solutions

    def exact_parts(self, source: Any) -> tuple[np.ndarray, float, dict[str, np.ndarray]]:
        values = self._values(source)
        return values.log_e, values.error, {"action_values": values.actions}

    def policy(self, solution: Solution, seed: int, **options: Any) -> Policy:
        if solution.learner is not None:
            return super().policy(solution, seed, **options)
        shared.check_no_options("policy", options)
        solution.index(seed)
        table, values = solution.observations, solution.action_values
        # Actions are all the same in terminal states, and where none is sure to lead to one.
        values = np.where(np.isfinite(values).any(axis=1, keepdims=True), values, 0.0)
        index = ObservationIndex(table)

        def logits(batch: np.ndarray) -> Float[np.ndarray, "batch actions"]:
            rows = index.rows(as_type("this policy", batch, table.dtype))
            return np.where(rows[:, None] < 0, np.nan, values[rows])

        return Policy(logits, table.shape[1:])
