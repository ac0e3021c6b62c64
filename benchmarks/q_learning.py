"""Thousands of Q-learning runs in one program: their speed beside Python loops.

    uv run benchmarks/q_learning.py --write
    uv run benchmarks/q_learning.py --worlds grid-task --steps 2000

The paper's shaping table is made by `drogo reproduce shaping`. Prints Markdown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from common import LAM, WORLDS, env_of, timed
from drogo import GridWorld, Potential, PotentialShaping, exact
from drogo.potential import normalised
from drogo_paper.agents import Training, q_learning
from tables import parse_options, write_table

SEEDS = 10
RUNS = 480
"""The runs of the measured program: four potentials, twelve settings, ten seeds."""


def plain_loop(
    world: GridWorld, phi: np.ndarray, weight: float, step_size: float, seed: int, steps: int
) -> list[float]:
    """Trains the agent with a loop over bare tables; returns the returns of its evaluations."""
    rng = np.random.default_rng(seed)
    q = np.zeros((world.n_states, 4))
    start = int(world.start.argmax())
    state, taken, returns = start, 0, []
    for step in range(1, steps + 1):
        action = int(rng.integers(4)) if rng.random() < 0.05 else int(q[state].argmax())
        following = int(world.next_state[state, action])
        terminal = bool(world.terminal[following])
        shaping = 0.99 * phi[following] - phi[state]
        target = (1 - weight) * world.reward[state] + weight * shaping
        target += 0.0 if terminal else 0.99 * q[following].max()
        q[state, action] += step_size * (target - q[state, action])
        taken += 1
        over = terminal or taken >= world.step_limit
        state, taken = (start, 0) if over else (following, taken)
        if step % 100 == 0:
            greedy, earned = start, 0.0
            for _ in range(world.step_limit):
                best = np.flatnonzero(q[greedy] == q[greedy].max())
                earned += world.reward[greedy]
                greedy = int(world.next_state[greedy, int(rng.choice(best))])
                if world.terminal[greedy]:
                    break
            returns.append(float(earned))
    return returns


def gymnasium_loop(
    world: GridWorld, phi: np.ndarray, weight: float, step_size: float, seed: int, steps: int
) -> list[float]:
    """Trains the same agent with a loop over Gymnasium environments, as it is usually written."""
    rng = np.random.default_rng(seed)
    make = partial(env_of, world, "state")
    potential = Potential.from_states(world.observations("state"), phi)
    env, evaluation = PotentialShaping(make(), potential, weight, 0.99, terminal="keep"), make()
    q, returns = np.zeros((world.n_states, 4)), []
    state, _ = env.reset(seed=seed)
    evaluation.reset(seed=seed)
    for step in range(1, steps + 1):
        action = int(rng.integers(4)) if rng.random() < 0.05 else int(q[state].argmax())
        following, reward, terminated, truncated, _ = env.step(action)
        target = reward + (0.0 if terminated else 0.99 * q[following].max())
        q[state, action] += step_size * (target - q[state, action])
        state = env.reset()[0] if terminated or truncated else following
        if step % 100 == 0:
            (greedy, _), earned, over = evaluation.reset(), 0.0, False
            while not over:
                best = np.flatnonzero(q[greedy] == q[greedy].max())
                greedy, reward, terminated, truncated, _ = evaluation.step(int(rng.choice(best)))
                earned += float(reward)
                over = terminated or truncated
            returns.append(earned)
    return returns


def many_runs(world: GridWorld, phi: np.ndarray, weight: float, steps: int) -> None:
    """Trains the same agent `RUNS` times in one program."""
    q_learning(
        world.mdp,
        Training(world.step_limit, steps=steps),
        potential=np.tile(phi, (RUNS, 1)),
        weight=np.full(RUNS, weight),
        step_size=np.full(RUNS, 0.3),
        seed=np.arange(RUNS) % SEEDS,
    )


def rows(worlds: Sequence[str], steps: int) -> Iterator[list[str]]:
    for name in worlds:
        world = GridWorld.load(name)
        phi = normalised(exact.log_column(world.mdp, LAM), world.mdp.neighbours)
        for weight in (0.0, 0.5):
            loops = [
                steps / timed(loop, world, phi, weight, 0.3, 0, steps)[0]
                for loop in (gymnasium_loop, plain_loop)
            ]
            compiling, _ = timed(many_runs, world, phi, weight, 2000)
            ours = RUNS * steps / timed(many_runs, world, phi, weight, steps)[0]
            ratios = (ours / loop for loop in loops)
            speeds = (*loops, ours, *ratios)
            yield [name, f"{weight:g}", *(f"{speed:,.0f}" for speed in speeds), f"{compiling:.1f}"]


def main() -> None:
    options = parse_options(__doc__, worlds=WORLDS, steps=20_000)
    write_table(
        "q-learning-speed",
        f"Training steps per second over the first {options.steps:,}, with evaluations: Python "
        f"loops (one run at a time) against {RUNS} runs in one program.",
        ("world", "weight", "Gymnasium loop", "loop over tables", "drogo", "ratio to Gymnasium",
         "ratio to tables", "compiling, s"),
        rows(options.worlds, options.steps),
        write=options.write,
    )  # fmt: skip


if __name__ == "__main__":
    main()
