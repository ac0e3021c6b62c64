"""Reads and validates text maps. Every error names the line and, if there is one, the column.

    step-limit: 200
    reward x: -20
    goal H: -50

    ######
    #S.xG#
    ######

The optional header ends at the first row of the map, which begins with a wall. `reward C: R` gives
the free cells `C` the reward `R` (by default the cell `S` has the reward of `.`). `goal C: R` makes
`C` a terminal cell with the terminal value `R`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, UInt32
from scipy import ndimage

from drogo.errors import MapError

WALL, START = "#", "S"
Characters = UInt32[np.ndarray, "height width"]
Rewards = Mapping[str, float] | None

_HEADER_LINE = re.compile(r"(step-limit|(?P<kind>reward|goal) (?P<symbol>\S)): *(?P<value>\S+)$")


@dataclass
class Header:
    """The rewards of the symbols of a map, and its step limit."""

    rewards: dict[str, float] = field(default_factory=lambda: {".": -1.0, "x": -20.0})
    """The reward of each symbol of a free cell."""
    goals: dict[str, float] = field(default_factory=lambda: {"G": 0.0})
    """The terminal value of each symbol of a terminal cell."""
    step_limit: int | None = None

    def read(self, line: str) -> None:
        """Reads a line of a header, and raises a `ValueError` if it is wrong."""
        match = _HEADER_LINE.match(line)
        if match is None:
            expected = "'step-limit: 200', 'reward x: -20', 'goal H: -50' or a row that starts with"
            raise ValueError(f"cannot read the header line {line!r}; expected {expected} {WALL!r}.")
        try:
            number = float(match["value"])
        except ValueError:
            raise ValueError(f"{match['value']!r} is not a number.") from None
        if match["kind"]:
            self.set_reward(match["symbol"], number, is_goal=match["kind"] == "goal")
        elif number >= 1 and number.is_integer():
            self.step_limit = int(number)
        else:
            raise ValueError(f"step-limit is {number:g}; it must be a whole number of at least 1.")

    def set_reward(self, symbol: str, reward: float, *, is_goal: bool) -> None:
        """Replaces the reward of a symbol, and raises a `ValueError` if that is impossible."""
        if len(symbol) != 1 or symbol.isspace() or symbol == WALL:
            problem = "always a wall" if symbol == WALL else "not one visible character"
            raise ValueError(f"{symbol!r} is {problem}; use another symbol.")
        if is_goal and symbol == START:
            raise ValueError(f"{START!r} is the start and cannot be a goal.")
        if not np.isfinite(reward) or (reward >= 0 and not is_goal):
            expected = "a finite one" if is_goal else "a finite reward below 0"
            raise ValueError(f"the reward of {symbol!r} is {reward:g}; it needs {expected}.")
        for values in (self.rewards, self.goals):
            values.pop(symbol, None)
        (self.goals if is_goal else self.rewards)[symbol] = reward


def parse(text: str, source: str, rewards: Rewards = None) -> tuple[Characters, Header]:
    """Returns the code points of a map and its header, in which `rewards` replaces values."""
    lines = [line.rstrip() for line in text.lstrip("\ufeff").rstrip().splitlines()]
    if not lines:
        raise MapError(source, 1, None, "the map is empty.")
    above = next((k for k, line in enumerate(lines) if line.startswith(WALL)), len(lines))
    header, place, number = Header(), source, 0
    try:
        for line in lines[:above]:
            number += 1
            if line:
                header.read(line)
        place, number = f"rewards= of {source}", above + 1
        for symbol, reward in (rewards or {}).items():
            header.set_reward(symbol, float(reward), is_goal=symbol in header.goals)
    except ValueError as error:
        raise MapError(place, number, None, str(error)) from None
    if above == len(lines):
        raise MapError(source, above, None, "the header is not followed by a map.")
    header.rewards.setdefault(START, header.rewards.get(".", -1.0))
    rows = lines[above:]
    width = len(rows[0])
    for number, row in enumerate(rows, start=above + 1):
        if len(row) != width:
            problem = f"this row has {len(row)} cells, and the first row has {width}."
            problem += "" if row else " Is there a blank line inside the map?"
            raise MapError(source, number, min(len(row), width) + 1, problem)
    points = np.frombuffer("".join(rows).encode("utf-32-le"), dtype="<u4")
    cells = points.reshape(len(rows), width).astype(np.uint32)

    def refuse(bad: Bool[np.ndarray, "h w"], problem: str) -> None:
        if bad.any():
            row, column = np.unravel_index(bad.argmax(), bad.shape)
            symbol = chr(cells[row, column])
            raise MapError(source, int(above + row + 1), int(column + 1), f"{symbol!r} {problem}")

    symbols = [WALL, *header.rewards, *header.goals]
    problem = f"is none of the symbols {' '.join(symbols)} ; declare it in the header ('reward C: "
    refuse(~np.isin(cells, list(map(ord, symbols))), f"{problem}-5') or with rewards=.")
    free = cells != ord(WALL)
    edge = np.ones_like(free)
    edge[1:-1, 1:-1] = False
    refuse(free & edge, "opens the border; close it with '#'.")
    goal = np.isin(cells, list(map(ord, header.goals)))
    if not goal.any():
        goals = ", ".join(header.goals) or "declare it: goal G: 0"
        raise MapError(source, above + 1, None, f"there is no goal; draw one ({goals}).")
    # Moves between cells can be undone, so a cell reaches a goal iff its island holds one.
    islands, _ = ndimage.label(free)  # pyright: ignore[reportGeneralTypeIssues]
    cut_off = free & ~np.isin(islands, np.unique(islands[goal]))
    problem = f"cannot reach a goal (in all, {cut_off.sum()} cell(s)); open a way or wall them in."
    refuse(cut_off, problem)
    if not (free & ~goal).any():
        raise MapError(source, above + 1, None, "there is no cell besides goals.")
    return cells, header
