"""Many runs: jobs, the store that keeps their results, and the engines that run them."""

from drogo_paper.engines.job import Job, Outcome, RunsFailed
from drogo_paper.engines.local import LocalEngine
from drogo_paper.engines.ray_engine import RayEngine
from drogo_paper.engines.store import Store

__all__ = ["Job", "LocalEngine", "Outcome", "RayEngine", "RunsFailed", "Store"]
