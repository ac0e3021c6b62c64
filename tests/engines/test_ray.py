"""The Ray engine: errors, and a real cluster that loses a node."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import needs
from drogo.engines.local import LocalEngine
from drogo.engines.ray_engine import RayEngine
from drogo.engines.store import Store
from drogo.errors import ArgumentError
from raising import raises
from run_jobs import LEARN, ODD, ray_jobs

CHECKS = {"initial_delay_ms": "1000", "period_ms": "500", "failure_threshold": "3"}
QUICK = {f"RAY_health_check_{name}": value for name, value in CHECKS.items()}
"""Settings with which Ray soon notices that a node is lost."""


@pytest.mark.slow
def test_the_same_as_the_local_engine_though_a_node_is_lost(tmp_path):
    needs.module("ray")
    program = Path(__file__).with_name("ray_cluster.py")
    path = {"PYTHONPATH": os.pathsep.join(sys.path), "RAY_worker_niceness": "0"}
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "ray")], env={**os.environ, **QUICK, **path},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    assert len(answer["failed"]) == 9
    assert answer["failed"]["broken of 0"] == "ArithmeticError: no square today"
    for how, failure in ODD.items():  # as with the local engine
        assert answer["failed"][f"odd {how}"].startswith(failure)
    assert answer["failed"]["odd leaves"].startswith("WorkerCrashedError: ")
    assert answer["events"].count("done") == 6
    assert "progress" in answer["events"]
    store, local = Store(tmp_path / "ray"), Store(tmp_path / "local")
    for square in (job for job in ray_jobs() if "square" in job.label):
        assert int(store.get(square).arrays["y"]) == square.settings["x"] ** 2
    LocalEngine(1).run([LEARN], local, lambda *event: None)
    np.testing.assert_equal(store.get(LEARN).arrays, local.get(LEARN).arrays)


def test_no_cluster_is_a_clear_error(tmp_path, monkeypatch):
    def nobody(**options):  # a cluster of another test may be alive, so Ray itself is not asked
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(needs.module("ray"), "init", nobody)
    with raises(ArgumentError, "address"):
        RayEngine("auto").run([LEARN], Store(tmp_path), lambda *event: None)
