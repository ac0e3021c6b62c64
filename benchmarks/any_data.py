"""Beyond the paper's data: any lambda, data of any policy, and policies of maps alone.

    uv run benchmarks/any_data.py --only lambdas       0.4 to 100, four worlds, two inputs, 3 seeds
    uv run benchmarks/any_data.py --only behaviours    four behaviours, four worlds
    uv run benchmarks/any_data.py --only policies      `solution.policy` alone, without an agent

No setting is changed but those named. Prints Markdown, a row as soon as it is known.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np

from common import LAM, WORLDS, data_of, env_of
from drogo import Column, Drogo, GridWorld, Regression, Solution, Transitions, collect, exact, fit
from drogo.data.empirical import partly_seen
from drogo.learn.judge import cosine
from drogo.worlds import STARTS, MiniGridWorld
from tables import Part, parse_options, write_parts

LAMBDAS = (0.4, 1.3, 5.0, 20.0, 100.0)


def lambdas(options: Namespace) -> Iterator[list[str]]:
    for name in options.worlds:
        world, cells, cosines, converged, fits = GridWorld.load(name), [], [], 0, 0
        for lam in LAMBDAS:
            truth, off = exact.log_column(world.mdp, lam), []
            for kind in options.inputs:
                data = data_of(world, kind, options.transitions)
                solution = fit(data, Column(lam=lam), Regression(), seeds=options.seeds)
                cosines.append(cosine(solution.v, truth).min())
                off.append(np.abs(solution.v - truth).max())
                converged += solution.status.count("converged")
                fits += options.seeds
            cells.append(f"{max(off):.3f} of {np.ptp(truth):.0f}")
        yield [name, *cells, f"{min(cosines):.8f}", f"{converged} of {fits}"]


def trained_actions(world: GridWorld) -> np.ndarray:
    """Returns the greedy actions of tabular Q-learning after 100,000 steps, of which most states of
    a large world saw few."""
    from drogo_paper.agents import Training, q_learning

    flat, one = np.zeros((1, world.mdp.n_states)), np.ones(1)
    runs = q_learning(world.mdp, Training(world.step_limit), potential=flat, weight=0 * one,
                      step_size=0.3 * one, seed=np.zeros(1, dtype=np.int64))  # fmt: skip
    return runs.q[0].argmax(axis=1)


def behaviours_of(world: GridWorld, n: int) -> Iterator[tuple[str, Transitions]]:
    """Yields transitions by four policies; all start in uniform states but the replay buffer."""
    env, greedy = env_of(world, "state"), trained_actions(world)

    def epsilon_greedy(state: np.ndarray, rng: np.random.Generator) -> int:
        return int(rng.integers(4)) if rng.random() < 0.3 else int(greedy[state])

    def to_the_right(state: np.ndarray, rng: np.random.Generator) -> int:
        return 3 if rng.random() < 0.7 else int(rng.integers(4))

    yield "uniform", collect(env, n, seed=0)
    yield "ε-greedy (0.3) of a trained agent", collect(env, n, seed=0, policy=epsilon_greedy)
    yield "70 % one action", collect(env, n, seed=0, policy=to_the_right)
    from stable_baselines3 import DQN

    agent = DQN(
        "MlpPolicy", env_of(world, "one-hot"), learning_starts=500, train_freq=16, seed=0,
        buffer_size=n, exploration_fraction=1.0, exploration_final_eps=0.3,
    )  # fmt: skip
    agent.learn(n)
    assert agent.replay_buffer is not None
    yield "the replay buffer of an SB3 DQN", Transitions.from_replay_buffer(agent.replay_buffer)


def behaviours(options: Namespace) -> Iterator[list[str]]:
    for name in options.worlds:
        world = GridWorld.load(name)
        truth = exact.log_column(world.mdp, LAM)
        for behaviour, data in behaviours_of(world, options.transitions):
            states = data.observations
            states = states.argmax(axis=1) if states.ndim == 2 else states
            seen, exact_v = np.unique(data.state), truth[states.astype(int)]
            both = (without_actions(data), data)
            fits = [fit(part, Column(lam=LAM), Regression()) for part in both]
            off = [np.abs(solution.v[0] - exact_v)[seen].max() for solution in fits]
            yield [name, behaviour, f"{seen.size} of {(~world.mdp.terminal).sum()}",
                   str(partly_seen(data)), *(f"{error:.2f}" for error in off),
                   fits[1].status[0]]  # fmt: skip


def without_actions(data: Transitions) -> Transitions:
    names = ("state", "next_state", "reward", "terminated", "truncated", "terminal_reward")
    columns = {name: getattr(data, name) for name in names}
    return Transitions.from_table(data.observations, **columns)


def policies(options: Namespace) -> Iterator[list[str]]:
    from drogo_paper.agents import optimal_values

    for name in options.worlds:
        world = GridWorld.load(name)
        env: Any = env_of(world, "coordinates")
        data, method = collect(env, options.transitions, seed=0), Regression(action_values=True)
        solution = fit(data, Column(lam=0.5), method, seeds=options.seeds)
        best = float(world.mdp.start @ optimal_values(world.mdp) / world.mdp.start.sum())
        yield walked(name, "coordinates", solution, env, 1, f"{best:.0f}")
    n, column = 10 * options.transitions, Column(lam=LAM)
    for identifier, tile in (("MiniGrid-DoorKey-6x6-v0", 3), ("MiniGrid-FourRooms-v0", 2)):
        env = MiniGridWorld(identifier, layout=0, tile=tile)
        data, method = collect(env, n, seed=0), Regression(action_values=True)
        solution = fit(data, column, method, seeds=options.seeds)
        yield walked(identifier, "pixels", solution, env, 20, "-")
    car = gymnasium.make("MountainCar-v0").unwrapped
    data = collect(car, n, seed=0, start=STARTS["MountainCar-v0"], reward=-1.0)
    solution = fit(data, column, Drogo(action_values=True), seeds=options.seeds)
    yield walked("MountainCar-v0", "position, velocity", solution, car, 50, "-")


def walked(
    name: str, kind: str, solution: Solution, env: Any, episodes: int, best: str
) -> list[str]:
    """Returns a row about the greedy episodes of each seed, of at most 1,000 steps."""
    arrived, lengths, returns = 0, [], []
    for seed in solution.seeds:
        policy = solution.policy(seed)
        runs = [walk(env, policy, 1000, seed=k) for k in range(episodes)]
        arrived += sum(terminated for terminated, _, _ in runs)
        lengths.append(f"{np.median([steps for _, steps, _ in runs]):.0f}")
        returns.append(f"{np.mean([earned for _, _, earned in runs]):.1f}")
    return [name, kind, f"{solution.problem.lam:g}", f"{arrived} of {episodes * len(lengths)}",
            ", ".join(lengths), ", ".join(returns), best]  # fmt: skip


def walk(env: gymnasium.Env, policy: Any, steps: int, **reset: Any) -> tuple[bool, int, float]:
    """Returns whether a greedy episode reaches a terminal state, its length and its return."""
    observation, _ = env.reset(**reset)
    total = 0.0
    for step in range(1, steps + 1):
        action, _ = policy.predict(observation, deterministic=True)
        observation, reward, terminated, _, _ = env.step(action)
        total += float(reward)
        if terminated:
            return True, step, total
    return False, steps, total


PARTS = {
    "lambdas": Part(
        "lambdas",
        lambdas,
        "The largest difference from the exact column beside the depth of the map, at any λ: "
        "`Regression()` from one-hot states and from coordinates, {seeds} seeds, {transitions:,} "
        "transitions.",
        ("world", *(f"λ = {lam:g}" for lam in LAMBDAS), "smallest cosine", "converged"),
    ),
    "behaviours": Part(
        "any-policy",
        behaviours,
        "The largest difference from the exact column, from {transitions:,} transitions of any "
        f"policy as they are and corrected by their actions, at λ = {LAM:g}.",
        ("world", "behaviour", "states seen", "partly seen", "as they are", "corrected",
         "status"),
    ),
    "policies": Part(
        "policies",
        policies,
        "Greedy episodes of `solution.policy` alone, with {seeds} seeds.",
        ("world", "input", "λ", "arrived", "steps, median of each seed", "return, mean of each",
         "best return"),
        "The maps are learned from {transitions:,} transitions in grid worlds, and from ten times "
        "as many elsewhere.",
    ),
}  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    inputs = ("one-hot", "coordinates")
    options = parse_options(__doc__, only=tuple(PARTS), worlds=WORLDS, inputs=inputs, seeds=3,
                            transitions=20_000)  # fmt: skip
    write_parts(PARTS, options)
