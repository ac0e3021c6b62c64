"""Transitions to learn from, and how to collect them."""

from drogo.data.collect import collect
from drogo.data.empirical import DefaultPolicy, under
from drogo.data.step import Step
from drogo.data.transitions import Transitions
from drogo.public import check_all

__all__ = ["DefaultPolicy", "Step", "Transitions", "collect", "under"]

check_all(globals())
