"""Stable-Baselines3 agents, shaped against unshaped: how many steps until they solve it?

    uv run benchmarks/beyond_grids.py       first: learns the maps these agents are shaped by
    uv run benchmarks/sb3_agents.py         DQN and PPO in two MiniGrid worlds and MountainCar
    uv run benchmarks/sb3_agents.py --potentials none DR SR --algorithms DQN
                                            also with the learned successor representation

Needs the `sb3` and `minigrid` extras and a torch. An agent is judged every so many steps by its
deterministic policy and the original reward; it has solved its world when three judgements in a row
reach the goal in every episode, and it takes the first of the three. All kinds have the same
settings and the same budget; each seed is shaped by a map learned with the same seed, from the same
transitions. A run for each, kept in `--out`. Prints Markdown and draws the curves.
"""

from __future__ import annotations

import argparse
import os
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure

from drogo import PotentialShaping, fit, load, load_spectrum, plot
from drogo.files import write_file
from drogo.plot.shaping import OKABE_ITO, legend_below
from drogo.runs import Job, LocalEngine, Outcome, Store

DISCOUNT = 0.99
WEIGHT = 0.5
IN_A_ROW = 3
MAPS = {"door-key": "MiniGrid-DoorKey-6x6-v0", "four-rooms": "MiniGrid-FourRooms-v0",
        "mountain-car": "mountain-car"}  # fmt: skip
BUDGETS = {
    ("DQN", "door-key"): 15_000, ("DQN", "four-rooms"): 15_000, ("DQN", "mountain-car"): 20_000,
    ("PPO", "door-key"): 81_920, ("PPO", "four-rooms"): 81_920, ("PPO", "mountain-car"): 102_400,
}  # fmt: skip
EVERY = {"DQN": 500, "PPO": 2048}
"""Training steps."""
DQN_SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3, "learning_starts": 500, "train_freq": 2, "gradient_steps": 1,
    "batch_size": 64, "target_update_interval": 250, "buffer_size": 50_000,
    "exploration_fraction": 0.5, "exploration_final_eps": 0.05,
}  # fmt: skip
PPO_SETTINGS: dict[str, Any] = {
    "n_steps": 128, "batch_size": 64, "learning_rate": 2.5e-4, "ent_coef": 0.0,
}  # fmt: skip
"""Those of SB3's zoo for MiniGrid, which also normalise the reward."""
PPO_ENVIRONMENTS = 8
POTENTIALS = {"none": "unshaped", "DR": "default representation", "SR": "successor representation"}


def make(world: str) -> gymnasium.Env:
    if world == "mountain-car":
        return gymnasium.make("MountainCar-v0")
    from beyond_grids import WORLDS
    from drogo.worlds.minigrid import MiniGridWorld

    name = MAPS[world]
    return MiniGridWorld(name, layout=0, **WORLDS[name])


def for_an_agent(env: gymnasium.Env) -> gymnasium.Env:
    """Numbers from -1 to 1; pixels less those of the first picture: with the background in, an MLP
    tells states apart slowly, shaped or not. Outside the shaping, which sees them as they are."""
    space = env.observation_space
    if space.dtype != np.uint8:
        return gymnasium.wrappers.RescaleObservation(env, np.float32(-1), np.float32(1))
    first = env.reset()[0].astype(np.float32)
    return gymnasium.wrappers.TransformObservation(
        env,
        lambda picture: (picture.astype(np.float32) - first) / 255,
        gymnasium.spaces.Box(-1, 1, space.shape, np.float32),
    )


def judge(agent: Any, env: gymnasium.Env, episodes: int) -> tuple[float, float, float]:
    """Of the deterministic policy: mean original return, share of episodes that arrive, length."""
    earned, arrived, steps = 0.0, 0, 0
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        over = False
        while not over:
            action, _ = agent.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            earned += float(reward)
            steps += 1
            over = terminated or truncated
            arrived += terminated
    return earned / episodes, arrived / episodes, steps / episodes


