"""`Spectrum`: several eigenvectors, against the exact ones."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from drogo import ALLO, GDO, GGDO, Spectrum, Transitions, exact, fit, solve
from drogo.errors import ArgumentError
from drogo.learn import MLP, Optimiser, batches
from raising import refused
from small_data import Fixed, corridor, line, table_of

DATA, CORRIDOR = corridor()
TABULAR = {"seeds": 2, "optimiser": Optimiser(step_size=0.03)}
DEFAULT = Spectrum(3, matrix="default", lam=6.0)
STATES = np.arange(7)
ONES, ANGLES = np.ones(12), 2 * np.pi * np.arange(12) / 12 + 0.4
WAVE, OTHER = np.cos(ANGLES), np.sin(ANGLES)


def truth_of(mdp, problem):
    settings = {"matrix": problem.matrix, "discount": problem.discount}
    lam = {"lam": problem.lam} if problem.matrix == "default" else {}
    return exact.spectrum(mdp, problem.vectors, **settings, **lam)


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("matrix", ["laplacian", "successor", "default"])
def test_data_describe_the_matrix_of_the_mdp(matrix, terminal):
    data, mdp = corridor(terminal=terminal)
    problem = Spectrum(4, matrix=matrix, discount=0.9, lam=2.0)
    known = truth_of(mdp, problem)
    names = ("state", "next_state", "reward", "terminated")
    columns = [np.concatenate([getattr(data, name), getattr(data, name)[:2]]) for name in names]
    for some in (data, Transitions.from_table(data.observations, *columns)):
        solution = solve(some, problem)
        assert np.allclose(solution.eigenvalues, known.eigenvalues, atol=1e-12)
        assert np.allclose(solution.score(known), 1)
        assert np.allclose(solution.subspace(known), 1)
    assert np.allclose(solve(mdp, problem).score(known), 1)


def test_allo_learns_each_vector_and_the_penalty_is_above_the_eigenvalues():
    known = truth_of(CORRIDOR, DEFAULT)
    result = fit(DATA, DEFAULT, ALLO(updates=800), truth={"exact": known.vectors}, **TABULAR)
    assert result.v.shape == (2, 3, 7)
    assert result.score(known).min() > 0.99
    assert np.abs(result.eigenvalues - known.eigenvalues).max() < 0.01
    assert result.status == ("converged", "converged")
    assert np.allclose(np.linalg.norm(result.v, axis=2), 1)
    assert np.allclose(result(STATES), result.v, atol=1e-6)
    assert result.error == pytest.approx(1 - result.cosines.min(axis=1), abs=1e-6)
    assert np.allclose(result.cosines, result.score(known), atol=1e-9)
    mean = result.score(known).mean(axis=1)
    assert np.allclose(result.history["cosine_exact"][-1], mean, atol=1e-6)
    eigenvalues = truth_of(CORRIDOR, DEFAULT).eigenvalues  # from -0.056 to 0.5
    diagonal = np.exp(-np.where(CORRIDOR.terminal, -0.001, CORRIDOR.reward) / 6.0).mean()

    def penalty(vectors, **settings):
        problem = replace(DEFAULT, vectors=vectors)
        return fit(DATA, problem, GDO(updates=1, **settings)).method.penalty / diagonal

    chosen = penalty(3)
    assert chosen == pytest.approx(2 * (eigenvalues[2] - eigenvalues[0]) / diagonal, rel=1e-2)
    assert chosen == pytest.approx(float(f"{chosen:.3g}"))  # the same on every machine
    assert penalty(1) == pytest.approx(0.3)
    assert penalty(1, target_norm=0.1) == pytest.approx(3.0)  # norms are c - eigenvalue / (2 b)
    assert penalty(3, penalty=5.0) == pytest.approx(5.0)
    (text,) = fit(DATA, DEFAULT, GDO(updates=1)).diagnosis()
    assert DEFAULT.error_name in text


def test_gdo_and_ggdo_learn_subspaces_of_which_rotations_give_the_vectors():
    data, mdp = corridor(terminal=False, reward=1.0)  # no terminal state and no costs are needed
    result = fit(data, Spectrum(3), GDO(updates=800, penalty=2.0), **TABULAR)
    known = truth_of(mdp, Spectrum(3))
    assert result.subspace(known).min() > 0.99
    rotated = result.rotated()
    assert rotated.score(known).min() > 0.99
    assert np.abs(rotated.eigenvalues - known.eigenvalues).max() < 0.01
    assert np.allclose(rotated(STATES), rotated.v, atol=1e-6)
    exactly = solve(mdp, Spectrum(3))
    assert exactly.rotated() is exactly
    problem = Spectrum(2, matrix="successor", discount=0.9)
    result = fit(DATA, problem, GGDO(updates=1500), **TABULAR)
    assert result.score(truth_of(CORRIDOR, problem)).min() > 0.99
    values = result.potential(1)(STATES)
    assert (np.diff(values[2:]) > 0).all()  # uphill to the goal
    assert np.abs(np.diff(values)).mean() == pytest.approx(1.0)
    assert np.allclose(result.potential(1, vector=1, normalised=False)(STATES), result.v[1, 1])
    negated = result.potential(1, vector=1, normalised=False, negated=True)
    assert np.allclose(negated(STATES), -result.v[1, 1])


def ring_of(n):
    state = np.repeat(np.arange(n), 2)
    return table_of(state, (state + np.tile([1, -1], n)) % n, -1.0, copies=2)


def evaluated(data, columns, kind=ALLO):
    network = Fixed(jnp.asarray(np.stack(columns, axis=1), jnp.float32))
    method, frozen = kind(updates=1), Optimiser(step_size=1e-9)
    return fit(data, Spectrum(len(columns)), method, network=network, optimiser=frozen)


@pytest.mark.parametrize(
    ("columns", "status", "overlap"),
    [
        ([ONES, np.random.default_rng(0).standard_normal(12)], "max_updates", None),
        ([ONES, WAVE, WAVE], "max_updates", 2 / 3),
        ([ONES, WAVE], "converged", 1.0),
        ([ONES, WAVE, OTHER], "converged", 1.0),
    ],
)
def test_vectors_of_equal_eigenvalues(columns, status, overlap):
    """Vectors 2 and 3 of a ring have one eigenvalue: noise in place of the second is no eigenvector,
    although its partner was not asked for, and the same vector twice is no plane."""
    result = evaluated(ring_of(12), columns)
    assert result.status == (status,)
    assert overlap is None or result.overlap[0] == pytest.approx(overlap)


def test_gdo_has_not_converged_with_a_direction_missing():
    """100 of 101 right vectors overlap by 0.99 with those that were asked for."""
    n = 101
    waves = np.cos(np.pi * np.outer(np.arange(n), np.arange(n) + 0.5) / n)
    data, _ = corridor(n, terminal=False, copies=1)
    result = evaluated(data, np.r_[waves[:50], waves[51:]], GDO)
    assert result.overlap[0] == pytest.approx(0.99)
    assert result.status == ("max_updates",)
    assert fit(ring_of(4), Spectrum(4), GDO(updates=2)).overlap == pytest.approx([1.0])
    assert solve(ring_of(4), Spectrum(4)).eigenvalues[0] == pytest.approx([0, 1, 1, 2], abs=1e-9)
    refused(ArgumentError, None, evaluated(ring_of(12), [ONES, WAVE, 0 * WAVE]).rotated)


def test_large_tables_unseen_actions_and_states_that_do_not_repeat_are_not_verified(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(batches, "BYTES_IN_RESULT", 10)
        result = fit(DATA, Spectrum(2), GDO(updates=5), **TABULAR)
    assert result.status == ("unverified", "unverified")
    assert np.isnan(result.cosines).all()
    # Action 1 was never taken in state 0.
    state, action = np.repeat(np.arange(5), 4), np.tile([0, 1], 10)
    action[:4] = 0
    after = np.clip(state + np.where(action == 0, 1, -1), 0, 4)
    data = table_of(state, after, -1.0, copies=1, action=action, n_actions=2)
    result = fit(data, Spectrum(1), ALLO(updates=800), **TABULAR)
    assert (result.status, result.rotated().status) == (("unverified",) * 2, ("unverified",) * 2)
    # The row sums of P~ take the place of 1, and nothing is compared.
    method = ALLO(updates=5, batch_size=50)
    result = fit(line(), Spectrum(2, matrix="successor"), method, network=MLP(16, 1))
    assert result.status == ("unverified",)
    assert result.problem.bounded
    assert np.isfinite(result.eigenvalues).all()
    refused(ArgumentError, "source", solve, line(), Spectrum(2))


def test_rows_of_terminals_and_states_that_were_never_left():
    """21 transitions of 11 observations are too few, and with the rows of a terminal one enough."""
    state = np.r_[np.repeat(np.arange(9), 2), 0, 1, 2]
    after = np.r_[np.repeat(np.arange(9), 2) + np.tile([-1, 1], 9), 10, 2, 3].clip(0)
    data = table_of(state, after, -1.0, after == 9, copies=1)
    assert not data.repeats
    result = fit(data, Spectrum(2), ALLO(updates=2))
    assert np.array_equal(result.observations, np.arange(10))  # the last one was never left
    # One step leads from 0 to such a state: nothing would hold its entry.
    last = {"state": 0, "next_state": 7, "reward": -1.0, "terminated": False}
    columns = [np.append(getattr(DATA, name), one) for name, one in last.items()]
    longer = Transitions.from_table(np.arange(8), *columns)
    problem = replace(DEFAULT, vectors=2)
    first, second = (fit(data, problem, ALLO(updates=200)) for data in (DATA, longer))
    assert np.array_equal(second.observations, STATES)
    assert len(second.notes) == len(first.notes) + 1
    assert np.allclose(first.cosines, second.cosines, atol=1e-3)


def test_wrong_uses():
    solution = solve(DATA, Spectrum(2))
    refused(ArgumentError, "vectors", fit, DATA, Spectrum(99))
    refused(ArgumentError, "lam", fit, DATA, Spectrum(2, matrix="default", lam=0.01))
    refused(ArgumentError, "truth", fit, DATA, Spectrum(2), truth={"exact": np.zeros(7)})
    refused(ArgumentError, "vector", solution.potential)  # it is constant
    refused(ArgumentError, "vector", solution.potential, vector=2)
    refused(ArgumentError, "goal", solution.potential, vector=1, goal=0)
    refused(ArgumentError, "seed", solution.potential, 3, vector=1)
    refused(ArgumentError, None, solution, STATES)
    refused(ArgumentError, None, solution.policy)
