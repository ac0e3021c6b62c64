"""Exact solutions, in the log domain: the default and the successor representation."""

from drogo.errors import NotConverged as NotConverged
from drogo.exact.columns import (
    Columns as Columns,
    log_columns as log_columns,
    solve_columns as solve_columns,
    transfer as transfer,
)
from drogo.exact.continuing import (
    Perron as Perron,
    average_reward as average_reward,
    perron as perron,
    perron_of_steps as perron_of_steps,
)
from drogo.exact.definitions import (
    DEFINITIONS as DEFINITIONS,
    log_column as log_column,
    log_eigenvector as log_eigenvector,
    solve as solve,
    successor_eigenvector as successor_eigenvector,
)
from drogo.exact.dense import (
    default_representation as default_representation,
    log_perron as log_perron,
    successor_representation as successor_representation,
)
from drogo.exact.finite import spectral_radius as spectral_radius
from drogo.exact.growth import Steps as Steps
from drogo.exact.low_rank import update as update
from drogo.exact.rows import TERMINAL_FORMULATIONS as TERMINAL_FORMULATIONS
from drogo.exact.solution import Solution as Solution
from drogo.exact.spectra import MATRICES as MATRICES, Spectrum as Spectrum, spectrum as spectrum
from drogo.exact.subspaces import (
    contained as contained,
    cosines as cosines,
    overlap as overlap,
)
