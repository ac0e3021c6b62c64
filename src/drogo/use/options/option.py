"""`Option`: a policy that begins in some states and ends in some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Option:
    """A course of action over several steps (Sutton, Precup and Singh, 1999).

    Its three parts are functions of one observation. `make_option` makes them from a potential.

    Args:
        policy: The primitive action that it takes.
        begins: Whether it may begin there.
        ends: Whether it ends there.
        name: What it is called in messages.
    """

    policy: Callable[[Any], int]
    begins: Callable[[Any], bool]
    ends: Callable[[Any], bool]
    name: str = "option"
