"""`drogo envs`: the worlds that come with the library."""

from __future__ import annotations

import json as json_module
from dataclasses import dataclass
from typing import Any

from drogo.cli.output import print_table, table, terminal


@dataclass(frozen=True)
class Envs:
    """List the worlds that come with the library."""

    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> None:
        from drogo.worlds.grid import names

        worlds = [describe(name) for name in names()]
        if self.json:
            print(json_module.dumps(worlds, indent=2))
            return
        rows = [
            {
                "name": world["name"],
                "Gymnasium id": world["id"],
                "cells": f"{world['width']}x{world['height']}",
                "states": str(world["states"]),
                "low": str(world["low_reward_cells"]),
                "limit": str(world["step_limit"]),
            }
            for world in worlds
        ]
        caption = "low: number of low-reward cells; limit: step limit of an episode"
        left = ("name", "Gymnasium id", "cells")
        print_table(terminal(), table("Shipped worlds", caption, rows, left=left))


def describe(name: str) -> dict[str, Any]:
    """Returns the facts about a shipped world as plain JSON."""
    from drogo.worlds.grid import GridWorld
    from drogo.worlds.register import environment_id

    world = GridWorld.load(name)
    height, width = world.shape
    return {
        "name": name,
        "id": environment_id(name),
        "width": width,
        "height": height,
        "states": world.n_states,
        "low_reward_cells": int(world.low_reward.sum()),
        "goals": int(world.terminal.sum()),
        "start": "fixed" if (world.start > 0).sum() == 1 else "uniform",
        "step_limit": world.step_limit,
    }
