"""Solutions and checkpoints as files: written whole, read with suspicion, resumed to the same bits."""

import json
import os
import sys
import time
import zipfile
from dataclasses import replace
from functools import cache

import numpy as np
import optax
import pytest

import drogo
from drogo import Column, Drogo, Goals, Paper, Regression, Spectrum, exact, fit, load, solve
from drogo.errors import AlreadyExists, ArgumentError, BadCheckpoint, DamagedFile, MissingFile
from drogo.files import write_arrays
from drogo.learn import Optimiser, PairMLP, Quasimetric
from raising import refused
from run_jobs import python_process
from small_data import CHAIN, ROOM, SLOW, SMALL, WORLD, data_of, ring

TINY = Quasimetric(16, 1, components=4, length=4)
LEARNED = {
    "column": (ROOM, Column(), Regression(), SMALL),
    "action values": (ROOM, Column(2.0), Drogo(action_values=True), SMALL),
    "natural": (ROOM, Column(), drogo.NaturalGDO(), SMALL),
    "goals": (ROOM, Goals(), Regression(), TINY),
    "goals by action": (ROOM, Goals(), Drogo(action_values=True), PairMLP(16, 1)),
    "spectrum": (ROOM, Spectrum(2), drogo.ALLO(), SMALL),
    "continuing": (None, drogo.Continuing(2.0, reference=3), Regression(), None),
    "gain": (None, drogo.Continuing(2.0), Drogo(), None),
}
EXACT = ("column", "goals", "spectrum", "continuing")
DAMAGED = [
    *(("column", change) for change in (
        {"status": ["great", "max_updates"]}, {"status": ["converged"]}, {"seeds": [-7, 1]},
        {"seeds": "01"}, {"diverged_at": ["x", None]}, {"provenance": {"n_actions": -1}},
        {"provenance": None}, {"notes": 3}, {"method": 7}, {"problem": None}, {"network": None},
        {"v": np.zeros((2, 99))}, {"v": np.full((2, 14), np.nan)}, {"mean_step": np.zeros(7)},
        {"terminal_states": np.zeros(1)}, {"terminal_states": np.array([99])},
        {"terminal_rewards": np.zeros(3)}, {"error": np.zeros(3)}, {"scales/scale": np.zeros(3)},
        {"scales/scale": np.asarray(np.nan)}, {"scales/scale": None}, {"observations": None},
        {"history/loss": np.zeros((3, 2))},
    )),
    *(("goals", change) for change in (
        {"goals": np.full(14, 10**6)}, {"goals": np.zeros(14)}, {"v": np.zeros((1, 14, 14))},
        {"neighbours": np.full((1, 2), -1)}, {"step_next_state": np.full(52, 99)},
        {"step_action": np.full(52, 4)}, {"step_action": np.full(52, -1)},
        {"step_log_gain": np.zeros(3)}, {"state/.params.mixing": np.zeros(5, np.float32)},
    )),
    *(("spectrum", {name: np.nan}) for name in ("v", "mixing", "energy", "products")),
    ("spectrum", {"neighbours": np.full((1, 2), 99)}), ("spectrum", {"overlap": np.zeros(5)}),
    ("continuing", {"gain": np.zeros(3)}), ("continuing", {"log_eigenvalue": np.full(2, np.nan)}),
    ("continuing", {"reference": np.zeros(2, int)}), ("continuing", {"inputs/states": np.arange(3)}),
    ("continuing", {"inputs/states": None}),
]  # fmt: skip
KILLED = {"problem": Column(), "method": Paper(updates=6000), "seeds": 2, "optimiser": SLOW}
KILLED_FIT = """
import sys
from drogo import fit
from drogo.learn import train
from learn.test_saving import KILLED, WORLD, data_of
train.SECONDS_BETWEEN_CHECKPOINTS = 0.0
fit(data_of(WORLD), **KILLED, checkpoint=sys.argv[1])
print("the end")
"""


@cache
def solution_of(name):
    world, problem, method, network = LEARNED[name.removeprefix("exact ")]
    data = ring()[0] if world is None else data_of(world, "coordinates", 1500)
    if name.startswith("exact"):
        return solve(data, problem)
    return fit(data, problem, replace(method, updates=6), network=network, seeds=2)


def values_of(solution):
    if solution.learner is None and isinstance(solution.problem, Spectrum):
        return solution.v
    shown, is_goals = solution.observations, isinstance(solution.problem, Goals)
    return solution(shown, shown[3]) if is_goals else solution(shown)


@pytest.mark.parametrize("name", [*LEARNED, *(f"exact {name}" for name in EXACT)])
def test_a_solution_survives_a_file(name, tmp_path):
    solution, path = solution_of(name), tmp_path / "deep" / "solution.npz"
    solution.save(path)
    again = load(path)
    assert repr(again) == repr(solution)
    assert np.array_equal(values_of(again), values_of(solution))
    assert again.arrays.keys() == solution.arrays.keys()
    for part in ("arrays", "history"):
        for key, before in getattr(solution, part).items():
            assert np.array_equal(getattr(again, part)[key], before, equal_nan=True), key
    fields = "seeds status diverged_at notes provenance updates network optimiser method"
    for field in fields.split():
        assert getattr(again, field) == getattr(solution, field), field
    assert type(again.problem) is type(solution.problem)
    with zipfile.ZipFile(path) as archive:  # arrays of numbers, and no Python objects
        assert all(b"pickle" not in archive.read(entry) for entry in archive.namelist())
    with np.load(path, allow_pickle=False) as stored:
        assert {stored[entry].dtype.kind for entry in stored} <= set("biuf")
    refused(AlreadyExists, None, solution.save, path)
    solution.save(path, overwrite=True)


