"""Exact solutions, in the log domain: the default and the successor representation."""

from drogo import public
from drogo.exact.columns import (
    log_columns as log_columns,
    solve_columns as solve_columns,
    transfer as transfer,
)
from drogo.exact.definitions import (
    LogVector as LogVector,
    default_representation as default_representation,
    log_column as log_column,
    log_eigenvector as log_eigenvector,
    solve as solve,
)
from drogo.exact.growth import perron as perron, spectral_radius as spectral_radius
from drogo.exact.spectra import (
    Eigenvectors as Eigenvectors,
    cosines as cosines,
    overlap as overlap,
    spectrum as spectrum,
)

public.check_all(globals())
