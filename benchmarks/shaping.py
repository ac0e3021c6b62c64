"""What `PotentialShaping` adds to the time of a step.

    uv run benchmarks/shaping.py

Plain and shaped environments take the same steps in turn, resets included, in one process. In
FourRooms all observations are known and looked up; in MountainCar and CartPole all are new, and go
through the network of a fit. Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import gymnasium
import numpy as np

from drogo import GridWorld, Potential, PotentialShaping, collect, exact, fit

Make = Callable[[], gymnasium.Env]


def four_rooms() -> gymnasium.Env:
    return gymnasium.make("drogo/FourRooms-v0", observation="coordinates")


def mountain_car() -> gymnasium.Env:
    return gymnasium.make("MountainCar-v0")


def cart_pole() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1")


def anywhere(env: gymnasium.Env, rng: np.random.Generator) -> np.ndarray:
    """Start in any state of MountainCar: its goal is hardly ever reached by random actions."""
    env.reset(seed=int(rng.integers(2**31)))
    state = rng.uniform([-1.2, -0.07], [0.5, 0.07])
    env.unwrapped.state = state  # pyright: ignore[reportAttributeAccessIssue]
    return state.astype(np.float32)


def potentials() -> dict[str, tuple[Make, Potential]]:
    """The measured cases. Fits are short, since a step takes as long with an untrained network."""
    world = GridWorld.load("four-rooms")
    vector = exact.log_column(world.mdp, lam=20.0)
    fits = {
        four_rooms: collect(four_rooms(), 20_000, seed=0),
        mountain_car: collect(mountain_car(), 20_000, seed=0, start=anywhere),
        cart_pole: collect(cart_pole(), 20_000, seed=0, reward=-1.0),
    }
    learned = {
        make: fit(data, preset="fast", updates=50).potential() for make, data in fits.items()
    }
    known = Potential.from_states(world.observations("coordinates"), vector)
    return {
        "FourRooms, `Potential.from_states`": (four_rooms, known),
        "FourRooms, `result.potential()`": (four_rooms, learned[four_rooms]),
        "MountainCar, `result.potential()`": (mountain_car, learned[mountain_car]),
        "CartPole, `result.potential()`": (cart_pole, learned[cart_pole]),
    }


def seconds(env: gymnasium.Env, actions: np.ndarray) -> float:
    """The time of a loop over all actions."""
    env.reset(seed=1)
    began = time.perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=3000, help="Steps of a round.")
    parser.add_argument("--rounds", type=int, default=15, help="Of which the median is printed.")
    options = parser.parse_args()
    print("| environment, potential | plain step, µs | shaped step, µs | ratio |")
    print("|---|---|---|---|")
    for name, (make, potential) in potentials().items():
        plain, shaped = make(), PotentialShaping(make(), potential, weight=0.5)
        plain.action_space.seed(0)
        actions = np.array([plain.action_space.sample() for _ in range(options.steps)])
        pairs = [(seconds(plain, actions), seconds(shaped, actions)) for _ in range(options.rounds)]
        times = np.array(pairs[1:]) / options.steps * 1e6  # The first round compiles.
        ratio = np.median(times[:, 1] / times[:, 0])
        before, after = np.median(times, axis=0)
        print(f"| {name} | {before:.1f} | {after:.1f} | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Short fits do not converge, and that is intended.
    main()
