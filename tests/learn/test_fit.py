"""`fit` against exact answers, and all that a long run must survive."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import gymnasium
import jax
import numpy as np
import pytest

from drogo import MDP, Config, GridWorld, Transitions, collect, exact, fit, load, sweep
from drogo.errors import DamagedFile, Diverged
from drogo.files import write_array_file
from drogo.learn.judge import cosine, differences

WORLD = GridWorld.parse("########\n#S.x...#\n#.##.#.#\n#....#G#\n########")
CHAIN = GridWorld.parse("#######\n#S.x.G#\n#######")
CHAIN_STATES = np.arange(5)
PAPER = {"preset": "paper", "step_size": 1e-3, "batch_size": 500, "width": 16, "depth": 2}
"""A small network with batches: the same settings in many tests are one compiled program."""
SHORT = {**PAPER, "preset": "fast", "updates": 60, "seeds": 2}


def data_of(world, kind, n=4000):
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation=kind)
    return collect(env, n, seed=0)


def balanced(world):
    """Every action of every state once: the data are the model, and so is their fixed point."""
    live = np.repeat(np.flatnonzero(~world.terminal), 4)
    following = world.next_state[~world.terminal].ravel()
    return Transitions.from_table(
        np.arange(world.n_states), live, following, world.reward[live], world.terminal[following]
    )


def unit(log_e):
    return log_e - np.logaddexp.reduce(2 * log_e) / 2


TABULAR = {"preset": "fast", "step_size": 0.02, "updates": 4000, "stop_early": False}


def test_tabular_drogo_finds_the_column():
    result = fit(balanced(CHAIN), **TABULAR)
    truth = exact.log_column(CHAIN.mdp, 20.0)
    assert result.status == ("converged",)
    assert np.abs(result.v[0] - truth).max() < 1e-3
    assert result.v[0, 4] == 0  # the end


def test_tabular_drogo_with_an_end_of_its_own_value():
    world = GridWorld.parse("goal L: -40\n\n#######\n#G.x.L#\n#######")
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation="state")
    data = collect(env, 200_000, seed=0)
    result = fit(data, **TABULAR)
    assert np.abs(result.v[0] - exact.log_column(world.mdp, 20.0)).max() < 0.05
    assert result.v[0, 4] == pytest.approx(-2.0)


def test_tabular_gdo_finds_the_smallest_eigenvector_of_its_own_matrix():
    """Sampled forwards, its quadratic form is that of R - P~ plus half the excess of arrivals over
    departures on the diagonal (proposition 3.2 needs doubly stochastic P)."""
    result = fit(balanced(CHAIN), preset="fast", objective="gdo", updates=20_000, step_size=0.003)
    P = CHAIN.mdp.P.toarray()
    P[CHAIN.terminal, CHAIN.terminal] = 1.0
    r = np.where(CHAIN.terminal, -0.001, CHAIN.reward)
    arrivals = np.diag((P.sum(axis=0) - 1) / 2)
    _, vectors = np.linalg.eigh(np.diag(np.exp(-r / 20.0)) - (P + P.T) / 2 + arrivals)
    assert np.abs(unit(result.v[0]) - np.log(np.abs(vectors[:, 0]))).max() < 0.02


@pytest.mark.slow
def test_tabular_log_gdo_fails_as_the_paper_says():
    """The factor exp(v) in its gradient: where the natural gradient arrives, it does not."""
    world = GridWorld.load("grid-maze")
    truth = exact.log_eigenvector(world.mdp, 20.0, "right")
    settings = {"optimiser": "rmsprop", "schedule": "constant", "updates": 6000, "step_size": 0.01}
    reached = {
        objective: cosine(fit(balanced(world), objective=objective, **settings).v, truth)[0]
        for objective in ("log_gdo", "natural_gdo", "drogo")
    }
    assert reached["log_gdo"] < 0.96
    assert min(reached["natural_gdo"], reached["drogo"]) > 0.999


def test_what_is_learned_is_the_column_of_the_data():
    """With sampled transitions the fixed point is exact for their own transition matrix; with
    actions that are weighed, it is exact for the world."""
    data = data_of(WORLD, "state", 3000)
    edges = data.edges
    counts = np.zeros((WORLD.n_states, WORLD.n_states))
    np.add.at(counts, (edges.state, edges.next_state), edges.count)
    P = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    empirical = MDP.from_arrays(P, WORLD.reward, WORLD.terminal)
    result = fit(data, weigh_actions=False, **TABULAR)
    assert np.abs(result.v[0] - exact.log_column(empirical, 20.0)).max() < 1e-3
    assert np.abs(result.v[0] - exact.log_column(WORLD.mdp, 20.0)).max() > 1e-2
    weighed = fit(data, **TABULAR)
    assert np.abs(weighed.v[0] - exact.log_column(WORLD.mdp, 20.0)).max() < 1e-3


@pytest.mark.slow
def test_a_convolutional_network_learns_a_small_world():
    """The README's command, which is tried in test_readme, does the same with coordinates."""
    truth = {"column": exact.log_column(WORLD.mdp, 20.0)}
    result = fit(data_of(WORLD, "pixels", 100_000), seeds=2, updates=800, truth=truth)
    assert result.history["cosine_column"][-1].min() > 0.999
    assert result.status == ("converged", "converged")


