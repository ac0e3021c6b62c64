"""The time of an iteration of option discovery, against plain NumPy and against 100 digits.

    uv run benchmarks/options.py                   RACE in grid-room; some minutes
    uv run benchmarks/options.py --seeds 10        one seed and ten together, in place of 1 and 50
    uv run benchmarks/options.py --digits 0        without the eigendecomposition of 100 digits

Prints Markdown. Plain NumPy is the cycle of the published script, one seed, written down without
loss of speed but as it is described: rows of the table are updated step by step, the eigenvector is
that of a dense eigendecomposition, and the option is learned by sweeps over all steps so far until
nothing changes by more than 1e-5. Both have the same seeds, settings and iterations, in one run;
seconds are of the whole run, divided by its iterations.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from drogo import GridWorld
from drogo.agents import LearnedDefault, discover
from drogo.worlds.tabular import TabularWorld

STEPS, P_OPTION, DISCOUNT, LAM, Q_STEP_SIZE, CLOSE = 100, 0.1, 0.99, 1.3, 0.1, 1e-5
STEP_SIZE = {"grid-task": 0.1, "four-rooms": 0.01, "grid-room": 0.03, "grid-maze": 0.01}


def timed(function: Callable, *arguments: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - began, result


def plain_cycle(
    world: TabularWorld, step_size: float, seed: int, iterations: int
) -> tuple[np.ndarray, float, float]:
    """The cycle as it is published, with one seed, in double precision.

    Returns:
        The last table; and of the seconds, those for eigenvectors and for options.
    """
    rng, states = np.random.default_rng(seed), world.n_states
    actions, factor = world.next_state.shape[1], np.exp(world.reward / LAM)
    table, data, policy, ends = np.eye(states), [], None, np.ones(states, dtype=bool)
    for_vectors = for_options = 0.0
    for _ in range(iterations):
        state, follows = int(world.start.argmax()), False
        for _ in range(STEPS):
            if not follows and rng.random() < P_OPTION and not ends[state]:
                follows = True
            action = int(policy[state]) if follows else int(rng.integers(actions))
            after = int(world.next_state[state, action])
            data.append((state, action, after))
            state = after
            follows = follows and not ends[state]
        for state, _, after in reversed(data[-STEPS:]):
            target = factor[state] * table[after]
            target[state] += factor[state]
            table[state] += step_size * (target - table[state])
        seconds, e = timed(dense_vector, table)
        for_vectors += seconds
        seconds, (policy, ends) = timed(swept_option, data, e, states, actions)
        for_options += seconds
    return table, for_vectors, for_options


def dense_vector(table: np.ndarray) -> np.ndarray:
    """The log of the top eigenvector of the states that were updated, 0 elsewhere."""
    symmetric = (table + table.T) / 2
    known = symmetric.sum(axis=1) != 1
    values, vectors = np.linalg.eig(symmetric[np.ix_(known, known)])
    top = np.abs(np.real(vectors[:, np.real(values).argmax()]))
    e = np.zeros(len(table))
    e[known] = np.log(np.maximum(top, np.finfo(float).tiny))
    return e / np.linalg.norm(e)


def swept_option(
    data: list[tuple[int, int, int]], e: np.ndarray, states: int, actions: int
) -> tuple[np.ndarray, np.ndarray]:
    """Q-learning over all steps so far, again and again, until nothing changes much."""
    q = np.zeros((states, actions))
    while True:
        largest = 0.0
        for state, action, after in data:
            error = e[after] - e[state] + DISCOUNT * q[after].max() - q[state, action]
            q[state, action] += Q_STEP_SIZE * error
            largest = max(largest, abs(error))
        if largest < CLOSE:
            return q.argmax(axis=1), q.max(axis=1) <= 0


def many_digits(table: np.ndarray, digits: int) -> None:
    """All eigenvectors of the states that were updated, as the published script computes them."""
    import flint

    symmetric = (table + table.T) / 2
    known = symmetric.sum(axis=1) != 1
    flint.ctx.dps = digits
    matrix = flint.acb_mat(flint.arb_mat(symmetric[np.ix_(known, known)].tolist()))
    matrix.eig(right=True, algorithm="approx")


def ours(world: TabularWorld, step_size: float, seeds: int, iterations: int) -> None:
    vectors = LearnedDefault(step_size, 1, lam=LAM)
    discover(world, vectors, seeds=range(seeds), iterations=iterations, steps=STEPS,
             p_option=P_OPTION, discount=DISCOUNT, may_end=False)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", default="grid-room", choices=list(STEP_SIZE))
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--digits", type=int, default=100)
    asked = parser.parse_args()
    world = GridWorld.load(asked.world).without_goals()
    step_size, count = STEP_SIZE[asked.world], asked.iterations
    ours(world, step_size, 1, 1)  # what is imported and compiled once does not count
    one, _ = timed(ours, world, step_size, 1, count)
    many, _ = timed(ours, world, step_size, asked.seeds, count)
    slow, (table, vectors, options) = timed(plain_cycle, world, step_size, 0, count)
    print(f"### RACE in {asked.world}, {world.n_states} states, {count} iterations\n")
    print("| cycle | an iteration of one seed | ratio |")
    print("|---|---|---|")
    rows = {
        "drogo, one seed": one / count,
        f"drogo, {asked.seeds} seeds together": many / count / asked.seeds,
        "plain NumPy": slow / count,
    }
    if asked.digits:
        seconds, _ = timed(many_digits, table, asked.digits)
        rows[f"plain NumPy, with {asked.digits} digits"] = (slow - vectors) / count + seconds
    fastest = many / count / asked.seeds
    for name, seconds in rows.items():
        print(f"| {name} | {seconds * 1e3:,.1f} ms | {seconds / fastest:,.0f} |")
    shares = [f"{100 * part / slow:.0f} % for {what}" for part, what in
              ((vectors, "eigenvectors"), (options, "options"))]  # fmt: skip
    print(f"\nOf plain NumPy's time, {' and '.join(shares)}.")
    if asked.digits:
        known = int((((table + table.T) / 2).sum(axis=1) != 1).sum())
        print(f"The eigendecomposition of {asked.digits} digits, by python-flint as published, is "
              f"that of the last iteration, with {known} states.")  # fmt: skip


if __name__ == "__main__":
    main()
