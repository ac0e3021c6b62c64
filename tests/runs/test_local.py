"""The local engine: processes, retries, and what is left when it is killed."""

import importlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from drogo.errors import ArgumentError, RunsFailed
from drogo.runs.job import Job
from drogo.runs.local import LocalEngine, _Worker
from drogo.runs.store import Store
from run_jobs import ODD, odd_jobs


def job(name, x=0, **settings):
    return Job(f"run_jobs:{name}", {"x": x, **settings}, f"{name} of {x}")


@pytest.mark.slow
def test_everything_that_can_happen_to_a_job(tmp_path):
    """Success, an error, a process that dies once, and one that always dies: all in one sweep."""
    store = Store(tmp_path)
    squares = [job("square", x) for x in range(4)]
    others = [job(name) for name in ("broken", "dies_once", "always_dies")]
    events = []
    jobs = [*others, *squares, *odd_jobs()]
    with pytest.raises(RunsFailed, match="10 of 15 jobs failed:\n") as raised:
        LocalEngine(2).run(jobs, store, lambda *event: events.append(event))
    for how, failure in ODD.items():
        assert f"\nodd {how}: {failure}" in str(raised.value)
    assert "\nodd leaves: its process died 3 times" in str(raised.value)
    assert "broken of 0: ArithmeticError: no square today" in str(raised.value)
    assert "always_dies of 0: its process died 3 times" in str(raised.value)
    assert [int(store.get(square).arrays["y"]) for square in squares] == [0, 1, 4, 9]
    assert store.has(others[1])
    counts = {kind: sum(event[1] == kind for event in events) for kind in ("done", "failed")}
    assert counts == {"done": 5, "failed": 10}
    assert [event[0].label for event in events if event[1] == "retried"].count(
        "dies_once of 0"
    ) == 1


def test_jobs_that_exit_cost_the_others_no_attempt(tmp_path):
    """A worker goes on after such a job: what it is sent next is not lost with it."""
    events = []
    exits = [Job("run_jobs:odd", {"how": "exits", "x": x}, f"odd {x}", 90.0) for x in range(3)]
    with pytest.raises(RunsFailed, match="3 of 4 jobs failed:\n"):
        LocalEngine(1).run([*exits, job("square")], Store(tmp_path), lambda *e: events.append(e[1]))
    assert "retried" not in events


def test_interrupts_do_not_reach_workers():
    """Ctrl-C is sent to all processes of a terminal. A worker must not react while it loads."""
    worker = _Worker()
    try:
        worker.process.send_signal(signal.SIGINT)
        assert worker.receive() == ("ready", 0.0)
    finally:
        worker.stop()


def test_one_engine_for_several_rounds(tmp_path):
    """The events of stopped workers must not reach the next round."""
    store, engine = Store(tmp_path), LocalEngine(1)
    for x in range(2):
        engine.run([job("square", x)], store, lambda *event: None)
        assert store.has(job("square", x))
    with pytest.raises(ArgumentError, match="workers is -1"):
        LocalEngine(-1).run([], store, lambda *event: None)


FUNCTION = """
import numpy as np
from drogo.runs import Outcome

def f(settings, scratch, report):
    return Outcome({"y": np.array(settings["x"] + OFFSET)})
"""


def test_a_function_that_was_edited_is_another_job(tmp_path, monkeypatch):
    """Never an old result for a new request; and the old one is still there for the old code."""
    monkeypatch.syspath_prepend(tmp_path)
    store, values, ids = Store(tmp_path / "runs"), [], []
    for offset in ("1", "20", "1"):
        (tmp_path / "my_sweep.py").write_text(FUNCTION.replace("OFFSET", offset))
        importlib.invalidate_caches()
        sweep = Job("my_sweep:f", {"x": 0}, "edited")
        ids.append(sweep.id)
        if not store.has(sweep):
            LocalEngine(1).run([sweep], store, lambda *event: None)
        values.append(int(store.get(sweep).arrays["y"]))
    assert values == [1, 20, 1]
    assert ids[0] == ids[2] != ids[1]


DRIVER = """
import sys
from drogo.runs.job import Job
from drogo.runs.local import LocalEngine, _Worker
from drogo.runs.store import Store
from run_jobs import ODD, odd_jobs
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
