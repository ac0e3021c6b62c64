"""Agents of Stable-Baselines3 that learn a map while they train, beside rivals: all steps counted.

    uv run benchmarks/online_agents.py --only agents --write         everything, ten seeds
    uv run benchmarks/online_agents.py --only agents --worlds door-key mountain-car --agents dqn
    uv run benchmarks/online_agents.py --only cosines --seeds 3      the map against the exact one

Needs the extras `sb3` and `minigrid`, a torch, and for the maze gymnasium-robotics. An agent is
evaluated as in `sb3_agents.py`. All methods have the same agent, budget and number of tried weights
(`--weight` tries another one). The runs are kept in `--out`. Prints Markdown.
"""

from __future__ import annotations

import time
import warnings
from argparse import Namespace
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from common import LAM, control_truth, finish, job
from drogo import Column, MiniGridWorld, OnlineMap, OnlineTable, exact
from drogo.learn.judge import cosine
from drogo_paper.agents.deep import EVERY, as_numbers, train_agent
from drogo_paper.agents.rivals import RND, OwnValue
from drogo_paper.agents.trained import Evaluations
from drogo_paper.engines import Outcome
from drogo_paper.engines.store import Record
from sb3_agents import DISCOUNT, median_cell
from tables import Part, parse_options, write_parts

MINIGRID = {
    "door-key": ("MiniGrid-DoorKey-6x6-v0", 3),
    "door-key-16": ("MiniGrid-DoorKey-16x16-v0", 2),
    "four-rooms": ("MiniGrid-FourRooms-v0", 2),
    "lava": ("MiniGrid-LavaCrossingS9N2-v0", 3),
}
CONTINUOUS = ("mountain-car", "maze")
BUDGETS = {
    "dqn": {"door-key": 10_000, "door-key-16": 20_000, "four-rooms": 10_000, "lava": 15_000,
            "mountain-car": 15_000, "maze": 15_000},
    "ppo": {"door-key": 40_960, "door-key-16": 81_920, "four-rooms": 40_960, "lava": 40_960,
            "mountain-car": 51_200, "maze": 40_960},
}  # fmt: skip
FEWER_SEEDS = {"door-key-16": 5}
"""Worlds in which all runs together take the longest."""
RARELY = {"dqn": 2000, "ppo": 8192}
"""The steps between evaluations in DoorKey-16x16, whose longest episodes have 2,560 steps."""
WEIGHTS = {"map": 0.25, "plain": 0.0, "RND": 0.1, "own value": 0.1}
"""The best of three weights of each method in LavaCrossing, with two seeds of a DQN."""
PREDICTIONS = {"dqn": 0.5, "ppo": 0.0625}
"""Updates of RND's network for each step: as many as the agent's own, and four times as many."""


class Maze(gymnasium.Wrapper):
    """A maze of gymnasium-robotics with nine forces to choose from, each held for five steps, from
    one end of the maze to the other, at a cost of 1."""

    FORCES = np.array([(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)], dtype=np.float32)
    HELD, LONGEST = 5, 100
    FAR = np.array([2, 2, 6, 6], dtype=np.float32)

    def __init__(self) -> None:
        import gymnasium_robotics  # pyright: ignore[reportMissingImports]

        gymnasium.register_envs(gymnasium_robotics)
        env = gymnasium.make("PointMaze_UMaze-v3", continuing_task=False, max_episode_steps=10**6)
        super().__init__(env)
        self.action_space = gymnasium.spaces.Discrete(len(self.FORCES))
        self.observation_space = gymnasium.spaces.Box(-self.FAR, self.FAR, dtype=np.float32)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        cells = {"reset_cell": np.array([1, 1]), "goal_cell": np.array([3, 1])}
        kwargs["options"] = {**cells, **(kwargs.get("options") or {})}
        observation, info = self.env.reset(**kwargs)
        self._steps = 0
        return self._seen(observation), info

    def _seen(self, observation: Any) -> np.ndarray:
        return np.clip(observation["observation"].astype(np.float32), -self.FAR, self.FAR)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        for _ in range(self.HELD - 1):
            observation, _, _, _, info = self.env.step(self.FORCES[int(action)])
            if info["success"]:
                return self._seen(observation), -1.0, True, False, info
        observation, _, _, _, info = self.env.step(self.FORCES[int(action)])
        arrived, late = bool(info["success"]), self._steps >= self.LONGEST
        return self._seen(observation), -1.0, arrived, late and not arrived, info


def make(world: str) -> gymnasium.Env:
    if world == "maze":
        return Maze()
    if world == "mountain-car":
        return gymnasium.make("MountainCar-v0")
    name, tile = MINIGRID[world]
    return MiniGridWorld(name, layout=0, tile=tile)


def shaping_of(settings: dict[str, Any]) -> Any:
    """Returns the object that changes the rewards of the agent, or None."""
    method, weight, seed = settings["method"], settings["weight"], settings["seed"]
    env = as_numbers(make(settings["world"]))
    spaces = (env.observation_space, env.action_space)
    if method == "plain":
        return None
    if method == "RND":
        return RND(spaces[0], weight=weight, seed=seed, updates=PREDICTIONS[settings["agent"]])
    if method == "own value":
        return OwnValue(weight=weight)
    rest: dict[str, Any] = {"weight": weight, "discount": DISCOUNT}
    if settings["world"] in MINIGRID:
        return OnlineTable(*spaces, Column(lam=LAM), **rest)
    return OnlineMap(*spaces, Column(lam=LAM), seed=seed, capacity=100_000, **rest)


