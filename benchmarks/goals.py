"""The columns of all goals: accuracy, updates against solving again, and many goals at once.

    uv run benchmarks/goals.py                    all parts; about a minute
    uv run benchmarks/goals.py --only updates     one of them: accuracy, updates, goals

Prints Markdown. Seconds are medians, of both ways in the same run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from drogo import MDP, GridWorld, MDPError, exact
from worlds import random_world

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
LAM = 20.0
DRAWS = 5
"""Random sets of changed states, for each number of them."""


def timed(function: Callable, *arguments: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - began, result


def largest_difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    assert np.array_equal(np.isfinite(ours), np.isfinite(theirs))
    finite = np.isfinite(theirs)
    return np.abs(ours[finite] - theirs[finite]).max()


def accuracy(name: str = "grid-room") -> None:
    import judge

    mdp = GridWorld.load(name).mdp
    print(f"\n### All {mdp.n_states} columns of {name} against an inverse of many digits\n")
    print("| lambda | digits | inverse | drogo | ratio | largest log difference | proved bound |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for lam, digits in ((LAM, 100), (1.3, 200)):  # Its entries go down to 1e-61.
        slow, theirs = timed(judge.columns, mdp, lam, digits)
        fast = np.median([timed(exact.solve_columns, mdp, lam)[0] for _ in range(5)])
        ours = exact.solve_columns(mdp, lam)
        print(
            f"| {lam:g} | {digits} | {slow:.1f} s | {fast * 1e3:.0f} ms | {slow / fast:,.0f} | "
            f"{largest_difference(ours.log_e, theirs):.0e} | {ours.error.max():.0e} |",
            flush=True,
        )


def changed(world: GridWorld, count: int, symbol: str, rng: np.random.Generator) -> MDP:
    """The MDP in which some random cells are drawn as `symbol`, and no state is cut off."""
    plain = np.flatnonzero(~world.terminal & ~world.low_reward)
    while True:
        cells = rng.choice(plain, count, replace=False)
        try:
            return world.mdp_with({world.states[s]: symbol for s in cells})
        except MDPError:  # A state is cut off, which is likely with many walls.
            continue


def updates(states: int = 100_000) -> None:
    world = random_world(states)
    before = exact.solve_columns(world.mdp, LAM, world.terminal)
    print(f"\n### A changed world of {world.n_states:,} states, lambda {LAM:g}, one goal\n")
    print(
        "| changed | rows | way | update, s | solving again, s | ratio | largest log difference | "
        "proved bound |"
    )
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for symbol, noun in (("x", "costs"), ("#", "walls")):
        for count in (1, 10, 100):
            rng = np.random.default_rng(count)
            times, rows, ways, difference, bound = [], [], set(), 0.0, 0.0
            for _ in range(DRAWS):
                mdp = changed(world, count, symbol, rng)
                fast, ours = timed(exact.update, before, mdp)
                slow, theirs = timed(exact.solve_columns, mdp, LAM, before.goals)
                times.append((fast, slow))
                rows.append(ours.changed.size)
                ways.add(ours.method)
                difference = max(difference, largest_difference(ours.log_e, theirs.log_e))
                bound = max(bound, ours.error.max())
            fast, slow = np.median(times, axis=0)
            span = f"{min(rows)} to {max(rows)}" if max(rows) > min(rows) else str(rows[0])
            if ways != {"updated"}:
                span = "too many"
            print(
                f"| {count} {noun if count > 1 else noun[:-1]} | {span} | {', '.join(ways)} | "
                f"{fast:.2f} | {slow:.2f} | {slow / fast:.1f} | {difference:.0e} | {bound:.0e} |",
                flush=True,
            )


def goals(states: int = 10_000, count: int = 200, baseline: int = 10) -> None:
    """`log_column` knows terminal states only: each goal is one, and the others are worthless."""
    world = random_world(states)
    rng = np.random.default_rng(0)
    chosen = rng.choice(np.flatnonzero(~world.terminal), count, replace=False)
    fast = np.median([timed(exact.log_columns, world.mdp, LAM, chosen)[0] for _ in range(3)])
    ours = exact.log_columns(world.mdp, LAM, chosen)
    times, difference = [], 0.0
    for row, goal in enumerate(chosen[:baseline]):
        mdp = world.mdp_with({world.states[goal]: "G"})
        value = np.where(np.flatnonzero(mdp.terminal) == goal, 0.0, -1e9)
        seconds, column = timed(exact.log_column, mdp, LAM, value)
        times.append(seconds)
        reached = np.isfinite(ours[row])
        difference = max(difference, np.abs(column[reached] - ours[row, reached]).max())
    slow = np.median(times)
    print(f"\n### {count} goals in a world of {world.n_states:,} states, lambda {LAM:g}\n")
    print("| | columns per second |\n|---|---|")
    print(f"| `log_columns`, all at once | {count / fast:,.0f} |")
    print(f"| `log_column`, one after another ({baseline} of them) | {1 / slow:,.0f} |")
    print(f"| ratio | {slow * count / fast:,.0f} |")
    print(f"| largest log difference | {difference:.0e} |")


PARTS = {"accuracy": accuracy, "updates": updates, "goals": goals}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    for part in parser.parse_args().only:
        PARTS[part]()
