"""Runs on disk: complete or absent, found again, never replaced."""

import errno
import os
import pickle
import shutil
from unittest.mock import Mock

import numpy as np
import pytest

from drogo.errors import ArgumentError, ArgumentTypeError, FileError
from drogo.files import read_arrays
from drogo_paper.engines.job import Job, Outcome, perform
from drogo_paper.engines.store import KIND, Store
from raising import refused
from run_jobs import python_process

JOB, OTHER = (Job("run_jobs:square", {"x": x}, f"{x} squared") for x in (3, 4))
HOW = {"duration": 0.1, "machine": "here", "versions": {}}
HOLD = """
import sys
from drogo_paper.engines import Job, Store
job = Job("run_jobs:square", {"x": 3}, "")
with Store(sys.argv[1]).claim(job) as is_ours:
    print(is_ours, job.id, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def keep(store, job=JOB):
    store.put(job, Outcome({"y": np.arange(3.0)}, {"note": "fine"}), HOW)


def test_what_is_put_is_found_by_function_settings_and_version(store):
    assert store.get(JOB) is None
    keep(store)
    record = store.get(JOB)
    assert (record.arrays["y"].tolist(), record.facts) == ([0, 1, 2], {"note": "fine"})
    assert (record.status["machine"], record.status["label"]) == ("here", "3 squared")
    assert record.path.name == f"{JOB.id}.npz"
    _, settings = read_arrays(record.path, KIND, lambda settings, headers: None)
    assert settings["request"] == JOB.request
    store.put(JOB, Outcome({"y": np.zeros(1)}), HOW)  # which does not replace it
    assert store.get(JOB).arrays["y"].tolist() == [0, 1, 2]
    same = Job("run_jobs:square", {"x": 3}, "another label", seconds=1.0)
    assert same.id == JOB.id == pickle.loads(pickle.dumps(JOB)).id
    other = [("square", 4, 1), ("cube", 3, 1), ("square", 3, 2)]
    ids = {Job(f"run_jobs:{f}", {"x": x}, "", version=version).id for f, x, version in other}
    assert len(ids | {JOB.id}) == 4
    orders = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert len({Job("run_jobs:f", settings, "").id for settings in orders}) == 1


def test_copies_and_damage_are_found_named_and_put_aside(store, capsys):
    keep(store)
    shutil.copy(store.place(JOB), store.place(OTHER))
    assert (store.get(OTHER), store.has(JOB)) == (None, True)
    assert "it is of another job, which differs in settings.x" in capsys.readouterr().err
    keep(store, OTHER)
    assert store.has(OTHER)
    keep(store)
    content = (path := store.place(JOB)).read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert store.get(JOB) is None
    assert f"{path.name} is damaged" in capsys.readouterr().err
    (aside,) = store.path.glob(f"{path.name}.damaged-*")
    assert len(aside.read_bytes()) == len(content) // 2
    keep(store)
    assert store.has(JOB)


def test_one_process_at_a_time_claims_a_job_and_what_it_left_is_removed(store):
    """Both give the job the same id, and the claim ends with the process that is killed."""
    with python_process(HOLD, store.path) as process:
        assert process.stdout.readline() == f"True {JOB.id}\n"
        with store.claim(JOB) as is_ours:
            assert not is_ours
    with store.claim(JOB) as is_ours:
        assert is_ours
    part = store.path / f".{JOB.id}.npz.abc.part"
    part.write_bytes(b"half")
    store.clean()
    assert (part.exists(), store.has(JOB)) == (False, False)
    refused(FileError, "path", Store, __file__)  # a file is no place for runs


def test_a_full_disk_loses_nothing_and_what_a_file_cannot_have(store, monkeypatch):
    keep(store)
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "full")))
    refused(FileError, None, keep, store, OTHER)
    monkeypatch.undo()
    assert (store.has(JOB), store.has(OTHER)) == (True, False)
    assert not list(store.path.glob(".*.part"))
    keep(store, OTHER)
    assert store.has(OTHER)
    # JSON has no word for infinity and NaN, in the settings or in the facts.
    unlimited = Job("run_jobs:square", {"x": 3, "limit": float("inf")}, "three squared, no limit")
    store.put(unlimited, Outcome({"y": np.array(9)}, {"loss": float("nan")}), HOW)
    assert store.get(unlimited).facts == {"loss": "nan"}
    for arrays in ({"y": np.array([None])}, {"settings": np.zeros(1)}, {"file": np.zeros(1)}):
        refused(ArgumentError, None, store.put, JOB, Outcome(arrays), HOW)


def test_perform_returns_an_outcome_that_can_be_saved_and_the_provenance(tmp_path):
    outcome, how = perform(JOB, tmp_path, lambda share: None)
    assert (outcome.arrays["y"], how["resumed"], "jax" in how["versions"]) == (9, False, True)
    kinds = dict.fromkeys(("none", "dict"), (ArgumentTypeError, "function"))
    for how, kind in {**kinds, "lambda": (ArgumentError, "facts")}.items():
        refused(*kind, perform, Job("run_jobs:odd", {"how": how}, ""), tmp_path, lambda share: None)
