"""Many runs: jobs, the store that keeps their results, and the engines that run them."""

from drogo.engines.job import Job, Outcome
from drogo.engines.local import LocalEngine
from drogo.engines.ray_engine import RayEngine
from drogo.engines.store import Store
from drogo.errors import RunsFailed

__all__ = ["Job", "LocalEngine", "Outcome", "RayEngine", "RunsFailed", "Store"]