def test_double_precision_other_files_and_parts_that_are_given_again(tmp_path):
    solution, path = solution_of("column"), tmp_path / "fit.npz"
    solution.save(path)
    with np.load(path) as stored:
        arrays = dict(stored)
    params = {k: v.astype(np.float64) for k, v in arrays.items() if k.startswith("state/.params")}
    assert params
    np.savez_compressed(path, **(arrays | params))
    assert np.array_equal(values_of(load(path)), values_of(solution))
    refused(MissingFile, None, load, tmp_path / "none.npz")
    data_of(CHAIN).save(tmp_path / "data.npz")
    refused(DamagedFile, None, load, tmp_path / "data.npz")
    other = {"problem": Column(3.0), "method": Drogo(), "network": replace(SMALL, width=8)}
    for name, part in (other | {"optimiser": optax.sgd(0.1)}).items():
        refused(ArgumentError, name, load, tmp_path / "fit.npz", **{name: part})
    assert load(tmp_path / "fit.npz", problem=Column(), network=SMALL).seeds == (0, 1)


@pytest.mark.parametrize(("name", "changes"), DAMAGED, ids=lambda part: str(part)[:40])
def test_parts_that_do_not_belong_together(name, changes, tmp_path):
    path = tmp_path / "fit.npz"
    solution_of(name).save(path)
    with np.load(path) as stored:
        arrays = {entry: part for entry, part in stored.items() if entry != "settings"}
        settings = json.loads(bytes(stored["settings"]))
    for entry, value in changes.items():
        if entry in arrays and value is None:
            del arrays[entry]
        elif entry in arrays or isinstance(value, np.ndarray):
            assert entry in arrays, sorted(arrays)
            arrays[entry] = value * arrays[entry] if isinstance(value, float) else value
        else:
            settings[entry] = value
    write_arrays(path, "solution", arrays, settings, overwrite=True)
    assert str(path) in str(refused(DamagedFile, None, load, path))


@pytest.mark.parametrize("kind", [Drogo, Paper])
def test_interrupted_and_resumed(tmp_path, kind):
    path, truth = tmp_path / "checkpoint.npz", {"column": exact.log_column(WORLD.mdp, 20.0)}
    given = {"data": data_of(WORLD, "coordinates"), "problem": Column(), "truth": truth, "seeds": 2,
             "method": kind(updates=80, batch_size=500), "network": SMALL, "optimiser": SLOW}  # fmt: skip
    whole = fit(**given)
    assert np.abs(whole.v[0] - whole.v[1]).max() > 1e-3  # the seeds differ

    def stop(report):
        if report.update >= 40:
            raise KeyboardInterrupt

    given["checkpoint"] = path
    refused(KeyboardInterrupt, None, fit, **given, callbacks=[stop])
    resumed = fit(**given)
    assert np.array_equal(resumed.v, whole.v)
    for name, values in whole.history.items():
        assert np.array_equal(resumed.history[name], values, equal_nan=True), name
    for other in (
        {"optimiser": replace(SLOW, step_size=2e-3)}, {"problem": Column(3.0)},
        {"method": replace(given["method"], cap=4.0)}, {"seeds": 1}, {"truth": None},
        {"network": replace(SMALL, width=8)}, {"data": data_of(WORLD, "coordinates", 3000)},
    ):  # fmt: skip
        refused(BadCheckpoint, None, fit, **given | other)
    path.write_bytes(path.read_bytes()[:-100])
    refused(BadCheckpoint, None, fit, **given)


def test_a_checkpoint_knows_the_numbers_of_a_users_optimiser(tmp_path):
    path, given = tmp_path / "checkpoint.npz", (data_of(CHAIN), Column(), Drogo(updates=5))
    for _ in range(2):
        assert fit(*given, optimiser=optax.adam(1e-3), checkpoint=path).updates == 5
    for other in (optax.adam(1e-2), Optimiser()):
        refused(BadCheckpoint, None, fit, *given, optimiser=other, checkpoint=path)


def test_killed_and_resumed(tmp_path, monkeypatch):
    """SIGKILL in the middle; the next fit ends where an undisturbed one does."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    checkpoint, deadline, left = tmp_path / "checkpoint.npz", time.monotonic() + 120, []
    with python_process(KILLED_FIT, checkpoint) as process:
        while not checkpoint.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
        assert process.communicate()[0] == ""
    resumed = fit(data_of(WORLD), **KILLED, checkpoint=checkpoint, callbacks=[left.append])
    assert left[0].update > 0
    assert np.array_equal(resumed.v, fit(data_of(WORLD), **KILLED).v)
