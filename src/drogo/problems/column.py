"""`Column`: the paper's map, the column of the default representation that belongs to the goal."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from drogo import exact as exact_solvers
from drogo.data import Transitions
from drogo.data.arrays import as_batch, as_type
from drogo.data.empirical import Chance, check_anchored
from drogo.data.index import ObservationIndex, merge_equal
from drogo.data.transitions import CountedEdges
from drogo.device import to_device
from drogo.errors import ArgumentError, DamagedFile
from drogo.exact.columns import solve_edges
from drogo.learn.judge import MOST_AT_ONCE, Judge, outputs
from drogo.learn.method import BYTES_IN_RESULT, LARGEST_EXPONENT, AbstractMethod, is_small
from drogo.learn.methods import Drogo, Regression
from drogo.learn.problem import AbstractProblem, Point, Prepared, Source
from drogo.learn.solution import Solution
from drogo.learn.value import Policy, network_graph, single_value, value_function
from drogo.mdp.model import mean_gap
from drogo.potential import Potential
from drogo.problems import dead_ends, shared
from drogo.problems.worse_ends import notes_of, suitable_lam


class Column(AbstractProblem):
    """v = log e, where `(R - P) e = 0` outside terminal states and `v = terminal_reward / lam` in
    them: log E[exp(sum of r / lam)] over the default policy's episodes.

    A solution has the arrays `v` (seeds, distinct), 0 or the terminal reward over lam in terminal
    states; `observations` (distinct, ...); `terminal_states`, the rows of those whose value is
    given, and their `terminal_rewards`; `log_scale`, the constant that was subtracted from the
    network's log e to fix the scale of v; and `mean_step`, the mean difference of v between
    neighbours.
    """

    kind: ClassVar[str] = "column"
    judged: ClassVar[tuple[str, ...]] = ("steps", "ends")
    layout: ClassVar[Mapping[str, str]] = {
        "v": "seeds distinct",
        "observations": "distinct ...",
        "terminal_states": "terminals",
        "terminal_rewards": "terminals",
        "log_scale": "seeds",
        "mean_step": "seeds",
    }
    rows: ClassVar[tuple[str, ...]] = ("terminal_states",)

    # On the device

    def energy(self, output: Array, next_output: Array, sample: Any) -> Array:
        return 0.5 * (output - next_output) ** 2 + sample.cost * output**2

    # Learning

    def recommend(self, data: Transitions) -> AbstractMethod:
        return Regression() if is_small(data) else Drogo()

    def prepare(self, data: Transitions, method: AbstractMethod) -> Prepared:
        by_action, always = method.per_action, method.weigh_actions
        prepared = self._noted(self.weighed(data, by_action=by_action, always=always))
        self._check(prepared.data)
        shared.warn_of_mixed_states(prepared.data)
        if method.anchored:
            return self.closed(prepared)
        return replace(prepared, shown=prepared.data.with_absorbing_terminals(method.delta))  # pyright: ignore

    def _noted(self, prepared: Prepared) -> Prepared:
        """Adds notes on the ends that the maps lead to, where the exact maps of the data are known
        and finite."""
        data = prepared.data
        known = data.repeats and data.terminated.any() and (data.reward < 0).all()
        notes = notes_of(data.edges, self.lam) if known else []
        return replace(prepared, notes=(*prepared.notes, *notes))

    def suited(self, prepared: Prepared) -> "Column":
        """Returns the problem with a lam at which its map leads to no worse ends than need be."""
        known = prepared.data.repeats and (prepared.data.reward < 0).all()
        lam = suitable_lam(prepared.data.edges, float(self.lam)) if known else None
        return self if lam is None else replace(self, lam=lam)

    def closed(self, prepared: Prepared) -> Prepared:
        """Returns transitions in which states that lead to no end have a value below all others."""
        return dead_ends.closed(prepared, self.floor)

    def of_chance(self, found: Chance) -> str:
        if found.hidden:
            return super().of_chance(found)
        note = f"{found.text} A Column takes chance for a choice of the agent, so that its policy "
        return f"{note}takes risks; drogo.Soft(lam) does not."

    def _check(self, data: Transitions) -> None:
        check_anchored(data, self.lam)

    def exact(self, prepared: Prepared, method: AbstractMethod) -> Any:
        data = prepared.data
        if not (method.finds_column and data.repeats) or data.observations.nbytes > BYTES_IN_RESULT:
            return None
        return self.exact_of_data(data, scaled=method.scaled)

    def exact_of_data(self, data: Transitions, *, scaled: bool = True) -> np.ndarray:
        """Returns the exact solution of weighed transitions whose states repeat."""
        v = solve_edges(data.edges, float(self.lam), scaled=scaled)
        states, rewards = data.pure_terminal_states
        v[states] = rewards / self.lam
        return v

    def action_values(self, data: Transitions, v: np.ndarray) -> np.ndarray:
        """Returns the exact x(s, a) of the data, from those of the states."""
        model, known = shared.ActionModel.of(data, self.lam), data.edges.known
        assert model is not None
        after = np.where(known.terminated, known.terminal_reward / self.lam, v[known.next_state])
        return model.values(after, (v.size, data.n_actions or 0))

    def floor(self, data: Transitions) -> float:
        """Returns a terminal reward below all values of the data, or below 0 without an end."""
        if not data.terminated.any():
            return -self.lam * shared.NEGLIGIBLE
        v = self.lam * self.exact_of_data(data)
        lowest = v[np.isfinite(v)].min(initial=data.terminal_rewards.min(initial=0.0))
        return float(lowest - self.lam * shared.NEGLIGIBLE)

    def scaled(self, prepared: Prepared, point: Point) -> tuple[AbstractMethod, dict[str, Any]]:
        data, method, lam = prepared.data, point.method, float(self.lam)
        lowest = float(data.reward.min())
        if not method.scaled and -lowest / lam > LARGEST_EXPONENT:
            problem = f"exp(-r / lam) overflows: lam is {lam:g}, and the lowest reward {lowest:g}."
            least = f"lam of at least {-lowest / LARGEST_EXPONENT:.3g}"
            remedy = f"Use drogo.Drogo(scaled=True), or {least}."
            raise ArgumentError(problem, remedy=remedy, argument="lam")
        scales: dict[str, Any] = {}
        if getattr(method, "cap", np.inf) != np.inf and (data.reward < 0).all():
            scales["ceiling"] = float(data.terminal_rewards.max()) / lam
        if method.needs_solution:
            # An output for each action holds the log of its probability as well.
            least = np.log(data.n_actions or 1) if method.per_action else 0.0
            scales["scale"] = max(np.std(point.exact[np.isfinite(point.exact)]), least, shared.TINY)
        elif method.anchored and method.scaled:
            scales["scale"] = shared.scale_of_costs(data.reward, lam)
        if method.per_action and not method.needs_solution and data.n_actions:
            taken = np.bincount(data.action, minlength=data.n_actions) > 0  # pyright: ignore
            scales["offset"] = 0.0 if taken.all() else np.where(taken, 0.0, dead_ends.ABSENT)
        return shared.with_cap(method, data, lam), scales

    def trained_on(self, prepared: Prepared, point: Point) -> Source:
        per_action, values = point.method.per_action, point.exact
        if not point.method.needs_solution:
            shown = prepared.shown
            return dead_ends.with_unseen_pairs(shown, self.floor) if per_action else shown
        if per_action:
            values = shared.with_negligible(self.action_values(prepared.data, values))
        return known_values(values, self.lam)

    def judge(self, **parts: Any) -> Judge:
        return Judge(**parts)

    # Solutions

    def solve(self, source: Any) -> Solution:
        problem, complete, rest = self, True, {"n_actions": source.n_actions}
        if isinstance(source, Transitions):
            prepared = self._noted(self.weighed(source))
            problem, source, complete = self.adapted(prepared), prepared.data, prepared.complete
            self._check(source)
            rest["notes"], terminals = prepared.notes, source.pure_terminal_states
        else:
            states = np.flatnonzero(source.terminal)
            terminals = states, source.reward[states]
            rest["notes"] = [text for text in (*source.notes, source.stuck_text) if text]
            complete = source.sure
        v, error, further = self.exact_parts(source)
        arrays = exact_arrays(v, source, *terminals) | further
        complete = complete and bool(np.isfinite(v).all())
        return Solution.exact(problem, arrays, complete=complete, error=error, **rest)

    def exact_parts(self, source: Any) -> tuple[np.ndarray, float, dict[str, np.ndarray]]:
        """Returns the exact v of an MDP or of data, its error or infinity, and further arrays."""
        if isinstance(source, Transitions):
            return self.exact_of_data(source), np.inf, {}
        vector = exact_solvers.solve(source, self.lam, "column").checked()
        return vector.log_e, vector.error, {}

    def evaluate(self, solution: Solution, *arguments: Any) -> Float[np.ndarray, "seeds batch"]:
        (observations,) = arguments
        batch = as_batch("this solution", observations, solution.observations)
        index, values = _given_values(solution)
        rows = index.rows(batch)
        if solution.learner is not None:
            return np.where(rows < 0, self._by_network(solution, batch), values[:, rows])
        if (rows < 0).any():
            problem = f"observation {int((rows < 0).argmax())} is no state of this solution."
            raise ArgumentError(problem, remedy="Use drogo.fit: it has values everywhere.")
        return values[:, rows]

    def _by_network(
        self, solution: Solution, batch: np.ndarray, runs: slice = slice(None)
    ) -> Float[np.ndarray, "runs batch"]:
        learner, params = shared.trained(solution, runs)
        log_e = learner.objective.log_e(to_device(outputs(learner, params, batch), jnp.float32))
        return np.asarray(log_e, dtype=np.float64) - solution.log_scale[runs, None]

    def values_of(self, solution: Solution, seed: int) -> Callable[[np.ndarray], np.ndarray]:
        """Returns the values of one seed by its network alone, as a function of a batch."""
        k = solution.index(seed)
        of_one = single_value(*shared.trained(solution, k), solution.log_scale[k])

        def values(batch: np.ndarray) -> Float[np.ndarray, " batch"]:
            batch = as_type("this solution", batch, solution.observations.dtype)
            if len(batch) == 1:  # without a call of a compiled program
                return np.array([of_one(batch[0])])
            shown = shared.filled(batch) if len(batch) < MOST_AT_ONCE else batch
            return self._by_network(solution, shown, slice(k, k + 1))[0, : len(batch)]

        return values

    def value_fn(self, solution: Solution, seed: int) -> Callable[[Array], Array]:
        k, table = solution.index(seed), solution.observations
        if solution.learner is None:
            raise self._lacks("value_fn, because nothing was learned")
        distinct = len(table)
        if table.dtype.itemsize == 8:  # JAX may halve it
            on_device = np.asarray(to_device(table))
            distinct = len(merge_equal(on_device)[0])
            if on_device.dtype.kind in "iu" and (on_device != table).any():
                distinct = 0  # large numbers wrap around
        if distinct < len(table):
            problem = f"in single precision, {distinct} of {len(table)} observations are distinct."
            raise ArgumentError(problem, remedy='Use jax.config.update("jax_enable_x64", True).')
        return value_function(
            *shared.trained(solution, k),
            to_device(solution.log_scale[k], dtype=jnp.float32),
            to_device(table[solution.terminal_states]),
            to_device(solution.terminal_rewards / self.lam, dtype=jnp.float32),
        )

    def potential(
        self, solution: Solution, seed: int, *, normalised: bool = True, **options: Any
    ) -> Potential:
        shared.check_no_options("potential", options)
        k = solution.index(seed, usable=True)
        scale = float(solution.mean_step[k]) if normalised else 1.0
        if not scale > 0:
            problem = f"the map of seed {seed} is constant; it cannot be normalised."
            raise ArgumentError(problem, argument="seed")
        graph = values = None
        if solution.learner is not None:
            parts = (*shared.trained(solution, k), solution.observations)
            whole = partial(network_graph, *parts, log_e=True)
            graph = lambda: whole().then("Sub", solution.log_scale[k])  # noqa: E731
            values = self.values_of(solution, seed)
        name = f"the potential of seed {seed}"
        return shared.make_potential(solution, solution.v[k], values, name, scale, graph)

    def goal_potential(self, solution: Solution, seed: int) -> float:
        if not solution.terminal_rewards.size:
            return super().goal_potential(solution, seed)
        best = float(solution.terminal_rewards.max() / self.lam)
        return best / float(solution.mean_step[solution.index(seed)])

    def policy(self, solution: Solution, seed: int, **options: Any) -> Policy:
        shared.check_no_options("policy", options)
        k = solution.index(seed)
        if solution.learner is None or not solution.method.per_action:
            problem = "a policy follows from a value for each action, and this solution has none."
            remedy = "Learn them: drogo.fit(data, problem, drogo.Drogo(action_values=True))."
            if solution.learner is not None and solution.n_actions is None:
                remedy = "These actions are not discrete. Use the map as a potential."
            raise ArgumentError(problem, remedy=remedy)
        learner, params = shared.trained(solution, slice(k, k + 1))

        def logits(batch: np.ndarray) -> np.ndarray:
            as_trained = as_type("this policy", batch, solution.observations.dtype)
            objective = learner.objective
            offset = np.asarray(objective.offset)
            return float(objective.scale) * outputs(learner, params, as_trained)[0] + offset

        return Policy(logits, solution.observations.shape[1:])

    def check_solution(self, solution: Solution) -> None:
        super().check_solution(solution)
        if solution.method is not None and np.isnan(solution.v).any():
            raise DamagedFile("its vector v is not a number everywhere.")


def known_values(values: np.ndarray, lam: float) -> CountedEdges:
    """Returns finite values of states, or of actions, as transitions to terminal states."""
    finite = np.isfinite(values)
    state, *action = (part.astype(np.int32) for part in np.nonzero(finite))
    n, zeros = state.size, np.zeros(state.size)
    return CountedEdges(
        len(values), state, state, np.ones(n), zeros, np.ones(n, dtype=bool),
        lam * values[finite], action=action[0] if action else None, log_default=None,
        count=np.ones(n, dtype=np.int64), of_transition=np.arange(n, dtype=np.int32),
    )  # fmt: skip


def exact_arrays(
    v: np.ndarray, source: Any, terminal_states: np.ndarray, terminal_rewards: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns the arrays of an exact solution over the states of an MDP or of transitions."""
    pairs = source.neighbours
    pairs = pairs[np.isfinite(v[pairs]).all(axis=1)]
    return {
        "v": v[None],
        "observations": shared.observations_of(source),
        "terminal_states": terminal_states,
        "terminal_rewards": terminal_rewards,
        "log_scale": np.zeros(1),
        "mean_step": np.array([mean_gap(v, pairs) if len(pairs) else np.nan]),
    }


@lru_cache(maxsize=8)
def _given_values(solution: Solution) -> tuple[ObservationIndex, Float[np.ndarray, "seeds given"]]:
    """Returns observations with given values, and these, with a column of NaN for unknown ones."""
    table, values = solution.observations, solution.v
    if solution.learner is not None:
        table = table[solution.terminal_states]
        values = np.tile(solution.terminal_rewards / solution.problem.lam, (len(values), 1))
    return ObservationIndex(table), np.pad(values, [(0, 0), (0, 1)], constant_values=np.nan)
