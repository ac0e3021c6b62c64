"""The local engine: processes, retries, and what is left when it is killed."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from drogo.engines.job import Job
from drogo.engines.local import LocalEngine, Worker
from drogo.engines.store import Store
from drogo.errors import ArgumentError, RunsFailed
from raising import raises
from run_jobs import ODD, odd_jobs


def job(name, x=0, **settings):
    return Job(f"run_jobs:{name}", {"x": x, **settings}, f"{name} of {x}")


@pytest.mark.slow
def test_everything_that_can_happen_to_a_job(tmp_path):
    store = Store(tmp_path)
    squares = [job("square", x) for x in range(4)]
    others = [job(name) for name in ("broken", "dies_once", "always_dies")]
    events = []
    jobs = [*others, *squares, *odd_jobs()]
    with raises(RunsFailed) as raised:
        LocalEngine(2).run(jobs, store, lambda *event: events.append(event))
    failures = raised.value.failures
    assert len(failures) == 10
    for how, failure in ODD.items():
        assert failures[f"odd {how}"].startswith(failure)
    assert failures["odd leaves"] == failures["always_dies of 0"]
    assert failures["broken of 0"] == "ArithmeticError: no square today"
    assert [int(store.get(square).arrays["y"]) for square in squares] == [0, 1, 4, 9]
    assert store.has(others[1])
    kinds = [event[1] for event in events]
    assert (kinds.count("done"), kinds.count("failed")) == (5, 10)
    retried = [event[0].label for event in events if event[1] == "retried"]
    assert retried.count("dies_once of 0") == 1


def test_jobs_that_exit_cost_the_others_no_attempt(tmp_path):
    events = []
    exits = [Job("run_jobs:odd", {"how": "exits", "x": x}, f"odd {x}", 90.0) for x in range(3)]
    with raises(RunsFailed) as raised:
        LocalEngine(1).run([*exits, job("square")], Store(tmp_path), lambda *e: events.append(e[1]))
    assert set(raised.value.failures) == {"odd 0", "odd 1", "odd 2"}
    assert "retried" not in events


def test_interrupts_do_not_reach_workers():
    worker = Worker()
    try:
        worker.process.send_signal(signal.SIGINT)
        assert worker.receive() == ("ready", 0.0)
    finally:
        worker.stop()


def test_one_engine_for_several_rounds(tmp_path):
    store, engine = Store(tmp_path), LocalEngine(1)
    for x in range(2):
        engine.run([job("square", x)], store, lambda *event: None)
        assert store.has(job("square", x))
    with raises(ArgumentError, "workers"):
        LocalEngine(-1).run([], store, lambda *event: None)


DRIVER = """
import sys
from drogo.engines.job import Job
from drogo.engines.local import LocalEngine
from drogo.engines.store import Store
store = Store(sys.argv[1])
jobs = [Job("run_jobs:square", {"x": x, "wait": 0.3, "log": sys.argv[2]}, str(x)) for x in range(6)]
jobs = [job for job in jobs if not store.has(job)]
if jobs:
    LocalEngine(2).run(jobs, store, lambda *event: None)
"""


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A sweep of its own process, its log, and its store."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    log = tmp_path / "log"
    log.write_text("")
    return [sys.executable, "-c", DRIVER, str(tmp_path / "runs"), str(log)], log


@pytest.mark.slow
def test_killed_at_random_moments_and_started_again(driver, tmp_path):
    command, log = driver
    rng = random.Random(0)
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
    assert set(done) == set(map(str, range(6)))
    assert len(done) <= 6 + 2 * 2


@pytest.mark.slow
def test_two_at_once_share_the_work(driver):
    command, log = driver
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert sorted(log.read_text().split()) == sorted(map(str, range(6)))
