"""`solve`: the exact solution of a problem."""

from __future__ import annotations

from typing import Any

from drogo.data import Transitions
from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.learn.problem import AbstractProblem
from drogo.learn.settings import check_not_swept
from drogo.learn.solution import Solution
from drogo.mdp import MDP


def solve(source: Any, problem: AbstractProblem) -> Solution:
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
    if not isinstance(problem, AbstractProblem):
        raise ArgumentTypeError(
            f"problem is a {type(problem).__name__}; give one such as drogo.Column(lam=20.0).",
            argument="problem",
        )
    if not isinstance(source, MDP | Transitions):
        raise ArgumentTypeError(
            f"source is a {type(source).__name__}; give a drogo.MDP, or drogo.Transitions.",
            argument="source",
        )
    check_not_swept(problem)
    if isinstance(source, MDP) and problem.default_policy is not None:
        raise ArgumentError(
            "an MDP has a default policy, and so has the problem.",
            remedy="Give it to the MDP: dataclasses.replace(mdp, default_policy=...).",
            argument="problem",
        )
    return problem.solve(problem.given(source))
