"""`drogo envs`: what is shipped."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from drogo.worlds.grid import GridWorld, names
from drogo.worlds.register import environment_id


def describe(name: str) -> dict[str, Any]:
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
        "start": "fixed" if np.count_nonzero(world.start) == 1 else "uniform",
        "step_limit": world.step_limit,
    }


def run(*, as_json: bool) -> None:
    worlds = [describe(name) for name in names()]
    if as_json:
        print(json.dumps(worlds, indent=2))
        return
    table = Table(
        title="Shipped worlds",
        caption="drogo exact NAME draws one; a map file works too. "
        "low: cells with a low reward; limit: steps until an episode is cut.",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in ("name", "Gymnasium id", "cells"):
        table.add_column(column, no_wrap=True)
    for column in ("states", "low", "limit"):
        table.add_column(column, justify="right", no_wrap=True)
    for world in worlds:
        table.add_row(
            world["name"],
            world["id"],
            f"{world['width']}x{world['height']}",
            *(str(world[key]) for key in ("states", "low_reward_cells", "step_limit")),
        )
    Console().print(table)
