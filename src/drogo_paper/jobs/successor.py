"""Q-learning shaped with several readings of "the principal eigenvector of the SR"."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from drogo.agents import compare
from drogo.potential import normalised
from drogo.runs.job import Outcome, Report
from drogo.worlds.grid import GridWorld
from drogo_paper.jobs.shaping import EVERY, as_arrays

Matrix = Float[np.ndarray, "states states"]
Vector = Float[np.ndarray, " states"]

USUAL = "as in the table"
"""Minus the top eigenvector of (SR + SR')/2, with a zero row for the goal, divided by its mean step
between neighbouring cells."""


def run(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Runs all readings over the whole grid of weights and step sizes."""
    world = GridWorld.load(settings["world"])
    seeds, evaluations = settings["seeds"], settings["steps"] // EVERY
    vectors = readings(world, settings["discount"])
    grids = compare(
        world.mdp,
        {name: np.repeat(phi[None], seeds, axis=0) for name, phi in vectors.items()},
        seeds=seeds,
        step_limit=world.step_limit,
        low_reward=world.low_reward,
        steps=settings["steps"],
        every=EVERY,
        discount=settings["discount"],
        progress=lambda done: report(done / evaluations),
    )
    return Outcome(as_arrays(grids), {"methods": list(grids)})


def readings(world: GridWorld, discount: float) -> dict[str, Vector]:
    """Returns the potentials by name. Each differs from the first in the one way that it names."""
    mdp, goal = world.mdp, world.terminal
    P = mdp.P.toarray()
    absorbing = P + np.diag(goal.astype(float))
    e = top(symmetric(successor(P, discount)))
    at_goal = top(symmetric(successor(absorbing, discount)))
    single = top(symmetric(successor(P.astype(np.float32), discount)))
    scale: Callable[[Vector], Vector] = lambda phi: normalised(phi, mdp.neighbours)  # noqa: E731
    return {
        USUAL: scale(-e),
        "other sign": scale(e),
        "goal absorbing": scale(at_goal),
        "goal absorbing, other sign": scale(-at_goal),
        "goal not terminal, second eigenvector": scale(_second(world, discount)),
        "not divided (unit norm)": -e,
        "divided by its largest entry": -e / e.max(),
        "divided by its standard deviation": -e / e.std(),
        "discount of the SR 0.9": scale(-top(symmetric(successor(P, 0.9)))),
        "discount of the SR 0.999": scale(-top(symmetric(successor(P, 0.999)))),
        "right eigenvector, not symmetrised": scale(-_perron(P)),
        "left eigenvector, not symmetrised": scale(-_perron(P.T)),
        "P symmetrised instead of the SR": scale(-top(successor(symmetric(P), discount))),
        "log of the eigenvector": scale(-np.log(e)),
        "squared distance to the goal": scale(-((e - e[goal][0]) ** 2)),
        "potential of the goal 0": np.where(goal, 0.0, scale(-e)),
        "single precision": scale(-single.astype(np.float64)),
    }


def successor(P: Matrix, discount: float) -> Matrix:
    """Returns the SR, (I - discount P)^-1, in the precision of P."""
    return np.linalg.inv(np.eye(len(P), dtype=P.dtype) - P.dtype.type(discount) * P)


def symmetric(M: Matrix) -> Matrix:
    """Returns the symmetric part of a matrix."""
    return (M + M.T) / 2


def top(M: Matrix) -> Vector:
    """Returns the eigenvector of the largest eigenvalue of a symmetric matrix, taken positive."""
    e = np.linalg.eigh(M)[1][:, -1]
    return e * np.sign(e.sum())


def _perron(P: Matrix) -> Vector:
    """Returns the right eigenvector of the largest eigenvalue of a nonnegative matrix. That of the
    SR is the same for every discount."""
    values, vectors = np.linalg.eig(P)
    e = np.real(vectors[:, np.real(values).argmax()])
    return e * np.sign(e.sum())


def _second(world: GridWorld, discount: float) -> Vector:
    """Returns the second eigenvector of an SR whose goal is a cell like any other, highest at the
    goal. The first is constant: moves in a grid can be undone, so the matrix is symmetric."""
    state = np.arange(world.n_states)
    P = np.zeros((world.n_states, world.n_states))
    for following in world.next_state.T:
        np.add.at(P, (state, following), 1 / world.next_state.shape[1])
    for s in np.flatnonzero(world.terminal):  # the map's table has no moves out of the goal
        P[s] = P[:, s]
        P[s, s] = 1 - P[:, s].sum() + P[s, s]
    second = np.linalg.eigh(symmetric(successor(P, discount)))[1][:, -2]
    return second * np.sign(second[world.terminal][0])
