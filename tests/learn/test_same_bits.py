"""The same seed gives the same bits, in another process and on another number of cores."""

import os
import subprocess
import sys

import pytest

FITS = """
import gymnasium
from drogo import collect, fit

def bits():
    "The digits of an MLP. Of a CNN, the number of cores decides the last bits."
    env = gymnasium.make("drogo/GridTask-v0", observation="coordinates")
    data = collect(env, 1000, seed=0)
    result = fit(data, seeds=[3], updates=20, width=8, depth=2, stop_early=False)
    return result.v.tobytes().hex(), result.history["worst"].tobytes().hex()
"""
ON_ONE_CORE = f"""
import os
os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
{FITS}
print(*bits())
"""


@pytest.mark.slow
def test_one_core_in_another_process_gives_the_same_bits():
    """Here, the process has all cores."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", ON_ONE_CORE]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        names = {}
        exec(FITS, names)
        here = names["bits"]()
        there, _ = process.communicate()
    assert tuple(there.split()) == here
