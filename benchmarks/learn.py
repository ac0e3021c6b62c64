"""Training speed: against a plain mini-batch loop, to a given accuracy, by seeds and by states.

    uv run benchmarks/learn.py --write         all parts; about 15 minutes on two cores
    uv run benchmarks/learn.py --only plain    some of: plain, accuracy, regression, seeds, states

Prints Markdown. Every ratio is of two measurements in the same run.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from common import LAM, WORLDS, data_of, updates_per_second
from drogo import Column, Drogo, GridWorld, Paper, Regression, Transitions, exact, fit
from drogo.learn.convolution import ConvolutionalNetwork
from drogo.learn.networks import AbstractNetwork, DenseNetwork
from tables import Part, parse_options, write_parts
from worlds import random_world

COLUMN = Column(lam=LAM)
ACCURACY = 0.1


def plain_loop(data: Transitions, kind: str, updates: int) -> float:
    """Returns the updates per second of a straightforward loop: a jitted step on a shuffled
    mini-batch, with the network at all 4,000 observations of it, and convolutions by `lax.conv`."""
    key = jax.random.key(0)
    shape = data.observations.shape[1:]
    if kind == "pixels":
        network: AbstractNetwork = ConvolutionalNetwork(shape, key, by_patches=False)
    else:
        network = DenseNetwork(int(np.prod(shape)), 0, key)
    params, static = eqx.partition(network, eqx.is_array)
    optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.rmsprop(1e-5))
    state = optimiser.init(params)
    seen = jnp.asarray(data.observations)
    cost = jnp.asarray(np.exp(-data.reward / LAM), dtype=jnp.float32)
    here, there = jnp.asarray(data.state), jnp.asarray(data.next_state)
    live = jnp.asarray(~data.terminated, dtype=jnp.float32)

    @jax.jit
    def update(params, state, rows):
        def loss(params):
            network = eqx.combine(params, static)
            v, v_next = network(seen[here[rows]]), network(seen[there[rows]]) * live[rows]
            bracket = cost[rows] - jnp.exp(v_next - v)
            return (jax.lax.stop_gradient(bracket) * v).mean()

        gradient = jax.grad(loss)(params)
        step, state = optimiser.update(gradient, state)
        return optax.apply_updates(params, step), state

    rng = np.random.default_rng(0)
    batches = [jnp.asarray(rng.integers(0, len(data), 2000)) for _ in range(updates + 1)]
    params, state = update(params, state, batches[-1])
    jax.block_until_ready(params)
    began = time.perf_counter()
    for batch in batches[:-1]:
        params, state = update(params, state, batch)
    jax.block_until_ready(params)
    return updates / (time.perf_counter() - began)


def against_plain(options: Namespace) -> Iterator[list[str]]:
    for kind, name, slow, fast in (("coordinates", "MLP", 300, 2000), ("pixels", "CNN", 6, 400)):
        data = data_of("four-rooms", kind, options.transitions)
        plain = plain_loop(data, kind, slow)
        ours = updates_per_second(data, COLUMN, Paper(), fast)
        yield [name, f"{plain:.1f}", f"{ours:.0f}", f"{ours / plain:.0f}"]


def to_accuracy(options: Namespace, goal: float = 0.999) -> Iterator[list[str]]:
    truth = {"column": exact.log_column(GridWorld.load("four-rooms").mdp, LAM)}
    for kind in ("coordinates", "one-hot"):
        data = data_of("four-rooms", kind, options.transitions)
        for method in (Drogo(stop_early=False), Paper()):
            began = time.perf_counter()
            result = fit(
                data, COLUMN, method, seeds=3, truth=truth,
                callbacks=[lambda report: bool(report.row["cosine_column"].min() < goal)],
            )  # fmt: skip
            seconds = time.perf_counter() - began
            if result.history["cosine_column"][-1].min() >= goal:
                yield [kind, method.name, f"{result.updates:,}", f"{seconds:.1f}"]
            else:
                yield [kind, method.name, "never", "-"]


def seconds_to(data: Transitions, method: Any) -> float:
    """Returns the seconds until the accuracy is reached, infinite if it is not. A first fit, which
    is stopped soon, compiles all programs."""
    events, seconds = [], []
    fit(data, COLUMN, method, callbacks=[lambda event: events.append(event) or len(events) < 3])
    began = time.perf_counter()

    def still_off(event: Any) -> bool:
        seconds.append(time.perf_counter() - began)
        events.append(event)
        return bool(event.row["error"].max() > ACCURACY)

    fit(data, COLUMN, method, callbacks=[still_off])
    return seconds[-1] if events[-1].row["error"].max() <= ACCURACY else np.inf


def regression(options: Namespace) -> Iterator[list[str]]:
    for name in options.worlds:
        cells = []
        for kind in ("one-hot", "coordinates"):
            data = data_of(name, kind, options.transitions // 10)
            fast, slow = (seconds_to(data, method) for method in (Regression(), Drogo()))
            cells += [f"{fast:.2f}, {slow:.1f}", f"{slow / fast:.1f}"]
        yield [name, *cells]


def by_seeds(options: Namespace) -> Iterator[list[str]]:
    kinds = {"coordinates": 1000, "pixels": 200}
    tables = {kind: data_of("four-rooms", kind, options.transitions) for kind in kinds}
    for seeds in (1, 2, 5, 10):
        speeds = [
            updates_per_second(tables[kind], COLUMN, Drogo(), updates, seeds=seeds)
            for kind, updates in kinds.items()
        ]
        yield [str(seeds), *(f"{speed:.0f}" for speed in speeds)]


def by_states(options: Namespace) -> Iterator[list[str]]:
    for states in options.states:
        world = random_world(states)
        data = data_of(world, "coordinates", options.transitions)
        truth = {"column": exact.log_column(world.mdp, LAM)}
        speed = updates_per_second(data, COLUMN, Drogo(), 200)
        result = fit(data, COLUMN, Drogo(updates=2000), truth=truth)
        batch = result.method.batch_size
        cosine = result.history["cosine_column"][-1].min()
        peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20
        shown = batch if batch == "all" else f"{batch:,}"
        yield [f"{world.n_states:,}", f"{speed:.0f}", shown, f"{cosine:.4f}", f"{peak:.1f}"]


NOTE = "From {transitions:,} transitions, with λ = 20."
PARTS = {
    "plain": Part(
        "learn-plain",
        against_plain,
        "Updates per second in four-rooms with the paper's settings and one seed, beside a plain "
        "mini-batch loop that evaluates all 4,000 observations of a batch.",
        ("network", "plain mini-batch loop", "drogo", "ratio"),
        NOTE,
    ),
    "accuracy": Part(
        "learn-accuracy",
        to_accuracy,
        "Time until the worst of 3 seeds has a cosine of 0.999 in four-rooms, with compilation.",
        ("input", "method", "updates", "seconds"),
        NOTE,
    ),
    "regression": Part(
        "regression-speed",
        regression,
        f"Seconds of `Regression()` and `Drogo()` until no value is further than {ACCURACY} from "
        "the exact solution of the data, one seed, compiled before.",
        ("world", "one-hot", "ratio", "coordinates", "ratio"),
        "From a tenth of {transitions:,} transitions, with λ = 20.",
    ),
    "seeds": Part(
        "learn-seeds",
        by_seeds,
        "Updates per second in four-rooms with `Drogo()`, times the number of seeds.",
        ("seeds", "MLP on coordinates", "CNN on pixels"),
        NOTE,
    ),
    "states": Part(
        "learn-states",
        by_states,
        "Random worlds of growing size from coordinates: `Drogo()`, one seed, 2,000 updates.",
        ("states", "updates per second", "batch size", "cosine", "peak GiB"),
        NOTE,
    ),
}


if __name__ == "__main__":
    sizes = (100, 1000, 10_000, 100_000)
    options = parse_options(__doc__, only=tuple(PARTS), transitions=200_000, worlds=WORLDS,
                            states=sizes)  # fmt: skip
    write_parts(PARTS, options)
