"""Every test runs with shapes and types checked, and with JAX's promotion rules strict."""

import os

os.environ.setdefault("JAX_NUMPY_DTYPE_PROMOTION", "strict")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")

import hypothesis
from jaxtyping import install_import_hook

install_import_hook("drogo", "beartype.beartype")

# Machines are noisy: a slow example is not a wrong one.
hypothesis.settings.register_profile("drogo", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.load_profile("drogo")
