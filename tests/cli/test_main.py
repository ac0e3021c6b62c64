"""The command as such: help, verbs, errors and exit statuses."""

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
from drogo.cli import main
from drogo.cli.main import verbs


def test_help_needs_nothing_heavy():
    code = (
        "import sys; from drogo.cli import main\n"
        "for arguments in (['--help'], ['learn', '--help']):\n"
        "    try: main(arguments)\n"
        "    except SystemExit: pass\n"
        "heavy = {'scipy', 'jax', 'matplotlib', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "exact" in done.stdout
    assert "reproduce" in done.stdout
    assert "--batch-size INT" in done.stdout


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_no_option_has_a_default_that_says_nothing(verb, command):
    answer = command(verb, "--help")
    assert answer.status == 0
    assert "default: None" not in answer.out
    assert "default: False" not in answer.out


def test_version(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["drogo", "--version"])
    runpy.run_module("drogo", run_name="__main__")
    assert capsys.readouterr().out == f"drogo {drogo.__version__}\n"


VERBS = """
import hashlib, os, time, warnings
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
        if self.how == "compiled":  # Python itself cannot interrupt this
            print("ready", flush=True)
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
        if self.how == "wait":
            print("ready", flush=True)
            time.sleep(60)
        if self.how == "pipe": raise BrokenPipeError
        if self.how == "bug": raise ValueError("a mistake in the code")
        if self.how == "warn": warnings.warn("mind the step", UserWarning)
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
@pytest.mark.filterwarnings("always")
def test_other_packages_add_verbs(command):
    answer = command("fail", "--how", "warn")
    assert (answer.out, answer.status) == ("fine\n", 0)
    assert "'absent' (other_package:Absent) cannot be loaded" in answer.err
    assert answer.err.splitlines()[-1] == "drogo: mind the step"


@pytest.mark.usefixtures("verb_of_another_package")
def test_exit_statuses(command, tmp_path):
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


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("exact", "four-roms"), "ArgumentError"),
        (("exact", "broken.txt"), "MapError"),
        (("exact", "four-rooms", "--lam", "-1"), "ArgumentError"),
        (("exact", "four-rooms", "--out", "broken.txt"), "FileError"),
        (("learn", "four-rooms", "--batch-size", "0"), "ArgumentError"),
        (("learn", "four-rooms", "--transitions", "1e15"), "ArgumentError"),
        (("learn", "four-rooms", "--key", "image", "place"), "ArgumentError"),
    ],
)
def test_an_error_is_one_line_and_json(command, tmp_path, monkeypatch, arguments, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.txt").write_text("#####\n#S?G#\n#####")
    answer = command(*arguments, "--json")
    assert answer.status == 2
    error = json.loads(answer.out)
    assert error["kind"] == kind
    assert answer.err == f"drogo: {error['error']}\n"


def test_envs(command):
    assert command("exat", "four-rooms").status == command("exact").status == 2
    answer = command("envs")
    assert answer.status == 0
    assert "drogo/FourRooms-v0" in answer.out
    worlds = json.loads(command("envs", "--json").out)
    assert {"name": "grid-room", "states": 272}.items() <= worlds[2].items()
