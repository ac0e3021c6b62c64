"""ruff and pyright find nothing, and neither do some tries of `fuzz.py`, always the same ones."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import needs

ROOT = Path(__file__).parents[1]


def run(*command, **environment):
    env, command = {**os.environ, **environment}, [sys.executable, *command]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("command", ["ruff check .", "ruff format --check .", "pyright"])
def test_linters(command):
    name, *arguments = command.split()
    needs.module(name)
    run("-m", name, *arguments, *["--pythonpath", sys.executable] * (name == "pyright"))


@pytest.mark.slow
def test_hostile_input_is_a_clear_error_or_a_right_answer():
    fuzz = ["tests/fuzz.py", "--seconds", "60", "--tries", "50"]
    printed = run(*fuzz, PYTHONPATH=os.pathsep.join(sys.path))  # without type checks
    tried, clear, right, others = map(int, re.findall(r"\d+", printed.split("\nall:")[1]))
    assert tried == clear + right > 20
    assert others == 0
