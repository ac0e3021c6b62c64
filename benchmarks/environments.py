"""Runs `drogo learn ID` with no option in many environments, and the policy of each map in the real
environment.

    uv run benchmarks/environments.py --only Taxi-v4 environments:Dict-v0 --write

Every action is tried on a copy of the environment with other random numbers, and the best is taken:
by the mean for `Soft`, by the mean of the exponentials for `Column`. Success is a positive last
reward, or an end if all are good. Rows are kept in `--out`, by environment.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple

from drogo import load
from drogo.data.step import as_key, part_of
from drogo.files import write_file
from drogo.worlds.minigrid import ACTIONS
from drogo.worlds.resolve import resolve
from tables import parse_options, write_table

EPISODES, SAMPLES, TIMEOUT, MOST_STEPS, SHORT = 20, 8, 900, 500, 160
MINIGRID = ("Unlock", "UnlockPickup", "KeyCorridorS3R2", "ObstructedMaze-1Dl", "RedBlueDoors-6x6")
MINIGRID += ("Dynamic-Obstacles-8x8", "LavaGapS7", "MultiRoom-N2-S4")
OTHERS = ("Taxi-v4", "FrozenLake-v1", "CliffWalking-v1", "Blackjack-v1", "drogo/Room-Wall-v0")
OTHERS += ("LunarLander-v3", "MountainCarContinuous-v0", "Pendulum-v1", "CartPole-v1")
OTHERS += ("gymnasium_robotics:PointMaze_UMaze-v3",)
OWN = ("Dict-v0", "Tuple-v0", "Frames-v0", "Lake-v0")
IDS = (*(f"MiniGrid-{name}-v0" for name in MINIGRID), *OTHERS, *(f"environments:{i}" for i in OWN))
BY_CHANCE = ("FrozenLake", "Blackjack", "MiniGrid-Dynamic", "CliffWalkingSlippery")
ALL_GOOD = ("CliffWalking", "MountainCar", "drogo/", "Acrobot")
HEADER = ("environment", "status", "seconds", "error", "success", "return (random)", "said")
TITLE = "What `drogo learn ID` says and does with no option, and what the policy of its map does."
NOTE = "Error: the largest difference to the exact solution of the environment or of its data. The "
NOTE += "policy tries each action on a copy of the environment. The seconds of many rows were "
NOTE += "measured beside other programs, which takes up to three times as long."


class Room(gymnasium.Env):
    """A room of 7 x 7 cells with a wall and a goal that pays 1, seen in several ways."""

    def __init__(self, view: str) -> None:
        self.view, self.action_space = view, Discrete(4)
        self.observation_space = {
            "dict": Dict({"row": Discrete(7), "at": Discrete(7)}),
            "tuple": Tuple((Discrete(7), Discrete(7))),
            "frames": Box(0, 255, (84, 84, 4), np.uint8),
        }[view]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.place = (0, 0)
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        after = np.add(self.place, ((0, 1), (1, 0), (0, -1), (-1, 0))[action]).clip(0, 6).tolist()
        self.place = self.place if after[1] == 3 and after[0] < 5 else tuple(after)
        over = self.place == (0, 6)
        return self.seen(), float(over), over, False, {}

    def seen(self) -> Any:
        (row, column), seen = self.place, np.zeros((84, 84, 4), np.uint8)
        seen[12 * row : 12 * row + 12, 12 * column : 12 * column + 12] = 255
        views = {"dict": {"row": row, "at": column}, "tuple": self.place, "frames": seen}
        return views[self.view]


for made in OWN:
    kwargs, entry = {"view": made.removesuffix("-v0").lower()}, "environments:Room"
    if made == "Lake-v0":
        kwargs, entry = {"is_slippery": False}, "gymnasium.envs.toy_text:FrozenLakeEnv"
    if made not in gymnasium.registry:
        gymnasium.register(made, entry, max_episode_steps=200, kwargs=kwargs)


def learn(name: str, out: str) -> tuple[dict[str, Any], float]:
    """Returns the report of the command, or its error, and the seconds that it took."""
    began, options = time.perf_counter(), {"cwd": sys.path[0], "timeout": TIMEOUT}
    words = [sys.executable, "-m", "drogo", "learn", name, "--json", "--out", out]
    try:
        done = subprocess.run(words, capture_output=True, text=True, **options)  # noqa: PLW1510
        report = done.stdout or json.dumps({"error": f"no report: {done.stderr.strip()}"})
        return json.loads(report), time.perf_counter() - began
    except subprocess.TimeoutExpired:
        return {"error": f"nothing within {TIMEOUT} s"}, TIMEOUT


def chosen(world: Any, env: Any, solution: Any, samples: int) -> Any:
    """Returns the action of a map in a state, or a random one if there is no map."""
    if solution is None:
        return env.action_space.sample()
    key, costs, space = as_key(world.sampling.get("key")), solution.problem.costs, env.action_space
    count = int(space.n) if isinstance(space, Discrete) else 0
    actions = range(count) if count else [space.sample() for _ in range(9)]
    values = np.zeros((len(actions), samples))
    for k, sample in np.ndindex(values.shape):
        other = copy.deepcopy(env)
        other.unwrapped.np_random = np.random.default_rng(sample)
        after, reward, over, _, _ = other.step(actions[k])
        of_map = world.sampling.get("reward") or reward
        gain, end = costs.of_steps(of_map, over, reward) if costs else (of_map, 0.0)
        there = 0.0 if over else solution(np.asarray(part_of(after, key))[None])[0, 0]
        values[k, sample] = (gain + end) / solution.problem.lam + there
    neutral = solution.problem.kind == "soft"
    worth = values.mean(axis=1) if neutral else np.logaddexp.reduce(values, axis=1)
    return actions[int(worth.argmax())]


def episodes(name: str, solution: Any) -> Any:
    """Yields the return, the last reward and the termination of each episode."""
    world, samples, state = resolve(name), SAMPLES if name.startswith(BY_CHANCE) else 1, 0
    known, after, v = hasattr(world.env, "moves"), np.zeros(0), np.zeros(0)
    if known and solution:  # a MiniGridWorld: the real one has all actions
        after, v = world.env.moves.next_state, solution(world.env.all_observations())[0]
    env = gymnasium.make(name) if known else world.make(limited=True)
    for episode in range(1 if known and solution else EPISODES):
        env.action_space.seed(episode)
        total, steps, over, cut, _ = 0.0, 0, 0, 0, env.reset(seed=0 if known else episode)
        reward = 0.0
        while not (over or cut or steps >= MOST_STEPS):
            if known and solution:
                one = v[after[state]].argmax()
                state, action = after[state, one], ACTIONS.index(world.env.actions[one])
            else:
                action = chosen(world, env, solution, samples)
            _, reward, over, cut, _ = env.step(action)
            total, steps = total + float(reward), steps + 1
        yield total, float(reward), over


def row(name: str) -> list[object]:
    """Returns the cells of an environment."""
    shown = name.removeprefix("MiniGrid-").rpartition(":")[2]
    with tempfile.TemporaryDirectory() as out:
        report, seconds = learn(name, out)
        if "error" in report:
            return [shown, "refused", round(seconds), "-", "-", "-", shortened(report["error"])]
        solution, seeds = load(report["files"]["solution"]), report["seeds"]
        played, random = (np.array([*episodes(name, one)], float) for one in (solution, None))
    keys = ("difference_column", "error", "certificate")
    key = next(key for key in keys if seeds[0].get(key) is not None)
    error = max(seed[key] for seed in seeds)
    good = played[:, 2 if name.startswith(ALL_GOOD) else 1] > 0
    returns, success = (f"{rows[:, 0].mean():.3g}" for rows in (played, random)), int(good.sum())
    said = " ".join([f"{report['verdict'].split(':')[0]}.", *report["warnings"]])
    cells = [shown, seeds[0]["status"], round(seconds), error if key[0] == "c" else f"{error:.2g}"]
    return [*cells, f"{success} of {len(good)}", "{} ({})".format(*returns), shortened(said)]


def shortened(said: str) -> str:
    return said if len(said) <= SHORT else f"{said[:SHORT].rsplit(' ', 1)[0]} ..."


def kept(name: str, out: Path) -> list[object]:
    """Returns the cells of an environment, which an earlier run may have left."""
    path = out / f"{name.replace('/', '-')}.json"
    if not path.exists():
        write_file(path, json.dumps(row(name)).encode())
    return json.loads(path.read_text())


if __name__ == "__main__":
    options = parse_options(__doc__, only=IDS, out=Path("results/environments"))
    rows = (kept(name, options.out) for name in options.only)
    write_table("environments", TITLE, HEADER, rows, NOTE, write=options.write)
