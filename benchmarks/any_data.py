"""Off the paper's ground: any lambda, data of any policy, `direct` against `fast`, and policies.

    uv run benchmarks/any_data.py --only lambdas       0.4 to 100, four worlds, two inputs, 3 seeds
    uv run benchmarks/any_data.py --only behaviours    four behaviours, four worlds
    uv run benchmarks/any_data.py --only direct        seconds of direct and fast to one accuracy
    uv run benchmarks/any_data.py --only policies      `result.policy` alone, without an agent

No setting is changed but those named. Prints Markdown, a row as soon as it is known.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import gymnasium
import numpy as np

from drogo import STARTS, GridWorld, MiniGridWorld, Transitions, collect, exact, fit
from drogo.agents import q_learning
from drogo.agents.value_iteration import optimal_values
from drogo.learn.judge import cosine, differences

LAM = 20.0
WORLDS = ("grid-task", "four-rooms", "grid-maze", "grid-room")
INPUTS = ("one-hot", "coordinates", "pixels")
ACCURACY = 0.1
"""The largest difference from the exact solution of the data to which both presets are timed."""


def env_of(world: GridWorld, kind: str) -> gymnasium.Env:
    return gymnasium.make("drogo/GridWorld-v0", world=world, observation=kind)


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def header(*names: str) -> None:
    row(*names)
    print("|---" * len(names) + "|", flush=True)


def off(v: np.ndarray, truth: np.ndarray, world: GridWorld) -> float:
    return float(differences(v, truth, int(np.flatnonzero(world.mdp.terminal)[0])).max())


def lambdas(seeds: int) -> None:
    header("lambda", "world", "input", "smallest cosine", "largest log difference", "depth",
           "status", "seconds")  # fmt: skip
    for lam in (0.4, 1.3, 5.0, 20.0, 100.0):
        for name in WORLDS:
            world = GridWorld.load(name)
            truth = exact.log_column(world.mdp, lam)
            for kind in INPUTS[:2]:
                began = time.perf_counter()
                data = collect(env_of(world, kind), 20_000, seed=0)
                result = fit(data, lam=lam, seeds=seeds)
                row(lam, name, kind, f"{cosine(result.v, truth).min():.8f}",
                    f"{off(result.v, truth, world):.3f}", f"{np.ptp(truth):.1f}",
                    ", ".join(sorted(set(result.status))),
                    f"{time.perf_counter() - began:.0f}")  # fmt: skip


def trained_actions(world: GridWorld) -> np.ndarray:
    """The greedy actions of tabular Q-learning after 100,000 steps, of which most states of a large
    world saw few."""
    flat, one = np.zeros((1, world.mdp.n_states)), np.ones(1)
    runs = q_learning(world.mdp, potential=flat, weight=0 * one, step_size=0.3 * one,
                      seed=np.zeros(1, dtype=np.int64), step_limit=world.step_limit)  # fmt: skip
    return runs.q[0].argmax(axis=1)


def behaviours_of(world: GridWorld) -> dict[str, Transitions]:
    """The same world's transitions by four policies; all start in uniform states but the buffer."""
    env, greedy = env_of(world, "state"), trained_actions(world)

    def epsilon_greedy(state: np.ndarray, rng: np.random.Generator) -> int:
        return int(rng.integers(4)) if rng.random() < 0.3 else int(greedy[state])

    def to_the_right(state: np.ndarray, rng: np.random.Generator) -> int:
        return 3 if rng.random() < 0.7 else int(rng.integers(4))

    n = 20_000
    found = {
        "uniform": collect(env, n, seed=0),
        "epsilon-greedy of a trained agent (0.3)": collect(env, n, seed=0, policy=epsilon_greedy),
        "70 % one action": collect(env, n, seed=0, policy=to_the_right),
    }
    try:
        from stable_baselines3 import DQN
    except ImportError:
        return found
    agent = DQN(
        "MlpPolicy", env_of(world, "one-hot"), learning_starts=500, train_freq=16, seed=0,
        buffer_size=20_000, exploration_fraction=1.0, exploration_final_eps=0.3,
    )  # fmt: skip
    agent.learn(20_000)
    assert agent.replay_buffer is not None
    buffer = Transitions.from_replay_buffer(agent.replay_buffer)
    return {**found, "an SB3 DQN's replay buffer": buffer}


def behaviours() -> None:
    header("behaviour", "world", "states seen", "as they are", "corrected", "status", "notes")
    warnings.simplefilter("ignore")
    for name in WORLDS:
        world = GridWorld.load(name)
        truth = exact.log_column(world.mdp, LAM)
        for behaviour, data in behaviours_of(world).items():
            states = data.observations
            if states.ndim == 2:
                states = states.argmax(axis=1)
            seen, known = np.unique(data.state), truth[states.astype(int)]
            plain, corrected = fit(without_actions(data), lam=LAM), fit(data, lam=LAM)
            row(behaviour, name, f"{seen.size} of {(~world.mdp.terminal).sum()}",
                gap(plain, known, seen), gap(corrected, known, seen),
                f"{plain.status[0]}, {corrected.status[0]}",
                " ".join(corrected.notes) or "-")  # fmt: skip


