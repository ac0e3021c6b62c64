"""What an online map says at one moment, and goes on saying while the map learns more.

An agent asks its map at every step, about a single observation. NumPy evaluates a small network for
that in less time than it takes to call a compiled program. More observations at once go through a
compiled one: NumPy would share even small products of matrices among threads, which takes a
hundred times as long wherever another process keeps a core busy.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from drogo.learn.networks import Layer, dense, fourier

FEW = 4
"""NumPy evaluates up to so many observations."""
ONE_THREAD = {"xla_cpu_multi_thread_eigen": False}
"""The matrices of an online map are so small that sharing them among threads costs time."""

Number = Float[np.ndarray | Array, ""]
Numbers = Float[np.ndarray | Array, " size"]


class Moment(NamedTuple):
    """What is asked of the state of an `OnlineLearner` again and again."""

    latest: tuple[Layer, ...]
    """The network after the last update."""
    average: tuple[Layer, ...]
    """The network with the running mean of its parameters: those of a single update jump about."""
    shift: Numbers
    width: Numbers
    """A network sees the numbers of an observation less `shift`, times `width`."""
    scale: Number
    """What the outputs of a network are multiplied by."""
    ceiling: Number
    """The largest value of the map: no way is better than its end."""
    mean_step: Number
    """The mean difference of the map between the two ends of a step."""
    updates: Int[np.ndarray | Array, ""]
    diverged_at: Int[np.ndarray | Array, ""]


def promised(
    moment: Moment, observations: Shaped[Any, "n ..."], averaged: bool
) -> Float[Any, "n actions"]:
    """Returns the log of what a map promises of each action, up to a constant, in NumPy or in JAX
    as everything came.

    Args:
        moment: What the map says.
        observations: A batch of observations.
        averaged: Whether the network with the running mean of its parameters says so.
    """
    layers, size = moment.average if averaged else moment.latest, moment.shift.size
    flat = observations.reshape(len(observations), size).astype(np.float32)
    inputs = (flat - moment.shift[None]) * moment.width[None]
    frequencies = (layers[0].weight.shape[1] // size - 1) // 2
    return moment.scale * dense(layers, fourier(inputs, frequencies))


_compiled = jax.jit(promised, static_argnums=2, compiler_options=ONE_THREAD)


@dataclass(frozen=True)
class Answers:
    """Evaluates what a map says at one moment.

    Args:
        moment: What it says, in arrays of JAX that nothing else uses.
    """

    moment: Moment

    @functools.cached_property
    def host(self) -> Moment:
        """The same in arrays of NumPy. Asking for it waits for the update that it comes from."""
        return jax.tree.map(np.asarray, self.moment)

    def logits(
        self, observations: Shaped[np.ndarray, "n ..."], *, averaged: bool = False
    ) -> Float[np.ndarray, "n actions"]:
        """Returns the log of what the map promises of each action, up to a constant: 0 before the
        first update.

        Args:
            observations: A batch of observations.
            averaged: Whether the network with the running mean of its parameters says so.
        """
        n = len(observations)
        if not self.host.updates:
            return np.zeros((n, self.host.latest[-1].out_features))
        if n <= FEW:
            logits = promised(self.host, observations, averaged)
        else:  # a size that is a power of two: each is compiled
            size = 1 << (n - 1).bit_length()
            filled = observations
            if n < size:
                filled = np.resize(observations, (size, *observations.shape[1:]))
            logits = np.asarray(_compiled(self.moment, filled, averaged))[:n]
        return np.asarray(logits, dtype=np.float64)

    def value(self, observations: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, " n"]:
        """Returns the map at some observations: 0 everywhere before the first update.

        Args:
            observations: A batch of observations.
        """
        if not self.host.updates:
            return np.zeros(len(observations))
        logits = self.logits(observations, averaged=True)
        return np.minimum(np.logaddexp.reduce(logits, axis=1), float(self.host.ceiling))
