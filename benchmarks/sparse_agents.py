"""A DQN with a reward at the goal alone, with a map that it learns meanwhile: in steps, and in the
agent's units.

    uv run benchmarks/sparse_agents.py --write
    uv run benchmarks/sparse_agents.py --worlds lava-gap --seeds 1

Needs the extras `sb3` and `minigrid`, and a torch. The agent gets MiniGrid's own reward, from 0.1
to 1 at the goal and 0 elsewhere, from which the map infers which ends are good. The runs are kept
in `--out`. Prints Markdown.
"""

from __future__ import annotations

import time
import warnings
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium

from common import LAM, finish_agents
from drogo import Column, MiniGridWorld, OnlineTable
from drogo.worlds.minigrid import ACTIONS
from drogo_paper.agents.deep import as_numbers, train_agent
from drogo_paper.agents.trained import Evaluations
from drogo_paper.engines import Outcome
from sb3_agents import DISCOUNT, median_cell
from tables import parse_options, write_table

WORLDS = {
    "lava-gap": "MiniGrid-LavaGapS7-v0", "unlock": "MiniGrid-Unlock-v0",
    "key-corridor": "MiniGrid-KeyCorridorS3R2-v0",
}  # fmt: skip
METHODS: dict[str, dict[str, Any] | None] = {
    "no map": None,
    "map of steps, weight 0.5": {"reward": -1.0, "weight": 0.5},
    "in the agent's units": {"reward": -1.0, "weight": None, "goal_reward": 1.0},
}


class Sparse(gymnasium.Wrapper):
    """A MiniGrid world with a fixed layout and MiniGrid's own reward.

    Args:
        world: The id of the world.
        reports: Whether the last step reports whether its end is good, as evaluations need it.
    """

    def __init__(self, world: str, *, reports: bool) -> None:
        actions = ACTIONS[:6] if "KeyCorridor" in world else None  # a key has to be dropped
        self.world = MiniGridWorld(world, layout=0, observation="symbolic", actions=actions)
        super().__init__(self.world)
        self.reports = reports

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = self.env.step(action)
        good = terminated and info["terminal_reward"] >= 0
        info = info if self.reports else {}
        late = self.world.steps / self.world.step_limit
        reward = 1.0 - 0.9 * late if good else 0.0
        return observation, reward, terminated, truncated, info


def run(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of a budget in which no goal was found
    world, rule, steps = settings["world"], METHODS[settings["method"]], settings["steps"]
    made = iter([as_numbers(Sparse(WORLDS[world], reports=reports)) for reports in (False, True)])
    first, online = as_numbers(Sparse(WORLDS[world], reports=False)), None
    if rule is not None:
        spaces = (first.observation_space, first.action_space)
        online = OnlineTable(*spaces, Column(lam=LAM), discount=DISCOUNT, **rule)
    began = time.perf_counter()
    trained = train_agent(
        "dqn", lambda: next(made), online, steps=steps, gamma=DISCOUNT, seed=settings["seed"],
        evaluations=Evaluations(500, progress=lambda at: report(at / steps)),
    )  # fmt: skip
    arrivals = trained.arrivals[-1] + trained.deaths[-1]
    facts = {"solved at": trained.solved_at, "ends": arrivals}
    return Outcome({"steps": trained.steps, "arrived": trained.arrived},
                   {**facts, "seconds": time.perf_counter() - began})  # fmt: skip


def rows(options: Namespace) -> Iterator[list[str]]:
    records = finish_agents("sparse_agents:run", METHODS, options)
    for world in options.worlds:
        runs = [[records[world, method, seed] for seed in range(options.seeds)]
                for method in METHODS]  # fmt: skip
        solved = [[float(run.facts["solved at"]) for run in part] for part in runs]
        yield [WORLDS[world].removeprefix("MiniGrid-"), *map(median_cell, solved)]


if __name__ == "__main__":
    options = parse_options(
        __doc__, worlds=tuple(WORLDS), seeds=5, steps=20_000, workers=0,
        out=Path("results/sparse-agents"),
    )  # fmt: skip
    title = "Environment steps until a DQN with a reward at the goal alone has solved its world, "
    title += f"of {options.steps:,}: the median of {options.seeds} seeds, its 95 % interval, and "
    title += "the seeds that did."
    note = (
        "With a map it is an `ExploringDQN`, whose map is an `OnlineTable` that learns meanwhile."
    )
    write_table("sparse-agents", title, ("world", *METHODS), rows(options), note,
                write=options.write)  # fmt: skip
