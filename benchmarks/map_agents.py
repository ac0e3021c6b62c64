"""The map as an agent, beside agents of Stable-Baselines3: steps until they solve their world.

    uv run benchmarks/map_agents.py --write
    uv run benchmarks/map_agents.py --worlds FourRooms DoorKey-8x8 --methods MapAgent --seeds 2

Needs the extras `sb3` and `minigrid`, and a torch. Each world has a fixed layout, a symbolic view
of the whole grid, and MiniGrid's own reward, from 0.1 to 1 at the goal and 0 elsewhere, at bad ends
too. Every 100 steps (PPO: 128) the agent plays ten greedy episodes, which are not counted; it has
solved its world when all ten reach the goal. The runs are kept in `--out`. Prints Markdown.
"""

from __future__ import annotations

import time
import warnings
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy

from common import LAM, finish_agents
from drogo import Column, OnlineTable
from drogo.integrations.sb3 import LearnMap, MapAgent
from drogo_paper.agents.deep import as_numbers, make_agent
from drogo_paper.agents.rivals import RND
from drogo_paper.engines import Outcome
from sb3_agents import DISCOUNT, median_cell
from sparse_agents import Sparse
from tables import parse_options, write_table

WORLDS = ("LavaGapS7", "Unlock", "KeyCorridorS3R2", "ObstructedMaze-1Dl", "MultiRoom-N4-S5")
WORLDS += ("UnlockPickup", "DoorKey-8x8", "DoorKey-16x16", "FourRooms", "LavaCrossingS9N2")
WORLDS += ("RedBlueDoors-6x6",)
METHODS = ("MapAgent", "DQN with the map", "DQN with RND", "DQN", "PPO")
EVERY, EPISODES = 100, 10


class Solved(BaseCallback):
    """Stops training as soon as all of some greedy episodes reach the goal."""

    def __init__(self, env: Any, steps: int, report: Any) -> None:
        super().__init__()
        self.env, self.steps, self.report, self.at, self._next = env, steps, report, None, EVERY

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._next:
            self._next += EVERY
            self.report(self.num_timesteps / self.steps)
            pays, _ = evaluate_policy(
                self.model, self.env, EPISODES, return_episode_rewards=True, warn=False
            )
            self.at = self.num_timesteps if np.min(pays) > 0 else None
        return self.at is None


def run(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of a budget in which no goal was found
    name, method, seed, steps = (settings[k] for k in ("world", "method", "seed", "steps"))
    acts = method == "MapAgent"

    def make() -> Any:
        env = Sparse(f"MiniGrid-{name}-v0", reports=False)
        return env if acts else as_numbers(env)

    began, first, shaping = time.perf_counter(), make(), None
    spaces = (first.observation_space, first.action_space)
    if method == "DQN with the map":
        rule: dict[str, Any] = {"discount": DISCOUNT, "reward": -1.0, "weight": 0.5}
        shaping = OnlineTable(*spaces, Column(lam=LAM), **rule)
    if method == "DQN with RND":
        shaping = RND(spaces[0], weight=0.1, seed=seed)
    kind = "ppo" if method == "PPO" else "dqn"
    options = {"explore": method == "DQN with the map", "seed": seed, "gamma": DISCOUNT}
    agent = MapAgent("table", first, seed=seed) if acts else make_agent(kind, make, **options)
    solved = Solved(make(), steps, report)
    agent.learn(steps, callback=[solved] if shaping is None else [LearnMap(shaping), solved])
    at = float("inf") if solved.at is None else solved.at
    facts = {"solved at": at, "seconds": time.perf_counter() - began}
    return Outcome({}, {**facts, "steps": agent.num_timesteps})


def rows(options: Namespace) -> Iterator[list[str]]:
    records = finish_agents("map_agents:run", options.methods, options)
    for world in options.worlds:
        cells = []
        for method in options.methods:
            runs = [records[world, method, seed] for seed in range(options.seeds)]
            cells.append(median_cell([float(one.facts["solved at"]) for one in runs]))
        yield [world, *cells]


if __name__ == "__main__":
    options = parse_options(
        __doc__, worlds=WORLDS, methods=METHODS, seeds=10, steps=20_000, workers=0,
        out=Path("results/map-agents"),
    )  # fmt: skip
    title = "Environment steps until ten greedy episodes in a row reach the goal, of "
    title += f"{options.steps:,}: the median of {options.seeds} seeds, its 95 % interval, and the "
    title += "seeds that did."
    note = "`MapAgent` and the DQN with the map have an `OnlineTable`, which learns meanwhile."
    write_table("map-agents", title, ("world", *options.methods), rows(options), note,
                write=options.write)  # fmt: skip
