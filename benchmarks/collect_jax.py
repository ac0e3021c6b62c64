"""Transitions per second of `collect`, from CartPole in JAX and from Gymnasium's.

    uv run benchmarks/collect_jax.py --write

The same world three times in one process, in turn: `CartPole-v1` of Gymnasium, Gymnasium's own
vector of 100 of them, and the same equations as pure JAX functions with the interface of gymnax.
Before anything is measured, the two are compared step by step. The time of a `collect` in JAX
includes compiling, which happens in every call. Prints Markdown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from common import timed
from drogo import Transitions, collect
from tables import parse_options, write_table

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
FARTHEST, STEEPEST, LIMIT = 2.4, 12 * 2 * np.pi / 360, 500


class State(NamedTuple):
    """Position, velocity, angle and angular velocity; and the number of steps."""

    numbers: Array
    time: Array


class Actions(NamedTuple):
    """Left and right."""

    n: int = 2


class CartPole:
    """CartPole-v1 with the interface of gymnax."""

    default_params = None

    def reset(self, key: Array, params: None) -> tuple[Array, State]:
        numbers = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        return numbers, State(numbers, jnp.asarray(0))

    def step_env(
        self, key: Array, state: State, action: Array, params: None
    ) -> tuple[Array, State, Array, Array, dict[str, Array]]:
        _, velocity, angle, turning = state.numbers
        push = FORCE * (2.0 * action - 1.0)
        total, moment = CART + POLE, POLE * HALF_LENGTH
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        shared = (push + moment * turning**2 * sine) / total
        inertia = HALF_LENGTH * (4 / 3 - POLE * cosine**2 / total)
        turning_faster = (GRAVITY * sine - cosine * shared) / inertia
        faster = shared - moment * turning_faster * cosine / total
        change = jnp.stack([velocity, faster, turning, turning_faster])
        after = State(state.numbers + SECONDS * change, state.time + 1)
        over = (jnp.abs(after.numbers[0]) > FARTHEST) | (jnp.abs(after.numbers[2]) > STEEPEST)
        return after.numbers, after, jnp.ones(()), over, {}

    def is_truncated(self, state: State, params: None) -> Array:
        return state.time >= LIMIT

    def action_space(self, params: None) -> Actions:
        return Actions()


def largest_difference(episodes: int) -> float:
    """Compares single steps of both worlds from the same states, and when they are over."""
    theirs, ours, worst = gymnasium.make("CartPole-v1"), CartPole(), 0.0
    step = jax.jit(lambda state, action: ours.step_env(jax.random.key(0), state, action, None))
    rng = np.random.default_rng(0)
    for seed in range(episodes):
        before, _ = theirs.reset(seed=seed)
        over = False
        while not over:
            action = int(rng.integers(2))
            after, _, over, _, _ = theirs.step(action)
            state = State(jnp.asarray(before), jnp.asarray(0))
            numbers, _, _, ours_over, _ = step(state, jnp.asarray(action))
            assert bool(ours_over) == over
            worst = max(worst, float(np.abs(np.asarray(numbers) - after).max()))
            before = after
    return worst


def collect_from(kind: str, n: int) -> Transitions:
    if kind == "JAX":
        return collect(CartPole(), n, seed=0, reward=-1.0)
    if kind == "single":
        return collect(gymnasium.make("CartPole-v1"), n, seed=0, reward=-1.0)
    mode = gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    envs = gymnasium.make_vec("CartPole-v1", num_envs=100, vectorization_mode=mode)
    return collect(envs, n, seed=0, reward=-1.0)


def rows(sizes: Sequence[int], rounds: int) -> Iterator[list[str]]:
    collect_from("JAX", 1000)  # imports and first calls
    kinds = ("single", "vector", "JAX")
    for n in sizes:
        runs = [
            {kind: timed(collect_from, kind, n) for kind in kinds}
            for _ in range(rounds if n <= 200_000 else 1)
        ]
        rates = [n / min(run[kind][0] for run in runs) for kind in kinds]
        lengths = [n / runs[0][kind][1].terminated.sum() for kind in ("single", "JAX")]
        yield [f"{n:,}", *(f"{rate:,.0f}/s" for rate in rates), f"{rates[2] / rates[0]:.1f}",
               ", ".join(f"{length:.1f}" for length in lengths)]  # fmt: skip


if __name__ == "__main__":
    options = parse_options(__doc__, transitions=(20_000, 200_000, 2_000_000), rounds=3)
    note = f"The largest difference of a step between the two is {largest_difference(20):.0e}."
    write_table(
        "collect-jax",
        f"Transitions per second from CartPole, with compilation: the fastest of {options.rounds}.",
        ("transitions", "Gymnasium", "its vector of 100", "JAX", "JAX / Gymnasium",
         "steps an episode (Gymnasium, JAX)"),
        rows(options.transitions, options.rounds), note, write=options.write,
    )  # fmt: skip