def test_same_seed_same_bits_and_seeds_do_not_mix():
    data = data_of(WORLD, "coordinates")
    first, again = (fit(data, seeds=2, updates=150, **PAPER) for _ in range(2))
    assert np.array_equal(first.v, again.v)
    assert np.abs(first.v[0] - first.v[1]).max() > 1e-3
    for seed in range(2):
        alone = fit(data, seeds=[seed], updates=150, **PAPER)
        assert np.abs(alone.v[0] - first.v[seed]).max() < 1e-5


def test_call_save_and_load(tmp_path):
    data = data_of(WORLD, "coordinates")
    result = fit(data, **SHORT)
    assert np.allclose(result(data.observations), result.v, atol=1e-5)
    unseen = result(np.array([[0.123, -0.321]]))
    assert unseen.shape == (2, 1)
    result.save(tmp_path / "fit.npz")
    again = load(tmp_path / "fit.npz")
    assert np.array_equal(again.v, result.v)
    assert np.array_equal(again(data.observations), result(data.observations))
    assert again.config == result.config
    assert again.status == result.status
    assert np.array_equal(again.history["violation"], result.history["violation"])
    assert "2 seed(s)" in repr(again)
    with pytest.raises(
        ValueError, match=r"have shape \(3,\); this fit was trained on shape \(2,\)"
    ):
        result(np.zeros((4, 3)))
    data.save(tmp_path / "data.npz")
    with pytest.raises(ValueError, match="not what was expected"):
        load(tmp_path / "data.npz")
    with np.load(tmp_path / "fit.npz") as stored:
        changed = {**stored, "terminal_states": stored["terminal_states"].astype(np.float16)}
    np.savez_compressed(tmp_path / "changed.npz", **changed)
    with pytest.raises(ValueError, match="the shape or type of terminal_states is wrong"):
        load(tmp_path / "changed.npz")


def test_a_fit_in_double_precision_is_loaded(tmp_path):
    fit(data_of(CHAIN, "state"), preset="fast", updates=5).save(tmp_path / "fit.npz")
    with np.load(tmp_path / "fit.npz") as stored:
        wide = {
            name: part.astype(np.float64) if part.dtype == np.float32 else part
            for name, part in stored.items()
        }
    np.savez_compressed(tmp_path / "wide.npz", **wide)
    assert any(part.dtype == np.float64 for name, part in wide.items() if "params" in name)
    narrow, again = load(tmp_path / "fit.npz"), load(tmp_path / "wide.npz")
    assert np.array_equal(again.v, narrow.v)
    assert np.array_equal(again(CHAIN_STATES), narrow(CHAIN_STATES))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": ["great"]}, "its status is"),
        ({"seeds": [-7]}, "its seeds are"),
        ({"seeds": "0"}, "its seeds are"),
        ({"diverged_at": ["x"]}, "its status is"),
        ({"n_actions": -1}, "its number of actions is"),
        ({"notes": 3}, "its notes are"),
        ({"v": np.zeros((1, 99))}, "the shape or type of observations"),
        ({"v": np.full((1, 5), np.nan)}, "its vector v is not a number everywhere"),
        ({"mean_step": np.zeros(7)}, "the shape or type of mean_step"),
    ],
)
def test_a_fit_whose_parts_do_not_belong_together(tmp_path, changes, message):
    path = tmp_path / "fit.npz"
    fit(data_of(CHAIN, "state"), preset="fast", updates=5).save(path)
    with np.load(path) as stored:
        arrays = {name: part for name, part in stored.items() if name != "settings"}
        settings = json.loads(bytes(stored["settings"]))
    for name, value in changes.items():
        (arrays if isinstance(value, np.ndarray) else settings)[name] = value
    write_array_file(path, arrays, settings, overwrite=True)
    with pytest.raises(DamagedFile, match=message) as error:
        load(path)
    assert str(path) in str(error.value)


