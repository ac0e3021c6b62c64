"""ruff and pyright find nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

import needs

ROOT = Path(__file__).parents[1]


def run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize("command", [("check",), ("format", "--check")])
def test_ruff(command):
    needs.module("ruff")
    run(sys.executable, "-m", "ruff", *command, ".")


def test_pyright():
    needs.module("pyright")
    run(sys.executable, "-m", "pyright", "--pythonpath", sys.executable)
