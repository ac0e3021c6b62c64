"""Reaching any goal from the same random steps: a map to every goal, and a DQN with hindsight.

    uv run benchmarks/reach_goals.py --worlds door-key          5 seeds
    uv run benchmarks/reach_goals.py --worlds maze --seeds 2

Both learn from the same replay of random steps. The map is learned first, and the DQN with
`HerReplayBuffer` then gets the same wall clock. Both are judged greedily on the same starts and
goals. Needs the extras `sb3` and `minigrid`, a torch, and for the maze gymnasium-robotics. Prints
Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from drogo import Drogo, Goals, MiniGridWorld, Transitions, fit
from drogo.learn import PairMLP
from drogo_paper.agents.deep import as_numbers
from drogo_paper.reach_goals import ReachGoals
from online_agents import Maze

LAM = 20.0
STEPS = {"door-key": 50_000, "maze": 50_000}
EPISODES = 50
LONGEST = {"door-key": 200, "maze": 100}
NEAR = 0.45
"""The distance at which a goal of the maze counts as reached: that of gymnasium-robotics."""


def near(observations: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Whether the place of an observation is near that of a goal, whatever the velocities."""
    return np.linalg.norm(observations[:, :2] - goals[:, :2], axis=1) <= NEAR


class MazeGoals(gymnasium.Wrapper):
    """The maze with a goal that is drawn for each episode: a place, in the form of an observation
    without a velocity."""

    def __init__(self) -> None:
        super().__init__(Maze())
        space = self.env.observation_space
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = gymnasium.spaces.Dict(dict.fromkeys(names, space))

    def _drawn(self) -> np.ndarray:
        maze: Any = self.env.unwrapped
        free = maze.maze.unique_reset_locations
        place = free[self.np_random.integers(len(free))] + self.np_random.uniform(-0.2, 0.2, 2)
        return np.array([*place, 0, 0], dtype=np.float32)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        maze: Any = self.env.unwrapped
        rows = maze.maze.maze_map
        cells = [(i, k) for i, row in enumerate(rows) for k, cell in enumerate(row) if cell != 1]
        gymnasium.Env.reset(self.unwrapped, seed=kwargs.get("seed"))
        start = cells[self.np_random.integers(len(cells))]
        observation, info = self.env.reset(
            seed=kwargs.get("seed"), options={"reset_cell": np.array(start)}
        )
        self.goal = (kwargs.get("options") or {}).get("goal", self._drawn())
        return self._parts(observation), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, _, cut, info = self.env.step(action)
        arrived = bool(near(observation[None], self.goal[None])[0])
        info = {**info, "cost": -1.0, "ends_world": False, "is_success": arrived}
        return self._parts(observation), float(arrived) - 1, arrived, cut and not arrived, info

    def _parts(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        return {"observation": observation, "achieved_goal": observation.copy(),
                "desired_goal": self.goal}  # fmt: skip

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        """Every step costs the same, except the one that arrives."""
        return near(achieved, desired) - 1.0


def make(world: str) -> gymnasium.Env:
    if world == "maze":
        return MazeGoals()
    env = MiniGridWorld("MiniGrid-DoorKey-6x6-v0", layout=0, tile=3)
    return gymnasium.wrappers.TimeLimit(ReachGoals(as_numbers(env)), LONGEST[world])


def hindsight(world: str, seed: int) -> Any:
    """A DQN whose replay holds random steps, and which has learned nothing yet."""
    from stable_baselines3 import DQN, HerReplayBuffer

    agent = DQN(
        "MultiInputPolicy", make(world), learning_rate=1e-3, buffer_size=STEPS[world], gamma=0.99,
        batch_size=256, target_update_interval=1, tau=0.01, learning_starts=STEPS[world] + 1,
        replay_buffer_class=HerReplayBuffer, replay_buffer_kwargs={"copy_info_dict": True},
        policy_kwargs={"net_arch": [256, 256], "optimizer_kwargs": {"fused": True}}, seed=seed,
        device="cpu",
    )  # fmt: skip
    agent.learn(STEPS[world])
    return agent


def transitions_of(agent: Any, world: str) -> Transitions:
    """What the replay of an agent holds, without its goals."""
    buffer, n = agent.replay_buffer, STEPS[world]
    before, after = (
        part["observation"][:n, 0] for part in (buffer.observations, buffer.next_observations)
    )
    infos = buffer.infos[:n, 0]
    over = np.array([info["ends_world"] for info in infos])
    if not over.any():
        over[-1] = True  # a task without an end: one step of many stands for it
    return Transitions.from_arrays(
        before, after, np.array([info["cost"] for info in infos]), over,
        action=buffer.actions[:n, 0, 0].astype(np.int64), n_actions=int(agent.action_space.n),
    )  # fmt: skip


def judged(world: str, act: Callable[[Any], int]) -> tuple[float, float]:
    """The share of episodes that arrive, and the mean number of steps of those."""
    env, steps = make(world), []
    for episode in range(EPISODES):
        observation, _ = env.reset(seed=10_000 + episode)
        for step in range(1, LONGEST[world] + 1):
            observation, _, over, cut, info = env.step(act(observation))
            if info["is_success"]:
                steps.append(step)
            if over or cut:
                break
    return len(steps) / EPISODES, float(np.mean(steps)) if steps else np.nan


def by_map(goals: Any, seed: int) -> Callable[[Any], int]:
    """Acts greedily on the map to the current goal."""
    policies: dict[bytes, Any] = {}

    def act(observation: Any) -> int:
        goal = observation["desired_goal"]
        key = goal.tobytes()
        if key not in policies:
            policies[key] = goals.policy(seed, goal=goal)
        return int(policies[key].predict(observation["observation"], deterministic=True)[0])

    return act


def compare(world: str, seed: int) -> None:
    agent = hindsight(world, seed)
    data = transitions_of(agent, world)
    began = time.perf_counter()
    if world == "maze":
        method, problem = Drogo(action_values=True), Goals(lam=LAM, reached=near)
        goals = fit(data, problem, method, seeds=[seed], network=PairMLP())
    else:
        goals = fit(data, Goals(lam=LAM), seeds=[seed])
    seconds = time.perf_counter() - began
    rows = [("map to every goal", judged(world, by_map(goals, seed)), "-")]
    began, updates = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        agent.train(gradient_steps=50, batch_size=256)
        updates += 50
    act = lambda o: int(agent.predict(o, deterministic=True)[0])  # noqa: E731
    rows.append(("DQN with hindsight", judged(world, act), str(updates)))
    rng = np.random.default_rng(seed)
    rows.append(("random", judged(world, lambda _: int(rng.integers(agent.action_space.n))), "-"))
    for method, (share, steps), done in rows:
        print(f"| {world} | {seed} | {method} | {share:.2f} | {steps:.1f} | {seconds:.0f} | {done} "
              f"| {goals.status[0]} |", flush=True)  # fmt: skip


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", nargs="+", default=list(STEPS), choices=STEPS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0, help="to share seeds among machines")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| world | seed | method | arrived | steps, of those | seconds of learning | updates | "
          "status |\n" + "|---" * 8 + "|")  # fmt: skip
    for world in options.worlds:
        for seed in range(options.first_seed, options.seeds):
            compare(world, seed)


if __name__ == "__main__":
    main()