def test_continuing_equals_going_on(tmp_path):
    """With a constant step size, 60 + 40 updates are 100, also after a round trip to disk."""
    data = data_of(WORLD, "coordinates")
    settings = {**PAPER, "seeds": 2}
    half = fit(data, updates=60, **settings)
    half.save(tmp_path / "half.npz")
    whole = fit(data, updates=100, **settings)
    more = fit(data, updates=100, continue_from=load(tmp_path / "half.npz"), **settings)
    assert np.array_equal(more.v, whole.v)
    with pytest.raises(ValueError, match="has 60 updates already"):
        fit(data, updates=60, continue_from=half, **settings)


def test_what_converged_elsewhere_has_not_converged_here():
    settings = {"preset": "fast", "step_size": 0.02, "seeds": 2, "lam": 5.0}
    before = fit(balanced(CHAIN), updates=2000, **settings)
    assert before.status == ("converged", "converged")
    cheap = replace(balanced(CHAIN), reward=0.1 * balanced(CHAIN).reward)
    after = fit(cheap, updates=before.updates + 100, continue_from=before, **settings)
    assert (after.history["error"][len(before.history["update"]) - 1] > 0.5).all()
    assert after.updates == before.updates + 100


def test_a_row_follows_though_all_lanes_diverged_before_it():
    seen = []
    settings = {"preset": "fast", "updates": 8000, "cap": np.inf}
    found = sweep(balanced(CHAIN), grid={"step_size": [1e37, 1e38]}, **settings,
                  callbacks=[lambda report: seen.append(report.update)])  # fmt: skip
    assert [result.status for result in found.values()] == [("diverged",), ("diverged",)]
    assert seen == [0, 200]


def test_tables_in_double_precision():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        assert np.isfinite(fit(balanced(CHAIN), **{**TABULAR, "updates": 20}).v).all()


@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_interrupted_and_resumed(tmp_path, preset):
    data = data_of(WORLD, "coordinates")
    settings = {**SHORT, "preset": preset, "updates": 80}
    truth = {"column": exact.log_column(WORLD.mdp, 20.0)}
    whole = fit(data, truth=truth, **settings)
    path = tmp_path / "checkpoint.npz"

    def stop(report):
        if report.update >= 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(data, truth=truth, checkpoint=path, callbacks=[stop], **settings)
    resumed = fit(data, truth=truth, checkpoint=path, **settings)
    assert np.array_equal(resumed.v, whole.v)
    for name, values in whole.history.items():
        assert np.array_equal(resumed.history[name], values, equal_nan=True), name
    with pytest.raises(ValueError, match="of another fit, which differs in configs.0.step_size"):
        fit(data, truth=truth, checkpoint=path, **{**settings, "step_size": 2e-3})


KILLED = """
import importlib, sys, numpy as np
sys.path.insert(0, {tests!r})
f = importlib.import_module("drogo.learn.fit")
importlib.import_module("drogo.learn.train").SECONDS_BETWEEN_CHECKPOINTS = 0.0
from learn_fit_data import data
f.fit(data, preset="paper", updates=1500, step_size=1e-3, seeds=2, checkpoint={path!r})
print("the end", flush=True)
"""


def test_killed_and_resumed(tmp_path):
    """SIGKILL in the middle; the next run ends where an undisturbed one does."""
    checkpoint = tmp_path / "checkpoint.npz"
    code = KILLED.format(tests=str(Path(__file__).parent), path=str(checkpoint))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGKILL)
    printed, _ = process.communicate()
    assert checkpoint.exists()
    assert printed == b""
    data = data_of(WORLD, "state")
    settings = {"preset": "paper", "updates": 1500, "step_size": 1e-3, "seeds": 2}
    left = []
    resumed = fit(data, checkpoint=checkpoint, callbacks=[left.append], **settings)
    whole = fit(data, **settings)
    assert left[0].update > 0
    assert np.array_equal(resumed.v, whole.v)


def test_a_sweep_is_its_fits():
    data = data_of(WORLD, "state")
    grid = {"step_size": [1e-3, 1e-2], "penalty": [0.1, 2.0]}
    settings = {"objective": "natural_gdo", "updates": 50, "seeds": 2}
    swept = sweep(data, grid=grid, **settings)
    assert list(swept) == [(1e-3, 0.1), (1e-3, 2.0), (1e-2, 0.1), (1e-2, 2.0)]
    alone = fit(data, step_size=1e-2, penalty=0.1, **settings)
    assert np.allclose(swept[1e-2, 0.1].v, alone.v, atol=1e-5)
    assert swept[1e-2, 2.0].config.penalty == 2.0
    with pytest.raises(ValueError, match="a sweep varies lam, step_size, .*, not width"):
        sweep(data, grid={"width": [1.0]})


