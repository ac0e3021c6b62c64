"""The Ray engine: packs, errors, and a real cluster that loses a node."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import needs
from drogo.engines.job import Job
from drogo.engines.local import LocalEngine
from drogo.engines.ray_engine import RayEngine
from drogo.engines.store import Store
from drogo.errors import ArgumentError
from raising import raises
from run_jobs import LEARN, ODD, ray_jobs


def job(x, seconds):
    return Job("run_jobs:square", {"x": x}, f"square of {x}", seconds)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """The program `ray_cluster.py` at work, and the store that it fills."""
    needs.module("ray")
    store = tmp_path_factory.mktemp("ray") / "store"
    quick = {
        "RAY_health_check_initial_delay_ms": "1000",
        "RAY_health_check_period_ms": "500",
        "RAY_health_check_failure_threshold": "3",
        "RAY_worker_niceness": "0",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, str(Path(__file__).with_name("ray_cluster.py")), str(store)]
    output = [(store.parent / name).open("w+") for name in ("stdout", "stderr")]
    program = subprocess.Popen(
        command, env={**os.environ, **quick}, stdout=output[0], stderr=output[1], text=True
    )
    yield program, output, store
    program.kill()
    program.wait()
    for stream in output:
        stream.close()


def test_a_cluster_is_started(cluster):
    """It mostly waits, so other tests run meanwhile (`conftest.py` has the order)."""
    assert cluster[0].poll() is None


@pytest.mark.slow
def test_the_same_as_the_local_engine_though_a_node_is_lost(cluster, tmp_path):
    program, output, directory = cluster
    status = program.wait(timeout=240)
    stdout, stderr = (Path(stream.name).read_text() for stream in output)
    assert status == 0, stderr[-3000:]
    answer = json.loads(stdout.strip().splitlines()[-1])
    assert len(answer["failed"]) == 9
    assert answer["failed"]["broken of 0"] == "ArithmeticError: no square today"
    for how, failure in ODD.items():  # as with the local engine
        assert answer["failed"][f"odd {how}"].startswith(failure)
    assert answer["failed"]["odd leaves"].startswith("WorkerCrashedError: ")
    assert answer["events"].count("done") == 6
    assert "progress" in answer["events"]
    store, local = Store(directory), Store(tmp_path)
    for square in (job for job in ray_jobs() if "square" in job.label):
        assert int(store.get(square).arrays["y"]) == square.settings["x"] ** 2
    LocalEngine(1).run([LEARN], local, lambda *event: None)
    mine, theirs = store.get(LEARN).arrays, local.get(LEARN).arrays
    assert mine.keys() == theirs.keys()
    for name in mine:
        np.testing.assert_array_equal(mine[name], theirs[name])


def test_no_cluster_is_a_clear_error(tmp_path, monkeypatch):
    def nobody(**options):  # a cluster of another test may be alive, so Ray itself is not asked
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(needs.module("ray"), "init", nobody)
    with raises(ArgumentError, "address"):
        RayEngine("auto").run([job(1, 1.0)], Store(tmp_path), lambda *event: None)
