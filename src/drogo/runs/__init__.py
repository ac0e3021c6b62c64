"""Many runs: jobs, the store that keeps them, and the engines that run them."""

from drogo.errors import RunsFailed
from drogo.runs.job import Job, Outcome
from drogo.runs.local import LocalEngine
from drogo.runs.ray_engine import RayEngine
from drogo.runs.store import Store
from drogo.statistics import Interval, bootstrap_mean

__all__ = [
    "Interval",
    "Job",
    "LocalEngine",
    "Outcome",
    "RayEngine",
    "RunsFailed",
    "Store",
    "bootstrap_mean",
]
