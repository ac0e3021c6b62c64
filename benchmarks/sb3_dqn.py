"""A Stable-Baselines3 DQN in a grid world from coordinates: shaped against unshaped.

    uv run benchmarks/sb3_dqn.py
    uv run benchmarks/sb3_dqn.py --world four-rooms --seeds 5 --steps 20000 --out results/sb3

Needs the `sb3` extra and a torch. Each seed's agent is shaped by a potential learned with the same
seed. Measured: the greedy policy from the start every 500 steps, by the original reward; after how
many training steps it first reaches the goal; and how many steps it takes to the goal at the end
(mean of the last ten evaluations, the step limit for one that does not arrive). Draws curves and
prints Markdown.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gymnasium
import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback

import drogo  # noqa: F401  (registers the environments)
from drogo import GridWorld, PotentialShaping, collect, fit, plot
from drogo.agents import optimal_values
from drogo.files import write_array_file, write_file
from drogo.statistics import bootstrap_mean
from sb3_agents import judge

EVERY = 500


class Evaluate(BaseCallback):
    """Return of one greedy episode now and then."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__()
        self.env = env
        self.returns: list[float] = []
        self.reached: list[float] = []
        self.lengths: list[float] = []

    def _on_step(self) -> bool:
        if self.num_timesteps % EVERY == 0:
            earned, arrived, length = judge(self.model, self.env, episodes=1)
            self.returns.append(earned)
            self.reached.append(arrived)
            self.lengths.append(length)
        return True


def train(env: gymnasium.Env, judge: gymnasium.Env, seed: int, steps: int) -> Evaluate:
    """The same settings with and without shaping. With SB3's own (an update every fourth step) none
    of them gets anywhere in so few steps."""
    agent = DQN(
        "MlpPolicy",
        env,
        gamma=0.99,
        seed=seed,
        learning_rate=1e-3,
        learning_starts=500,
        train_freq=1,
        batch_size=128,
        target_update_interval=200,
        buffer_size=50_000,
        exploration_fraction=0.5,
        exploration_final_eps=0.1,
        policy_kwargs={"net_arch": [128, 128]},
        device="cpu",
    )
    evaluate = Evaluate(judge)
    agent.learn(steps, callback=evaluate)
    return evaluate


def first_arrival(reached: np.ndarray) -> float:
    """Training steps until the greedy policy first arrives."""
    return float((reached.argmax() + 1) * EVERY) if reached.any() else np.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", default="four-rooms")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--weight", type=float, default=0.5)
    parser.add_argument("--out", type=Path, default=Path("results/sb3"))
    options = parser.parse_args()
    world = GridWorld.load(options.world)

    def make() -> gymnasium.Env:
        return gymnasium.make("drogo/GridWorld-v0", world=world, observation="coordinates")

    result = fit(collect(make(), 200_000, seed=0), preset="fast", seeds=options.seeds)
    found: dict[str, list[Evaluate]] = {"unshaped": [], "shaped": []}
    for seed in range(options.seeds):
        for name, runs in found.items():
            env = make()
            if name == "shaped":
                env = PotentialShaping(env, result.potential(seed), options.weight, 0.99)
            began = time.perf_counter()
            runs.append(train(env, make(), seed, options.steps))
            print(f"<!-- {name} seed {seed}: {time.perf_counter() - began:.0f} s -->", flush=True)
    curves, rng = {}, np.random.default_rng(0)
    print("\n| DQN | training steps until it first arrives, per seed | "
          "steps to the goal at the end, per seed | mean [95 % interval] |")  # fmt: skip
    print("|---|---|---|---|")
    arrays = {}
    for name, runs in found.items():
        returns = np.array([run.returns for run in runs])
        first = np.array([first_arrival(np.array(run.reached)) for run in runs])
        ends = np.array([np.mean(run.lengths[-10:]) for run in runs])
        arrays |= {f"{name}/returns": returns, f"{name}/first": first, f"{name}/ends": ends}
        curves[name] = returns
        told = ", ".join("never" if np.isinf(s) else f"{s:,.0f}" for s in first)
        mean = bootstrap_mean(ends, rng)
        text = f"{mean.mean:.0f} [{mean.low:.0f}, {mean.high:.0f}]"
        print(f"| {name} | {told} | {', '.join(f'{s:.0f}' for s in ends)} | {text} |")
    best = float(optimal_values(world.mdp)[int(world.start.argmax())])
    title = f"DQN in {world.name} from coordinates, {options.seeds} seeds"
    figure = plot.returns(curves, EVERY, best, title=title)
    write_file(options.out / f"dqn-{world.name}.png", plot.as_png(figure), overwrite=True)
    settings = {"world": world.name, "steps": options.steps, "weight": options.weight}
    write_array_file(options.out / f"dqn-{world.name}.npz", arrays, settings, overwrite=True)


if __name__ == "__main__":
    main()
