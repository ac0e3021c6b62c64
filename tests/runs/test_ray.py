"""The Ray engine on a real cluster of several nodes, all on this machine."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from drogo.runs.job import Job
from drogo.runs.local import LocalEngine, RunsFailed
from drogo.runs.ray_engine import RayEngine, packs
from drogo.runs.store import Store

ray = pytest.importorskip("ray", exc_type=ImportError)
pytest.importorskip("ray.cluster_utils", exc_type=ImportError)

pytestmark = pytest.mark.filterwarnings("ignore")
TESTS = str(Path(__file__).parents[1])


@pytest.fixture
def cluster(monkeypatch):
    """A head without processors, so that all work is on nodes that can be lost."""
    monkeypatch.setenv("PYTHONPATH", TESTS)
    monkeypatch.setenv("RAY_health_check_initial_delay_ms", "1000")
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "3")
    small = {"object_store_memory": 100 * 2**20, "include_dashboard": False}
    made = ray.cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    yield made
    ray.shutdown()
    made.shutdown()


def node(cluster):
    return cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)


def job(name, x=0, seconds=100.0, **settings):
    return Job(f"run_jobs:{name}", {"x": x, **settings}, f"{name} of {x}", seconds)


def test_packs():
    jobs = [
        job("square", x, seconds) for x, seconds in enumerate([90.0, 5.0, 30.0, 25.0, 5.0, 1.0])
    ]
    assert [[int(j.seconds) for j in pack] for pack in packs(jobs, 60.0)] == [
        [90],
        [30, 25, 5],
        [5, 1],
    ]


def test_the_same_as_the_local_engine_though_a_node_is_lost(cluster, tmp_path):
    log = tmp_path / "log"
    log.write_text("")
    node(cluster)
    lost = node(cluster)
    cluster.wait_for_nodes()
    jobs = [job("square", x, wait=1.5) for x in range(8)] + [LEARN]
    store, heard = Store(tmp_path / "ray"), []

    def lose_a_node():
        time.sleep(4)
        cluster.remove_node(lost, allow_graceful=False)
        node(cluster)

    accident = threading.Thread(target=lose_a_node)
    accident.start()
    engine = RayEngine(cluster.address)
    engine.run(jobs, store, lambda j, what, number: heard.append(what))
    accident.join()
    assert heard.count("done") == len(jobs)
    local = Store(tmp_path / "local")
    LocalEngine(2).run(jobs, local, lambda *event: None)
    for asked in jobs:
        mine, theirs = store.get(asked).arrays, local.get(asked).arrays
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name])


LEARN = Job(
    "drogo.paper.fits:learn",
    {"world": "grid-task", "input": "coordinates", "preset": "fast", "seeds": 2, "lam": 20.0,
     "overrides": {"updates": 50}},
    "a short fit",
)  # fmt: skip


def test_errors_come_back(cluster, tmp_path):
    node(cluster)
    cluster.wait_for_nodes()
    store = Store(tmp_path)
    with pytest.raises(RunsFailed, match="broken of 0: ArithmeticError: no square today"):
        RayEngine(cluster.address).run(
            [job("broken", seconds=1.0), job("square", 2, seconds=1.0)], store, lambda *event: None
        )
    assert store.has(job("square", 2))


def test_no_cluster_is_a_clear_error(tmp_path, monkeypatch):
    def nobody(**options):  # a cluster of another test may be alive, so Ray itself is not asked
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(ray, "init", nobody)
    with pytest.raises(ValueError, match="no Ray cluster at 'auto'"):
        RayEngine("auto").run([job("square")], Store(tmp_path), lambda *event: None)
