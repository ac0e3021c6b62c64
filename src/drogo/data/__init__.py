"""Transitions to learn from, and how to collect them."""

from drogo.data.collect import CollectOptions, collect
from drogo.data.empirical import DefaultPolicy, under
from drogo.data.index import ObservationIndex
from drogo.data.step import Step
from drogo.data.transitions import Transitions

__all__ = ["CollectOptions", "DefaultPolicy", "ObservationIndex", "Step", "Transitions", "collect",
           "under"]  # fmt: skip