def places_and_truth(world: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns observations as an agent sees them, and the exact map there."""
    env: Any = make(world)
    if world == "mountain-car":
        ranges = zip(env.observation_space.low, env.observation_space.high, strict=True)
        places = np.stack(np.meshgrid(*(np.linspace(*one, 40) for one in ranges)), axis=-1)
        places = places.reshape(-1, 2)
        truth = control_truth("MountainCar-v0")(places)
    else:
        places, truth = env.all_observations(), exact.log_column(env.mdp, LAM)
    change = getattr(as_numbers(env), "observation", np.asarray)
    return np.stack([change(place) for place in places]).astype(np.float32), truth


def run(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of a budget without a terminal state
    world, budget = settings["world"], settings["budget"]
    places, truth = places_and_truth(world) if settings["cosines"] else (None, np.zeros(0))
    began = time.perf_counter()
    how = Evaluations(
        settings["every"], 5 if world in CONTINUOUS else 1, places,
        progress=lambda steps: report(steps / budget),
    )  # fmt: skip
    trained = train_agent(
        settings["agent"], lambda: as_numbers(make(world)), shaping_of(settings), steps=budget,
        evaluations=how, seed=settings["seed"], gamma=DISCOUNT,
    )  # fmt: skip
    arrays = {"steps": trained.steps, "deaths": trained.deaths}
    if places is not None:
        known = np.isfinite(trained.maps)
        pairs = zip(trained.maps, known, strict=True)
        scores = [cosine(v[None, k], truth[k])[0] if k.any() else np.nan for v, k in pairs]
        arrays |= {"known": known.mean(axis=1), "cosine": np.array(scores)}
    facts = {"solved at": trained.solved_at, "seconds": time.perf_counter() - began}
    return Outcome(arrays, facts)


def runs_of(
    options: Namespace, agents: list[str], methods: list[str], *, cosines: bool
) -> dict[Any, list[Record]]:
    """Returns the runs of all seeds, by agent, world and method."""
    jobs = {}
    cells: Iterator[Any] = product(range(options.seeds), agents, options.worlds)
    for seed, agent, world in cells:
        if seed >= FEWER_SEEDS.get(world, options.seeds) or (cosines and world == "maze"):
            continue
        for method in methods:
            # Every world and method with one seed, before any with the next.
            jobs[agent, world, method, seed] = job(
                "online_agents:run", f"{agent}, {world}, {method}, seed {seed}", 1.0 / (1 + seed),
                agent=agent, world=world, method=method, seed=seed, cosines=cosines,
                weight=WEIGHTS[method] if np.isnan(options.weight) else options.weight,
                budget=options.budget or BUDGETS[agent][world],
                every=RARELY[agent] if world == "door-key-16" else EVERY[agent],
            )  # fmt: skip
    groups: dict[Any, list[Record]] = {}
    for key, record in finish(jobs, options.out, options.workers).items():
        groups.setdefault(key[:3], []).append(record)
    return groups


def agents(options: Namespace) -> Iterator[list[str]]:
    groups = runs_of(options, options.agents, options.methods, cosines=False)
    for agent, world in dict.fromkeys(key[:2] for key in groups):
        cells = []
        for method in options.methods:
            runs = groups[agent, world, method]
            deaths = np.mean([run.arrays["deaths"][-1] for run in runs])
            cell = median_cell([float(run.facts["solved at"]) for run in runs])
            cells.append(f"{cell} ({deaths:.0f})" if world == "lava" else cell)
        budget = options.budget or BUDGETS[agent][world]
        yield [f"{agent.upper()}, {world} ({budget:,})", *cells]


def cosines(options: Namespace) -> Iterator[list[str]]:
    """Yields the cosine of the map with the exact one, where it is known, by steps."""
    for (_, world, _), runs in runs_of(options, ["dqn"], ["map"], cosines=True).items():
        cells = []
        for steps in (500, 1000, 2000, np.inf):
            at = [min(np.searchsorted(run.arrays["steps"], steps), -1 + run.arrays["steps"].size)
                  for run in runs]  # fmt: skip
            parts = [[run.arrays[name][k] for run, k in zip(runs, at, strict=True)]
                     for name in ("cosine", "known")]  # fmt: skip
            spans = [f"{np.nanmin(part):.2f} to {np.nanmax(part):.2f}" for part in parts]
            cells.append(f"{spans[0]} ({spans[1]})")
        yield [world, *cells]


PARTS = {
    "agents": Part(
        "online-agents",
        agents,
        "Environment steps until an agent of Stable-Baselines3 has solved its world, with every "
        "step counted: the median of {seeds} seeds (at most five in door-key-16), its 95 % "
        "interval, and the seeds that did.",
        ("agent, world (budget)", *WEIGHTS),
        "*Never* means not within the budget. In round brackets: deaths in lava until then, on "
        "average. A DQN with a map is an `ExploringDQN`. *Own value* is bootstrapped shaping.",
    ),
    "cosines": Part(
        "online-cosines",
        cosines,
        "The map while a DQN trains, {seeds} seeds: its cosine with the exact map over the states "
        "that it knows, and in brackets their share of all states.",
        ("world", "500 steps", "1,000", "2,000", "at the end"),
    ),
}

if __name__ == "__main__":
    options = parse_options(
        __doc__, only=tuple(PARTS), worlds=(*MINIGRID, *CONTINUOUS), agents=("dqn", "ppo"),
        methods=tuple(WEIGHTS), seeds=10, budget=None, weight=np.nan, workers=0,
        out=Path("results/online-agents"),
    )  # fmt: skip
    write_parts(PARTS, options)
