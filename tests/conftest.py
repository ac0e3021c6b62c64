"""Every test runs with shapes and types checked, and with JAX's promotion rules strict."""

import os

os.environ.setdefault("JAX_NUMPY_DTYPE_PROMOTION", "strict")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")
# Most of the tests' time goes into compiling small programs, which then run for milliseconds.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# One test runs on each core: torch and BLAS must not each take them all.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
from jaxtyping import install_import_hook

install_import_hook("drogo", "beartype.beartype")

# Machines are noisy: a slow example is not a wrong one.
hypothesis.settings.register_profile("drogo", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.load_profile("drogo")
