"""`Column`: the paper's map, the column of the default representation that belongs to the goal."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from drogo import exact as exact_solvers
from drogo.data import Transitions, under
from drogo.data.arrays import as_batch, as_type
from drogo.data.empirical import check_anchored, unseen_pairs
from drogo.data.index import merge_equal
from drogo.data.transitions import Edges
from drogo.device import to_device
from drogo.errors import ArgumentError, ArgumentTypeError, DamagedFile
from drogo.exact.sampled import solve_sampled
from drogo.learn.anchored import Drogo, Regression
from drogo.learn.batches import BYTES_IN_RESULT, Batches, Plan, make_data
from drogo.learn.fit import take
from drogo.learn.judge import Judge, outputs
from drogo.learn.learner import Learner
from drogo.learn.method import LARGEST_EXPONENT, AbstractMethod, is_small
from drogo.learn.problem import AbstractProblem, Point, Prepared
from drogo.learn.solution import Solution
from drogo.learn.value import Policy, ValueFunction, single_log_e, single_output
from drogo.mdp import MDP
from drogo.potential import Potential

TINY = 1e-6
STEPS_OF_A_SCALE = 20.0
"""With costs of 1 and the paper's lam of 20, outputs are not scaled."""
SCALES = ("log_scale", "mean_step")


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

    # On the device

    def energy(self, output: Array, next_output: Array, sample: Any) -> Array:
        return 0.5 * (output - next_output) ** 2 + sample.cost * output**2

    # Learning

    def recommend(self, data: Transitions) -> AbstractMethod:
        return Regression() if is_small(data) else Drogo()

    def prepare(self, data: Transitions, method: AbstractMethod) -> Prepared:
        by_action, always = method.per_action, method.weigh_actions
        data, notes = under(data, self.default_policy, by_action=by_action, always=always)
        self.check(data)
        warn_of_mixed_states(data)
        shown = data if method.anchored else data.with_absorbing_terminals(method.delta)  # pyright: ignore
        return Prepared(data, shown, tuple(notes), unseen_pairs(data) == 0)

    def check(self, data: Transitions) -> None:
        """Raises an error if transitions do not determine the map.

        Args:
            data: The transitions.
        """
        for lam in self.lam if isinstance(self.lam, list) else [self.lam]:
            check_anchored(data, lam)

    def exact(
        self, prepared: Prepared, method: AbstractMethod
    ) -> Float[np.ndarray, " distinct"] | None:
        data = prepared.data
        known = method.finds_column and data.repeats
        if not known or data.observations.nbytes > BYTES_IN_RESULT:
            if method.needs_solution:
                raise ArgumentError(
                    f"{method.name} fits a network to the exact solution of the data, which exists "
                    "only where states repeat. Use method=drogo.Drogo().",
                    argument="method",
                )
            return None
        return self.exact_of_data(data, scaled=method.scaled)

    def exact_of_data(
        self, data: Transitions, *, scaled: bool = True
    ) -> Float[np.ndarray, " distinct"]:
        """Returns the exact solution of weighed transitions whose states repeat.

        Args:
            data: The transitions.
            scaled: Whether noisy rewards are averaged inside the exponential of the value.
        """
        assert isinstance(self.lam, float)
        v = solve_sampled(data.empirical(self.lam), scaled=scaled)
        states, rewards = data.pure_terminal_states
        v[states] = rewards / self.lam
        return v

    def scaled(
        self, prepared: Prepared, method: AbstractMethod, exact: Any, step_size: float
    ) -> tuple[AbstractMethod, dict[str, float]]:
        data, lam = prepared.data, float(self.lam)
        best, lowest = float(data.terminal_rewards.max()), float(data.reward.min())
        if not method.scaled and -lowest / lam > LARGEST_EXPONENT:
            raise ArgumentError(
                f"exp(-r / lam) overflows single precision: the lowest reward is {lowest:g}, and "
                f"lam is {lam:g}. Use scaled=True with drogo.Drogo(), or lam of at least "
                f"{-lowest / LARGEST_EXPONENT:.3g}.",
                argument="lam",
            )
        scales = {"scale": 1.0, "ceiling": np.inf}
        cap = getattr(method, "cap", np.inf)
        if cap != np.inf and (data.reward < 0).all():
            scales["ceiling"] = best / lam
        if method.needs_solution:
            # An output for each action holds the log of its probability as well.
            least = np.log(data.n_actions or 1) if method.per_action else 0.0
            scales["scale"] = max(np.std(exact[np.isfinite(exact)]), least, TINY)
        elif method.anchored and method.scaled:
            scales["scale"] = max(STEPS_OF_A_SCALE * -data.reward.mean() / lam, 1.0)
        return with_cap(method, data, lam), scales

    def batches(
        self, prepared: Prepared, plan: Plan, learner: Learner, seeds: list[int], point: Point
    ) -> Batches:
        method, shown = point.method, prepared.shown
        source: Transitions | Edges = shown.edges if plan.whole else shown
        if method.needs_solution:
            lam, per_action = point.problem.lam, method.per_action
            source = known_values(prepared.data, point.exact, lam, per_action=per_action)
        return make_data(shown, source, plan, learner, seeds, method)

    def judge(self, **parts: Any) -> Judge:
        return Judge(**parts)

    # Solutions

    def solve(self, source: Any) -> Solution:
        if isinstance(source, Transitions):
            data, notes = under(source, self.default_policy)
            self.check(data)
            v = self.exact_of_data(data)
            complete = bool(np.isfinite(v).all()) and unseen_pairs(data) == 0
            arrays = exact_arrays(v, data, *data.pure_terminal_states)
            rest = {"notes": notes, "n_actions": data.n_actions}
            return Solution.exact(self, arrays, complete=complete, **rest)
        check_source(source)
        vector = exact_solvers.solve(source, self.lam, "column").checked()
        states = np.flatnonzero(source.terminal)
        arrays = exact_arrays(vector.log_e, source, states, source.reward[states])
        return Solution.exact(self, arrays, complete=True, error=vector.error)

    def evaluate(self, solution: Solution, *arguments: Any) -> Float[np.ndarray, "seeds batch"]:
        (observations,) = arguments
        batch = as_batch("this solution", observations, solution.observations)
        terminal = solution.terminal_states
        if solution.learner is None:
            known, values = solution.observations, solution.v
        else:
            known = solution.observations[terminal]
            values = np.tile(solution.terminal_rewards / self.lam, (len(solution.seeds), 1))
        table, index = merge_equal(np.concatenate([known, batch]))
        at_row = np.full((len(solution.seeds), len(table)), np.nan)
        at_row[:, index[: len(known)]] = values
        given = at_row[:, index[len(known) :]]
        if solution.learner is None:
            missing = ~np.isin(index[len(known) :], index[: len(known)])
            if missing.any():
                raise ArgumentError(
                    f"observation {int(missing.argmax())} of the batch is none of the "
                    f"{len(known)} states of this exact solution.",
                    remedy="Learn a map with drogo.fit, which has values everywhere.",
                )
            return given
        return np.where(np.isnan(given), self._by_network(solution, batch, slice(None)), given)

    def _by_network(
        self, solution: Solution, batch: np.ndarray, runs: slice
    ) -> Float[np.ndarray, "runs batch"]:
        assert solution.learner is not None
        assert solution.state is not None
        raw = outputs(solution.learner, take(solution.state.params, runs), batch)
        log_e = solution.learner.objective.log_e(to_device(raw, jnp.float32))
        return np.asarray(log_e, dtype=np.float64) - solution.log_scale[runs, None]

    def values_of(
        self, solution: Solution, seed: int
    ) -> Callable[[np.ndarray], Float[np.ndarray, " batch"]]:
        """Returns the values of one seed by its network alone, as a function of a batch.

        Args:
            solution: A solution that was learned.
            seed: One of its seeds.
        """
        k = solution.index(seed)

        def values(batch: np.ndarray) -> Float[np.ndarray, " batch"]:
            batch = as_type("this solution", batch, solution.observations.dtype)
            # Powers of 4: each size is compiled.
            most = 1 << 2 * (((len(batch) - 1).bit_length() + 1) // 2)
            filled = np.resize(batch, (most, *batch.shape[1:]))
            return self._by_network(solution, filled, slice(k, k + 1))[0, : len(batch)]

        return values

    def value_fn(self, solution: Solution, seed: int) -> Callable[[Array], Array]:
        k, table = solution.index(seed), solution.observations
        if solution.learner is None or solution.state is None:
            raise self._lacks("value_fn, because nothing was learned")
        distinct = len(table)
        if table.dtype.itemsize == 8:  # JAX may halve it
            on_device = np.asarray(to_device(table))
            distinct = len(merge_equal(on_device)[0])
            if on_device.dtype.kind in "iu" and (on_device != table).any():
                distinct = 0  # large numbers wrap around
        if distinct < len(table):
            raise ArgumentError(
                f"JAX without double precision distinguishes only {distinct} of the {len(table)} "
                'observations. Use jax.config.update("jax_enable_x64", True).'
            )
        learner = solution.learner
        function = ValueFunction(
            learner.network(take(solution.state.params, k)),
            learner.objective,
            learner.inputs,
            to_device(solution.log_scale[k], dtype=jnp.float32),
            to_device(table[solution.terminal_states]),
            to_device(solution.terminal_rewards / self.lam, dtype=jnp.float32),
        )

        def value(observations: Array) -> Array:
            return function(observations)

        return value

    def potential(
        self, solution: Solution, seed: int, *, normalised: bool = True, **options: Any
    ) -> Potential:
        check_no_options("potential", options)
        k = solution.index(seed, usable=True)
        scale = float(solution.mean_step[k]) if normalised else 1.0
        if not scale > 0:
            raise ArgumentError(
                f"the map of seed {seed} is constant; it cannot be normalised.", argument="seed"
            )
        name, learner = f"the potential of seed {seed}", solution.learner
        network_alone = None
        if learner is not None and solution.state is not None:
            output = single_output(learner.network(take(solution.state.params, k)), learner.inputs)
            log_e, log_scale = single_log_e(learner.objective), float(solution.log_scale[k])

            def unseen(batch: np.ndarray) -> np.ndarray:
                return self._by_network(solution, batch, slice(k, k + 1))[0] / scale

            def unseen_single(observation: np.ndarray) -> float:
                return (log_e(output(observation)) - log_scale) / scale

            network_alone = Potential(unseen, name=name, single=unseen_single)
        v = solution.v[k]
        finite = np.isfinite(v)
        v = np.where(finite, v, v[finite].min(initial=0.0)) if learner is None else v
        return Potential.from_states(
            solution.observations, v / scale, name=name, otherwise=network_alone
        )

    def policy(self, solution: Solution, seed: int, **options: Any) -> Policy:
        check_no_options("policy", options)
        k, learner, state = solution.index(seed), solution.learner, solution.state
        if learner is None or state is None or not solution.method.per_action:
            raise ArgumentError(
                "a policy follows from a value for each action, and this solution has none.",
                remedy="Learn them: drogo.fit(data, problem, drogo.Drogo(action_values=True)).",
            )

        def logits(batch: np.ndarray) -> np.ndarray:
            as_trained = as_type("this policy", batch, solution.observations.dtype)
            raw = outputs(learner, take(state.params, slice(k, k + 1)), as_trained)
            return float(learner.objective.scale) * raw[0]

        return Policy(logits, solution.observations.shape[1:])

    def check_file(self, header: Mapping[str, Any], seeds: int) -> None:
        distinct, known = header["v"].shape[1], header["terminal_states"].shape
        shapes = {
            "v": (seeds, distinct),
            "observations": (distinct, *header["observations"].shape[1:]),
            "terminal_rewards": known,
            **dict.fromkeys(SCALES, (seeds,)),
        }
        check_shapes(header, shapes, indices=("terminal_states",))
        if len(known) != 1 or known > (distinct,):
            raise ValueError("the shape of terminal_states is wrong")

    def check_arrays(
        self, arrays: Mapping[str, np.ndarray], good: Sequence[bool], n_actions: int | None
    ) -> None:
        if np.isnan(arrays["v"]).any():
            raise DamagedFile("its vector v is not a number everywhere.")
        if arrays["terminal_states"].max(initial=-1) >= len(arrays["observations"]):
            raise DamagedFile("its terminal states are not among its observations.")


def with_cap(method: AbstractMethod, data: Transitions, lam: float) -> AbstractMethod:
    """Returns a method whose cap is a number.

    An automatic cap is just above the largest exponent at the solution: v(s') - v(s) is at most
    -r/lam - log P(s'|s), and scaled by exp(r/lam), at most -log P(s'|s). Where states are seen
    once, P cannot be estimated from counts. Then moves are assumed to be no rarer than one in
    seven, whose log is about 2.
    """
    if getattr(method, "cap", None) != "auto":
        return method
    edges = data.edges
    log_cost = np.zeros(edges.reward.size) if method.scaled else -edges.reward / lam
    rarity = np.log(np.bincount(edges.state, edges.weight)[edges.state] / edges.weight)
    cap = float(max((log_cost + rarity).max(), log_cost.max() + 2.0)) + 0.5
    return replace(method, cap=cap)  # pyright: ignore[reportCallIssue]


def known_values(
    data: Transitions, solution: Float[np.ndarray, " distinct"], lam: float, *, per_action: bool
) -> Edges:
    """Returns the exact solution of the data as transitions to terminal states of known value."""
    known = np.isfinite(solution)
    state, action, value = np.flatnonzero(known), None, solution[known]
    if per_action:
        edges = data.edges
        assert edges.action is not None
        assert edges.log_default is not None
        after = np.where(edges.terminated, edges.terminal_reward / lam, solution[edges.next_state])
        used = ~np.isnan(after) & known[edges.state]
        pair = edges.state[used].astype(np.int64) * (edges.action.max() + 1) + edges.action[used]
        pairs, of_edge = np.unique(pair, return_inverse=True)
        gain = np.exp((edges.reward / lam + after - solution[edges.state])[used])
        count = np.bincount(of_edge, edges.count[used])
        with np.errstate(divide="ignore"):
            mean = np.log(np.bincount(of_edge, edges.count[used] * gain) / count)
        log_default = np.zeros(count.size)
        log_default[of_edge] = edges.log_default[used]
        state, action = np.divmod(pairs, edges.action.max() + 1)
        value = mean + log_default + solution[state]
        known = np.isfinite(value)
        state, action, value = state[known], action[known], value[known]
    n = state.size
    return Edges(
        state=state,
        next_state=state,
        reward=np.zeros(n),
        terminal_reward=lam * value,
        terminated=np.ones(n, dtype=bool),
        action=action,
        log_default=None,
        weight=np.ones(n),
        count=np.ones(n, dtype=np.int64),
        of_transition=np.arange(n, dtype=np.int32),
    )


def check_no_options(view: str, options: Mapping[str, Any]) -> None:
    """Raises an error if a view was given options that it does not have."""
    if options:
        name = next(iter(options))
        raise ArgumentError(f"{view} takes no {name}= for this problem.", argument=name)


def check_shapes(
    header: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], indices: Sequence[str] = ()
) -> None:
    """Raises a ValueError unless arrays have these shapes, and some of them are whole numbers."""
    wrong = [name for name, shape in shapes.items() if header[name].shape != shape]
    wrong += [name for name in indices if name in header and header[name].dtype.kind not in "iu"]
    if wrong:
        raise ValueError(f"the shape or type of {', '.join(wrong)} is wrong")


