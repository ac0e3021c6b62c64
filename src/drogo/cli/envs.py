"""`drogo envs`: lists the worlds that come with the library."""

import json as json_module
from dataclasses import dataclass
from typing import Any

from drogo.cli.output import Json, print_table, table, terminal


@dataclass(frozen=True)
class Envs:
    """List the worlds that come with the library."""

    json: Json = False

    def run(self) -> None:
        from drogo.worlds import GridWorld, names
        from drogo.worlds.shipped import ROOM_IDS, environment_id

        worlds: list[dict[str, Any]] = [
            {
                "name": world.name,
                "id": environment_id(world.name),
                "width": world.shape[1],
                "height": world.shape[0],
                "states": world.n_states,
                "low_reward_cells": int(world.low_reward.sum()),
                "goals": int(world.terminal.sum()),
                "start": "fixed" if (world.start > 0).sum() == 1 else "uniform",
                "step_limit": world.step_limit,
            }
            for world in map(GridWorld.load, names())
        ]
        if self.json:
            print(json_module.dumps(worlds, indent=2))
            return
        titles = {"id": "Gymnasium id", "low_reward_cells": "low", "step_limit": "limit"}
        keys = ("name", "id", "cells", "states", "low_reward_cells", "step_limit")
        sizes = ({**world, "cells": f"{world['width']}x{world['height']}"} for world in worlds)
        rows = [{titles.get(key, key): str(world[key]) for key in keys} for world in sizes]
        caption = "low: number of low-reward cells; limit: step limit of an episode. There are "
        caption += f"also walled rooms with continuous states: {', '.join(ROOM_IDS)}."
        left = ("name", "Gymnasium id", "cells")
        print_table(terminal(), table("Shipped worlds", caption, rows, left=left))
