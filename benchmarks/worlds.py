"""`random_world`: maps of any size, with 20 % walls, 5 % low reward, one goal, nothing cut off."""

import numpy as np
from scipy import ndimage

from drogo import GridWorld


def random_world(states: int, seed: int = 0) -> GridWorld:
    """Returns a square map with at least `states` free cells."""
    rng = np.random.default_rng(seed)
    side = int(np.sqrt(states / 0.79)) + 3
    while True:
        chance = rng.random((side, side))
        cells = np.where(chance < 0.20, "#", np.where(chance < 0.25, "x", "."))
        cells[[0, -1]] = cells[:, [0, -1]] = "#"
        islands = np.asarray(ndimage.label(cells != "#")[0])  # pyright: ignore[reportIndexIssue]
        largest = np.bincount(islands.ravel())[1:].argmax() + 1
        cells[islands != largest] = "#"
        free = np.argwhere(islands == largest)
        if len(free) >= states:
            break
        side += 1 + side // 200
    row, column = free[rng.integers(len(free))]
    cells[row, column] = "G"
    text = "\n".join("".join(line) for line in cells)
    return GridWorld.parse(text, name=f"random-{states}")
