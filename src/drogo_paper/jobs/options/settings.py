"""The published settings of option discovery: worlds, methods, and what was chosen for each.

Every method keeps one option, and learns from the steps of the latest iteration.
"""

from __future__ import annotations

from typing import NamedTuple

WALK, CEO, RACE = "random walk", "CEO", "RACE"
CEO_EXACT, RACE_EXACT, UNTRIED = "CEO, exact", "RACE, exact", "RACE, untried actions"
METHODS = (WALK, CEO, RACE, CEO_EXACT, RACE_EXACT, UNTRIED)
PUBLISHED = (WALK, CEO, RACE)
QL = "Q-learning"
"""Without options: epsilon-greedy with what was learned from all steps before this iteration."""
STEPS, DISCOUNT, LAM = 100, 0.99, 1.3
LARGE_STEPS = 200
ITERATIONS = {"grid-task": 50, "four-rooms": 50, "grid-room": 120, "grid-maze": 120}
PLAIN = {f"{world}-plain": iterations for world, iterations in ITERATIONS.items()}
LARGE = {"grid-room-large": 120, "grid-maze-large": 120}
EVERY = {**ITERATIONS, **PLAIN, **LARGE}
"""The ten worlds, with the number of their iterations."""


class Chosen(NamedTuple):
    """The published choice of settings."""

    p_option: float
    passes: int
    step_size: float


_CEO = {
    "grid-task": Chosen(0.05, 1, 0.1),
    "four-rooms": Chosen(0.1, 10, 0.1),
    "grid-room": Chosen(0.1, 10, 0.1),
    "grid-maze": Chosen(0.1, 100, 0.01),
    "grid-room-large": Chosen(0.05, 100, 0.01),
    "grid-maze-large": Chosen(0.05, 100, 0.01),
}
_RACE = {
    "grid-task": Chosen(0.05, 1, 0.1),
    "four-rooms": Chosen(0.1, 10, 0.01),
    "grid-room": Chosen(0.1, 1, 0.03),
    "grid-maze": Chosen(0.1, 1, 0.01),
    "grid-task-plain": Chosen(0.05, 10, 0.01),
    "four-rooms-plain": Chosen(0.05, 1, 0.1),
    "grid-room-plain": Chosen(0.1, 1, 0.01),
    "grid-maze-plain": Chosen(0.1, 1, 0.01),
    "grid-room-large": Chosen(0.05, 1, 0.03),
    "grid-maze-large": Chosen(0.1, 1, 0.03),
}
# CEO does not see rewards, and has the same settings in the worlds without low-reward cells.
_CEO |= {world: _CEO[world.removesuffix("-plain")] for world in PLAIN}
SETTINGS = {(world, CEO): chosen for world, chosen in _CEO.items()} | {
    (world, RACE): chosen for world, chosen in _RACE.items()
}


class ChosenQ(NamedTuple):
    """The published choice of settings of Q-learning, without its step size: in a deterministic
    world it decides only how soon the values settle."""

    epsilon: float
    untried: float


Q_SETTINGS = {
    "grid-room": ChosenQ(0.2, -10.0),
    "grid-maze": ChosenQ(0.2, 0.0),
    "grid-room-large": ChosenQ(0.2, -10.0),
    "grid-maze-large": ChosenQ(0.2, -10.0),
}


def steps_of(world: str) -> int:
    """Returns how many steps an iteration has in a world."""
    return LARGE_STEPS if world in LARGE else STEPS
