"""The time of an iteration of option discovery, against plain NumPy and against 100 digits.

    uv run benchmarks/options.py --write           RACE in grid-room; some minutes
    uv run benchmarks/options.py --seeds 10        one seed and ten together, in place of 1 and 50
    uv run benchmarks/options.py --digits 0        without the eigendecomposition of 100 digits

Prints Markdown. Plain NumPy is the cycle of the published script, one seed, written down without
loss of speed but as it is described: rows of the table are updated step by step, the eigenvector is
that of a dense eigendecomposition, and the option is learned by sweeps over all steps so far until
nothing changes by more than 1e-5. Both have the same seeds, settings and iterations, in one run;
seconds are of the whole run, divided by its iterations.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

import numpy as np

from common import timed
from drogo import GridWorld
from drogo.worlds.tabular import TabularWorld
from drogo_paper.agents import Cycle, LearnedDefault, discover
from tables import parse_options, write_table

STEPS, P_OPTION, DISCOUNT, LAM, Q_STEP_SIZE, CLOSE = 100, 0.1, 0.99, 1.3, 0.1, 1e-5
STEP_SIZE = {"grid-task": 0.1, "four-rooms": 0.01, "grid-room": 0.03, "grid-maze": 0.01}


def plain_cycle(
    world: TabularWorld, step_size: float, seed: int, iterations: int
) -> tuple[np.ndarray, float, float]:
    """Runs the cycle as it is published, with one seed, in double precision. Returns the last
    table, and the seconds for eigenvectors and for options."""
    rng, states = np.random.default_rng(seed), world.n_states
    actions, factor = world.next_state.shape[1], np.exp(world.reward / LAM)
    table, data, policy, ends = np.eye(states), [], np.zeros(states), np.ones(states, dtype=bool)
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
    """Returns the log of the top eigenvector of the states that were updated, 0 elsewhere."""
    symmetric = (table + table.T) / 2
    coupled = symmetric.sum(axis=1) != 1
    values, vectors = np.linalg.eig(symmetric[np.ix_(coupled, coupled)])
    top = np.abs(np.real(vectors[:, np.real(values).argmax()]))
    e = np.zeros(len(table))
    e[coupled] = np.log(np.maximum(top, np.finfo(float).tiny))
    return e / np.linalg.norm(e)


def swept_option(
    data: list[tuple[int, int, int]], e: np.ndarray, states: int, actions: int
) -> tuple[np.ndarray, np.ndarray]:
    """Learns Q-values by sweeps over all steps so far until nothing changes much."""
    q = np.zeros((states, actions))
    while True:
        largest = 0.0
        for state, action, after in data:
            error = e[after] - e[state] + DISCOUNT * q[after].max() - q[state, action]
            q[state, action] += Q_STEP_SIZE * error
            largest = max(largest, abs(error))
        if largest < CLOSE:
            return q.argmax(axis=1), q.max(axis=1) <= 0


def many_digits(table: np.ndarray, digits: int) -> int:
    """Computes all eigenvectors of the states that were updated as the published script does, and
    returns the number of these states."""
    import flint

    symmetric = (table + table.T) / 2
    coupled = symmetric.sum(axis=1) != 1
    flint.ctx.dps = digits
    matrix = flint.acb_mat(flint.arb_mat(symmetric[np.ix_(coupled, coupled)].tolist()))
    matrix.eig(right=True, algorithm="approx")
    return int(coupled.sum())


def ours(world: TabularWorld, step_size: float, seeds: int, iterations: int) -> None:
    vectors = LearnedDefault(step_size, 1, lam=LAM)
    cycle = Cycle(iterations, STEPS, P_OPTION)
    discover(world, vectors, cycle, seeds=range(seeds), discount=DISCOUNT, may_end=False)


def rows(options: Namespace) -> Iterator[list[str]]:
    world = GridWorld.load(options.world).without_goals()
    step_size, count, seeds = STEP_SIZE[options.world], options.iterations, options.seeds
    ours(world, step_size, 1, 1)  # what is imported and compiled once does not count
    one, many = (timed(ours, world, step_size, k, count)[0] / count / k for k in (1, seeds))
    slow, (table, vectors, policies) = timed(plain_cycle, world, step_size, 0, count)
    shares = f"{vectors / slow:.0%} for eigenvectors, {policies / slow:.0%} for options"
    cycles = {
        f"drogo, {seeds} seeds together": many,
        "drogo, one seed": one,
        f"plain NumPy ({shares})": slow / count,
    }
    if options.digits:
        seconds, states = timed(many_digits, table, options.digits)
        name = f"plain NumPy, with {options.digits} digits ({states} states)"
        cycles[name] = (slow - vectors) / count + seconds
    for name, seconds in cycles.items():
        yield [name, f"{seconds * 1e3:,.1f} ms", f"{seconds / many:,.0f}"]


if __name__ == "__main__":
    options = parse_options(__doc__, world="grid-room", iterations=10, seeds=50, digits=100)
    write_table(
        "option-speed",
        f"An iteration of option discovery (RACE in {options.world}), the mean of the first "
        f"{options.iterations}.",
        ("cycle", "an iteration of one seed", "ratio"),
        rows(options),
        "The eigendecomposition of many digits, by python-flint as published, is that of the last "
        "iteration.",
        write=options.write,
    )
