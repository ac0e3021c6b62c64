"""A text map, read and checked: every error says line and column.

    step-limit: 200
    reward x: -20
    goal H: -50

    ######
    #S.xG#
    ######

The header is optional: the lines before the first row, which starts with a wall. `reward C: R`
gives the free cells drawn as `C` the reward `R` (the start has that of `.` unless it is given one);
`goal C: R` makes `C` a terminal cell with last reward `R`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import UInt32
from scipy import ndimage

from drogo.errors import MapError

WALL, START = "#", "S"
DEFAULT_REWARDS = {".": -1.0, "x": -20.0}
DEFAULT_GOALS = {"G": 0.0}

_HEADER_LINE = re.compile(r"(?P<key>step-limit|reward|goal)(?: (?P<symbol>\S))?: *(?P<value>\S+)$")


@dataclass(frozen=True)
class Map:
    """A checked map: its characters (as code points), and what they mean."""

    cells: UInt32[np.ndarray, "height width"]
    rewards: Mapping[str, float]
    """Free cells."""
    goals: Mapping[str, float]
    """Terminal cells and the reward of the last step."""
    step_limit: int | None = None


@dataclass
class _Header:
    rewards: dict[str, float] = field(default_factory=lambda: dict(DEFAULT_REWARDS))
    goals: dict[str, float] = field(default_factory=lambda: dict(DEFAULT_GOALS))
    step_limit: int | None = None


def parse(text: str, source: str, rewards: Mapping[str, float] | None = None) -> Map:
    """Read a map. `rewards` adds to, or replaces, the rewards of free cells and goals."""
    lines = [line.rstrip() for line in text.lstrip("\ufeff").splitlines()]
    numbered = [(number, line) for number, line in enumerate(lines, start=1)]
    while numbered and not numbered[-1][1]:
        numbered.pop()
    if not numbered:
        raise MapError(source, 1, None, "the map is empty.")
    begin = next((k for k, (_, line) in enumerate(numbered) if line.startswith(WALL)), None)
    header = _Header()
    for number, line in numbered[:begin]:
        if line:
            _read_header_line(header, source, number, line)
    if begin is None:
        raise MapError(source, numbered[-1][0], None, "the header is not followed by a map.")
    rows = numbered[begin:]
    for symbol, reward in (rewards or {}).items():
        _set_reward(header, symbol, float(reward), f"rewards= of {source}", rows[0][0])
    header.rewards.setdefault(START, header.rewards.get(".", -1.0))
    cells = _as_array(rows, source)
    _check_cells(cells, header, source, first_line=rows[0][0])
    return Map(cells, header.rewards, header.goals, header.step_limit)


def _read_header_line(header: _Header, source: str, number: int, line: str) -> None:
    match = _HEADER_LINE.match(line)
    needs_symbol = match is not None and match["key"] != "step-limit"
    if match is None or needs_symbol != (match["symbol"] is not None):
        raise MapError(
            source,
            number,
            None,
            f"cannot read the header line {line!r}. Expected 'step-limit: 200', 'reward x: -20' or "
            f"'goal H: -50'; the map's own rows start with a wall, {WALL!r}.",
        )
    key, symbol, value = match["key"], match["symbol"], match["value"]
    try:
        amount = int(value) if key == "step-limit" else float(value)
    except ValueError:
        raise MapError(source, number, None, f"{value!r} is not a number ({key}).") from None
    if key == "step-limit":
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


def _set_reward(header: _Header, symbol: str, reward: float, source: str, line: int) -> None:
    if len(symbol) != 1 or symbol.isspace() or symbol == WALL:
        what = "always a wall" if symbol == WALL else "not one visible character"
        raise MapError(source, line, None, f"{symbol!r} is {what}; use another symbol.")
    if symbol in header.goals:
        if not np.isfinite(reward):
            raise MapError(source, line, None, f"the reward of the goal {symbol!r} is {reward}.")
        header.goals[symbol] = reward
        return
    if not reward < 0 or not np.isfinite(reward):
        raise MapError(
            source,
            line,
            None,
            f"the reward of {symbol!r} is {reward:g}; free cells need a finite reward below 0.",
        )
    header.rewards[symbol] = reward


def _as_array(numbered: list[tuple[int, str]], source: str) -> UInt32[np.ndarray, "h w"]:
    width = len(numbered[0][1])
    for number, line in numbered:
        if len(line) != width:
            shorter = len(line) < width
            raise MapError(
                source,
                number,
                min(len(line), width) + 1,
                f"this row has {len(line)} cells, the first row has {width}: "
                f"{'cells are missing' if shorter else 'there are too many'}."
                + ("" if line else " (A blank line inside the map?)"),
            )
    points = np.frombuffer("".join(line for _, line in numbered).encode("utf-32-le"), dtype="<u4")
    return points.reshape(len(numbered), width).astype(np.uint32)


def _check_cells(
    cells: UInt32[np.ndarray, "h w"], header: _Header, source: str, first_line: int
) -> None:
    def fail_at(bad: np.ndarray, problem: str) -> None:
        row, column = divmod(int(np.argmax(bad)), cells.shape[1])
        symbol = chr(cells[row, column])
        raise MapError(source, first_line + row, column + 1, problem.format(symbol=symbol))

    known = [WALL, *header.rewards, *header.goals]
    unknown = ~np.isin(cells, [ord(symbol) for symbol in known])
    if unknown.any():
        listed = " ".join(known)
        fail_at(
            unknown,
            "unknown symbol {symbol!r}. Known here: " + listed + " ; declare others in the header "
            "('reward {symbol}: -5') or with rewards=.",
        )
    free = cells != ord(WALL)
    edge = np.ones_like(free)
    edge[1:-1, 1:-1] = False
    if (free & edge).any():
        fail_at(free & edge, "the border is open ({symbol!r}); close it with '#'.")
    goal = np.isin(cells, [ord(symbol) for symbol in header.goals])
    if not goal.any():
        raise MapError(
            source,
            first_line,
            None,
            f"there is no goal; draw one ({', '.join(header.goals) or 'declare it: goal G: 0'}).",
        )
    # Moves between cells can be undone, so a cell reaches a goal iff its island holds one.
    islands, _ = ndimage.label(free)  # pyright: ignore[reportGeneralTypeIssues]
    cut_off = free & ~np.isin(islands, np.unique(islands[goal]))
    if cut_off.any():
        fail_at(
            cut_off,
            f"{int(cut_off.sum())} cell(s) cannot reach a goal, this one ({{symbol!r}}) first; "
            "open a way or wall them in.",
        )
    if not (free & ~goal).any():
        raise MapError(source, first_line, None, "there is no cell besides goals.")
