"""The jobs: each runs one method in one world, and returns what its agents earned.

Settings are `world`, `method`, `agents`, `steps`, and the `seed` of the published run, or None for
numbers of our own. The array `returns` holds the return of each agent.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

from drogo.agents.counting import Chance, Drawn, run_counting
from drogo.runs.job import Outcome, Report
from drogo.use.counts import AbstractCounts, DefaultCounts, Lanes, SuccessorCounts
from drogo.worlds.continuing import WORLDS, ContinuingWorld

SARSA, SUCCESSOR, DEFAULT = "Sarsa", "Sarsa + SR", "Sarsa + DR"
OTHER_SUCCESSOR, Q_LEARNING = "Sarsa + SR, other settings", "Q-learning + DR"
METHODS = (SARSA, SUCCESSOR, DEFAULT, OTHER_SUCCESSOR, Q_LEARNING)
"""The last two are not published. Q-learning has the settings of Sarsa + DR."""
DISCOUNT = 0.95
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("river-swim", SARSA): {"epsilon": 0.12, "step_size": 0.37},
    ("six-arms", SARSA): {"epsilon": 0.01, "step_size": 0.43},
    ("river-swim", SUCCESSOR): {
        "epsilon": 0.01, "step_size": 0.1,
        "counts": {"discount": 0.5, "step_size": 0.5, "weight": 10_000.0},
    },
    ("six-arms", SUCCESSOR): {
        "epsilon": 0.01, "step_size": 0.5,
        "counts": {"discount": 0.5, "step_size": 0.25, "weight": 10_000.0},
    },
    ("river-swim", OTHER_SUCCESSOR): {
        "epsilon": 0.1, "step_size": 0.25,
        "counts": {"discount": 0.99, "step_size": 0.01, "weight": 100.0},
    },
    ("six-arms", OTHER_SUCCESSOR): {
        "epsilon": 0.01, "step_size": 0.5,
        "counts": {"discount": 0.5, "step_size": 0.25, "weight": 100.0},
    },
    ("river-swim", DEFAULT): {
        "epsilon": 0.01, "step_size": 0.25,
        "counts": {"lam": 1.0, "step_size": 0.5, "weight": 100.0},
    },
    ("six-arms", DEFAULT): {
        "epsilon": 0.01, "step_size": 0.01,
        "counts": {"lam": 1.5, "step_size": 0.5, "weight": 0.1},
    },
}  # fmt: skip
"""Those of the published commands: of 2020 for Sarsa and the SR, of 2025 for the DR. The other
settings of the SR are from a small search with 50 agents each."""
SETTINGS |= {(world, Q_LEARNING): SETTINGS[world, DEFAULT] for world in WORLDS}
SEED = 7
"""The seed of the published commands of 2025."""


def count_runs(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Runs agents of one method in one world."""
    world = WORLDS[settings["world"]]()
    chosen = SETTINGS[settings["world"], settings["method"]]
    agents, seed = settings["agents"], settings["seed"]
    if seed is None:
        rngs = [np.random.default_rng([0, agent]) for agent in range(agents)]
        chance = Drawn(world, chosen["epsilon"], rngs)
        return Outcome({"returns": _run(world, chance, settings, agents, report)})
    replayed = Replayed(world, chosen["epsilon"], seed)
    returns = []
    for agent in range(agents):  # one after the other, because they share their random numbers
        returns.append(_run(world, replayed, settings, 1, lambda share: None))
        report(agent / agents)
    return Outcome({"returns": np.concatenate(returns)})


def _run(
    world: ContinuingWorld, chance: Chance, settings: dict[str, Any], lanes: int, report: Report
) -> np.ndarray:
    method = settings["method"]
    chosen = SETTINGS[world.name, method]
    counts = make_counts(world, method, lanes)
    return run_counting(
        world, chance, step_size=chosen["step_size"], discount=DISCOUNT, counts=counts,
        target="q-learning" if method == Q_LEARNING else "sarsa",
        steps=settings["steps"], progress=report,
    ).returns  # fmt: skip


def make_counts(world: ContinuingWorld, method: str, lanes: int) -> AbstractCounts | None:
    """Returns what gives the bonuses of a method, or None if it has none."""
    options: dict[str, Any] = SETTINGS[world.name, method].get("counts", {})
    if method in (SUCCESSOR, OTHER_SUCCESSOR):
        return SuccessorCounts(world.n_states, lanes=lanes, **options)
    if method in (DEFAULT, Q_LEARNING):
        best = {"best": world.best_reward, "unit": world.best_reward}
        return DefaultCounts(world.n_states, world.n_actions, lanes=lanes, **best, **options)
    return None


class Replayed:
    """The random numbers of the published scripts, for one agent after the other.

    They come from two global generators with one seed: that of Python decides where episodes begin,
    whether and how to explore, and where actions lead; that of NumPy chooses among equal actions.

    Args:
        world: The world.
        epsilon: The probability of a random action.
        seed: The seed of the script.
    """

    def __init__(self, world: ContinuingWorld, epsilon: float, seed: int) -> None:
        self.world, self.epsilon = world, epsilon
        self.python = random.Random(seed)
        self.numpy = np.random.RandomState(seed)

    def _draw(self, probability: np.ndarray) -> Lanes:
        """Draws a state as published: sums of probabilities are compared with one number."""
        number, before = self.python.uniform(0.0, 1.0), 0.0
        for state in np.flatnonzero(probability):
            if number < probability[state] + before:
                return np.array([state])
            before += probability[state]
        raise ArithmeticError("the published script would have stopped here")

    def start(self) -> Lanes:
        return self._draw(self.world.start)

    def act(self, values: np.ndarray) -> Lanes:
        (row,) = values
        if self.python.uniform(0.0, 1.0) < self.epsilon:
            return np.array([self.python.choice(range(row.size))])
        return np.array([self.numpy.choice(np.flatnonzero(row == row.max()))])

    def move(self, state: Lanes, action: Lanes) -> Lanes:
        return self._draw(self.world.probability[state[0], action[0]])
