"""Peers that some tests talk to: without one, a test is skipped, or fails in CI."""

import importlib
import os
import shutil

import pytest


def module(name, why=""):
    """Returns a module, or skips the test (in CI: fails it) if it cannot be imported."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        _missing(f"{name} cannot be imported: {error}. {why}".strip())


def program(*names):
    """Returns the path of the first of some programs that is installed, or skips or fails."""
    for name in names:
        if path := shutil.which(name):
            return path
    return _missing(f"none of {', '.join(names)} is installed")


def _missing(reason):
    if os.environ.get("CI"):
        pytest.fail(f"CI must have it: {reason}", pytrace=False)
    pytest.skip(reason, allow_module_level=True)
