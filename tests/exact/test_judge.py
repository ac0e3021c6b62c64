"""Every entry of every definition against 100-digit arithmetic."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import judge
from drogo import GridWorld, exact
from drogo.exact.rows import TERMINAL_FORMULATIONS
from drogo.exact.soft import soft_values
from random_mdps import random_mdp

EIGENVECTORS = ("transition", "representation", "right")
CLOSE = 1e-10
# The judge takes seconds for the 272 states of grid-room, which test_definitions covers.
CASES = [*itertools.product(("grid-task", "four-rooms"), TERMINAL_FORMULATIONS)]
SIZES = [40, 40, *(int(np.random.default_rng(seed).integers(4, 25)) for seed in range(2, 8))]
RANDOM = [*((seed, size, 1) for seed, size in enumerate(SIZES)), *((k, 14, 3) for k in range(6))]
BY_ONE = [(definition, "absorbing") for definition in EIGENVECTORS]
BY_THREE = [*itertools.product(EIGENVECTORS[:2], TERMINAL_FORMULATIONS)]


def largest_difference(ours, theirs):
    assert np.array_equal(np.isneginf(ours), np.isneginf(theirs))
    finite = np.isfinite(theirs)
    return np.abs(ours[finite] - theirs[finite]).max()


@pytest.mark.parametrize(("name", "terminal"), [*CASES, ("grid-maze", "absorbing")])
@pytest.mark.parametrize("lam", [1.3, 20.0])
@pytest.mark.parametrize("definition", EIGENVECTORS)
def test_paper_worlds(name, lam, definition, terminal):
    mdp = GridWorld.load(name).mdp
    if (definition, terminal) == ("right", "absorbing"):
        assert largest_difference(exact.log_column(mdp, lam), judge.column(mdp, lam)) < CLOSE
    ours = exact.solve(mdp, lam, definition, terminal=terminal)
    theirs = judge.by_inverse_iteration(mdp, lam, definition, ours.eigenvalue, terminal)
    if np.isneginf(ours.log_e).any():  # The zeros of the judge in the goal are rounding errors.
        assert theirs[mdp.terminal] < -100
        theirs[mdp.terminal] = -np.inf
    assert ours.status == "converged"
    assert largest_difference(ours.log_e, theirs) < CLOSE


@pytest.mark.parametrize(("seed", "states", "terminals"), RANDOM)
@pytest.mark.parametrize("lam", [1.3, 20.0])
def test_random_mdps_of_one_or_three_terminal_states(seed, states, terminals, lam):
    mdp, values = random_mdp(seed, states, terminals), np.array([0.0, -3.0, 1.5][:terminals])
    ours, theirs = exact.log_column(mdp, lam, values), judge.column(mdp, lam, values)
    assert largest_difference(ours, theirs) < CLOSE
    for definition, terminal in BY_ONE if terminals == 1 else BY_THREE:
        ours = exact.solve(mdp, lam, definition, terminal=terminal)
        theirs, eigenvalue = judge.by_eigendecomposition(mdp, lam, definition, terminal)
        assert ours.status == "converged"
        assert ours.eigenvalue == pytest.approx(eigenvalue, rel=1e-9, abs=1e-12)
        assert largest_difference(ours.log_e, theirs) < CLOSE


@pytest.mark.parametrize("seed", range(10))
def test_the_risk_neutral_values_of_random_mdps(seed):
    mdp = random_mdp(seed, 5 + seed, 1 + seed % 3, actions=2 + seed % 2)
    mdp = replace(mdp, reward=np.where(mdp.terminal, -3.0 * np.arange(5 + seed), mdp.reward))
    for lam in (1e-3, 0.1, 1.3, 1e3):
        ours, theirs = soft_values(mdp, lam).checked(), judge.soft(mdp, lam)
        wrong = largest_difference(ours.log_e, theirs)
        assert wrong < CLOSE * max(1, np.ptp(theirs) / 1e3)
        assert wrong <= ours.error < 1e-9
        sums = np.logaddexp.reduce(ours.actions[~mdp.terminal], axis=1)
        assert np.allclose(sums, theirs[~mdp.terminal], rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("lam", [1e4, 1e8])
def test_tiny_costs_lose_no_digits(lam):
    mdp = GridWorld.load("four-rooms").mdp
    ours, theirs = exact.log_column(mdp, lam), judge.column(mdp, lam)
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
def test_weakly_coupled_terminal_states_are_accurate_or_reported(text, lam):
    """Eigenvalues are nearly equal: a small residual proves nothing, and the status must say so."""
    wall = "#" * len(text)
    mdp = GridWorld.parse(f"{wall}\n{text}\n{wall}").mdp
    for definition in ("transition", "representation"):
        ours = exact.solve(mdp, lam, definition)
        theirs, _ = judge.by_eigendecomposition(mdp, lam, definition)
        wrong = np.abs(ours.log_e - theirs).max()
        assert wrong < 1e-9 or ours.status == "inaccurate"
        assert ours.error > 1e-3 or wrong < 100 * ours.error + 1e-10
