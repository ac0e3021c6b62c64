"""Exact solutions, in the log domain: the default and the successor representation."""

from drogo.exact.columns import log_columns, solve_columns, transfer
from drogo.exact.definitions import (
    LogVector,
    default_representation,
    log_column,
    log_eigenvector,
    solve,
)
from drogo.exact.growth import perron, spectral_radius
from drogo.exact.spectra import Eigenvectors, cosines, overlap, spectrum

__all__ = [
    "Eigenvectors",
    "LogVector",
    "cosines",
    "default_representation",
    "log_column",
    "log_columns",
    "log_eigenvector",
    "overlap",
    "perron",
    "solve",
    "solve_columns",
    "spectral_radius",
    "spectrum",
    "transfer",
]
