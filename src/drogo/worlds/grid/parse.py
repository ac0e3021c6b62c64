"""Reads and checks a text map. Every error names the line and, where there is one, the column.

    step-limit: 200
    reward x: -20
    goal H: -50

    ######
    #S.xG#
    ######

The optional header ends at the first row of the map, which begins with a wall. `reward C: R` gives
the free cells drawn as `C` the reward `R` (the cell `S` has the reward of `.` unless it is given
one). `goal C: R` makes `C` a terminal cell with the terminal value `R`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
from jaxtyping import Bool, UInt32
from scipy import ndimage

from drogo.errors import MapError

WALL, START = "#", "S"

_HEADER_LINE = re.compile(r"(step-limit|(?P<key>reward|goal) (?P<symbol>\S)): *(?P<value>\S+)$")


@dataclass
class Header:
    """What the symbols of a map mean, and when episodes are cut off."""

    rewards: dict[str, float] = field(default_factory=lambda: {".": -1.0, "x": -20.0})
    """The reward of each symbol of a free cell."""
    goals: dict[str, float] = field(default_factory=lambda: {"G": 0.0})
    """The terminal value of each symbol of a terminal cell."""
    step_limit: int | None = None


def parse(
    text: str, source: str, rewards: Mapping[str, float] | None = None
) -> tuple[UInt32[np.ndarray, "height width"], Header]:
    """Reads the characters of a map (as code points) and its header, and checks them.

    `rewards` adds to, or replaces, the rewards of free cells and goals.
    """
    lines = [line.rstrip() for line in text.lstrip("\ufeff").splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise MapError(source, 1, None, "the map is empty.")
    above = next((k for k, line in enumerate(lines) if line.startswith(WALL)), len(lines))
    header = Header()
    for number, line in enumerate(lines[:above], start=1):
        if line:
            _read_header_line(header, source, number, line)
    if above == len(lines):
        raise MapError(source, above, None, "the header is not followed by a map.")
    for symbol, reward in (rewards or {}).items():
        _set_reward(header, symbol, float(reward), f"rewards= of {source}", above + 1)
    header.rewards.setdefault(START, header.rewards.get(".", -1.0))
    cells = _as_array(lines, above, source)
    _check_cells(cells, header, source, above)
    return cells, header


def _read_header_line(header: Header, source: str, number: int, line: str) -> None:
    match = _HEADER_LINE.match(line)
    if match is None:
        problem = (
            f"cannot read the header line {line!r}. Expected 'step-limit: 200', 'reward x: -20' or "
            f"'goal H: -50'; the map's own rows start with a wall, {WALL!r}."
        )
        raise MapError(source, number, None, problem)
    key, symbol, value = match["key"], match["symbol"], match["value"]
    try:
        amount = float(value) if key else int(value)
    except ValueError:
        problem = f"{value!r} is not a number ({key or 'step-limit'})."
        raise MapError(source, number, None, problem) from None
    if key is None:
        if amount < 1:
            raise MapError(source, number, None, f"step-limit is {amount}; it must be at least 1.")
        header.step_limit = int(amount)
        return
    if key == "goal":
        if symbol == START:
            raise MapError(source, number, None, f"{START!r} is the start and cannot be a goal.")
        header.rewards.pop(symbol, None)
        header.goals[symbol] = amount
    else:
        header.goals.pop(symbol, None)
    _set_reward(header, symbol, amount, source, number)


def _set_reward(header: Header, symbol: str, reward: float, source: str, line: int) -> None:
    if len(symbol) != 1 or symbol.isspace() or symbol == WALL:
        problem = "always a wall" if symbol == WALL else "not one visible character"
        raise MapError(source, line, None, f"{symbol!r} is {problem}; use another symbol.")
    if symbol in header.goals:
        if not np.isfinite(reward):
            raise MapError(source, line, None, f"the reward of the goal {symbol!r} is {reward}.")
        header.goals[symbol] = reward
        return
    if not reward < 0 or not np.isfinite(reward):
        problem = (
            f"the reward of {symbol!r} is {reward:g}; free cells need a finite reward below 0."
        )
        raise MapError(source, line, None, problem)
    header.rewards[symbol] = reward


def _as_array(lines: list[str], above: int, source: str) -> UInt32[np.ndarray, "h w"]:
    rows = lines[above:]
    width = len(rows[0])
    for number, row in enumerate(rows, start=above + 1):
        if len(row) != width:
            problem = (
                f"this row has {len(row)} cells, the first row has {width}: "
                f"{'cells are missing' if len(row) < width else 'there are too many'}."
                + ("" if row else " Is there a blank line inside the map?")
            )
            raise MapError(source, number, min(len(row), width) + 1, problem)
    points = np.frombuffer("".join(rows).encode("utf-32-le"), dtype="<u4")
    return points.reshape(len(rows), width).astype(np.uint32)


def _check_cells(cells: UInt32[np.ndarray, "h w"], header: Header, source: str, above: int) -> None:
    def fail_at(bad: Bool[np.ndarray, "h w"], problem: Callable[[str], str]) -> NoReturn:
        row, column = divmod(int(np.argmax(bad)), cells.shape[1])
        raise MapError(source, above + row + 1, column + 1, problem(chr(cells[row, column])))

    known = [WALL, *header.rewards, *header.goals]
    unknown = ~np.isin(cells, [ord(symbol) for symbol in known])
    if unknown.any():
        fail_at(
            unknown,
            lambda symbol: (
                f"unknown symbol {symbol!r}. Known symbols: {' '.join(known)} ; declare "
                f"others in the header ('reward {symbol}: -5') or with rewards=."
            ),
        )
    free = cells != ord(WALL)
    edge = np.ones_like(free)
    edge[1:-1, 1:-1] = False
    if (free & edge).any():
        fail_at(free & edge, lambda symbol: f"the border is open ({symbol!r}); close it with '#'.")
    goal = np.isin(cells, [ord(symbol) for symbol in header.goals])
    if not goal.any():
        symbols = ", ".join(header.goals) or "declare it: goal G: 0"
        raise MapError(source, above + 1, None, f"there is no goal; draw one ({symbols}).")
    # Moves between cells can be undone, so a cell reaches a goal iff its island holds one.
    islands, _ = ndimage.label(free)  # pyright: ignore[reportGeneralTypeIssues]
    cut_off = free & ~np.isin(islands, np.unique(islands[goal]))
    if cut_off.any():
        fail_at(
            cut_off,
            lambda symbol: (
                f"{int(cut_off.sum())} cell(s) cannot reach a goal, this one "
                f"({symbol!r}) first; open a way or wall them in."
            ),
        )
    if not (free & ~goal).any():
        raise MapError(source, above + 1, None, "there is no cell besides goals.")
