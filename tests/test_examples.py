"""The examples run, and the documentation builds without a complaint."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import needs

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if "stable_baselines3" in path.read_text():
        needs.module("stable_baselines3")
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_the_site_builds(tmp_path):
    needs.module("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "api" / "index.html").is_file()
