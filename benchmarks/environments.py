"""Runs `drogo learn ID` with no option in many environments, and the policy of each map in the real
environment.

    uv run benchmarks/environments.py
    uv run benchmarks/environments.py --only Taxi-v4 CartPole-v1
    uv run benchmarks/environments.py --write

Where a map has no action values, every action is tried on a copy of the environment, whose random
numbers are other ones, and the best is taken. Success is that of the environment: a positive last
reward, an end that is not a failure, or a return.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from drogo import load
from drogo.data.step import as_key, part_of
from drogo.worlds.minigrid import ACTIONS
from drogo.worlds.resolve import resolve
from tables import parse_options, write_table

HERE = Path(__file__).parent
EPISODES, SAMPLES, TIMEOUT, MOST_STEPS = 20, 8, 300, 500
IDS = [
    "MiniGrid-Unlock-v0",
    "MiniGrid-UnlockPickup-v0",
    "MiniGrid-KeyCorridorS3R2-v0",
    "MiniGrid-ObstructedMaze-1Dl-v0",
    "MiniGrid-RedBlueDoors-6x6-v0",
    "MiniGrid-Dynamic-Obstacles-8x8-v0",
    "MiniGrid-LavaGapS7-v0",
    "MiniGrid-MultiRoom-N2-S4-v0",
    "Taxi-v4",
    "FrozenLake-v1",
    "environments:Lake-v0",
    "CliffWalking-v1",
    "Blackjack-v1",
    "LunarLander-v3",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "CartPole-v1",
    "drogo/Room-Wall-v0",
    "environments:Dict-v0",
    "environments:Tuple-v0",
    "environments:Frames-v0",
]
BY_CHANCE = {"FrozenLake-v1", "Blackjack-v1", "MiniGrid-Dynamic-Obstacles-8x8-v0"}
SHORT = 160
ARRIVES = ("CliffWalking", "MountainCar", "drogo/", "Acrobot")
"""Environments whose ends are all goals. Elsewhere the last reward of a goal is positive."""
HEADER = "environment", "status", "seconds", "error", "success", "return (random)", "said"
TITLE = "What `drogo learn ID` says and does with no option, and what the policy of its map does."


class Room(gymnasium.Env):
    """A room of 7 x 7 cells with a wall and a goal that pays 1, seen in several ways."""

    def __init__(self, view: str) -> None:
        self.view, self.action_space = view, Discrete(4)
        self.observation_space = {
            "dict": Dict({"place": MultiDiscrete([7, 7]), "time": Box(0, 1, (1,))}),
            "tuple": Tuple((Discrete(7), Discrete(7))),
            "frames": Box(0, 255, (84, 84, 4), np.uint8),
        }[view]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.place = (0, 0)
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        (row, column), (down, right) = self.place, ((0, 1), (1, 0), (0, -1), (-1, 0))[action]
        row, column = min(max(row + down, 0), 6), min(max(column + right, 0), 6)
        self.place = self.place if column == 3 and row < 5 else (row, column)
        over = self.place == (0, 6)
        return self.seen(), float(over), over, False, {}

    def seen(self) -> Any:
        row, column = self.place
        if self.view == "dict":
            return {"place": np.array([row, column]), "time": np.zeros(1, np.float32)}
        if self.view == "tuple":
            return row, column
        frames = np.zeros((84, 84, 4), np.uint8)
        frames[12 * row : 12 * row + 12, 12 * column : 12 * column + 12] = 255
        return frames


for view in ("Dict", "Tuple", "Frames"):
    gymnasium.register(f"{view}-v0", "environments:Room", None, max_episode_steps=200,
                       kwargs={"view": view.lower()})  # fmt: skip
gymnasium.register("Lake-v0", "gymnasium.envs.toy_text:FrozenLakeEnv", max_episode_steps=100,
                   kwargs={"is_slippery": False})  # fmt: skip


def learn(name: str, out: str) -> tuple[dict[str, Any], float]:
    """Returns the report of the command, or its error, and the seconds that it took."""
    began = time.perf_counter()
    words = [sys.executable, "-m", "drogo", "learn", name, "--json", "--out", out]
    try:
        done = subprocess.run(words, cwd=HERE, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return {"error": f"nothing within {TIMEOUT} s"}, TIMEOUT
    seconds = time.perf_counter() - began
    try:
        return json.loads(done.stdout), seconds
    except json.JSONDecodeError:
        return {"error": f"no report: {done.stderr.strip().splitlines()[-1:]}"}, seconds


def chosen(world: Any, env: Any, seen: Any, solution: Any, rng: Any, samples: int) -> Any:
    """Returns the action of a map in a state, or a random one if there is no map."""
    if solution is None:
        return env.action_space.sample()
    key, costs, lam = (
        as_key(world.sampling.get("key")),
        solution.problem.costs,
        solution.problem.lam,
    )
    if solution.method.per_action:
        return solution.policy(seed=0)(np.asarray(part_of(seen, key))[None])[0]
    space = env.action_space
    listed = (
        range(int(space.n)) if isinstance(space, Discrete) else [space.sample() for _ in "9" * 9]
    )
    worth = []
    for action in listed:
        values = []
        for _ in range(samples):
            other = copy.deepcopy(env)
            other.unwrapped.np_random = np.random.default_rng(rng.integers(2**31))
            after, reward, over, _, _ = other.step(action)
            of_map = world.sampling.get("reward") or reward
            gain, end = costs.of_steps(of_map, over, reward) if costs else (of_map, 0.0)
            there = 0.0 if over else solution(np.asarray(part_of(after, key))[None])[0, 0]
            values.append((gain + end) / lam + there)
        worth.append(float(np.logaddexp.reduce(values)))
    return listed[int(np.argmax(worth))]


def episodes(name: str, solution: Any) -> Iterator[tuple[float, float, bool]]:
    """Yields the return, the last reward and the termination of each episode."""
    world, rng, samples = (
        resolve(name),
        np.random.default_rng(0),
        SAMPLES if name in BY_CHANCE else 1,
    )
    if known := hasattr(world.env, "moves"):  # a MiniGridWorld: the real one has all actions
        env, moves = gymnasium.make(name, disable_env_checker=True), world.env.moves
        values = None if solution is None else solution(world.env.all_observations())[0]
    else:
        env = world.make(limited=True)
    for episode in range(1 if known and solution else EPISODES):
        env.action_space.seed(episode)
        seen, _ = env.reset(seed=0 if known else episode)
        total, reward, over, cut, steps, state = 0.0, 0.0, False, False, 0, 0
        while not (over or cut or steps >= MOST_STEPS):
            if known and solution:
                one = values[moves.next_state[state]].argmax()
                state = moves.next_state[state, one]
                action = ACTIONS.index(world.env.actions[one])
            else:
                action = chosen(world, env, seen, solution, rng, samples)
            seen, reward, over, cut, _ = env.step(action)
            total, steps = total + float(reward), steps + 1
        yield total, float(reward), over


def row(name: str) -> list[object]:
    """Returns the cells of an environment."""
    with tempfile.TemporaryDirectory() as out:
        report, seconds = learn(name, out)
        shown = name.removeprefix("MiniGrid-").removeprefix("environments:")
        if "error" in report:
            return [shown, "refused", f"{seconds:.0f}", "-", "-", "-", report["error"][:SHORT]]
        solution, seeds = load(report["files"]["solution"]), report["seeds"]
        played, random = (np.array([*episodes(name, one)], float) for one in (solution, None))
    key = next(key for key in ("difference_column", "error", "certificate") if key in seeds[0])
    error = max(seed[key] for seed in seeds)
    good = played[:, 2 if name.startswith(ARRIVES) else 1] > 0
    return [
        shown, seeds[0]["status"], f"{seconds:.0f}", error if key == "certificate" else f"{error:.2g}",
        f"{int(good.sum())} of {len(good)}", f"{played[:, 0].mean():.3g} ({random[:, 0].mean():.3g})",
        " ".join([report["verdict"].split(":")[0], *report["warnings"]])[:SHORT],
    ]  # fmt: skip


if __name__ == "__main__":
    options = parse_options(__doc__, only=tuple(IDS))
    write_table("environments", TITLE, HEADER, map(row, options.only), write=options.write)
