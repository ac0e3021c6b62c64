"""Transitions, the data that a vector is learned from, and how to collect them."""

from drogo.data.collect import collect
from drogo.data.default import DefaultPolicy, under
from drogo.data.empirical import spectral_radius
from drogo.data.step import Step
from drogo.data.transitions import Transitions

__all__ = ["DefaultPolicy", "Step", "Transitions", "collect", "spectral_radius", "under"]
