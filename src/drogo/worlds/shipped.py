"""Texts and Gymnasium ids of the shipped worlds. `import drogo` runs this: it imports little."""

import difflib
import os
from importlib import resources
from pathlib import Path

import gymnasium

from drogo.errors import ArgumentError, FileError, MissingFile, import_extra

PAPER = ("grid-task", "four-rooms", "grid-room", "grid-maze")
"""The worlds of the paper, in its order."""
FURTHER = ("grid-room-large", "grid-maze-large", "four-rooms-multigoal", "ring")
PLAIN = "-plain"  # The variants without low-reward cells.
GRID_WORLD = "drogo.worlds.grid:GridWorldEnv"
OTHER_MAPS = "drogo/GridWorld-v0"
"""The id for other maps: `world=` is then a `GridWorld`, a shipped name or a path."""
ROOM_IDS = {f"drogo/Room-{name.capitalize()}-v0": name for name in ("wall", "u", "spiral", "doors")}
"""The layouts of the walled rooms, by their ids."""
MINIGRID_COSTS = {"step": -1.0, "lava": -200.0, "collision": 0.0}
"""Costs of a `MiniGridWorld`, in place of MiniGrid's reward, which depends on the time."""


def names() -> tuple[str, ...]:
    """Returns the names of the paper's worlds, of their plain variants, and of further worlds."""
    return (*PAPER, *(name + PLAIN for name in PAPER), *FURTHER)


def read(source: str | Path) -> tuple[str, str]:
    """Returns the name and the text of a shipped map or a file."""
    name, path = str(source), Path(source)
    if name in names():
        file = resources.files("drogo.worlds") / "maps" / f"{name.removesuffix(PLAIN)}.txt"
        header, gap, cells = file.read_text(encoding="utf-8").partition("\n\n")
        return name, header + gap + (cells.replace("x", ".") if name.endswith(PLAIN) else cells)
    if not os.path.isfile(path):  # also of a name that no file can have
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        problem = f"no shipped world and no map file is called {name!r}.{hint} Shipped worlds: "
        raise MissingFile(f"{problem}{', '.join(names())}.", argument="source")
    try:
        return path.stem, path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path} is not in UTF-8: {error}.", argument="source") from error
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error}.", argument="source") from error


def environment_id(name: str) -> str:
    """Returns the id of a shipped world: `grid-room-large` is `drogo/GridRoom-Large-v0`."""
    words = [word.capitalize() for word in name.split("-")]
    variants = [word for word in words if word in ("Plain", "Large", "Multigoal")]
    base = "".join(word for word in words if word not in variants)
    return "drogo/" + "-".join([base, *variants]) + "-v0"


def register() -> None:
    """Registers every shipped world with Gymnasium, unless it is registered already."""
    maps = {environment_id(name): {"world": name} for name in names()} | {OTHER_MAPS: {}}
    rooms = {identifier: {"layout": layout} for identifier, layout in ROOM_IDS.items()}
    kinds = ((GRID_WORLD, None, maps), ("drogo.worlds.control:WalledRoom", 500, rooms))
    for entry_point, limit, ids in kinds:
        for identifier, kwargs in ids.items():
            if identifier not in gymnasium.registry:
                gymnasium.register(identifier, entry_point, kwargs=kwargs, max_episode_steps=limit)


def register_minigrid() -> None:
    """Registers MiniGrid's environments, unless they are registered already."""
    minigrid = import_extra("minigrid", "MiniGrid", extra="minigrid")
    if "MiniGrid-Empty-5x5-v0" not in gymnasium.registry:
        minigrid.register_minigrid_envs()
