"""Some tries of `fuzz.py`, always the same ones, in a process without type checks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_hostile_input_is_a_clear_error_or_a_right_answer():
    script = Path(__file__).with_name("fuzz.py")
    command = [sys.executable, str(script), "--seconds", "60", "--tries", "50"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    numbers = re.findall(r"\d+", done.stdout.split("\nall:")[1])
    tried, clear, right, others = map(int, numbers)
    assert tried == clear + right > 20
    assert others == 0
