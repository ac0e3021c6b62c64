"""`solve` and `load`: the exact solution of a problem, and a saved solution of any problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drogo.data import Transitions
from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.learn.problem import AbstractProblem
from drogo.learn.settings import grid_of
from drogo.learn.solution import Solution, load_solution
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
            f"problem is a {type(problem).__name__}; give a problem, for example "
            "drogo.Column(lam=20.0).",
            argument="problem",
        )
    if not isinstance(source, MDP | Transitions):
        raise ArgumentTypeError(
            f"the source is a {type(source).__name__}; give a drogo.MDP, or drogo.Transitions "
            "whose states repeat.",
            argument="source",
        )
    if () not in grid_of(problem):
        raise ArgumentError(
            "a field of the problem is a list, and an exact solution has no sweep. Solve each by "
            "itself.",
            argument="problem",
        )
    return problem.solve(problem.given(source))


def load(
    path: str | Path,
    *,
    problem: AbstractProblem | None = None,
    method: Any = None,
    network: Any = None,
    optimiser: Any = None,
) -> Solution:
    """Returns a saved solution, of any problem.

    Args:
        path: The file.
        problem: The problem again, if a function in it is the user's own.
        method: The method again, if its class was not imported yet.
        network: The network that was given to `fit`, if it was the user's own.
        optimiser: The optax transformation that was given to `fit`. Without it the solution can be
            used but not continued.
    """
    given = {"problem": problem, "method": method, "network": network, "optimiser": optimiser}
    return load_solution(Path(path), **given)
