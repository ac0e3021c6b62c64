"""The problem that transitions describe: its weights under a default policy, and its checks."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int

from drogo.data.transitions import Transitions
from drogo.errors import ArgumentError, DataError, counted
from drogo.exact.growth import infinite
from drogo.mdp.arrays import as_floats, leads_to

Each = Float[np.ndarray, " n"]
MOST_COMPARED, SHUFFLES, STANDARD_DEVIATIONS = 200_000, 20, 5.0
"""The largest number of transitions that are compared with those before them, the number of
permutations, and the difference from their mean that is no chance."""
TINY, ROUNDING = np.finfo(float).tiny, 1e-6
"""The smallest divisor, and the rounding error of probabilities that sum to 1."""
DefaultPolicy = npt.ArrayLike | Callable[[np.ndarray, np.ndarray], npt.ArrayLike]
"""The probability of each action, or a function `default_policy(observations, actions)` that
returns the probability (of vectors: the density) of each action of a batch."""


def under(
    data: Transitions,
    default_policy: DefaultPolicy | None = None,
    *,
    by_action: bool = False,
    always: bool = True,
) -> tuple[Transitions, list[str]]:
    """Weights transitions so that they describe the default policy (by default `data.default`, or
    else uniform), and returns them with sentences about what was done.

    The first of these that applies says what the weights are:

    - the actions are the default policy's, and not `always` is set: as before;
    - states repeat, and actions are discrete: the shares with which the default policy takes each
      action of a state, which also removes the noise of sampled actions;
    - a value is learned for each action (`by_action`): as before;
    - importance weights, by `data.behaviour`.
    """
    if data.action is None:
        if default_policy is not None:
            problem = "default_policy is given, but the transitions have no actions."
            remedy = "Give action= to Transitions.from_arrays, or leave default_policy out."
            raise ArgumentError(problem, remedy=remedy, argument="default_policy")
        return data, ["The transitions have no actions and are taken for the default policy's."]
    default = _probabilities(data, default_policy)
    taken = default > 0
    if data.terminated.any() and not taken[data.terminated].any():
        problem = "the default policy takes none of the actions that led to a terminal state."
        raise ArgumentError(problem, argument="default_policy")
    by_table, notes = data.n_actions is not None and data.repeats, []
    if not taken.all():
        data, default = data.rows(taken), default[taken]
        left_out = f"{(~taken).sum()} transitions whose action the default policy never takes"
        notes = [f"{left_out} were left out."]
    data = replace(data, default=default)
    if not always and data.follows_default:
        return data, notes
    if by_table:
        share, covered = _shares(data)
        weight = share * (np.bincount(data.state) / np.maximum(covered, TINY))[data.state]
        if partly := partly_seen(data):
            note = f"In {counted(partly, 'state')}, actions of the default policy never occurred. "
            note += "There it is taken to choose among the actions that were seen, as if the "
            note += "others did not exist: collect more transitions, or use start='uniform'."
            notes.append(note)
        return replace(data, weight=weight), notes
    if by_action:
        return data, notes
    if data.behaviour is None:
        problem = "the probabilities with which these actions were taken are unknown."
        remedy = "learn a Column with a method whose action_values=True."
        if data.n_actions is None:
            remedy = "learn the map of who acted: dataclasses.replace(data, action=None)."
        remedy = f"Give behaviour= to Transitions.from_arrays or collect, or {remedy}"
        command = "Use --set action_values=true."
        raise ArgumentError(problem, remedy=remedy, command_remedy=command, argument="behaviour")
    weight = default / data.behaviour
    return replace(data, weight=weight / weight.mean()), notes


def previous(data: Transitions) -> Int[np.ndarray, " n"]:
    """Returns the transition before each one in its episode, or -1 where it is the first."""
    order, goes_on = _in_turn(data)
    before = np.full(len(data), -1)
    before[order[1:][goes_on]] = order[:-1][goes_on]
    return before


def times(data: Transitions) -> Int[np.ndarray, " n"]:
    """Returns the number of transitions before each one in its episode."""
    order, goes_on = _in_turn(data)
    at, time = np.arange(len(data)), np.zeros(len(data), dtype=np.int64)
    time[order] = at - np.maximum.accumulate(np.where(np.r_[False, goes_on], 0, at))
    return time


def _in_turn(data: Transitions) -> tuple[Int[np.ndarray, " n"], Bool[np.ndarray, " n-1"]]:
    """Returns the order of transitions by their environment and time, and whether each one but the
    first goes on where the one before it ended."""
    order = np.argsort(data.environments, kind="stable")
    before, after = order[:-1], order[1:]
    same = data.environments[before] == data.environments[after]
    same &= data.next_state[before] == data.state[after]
    return order, same & ~(data.terminated | data.truncated)[before]


@dataclass(frozen=True)
class Chance:
    """The pairs of a state and an action that have several next states or rewards in the data."""

    several: int  # The number of pairs with several outcomes.
    pairs: int  # The number of all pairs that were seen.
    hidden: bool
    """Whether the outcomes depend on the step before, so that some observations hide something."""

    @property
    def text(self) -> str:
        pairs = f"{self.several} of {self.pairs} pairs of an observation and an action"
        return f"{pairs} had several outcomes."


def chance(data: Transitions) -> Chance:
    """Looks for pairs of a state and a discrete action with several outcomes, and compares, by
    permutations, how these go together with the observation and the action before."""
    if data.action is None or data.n_actions is None or not data.repeats:
        return Chance(0, 0, hidden=False)
    pair, outcome = pair_index(data), replace(data, default=None).edges.of_transition
    first = np.unique(outcome, return_index=True)[1]
    pairs, count = np.unique(pair[first], return_counts=True)
    several = pairs[count > 1]
    if not several.size:
        return Chance(0, pairs.size, hidden=False)
    before = previous(data)
    rows = np.flatnonzero((before >= 0) & np.isin(pair, several))[:MOST_COMPARED]
    context = np.unique(pair[before[rows]], return_inverse=True)[1]
    place = np.unique([pair[rows], context], axis=1, return_inverse=True)[1].ravel()
    order, rng = np.argsort(pair[rows], kind="stable"), np.random.default_rng(0)
    outcome = outcome[rows][order]

    def together(outcome: np.ndarray) -> int:
        return np.unique(place[order] * first.size + outcome).size

    shuffled = []
    for _ in range(SHUFFLES):
        mixed = np.lexsort([rng.random(rows.size), pair[rows][order]])
        shuffled.append(together(outcome[mixed]))
    mean, spread = np.mean(shuffled), max(float(np.std(shuffled)), 1.0)
    hidden = rows.size > 0 and together(outcome) < mean - STANDARD_DEVIATIONS * spread
    return Chance(several.size, pairs.size, hidden=bool(hidden))


def _probabilities(data: Transitions, default_policy: DefaultPolicy | None) -> Each:
    """Returns the default policy's probability of each action that was taken."""
    n, count = len(data), data.n_actions
    assert data.action is not None

    def wrong(problem: str) -> ArgumentError:
        remedy = "Give a probability for each action, or a function that returns a probability (of "
        remedy += "vectors: a density) for each observation and action of a batch."
        return ArgumentError(f"default_policy {problem}.", remedy=remedy, argument="default_policy")

    if callable(default_policy):
        given = np.asarray(default_policy(data.observations[data.state], data.action))
        if given.shape != (n,) or not (np.isfinite(given) & (given >= 0)).all():
            raise wrong(f"returned {given.dtype} of shape {given.shape}")
        return given.astype(np.float64)
    if default_policy is not None:
        each = as_floats("default_policy", default_policy)
        if each.shape != (count,) or not (each >= 0).all() or abs(each.sum() - 1) > 1e-9:
            raise wrong(f"is {default_policy!r}")
        return each[data.action]
    if data.default is not None:
        return data.default
    if count is None:
        raise wrong("is missing, and so is default= of Transitions.from_arrays")
    return np.full(n, 1 / count)


