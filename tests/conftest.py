"""Every test runs with shapes and types checked, and with JAX's promotion rules strict."""

import importlib.metadata
import io
import os
import sys
import tempfile
from collections import namedtuple
from contextlib import redirect_stderr, redirect_stdout

os.environ.setdefault("JAX_NUMPY_DTYPE_PROMOTION", "strict")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")
# Most of the time goes into compiling small programs. The fixture `optimised` is for the others.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# The newer code generator of XLA takes twice as long. Other versions do not know the flag.
if importlib.metadata.version("jaxlib").startswith("0.10."):
    older = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ.setdefault("XLA_FLAGS", older)
# Test processes share what they compile; the directory goes with the process that made it.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    CACHE = tempfile.TemporaryDirectory(prefix="drogo-tests-", ignore_cleanup_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = CACHE.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
# Bytecode as well, where Python may not write it beside its sources, as in many containers.
if sys.dont_write_bytecode:
    if "PYTHONPYCACHEPREFIX" not in os.environ:
        BYTECODE = tempfile.TemporaryDirectory(prefix="drogo-bytecode-", ignore_cleanup_errors=True)
        os.environ["PYTHONPYCACHEPREFIX"] = BYTECODE.name
    sys.pycache_prefix, sys.dont_write_bytecode = os.environ["PYTHONPYCACHEPREFIX"], False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# One test runs on each core: torch and BLAS must not each take them all.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import jaxtyping
import pytest
from jaxtyping import install_import_hook

import needs

CHECKED = ["drogo", "drogo_paper.agents", "drogo_paper.cli", "drogo_paper.plot"]
install_import_hook(CHECKED, "beartype.beartype")

# Machines are noisy: a slow example is not a wrong one.
hypothesis.settings.register_profile("drogo", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.load_profile("drogo")


@pytest.fixture
def optimised():
    """For a test that trains for long, which then runs three times as fast."""
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture
def unchecked():
    """For a test of what a user sees, who has no type checker at run time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def sb3():
    """Imported by the first test that needs it, not by every process that collects the tests."""
    needs.module("torch").set_num_threads(1)
    return needs.module("stable_baselines3")


Answer = namedtuple("Answer", "out err status")
"""Standard output, standard error and the exit status of a command."""


@pytest.fixture(scope="session")
def command():
    """Runs the `drogo` command in this process."""
    from drogo.cli.main import main

    def run(*arguments):
        out, err, status = io.StringIO(), io.StringIO(), 0
        with redirect_stdout(out), redirect_stderr(err):
            try:
                main([str(argument) for argument in arguments])
            except SystemExit as stop:
                status = int(stop.code or 0)
        return Answer(out.getvalue(), err.getvalue(), status)

    return run


@pytest.fixture
def no_pictures(monkeypatch):
    """For a test whose figures would take longer than its fit."""
    import drogo
    from drogo.cli import pictures

    for name in ("exact", "learned"):
        monkeypatch.setattr(pictures, name, lambda *arguments: None)
    monkeypatch.setattr(drogo.plot, "as_png", lambda figure: b"")


FIRST = ("pyright", "drogo learn four-rooms", "sb3_minigrid", "killed_and_resumed",
         "though_a_node_is_lost")  # fmt: skip


def pytest_collection_modifyitems(items):
    """The longest tests come first, so that at the end no process waits for one of them."""

    def place(item):
        return next((k for k, name in enumerate(FIRST) if name in item.nodeid), len(FIRST))

    items.sort(key=place)
