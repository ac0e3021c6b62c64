"""`Potential`: a number for every observation, by which a reward may be shaped.

Its scale matters when shaped and original rewards are mixed: divided by the mean step between
neighbours, any two potentials are comparable, and a mixing weight means the same for both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from drogo.errors import ArgumentError

Function = Callable[[np.ndarray], Any]
"""From a batch of observations to one number for each."""
Neighbours = Int[np.ndarray, "pairs 2"]
"""Indices of states that are one step apart, each pair once."""


@runtime_checkable
class HasNeighbours(Protocol):
    """`Transitions`, or anything else that has a table of observations and pairs into it."""

    @property
    def observations(self) -> np.ndarray: ...

    @property
    def neighbours(self) -> np.ndarray: ...


@dataclass(frozen=True)
class Potential:
    """Call it with a batch of observations. What is not a finite number is an error.

    Make one from a fit (`result.potential(seed=0)`), from a vector over states
    (`Potential.from_states`), or from any function of a batch of observations
    (`Potential(function)`).
    """

    function: Function
    shape: tuple[int, ...] | None = None
    """Of one observation; None takes any."""
    discount: float | None = None
    """The discount it belongs to, where it has one: the SR does, the DR does not."""
    name: str = "the potential"

    def __call__(self, observations: Any) -> Float[np.ndarray, " batch"]:
        batch = np.asarray(observations)
        if self.shape is not None and batch.shape[1:] != self.shape:
            raise ArgumentError(
                f"{self.name} takes observations of shape {self.shape}, in batches; these have "
                f"shape {batch.shape[1:]}."
            )
        values = np.asarray(self.function(batch), dtype=np.float64)
        if values.shape != (len(batch),):
            raise ArgumentError(
                f"{self.name} returned shape {values.shape} for {len(batch)} observation(s); it is "
                f"called with a batch and must return one number for each: ({len(batch)},)."
            )
        bad = ~np.isfinite(values)
        if bad.any():
            first = int(bad.argmax())
            raise ArgumentError(
                f"{self.name} is {values[first]} at observation {_short(batch[first])}; a shaping "
                "reward needs a finite number everywhere."
            )
        return values

    @classmethod
    def from_states(
        cls,
        observations: np.ndarray,
        values: Float[np.ndarray, " states"],
        *,
        discount: float | None = None,
        name: str = "the potential",
    ) -> Potential:
        """A vector over states, looked up by their observations (equal bit for bit)."""
        table = np.asarray(observations)
        if len(table) != len(values):
            raise ArgumentError(f"{len(values)} values do not fit {len(table)} observations.")
        known = Lookup(table, np.asarray(values, dtype=np.float64), name)
        return cls(known, table.shape[1:], discount, name)

    def normalised(self, data: HasNeighbours) -> Potential:
        """Scaled so that it changes by 1 on average between neighbours seen in `data`."""
        step = mean_step(self(data.observations), data.neighbours)
        function = self.function
        return replace(self, function=lambda batch: np.asarray(function(batch)) / step)


class Lookup:
    """Values by observation, bit for bit; what is not in the table goes to `otherwise`."""

    def __init__(
        self,
        table: np.ndarray,
        values: Float[np.ndarray, " states"],
        name: str,
        otherwise: Function | None = None,
    ) -> None:
        self.dtype = table.dtype
        self.known = dict(zip(map(_key, table), values.tolist(), strict=True))
        self.name = name
        self.otherwise = otherwise

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        batch = batch.astype(self.dtype, copy=False)
        found = [self.known.get(_key(row)) for row in batch]
        if None not in found:
            return np.array(found, dtype=np.float64)
        new = np.array([value is None for value in found])
        if self.otherwise is None:
            unknown = _short(batch[int(new.argmax())])
            raise ArgumentError(
                f"{self.name} knows {len(self.known)} states, and observation {unknown} is none of "
                "them: was it made for another environment, or another kind of observation?"
            )
        values = np.array([0.0 if value is None else value for value in found])
        values[new] = self.otherwise(batch[new])
        return values


def mean_step(values: Float[np.ndarray, "*seeds states"], neighbours: Neighbours) -> Any:
    """Mean absolute difference between neighbours: what one step is worth on average."""
    if len(neighbours) == 0:
        raise ArgumentError(
            "no state has a neighbour: there is no step to normalise a potential by."
        )
    step = np.abs(values[..., neighbours[:, 0]] - values[..., neighbours[:, 1]]).mean(axis=-1)
    if not (np.isfinite(step) & (step > 0)).all():
        raise ArgumentError(
            f"the mean difference between neighbours is {np.min(step)}; a potential that is "
            "constant, or infinite somewhere, cannot be normalised."
        )
    return step


def normalised(
    values: Float[np.ndarray, "*seeds states"], neighbours: Neighbours
) -> Float[np.ndarray, "*seeds states"]:
    """Vectors over states, each divided by its mean step between neighbours."""
    return values / np.asarray(mean_step(values, neighbours))[..., None]


def _key(observation: Any) -> bytes:
    return np.ascontiguousarray(observation).tobytes()


def _short(observation: Any) -> str:
    array = np.asarray(observation)
    if array.size > 8:
        return f"(shape {array.shape}, {array.ravel()[:4]} ...)"
    return np.array2string(array, precision=4)
