"""The command line, with one file per verb."""

from drogo.cli.main import main

__all__ = ["main"]
