"""ruff and pyright find nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

import needs

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("command", ["ruff check .", "ruff format --check .", "pyright"])
def test_linters(command):
    name, *arguments = command.split()
    needs.module(name)
    python = ["--pythonpath", sys.executable] * (name == "pyright")
    command = [sys.executable, "-m", name, *arguments, *python]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
