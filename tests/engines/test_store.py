"""Runs on disk: complete or absent, found again, never replaced."""

import errno
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from drogo.engines.job import Job, Outcome, perform
from drogo.engines.store import KIND, Store
from drogo.errors import ArgumentError, ArgumentTypeError, FileError
from drogo.files import read_arrays
from raising import raises

JOB = Job("run_jobs:square", {"x": 3}, "three squared")
HOW = {"duration": 0.1, "machine": "here", "versions": {}}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def keep(store, job=JOB):
    store.put(job, Outcome({"y": np.arange(3.0)}, {"note": "fine"}), HOW)


def test_what_is_put_is_found(store):
    assert store.get(JOB) is None
    keep(store)
    record = store.get(JOB)
    np.testing.assert_array_equal(record.arrays["y"], [0, 1, 2])
    assert record.facts == {"note": "fine"}
    assert record.status["machine"] == "here"
    assert record.status["label"] == "three squared"
    assert record.path.name == f"{JOB.id}.npz"
    _, settings = read_arrays(record.path, KIND, lambda settings, headers: None)
    assert settings["request"] == JOB.request
    store.put(JOB, Outcome({"y": np.zeros(1)}), HOW)  # which does not replace it
    np.testing.assert_array_equal(store.get(JOB).arrays["y"], [0, 1, 2])


def test_the_id_is_of_function_settings_and_version():
    same = Job("run_jobs:square", {"x": 3}, "another label", seconds=1.0)
    assert same.id == JOB.id == pickle.loads(pickle.dumps(JOB)).id
    other = [("square", 4, 1), ("cube", 3, 1), ("square", 3, 2)]
    ids = {Job(f"run_jobs:{f}", {"x": x}, "", version=version).id for f, x, version in other}
    assert len(ids | {JOB.id}) == 4
    first = Job("run_jobs:f", {"a": 1, "b": 2}, "").id
    assert first == Job("run_jobs:f", {"b": 2, "a": 1}, "").id


def test_a_run_copied_over_another_is_not_taken_for_it(store, capsys):
    keep(store)
    other = Job("run_jobs:square", {"x": 4}, "four squared")
    shutil.copy(store.place(JOB), store.place(other))
    assert store.get(other) is None
    assert "it is of another job, which differs in settings.x" in capsys.readouterr().err
    assert store.has(JOB)
    keep(store, other)
    assert store.has(other)


def test_damage_is_found_named_and_put_aside(store, capsys):
    keep(store)
    path = store.place(JOB)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert store.get(JOB) is None
    assert f"{path.name} is damaged" in capsys.readouterr().err
    (aside,) = store.path.glob("*.damaged-*")
    assert len(aside.read_bytes()) == len(content) // 2
    keep(store)
    assert store.has(JOB)


HOLD = """
import sys
from drogo.engines import Job, Store
job = Job("run_jobs:square", {"x": 3}, "")
with Store(sys.argv[1]).claim(job) as is_ours:
    print(is_ours, job.id, flush=True)
    sys.stdin.read()
"""


def test_one_process_at_a_time_claims_a_job(store):
    """Both give the job the same id, and the claim ends with the process that is killed."""
    command, pipe = [sys.executable, "-c", HOLD, str(store.path)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == f"True {JOB.id}\n"
        with store.claim(JOB) as is_ours:
            assert not is_ours
        process.kill()
        process.wait()
    with store.claim(JOB) as is_ours:
        assert is_ours


def test_what_a_killed_process_left_is_removed(store):
    part = store.path / f".{JOB.id}.npz.abc.part"
    part.write_bytes(b"half")
    store.clean()
    assert not part.exists()
    assert not store.has(JOB)


def test_an_unwritable_place(tmp_path):
    (tmp_path / "file").write_text("")
    with raises(FileError, "path"):
        Store(tmp_path / "file" / "runs")


def test_a_full_disk_loses_nothing(store, monkeypatch):
    keep(store)
    other = Job("run_jobs:square", {"x": 5}, "five squared")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with raises(FileError):
        keep(store, other)
    monkeypatch.undo()
    assert store.has(JOB)
    assert not store.has(other)
    assert not list(store.path.glob(".*.part"))
    keep(store, other)
    assert store.has(other)


def test_what_a_file_cannot_have(store):
    """JSON has no word for infinity and NaN, in the settings or in the facts."""
    unlimited = Job("run_jobs:square", {"x": 3, "limit": float("inf")}, "three squared, no limit")
    store.put(unlimited, Outcome({"y": np.array(9)}, {"loss": float("nan")}), HOW)
    assert store.get(unlimited).facts == {"loss": "nan"}
    for arrays in ({"y": np.array([None])}, {"settings": np.zeros(1)}, {"file": np.zeros(1)}):
        with raises(ArgumentError):
            store.put(JOB, Outcome(arrays), HOW)


def test_perform_returns_the_provenance(tmp_path):
    outcome, how = perform(JOB, tmp_path, lambda share: None)
    assert outcome.arrays["y"] == 9
    assert how["resumed"] is False
    assert "jax" in how["versions"]


@pytest.mark.parametrize(
    ("returned", "kind", "argument"),
    [
        (None, ArgumentTypeError, "function"),
        ({"y": 1}, ArgumentTypeError, "function"),
        (Outcome({}, {"file": Path()}), ArgumentError, "facts"),
    ],
)
def test_a_job_must_return_an_outcome_that_can_be_saved(
    tmp_path, monkeypatch, returned, kind, argument
):
    monkeypatch.setattr("run_jobs.odd", lambda *arguments: returned)
    with raises(kind, argument):
        perform(Job("run_jobs:odd", {}, ""), tmp_path, lambda share: None)