def partly_seen(data: Transitions) -> int:
    """Returns the number of visited states in which discrete actions of the default policy were
    never seen: the probabilities of the others do not sum to 1."""
    if data.action is None or data.n_actions is None or data.default is None:
        return 0
    return int((_shares(data)[1][np.unique(data.state)] < 1 - ROUNDING).sum())


def _shares(data: Transitions) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " states"]]:
    """Returns the default policy's probability of the action of each transition, divided by the
    number of those with the same state and action, and the sum of each state."""
    assert data.default is not None
    pair = pair_index(data)
    share = data.default / np.bincount(pair)[pair]
    return share, np.bincount(data.state, share)


def pair_index(data: Transitions) -> Int[np.ndarray, " n"]:
    """Returns an index for the state and the discrete action of each transition."""
    assert data.action is not None
    assert data.n_actions is not None
    return data.state.astype(np.int64) * data.n_actions + data.action


def check_anchored(data: Transitions, lam: float) -> None:
    """Raises an error if terminal states do not anchor a finite solution of the data."""
    check_terminated(data)
    wrong = data.reward >= 0
    if not wrong.any():
        return
    if not data.repeats:
        raise costs_needed(data)
    edges = data.edges.known
    over, everything = edges.terminated, np.ones(edges.n, dtype=bool)
    leads = leads_to(edges.state[~over], edges.next_state[~over], edges.n, edges.state[over])
    if why := infinite(edges, leads, lam):
        raise costs_needed(data, why)
    lost = np.setdiff1d(edges.state, np.flatnonzero(leads))
    if lost.size and infinite(edges, everything, lam):
        why = f"{lost.size} observation(s) (the first is number {int(lost[0])} of the table) never "
        why += "lead to a terminal state, and a cycle of them has a reward >= 0."
        raise costs_needed(data, why)
    problem = f"{int(wrong.sum())} of {len(data)} rewards are not negative. The vector is finite, "
    problem += "but states nearer to a goal need not have larger values; see reward= of collect."
    warnings.warn(problem, UserWarning, stacklevel=5)


def check_terminated(data: Transitions) -> None:
    """Raises an error if no transition is terminated."""
    if not data.terminated.any():
        problem = f"none of the {len(data)} transitions reaches a terminal state, to anchor v."
        remedy = "Use the problem Continuing if episodes are only truncated; else collect more, "
        remedy += "begin nearer to an end (start=), or use a policy= that reaches it."
        command = "Use --problem=continuing if episodes are only truncated; else collect more, for "
        command += "example --transitions=1000000."
        raise DataError(problem, remedy=remedy, command_remedy=command, argument="terminated")


def costs_needed(data: Transitions, why: str = "The map needs rewards below 0.") -> DataError:
    """Returns the error for rewards that are not negative, with the reason why they must be."""
    wrong = data.reward >= 0
    first = int(wrong.argmax())
    problem = f"{int(wrong.sum())} of {len(data)} rewards are not negative (transition {first}: "
    problem += f"{data.reward[first]:g}). {why[:1].upper()}{why[1:]}"
    remedy = "Give a step cost, for example collect(..., reward=-1.0)."
    command = "Give a step cost, for example --reward=-1."
    return DataError(problem, remedy=remedy, command_remedy=command, argument="reward")
