"""`solve`, and the parts that several problems share: scales, views, and values of actions."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from drogo.data import Transitions
from drogo.errors import ArgumentError
from drogo.graph import Graph
from drogo.learn.learner import Learner, take
from drogo.learn.method import AbstractMethod
from drogo.learn.problem import AbstractProblem
from drogo.learn.settings import check_not_swept
from drogo.learn.solution import Solution
from drogo.mdp import MDP
from drogo.potential import Potential

ActionValues = Float[np.ndarray, "*k distinct actions"]
TINY = 1e-6
STEPS_OF_A_SCALE = 20.0  # With costs of 1 and the paper's lam of 20, outputs are not scaled.
NEGLIGIBLE = 10.0
"""The amount by which an action that was never seen, or does not lead to the goal, is worth less
than its state, not infinity. The policy takes it once in 20,000 steps."""


def solve(source: MDP | Transitions, problem: AbstractProblem) -> Solution:
    """Computes the exact solution of a problem.

    Args:
        source: A `drogo.MDP`, or `drogo.Transitions` whose states repeat: then the solution is that
            of the MDP that the data describe.
        problem: What is sought, for example `drogo.Column(lam=20.0)`.

    Returns:
        The solution. It has one seed, 0, and values at the states of the source alone.

    Raises:
        NotConverged: It could not be computed accurately.
    """
    check_not_swept(problem)
    for name, remedy in (
        ("default_policy", "Give it to the MDP: dataclasses.replace(mdp, default_policy=...)."),
        ("costs", "Leave them out, or give them to MDP.from_gymnasium(env, reward=costs)."),
    ):
        if isinstance(source, MDP) and getattr(problem, name) is not None:
            wrong = f"the problem has {name}, and an MDP has its own."
            raise ArgumentError(wrong, remedy=remedy, argument="problem")
    source = problem.given(source)
    if isinstance(source, Transitions) and not source.repeats:
        wrong = "the states of these transitions do not repeat, so they have no exact solution."
        raise ArgumentError(wrong, remedy="Learn one: drogo.fit(data, problem).", argument="source")
    return problem.solve(source)


def scale_of_costs(reward: np.ndarray, lam: float) -> float:
    """Returns the scale of a network's outputs, which follows from the mean cost of a step."""
    return max(float(STEPS_OF_A_SCALE * -reward.mean() / lam), 1.0)


def with_cap(method: AbstractMethod, data: Transitions, lam: float) -> AbstractMethod:
    """Returns a method whose cap is a number: just above the largest exponent at the solution.

    v(s') - v(s) is at most -r/lam - log P(s'|s), and scaled by exp(r/lam), at most -log P(s'|s).
    For states that are seen once, moves are assumed to be no rarer than one in seven: exp(-2).
    """
    if getattr(method, "cap", None) != "auto":
        return method
    edges = data.edges
    log_cost = np.zeros(edges.reward.size) if method.scaled else -edges.reward / lam
    rarity = np.log(np.bincount(edges.state, edges.weight)[edges.state] / edges.weight)
    cap = float(max((log_cost + rarity).max(), log_cost.max() + 2.0)) + 0.5
    return replace(method, cap=cap)  # pyright: ignore[reportCallIssue]


def evenly(data: Transitions) -> Transitions:
    """Weighs transitions so that every state that was left counts the same."""
    total = np.bincount(data.state, data.weight, len(data.observations))
    scale = len(data) / np.count_nonzero(total)
    return replace(data, weight=data.weight * scale / total[data.state])


def warn_of_mixed_states(data: Transitions) -> None:
    """Warns of observations that stand for terminal and for other states."""
    mixed = data.terminal_states.size - data.pure_terminal_states[0].size
    if mixed:
        warnings.warn(
            f"{mixed} observation(s) are terminal states in some transitions and ordinary states "
            "in others, with one value for both. Use an observation that distinguishes the two.",
            UserWarning,
            stacklevel=7,
        )


def observations_of(source: Any) -> np.ndarray:
    """Returns the observations of transitions, or the states of an MDP if they are arrays."""
    if not isinstance(source, MDP):
        return source.observations
    try:
        states = np.asarray(source.states)
    except ValueError:
        return np.arange(source.n_states)
    return states if states.dtype.kind in "biuf" else np.arange(source.n_states)


