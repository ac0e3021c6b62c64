"""An exact answer that knows how good it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

TOLERANCE = 1e-9
"""Largest residual, and largest last correction to a log entry, of a converged answer."""


class NotConverged(ArithmeticError):
    """An exact solver stopped before every entry was right."""


@dataclass(frozen=True)
class Solution:
    """`log_e` and its certificates."""

    log_e: Float[np.ndarray, " states"]
    definition: str
    lam: float
    delta: float
    terminal: str
    eigenvalue: float | None
    """`transition`: of `R - (P + P^T)/2`, the smallest. `representation`: of `(Z + Z^T)/2`, the
    largest. `right`: of `R - P`, the smallest. `column`: None, it is not an eigenvector."""
    bracket: tuple[float, float] | None
    """Collatz-Wielandt bounds that hold the eigenvalue whatever happened before; None for
    `column`. Rounding widens them by about 1e-16 times the largest `exp(-r/lam)`."""
    residual: float
    """Largest violation of a row's equation, relative to that row's diagonal term."""
    correction: float
    """Largest change of a log entry in the last refinement: an estimate of the error left."""

    @property
    def status(self) -> Literal["converged", "inaccurate"]:
        good = self.residual <= TOLERANCE and self.correction <= TOLERANCE
        return "converged" if good else "inaccurate"

    def checked(self) -> Solution:
        """This solution, or `NotConverged`."""
        if self.status != "converged":
            raise NotConverged(
                f"the {self.definition} vector at lam = {self.lam:g} is not accurate: residual "
                f"{self.residual:.1e}, last correction {self.correction:.1e} (both should be "
                f"below {TOLERANCE:g}). Two nearly equal eigenvalues do this: terminal states "
                "that hardly see each other. exact.log_column has no such problem; exact.solve "
                "returns the vector as it is."
            )
        return self
