"""`fit_continuing`: the map of a task that never ends, and what a step is worth in it.

A state takes the place of the terminal one. With all rewards lowered by what a step is worth, the
episodes from this reference state back to it are worth nothing on balance, and a map is learned
that is 0 there, as any other map is learned that is 0 in a terminal state. What a step is worth
follows from the data: it is the largest eigenvalue of the problem that they describe.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from drogo.data import DefaultPolicy, Transitions, under
from drogo.data.empirical import empirical
from drogo.data.table import merge_equal
from drogo.errors import ArgumentError, DataError, check_number
from drogo.exact.growth import Steps, classes, growth
from drogo.learn.arguments import Seeds
from drogo.learn.fit import fit
from drogo.learn.policy import Policy
from drogo.learn.result import LogEigenvector
from drogo.learn.train import Callback
from drogo.potential import Potential

EXPECTED = ("observation(s) are terminal states in some", "rewards are not negative. The vector is")
"""Warnings that are no news here: the reference state is left again, and rewards are lowered."""


@dataclass(frozen=True, eq=False, repr=False)
class ContinuingMap:
    """A map of a task that never ends, for each seed, and what a step is worth."""

    v: Float[np.ndarray, "seeds distinct"]
    """log e at every distinct observation of the data, 0 at the reference."""
    log_eigenvalue: float
    """The log of the largest eigenvalue of `diag(exp(r/lam)) P`, by the data."""
    lam: float
    reference: int
    """The row of `observations` at which the map is 0."""
    fit: LogEigenvector
    """The fit to rewards that are lowered by `gain`, with the reference as the terminal state."""

    def __repr__(self) -> str:
        return f"ContinuingMap(gain {self.gain:.6g}, reference {self.reference}, {self.fit!r})"

    @property
    def gain(self) -> float:
        """`lam log(eigenvalue)`: what a step is worth on average, as in `exact.Perron`."""
        return self.lam * self.log_eigenvalue

    @property
    def status(self) -> tuple[str, ...]:
        """The status of each seed, as of any fit."""
        return self.fit.status

    @property
    def observations(self) -> np.ndarray:
        """The distinct observations of the data."""
        return self.fit.observations

    def policy(self, seed: int = 0) -> Policy:
        """Returns the policy that one seed has learned, if the objective is "q".

        Args:
            seed: One of the seeds.
        """
        return self.fit.policy(seed)

    def potential(self, seed: int = 0, *, normalised: bool = True) -> Potential:
        """Returns the map of one seed as a potential, as `LogEigenvector.potential` does.

        Args:
            seed: One of the seeds.
            normalised: Whether to divide by the mean difference between neighbours in the data.
        """
        return self.fit.potential(seed, normalised=normalised)


def fit_continuing(
    data: Transitions,
    *,
    lam: float = 20.0,
    reference: Any = None,
    seeds: Seeds = 1,
    default_policy: DefaultPolicy | None = None,
    checkpoint: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> ContinuingMap:
    """Learns the map of a task that never ends, and what a step is worth in it.

    Args:
        data: The transitions, of states that repeat. None of them is terminated, and their rewards
            may have any sign and may depend on the action and on the next state.
        lam: The temperature lambda.
        reference: The observation at which the map is 0; by default that of the first transition.
            It must be come back to again and again.
        seeds: As in `fit`.
        default_policy: As in `fit`.
        checkpoint: As in `fit`.
        callbacks: As in `fit`.
        **settings: As in `fit`. The objective is "q" if the data have discrete actions, so that a
            policy follows, and otherwise "drogo".

    Returns:
        The map of each seed, and what a step is worth.

    Raises:
        DataError: It cannot be learned from these data.
        Diverged: All seeds diverged.
    """
    lam = check_number("lam", lam)
    if lam <= 0:
        raise ArgumentError(f"lam is {lam}; it must be a positive number.")
    if data.terminated.any():
        raise DataError(
            f"{int(data.terminated.sum())} of the {len(data)} transitions are terminated, so this "
            "task ends.",
            remedy="Use fit, in which terminal states hold the map in place.",
        )
    if not data.repeats:
        raise DataError(
            "what a step is worth is computed from states that repeat, and in these "
            f"{len(data)} transitions there are {len(data.observations)} different observations.",
            remedy="Give coarser observations.",
        )
    row = _row_of(data, reference)
    weighed, _ = under(data, default_policy)
    log_eigenvalue = _log_eigenvalue(empirical(weighed, lam).steps, row)
    lowered = replace(
        data,
        reward=data.reward - lam * log_eigenvalue,
        terminated=data.next_state == row,
        terminal_value=np.zeros(len(data)),
    )
    objective = "drogo" if data.n_actions is None else "q"
    with warnings.catch_warnings():
        for expected in EXPECTED:
            warnings.filterwarnings("ignore", f".*{expected.replace('(s)', '.s.')}", UserWarning)
        found = fit(
            lowered,
            lam=lam,
            seeds=seeds,
            default_policy=default_policy,
            checkpoint=checkpoint,
            callbacks=callbacks,
            **{"objective": objective, "scaled": True, **settings},
        )
    v = found.v - found.v[:, [row]]
    return ContinuingMap(v, log_eigenvalue, lam, row, found)


def _row_of(data: Transitions, reference: Any) -> int:
    """Returns the row of an observation in the table."""
    if reference is None:
        return int(data.state[0])
    table = np.asarray(data.observations)
    try:
        one = np.asarray(reference, dtype=table.dtype).reshape(1, *table.shape[1:])
    except (TypeError, ValueError):
        one = None
    if one is not None:
        _, index = merge_equal(np.concatenate([table, one]))
        rows = np.flatnonzero(index[:-1] == index[-1])
        if rows.size:
            return int(rows[0])
    raise ArgumentError(
        f"reference is {reference!r}, which is none of the {len(table)} observations of the data."
    )


def _log_eigenvalue(steps: Steps, row: int) -> float:
    """Returns the log of the eigenvalue of the class of states that the reference is in."""
    everything = np.arange(steps.n) < steps.n - 1  # the last one stands for terminal states
    for part in classes(steps, everything):
        if part[row]:
            return growth(steps, part).log_eigenvalue
    raise DataError(
        f"observation {row} of the table, the reference, is never come back to in these data.",
        remedy="Choose another reference=, or collect more transitions.",
    )
