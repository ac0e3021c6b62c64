"""Several eigenvectors: the objectives by hand, and what they learn against the exact ones."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from drogo import MDP, Transitions, exact, fit, sweep
from drogo.errors import ArgumentError, DamagedFile
from drogo.learn import ALLO, GGDO, Numbers, Sample, SeveralGDO, load_spectrum, plan
from drogo.learn.networks import Holding, Table
from drogo.learn.spectrum.problem import evenly, rows_of, solve, with_rows_of_terminals

LAM, DISCOUNT = 2.0, 0.9
U, NEXT = jnp.array([1.0, -2.0]), jnp.array([3.0, 0.5])
PRODUCTS = jnp.array([[1.5, 0.25], [0.25, 0.5]])


def sample(held=None, terminated=False):
    return Sample(jnp.log(jnp.float32(3.0)), jnp.asarray(terminated), PRODUCTS, held)


def objective(kind, matrix="laplacian"):
    return kind(Numbers(lam=LAM, penalty=2.0), 2, matrix, DISCOUNT)


def test_energies_by_hand():
    energies = {
        "laplacian": [2.0, 3.125],  # (1 - 3)^2 / 2 and (-2 - 0.5)^2 / 2
        "default": [3.0 - 3.0, 12.0 + 1.0],  # cost u^2 - u u'
        "successor": [1.0 - 2.7, 4.0 + 0.9],  # u^2 - discount u u'
    }
    for matrix, known in energies.items():
        energy = objective(SeveralGDO, matrix).energy(U, NEXT, sample())
        assert np.allclose(energy, known, atol=1e-6)
    row_of_terminal = objective(SeveralGDO, "successor").energy(U, NEXT, sample(terminated=True))
    assert np.allclose(row_of_terminal, [1.0, 4.0])


def test_bounded_energies_by_hand():
    # (1 - 3)^2 / 2 and (-2 - 0.5)^2 / 2 take the place of u^2 - u u'.
    bounded = replace(objective(SeveralGDO, "default"), bounded=True)
    assert np.allclose(bounded.energy(U, NEXT, sample()), [2.0 + 2.0, 8.0 + 3.125], atol=1e-6)
    bounded = replace(objective(SeveralGDO, "successor"), bounded=True)
    wanted = [0.1 * 1 + 0.9 * 2.0, 0.1 * 4 + 0.9 * 3.125]
    assert np.allclose(bounded.energy(U, NEXT, sample()), wanted, atol=1e-6)
    assert np.allclose(bounded.energy(U, NEXT, sample(terminated=True)), [1.0, 4.0])


def test_losses_by_hand():
    # <u, u> - 1 is [[0, -2], [-2, 3]] here, and [[0.5, 0.25], [0.25, -0.5]] in the other batch.
    penalty = 0 * 0.5 + 2 * (-2) * 0.25 + 3 * (-0.5)
    assert objective(SeveralGDO).loss(U, NEXT, sample()) == pytest.approx(5.125 + 2 * penalty)
    # The first vector alone counts twice, and all that concerns the second once, out of two.
    first = 2.0 + (2.0 + 3.125)
    assert objective(GGDO).loss(U, NEXT, sample()) == pytest.approx(first / 2 + 2 * penalty / 2)


def test_what_moves_in_allo():
    multipliers = jnp.array([[0.1, 9.0], [0.2, -0.3]])
    slopes, _, climb = jax.grad(
        lambda u, w, m: objective(ALLO).loss(u, w, sample(held=m)), argnums=(0, 1, 2)
    )(U, NEXT, multipliers)
    # 2 (u - u')/2 + sum_{j <= i} (m_ij + 2 b excess_ij) u_j, with b = 2.
    pull = [[0.1 + 4 * 0.5, 0.0], [0.2 + 4 * 0.25, -0.3 - 4 * 0.5]]
    known = [-2.0 + pull[0][0] * 1.0, -2.5 + pull[1][0] * 1.0 + pull[1][1] * -2.0]
    assert np.allclose(slopes, known, atol=1e-6)
    assert np.allclose(climb, [[-0.5, 0.0], [-0.25, 0.5]])  # minus the excess, where j <= i
    held = objective(ALLO).hold(Table(jnp.zeros((3, 2))))
    assert isinstance(held, Holding)
    assert held.held().shape == (2, 2)


def corridor(n=7, ends=True, reward=-1.0):
    """A corridor whose ends are walls, or whose last state is terminal; every step once."""
    last = n - 1 if ends else n
    state = np.repeat(np.arange(last), 2)
    next_state = np.clip(state + np.tile([-1, 1], last), 0, n - 1)
    copies = 3
    state, next_state = np.tile(state, copies), np.tile(next_state, copies)
    terminated = (next_state == n - 1) & ends
    rewards = np.full(state.size, reward) - 0.1 * state
    data = Transitions.from_table(np.arange(n), state, next_state, rewards, terminated)
    P = np.zeros((n, n))
    np.add.at(P, (state[: 2 * last], next_state[: 2 * last]), 0.5)
    terminal = [n - 1] if ends else []
    return data, MDP.from_arrays(P, reward - 0.1 * np.arange(n), terminal)


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("matrix", exact.MATRICES)
def test_data_describe_the_matrix_of_the_mdp(matrix, ends):
    data, mdp = corridor(ends=ends)
    lam = {"lam": LAM} if matrix == "default" else {}
    known = exact.spectrum(mdp, 4, matrix=matrix, discount=DISCOUNT, **lam)
    unevenly = Transitions.from_table(  # the first state is seen twice as often
        data.observations,
        np.concatenate([data.state, data.state[:2]]),
        np.concatenate([data.next_state, data.next_state[:2]]),
        np.concatenate([data.reward, data.reward[:2]]),
        np.concatenate([data.terminated, data.terminated[:2]]),
    )
    for some in (data, unevenly):
        shown = evenly(with_rows_of_terminals(some, 0.001))
        found = solve(shown, matrix, 4, LAM, DISCOUNT)
        assert np.allclose(found.eigenvalues, known.eigenvalues, atol=1e-12)
        assert np.allclose(exact.cosines(found.vectors, known), 1)
    # A sample of the objective is the matrix: sum over transitions of w energy = u' M u / n.
    u = np.random.default_rng(0).standard_normal((2, mdp.n_states))
    edges, rows = shown.edges, rows_of(shown, matrix, LAM, DISCOUNT)
    dense = np.diag(rows.diagonal)
    dense[rows.row, rows.column] -= np.exp(rows.log_weight)
    each = jax.vmap(objective(SeveralGDO, matrix).energy)(
        jnp.asarray(u[:, edges.state].T, jnp.float32),
        jnp.asarray(u[:, edges.next_state].T, jnp.float32),
        Sample(
            jnp.asarray(-edges.reward / LAM, jnp.float32),
            jnp.asarray(edges.terminated),
            jnp.zeros(edges.state.size),
        ),
    )
    mean = edges.weight / edges.weight.sum() @ np.asarray(each)
    assert np.allclose(mean, np.diag(u @ dense @ u.T) / len(dense), atol=1e-6)


SETTINGS = {"seeds": 2, "updates": 800, "network": "table", "step_size": 0.03}


def test_allo_learns_each_vector_of_the_default_representation():
    data, mdp = corridor()
    result = fit(data, objective="allo", vectors=3, matrix="default", lam=6.0, **SETTINGS)
    known = exact.spectrum(mdp, 3, matrix="default", lam=6.0)
    assert result.vectors.shape == (2, 3, 7)
    assert result.score(known).min() > 0.99
    assert np.abs(result.eigenvalues - known.eigenvalues).max() < 0.01
    assert result.status == ("converged", "converged")
    assert np.allclose(np.linalg.norm(result.vectors, axis=2), 1)
    assert np.allclose(result(data.observations), result.vectors, atol=1e-6)
    assert "2 converged" in repr(result)


def test_the_penalty_is_above_the_eigenvalues_and_not_far_above():
    data, mdp = corridor()
    few = {**SETTINGS, "updates": 1, "matrix": "default", "lam": 6.0}
    found = exact.spectrum(mdp, 3, matrix="default", lam=6.0).eigenvalues  # from -0.056 to 0.5
    diagonal = np.exp(-np.where(mdp.terminal, -0.001, mdp.reward) / 6.0).mean()
    chosen = fit(data, objective="gdo", vectors=3, **few).config.penalty
    assert chosen == pytest.approx(2 * (found[2] - found[0]) / diagonal, rel=1e-2)
    assert chosen == float(f"{chosen:.3g}")  # the same on every machine
    assert fit(data, objective="gdo", vectors=1, **few).config.penalty == 0.3
    scaled = fit(data, objective="gdo", vectors=1, target_norm=0.1, **few).config
    assert scaled.penalty == 3.0  # vectors have the norm c - eigenvalue / (2 b)
    assert fit(data, objective="gdo", vectors=3, penalty=5.0, **few).config.penalty == 5.0


def test_a_seed_stops_by_itself():
    data, _ = corridor()
    rows = (data.state, data.next_state, data.reward, data.terminated)
    data = Transitions.from_table(np.eye(7, dtype=np.float32), *rows, action=data.action)
    same = {"objective": "allo", "vectors": 2, "width": 16, "depth": 1, "updates": 4000}
    together = fit(data, seeds=4, **same)
    assert together.status == ("converged",) * 4
    stopped = np.isfinite(together.history["loss"]).sum(
        axis=0
    )  # logged rows until they stood still
    assert len(set(stopped.tolist())) > 1
    for seed in (int(stopped.argmin()), int(stopped.argmax())):
        alone = fit(data, seeds=[seed], **same)
        assert np.array_equal(together.vectors[seed], alone.vectors[0])
        assert len(alone.history["update"]) == stopped[seed] + 1


class OwnWeight(SeveralGDO):
    weight: float = eqx.field(default=1.0)


def own_weight(numbers, *rest):
    return OwnWeight(numbers, *rest, weight=float(numbers.penalty))


def test_a_table_too_large_to_compare_is_unverified(monkeypatch):
    monkeypatch.setattr(plan, "BYTES_IN_RESULT", 10)
    data, _ = corridor()
    result = fit(data, objective="gdo", vectors=2, **SETTINGS)
    assert result.status == ("unverified", "unverified")
    assert result.solution is None


def test_a_sweep_is_its_fits():
    data, mdp = corridor()
    same = {**SETTINGS, "updates": 40, "objective": "allo", "vectors": 2, "matrix": "default"}
    found = sweep(data, grid={"lam": [6.0, 3.0], "penalty": [1.0, 2.0]}, **same)
    assert list(found) == [(6.0, 1.0), (6.0, 2.0), (3.0, 1.0), (3.0, 2.0)]
    for (lam, penalty), result in found.items():
        alone = fit(data, lam=lam, penalty=penalty, **same)
        assert result.config == alone.config
        assert np.allclose(result.vectors, alone.vectors, atol=1e-5)
        assert np.allclose(result.eigenvalues, alone.eigenvalues, atol=1e-5)
        assert np.allclose(result.cosines, alone.cosines, atol=1e-5)
        assert result.status == alone.status
        assert np.allclose(result.history["cosine"], alone.history["cosine"], atol=1e-5)
        known = exact.spectrum(mdp, 2, matrix="default", lam=lam)
        assert np.allclose(result.solution.eigenvalues[:2], known.eigenvalues, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grid": {"cap": [1.0]}}, "varies lam, step_size, penalty, target_norm, not cap"),
        ({"grid": {}}, "not nothing"),
        ({"grid": {"penalty": []}}, r"penalty is \[\] in the grid; give at least one number"),
        ({"grid": {"penalty": 1.0}}, "penalty is 1.0 in the grid; give a list of its values"),
        ({"grid": {"penalty": ["a"]}}, "give at least one number, and none twice"),
        ({"grid": {"penalty": [1.0, 1]}}, "give at least one number, and none twice"),
        (
            {"grid": {"penalty": [1.0, 2.0]}, "objective": own_weight},
            "differ in more than their numbers",
        ),
        ({"grid": {"lam": [1.0, 2.0]}}, "the matrix 'laplacian' has no lam"),
        ({"grid": {"penalty": [-1.0]}}, "penalty is -1.0; it must not be negative"),
        ({"grid": {"penalty": [1.0]}, "truth": {}}, "takes no truth="),
        (
            {"grid": {"step_size": [1.0]}, "optimiser": optax.sgd(0.1)},
            "has its own step size, which a sweep does not vary",
        ),
    ],
)
def test_arguments_of_a_sweep_are_checked(settings, message, unchecked):
    with pytest.raises(ArgumentError, match=message):
        sweep(corridor()[0], vectors=2, **{"objective": "allo", **settings})


def test_a_sweep_says_how_several_vectors_are_asked_for():
    with pytest.raises(ArgumentError, match="'allo' is for several vectors.*vectors=8"):
        sweep(corridor()[0], objective="allo", grid={"penalty": [1.0]})


def test_gdo_learns_the_subspace_and_a_rotation_gives_the_vectors():
    data, mdp = corridor(ends=False, reward=1.0)  # neither an end nor costs are needed
    result = fit(data, objective="gdo", vectors=3, penalty=2.0, **SETTINGS)
    known = exact.spectrum(mdp, 3)
    assert result.subspace(known).min() > 0.99
    rotated = result.rotated()
    assert rotated.score(known).min() > 0.99
    assert np.abs(rotated.eigenvalues - known.eigenvalues).max() < 0.01
    assert np.allclose(rotated(data.observations), rotated.vectors, atol=1e-6)


def test_ggdo_learns_the_successor_representation_and_shapes_with_it():
    data, mdp = corridor()
    settings = SETTINGS | {"updates": 1500}
    result = fit(data, objective="ggdo", vectors=2, matrix="successor", discount=0.9, **settings)
    assert result.score(exact.spectrum(mdp, 2, matrix="successor", discount=0.9)).min() > 0.99
    potential = result.potential(seed=1)
    values = potential(np.arange(7))
    assert (np.diff(values[2:]) > 0).all()  # uphill to the goal
    assert np.abs(np.diff(values)).mean() == pytest.approx(1.0)
    plain = result.potential(seed=1, vector=1, normalised=False)
    assert np.allclose(plain(np.arange(7)), result.vectors[1, 1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "allo"}, r"'allo' is for several vectors.*vectors=8"),
        ({"objective": "drogo", "vectors": 2}, "objective is 'drogo'; choose one of gdo, ggdo, al"),
        ({"vectors": 0}, "vectors is 0"),
        ({"vectors": 2, "matrix": "graph"}, "matrix is 'graph'; choose one of laplacian, succ"),
        ({"vectors": 2, "discount": 1.0}, r"discount is 1.0; it must lie in \(0, 1\)"),
        ({"vectors": 2, "preset": "direct"}, "preset='direct' has no meaning for several vectors"),
        ({"vectors": 2, "target_rate": 0.5}, "target_rate= has no meaning for several vectors"),
        ({"vectors": 2, "tolerance": 0.5}, "tolerance= has no meaning for several vectors"),
        ({"vectors": 2, "truth": {}}, "takes no truth="),
        ({"vectors": 99}, "vectors is 99; it must be a whole number from 1 to 7"),
        (
            {"vectors": 2, "matrix": "default", "lam": 0.01},
            "is too large: the lowest reward is -1.5, and lam is 0.01",
        ),
        ({"vectors": 2, "objective": 3}, "objective is 3; give a name"),
        ({"vectors": 2, "objective": dict}, r"objective is <class .dict.>; give a name \(gdo"),
    ],
)
def test_arguments_are_checked(settings, message):
    with pytest.raises(ArgumentError, match=message):
        fit(corridor()[0], **settings)


def ring(n=12):
    state = np.tile(np.repeat(np.arange(n), 2), 2)
    after = (state + np.tile([1, -1], 2 * n)) % n
    cost, never = -np.ones(state.size), np.zeros(state.size)
    return Transitions.from_table(np.arange(n), state, after, cost, never)


class Fixed(eqx.Module):
    """Vectors that are given, by which the judge alone is tested."""

    rows: jax.Array

    def __call__(self, states):
        return self.rows[states]


@pytest.mark.slow
def test_what_was_not_compared_has_not_converged():
    """Vectors 2 and 3 of a ring have one eigenvalue: noise in place of the second is no eigenvector,
    although its partner was not asked for, and the same vector twice is no plane."""
    angles, rng = 2 * np.pi * np.arange(12) / 12, np.random.default_rng(0)
    ones, wave = np.ones(12), np.cos(angles + 0.4)
    found = {}
    for name, columns in {
        "noise": [ones, rng.standard_normal(12)], "twice": [ones, wave, wave],
        "one": [ones, wave], "both": [ones, wave, np.sin(angles + 0.4)],
    }.items():  # fmt: skip
        made = Fixed(jnp.asarray(np.stack(columns, axis=1), jnp.float32))
        result = fit(
            ring(), objective="allo", vectors=len(columns), network=lambda _, made=made: made,
            updates=1, step_size=1e-9,
        )  # fmt: skip
        found[name] = (result.status[0], result.overlap[0])
    assert [status for status, _ in found.values()] == ["max_updates"] * 2 + ["converged"] * 2
    assert found["one"][1] == pytest.approx(1)
    assert found["twice"][1] == pytest.approx(2 / 3)


def test_gdo_has_not_converged_with_a_direction_missing():
    """100 of 101 right vectors overlap by 0.99 with those that were asked for."""
    n = 101
    waves = np.cos(np.pi * np.outer(np.arange(n), np.arange(n) + 0.5) / n)
    made = Fixed(jnp.asarray(np.r_[waves[:50], waves[51:]].T, jnp.float32))
    state = np.repeat(np.arange(n), 2)
    after = np.clip(state + np.tile([-1, 1], n), 0, n - 1)
    line = Transitions.from_table(np.arange(n), state, after, -np.ones(2 * n), np.zeros(2 * n))
    result = fit(
        line, objective="gdo", vectors=n - 1, network=lambda _: made, updates=1, step_size=1e-9
    )
    assert result.overlap[0] == pytest.approx(0.99)
    assert result.status == ("max_updates",)


def test_all_vectors_that_there_are():
    result = fit(ring(4), objective="gdo", vectors=4, updates=2)
    assert result.overlap == pytest.approx([1.0])
    assert result.solution is not None
    assert result.solution.groups() == [[0], [1, 2], [3]]


def test_actions_that_were_never_seen_are_not_verified():
    """Action 1 was never taken in state 0."""
    state, action = np.repeat(np.arange(5), 4), np.tile([0, 1], 10)
    action[:4] = 0
    after = np.clip(state + np.where(action == 0, 1, -1), 0, 4)
    data = Transitions.from_table(
        np.arange(5), state, after, -np.ones(20), np.zeros(20), action=action, n_actions=2
    )
    result = fit(data, objective="allo", vectors=1, **SETTINGS)
    assert result.status == ("unverified",) * 2
    assert result.rotated().status == ("unverified",) * 2


def test_rows_of_terminals_do_not_make_states_repeat_half_way():
    """21 transitions of 11 observations are too few, and with the rows of a terminal one enough."""
    state = np.r_[np.repeat(np.arange(9), 2), 0, 1, 2]
    after = np.r_[np.repeat(np.arange(9), 2) + np.tile([-1, 1], 9), 10, 2, 3].clip(0)
    data = Transitions.from_table(np.arange(11), state, after, -np.ones(21), after == 9)
    assert not data.repeats
    result = fit(data, objective="allo", vectors=2, updates=2)
    assert np.array_equal(result.observations, np.arange(10))  # the last one was never left


def test_the_first_vector_of_the_laplacian_is_no_potential():
    result = fit(ring(), objective="allo", vectors=2, updates=2)
    with pytest.raises(ArgumentError, match="the first vector of the Laplacian is constant"):
        result.potential()
    assert np.isfinite(result.potential(vector=1)(np.arange(12))).all()


def test_what_was_never_left_is_left_out():
    """One step leads from 0 to a state that was never left: nothing would hold its entry."""
    data = corridor()[0]
    n = len(data.observations)
    longer = Transitions.from_table(
        np.arange(n + 1), np.r_[data.state, 0], np.r_[data.next_state, n],
        np.r_[data.reward, -1.0], np.r_[data.terminated, False],
    )  # fmt: skip
    results = [
        fit(part, objective="allo", vectors=2, matrix="default", lam=6.0, updates=200)
        for part in (data, longer)
    ]
    assert np.array_equal(results[1].observations, np.arange(n))
    assert results[1].notes[-1] == "1 observations were never left, and are left out."
    assert np.allclose(results[0].cosines, results[1].cosines, atol=1e-3)


def test_a_file_with_nan_is_not_loaded(tmp_path):
    result = fit(corridor()[0], objective="allo", vectors=2, updates=2)
    for name in ("vectors", "mixing", "energy"):
        replace(result, **{name: np.nan * getattr(result, name)}).save(tmp_path / f"{name}.npz")
        with pytest.raises(DamagedFile, match="is not finite"):
            load_spectrum(tmp_path / f"{name}.npz")


def test_saved_and_loaded(tmp_path):
    data = corridor()[0]
    result = fit(data, objective="allo", vectors=2, updates=30, seeds=2)
    result.save(tmp_path / "vectors.npz")
    again = load_spectrum(tmp_path / "vectors.npz")
    assert repr(again) == repr(result)
    for name in ("vectors", "eigenvalues", "cosines", "overlap"):
        assert np.array_equal(getattr(again, name), getattr(result, name))
    assert np.allclose(again.rotated().vectors, result.rotated().vectors)
    shown = data.observations[:3]
    assert np.array_equal(again(shown), result(shown))
    assert np.array_equal(again.potential(1, 1)(shown), result.potential(1, 1)(shown))
    with pytest.raises(FileExistsError):
        result.save(tmp_path / "vectors.npz")
    (tmp_path / "half.npz").write_bytes((tmp_path / "vectors.npz").read_bytes()[:500])
    with pytest.raises(DamagedFile):
        load_spectrum(tmp_path / "half.npz")


def test_an_own_objective_is_given_again(tmp_path):
    class Mine(ALLO):
        pass

    result = fit(corridor()[0], objective=Mine, vectors=2, updates=2)
    result.save(tmp_path / "vectors.npz")
    with pytest.raises(DamagedFile, match="Mine' is the user's own, which a file cannot hold"):
        load_spectrum(tmp_path / "vectors.npz")
    again = load_spectrum(tmp_path / "vectors.npz", objective=Mine)
    assert np.array_equal(again.vectors, result.vectors)
