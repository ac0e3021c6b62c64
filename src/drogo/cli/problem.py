"""`ENV` of the command line: a shipped world, a map file, or a Gymnasium id."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

import gymnasium

from drogo.errors import ArgumentError
from drogo.mdp import MDP
from drogo.worlds.grid import GridWorld, names
from drogo.worlds.grid.environment import GridWorldEnv
from drogo.worlds.register import OWN_MAP


@dataclass(frozen=True)
class Problem:
    name: str
    mdp: MDP
    world: GridWorld | None
    """None for an environment without a map."""


def find(env: str, reward: float | None = None) -> Problem:
    """The MDP behind `ENV`."""
    world = find_world(env)
    if world is None:
        made = gymnasium.make(env)
        return Problem(env.replace("/", "-"), MDP.from_gymnasium(made, reward=reward), None)
    if reward is not None:
        raise ArgumentError(
            "--reward is for Gymnasium environments; in a map, rewards belong to its symbols "
            "(header line 'reward .: -2')."
        )
    return Problem(world.name, world.mdp, world)


def find_world(env: str) -> GridWorld | None:
    """The grid world that `ENV` names; None for another Gymnasium environment that can be made."""
    if env in names() or Path(env).is_file():
        return GridWorld.load(env)
    if env == OWN_MAP:
        raise ArgumentError(f"{OWN_MAP} needs a map: give the map's file instead.")
    if env in gymnasium.registry:
        try:
            inner = gymnasium.make(env).unwrapped
        except (gymnasium.error.Error, ImportError) as error:
            raise ArgumentError(f"Gymnasium could not make {env}: {error}") from error
        return inner.world if isinstance(inner, GridWorldEnv) else None
    known = [*names(), *gymnasium.registry]
    near = difflib.get_close_matches(env, known, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise ArgumentError(
        f"{env!r} is no shipped world, no map file and no Gymnasium id.{hint} "
        "'drogo envs' lists the shipped worlds."
    )
