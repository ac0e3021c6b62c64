# The public names of this room. `__init__.py` reads this file, and so do type checkers.
from .columns import (
    log_columns as log_columns,
    solve_columns as solve_columns,
    transfer as transfer,
)
from .definitions import (
    LogVector as LogVector,
    default_representation as default_representation,
    log_column as log_column,
    solve as solve,
)
from .growth import perron as perron, spectral_radius as spectral_radius
from .spectra import (
    Eigenvectors as Eigenvectors,
    cosines as cosines,
    overlap as overlap,
    spectrum as spectrum,
)
