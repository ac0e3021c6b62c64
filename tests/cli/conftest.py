"""The command line in this process."""

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest

from drogo.cli import main


class Answer(NamedTuple):
    out: str
    err: str
    status: int


def run(*arguments):
    out, err, status = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            status = int(stop.code or 0)
    return Answer(out.getvalue(), err.getvalue(), status)


@pytest.fixture(scope="session")
def command():
    """Runs the command: standard output, standard error and exit status."""
    return run


@pytest.fixture
def no_pictures(monkeypatch):
    """Drawing takes longer than learning a tiny map."""
    import drogo
    from drogo.cli import pictures

    for name in ("exact", "learned"):
        monkeypatch.setattr(pictures, name, lambda *arguments: None)
    monkeypatch.setattr(drogo.plot, "as_png", lambda figure: b"")
