"""A real Ray cluster of two nodes, one of which is lost in the middle: a program of its own, since
Ray leaves threads and exit handlers. `python ray_cluster.py STORE` prints what happened as JSON."""

import json
import os
import sys
import threading
import time

import ray
from ray.cluster_utils import Cluster

from drogo_paper.engines import RunsFailed, ray_engine
from drogo_paper.engines.store import Store
from run_jobs import LEARN, odd_jobs, ray_jobs

SMALL = {"object_store_memory": 100 * 2**20}


if __name__ == "__main__":
    head, events, answer = {"num_cpus": 1, "include_dashboard": False, **SMALL}, [], {}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    lost = cluster.add_node(num_cpus=1, **SMALL)
    cluster.wait_for_nodes()

    def lose_a_node() -> None:
        while events.count("done") < 2:
            time.sleep(0.1)
        cluster.remove_node(lost, allow_graceful=False)

    ray_engine.RETRIES = 1  # enough for the lost node, and quick for the job that ends its process
    accident = threading.Thread(target=lose_a_node)
    accident.start()
    try:
        jobs, engine = [*ray_jobs(), LEARN, *odd_jobs()], ray_engine.RayEngine(cluster.address)
        engine.run(jobs, Store(sys.argv[1]), lambda job, event, number: events.append(event))
    except RunsFailed as error:
        answer["failed"] = error.failures
    accident.join()
    print(json.dumps({**answer, "events": events, "connected": ray.is_initialized()}), flush=True)
    cluster.shutdown()
    os._exit(0)
