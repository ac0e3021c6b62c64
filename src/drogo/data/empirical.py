"""The empirical problem of transitions whose states repeat, and whether it has a solution."""

from __future__ import annotations

import warnings

import numpy as np

from drogo.data.transitions import Transitions
from drogo.errors import DataError, check_positive
from drogo.exact.growth import infinite, log_radius
from drogo.exact.sampled import Sampled
from drogo.mdp.arrays import leads_to


def empirical(data: Transitions, lam: float) -> Sampled:
    """Returns the problem that transitions describe: each observation leads to its observed next
    ones with their observed frequencies."""
    edges = data.edges
    return Sampled(
        len(data.observations),
        edges.state,
        edges.next_state,
        edges.weight,
        -edges.reward / lam,
        edges.terminated,
        edges.terminal_reward / lam,
    )


def spectral_radius(data: Transitions, lam: float) -> float:
    """Estimates the spectral radius of data; see `Transitions.spectral_radius`."""
    if not data.repeats:
        raise DataError(
            "the spectral radius is estimated from states that repeat, and in these "
            f"{len(data)} transitions there are {len(data.observations)} different observations."
        )
    steps = empirical(data, check_positive("lam", lam)).steps
    with np.errstate(over="ignore"):
        return float(np.exp(log_radius(steps, np.arange(steps.n) < steps.n - 1)))


def check_anchored(data: Transitions, lam: float) -> None:
    """Raises an error if transitions do not determine a solution that terminal states anchor.

    Rewards that are not negative are allowed where the data show that the solution is finite.
    """
    check_ends(data)
    wrong = data.reward >= 0
    if not wrong.any():
        return
    if not data.repeats:
        raise costs_needed(data)
    why = _unbounded(empirical(data, lam), lam)
    if why:
        raise costs_needed(data, why)
    warnings.warn(
        f"{int(wrong.sum())} of {len(data)} rewards are not negative. The vector is finite, but "
        "states nearer to a goal then need not have larger values. For a cost of every step, give "
        "reward=-1.0 to collect.",
        UserWarning,
        stacklevel=4,
    )


def _unbounded(problem: Sampled, lam: float) -> str:
    """Returns the reason why the solution is infinite somewhere, or "" if it is finite."""
    steps = problem.steps
    states = np.arange(steps.n) < problem.states  # the last one represents terminal states
    leads = leads_to(steps.state, steps.next_state, steps.n, np.array([problem.states]))
    why = infinite(steps, states & leads, lam)
    lost = np.setdiff1d(steps.state, np.flatnonzero(leads))
    if not why and lost.size and infinite(steps, states, lam):
        return (
            f"{lost.size} observation(s) never lead to a terminal state in these data (the first "
            f"is number {int(lost[0])} of the table), and cycles among them have a total reward of "
            "at least 0, so they have no finite value."
        )
    return why


def check_ends(data: Transitions) -> None:
    """Raises an error if no transition is terminated."""
    if not data.terminated.any():
        raise DataError(
            f"none of the {len(data)} transitions is terminated. Terminal states anchor the "
            "vector, which drifts to minus infinity without one.",
            remedy="Collect more transitions, or begin nearer to a terminal state (start=). For a "
            "task that never ends, use fit_continuing.",
            command_remedy="Collect more transitions, for example --transitions=1000000.",
            argument="terminated",
        )


def costs_needed(
    data: Transitions, why: str = "The default representation needs r < 0."
) -> Exception:
    """Returns the error for rewards that are not negative.

    Args:
        data: The transitions.
        why: The reason why they must be.
    """
    wrong = data.reward >= 0
    first = int(wrong.argmax())
    return DataError(
        f"{int(wrong.sum())} of {len(data)} rewards are not negative (transition {first}: "
        f"{data.reward[first]:g}). {why[:1].upper()}{why[1:]}",
        remedy="Give a step cost, for example collect(..., reward=-1.0).",
        command_remedy="Give a step cost, for example --reward=-1.",
        argument="reward",
    )