def run(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    import torch
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    world, algorithm, seed = settings["world"], settings["algorithm"], settings["seed"]
    potential = None
    if settings["potential"] != "none":
        learned = (load if settings["potential"] == "DR" else load_spectrum)(settings["map"])
        potential = learned.potential(learned.seeds[0])

    def training() -> gymnasium.Env:
        env = make(world)
        if potential is not None:
            env = PotentialShaping(env, potential, settings["weight"], DISCOUNT)
        return for_an_agent(env)

    judged = for_an_agent(make(world))
    episodes = 5 if world == "mountain-car" else 1
    budget, every = settings["budget"], EVERY[algorithm]
    curve: list[tuple[float, ...]] = []

    class Judge(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps % every:
                return True
            curve.append((self.num_timesteps, *judge(self.model, judged, episodes)))
            report(self.num_timesteps / budget)
            return not solved_at(np.array(curve))

    common = {"gamma": DISCOUNT, "seed": seed, "device": "cpu"}
    if algorithm == "DQN":
        layers = {"net_arch": [128, 128]}
        agent = DQN("MlpPolicy", training(), policy_kwargs=layers, **common, **DQN_SETTINGS)
    else:
        several = make_vec_env(training, n_envs=PPO_ENVIRONMENTS, seed=seed)
        several = VecNormalize(several, norm_obs=False, gamma=DISCOUNT)
        agent = PPO("MlpPolicy", several, **common, **PPO_SETTINGS)
    agent.learn(budget, callback=Judge())
    return Outcome({"curve": np.array(curve)})


def solved_at(curve: np.ndarray) -> float:
    """Training steps at the first of `IN_A_ROW` judgements that arrive; 0 if there are none."""
    arrives = curve[:, 2] == 1
    for k in range(len(arrives) - IN_A_ROW + 1):
        if arrives[k : k + IN_A_ROW].all():
            return float(curve[k, 0])
    return 0.0


def median_of(steps: np.ndarray) -> tuple[float, float, float]:
    """Median over seeds and its bootstrap interval; infinite: not within the budget."""
    rng = np.random.default_rng(0)
    drawn = np.sort(steps[rng.integers(steps.size, size=(10_000, steps.size))], axis=1)
    medians = np.sort(drawn[:, steps.size // 2])
    return float(np.sort(steps)[steps.size // 2]), float(medians[250]), float(medians[9750])


def told(steps: float, budget: int) -> str:
    return f"> {budget:,}" if np.isinf(steps) else f"{steps:,.0f}"


def draw(curves: dict[tuple[str, str, str], list[np.ndarray]]) -> Figure:
    """Return by training steps, every seed; a curve ends where its agent had solved the world."""
    pairs = list(dict.fromkeys((algorithm, world) for algorithm, world, _ in curves))
    rows = list(dict.fromkeys(algorithm for algorithm, _ in pairs))
    columns = list(dict.fromkeys(world for _, world in pairs))
    figure = Figure(figsize=(4 * len(columns), 3 * len(rows) + 0.5), layout="constrained")
    panels = figure.subplots(len(rows), len(columns), squeeze=False)
    for (algorithm, world, potential), seeds in curves.items():
        axes = panels[rows.index(algorithm), columns.index(world)]
        colour, name = OKABE_ITO[list(POTENTIALS).index(potential)], POTENTIALS[potential]
        for k, curve in enumerate(seeds):
            label = name if k == 0 else None
            axes.plot(curve[:, 0], curve[:, 1], color=colour, alpha=0.8, linewidth=1, label=label)
            if solved_at(curve):
                axes.plot(*curve[-1, :2], "o", color=colour, markersize=5)
        axes.set_title(f"{algorithm}, {world}")
        axes.set_xlabel("training steps")
        axes.set_ylabel("return, original reward")
        axes.grid(alpha=0.3)
    for axes in panels.ravel():
        axes.set_visible(axes.has_data())
    legend_below(figure, panels[0, 0])
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", nargs="+", default=list(MAPS), choices=MAPS)
    parser.add_argument("--algorithms", nargs="+", default=["DQN", "PPO"], choices=["DQN", "PPO"])
    parser.add_argument("--potentials", nargs="+", default=["none", "DR"], choices=POTENTIALS)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--weight", type=float, default=WEIGHT)
    parser.add_argument("--maps", type=Path, default=Path("results/beyond-grids"))
    parser.add_argument("--out", type=Path, default=Path("results/sb3-agents"))
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent),
                                                os.environ.get("PYTHONPATH", "")])  # fmt: skip
    store = Store(options.out)
    store.clean()
    asked = [(a, w) for a, w in BUDGETS if a in options.algorithms and w in options.worlds]
    seeds: list[int] = options.seeds
    kinds: list[str] = options.potentials
    made = [(w, kind, seed) for w in options.worlds for kind in kinds for seed in seeds]
    maps = {one: map_of(*one, options) for one in made}
    jobs = {}
    for (algorithm, world), potential, seed in product(asked, kinds, seeds):
        budget = BUDGETS[algorithm, world]
        settings = {
            "algorithm": algorithm, "world": world, "potential": potential, "seed": seed,
            "weight": 0.0 if potential == "none" else options.weight, "budget": budget,
            "map": maps[world, potential, seed],
            "given": DQN_SETTINGS if algorithm == "DQN" else PPO_SETTINGS,
        }  # fmt: skip
        label = f"{algorithm}, {world}, {POTENTIALS[potential]}, {seed}"
        seconds = budget / (300 if algorithm == "DQN" else 2000)
        jobs[algorithm, world, potential, seed] = Job("sb3_agents:run", settings, label, seconds)
    todo = [job for job in jobs.values() if not store.has(job)]
    if todo:
        say = lambda j, what, n: what != "progress" and print(f"<!-- {j.label}: {what}, {n:.0f} s -->", flush=True)  # noqa: E501, E731  # fmt: skip
        LocalEngine().run(todo, store, say)
    curves: dict[tuple[str, str, str], list[np.ndarray]] = {}
    for (algorithm, world, potential, _), job in jobs.items():
        record = store.get(job)
        assert record is not None
        curves.setdefault((algorithm, world, potential), []).append(record.arrays["curve"])
    print("\n| agent | world | budget | potential | median steps to solve [95 % interval] | seeds "
          "solved |\n" + "|---" * 6 + "|")  # fmt: skip
    for (algorithm, world, potential), found in curves.items():
        print(f"| {algorithm} | {world} | {BUDGETS[algorithm, world]:,} | {POTENTIALS[potential]} "
              f"| {row(found, BUDGETS[algorithm, world])} |")  # fmt: skip
    write_file(options.out / "agents.png", plot.as_png(draw(curves), 90), overwrite=True)


def row(curves: list[np.ndarray], budget: int) -> str:
    steps = np.array([solved_at(curve) or np.inf for curve in curves])
    median, low, high = (told(number, budget) for number in median_of(steps))
    return f"{median} [{low}, {high}] | {int(np.isfinite(steps).sum())}/{steps.size}"


def map_of(world: str, potential: str, seed: int, options: argparse.Namespace) -> str:
    """The path of a map: of a fit taken out of the store it was made in, or learned now."""
    from beyond_grids import data_of, learned

    if potential == "none":
        return ""
    path = (options.out / "maps" / f"{potential}-{world}-{seed}.npz").resolve()
    if path.exists():
        return str(path)
    if potential == "DR":
        learned(Store(options.maps), MAPS[world], seed, {}).save(path)
    else:
        few: dict[str, Any] = {"updates": 3000} if world == "mountain-car" else {}
        successor = fit(data_of(MAPS[world])[0], objective="allo", vectors=1, seeds=[seed],
                        matrix="successor", discount=DISCOUNT, **few)  # fmt: skip
        print(f"<!-- map of {world}, {seed}: {successor.status[0]}, cosine with the exact one of "
              f"the data {successor.cosines[0, 0]:.5f} -->", flush=True)  # fmt: skip
        successor.save(path)
    return str(path)


if __name__ == "__main__":
    main()
