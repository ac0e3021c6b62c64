"""The command line: a file for each verb."""

from drogo.cli.main import main

__all__ = ["main"]
