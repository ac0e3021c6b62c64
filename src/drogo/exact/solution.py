"""An exact answer that knows how good it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from drogo.errors import NotConverged

TOLERANCE = 1e-9
"""Largest residual, and largest estimated error of a log entry, of a converged answer."""


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
    error: float
    """Estimated largest error of a log entry: the last refinement, or rounding as the problem
    amplifies it, whichever is larger."""

    @property
    def tolerance(self) -> float:
        """A log of 1e8 as a double is itself only good to 1e-8."""
        finite = self.log_e[np.isfinite(self.log_e)]
        return TOLERANCE + 8 * np.finfo(float).eps * float(np.abs(finite).max(initial=0.0))

    @property
    def status(self) -> Literal["converged", "inaccurate"]:
        good = self.residual <= self.tolerance and self.error <= self.tolerance
        return "converged" if good else "inaccurate"

    def checked(self) -> Solution:
        """This solution, or `NotConverged`."""
        if self.status != "converged":
            raise NotConverged(
                f"the {self.definition} vector at lam = {self.lam:g} is not accurate: residual "
                f"{self.residual:.1e}, estimated error of a log entry {self.error:.1e} (both "
                f"should be below {self.tolerance:.1g}). Ends that hardly see each other have "
                "nearly equal eigenvalues, which does this; so do costs beyond the range of "
                "double precision. exact.log_column suffers from neither; exact.solve returns "
                "the vector as it is."
            )
        return self
