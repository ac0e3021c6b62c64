"""The columns of all goals: accuracy, and many goals at once.

    uv run benchmarks/goals.py --write     also draws docs/figures/every-goal.png

Prints Markdown. Seconds are medians, of both ways in the same run.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np

from common import LAM, timed
from drogo import GridWorld, exact, plot
from drogo.files import write_file
from tables import ROOT, Part, parse_options, write_parts
from worlds import random_world

sys.path.insert(0, str(ROOT / "tests"))
GOALS, BASELINE = 200, 10
FIVE, DOOR = ((1, 1), (4, 10), (9, 7), (11, 1), (5, 5)), (3, 6)
FIGURE = ROOT / "docs/figures/every-goal.png"


def largest_difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    assert np.array_equal(np.isfinite(ours), np.isfinite(theirs))
    finite = np.isfinite(theirs)
    return np.abs(ours[finite] - theirs[finite]).max()


def accuracy(options: Namespace) -> Iterator[list[str]]:
    import judge

    mdp = GridWorld.load("grid-room").mdp
    for lam, digits in ((LAM, 100), (1.3, 200)):  # the entries go down to 1e-61
        slow, theirs = timed(judge.columns, mdp, lam, digits)
        runs = [timed(exact.solve_columns, mdp, lam) for _ in range(5)]
        fast, ours = np.median([seconds for seconds, _ in runs]), runs[0][1]
        yield [f"{lam:g}", str(digits), f"{slow:.1f} s", f"{fast * 1e3:.0f} ms",
               f"{slow / fast:,.0f}", f"{largest_difference(ours.log_e, theirs):.0e}",
               f"{ours.error.max():.0e}"]  # fmt: skip


def many_goals(options: Namespace) -> Iterator[list[str]]:
    """`log_column` has terminal states only: each goal is one, and the others are worthless."""
    world = random_world(options.states)
    rng = np.random.default_rng(0)
    chosen = rng.choice(np.flatnonzero(~world.terminal), GOALS, replace=False)
    runs = [timed(exact.log_columns, world.mdp, LAM, chosen) for _ in range(3)]
    fast, ours = np.median([seconds for seconds, _ in runs]), runs[0][1]
    times, difference = [], 0.0
    for row, goal in enumerate(chosen[:BASELINE]):
        mdp = redrawn(world, world.states[goal], "G").mdp
        value = np.where(np.flatnonzero(mdp.terminal) == goal, 0.0, -1e9)
        seconds, column = timed(exact.log_column, mdp, LAM, value)
        times.append(seconds)
        reached = np.isfinite(ours[row])
        difference = max(difference, np.abs(column[reached] - ours[row, reached]).max())
    slow = np.median(times)
    yield [f"{world.n_states:,}", f"{GOALS / fast:,.0f}", f"{1 / slow:,.0f}",
           f"{slow * GOALS / fast:,.0f}", f"{difference:.0e}"]  # fmt: skip


def redrawn(world: GridWorld, cell: Any, symbol: str) -> GridWorld:
    """Returns a world with another symbol in a cell."""
    characters = world.characters.copy()
    characters[cell] = ord(symbol)
    return GridWorld(world.name, characters, world.header)


def draw_picture() -> None:
    """Draws five goals in four-rooms, and the same after the upper door was closed."""
    world = GridWorld.load("four-rooms")
    maps = {}
    for shown, what in ((world, ""), (redrawn(world, DOOR, "#"), f", door {DOOR} closed")):
        v = np.full((len(FIVE), world.n_states), -np.inf)
        goals = [shown.states.index(cell) for cell in FIVE]
        states = world.index[tuple(shown.cells.T)]
        v[:, states] = exact.log_columns(shown.mdp, LAM, goals)
        maps |= {f"to {cell}{what}": values for cell, values in zip(FIVE, v, strict=True)}
    figure = plot.goal_maps(world, maps, columns=len(FIVE))
    write_file(FIGURE, plot.as_png(figure, 55), overwrite=True)


PARTS = {
    "accuracy": Part(
        "columns",
        accuracy,
        "All 272 columns of grid-room beside an inverse of many digits.",
        ("lambda", "digits", "inverse", "drogo", "ratio", "largest log difference", "proved bound"),
    ),
    "goals": Part(
        "many-goals",
        many_goals,
        f"Columns per second of {GOALS} goals in a random world, λ = {LAM:g}.",
        ("states", "`log_columns`, all at once", "`log_column`, one after another", "ratio",
         "largest log difference"),
        f"Of those that are solved one after another, {BASELINE} are measured.",
    ),
}  # fmt: skip


if __name__ == "__main__":
    options = parse_options(__doc__, only=tuple(PARTS), states=10_000)
    write_parts(PARTS, options)
    if options.write:
        draw_picture()
