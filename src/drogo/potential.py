"""`Potential`: a number for every observation, from which shaping rewards are made.

Where shaping rewards and original rewards are mixed, the scale of a potential matters. Divided by
its mean difference between neighbouring states, a potential has the same scale as any other, and a
mixing weight means the same for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from drogo.data.arrays import as_type
from drogo.data.table import row_bytes
from drogo.data.transitions import Transitions
from drogo.errors import ArgumentError

Function = Callable[[np.ndarray], Any]
"""From a batch of observations to one number for each."""
SingleFunction = Callable[[np.ndarray], float]
"""From one observation to its number."""
Neighbours = Int[np.ndarray, "pairs 2"]
"""Indices of states that are one step apart, each pair once."""


@dataclass(frozen=True)
class Potential:
    """A function of observations, with checks. It is called with a batch; `at` takes a single one.

    `result.potential()` makes one from a fit, and `Potential.from_states` from a vector.

    Args:
        function: Computes the values of a batch of observations.
        shape: The shape of one observation, or None to accept any.
        discount: The discount that the potential was made for, if it depends on one.
        name: How error messages call the potential.
        single: Computes the value of one observation, if that is possible faster than by calling
            `function` with a batch of one.
    """

    function: Function
    shape: tuple[int, ...] | None = None
    discount: float | None = None
    name: str = "the potential"
    single: SingleFunction | None = None

    def __call__(self, observations: Any) -> Float[np.ndarray, " batch"]:
        """Computes the values of a batch of observations.

        Args:
            observations: The batch.

        Returns:
            One finite number for each observation.
        """
        batch = np.asarray(observations)
        self._check_shape(batch.shape[1:])
        values = self._values(batch)
        finite = np.isfinite(values)
        if not finite.all():
            first = int(finite.argmin())
            raise self._not_finite(values[first], batch[first])
        return values

    def at(self, observation: Any) -> float:
        """Computes the value of a single observation.

        Args:
            observation: The observation.

        Returns:
            A finite number.
        """
        array = np.asarray(observation)
        self._check_shape(array.shape)
        value = self.single(array) if self.single is not None else self._values(array[None])[0]
        if not math.isfinite(value):
            raise self._not_finite(value, array)
        return float(value)

    @classmethod
    def from_states(
        cls,
        observations: np.ndarray,
        values: Float[np.ndarray, " states"],
        *,
        discount: float | None = None,
        name: str = "the potential",
        otherwise: Potential | None = None,
    ) -> Potential:
        """Makes a potential from a vector over states.

        Args:
            observations: The observation of each state. It is recognised bit for bit.
            values: The value of each state.
            discount: The discount that the values were made for, if they depend on one.
            name: How error messages call the potential.
            otherwise: The potential of all other observations. Without it they are an error.

        Returns:
            The potential.
        """
        try:
            table, values = np.asarray(observations), np.asarray(values)
        except ValueError as error:  # rows of different lengths
            raise ArgumentError(f"observations or values are not an array: {error}.") from error
        if not table.ndim or not values.ndim:
            raise ArgumentError(f"{name} needs an observation and a value for each state.")
        if len(table) != len(values):
            raise ArgumentError(f"{len(values)} values do not fit {len(table)} observations.")
        keys, listed = row_bytes(table).tolist(), values.tolist()
        known = dict(zip(keys, listed, strict=True))
        conflicts = [k for k, key in enumerate(keys) if known[key] != listed[k]]
        if conflicts and len(known) < len(keys):
            raise ArgumentError(
                f"{name} has two values for observation {_short(table[conflicts[0]])}: "
                f"{listed[conflicts[0]]} and {known[keys[conflicts[0]]]}."
            )
        lookup = _Lookup(known, table.dtype, name, otherwise)
        return cls(lookup, table.shape[1:], discount, name, lookup.single)

    def normalised(self, data: Transitions) -> Potential:
        """Divides the potential by its mean difference between neighbours.

        Args:
            data: The observations, and which of them are neighbours.

        Returns:
            The same potential in another scale.
        """
        scale = float(mean_step(self(data.observations), data.neighbours))
        function, single = self.function, self.single
        return replace(
            self,
            function=lambda batch: np.asarray(function(batch)) / scale,
            single=single and (lambda observation: single(observation) / scale),
        )

    def _values(self, batch: np.ndarray) -> np.ndarray:
        values = np.asarray(self.function(batch), dtype=np.float64)
        if values.shape != (len(batch),):
            raise ArgumentError(
                f"{self.name} returned shape {values.shape} for {len(batch)} observation(s). It is "
                f"called with a batch and must return one number for each: ({len(batch)},)."
            )
        return values

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if self.shape is not None and shape != self.shape:
            raise ArgumentError(
                f"{self.name} takes observations of shape {self.shape}, and got one of shape "
                f"{shape}. Call it with a batch of observations, or its method `at` with a single "
                "one."
            )

    def _not_finite(self, value: float, observation: np.ndarray) -> ArgumentError:
        return ArgumentError(
            f"{self.name} is {value} at observation {_short(observation)}; a shaping reward needs "
            "a finite number everywhere."
        )


@dataclass(frozen=True, repr=False)
class _Lookup:
    """The values of known observations, by their bytes, and another potential for all others."""

    known: dict[bytes, float]
    dtype: np.dtype
    name: str
    otherwise: Potential | None

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        batch = as_type(self.name, batch, self.dtype)
        keys = row_bytes(batch).tolist()
        values = np.array([self.known.get(key, np.nan) for key in keys])
        unknown = np.array([key not in self.known for key in keys], dtype=bool)
        if unknown.any():
            values[unknown] = self._other(batch[unknown][0])(batch[unknown])
        return values

    def single(self, observation: np.ndarray) -> float:
        observation = as_type(self.name, observation, self.dtype)
        value = self.known.get(observation.tobytes())
        return self._other(observation).at(observation) if value is None else value

    def _other(self, observation: np.ndarray) -> Potential:
        if self.otherwise is None:
            raise ArgumentError(
                f"{self.name} knows {len(self.known)} states, and observation "
                f"{_short(observation)} is none of them. It was made for another environment, or "
                "for another kind of observation."
            )
        return self.otherwise


def mean_step(
    values: Float[np.ndarray, "*seeds states"], neighbours: Neighbours
) -> Float[np.ndarray, "*seeds"] | np.float64:
    """Computes the mean absolute difference between neighbours of each vector over states."""
    if len(neighbours) == 0:
        raise ArgumentError("no state has a neighbour, so that a potential cannot be normalised.")
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
    """Divides each vector over states by its mean absolute difference between neighbours."""
    return values / np.asarray(mean_step(values, neighbours))[..., None]


def _short(observation: np.ndarray) -> str:
    if observation.size > 8:
        return f"(shape {observation.shape}, {observation.ravel()[:4]} ...)"
    return np.array2string(observation, precision=4)
