"""The engines: processes, retries, lost nodes, and what is left when one is killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import needs
from drogo.errors import ArgumentError
from drogo_paper.engines import RunsFailed
from drogo_paper.engines.job import Job
from drogo_paper.engines.local import LocalEngine, Worker
from drogo_paper.engines.ray_engine import RayEngine
from drogo_paper.engines.store import Store
from raising import raises, refused
from run_jobs import LEARN, ODD, odd_jobs, ray_jobs

CHECKS = {"initial_delay_ms": "1000", "period_ms": "500", "failure_threshold": "3"}
QUICK = {f"RAY_health_check_{name}": value for name, value in CHECKS.items()}
QUICK["RAY_worker_niceness"] = "0"
"""Settings with which Ray soon notices that a node is lost."""
DRIVER = """
import sys
from drogo_paper.engines.job import Job
from drogo_paper.engines.local import LocalEngine
from drogo_paper.engines.store import Store
store = Store(sys.argv[1])
jobs = [Job("run_jobs:square", {"x": x, "wait": 0.3, "log": sys.argv[2]}, str(x)) for x in range(6)]
jobs = [job for job in jobs if not store.has(job)]
if jobs:
    LocalEngine(2).run(jobs, store, lambda *event: None)
"""


def job(name, x=0, **settings):
    return Job(f"run_jobs:{name}", {"x": x, **settings}, f"{name} of {x}")


@pytest.mark.slow
def test_everything_that_can_happen_to_a_job(tmp_path):
    store, squares = Store(tmp_path), [job("square", x) for x in range(4)]
    others = [job(name) for name in ("broken", "dies_once", "always_dies")]
    events, jobs = [], [*others, *squares, *odd_jobs()]
    with raises(RunsFailed) as raised:
        LocalEngine(2).run(jobs, store, lambda *event: events.append(event))
    assert len(failures := raised.value.failures) == 10
    for how, failure in ODD.items():
        assert failures[f"odd {how}"].startswith(failure)
    assert failures["odd leaves"] == failures["always_dies of 0"]
    assert failures["broken of 0"] == "ArithmeticError: no square today"
    assert [int(store.get(square).arrays["y"]) for square in squares] == [0, 1, 4, 9]
    assert store.has(others[1])
    kinds = [event for _, event, _ in events]
    assert (kinds.count("done"), kinds.count("failed")) == (5, 10)
    assert [(job, event) for job, event, _ in events].count((others[1], "retried")) == 1


def test_jobs_that_exit_cost_the_others_no_attempt_and_warnings_are_sentences(tmp_path, capfd):
    events = []
    exits = [Job("run_jobs:odd", {"how": "exits", "x": x}, f"odd {x}", 90.0) for x in range(3)]
    with raises(RunsFailed) as raised:
        jobs = [*exits, job("square", warning="mind the step")]
        LocalEngine(1).run(jobs, Store(tmp_path), lambda *e: events.append(e[1]))
    assert capfd.readouterr().err == "drogo: mind the step\n"
    assert (set(raised.value.failures), "retried" in events) == ({"odd 0", "odd 1", "odd 2"}, False)


def test_interrupts_do_not_reach_workers_and_an_engine_has_several_rounds(tmp_path):
    worker = Worker()
    worker.process.send_signal(signal.SIGINT)
    assert worker.receive() == ("ready", 0.0)
    worker.stop()
    store, engine = Store(tmp_path), LocalEngine(1)
    for x in range(2):
        engine.run([job("square", x)], store, lambda *event: None)
        assert store.has(job("square", x))
    refused(ArgumentError, "workers", LocalEngine(-1).run, [], store, lambda *event: None)


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """The command of a sweep, and its log."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    log = tmp_path / "log"
    log.touch()
    return [sys.executable, "-c", DRIVER, str(tmp_path / "runs"), str(log)], log


@pytest.mark.slow
def test_killed_at_random_moments_and_started_again(driver, tmp_path):
    (command, log), rng = driver, random.Random(0)
    for finished in (1, 3):
        process = subprocess.Popen(command)
        while len(log.read_text().split()) < finished:
            time.sleep(0.02)
        time.sleep(rng.uniform(0.0, 0.3))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(1.0)  # until its workers notice
    subprocess.run(command, check=True)
    store = Store(tmp_path / "runs")
    for x in range(6):
        record = store.get(Job("run_jobs:square", {"x": x, "wait": 0.3, "log": str(log)}, ""))
        assert int(record.arrays["y"]) == x**2
    # Each was finished once; only a run that was cut off, two at a time, was started again.
    done = log.read_text().split()
    assert (set(done), len(done) <= 6 + 2 * 2) == (set("012345"), True)


@pytest.mark.slow
def test_two_at_once_share_the_work(driver):
    command, log = driver
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert sorted(log.read_text().split()) == sorted(map(str, range(6)))


@pytest.mark.slow
def test_the_same_as_the_local_engine_though_a_node_is_lost(tmp_path):
    needs.module("ray")
    command = [sys.executable, str(Path(__file__).with_name("ray_cluster.py")), tmp_path / "ray"]
    env = {**os.environ, **QUICK, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    assert len(answer["failed"]) == 9
    assert answer["failed"]["broken of 0"] == "ArithmeticError: no square today"
    for how, failure in ODD.items():  # as with the local engine
        assert answer["failed"][f"odd {how}"].startswith(failure)
    assert answer["failed"]["odd leaves"].startswith("WorkerCrashedError: ")
    assert (answer["events"].count("done"), "progress" in answer["events"]) == (6, True)
    store, local = Store(tmp_path / "ray"), Store(tmp_path / "local")
    for square in (job for job in ray_jobs() if "square" in job.label):
        assert int(store.get(square).arrays["y"]) == square.settings["x"] ** 2
    LocalEngine(1).run([LEARN], local, lambda *event: None)
    np.testing.assert_equal(store.get(LEARN).arrays, local.get(LEARN).arrays)


def test_no_cluster_is_a_clear_error(tmp_path, monkeypatch):
    # A cluster of another test may be alive, so Ray itself is not asked.
    monkeypatch.setattr(needs.module("ray"), "init", Mock(side_effect=ConnectionError("none")))
    run = RayEngine("auto").run
    refused(ArgumentError, "address", run, [LEARN], Store(tmp_path), lambda *event: None)
