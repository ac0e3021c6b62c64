"""The transitions of `test_fit`, for a process of its own."""

import gymnasium

from drogo import GridWorld, collect

WORLD = GridWorld.parse("########\n#S.x...#\n#.##.#.#\n#....#G#\n########")
env = gymnasium.make("drogo/GridWorld-v0", world=WORLD, observation="state")
data = collect(env, 4000, seed=0)
