"""`Solution`: an exact vector and its accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from drogo.errors import NotConverged

TOLERANCE = 1e-9
"""The largest residual, and estimated error of a log entry, of a converged solution."""


def tolerance_at(largest: Any) -> Any:
    """Returns the tolerance for logs of a given size: 1e-8 for a log of 1e8."""
    return TOLERANCE + 8 * np.finfo(float).eps * largest


class Vector(NamedTuple):
    """The result of a solver; `Solution` documents the fields."""

    log_e: Float[np.ndarray, " n"]
    eigenvalue: Any
    bracket: Any
    residual: float
    error: float


@dataclass(frozen=True)
class Solution:
    """A vector in logs, the parameters that define it, and its accuracy."""

    definition: str
    lam: float
    delta: float
    terminal: str
    log_e: Float[np.ndarray, " states"]
    """The vector: `v` for `column`, otherwise the log of an eigenvector of unit norm."""
    eigenvalue: float | None
    """For `transition`, the smallest of `R - (P + P^T)/2`. For `representation`, the largest of
    `(Z + Z^T)/2`. For `right`, the smallest of `R - P`. None for `column`."""
    bracket: tuple[float, float] | None
    """Collatz-Wielandt bounds of the eigenvalue, valid for any positive vector. Rounding widens
    them by about 1e-16 times the largest `exp(-r/lam)`. None for `column`."""
    residual: float
    """The largest violation of a row's equation, relative to that row's diagonal term."""
    error: float
    """The estimated largest error of a log entry: the last refinement, or rounding as the problem
    amplifies it, whichever is larger."""

    @property
    def tolerance(self) -> float:
        """The largest residual and error of a converged solution."""
        finite = self.log_e[np.isfinite(self.log_e)]
        return tolerance_at(float(np.abs(finite).max(initial=0.0)))

    @property
    def status(self) -> Literal["converged", "inaccurate"]:
        """Whether every entry is accurate."""
        good = self.residual <= self.tolerance and self.error <= self.tolerance
        return "converged" if good else "inaccurate"

    def checked(self) -> Solution:
        """Returns this solution, or raises `NotConverged` if some entry is not accurate."""
        if self.status != "converged":
            raise NotConverged(
                f"the {self.definition} vector at lam = {self.lam:g} is not accurate: its residual "
                f"is {self.residual:.1e} and the estimated error of a log entry {self.error:.1e} "
                f"(both should be below {self.tolerance:.1g}). Either terminal states hardly "
                "interact, so that their eigenvalues are nearly equal, or costs are beyond the "
                "range of double precision.",
                remedy="exact.log_column has neither problem; exact.solve returns the vector as "
                "it is.",
                command_remedy="--definition column has neither problem.",
            )
        return self
