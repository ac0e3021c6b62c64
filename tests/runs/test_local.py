"""The local engine: processes, retries, and what is left when it is killed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from drogo.errors import RunsFailed
from drogo.runs.job import Job
from drogo.runs.local import LocalEngine
from drogo.runs.store import Store

TESTS = str(Path(__file__).parents[1])


@pytest.fixture(autouse=True)
def jobs_can_be_found(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", TESTS)


def job(name, x=0, **settings):
    return Job(f"run_jobs:{name}", {"x": x, **settings}, f"{name} of {x}")


def ignore(job, what, number):
    pass


def test_all_jobs_are_done(tmp_path):
    store = Store(tmp_path)
    jobs = [job("square", x) for x in range(5)]
    heard = []
    LocalEngine(2).run(jobs, store, lambda j, what, number: heard.append((what, j.label)))
    assert [int(store.get(j).arrays["y"]) for j in jobs] == [0, 1, 4, 9, 16]
    assert sum(what == "done" for what, _ in heard) == 5


def test_one_engine_for_several_rounds(tmp_path):
    """A round's dismissed workers must not be taken for the next round's."""
    store, engine = Store(tmp_path), LocalEngine(2)
    for rounds in range(3):
        jobs = [job("square", 10 * rounds + x) for x in range(2)]
        engine.run(jobs, store, ignore)
        assert all(store.has(j) for j in jobs)


def test_an_error_is_told_and_the_others_are_done(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(
        RunsFailed, match="1 of 2 runs failed:\nbroken of 0: ArithmeticError: no square"
    ):
        LocalEngine(1).run([job("broken"), job("square", 2)], store, ignore)
    assert store.has(job("square", 2))


def test_a_run_whose_process_dies_is_done_again(tmp_path):
    store = Store(tmp_path)
    heard = []
    LocalEngine(1).run([job("dies_once")], store, lambda j, what, number: heard.append(what))
    assert heard.count("retried") == 1
    assert store.has(job("dies_once"))


def test_but_not_for_ever(tmp_path):
    with pytest.raises(RunsFailed, match="its process died 3 times"):
        LocalEngine(1).run([job("always_dies")], Store(tmp_path), ignore)


DRIVER = """
import sys
from drogo.runs.job import Job
from drogo.runs.local import LocalEngine
from drogo.runs.store import Store
store = Store(sys.argv[1])
jobs = [Job("run_jobs:square", {"x": x, "wait": 0.3, "log": sys.argv[2]}, str(x)) for x in range(8)]
jobs = [job for job in jobs if not store.has(job)]
if jobs:
    LocalEngine(2).run(jobs, store, lambda *event: None)
"""


def test_killed_at_random_moments_and_started_again(tmp_path):
    log = tmp_path / "log"
    log.write_text("")
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "runs"), str(log)]
    rng = random.Random(0)
    for _ in range(3):
        process = subprocess.Popen(command)
        time.sleep(rng.uniform(1.0, 2.5))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(1.0)  # its workers notice
    subprocess.run(command, check=True)
    store = Store(tmp_path / "runs")
    for x in range(8):
        found = store.get(Job("run_jobs:square", {"x": x, "wait": 0.3, "log": str(log)}, ""))
        assert int(found.arrays["y"]) == x**2
    # Each was finished once; only a run that was cut, two at a time, was begun again.
    done = log.read_text().split()
    assert set(done) == set(map(str, range(8)))
    assert len(done) <= 8 + 3 * 2


def test_two_at_once_share_the_work(tmp_path):
    log = tmp_path / "log"
    log.write_text("")
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "runs"), str(log)]
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert sorted(log.read_text().split()) == sorted(map(str, range(8)))
