"""Many runs: jobs, the store that keeps them, and the engines that run them.

Statistics over them are in `drogo.statistics`; worker processes start faster without SciPy.
"""

from drogo.errors import RunsFailed
from drogo.runs.job import Job, Outcome
from drogo.runs.local import LocalEngine
from drogo.runs.ray_engine import RayEngine
from drogo.runs.store import Store

__all__ = ["Job", "LocalEngine", "Outcome", "RayEngine", "RunsFailed", "Store"]
