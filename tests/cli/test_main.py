"""The command as such: help, verbs, errors and exit statuses."""

import importlib.metadata
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout

import pytest

import drogo
import needs
from drogo.cli import main


def test_help_needs_nothing_heavy():
    code = (
        "import sys; sys.argv[0] = 'drogo'; from drogo.cli import main\n"
        "for arguments in (['--help'], ['learn', '--help']):\n"
        "    try: main(arguments)\n"
        "    except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'jax', 'gymnasium', 'matplotlib', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "exact" in done.stdout
    assert "reproduce" in done.stdout
    assert "--batch-size INT" in done.stdout


def test_version(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["drogo", "--version"])
    runpy.run_module("drogo", run_name="__main__")
    assert capsys.readouterr().out == f"drogo {drogo.__version__}\n"


def test_the_reproduction_adds_its_verbs():
    """If this fails, the installed metadata are older than pyproject.toml: `uv sync`."""
    verbs = importlib.metadata.entry_points(group="drogo.verbs")
    assert {verb.name for verb in verbs} == {"reproduce", "report"}


VERBS = """
import hashlib, os, time
from dataclasses import dataclass

if "SLOW_TO_LOAD" in os.environ:
    print("ready", flush=True)
    time.sleep(60)

@dataclass(frozen=True)
class Fail:
    "Fail in some way."
    how: str = ""
    json: bool = False

    def run(self):
        if self.how == "interrupt": raise KeyboardInterrupt
        if self.how == "wait":
            print("ready", flush=True)
            time.sleep(60)
        if self.how == "compiled":  # Python itself cannot interrupt this
            print("ready", flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
        if self.how == "pipe": raise BrokenPipeError
        if self.how == "bug": raise ValueError("a mistake in the code")
        print("fine")
"""


@pytest.fixture
def verb_of_another_package(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "other_package.py").write_text(VERBS)
    metadata = tmp_path / "other_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[drogo.verbs]\nfail = other_package:Fail\nabsent = other_package:Absent\n"
    )


@pytest.mark.usefixtures("verb_of_another_package")
def test_other_packages_add_verbs(command):
    answer = command("fail")
    assert (answer.out, answer.status) == ("fine\n", 0)
    assert "'absent' (other_package:Absent) cannot be loaded" in answer.err


@pytest.mark.usefixtures("verb_of_another_package")
def test_exit_statuses(command, tmp_path):
    answer = command("fail", "--how", "interrupt")
    assert (answer.status, "interrupted" in answer.err) == (130, True)
    out = (tmp_path / "out").open("w")
    with out, redirect_stdout(out), pytest.raises(SystemExit) as stopped:
        main(["fail", "--how", "pipe"])
    assert stopped.value.code == 141
    with pytest.raises(ValueError, match="a mistake in the code"):
        command("fail", "--how", "bug", "--json")


def test_help_into_a_pipe_that_is_closed(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed, redirect_stdout(closed), pytest.raises(SystemExit) as stopped:  # fmt: skip
        main(["learn", "--help"])
    assert stopped.value.code == 141


@pytest.mark.usefixtures("verb_of_another_package")
@pytest.mark.parametrize("how", ["slow to load", "wait", "compiled"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_soon_and_without_a_traceback(how, number, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    if how == "slow to load":
        environment["SLOW_TO_LOAD"] = "yes"
    command = [sys.executable, "-m", "drogo", "fail", "--how", how]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
    assert time.monotonic() - began < 5  # most of which would be the noise of a busy machine
    assert process.returncode == 128 + number
    word = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}[number]
    assert errors.splitlines()[-1] == f"drogo: {word}"
    assert "Traceback" not in errors


def test_mistakes_get_a_message_without_a_traceback(command, tmp_path):
    path = tmp_path / "broken.txt"
    path.write_text("#####\n#S?G#\n#####")
    for arguments, message in (
        (("exact", "four-roms"), "Did you mean four-rooms"),
        (("exact", path), "line 2, column 3: unknown symbol '?'"),
        (("exact", "four-rooms", "--lam", "-1"), "lam is -1.0; it must be a positive number"),
        (("exact", "four-rooms", "--reward", "-1"), "Leave --reward out"),
        (("exact", "drogo/GridWorld-v0"), "give the map's file instead"),
        (("exact", "four-rooms", "--out", path), "broken.txt"),
        (("learn", "four-rooms", "--batch-size", "0"), "batch_size is 0"),
        (
            ("learn", "four-rooms", "--transitions", "1e15"),
            "would take 3.17e+07 GiB of memory, and",
        ),
        (("learn", "MiniGrid-Emty-5x5-v0"), "Did you mean"),
        (("learn", "four-rooms", "--layout", "1"), "Leave --layout out"),
        (("learn", "CartPole-v1", "--tile", "2"), "Leave --tile out"),
        (("learn", "four-rooms", "--key", "image", "place"), "Leave --key out"),
    ):
        if "MiniGrid" in str(arguments):
            needs.module("minigrid")
        answer = command(*arguments)
        assert answer.status == 2
        assert message in answer.err
        assert "Traceback" not in answer.err
    assert command("exact").status == 2
    assert command("exat", "four-rooms").status == 2
    answer = json.loads(command("exact", "four-roms", "--json").out)
    assert "Did you mean" in answer["error"]
    assert answer["kind"] == "ArgumentError"


def test_envs(command):
    answer = command("envs")
    assert answer.status == 0
    assert "drogo/FourRooms-v0" in answer.out
    worlds = json.loads(command("envs", "--json").out)
    assert {"name": "grid-room", "states": 272}.items() <= worlds[2].items()
