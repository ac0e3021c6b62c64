"""The jobs: each discovers options with one method in one world, with all seeds together.

Settings are `world`, `method`, `seeds` and `iterations`. Arrays are `visited`, the share of states
that each seed has visited after each step, and `reward`, its mean reward in each iteration.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drogo.agents.discovery import discover
from drogo.agents.representations import (
    AbstractVectors,
    ExactDefault,
    ExactSuccessor,
    LearnedDefault,
    LearnedSuccessor,
)
from drogo.runs.job import Outcome, Report
from drogo.worlds.grid import GridWorld
from drogo.worlds.tabular import TabularWorld

WALK, CEO, RACE = "random walk", "CEO", "RACE"
CEO_EXACT, RACE_EXACT, UNTRIED = "CEO, exact", "RACE, exact", "RACE, untried actions"
METHODS = (WALK, CEO, RACE, CEO_EXACT, RACE_EXACT, UNTRIED)
PUBLISHED = (WALK, CEO, RACE)
STEPS, DISCOUNT, LAM = 100, 0.99, 1.3
ITERATIONS = {"grid-task": 50, "four-rooms": 50, "grid-room": 120, "grid-maze": 120}


class Chosen(NamedTuple):
    """The published choice of settings."""

    p_option: float
    passes: int
    step_size: float


SETTINGS = {
    ("grid-task", CEO): Chosen(0.05, 1, 0.1),
    ("grid-task", RACE): Chosen(0.05, 1, 0.1),
    ("four-rooms", CEO): Chosen(0.1, 10, 0.1),
    ("four-rooms", RACE): Chosen(0.1, 10, 0.01),
    ("grid-room", CEO): Chosen(0.1, 10, 0.1),
    ("grid-room", RACE): Chosen(0.1, 1, 0.03),
    ("grid-maze", CEO): Chosen(0.1, 100, 0.01),
    ("grid-maze", RACE): Chosen(0.1, 1, 0.01),
}
"""All keep one option, and learn from the steps of the latest iteration."""


def make_vectors(world: str, method: str) -> AbstractVectors | None:
    """Returns what the options of a method climb, or None if it has no options."""
    chosen = SETTINGS.get((world, method))
    if chosen is not None:
        learned = {"step_size": chosen.step_size, "passes": chosen.passes}
        if method == CEO:
            return LearnedSuccessor(**learned, discount=DISCOUNT)
        return LearnedDefault(**learned, lam=LAM)
    exact = {
        CEO_EXACT: lambda: ExactSuccessor(DISCOUNT),
        RACE_EXACT: lambda: ExactDefault(LAM, optimistic=False),
        UNTRIED: lambda: ExactDefault(LAM),
    }
    return exact[method]() if method in exact else None


def discover_options(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Discovers options with every seed."""
    name, method, iterations = settings["world"], settings["method"], settings["iterations"]
    world, seeds = GridWorld.load(name).without_goals(), range(1, settings["seeds"] + 1)
    if method == WALK:
        return Outcome(dict(zip(("visited", "reward"), published_walks(world, seeds, iterations),
                                strict=True)))  # fmt: skip
    vectors = make_vectors(name, method)
    found = discover(
        world, vectors, seeds=seeds, iterations=iterations, steps=STEPS,
        p_option=SETTINGS[name, CEO if method in (CEO, CEO_EXACT) else RACE].p_option,
        discount=DISCOUNT, may_end=method not in PUBLISHED,
        progress=lambda done: report(done / iterations),
    )  # fmt: skip
    arrays = {"visited": found.visited, "reward": found.reward}
    return Outcome(arrays, {"inaccurate": found.inaccurate})


def published_walks(
    world: TabularWorld, seeds: range, iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    """Walks as the published script does with each seed: its random numbers are known."""
    visited, reward = [], []
    for seed in seeds:
        rng = np.random.RandomState(seed)  # the published numbers come from this kind of generator
        known, shares, earned = np.zeros(world.n_states, dtype=bool), [], []
        for _ in range(iterations):
            path = [int(world.start.argmax())]
            for action in rng.randint(world.next_state.shape[1], size=STEPS):
                path.append(int(world.next_state[path[-1], action]))
            for state in path:
                known[state] = True
                shares.append(known.mean())
            earned.append(world.reward[path[:-1]].mean())
        visited.append(shares)
        reward.append(earned)
    return np.array(visited), np.array(reward)
