"""Learn the vector of a map of your own, compare it with the exact one, and draw both."""

from pathlib import Path

import gymnasium

from drogo import Column, Drogo, GridWorld, collect, exact, fit, plot

MAP = """
reward w: -10

##########
#S...w...#
#.##.w.#.#
#....w..G#
##########
"""

world = GridWorld.parse(MAP, name="stream")
env = gymnasium.make("drogo/GridWorld-v0", world=world, observation="coordinates")
truth = exact.log_column(world.mdp, lam=20.0)
data = collect(env, 50_000, seed=0)
result = fit(data, Column(lam=20.0), Drogo(updates=2000), seeds=2, truth={"column": truth})
figure = plot.learned(world, truth, result.v, result.history, title="a stream to wade through")
Path("stream.png").write_bytes(plot.as_png(figure))
print(result.status, "cosine", result.history["cosine_column"][-1], "-> stream.png")