def test_a_sweep_over_lam():
    """Each lambda against its own truth, in one program."""
    truth = {"column": lambda lam: exact.log_column(CHAIN.mdp, lam)}
    swept = sweep(balanced(CHAIN), grid={"lam": [5.0, 20.0]}, truth=truth, **TABULAR)
    assert [result.config.lam for result in swept.values()] == [5.0, 20.0]
    assert max(result.history["difference_column"][-1].max() for result in swept.values()) < 1e-3
    assert all(result.status == ("converged",) for result in swept.values())


def test_a_diverged_seed_does_not_poison_its_neighbours():
    """One setting of a grid overflows at once; the other is what it would be alone."""
    data = data_of(WORLD, "state")
    settings = {"preset": "paper", "optimiser": "adam", "updates": 200, "seeds": 2}
    swept = sweep(data, grid={"step_size": [1e30, 1e-2]}, **settings)
    lost, fine = swept.values()
    assert lost.status == ("diverged", "diverged")
    assert all(at is not None and at < 200 for at in lost.diverged_at)
    assert np.array_equal(fine.v, fit(data, step_size=1e-2, **settings).v)
    with pytest.raises(Diverged, match=r"all 2 seed\(s\) diverged, the first at update"):
        fit(data, step_size=1e30, **settings)


def test_some_seeds_diverging_is_a_warning():
    from drogo.learn.arguments import report_divergence

    with pytest.warns(RuntimeWarning, match=r"1 of 2 seeds diverged \(\[1\]\).*Try another"):
        report_divergence((0, 1), (None, 7), "Try another.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report_divergence((0, 1), (None, None), "Try another.")


def test_metrics_by_hand():
    truth = np.array([0.0, -3.0, -4.0])
    v = np.array([[1.0, -5.0, -7.0]])  # gauge 1: shifted, 0, -6, -8
    assert cosine(np.array([[0.0, -6.0, -8.0]]), truth)[0] == pytest.approx(1)
    assert np.array_equal(differences(v, truth, 0)[0], [0.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preset": "slow"}, "choose one of paper, fast"),
        ({"objective": "sgd"}, "choose one of gdo, log_gdo, natural_gdo, drogo"),
        ({"lam": -1.0}, "lam is -1.0"),
        ({"updates": 0}, "updates is 0"),
        ({"target_rate": 0.0}, r"must lie in \(0, 1\]"),
        ({"leak": 1.0}, r"leak is 1.0; it must lie in \[0, 1\)"),
        ({"terminal_fraction": 1.0}, r"must lie in \[0, 1\)"),
        ({"optimiser": 3}, "give a name or an optax transformation"),
        ({"objective": 3}, "subclass of drogo.learn.AbstractObjective"),
        ({"cap": -1.0}, "cap is -1.0"),
        ({"optimiser": "sgd"}, "choose one of rmsprop, adam"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": [1, 1]}, "distinct whole numbers"),
        ({"seeds": 2**70}, "at most 1000000"),
        ({"truth": {"column": np.zeros(3)}}, r"truth 'column' has shape \(3,\)"),
        ({"network": "cnn"}, "needs images"),
    ],
)
def test_wrong_arguments(arguments, message):
    """Each is named, with what is expected instead."""
    with pytest.raises(ValueError, match=message):
        fit(data_of(WORLD, "coordinates"), **arguments)
    with pytest.raises(TypeError, match="unknown setting"):
        fit(data_of(WORLD, "coordinates"), learning_rate=0.1)


@pytest.mark.usefixtures("unchecked")
def test_whole_numbers_beyond_those_of_numpy():
    """They are what their floats are."""
    assert Config(lam=2**70, cap=2**80) == Config(lam=2.0**70, cap=2.0**80)
    assert type(Config(lam=2**70).lam) is float


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lam": "20"}, "lam is '20'; it must be a finite number"),
        ({"updates": 2.5}, "updates is 2.5; it must be a whole number"),
        ({"ceiling": "no"}, "ceiling is 'no'; it must be True or False"),
        ({"width": True}, "width is True; it must be a whole number"),
        ({"width": 2**40}, "width is 1099511627776; it must be a whole number from 1 to 65536"),
        ({"updates": 2**70}, "it must be a whole number from 1 to 2147483647"),
        ({"lam": 10**400}, "; it must be a finite number"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_wrong_types(arguments, message):
    """A user has no type checker at run time, which would raise its own error here."""
    with pytest.raises(ValueError, match=message):
        Config(**arguments)


@pytest.mark.parametrize("seeds", ["2", [0, 2**32], [1, 1], True, 0])
@pytest.mark.usefixtures("unchecked")
def test_wrong_seeds(seeds):
    with pytest.raises(ValueError, match="seeds is .*; give how many"):
        fit(data_of(CHAIN, "state"), updates=1, seeds=seeds)
