"""What an agent observes of a grid world.

- `one-hot`: one number per state, float32.
- `coordinates`: `(x / (width - 1), y / (height - 1)) - 0.5`, float32.
- `pixels`: an RGB image of the whole map with `tile` pixels per cell, channels last, float32 in
  [-0.5, 0.5]. It does not show the direction of the agent, which would leak the last action.
- `state`: the index of the state, int64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from jaxtyping import Float32, Int, Shaped

from drogo.errors import check_choice, check_whole
from drogo.worlds.tabular import MOST_PIXELS, check_table

if TYPE_CHECKING:
    from drogo.worlds.grid.world import GridWorld

KINDS = ("one-hot", "coordinates", "pixels", "state")

# Okabe-Ito colours: everyone can tell vermillion from bluish green.
WALL_COLOUR = (0.20, 0.20, 0.20)
FREE_COLOUR = (0.95, 0.95, 0.95)
LOW_REWARD_COLOUR = (0.84, 0.37, 0.00)
GOAL_COLOUR = (0.00, 0.62, 0.45)
AGENT_COLOUR = (0.00, 0.45, 0.70)


def space(world: GridWorld, kind: str, tile: int = 1) -> gymnasium.Space:
    """Returns the Gymnasium space of one observation."""
    check_choice("observation", kind, KINDS)
    check_whole("tile", tile, 1, MOST_PIXELS)
    if kind == "state":
        return gymnasium.spaces.Discrete(world.n_states)
    if kind == "one-hot":
        return gymnasium.spaces.Box(0.0, 1.0, (world.n_states,), np.float32)
    height, width = world.shape
    shape = (2,) if kind == "coordinates" else (height * tile, width * tile, 3)
    return gymnasium.spaces.Box(-0.5, 0.5, shape, np.float32)


def table(
    world: GridWorld, kind: str, states: Int[np.ndarray, " k"], tile: int = 1
) -> Shaped[np.ndarray, "k ..."]:
    """Returns the observations of the given states."""
    shape = (len(states), *(space(world, kind, tile).shape or ()))
    remedy = "Use 'coordinates' for a world of this size."
    check_table(f"the {kind} table of {world.name}", shape, remedy)
    if kind == "state":
        return states.copy()
    if kind == "one-hot":
        return (states[:, None] == np.arange(world.n_states)).astype(np.float32)
    row, column = world.cells[states].T
    if kind == "coordinates":
        height, width = world.shape
        unit = np.stack([column / (width - 1), row / (height - 1)], axis=-1)
        return (unit - 0.5).astype(np.float32)
    images = np.tile(picture(world, None, 1) - np.float32(0.5), (len(states), 1, 1, 1))
    agent = np.array(AGENT_COLOUR, dtype=np.float32) - np.float32(0.5)
    images[np.arange(len(states)), row, column] = agent
    return images.repeat(tile, axis=1).repeat(tile, axis=2)


def picture(world: GridWorld, state: int | None, tile: int) -> Float32[np.ndarray, "h w 3"]:
    """Draws the map in colour, in [0, 1]; the agent, if any, fills its cell."""
    check_whole("tile", tile, 1, MOST_PIXELS)
    image = np.full((*world.shape, 3), WALL_COLOUR, dtype=np.float32)
    colours = np.full((world.n_states, 3), FREE_COLOUR, dtype=np.float32)
    colours[world.low_reward] = LOW_REWARD_COLOUR
    colours[world.terminal] = GOAL_COLOUR
    if state is not None:
        colours[state] = AGENT_COLOUR
    image[~world.walls] = colours
    return image.repeat(tile, axis=0).repeat(tile, axis=1)
