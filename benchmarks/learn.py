"""Training speed: against a plain mini-batch loop, to a given accuracy, by seeds and by states.

    uv run benchmarks/learn.py                 all parts; about 15 minutes on two cores
    uv run benchmarks/learn.py --only plain    one of: plain, accuracy, seeds, states

Prints Markdown. Every ratio is of two measurements in the same run.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax

from drogo import GridWorld, Transitions, collect, exact, fit
from drogo.config import configure
from drogo.learn import networks
from drogo.learn.checkpoint import Progress
from drogo.learn.convolution import CNN
from drogo.learn.prepare import prepare
from drogo.learn.train import _advance
from worlds import random_world

LAM = 20.0


def data_of(world: GridWorld, kind: str, n: int = 200_000) -> Transitions:
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation=kind)
    return collect(env, n, seed=0)


def plain_loop(data: Transitions, kind: str, updates: int) -> float:
    """Updates per second of what one would write first: a jitted step on a shuffled mini-batch,
    the network evaluated at all 4,000 observations of it, convolutions by `lax.conv`."""
    key = jax.random.key(0)
    shape = data.observations.shape[1:]
    if kind == "pixels":
        network: networks.AbstractNetwork = CNN(shape, key, by_patches=False)
    else:
        network = networks.MLP(int(np.prod(shape)), 0, key)
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
    rows = [jnp.asarray(rng.integers(0, len(data), 2000)) for _ in range(updates + 1)]
    params, state = update(params, state, rows[-1])
    jax.block_until_ready(params)
    began = time.perf_counter()
    for drawn in rows[:-1]:
        params, state = update(params, state, drawn)
    jax.block_until_ready(params)
    return updates / (time.perf_counter() - began)


def our_speed(data: Transitions, preset: str, seeds: int, updates: int = 200, **settings) -> float:
    """Updates per second of one seed times seeds, drawing of the batches included."""
    config = configure(data, preset, settings)
    training, states = prepare(data, [config], list(range(seeds)), None, {})
    chunk = min(100, updates)
    progress = _advance(training, Progress(states), chunk)
    jax.block_until_ready(progress.states)
    began = time.perf_counter()
    for _ in range(updates // chunk):
        progress = _advance(training, progress, chunk)
    jax.block_until_ready(progress.states)
    return seeds * (updates // chunk) * chunk / (time.perf_counter() - began)


def against_plain() -> None:
    print("\n### Updates per second, four-rooms, the paper's settings, one seed\n")
    print("| network | plain mini-batch loop | drogo | ratio |")
    print("|---|---|---|---|")
    world = GridWorld.load("four-rooms")
    for kind, name, updates in (("coordinates", "MLP", 300), ("pixels", "CNN", 6)):
        data = data_of(world, kind)
        plain = plain_loop(data, kind, updates)
        ours = our_speed(data, "paper", 1, 1000 if kind == "coordinates" else 200)
        print(f"| {name} | {plain:.1f} | {ours:.0f} | {ours / plain:.0f} |", flush=True)


def to_accuracy(goal: float = 0.999) -> None:
    print(f"\n### Time until the worst of 3 seeds has a cosine of {goal} (four-rooms)\n")
    print("| input | preset | updates | seconds |")
    print("|---|---|---|---|")
    world = GridWorld.load("four-rooms")
    truth = {"column": exact.log_column(world.mdp, LAM)}
    for kind in ("coordinates", "one-hot"):
        data = data_of(world, kind)
        for preset in ("fast", "paper"):
            began = time.perf_counter()
            result = fit(
                data, preset=preset, seeds=3, truth=truth,
                callbacks=[lambda report: bool(report.row["cosine_column"].min() < goal)],
            )  # fmt: skip
            reached = result.history["cosine_column"][-1].min() >= goal
            took = f"{result.updates} | {time.perf_counter() - began:.1f}"
            print(f"| {kind} | {preset} | {took if reached else 'never | -'} |", flush=True)


def by_seeds() -> None:
    print("\n### Seed-updates per second by number of seeds (four-rooms, fast)\n")
    print("| seeds | MLP on coordinates | CNN on pixels |")
    print("|---|---|---|")
    world = GridWorld.load("four-rooms")
    tables = {kind: data_of(world, kind) for kind in ("coordinates", "pixels")}
    for seeds in (1, 2, 5, 10):
        mlp = our_speed(tables["coordinates"], "fast", seeds, 300)
        cnn = our_speed(tables["pixels"], "fast", seeds, 100)
        print(f"| {seeds} | {mlp:.0f} | {cnn:.0f} |", flush=True)


def by_states() -> None:
    print("\n### Random worlds, coordinates, fast, one seed: 200,000 transitions\n")
    print("| states | updates per second | network shown | cosine after 2,000 updates | peak GiB |")
    print("|---|---|---|---|---|")
    for states in (100, 1000, 10_000, 100_000):
        world = random_world(states)
        data = data_of(world, "coordinates")
        truth = {"column": exact.log_column(world.mdp, LAM)}
        speed = our_speed(data, "fast", 1, 100)
        result = fit(data, preset="fast", truth=truth, updates=2000)
        whole = len(data.observations) <= 4000
        shown = "the table" if whole else "4,000 samples"
        cosine = result.history["cosine_column"][-1].min()
        peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20
        print(
            f"| {world.n_states:,} | {speed:.0f} | {shown} | {cosine:.4f} | {peak:.1f} |",
            flush=True,
        )


PARTS = {"plain": against_plain, "accuracy": to_accuracy, "seeds": by_seeds, "states": by_states}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS)
    chosen = parser.parse_args().only
    for name, part in PARTS.items():
        if chosen in (None, name):
            part()
