"""Compare tabular Q-learning in four-rooms with and without shaping by the exact vector."""

import numpy as np

from drogo import GridWorld, exact
from drogo.potential import normalised
from drogo_paper.agents import Training, compare

world = GridWorld.load("four-rooms")
phi = normalised(exact.log_column(world.mdp, lam=20.0), world.mdp.neighbours)
training = Training(world.step_limit, world.low_reward, steps=30_000)
methods = {"unshaped": None, "shaped": np.tile(phi, (5, 1))}
grids = compare(world.mdp, methods, training, seeds=5)
for name, grid in grids.items():
    steps, visits = grid.steps_to_optimal[grid.chosen], grid.low_reward_visits[grid.chosen]
    print(f"{name}: optimal after {steps.mean():,.0f} steps")
    print(f"{name}: {visits.mean():.0f} visits to low-reward cells")