def gap(result: Any, truth: np.ndarray, seen: np.ndarray) -> str:
    return f"{np.abs(result.v[0] - truth)[seen].max():.2f}"


def without_actions(data: Transitions) -> Transitions:
    names = ("state", "next_state", "reward", "terminated", "truncated", "terminal_reward")
    columns = {name: getattr(data, name) for name in names}
    return Transitions.from_table(data.observations, **columns)


def seconds_to(data: Transitions, preset: str) -> tuple[float, float]:
    """Seconds until the accuracy is reached, infinite if it is not, and the error at the end. A
    first fit, which is stopped at once, compiles all programs."""
    rows = []
    fit(data, lam=LAM, preset=preset, callbacks=[lambda event: rows.append(event) or len(rows) < 3])
    began, moments = time.perf_counter(), []

    def note(event: Any) -> bool:
        moments.append((time.perf_counter() - began, float(event.row["error"].max())))
        return moments[-1][1] > ACCURACY

    fit(data, lam=LAM, preset=preset, callbacks=[note])
    seconds, error = moments[-1]
    return (seconds if error <= ACCURACY else np.inf), error


def direct(inputs: tuple[str, ...]) -> None:
    header("world", "input", "direct, s", "fast, s", "ratio", "error of each")
    for name in WORLDS:
        for kind in inputs:
            data = collect(env_of(GridWorld.load(name), kind), 20_000, seed=0)
            one, other = seconds_to(data, "direct"), seconds_to(data, "fast")
            row(name, kind, f"{one[0]:.2f}", f"{other[0]:.1f}", f"{other[0] / one[0]:.1f}",
                f"{one[1]:.3f}, {other[1]:.3f}")  # fmt: skip


def walk(env: gymnasium.Env, policy: Any, steps: int, **reset: Any) -> tuple[bool, int, float]:
    """One greedy episode: whether it ended by itself, its steps and its return."""
    observation, _ = env.reset(**reset)
    total = 0.0
    for step in range(1, steps + 1):
        action, _ = policy.predict(observation, deterministic=True)
        observation, reward, terminated, _, _ = env.step(action)
        total += float(reward)
        if terminated:
            return True, step, total
    return False, steps, total


def policies(seeds: int) -> None:
    header("world", "input", "lambda", "seed", "episodes", "arrived", "steps, median (range)",
           "return, mean", "best return")  # fmt: skip
    for name in WORLDS:
        world = GridWorld.load(name)
        env: Any = env_of(world, "coordinates")
        result = fit(collect(env, 20_000, seed=0), lam=0.5, seeds=seeds, objective="q")
        best = best_return(world)
        show(name, "coordinates", result, env, 1, f"{best:.0f}")
    for identifier, tile in (("MiniGrid-DoorKey-6x6-v0", 3), ("MiniGrid-FourRooms-v0", 2)):
        env = MiniGridWorld(identifier, layout=0, tile=tile)
        data = collect(env, 200_000, seed=0)
        result = fit(data, lam=LAM, seeds=seeds, objective="q")
        show(identifier, "pixels", result, env, 20, "-")
    car = gymnasium.make("MountainCar-v0").unwrapped
    data = collect(car, 200_000, seed=0, start=STARTS["MountainCar-v0"], reward=-1.0)
    result = fit(data, lam=LAM, seeds=seeds, objective="q")
    show("MountainCar-v0", "position, velocity", result, car, 50, "-")


def best_return(world: GridWorld) -> float:
    """The undiscounted return of the best policy from the first state."""
    start = world.mdp.start
    return float((start / start.sum()) @ optimal_values(world.mdp))


def show(name: str, kind: str, result: Any, env: Any, episodes: int, best: str) -> None:
    for seed in result.seeds:
        policy = result.policy(seed)
        ends = [walk(env, policy, 1000, seed=k) for k in range(episodes)]
        arrived, steps, returns = map(np.array, zip(*ends, strict=True))
        row(name, kind, result.config.lam, seed, episodes, int(arrived.sum()),
            f"{np.median(steps):.0f} ({steps.min()} to {steps.max()})", f"{returns.mean():.1f}",
            best)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("lambdas", "behaviours", "direct", "policies"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--inputs", nargs="+", default=INPUTS, help="Of direct.")
    options = parser.parse_args()
    parts = {"lambdas": lambda: lambdas(options.seeds), "behaviours": behaviours,
             "direct": lambda: direct(tuple(options.inputs)),
             "policies": lambda: policies(options.seeds)}  # fmt: skip
    for name, part in parts.items():
        if options.only in (None, name):
            print(f"\n## {name}\n")
            part()


if __name__ == "__main__":
    main()
