"""The command as such: help, verbs, errors, exit statuses, odd terminals and odd names."""

import io
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout

import pytest

import drogo
from drogo import plot
from drogo.cli.main import main, verbs
from drogo.cli.output import BOLD, NEW, print_table, table, terminal

HELP = """
import sys
from drogo.cli.main import main
for arguments in (["--help"], ["learn", "--help"]):
    try: main(arguments)
    except SystemExit: pass
assert not {"scipy", "jax", "matplotlib", "rich"} & set(sys.modules)
"""
VERBS = """
import hashlib, sys, time, warnings
from dataclasses import dataclass

if "slow to load" in sys.argv:
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
ERRORS = {
    "exact four-roms": "ArgumentError",
    "exact broken.txt": "MapError",
    "exact broke.txt": "ArgumentError",
    "exact four-rooms --lam -1": "ArgumentError",
    "exact four-rooms --out broken.txt": "FileError",
    "learn four-rooms --batch-size 0": "ArgumentError",
    "learn four-rooms --transitions 1e15": "ArgumentError",
    "learn four-rooms --key image place": "ArgumentError",
}
ODD = "[red]a$\\frac{$ :smile:"


def test_help_needs_nothing_heavy_typos_envs_and_version(command, capsys, monkeypatch):
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for text in ("exact", "reproduce", "--batch-size INT"):
        assert text in done.stdout
    mistyped, missing = command("exat", "four-rooms"), command("exact")
    assert (mistyped.status, "Did you mean exact?" in mistyped.err, missing.status) == (2, True, 2)
    assert command().status == 0  # no verb at all is a question
    for arguments in ("four-rooms --lamda 3", "--lamda 3 four-rooms", "--lamda=3 four-rooms"):
        assert command("exact", *arguments.split()).err.count("--lam FLOAT") == 1
    assert "twice" in command("learn", "ring", "--set", "cap=3", "--set", "width=8").err
    assert "drogo/FourRooms-v0" in command("envs").out
    worlds = json.loads(command("envs", "--json").out)
    assert {"name": "grid-room", "states": 272}.items() <= worlds[2].items()
    monkeypatch.setattr(sys, "argv", ["drogo", "--version"])
    runpy.run_module("drogo", run_name="__main__")
    assert capsys.readouterr().out == f"drogo {drogo.__version__}\n"


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_no_option_has_a_default_that_says_nothing(verb, command):
    answer = command(verb, "--help")
    assert answer.status == 0
    assert not {"None", "False"} & set(re.findall(r"default: (\w+)", answer.out))


@pytest.fixture
def verb_of_another_package(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "other_package.py").write_text(VERBS)
    metadata = tmp_path / "other_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
    entries = "[drogo.verbs]\nfail = other_package:Fail\nabsent = other_package:Absent\n"
    (metadata / "entry_points.txt").write_text(entries)


@pytest.mark.filterwarnings("always")
def test_verbs_of_other_packages_and_exit_statuses(command, tmp_path, verb_of_another_package):
    answer = command("fail", "--how", "warn")
    assert (answer.out, answer.status) == ("fine\n", 0)
    assert "'absent' (other_package:Absent) cannot be loaded" in answer.err
    assert answer.err.splitlines()[-1] == "drogo: mind the step"
    reading, writing = os.pipe()
    os.close(reading)
    for place, line in ((tmp_path / "out", "fail --how pipe"), (writing, "learn --help")):
        with open(place, "w") as out, redirect_stdout(out), pytest.raises(SystemExit) as stopped:
            main(line.split())
        assert stopped.value.code == 141
    with pytest.raises(ValueError, match="a mistake in the code"):
        command("fail", "--how", "bug", "--json")


@pytest.mark.usefixtures("verb_of_another_package")
@pytest.mark.parametrize("how", ["slow to load", "wait", "compiled"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_soon_and_without_a_traceback(how, number, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command, pipe = [sys.executable, "-m", "drogo", "fail", "--how", how], subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
    assert time.monotonic() - began < 5  # most of which would be the noise of a busy machine
    assert process.returncode == 128 + number
    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert (errors.splitlines()[-1], "Traceback" in errors) == (f"drogo: {word}", False)


@pytest.mark.parametrize(("line", "kind"), ERRORS.items())
def test_an_error_is_one_line_and_json(command, tmp_path, monkeypatch, line, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.txt").write_text("#####\n#S?G#\n#####")
    answer = command(*line.split(), "--json")
    error = json.loads(answer.out)
    assert (answer.status, error["kind"], answer.err) == (2, kind, f"drogo: {error['error']}\n")


@pytest.fixture
def odd_map(tmp_path):
    (path := tmp_path / f"{ODD}.txt").write_text("#####\n#S.G#\n#####")
    return path


def test_names_and_numbers_are_shown_as_they_are(odd_map, tmp_path, command, monkeypatch):
    """With rich's markup and emoji codes, what matplotlib takes for a formula, and 20 columns."""
    monkeypatch.setenv("COLUMNS", "400")
    as_png, figures = plot.as_png, []
    monkeypatch.setattr(plot, "as_png", lambda f: figures.append(f) or as_png(f))
    answer = command("exact", odd_map, "--out", tmp_path / "out")
    # In the title, which has line breaks, and in the name of the result.
    assert "".join(answer.out.split()).count("".join(ODD.split())) == 2
    title = figures[0].axes[0].title
    shown, is_formula = title._preprocess_math(title.get_text())
    assert not is_formula
    assert shown.startswith(f"{ODD}: column")
    monkeypatch.setenv("COLUMNS", "20")
    lines = command("exact", odd_map, "--out", tmp_path / "narrow").out.splitlines()
    (directory,) = (tmp_path / "narrow").iterdir()
    whole = f"{NEW}: {directory}/picture.png with vector.npz"
    assert {"log e: -0.505197 to 0", "status: converged", whole} <= set(lines)
    assert "\nGymnasium id: drogo/GridTask-v0\n" in command("envs").out


def test_bold_cells_and_terminals_with_only_ascii(capsys, monkeypatch, odd_map, tmp_path):
    for width, expected in (("80", "[1.5]"), ("5", "number: [1.5]")):
        monkeypatch.setenv("COLUMNS", width)
        print_table(terminal(), table("title", "", [{"number": f"{BOLD}[1.5]{BOLD}"}], left=()))
        assert expected in [line.strip() for line in capsys.readouterr().out.splitlines()]
    monkeypatch.setenv("COLUMNS", "200")
    path = odd_map.rename(tmp_path / "é☃.txt")
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with redirect_stdout(out):
        main(["exact", str(path), "--out", str(tmp_path / "out")])
    text = out.buffer.getvalue().decode()
    assert "converged" in text
    assert "\\xe9\\u2603.txt,3states" in "".join(text.split())
