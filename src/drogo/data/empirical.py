"""The problem that transitions describe, where states repeat, and whether it has a solution."""

from __future__ import annotations

import warnings

import numpy as np

from drogo.data.transitions import Transitions
from drogo.errors import DataError, check_positive
from drogo.exact.finite import infinite
from drogo.exact.reach import leads_to
from drogo.exact.sampled import Sampled, sampled_log_radius


def empirical(data: Transitions, lam: float) -> Sampled:
    """Returns the problem that some transitions describe: from each observation, the observed next
    ones with their observed frequencies.

    Args:
        data: The transitions.
        lam: The temperature.
    """
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
    """Estimates the spectral radius of `diag(exp(r/lam)) P` over the non-terminal states: that of
    the problem which the data describe.

    If it is below 1, what is learned is finite; it always is if rewards are negative. If it is not,
    what is learned is infinite, or some states never lead to an end in these data.

    Args:
        data: The transitions, of states that repeat.
        lam: The temperature lambda, positive.
    """
    _check_repeats(data)
    problem = empirical(data, check_positive("lam", lam))
    with np.errstate(over="ignore"):
        return float(np.exp(sampled_log_radius(problem)))


def check_anchored(data: Transitions, lam: float) -> None:
    """Raises an error if transitions do not determine a vector that terminal states hold in place.

    Rewards that are not negative are allowed where the data show that the vector is finite.

    Args:
        data: The transitions.
        lam: The temperature.
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
        f"{int(wrong.sum())} of {len(data)} rewards are not negative. The vector is finite, but a "
        "state is then not worth more the nearer it is to a goal, unless rewards say so. If every "
        "step is to cost something, give reward=-1.0 to collect.",
        UserWarning,
        stacklevel=4,
    )


def _unbounded(problem: Sampled, lam: float) -> str:
    """Returns why what is learned from a problem is infinite somewhere, or nothing if it is not."""
    steps = problem.steps
    states = np.arange(steps.n) < problem.states  # the last one stands for terminal states
    leads = leads_to(steps.state, steps.next_state, steps.n, np.array([problem.states]))
    why = infinite(steps, states & leads, lam)
    lost = np.setdiff1d(steps.state, np.flatnonzero(leads))
    if not why and lost.size and infinite(steps, states, lam):
        return (
            f"{lost.size} observation(s) never lead to a terminal state in these data (the first "
            f"is number {int(lost[0])} of the table), and going round in them gains something or "
            "costs nothing, so that no value holds there."
        )
    return why


def check_ends(data: Transitions) -> None:
    """Raises an error if no transition is terminated.

    Args:
        data: The transitions.
    """
    if not data.terminated.any():
        raise DataError(
            f"none of the {len(data)} transitions is terminated. Terminal states anchor the "
            "vector, which drifts to minus infinity without one.",
            remedy="Collect more transitions, or begin nearer to a terminal state (start=). For a "
            "task that never ends, use fit_continuing.",
            command_remedy="Collect more transitions, for example --transitions=1000000.",
        )


def costs_needed(
    data: Transitions, why: str = "The default representation needs r < 0."
) -> Exception:
    """Returns the error for rewards that are not negative.

    Args:
        data: The transitions.
        why: What is wrong about them.
    """
    wrong = data.reward >= 0
    first = int(wrong.argmax())
    return DataError(
        f"{int(wrong.sum())} of {len(data)} rewards are not negative (transition {first}: "
        f"{data.reward[first]:g}). {why[:1].upper()}{why[1:]}",
        remedy="Give a step cost, for example collect(..., reward=-1.0).",
        command_remedy="Give a step cost, for example --reward=-1.",
    )


def _check_repeats(data: Transitions) -> None:
    if not data.repeats:
        raise DataError(
            "the spectral radius is estimated from states that repeat, and in these "
            f"{len(data)} transitions there are {len(data.observations)} different observations."
        )