def exact_arrays(
    v: np.ndarray, source: Any, terminal_states: np.ndarray, terminal_rewards: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns the arrays of an exact solution over the states of an MDP or of transitions."""
    pairs = source.neighbours
    pairs = pairs[np.isfinite(v[pairs]).all(axis=1)]
    gaps = np.abs(v[pairs[:, 0]] - v[pairs[:, 1]])
    return {
        "v": v[None],
        "observations": np.asarray(observations_of(source)),
        "terminal_states": terminal_states,
        "terminal_rewards": terminal_rewards,
        "log_scale": np.zeros(1),
        "mean_step": np.array([gaps.mean() if gaps.size else np.nan]),
    }


def observations_of(source: Any) -> np.ndarray:
    """Returns the distinct observations of transitions, or the states of an MDP: their numbers, if
    they are not arrays of one shape."""
    if not isinstance(source, MDP):
        return source.observations
    try:
        states = np.asarray(source.states)
    except ValueError:
        return np.arange(source.n_states)
    return states if states.dtype.kind in "biuf" else np.arange(source.n_states)


def check_source(source: Any) -> None:
    """Raises an error unless a source is an MDP, where it is not transitions."""
    if not isinstance(source, MDP):
        raise ArgumentTypeError(
            f"the source is a {type(source).__name__}; give a drogo.MDP, or drogo.Transitions "
            "whose states repeat.",
            argument="source",
        )


def warn_of_mixed_states(data: Transitions) -> None:
    """Warns of observations that stand for terminal and for other states."""
    mixed = data.terminal_states.size - data.pure_terminal_states[0].size
    if mixed:
        warnings.warn(
            f"{mixed} observation(s) are terminal states in some transitions and ordinary states "
            "in others. They get one value for both. If there is an observation that distinguishes "
            "the two, use it.",
            UserWarning,
            stacklevel=6,
        )
