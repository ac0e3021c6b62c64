"""What a map that is learned while an agent trains costs: time for each step, and memory.

    uv run benchmarks/online_cost.py --only time       a DQN with and without, in turn
    uv run benchmarks/online_cost.py --only memory     a million steps

Needs the extras `sb3` and `minigrid`, and a torch. Prints Markdown.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from drogo import MiniGridWorld, OnlineMap, OnlineTable
from drogo_paper.agents.deep import as_numbers, make_agent

STEPS = 4000
ROUNDS = 5
MILLION = 1_000_000
WORLDS: dict[str, Callable[[], gymnasium.Env]] = {
    "MountainCar": lambda: as_numbers(gymnasium.make("MountainCar-v0")),
    "DoorKey-6x6, pixels": lambda: as_numbers(
        MiniGridWorld("MiniGrid-DoorKey-6x6-v0", layout=0, tile=3)
    ),
}


def maps_of(world: str) -> dict[str, Any]:
    env = WORLDS[world]()
    spaces = (env.observation_space, env.action_space)
    maps: dict[str, Any] = {"no map": None, "network": OnlineMap(*spaces, capacity=20_000)}
    if "pixels" in world:  # observations repeat
        maps["table"] = OnlineTable(*spaces)
    return maps


def seconds_of(world: str, kind: str, seed: int) -> float:
    """Seconds of some steps, after the first thousand, in which everything is compiled."""
    from drogo.integrations.sb3 import LearnMap

    shaping = maps_of(world)[kind]
    agent = make_agent("dqn", WORLDS[world], explore=shaping is not None, seed=seed)
    heard = [] if shaping is None else [LearnMap(shaping)]
    agent.learn(1000, callback=heard)
    began = time.perf_counter()
    agent.learn(STEPS, callback=heard, reset_num_timesteps=False)
    return time.perf_counter() - began


def show_time() -> None:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of a few steps without a goal
    print("| world | map | milliseconds a step | times that without a map (each round) |")
    print("|---|---|---|---|")
    for world in WORLDS:
        kinds = list(maps_of(world))
        took: dict[str, list[float]] = {kind: [] for kind in kinds}
        for seed in range(ROUNDS):
            for kind in kinds:  # in turn, so that a slower moment of the machine hits all
                took[kind].append(seconds_of(world, kind, seed))
        for kind, seconds in took.items():
            ratios = np.sort(np.divide(seconds, took["no map"]))
            each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            middle = 1000 * np.median(seconds) / STEPS
            print(f"| {world} | {kind} | {middle:.2f} | {np.median(ratios):.2f} ({each}) |",
                  flush=True)  # fmt: skip


def show_memory() -> None:
    """Random steps of MountainCar for the network, and of MiniGrid's FourRooms for the table."""
    print("| map | steps | MiB at most | states |\n|---|---|---|---|")
    car = as_numbers(gymnasium.make("MountainCar-v0"))
    rooms = as_numbers(MiniGridWorld("MiniGrid-FourRooms-v0", layout=0, tile=2))
    feed(OnlineMap(car.observation_space, car.action_space, updates=0.1), car)
    feed(OnlineTable(rooms.observation_space, rooms.action_space), rooms)


def feed(online: Any, env: gymnasium.Env) -> None:
    rng, chunk = np.random.default_rng(0), 100
    before, _ = env.reset(seed=0)
    for step in range(0, MILLION, chunk):
        rows = []
        for _ in range(chunk):
            action = int(rng.integers(online.n_actions))
            after, reward, over, cut, _ = env.step(action)
            rows.append((before, action, reward, after, over))
            before = env.reset()[0] if over or cut else after
        online.observe(*(np.array(column) for column in zip(*rows, strict=True)))
        online.train()
        if (step + chunk) in (10_000, 100_000, MILLION // 2, MILLION):
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            states = online.metrics.get("states", float("nan"))
            print(f"| {type(online).__name__} | {step + chunk:,} | {most:,.0f} | {states:,.0f} |",
                  flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("time", "memory"))
    options = parser.parse_args()
    if options.only != "memory":
        show_time()
    if options.only != "time":
        show_memory()


if __name__ == "__main__":
    main()
