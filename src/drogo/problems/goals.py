"""`Goals`: a map to every goal at once, v(s, g)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int
from scipy.spatial import KDTree

from drogo import exact as exact_solvers
from drogo.data import Transitions
from drogo.data.arrays import as_batch
from drogo.data.empirical import check_terminated, costs_needed
from drogo.data.index import ObservationIndex, row_bytes
from drogo.device import to_device
from drogo.errors import ArgumentError, Count, DamagedFile, DataError, Positive, Share, check_type
from drogo.exact.columns import as_rewards, columns_of_edges
from drogo.files import check_memory
from drogo.learn.architectures import (
    MOST_COORDINATES,
    AbstractArchitecture,
    AbstractPairArchitecture,
    Optimiser,
    PairMLP,
    Quasimetric,
)
from drogo.learn.batches import Batches
from drogo.learn.judge import Judge
from drogo.learn.learner import Learner
from drogo.learn.method import BYTES_IN_RESULT, AbstractMethod
from drogo.learn.methods import Drogo, Regression
from drogo.learn.problem import AbstractProblem, Point, Prepared
from drogo.learn.solution import Solution
from drogo.learn.value import Policy
from drogo.potential import Potential, mean_step
from drogo.problems import goal_batches, shared
from drogo.problems.goal_judge import GoalsJudge, coverage, shared_arrays
from drogo.problems.shared import MODEL, ActionModel
from drogo.problems.tasks import GoalTask

MISSED = -20.0
"""The value of a goal that is missed for good, in units of the scale of outputs, in place of minus
infinity, towards which a network would fall without end."""
KEPT = 100  # The number of transitions whose states a solution keeps, where states do not repeat.
NEAREST = 16  # The number of goals that count as near a state.
TRIED = 100  # The number of updates whose samples show whether any step reaches its goal.


class Goals(AbstractProblem):
    """v(s, g) = log E[exp(sum of r / lam until g)] for all states and goals: 0 where s is g.

    A solution has the arrays `v` (seeds, goals, distinct), minus infinity where the data do not
    lead from s to g; `goals`, the rows of `observations` that are the goals of `v`;
    `terminal_states`, likewise; and `neighbours`. It is called with observations and goals.
    `transfer` gives the map to new rewards of the terminal states without learning.
    """

    reached: goal_batches.Reached | None = None
    """Where states do not repeat: a function of a batch of observations and a goal for each of
    them, which returns whether it is reached there."""
    radius: Positive | None = eqx.field(static=True, default=None)
    """In place of `reached`: a goal is reached within this distance of normalised observations."""
    most_goals: Count = eqx.field(static=True, default=1000)
    """The largest number of goals to learn from; where states repeat, with all terminal states."""
    near: Share = eqx.field(static=True, default=0.5)
    """With `Drogo`, the share of pairs whose goal is one of the nearest of the state. Others are
    hardly ever reached in one step, and it is these that all other values rest on."""

    kind: ClassVar[str] = "goals"
    host_only: ClassVar[tuple[str, ...]] = (
        *AbstractProblem.host_only, "reached", "radius", "most_goals", "near",
    )  # fmt: skip
    anchor_cap: ClassVar[float] = 6.0
    """One of exp(6) = 400 steps must reach a goal next to a state. With a higher cap, a few pairs
    that are far too low would outweigh all others."""
    shares_batches: ClassVar[bool] = False
    views: ClassVar[tuple[str, ...]] = ("transfer", "value")
    layout: ClassVar[Mapping[str, str]] = {
        "v": "seeds goals distinct",
        "goals": "goals",
        "observations": "distinct ...",
        "terminal_states": "terminals",
        "neighbours": "pairs 2",
    }
    optional: ClassVar[Mapping[str, str]] = dict.fromkeys(MODEL, "steps")
    rows: ClassVar[tuple[str, ...]] = ("goals", "terminal_states", "neighbours", *MODEL[:3:2])

    def __check_init__(self) -> None:
        wanted = "a function of observations and goals, or None"
        check_type("reached", self.reached, Callable | None, wanted)

    # Recommendations

    def recommend(self, data: Transitions) -> AbstractMethod:
        return Regression() if data.repeats else Drogo()

    def network(self, data: Transitions, method: AbstractMethod) -> AbstractArchitecture:
        table = data.observations
        if table.ndim == 1:
            problem = "observations are state numbers, from which no network of goals can learn."
            remedy = "Use drogo.solve(data, problem), or observations such as one-hot."
            raise ArgumentError(problem, remedy=remedy, argument="data")
        few = table.ndim == 2 and table.shape[1] <= MOST_COORDINATES
        if method.per_action:
            return PairMLP() if few else PairMLP(depth=1, frequencies=0)
        return Quasimetric() if few else Quasimetric(width=512, depth=1, frequencies=0)

    def adapted_network(
        self, network: AbstractArchitecture, method: AbstractMethod
    ) -> AbstractArchitecture:
        if not isinstance(network, AbstractPairArchitecture):
            problem = f"network is {network!r}; a map to every goal needs one of two observations."
            remedy = "Give drogo.learn.Quasimetric() or drogo.learn.PairMLP()."
            raise ArgumentError(problem, remedy=remedy, argument="network")
        if isinstance(network, PairMLP) and network.negative is None:
            return replace(network, negative=not method.needs_solution)
        return network

    def recommended(
        self, data: Transitions, method: AbstractMethod, network: AbstractArchitecture
    ) -> dict[str, Any]:
        dense = isinstance(network, PairMLP)
        settings = {"updates": 4000 if dense else 6000, "batch_size": 2048 if dense else 1024}
        if not data.repeats:
            settings = {"updates": 5000, "batch_size": 512}
        rest = {"emphasis": 0.0, "target_rate": 0.3, "terminal_fraction": 0.0}
        return {**settings, **rest, "action_values": False}

    def optimiser(
        self, data: Transitions, method: AbstractMethod, network: AbstractArchitecture
    ) -> Optimiser:
        slow = isinstance(network, PairMLP) or not data.repeats
        return Optimiser(step_size=1e-3 if slow else 3e-3)

    # Learning

    def prepare(self, data: Transitions, method: AbstractMethod) -> Prepared:
        check_terminated(data)
        given = (self.reached is not None) + (self.radius is not None)
        if data.repeats and given:
            problem = "states repeat in these data, and are goals. Leave out reached and radius."
            raise ArgumentError(problem, argument="reached" if self.radius is None else "radius")
        if not data.repeats and given != 1:
            problem = "states do not repeat in these data, so no goal is ever reached exactly."
            remedy = "Give radius=, the largest distance of normalised observations at which it is "
            remedy += "reached, or reached=, a function of observations and goals."
            raise ArgumentError(problem, remedy=remedy, argument="reached")
        size, most = (n / 2**20 for n in (data.observations.nbytes, BYTES_IN_RESULT))
        if size > most:
            problem = f"the observations take {size:.0f} MiB; the most is {most:.0f}. Use fewer."
            raise ArgumentError(problem, argument="data")
        prepared = self.weighed(data, by_action=method.per_action)
        data = prepared.data
        if (data.reward >= 0).any():
            raise costs_needed(data)
        if data.repeats:
            return replace(prepared, facts={"goals": self._goals(data)})
        some = np.random.default_rng(0).permutation(len(data))[: max(1, self.most_goals // 2)]
        goals = np.union1d(data.state[some], data.next_state[some])
        return replace(prepared, facts={"goals": goals, "some": some[:KEPT]})

    def _goals(self, data: Transitions) -> Int[np.ndarray, " goals"]:
        """Returns the goals of a world whose states repeat: all terminal states, and others."""
        mixed = np.setdiff1d(data.terminal_states, data.pure_terminal_states[0])
        if mixed.size:
            problem = f"observation {mixed[0]} of the table, and {mixed.size - 1} more, are "
            problem += "terminal states in some transitions and ordinary states in others."
            raise DataError(problem, remedy="Use an observation that distinguishes the two.")
        others = np.setdiff1d(data.edges.known.state, data.terminal_states)
        room = max(0, self.most_goals - data.terminal_states.size)
        if others.size > room:
            others = np.random.default_rng(0).choice(others, room, replace=False)
        return np.sort(np.concatenate([others, data.terminal_states]).astype(np.int64))

    def exact(self, prepared: Prepared, method: AbstractMethod) -> Any:
        data, goals = prepared.data, prepared.facts["goals"]
        if not data.repeats:
            return None
        n = len(data.observations)
        table = f"a table of {goals.size} goals and {n} states"
        check_memory(table, 8 * n * goals.size, "Give a lower most_goals.")
        return columns_of_edges(data.edges, float(self.lam), goals)

    def scaled(self, prepared: Prepared, point: Point) -> tuple[AbstractMethod, dict[str, float]]:
        data, method, lam = prepared.data, point.method, float(self.lam)
        if method.needs_solution:
            finite = point.exact.log_e[np.isfinite(point.exact.log_e)]
            return method, {"scale": max(float(np.std(finite)), shared.TINY)}
        scales = {"scale": shared.scale_of_costs(data.reward, lam), "ceiling": 0.0}
        return shared.with_cap(method, data, lam), scales

    def batches(
        self, prepared: Prepared, learner: Learner, seeds: list[int], point: Point
    ) -> Batches:
        data, goals, method = prepared.data, prepared.facts["goals"], point.method
        seen = np.asarray(learner.inputs(data.observations))
        if method.needs_solution:
            v, actions = point.exact.log_e, None
            if method.per_action:
                model = ActionModel.of(data, point.problem.lam)
                assert model is not None
                shape = (v.shape[1], data.n_actions or 0)
                actions = shared.with_negligible(model.values(v[:, model.next_state], shape))
            draws = goal_batches.known_pairs(v, goals, actions, method.batch_size)
        else:
            missed = MISSED * float(learner.objective.scale)
            flat, few = seen.reshape(len(seen), -1), min(NEAREST, goals.size)
            closest = KDTree(flat[goals]).query(flat, few)[1].reshape(len(flat), few)
            rest = (goals[closest][data.state], self.near, missed, self.reached_by(learner))
            draws = goal_batches.relabelled(prepared, method, *rest)
            goal_batches.check_arriving(draws(seeds[0], 0, TRIED))
        features = learner.skeleton.features(to_device(seen))
        return Batches(goal_batches.PairData(features), goal_batches.PairSampler(seeds, draws))

    def reached_by(self, learner: Learner) -> goal_batches.Reached | None:
        """Returns the function that says whether a goal is reached, None where states repeat."""
        if self.radius is None:
            return self.reached
        radius, inputs = self.radius, learner.inputs

        def within(observations: np.ndarray, goals: np.ndarray) -> Bool[np.ndarray, " n"]:
            apart = np.asarray(inputs(observations)) - np.asarray(inputs(goals))
            return np.linalg.norm(apart.reshape(len(apart), -1), axis=1) <= radius

        return within

    def judge(self, **parts: Any) -> Judge:
        return GoalsJudge(**parts, logged=10)

    def truth_shape(self, data: Transitions) -> tuple[int, ...]:
        return (self._goals(data).size, len(data.observations))

    # Solutions

    def solve(self, source: Any) -> Solution:
        if isinstance(source, Transitions):
            method = Regression(action_values=False)
            prepared = self.prepare(source, method)
            problem = self.adapted(prepared)
            columns, source = self.exact(prepared, method), prepared.data
            goals, terminal = prepared.facts["goals"], source.terminal_states
            model = ActionModel.of(source, float(self.lam))
            complete, notes = coverage(prepared, columns)
            rest: dict[str, Any] = {"notes": notes, "n_actions": source.n_actions}
        else:
            columns = exact_solvers.solve_columns(source, self.lam).checked()
            goals, terminal = np.asarray(columns.goals), np.flatnonzero(source.terminal)
            complete, model, rest, problem = True, None, {}, self
        arrays = {"v": columns.log_e[None], **shared_arrays(source, goals, terminal, model)}
        error = float(np.max(columns.error))
        return Solution.exact(problem, arrays, complete=complete, error=error, **rest)

    def evaluate(self, solution: Solution, *arguments: Any) -> Float[np.ndarray, "seeds batch"]:
        observations, goal_observations = arguments
        batch = as_batch("this map", observations, solution.observations)
        goals = goal_batches.as_goals(solution, goal_observations, len(batch))
        if not len(batch):
            return np.zeros((len(solution.seeds), 0))
        index, places = _index(solution)
        state, goal = index.rows(batch), index.rows(goals)
        place = np.where(goal < 0, -1, places[goal])
        in_table = (state >= 0) & (place >= 0)
        if solution.learner is None:
            if not in_table.all():
                problem = f"pair {int(in_table.argmin())} is no state and goal of this solution."
                raise ArgumentError(problem, remedy="Use drogo.fit, or a higher most_goals.")
            return solution.v[:, place, state]
        learner, params = shared.trained(solution)
        rows = np.arange(len(batch))
        v = goal_batches.pair_values(learner, params, (batch, goals), rows, rows)
        if solution.provenance["repeats"]:
            never = in_table & np.isneginf(solution.v[0, place, state])
            never |= np.isin(state, solution.terminal_states)
            v = np.where(never, -np.inf, v)
        arrived, reached = row_bytes(batch) == row_bytes(goals), self.reached_by(learner)
        if reached is not None:
            arrived = arrived | goal_batches.ask(reached, batch, goals)
        return np.where(arrived, 0.0, v)

    def action_values(
        self, solution: Solution, batch: np.ndarray, goals: np.ndarray
    ) -> Float[np.ndarray, "seeds batch actions"]:
        """Returns x(s, a, g) by the network, for one goal or one for each observation."""
        rows = np.arange(len(batch))
        places = rows if len(goals) == len(batch) else np.zeros_like(rows)
        shown = as_batch("this map", batch, solution.observations)
        return goal_batches.pair_outputs(*shared.trained(solution), (shown, goals), rows, places)

    def potential(
        self,
        solution: Solution,
        seed: int,
        *,
        goal: Any = None,
        normalised: bool = True,
        **options: Any,
    ) -> Potential:
        shared.check_no_options("potential", options)
        return self._task(solution, seed, goal).potential(normalised=normalised)

    def goal_potential(self, solution: Solution, seed: int) -> float:
        return 0.0

    def policy(self, solution: Solution, seed: int, *, goal: Any = None, **options: Any) -> Policy:
        shared.check_no_options("policy", options)
        return self._task(solution, seed, goal).policy()

    def _task(self, solution: Solution, seed: int, goal: Any) -> GoalTask:
        solution.index(seed, usable=True)
        return GoalTask(solution, goal_batches.as_goals(solution, goal, 1), np.zeros(1), seed)

    def value(
        self, solution: Solution, seed: int = 0, *, normalised: bool = True
    ) -> Callable[[Any, Any], Float[np.ndarray, " batch"]]:
        """Returns v(s, g) of one seed as a function of observations and goals, for `GoalShaping`:
        the lowest value of all where a goal is not reached. If `normalised`, it is divided by the
        mean difference between neighbours in the data."""
        k = solution.index(seed, usable=True)
        v = solution.v[k]
        lowest, scale = float(v[np.isfinite(v)].min()), 1.0
        if normalised:
            before, after = (v[:, rows] for rows in solution.neighbours.T)
            both = np.isfinite(before) & np.isfinite(after)
            pairs = np.arange(2 * both.sum()).reshape(2, -1).T
            scale = float(mean_step(np.concatenate([before[both], after[both]]), pairs))

        def of_pairs(observations: Any, goals: Any) -> Float[np.ndarray, " batch"]:
            values = self.evaluate(solution, observations, goals)[k]
            # A table has NaN where nothing is known. That of a network is an error.
            unknown = np.isneginf(values) | (np.isnan(values) & (solution.learner is None))
            return np.where(unknown, lowest, values) / scale

        return of_pairs

    def transfer(
        self, solution: Solution, terminal_rewards: npt.ArrayLike, seed: int = 0
    ) -> GoalTask:
        """Returns the map to new rewards of the terminal states, without learning anything.

        Args:
            terminal_rewards: A reward for each of `terminal_states`, of shape (terminals,), or
                several such tasks, of shape (tasks, terminals). Minus infinity stands for a
                terminal state that is worth nothing.
        """
        if not solution.provenance["repeats"]:
            problem = "where states do not repeat, goals overlap, and rewards do not add up."
            remedy = "Use drogo.Column with terminal_reward in the data."
            raise ArgumentError(problem, remedy=remedy)
        count, lam = solution.terminal_states.size, float(self.lam)
        rewards = as_rewards(terminal_rewards, count, lam)
        solution.index(seed, usable=True)
        return GoalTask(solution, solution.observations[solution.terminal_states], rewards, seed)

    def check_solution(self, solution: Solution) -> None:
        super().check_solution(solution)
        actions = solution.arrays.get(MODEL[1], np.zeros(0, dtype=int))
        if not ((actions >= 0) & (actions < (solution.n_actions or 0))).all():
            raise DamagedFile(f"its {MODEL[1]} are not among its {solution.n_actions} actions.")


@lru_cache(maxsize=8)
def _index(solution: Solution) -> tuple[ObservationIndex, Int[np.ndarray, " distinct"]]:
    """Returns the index of a solution's observations, and the place of each among the goals."""
    places = np.full(len(solution.observations), -1)
    places[solution.goals] = np.arange(solution.goals.size)
    return ObservationIndex(solution.observations), places
