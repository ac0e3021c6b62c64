"""Transitions to learn from, and how to collect them."""

from drogo import public
from drogo.data.collect import collect
from drogo.data.empirical import DefaultPolicy, under
from drogo.data.step import Step
from drogo.data.transitions import Transitions

__all__ = ["DefaultPolicy", "Step", "Transitions", "collect", "under"]

public.check_all(globals())