def trained(solution: Solution, runs: Any = None) -> tuple[Learner, Any]:
    """Returns the learner of a solution that was learned, and the parameters of some seeds."""
    assert solution.learner is not None
    assert solution.state is not None
    params = solution.state.params
    return solution.learner, params if runs is None else take(params, runs)


def check_no_options(view: str, options: Mapping[str, Any]) -> None:
    """Raises an error if a view was given options that it does not have."""
    for name in options:
        raise ArgumentError(f"{view} takes no {name}= for this problem.", argument=name)


def make_potential(
    solution: Solution,
    v: Float[np.ndarray, " distinct"],
    values: Callable[[np.ndarray], np.ndarray] | None,
    name: str,
    scale: float = 1.0,
    graph: Callable[[], Graph] | None = None,
) -> Potential:
    """Returns values over the observations of a solution as a potential, divided by a scale. Others
    are evaluated by a network: by `values` of a batch, and elsewhere by its `graph`. Where an exact
    solution, which has none, has no value, it is the lowest of all."""
    otherwise = None
    if values is None:
        v = finite_values(v)
    else:
        otherwise = Potential(values, name=name, graph=graph).divided(scale)
    return Potential.from_states(solution.observations, v / scale, name=name, otherwise=otherwise)


def finite_values(v: np.ndarray) -> np.ndarray:
    """Returns values with the lowest finite one in place of those that are not finite."""
    finite = np.isfinite(v)
    return np.where(finite, v, v[finite].min(initial=0.0))


def filled(rows: np.ndarray) -> np.ndarray:
    """Repeats rows up to a power of four, so that few shapes are compiled."""
    size = 1 << 2 * (((len(rows) - 1).bit_length() + 1) // 2)
    return np.resize(rows, (size, *rows.shape[1:]))


@dataclass(frozen=True)
class ActionModel:
    """The distinct known steps of the data: the outcomes of the actions that were seen."""

    state: Int[np.ndarray, " steps"]
    action: Int[np.ndarray, " steps"]
    next_state: Int[np.ndarray, " steps"]
    log_gain: Float[np.ndarray, " steps"]
    """The log of exp(r/lam) times the share of this step among all known ones of its state: the
    default policy chooses among the actions that were seen, as in the value of the state."""

    @classmethod
    def of(cls, data: Transitions, lam: float) -> "ActionModel | None":
        """Returns the model of the data; None if there are no discrete actions."""
        edges, known = data.edges, data.edges.known
        if edges.action is None or edges.log_default is None:
            return None
        columns = (known.state, edges.action[edges.usable], known.next_state)
        state, action, next_state = (part.astype(np.int64) for part in columns)
        return cls(state, action, next_state, np.log(known.share) + known.reward / lam)

    def values(self, after: Float[np.ndarray, "*k steps"], shape: tuple[int, int]) -> ActionValues:
        """Returns x(s, a) = log d(a|s) + log E[exp(r/lam + v(s'))], from v(s') of each step: minus
        infinity for unknown actions. The sum of exp(x(s, a)) over actions is exp(v(s))."""
        order = np.lexsort([self.action, self.state])
        pairs, starts = np.unique((self.state * shape[1] + self.action)[order], return_index=True)
        x = np.full((*after.shape[:-1], shape[0] * shape[1]), -np.inf)
        x[..., pairs] = np.logaddexp.reduceat((self.log_gain + after)[..., order], starts, axis=-1)
        return x.reshape(*after.shape[:-1], *shape)


MODEL = tuple(f"step_{name}" for name in ActionModel.__dataclass_fields__)
"""The names of the columns of an action model among the arrays of a solution."""


def with_negligible(x: ActionValues) -> ActionValues:
    """Returns action values for a network, which has negligible ones for minus infinity."""
    far_below = np.logaddexp.reduce(x, axis=-1, keepdims=True) - NEGLIGIBLE
    lowest = np.where(np.isneginf(x), np.inf, x).min(axis=-1, keepdims=True)
    return np.where(np.isneginf(x), np.minimum(far_below, lowest - 1.0), x)
