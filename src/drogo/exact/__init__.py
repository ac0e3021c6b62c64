"""Exact solutions, in the log domain: the default and the successor representation."""

from drogo.errors import NotConverged
from drogo.exact.definitions import (
    DEFINITIONS,
    log_column,
    log_eigenvector,
    solve,
    successor_eigenvector,
)
from drogo.exact.dense import default_representation, successor_representation
from drogo.exact.rows import TERMINAL_FORMULATIONS
from drogo.exact.solution import Solution

__all__ = [
    "DEFINITIONS",
    "TERMINAL_FORMULATIONS",
    "NotConverged",
    "Solution",
    "default_representation",
    "log_column",
    "log_eigenvector",
    "solve",
    "successor_eigenvector",
    "successor_representation",
]
