"""Every entry of every definition against 100-digit arithmetic."""

import numpy as np
import pytest

import judge
from drogo import GridWorld, exact
from random_mdps import random_mdp

PAPER = ("grid-task", "four-rooms", "grid-room", "grid-maze")
EIGENVECTORS = ("transition", "representation", "right")
CLOSE = 1e-10


def largest_difference(ours, theirs):
    assert np.array_equal(np.isneginf(ours), np.isneginf(theirs))
    there = np.isfinite(theirs)
    return np.abs(ours[there] - theirs[there]).max()


@pytest.mark.parametrize("lam", [1.3, 20.0])
@pytest.mark.parametrize("name", PAPER)
def test_paper_worlds_column(name, lam):
    mdp = GridWorld.load(name).mdp
    assert largest_difference(exact.log_column(mdp, lam), judge.column(mdp, lam)) < CLOSE


@pytest.mark.parametrize("terminal", exact.TERMINAL_FORMULATIONS)
@pytest.mark.parametrize("lam", [1.3, 20.0])
@pytest.mark.parametrize("name", PAPER)
@pytest.mark.parametrize("definition", EIGENVECTORS)
def test_paper_worlds_eigenvectors(name, lam, definition, terminal):
    mdp = GridWorld.load(name).mdp
    ours = exact.solve(mdp, lam, definition, terminal=terminal)
    theirs = judge.by_inverse_iteration(mdp, lam, definition, ours.eigenvalue, terminal)
    if np.isneginf(ours.log_e).any():  # the judge's zeros at the goal are rounding noise
        assert theirs[mdp.terminal] < -100
        theirs[mdp.terminal] = -np.inf
    assert ours.status == "converged"
    assert largest_difference(ours.log_e, theirs) < CLOSE


def test_a_whole_eigendecomposition():
    mdp = GridWorld.load("grid-task").mdp
    theirs, eigenvalue = judge.by_eigendecomposition(mdp, 20.0, "transition")
    ours = exact.solve(mdp, 20.0, "transition")
    assert largest_difference(ours.log_e, theirs) < CLOSE
    assert ours.eigenvalue == pytest.approx(eigenvalue, abs=1e-13)


@pytest.mark.parametrize("seed", range(50))
def test_random_mdps(seed):
    states = int(np.random.default_rng(seed).integers(4, 61 if seed < 4 else 30))
    mdp = random_mdp(seed, states)
    for lam in (1.3, 20.0):
        assert largest_difference(exact.log_column(mdp, lam), judge.column(mdp, lam)) < CLOSE
        for definition in EIGENVECTORS:
            ours = exact.solve(mdp, lam, definition)
            theirs, eigenvalue = judge.by_eigendecomposition(mdp, lam, definition)
            assert ours.status == "converged"
            assert ours.eigenvalue == pytest.approx(eigenvalue, rel=1e-9, abs=1e-12)
            assert largest_difference(ours.log_e, theirs) < CLOSE


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("lam", [1.3, 20.0])
def test_several_ends(seed, lam):
    mdp = random_mdp(seed, 14, ends=3)
    boundary = np.array([0.0, -3.0, 1.5])
    assert (
        largest_difference(exact.log_column(mdp, lam, boundary), judge.column(mdp, lam, boundary))
        < CLOSE
    )
    for definition in ("transition", "representation"):
        for terminal in exact.TERMINAL_FORMULATIONS:
            ours = exact.solve(mdp, lam, definition, terminal=terminal)
            theirs, _ = judge.by_eigendecomposition(mdp, lam, definition, terminal)
            assert ours.status == "converged"
            assert largest_difference(ours.log_e, theirs) < CLOSE


@pytest.mark.parametrize("lam", [1e4, 1e8])
def test_tiny_costs_lose_no_digits(lam):
    mdp = GridWorld.load("four-rooms").mdp
    ours = exact.log_column(mdp, lam)
    theirs = judge.column(mdp, lam)
    inside = ~mdp.terminal
    assert np.abs(ours[inside] / theirs[inside] - 1).max() < 1e-9
    for definition in EIGENVECTORS:
        solution = exact.solve(mdp, lam, definition)
        wanted = judge.by_inverse_iteration(mdp, lam, definition, solution.eigenvalue)
        assert largest_difference(solution.log_e, wanted) < CLOSE


@pytest.mark.parametrize("lam", [0.3, 0.5, 1.3, 2.879, 8.0, 20.0])
@pytest.mark.parametrize(
    "text", ["#G..........x.........G#", "#G....x...G#", "#G...x...x..Gx...G#"]
)
def test_weakly_coupled_ends_are_right_or_say_so(text, lam):
    """Nearly equal eigenvalues: a small residual proves nothing, and the status must know."""
    wall = "#" * len(text)
    mdp = GridWorld.parse(f"{wall}\n{text}\n{wall}").mdp
    for definition in ("transition", "representation"):
        ours = exact.solve(mdp, lam, definition)
        theirs, _ = judge.by_eigendecomposition(mdp, lam, definition)
        wrong = np.abs(ours.log_e - theirs).max()
        assert wrong < 1e-9 or ours.status == "inaccurate"
        assert ours.error > 1e-3 or wrong < 100 * ours.error + 1e-10
