"""Every command and snippet of the README and the docs runs."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

import needs
from drogo import GridWorld
from drogo.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SLOW = re.compile(r"stable_baselines3|LocalEngine|certify\(|discover_deep|eqx\.")
"""Snippets that train an agent, start processes, roll out or compile another network are slow."""
COMMAND = re.compile(r"^(?:.*uv run )?(drogo [^\n`]*)$", re.M)
COMMANDS = dict.fromkeys(line for page in PAGES for line in COMMAND.findall(page.read_text()))


def blocks(language):
    for page in PAGES:
        matches = re.findall(rf"^( *)```{language}\n(.*?)^\1```", page.read_text(), re.M | re.S)
        for number, (indent, block) in enumerate(matches):
            text = "\n".join(line.removeprefix(indent) for line in block.split("\n"))
            slow = page.name != "README.md" and SLOW.search(text) is not None
            name = f"{page.name}-{language}-{number}"
            yield pytest.param(text, id=name, marks=[pytest.mark.slow] * slow)


@pytest.mark.parametrize("code", list(blocks("python")))
def test_python_snippets(code, tmp_path, monkeypatch, request, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # another test runs on the other core
    if max(map(int, re.findall(r"updates=(\d+)", code)), default=0) >= 500:
        request.getfixturevalue("optimised")
    if "stable_baselines3" in code:
        needs.module("stable_baselines3")
    for name in re.findall(r"\.save\(\"([^\"]+)\"", code):  # a file of an earlier run
        (tmp_path / name).write_bytes(b"")
    exec(compile(code, "snippet", "exec"), {"__name__": "snippet"})


@pytest.mark.parametrize("line", COMMANDS)
def test_commands(line, tmp_path, monkeypatch, capsys, optimised):
    monkeypatch.chdir(tmp_path)
    main(shlex.split(line, comments=True)[1:])
    assert len(list(tmp_path.glob("results/*/*/picture.png"))) == 1
    for path in tmp_path.glob("results/learn/*/report.json"):
        seeds = json.loads(path.read_text())["seeds"]
        assert [seed["status"] for seed in seeds] == ["converged"] * 3
        assert min(seed["cosine_column"] for seed in seeds) > 0.9999


@pytest.mark.parametrize("text", list(blocks("text")))
def test_maps(text):
    if "#" in text:
        assert GridWorld.parse(text).n_states > 0


def test_commands_that_set_up_links_and_tables():
    commands = re.findall(r"```console\n(.*?)\n```", PAGES[0].read_text(), re.S)
    assert all(c.startswith("python3 -m pip install uv && ") for c in commands[:2])
    ends = [c.rsplit("&& ", 1)[1] for c in commands[:2]]
    assert ends == ["python3 -m uv run drogo learn four-rooms", "python3 -m uv run pytest"]
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith(commands[1])
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
    pattern = r"<!-- table: (.*?) -->\n(.*?)<!-- end -->"
    shown = re.findall(pattern, PAGES[0].read_text(), re.DOTALL)
    assert shown
    for name, table in shown:
        assert table == (ROOT / "docs" / "tables" / f"{name}.md").read_text()
