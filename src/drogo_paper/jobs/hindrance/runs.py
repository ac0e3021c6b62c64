"""The jobs: each trains all kinds of agents in one world, with all seeds together.

Settings are `world`, `seeds`, `steps`, `discoveries` and `initial`, the first values. Arrays have a
row for each kind of agent: `returns` of the best primitive actions at each evaluation, `arrival`,
the step of the first arrival at the goal, `reward`, the mean reward of all steps, `inside`, the
share of steps inside options, and `low`, the number of visits to low-reward cells.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drogo.agents.option_learning import Kind, learn_with_options
from drogo.agents.representations import ExactDefault, LearnedDefault, LearnedSuccessor
from drogo.runs.job import Outcome, Report
from drogo.use.options.tabular import TabularOption, solve_option
from drogo.worlds.grid import GridWorld

LAM, DISCOUNT, EVERY = 1.3, 0.99, 100
NONE, KNOWN = "no options", "eigenoptions, beforehand"
CEO, RACE, UNTRIED = "CEO, online", "RACE, online", "RACE, untried actions, online"
EXPLORES = "RACE, online, to explore only"
KINDS = (NONE, KNOWN, CEO, RACE, UNTRIED, EXPLORES)
EIGENVECTORS = 4
"""Beforehand there are two options for each, which climb it and its negative."""
STEP_SIZE = {"grid-task": 0.3, "four-rooms": 0.3, "grid-room": 1.0, "grid-maze": 1.0}
"""The best of plain Q-learning, in the experiments on reward shaping."""
LEARNING = {
    # CEO and RACE: step size and passes, as published for option discovery.
    "grid-task": ((0.1, 1), (0.1, 1)),
    "four-rooms": ((0.1, 10), (0.01, 10)),
    "grid-room": ((0.1, 10), (0.03, 1)),
    "grid-maze": ((0.01, 100), (0.01, 1)),
}


def eigenoptions(world: GridWorld, count: int) -> list[TabularOption]:
    """Returns options that climb the smoothest vectors over the whole world, and their negatives.

    They are the top eigenvectors of the successor representation of the random walk that goes on
    for ever, without the first, which is constant. It knows all moves, but neither rewards nor
    goals.
    """
    moves = world.without_goals().next_state
    states, actions = moves.shape
    P = np.zeros((states, states))
    np.add.at(P, (np.arange(states)[:, None], moves), 1 / actions)
    vectors = np.linalg.eigh((P + P.T) / 2)[1][:, ::-1]
    return [
        solve_option(moves, sign * vectors[:, k], discount=DISCOUNT)
        for k in range(1, count + 1)
        for sign in (1.0, -1.0)
    ]


def make_kinds(name: str) -> dict[str, Kind]:
    """Returns all kinds of agents in a world."""
    ceo, race = LEARNING[name]
    return {
        NONE: Kind(),
        KNOWN: Kind(options=eigenoptions(GridWorld.load(name), EIGENVECTORS)),
        CEO: Kind(vectors=LearnedSuccessor(*ceo, discount=DISCOUNT)),
        RACE: Kind(vectors=LearnedDefault(*race, lam=LAM)),
        UNTRIED: Kind(vectors=ExactDefault(LAM)),
        EXPLORES: Kind(vectors=LearnedDefault(*race, lam=LAM), valued=False),
    }


def train(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Trains all kinds of agents."""
    name, evaluations = settings["world"], settings["steps"] // EVERY
    world = GridWorld.load(name)
    found = learn_with_options(
        world, make_kinds(name), seeds=range(1, settings["seeds"] + 1), steps=settings["steps"],
        step_limit=world.step_limit, discoveries=settings["discoveries"],
        initial=settings["initial"],
        step_size=STEP_SIZE[name], discount=DISCOUNT, every=EVERY,
        progress=lambda done: report(done / evaluations),
    )  # fmt: skip
    agents = [found[kind] for kind in KINDS]
    arrays = {
        "returns": [agent.runs.returns for agent in agents],
        "steps_to_optimal": [agent.runs.steps_to_optimal for agent in agents],
        "arrival": [agent.arrival for agent in agents],
        "reward": [agent.reward for agent in agents],
        "inside": [agent.inside for agent in agents],
        "low": [agent.runs.low_reward_visits for agent in agents],
    }
    best = float(found[NONE].runs.best_return[0, 0])
    return Outcome({key: np.stack(parts) for key, parts in arrays.items()}, {"best": best})
