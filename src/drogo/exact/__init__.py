"""Exact solutions, in the log domain: the default and the successor representation."""

from drogo.exact.columns import log_columns, solve_columns, transfer
from drogo.exact.continuing import perron
from drogo.exact.definitions import log_column, log_eigenvector, solve
from drogo.exact.dense import default_representation
from drogo.exact.finite import spectral_radius
from drogo.exact.solution import Solution
from drogo.exact.spectra import Spectrum, spectrum
from drogo.exact.subspaces import cosines, overlap

__all__ = [
    "Solution",
    "Spectrum",
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
