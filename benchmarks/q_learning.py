"""Thousands of Q-learning runs: their speed beside Python loops, and the paper's shaping table.

    uv run benchmarks/q_learning.py                      both
    uv run benchmarks/q_learning.py --only speed
    uv run benchmarks/q_learning.py --only table --runs results/reproduce

`--runs` is the directory in which `benchmarks/worlds_by_inputs.py` and `drogo reproduce` keep their
fits. Without it the potentials of the DR are exact, which takes the same time. Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from drogo import GridWorld, Potential, PotentialShaping, exact
from drogo.agents import compare, q_learning
from drogo.agents.shaping_experiment import DR_EXACT, SR_DISTANCE, potentials, summarise
from drogo.potential import normalised
from drogo.runs.store import Store
from drogo_paper import fits, shaping
from drogo_paper.reproduce import Reader
from drogo_paper.scope import INPUTS, WORLDS, Scope, needed

SEEDS = 10
LANES = 480
"""Lanes of the measured program: four potentials, twelve settings, ten seeds."""


def plain_loop(
    world: GridWorld, phi: np.ndarray, weight: float, step_size: float, seed: int, steps: int
) -> list[float]:
    """Train the same agent with a loop over bare tables; the returns of its evaluations."""
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
    """Train the same agent with a loop over Gymnasium environments, as it is usually written."""
    rng = np.random.default_rng(seed)
    make = partial(gymnasium.make, "drogo/GridWorld-v0", world=world, observation="state")
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


def per_second(loop: Callable[..., list[float]], *arguments: Any) -> float:
    """Training steps per second over the first 20,000."""
    steps = 20_000
    began = time.perf_counter()
    loop(*arguments, steps)
    return steps / (time.perf_counter() - began)


def speed() -> None:
    """Compare with a loop over bare tables, the fastest in plain Python, and one over Gymnasium."""
    print(f"\nTraining steps per second over the first 20,000, evaluations included: Python loops "
          f"(one run at a time) against {LANES} lanes of one program.\n")  # fmt: skip
    print("| world | weight | Gymnasium loop | loop over tables | drogo | ratio to Gymnasium | "
          "ratio to tables | compiling, s |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    for name in WORLDS:
        world = GridWorld.load(name)
        phi = normalised(exact.log_column(world.mdp, 20.0), world.mdp.neighbours)
        for weight in (0.0, 0.5):
            with_gymnasium = per_second(gymnasium_loop, world, phi, weight, 0.3, 0)
            with_tables = per_second(plain_loop, world, phi, weight, 0.3, 0)

            def many(steps: int, world=world, phi=phi, weight=weight) -> float:
                began = time.perf_counter()
                q_learning(
                    world.mdp,
                    potential=np.tile(phi, (LANES, 1)),
                    weight=np.full(LANES, weight),
                    step_size=np.full(LANES, 0.3),
                    seed=np.arange(LANES) % SEEDS,
                    step_limit=world.step_limit,
                    steps=steps,
                )
                return time.perf_counter() - began

            compiling = many(2000)
            fast = LANES * 20_000 / many(20_000)
            print(f"| {name} | {weight:g} | {with_gymnasium:,.0f} | {with_tables:,.0f} | "
                  f"{fast:,.0f} | {fast / with_gymnasium:,.0f} | {fast / with_tables:,.0f} | "
                  f"{compiling:.1f} |", flush=True)  # fmt: skip


def learned(world: GridWorld, runs: Path | None) -> dict[str, np.ndarray]:
    """The vectors of fits, or the exact one in their place."""
    if runs is None:
        v = exact.log_column(world.mdp, 20.0)
        return {f"DR {kind}": np.tile(v, (SEEDS, 1)) for kind in INPUTS}
    get = Reader(Store(runs / "runs"))
    jobs = {kind: fits.job(Scope("fast", SEEDS), world.name, kind) for kind in INPUTS}
    return {f"DR {kind}": needed(get, job).arrays["v"] for kind, job in jobs.items()}


def table(runs: Path | None) -> None:
    """Print every number of the paper's shaping table beside the published one."""
    source = "exact vectors" if runs is None else "learned vectors"
    print(f"\nThe shaping table, {source}, {SEEDS} seeds. Intervals: 95 % bootstrap over seeds.\n")
    print("| world | method | quantity | here | paper | verdict | weight, step size |")
    print("|---|---|---|---|---|---|---|")
    total = 0.0
    for name in WORLDS:
        world = GridWorld.load(name)
        phis = potentials(world, learned(world, runs), seeds=SEEDS, lam=20.0, discount=0.99)
        for extra in (SR_DISTANCE, DR_EXACT):
            del phis[extra]
        began = time.perf_counter()
        grids = compare(
            world.mdp,
            phis,
            seeds=SEEDS,
            step_limit=world.step_limit,
            low_reward=world.low_reward,
        )
        total += time.perf_counter() - began
        rows = summarise(grids)
        for method, label, ours, theirs, verdict in shaping.compared(name, rows):
            row = rows[method]
            print(f"| {name} | {method} | {label} | {ours} | {theirs} | {verdict} | "
                  f"{row.weight:g}, {row.step_size:g} |", flush=True)  # fmt: skip
    print(f"\nQ-learning for all of it: {total:.0f} s.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("speed", "table"))
    parser.add_argument("--runs", type=Path)
    options = parser.parse_args()
    if options.only != "table":
        speed()
    if options.only != "speed":
        table(options.runs)


if __name__ == "__main__":
    main()
