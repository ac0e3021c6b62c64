"""`ENV` of the command line: a shipped world, a map file, or a Gymnasium id."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

import gymnasium

from drogo.gridworld import GridWorld, names
from drogo.gridworld.environment import GridWorldEnv
from drogo.gridworld.register import OWN_MAP
from drogo.mdp import MDP


@dataclass(frozen=True)
class Problem:
    name: str
    mdp: MDP
    world: GridWorld | None
    """None for an environment without a map."""


def find(env: str, reward: float | None = None) -> Problem:
    if env in names() or Path(env).is_file():
        if reward is not None:
            raise ValueError(
                "--reward is for Gymnasium environments; in a map, rewards belong to its symbols "
                "(header line 'reward .: -2')."
            )
        world = GridWorld.load(env)
        return Problem(world.name, world.mdp, world)
    if env == OWN_MAP:
        raise ValueError(f"{OWN_MAP} needs a map: give the map's file instead.")
    if env in gymnasium.registry:
        try:
            made = gymnasium.make(env)
        except (gymnasium.error.Error, ImportError) as error:
            raise ValueError(f"Gymnasium could not make {env}: {error}") from error
        inner = made.unwrapped
        if isinstance(inner, GridWorldEnv):
            return Problem(inner.world.name, inner.world.mdp, inner.world)
        return Problem(env.replace("/", "-"), MDP.from_gymnasium(made, reward=reward), None)
    known = [*names(), *gymnasium.registry]
    near = difflib.get_close_matches(env, known, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise ValueError(
        f"{env!r} is no shipped world, no map file and no Gymnasium id.{hint} "
        "'drogo envs' lists the shipped worlds."
    )
