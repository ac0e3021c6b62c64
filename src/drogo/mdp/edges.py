"""`Edges`: the weighted transitions between states that the exact solvers take."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.errors import ArgumentError


@dataclass(frozen=True)
class Edges:
    """The possible transitions between n states under the default policy."""

    n: int
    state: Int[np.ndarray, " edges"]
    next_state: Int[np.ndarray, " edges"]
    weight: Float[np.ndarray, " edges"]
    """The probability or frequency, in any unit that is the same for the edges from one state."""
    reward: Float[np.ndarray, " edges"]
    terminated: Bool[np.ndarray, " edges"]
    terminal_reward: Float[np.ndarray, " edges"]
    """The value of the next state in units of reward where `terminated`, and 0 elsewhere."""

    def __post_init__(self) -> None:
        for name, valid, expected in (
            ("state", (self.state >= 0) & (self.state < self.n), f"between 0 and {self.n - 1}"),
            ("next_state", (self.next_state >= 0) & (self.next_state < self.n), "a state"),
            ("weight", self.weight > 0, "positive"),
            ("reward", np.isfinite(self.reward), "finite"),
        ):
            if not valid.all():
                problem = f"{name} needs one number for each edge, which is {expected}."
                raise ArgumentError(problem, argument=name)

    @cached_property
    def share(self) -> Float[np.ndarray, " edges"]:
        """The probability of each edge among those that leave the same state."""
        return self.weight / np.bincount(self.state, self.weight, self.n)[self.state]

    @cached_property
    def usable(self) -> Bool[np.ndarray, " edges"]:
        """The edges whose next state is terminal, or left by an edge that is usable."""
        usable = np.ones(self.state.size, dtype=bool)
        while True:
            left = np.bincount(self.state[usable], minlength=self.n) > 0
            still = usable & (self.terminated | left[self.next_state])
            if still.sum() == usable.sum():
                return usable
            usable = still

    def __add__(self, other: Edges) -> Edges:
        names = [column.name for column in fields(Edges)[1:]]
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        return Edges(self.n, *map(np.concatenate, pairs))

    @cached_property
    def known(self) -> Edges:
        """The usable edges alone: solutions leave the others out."""
        columns = (getattr(self, column.name) for column in fields(Edges)[1:])
        return Edges(self.n, *(part[self.usable] for part in columns))
