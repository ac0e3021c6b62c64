"""The examples run, and the documentation builds without a warning."""

import runpy
import subprocess
import sys
from pathlib import Path

import gymnasium
import jax
import pytest

import needs
from small_lines import line_of

ROOT = Path(__file__).parents[1]
SHORT = {
    "online_dqn": ["--steps", "560", "--learning-starts", "500"],
    "jitted_agent": ["--steps", "480", "--seeds", "2", "--updates", "1"],
}
"""Arguments that shorten long examples."""
SLOW = ("sb3_minigrid", "jitted_agent", "online_dqn", "shape_q_learning")
EXAMPLES = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW))
    for path in sorted((ROOT / "examples").glob("*.py"))
]


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for module in ("stable_baselines3", "torch"):
        if f"import {module}" in path.read_text() or f"from {module}" in path.read_text():
            needs.module(module)
    monkeypatch.setattr(sys, "argv", [str(path), *SHORT.get(path.stem, [])])
    with jax.numpy_dtype_promotion("standard"):  # as users have it
        runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_the_evaluation_of_a_policy_that_circles_ends(capsys):
    torch = needs.module("torch")
    example = runpy.run_path(str(ROOT / "examples" / "online_dqn.py"))
    gymnasium.register("tests/Circle-v0", line_of(goal=1000))  # which never ends
    example["evaluate"](example["Args"](env_id="tests/Circle-v0", steps=5), torch.nn.Linear(2, 2))
    gymnasium.registry.pop("tests/Circle-v0")
    assert "returned -5.0, and ended at the time limit" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="Pendulum-v1 has the actions Box"):
        example["make"]("Pendulum-v1")


@pytest.mark.slow
def test_the_site_builds(tmp_path):
    needs.module("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "api" / "index.html").is_file()
