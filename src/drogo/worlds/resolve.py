"""`resolve`: the world that a name on the command line stands for.

Resolving a name is cheap: maps are parsed and environments are made when they are needed.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import difflib
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from drogo.errors import ArgumentError, MDPError, check_whole
from drogo.requests import source_digest
from drogo.worlds import shipped

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.envs.registration import EnvSpec

    from drogo.mdp import MDP
    from drogo.worlds.grid import GridWorld

COSTS = {"step": -1.0, "lava": -200.0, "collision": 0.0}
"""Costs of a MiniGrid environment, whose own reward depends on the time."""
LONGEST = 1000
"""The steps of an episode in an environment that has no time limit, if it must have one."""
ABOUT = {
    "reward": "reward is a step cost in place of a Gymnasium environment's own reward",
    "key": "key chooses parts of a Dict observation",
    "layout": "layout is the seed of a MiniGrid environment's grid",
    "tile": "tile is the number of pixels per cell of a MiniGrid environment",
}
"""What the options mean that do not apply to every world."""


@dataclass(frozen=True, eq=False)
class World(abc.ABC):
    """What a name stands for: a `GridMap`, a `MiniGrid` or any other `Environment`.

    Args:
        name: The readable part of the names of result directories.
        view: What is observed, or the empty string if there is nothing to choose.
        digest: The world itself as plain JSON. Worlds that differ have different digests.
    """

    name: str
    view: str
    digest: dict[str, Any]

    @property
    def sampling(self) -> dict[str, Any]:
        """The arguments `start`, `reward` and `key` of `collect`, as far as they are needed."""
        return {"start": "uniform"}

    @cached_property
    def env(self) -> Any:
        """The Gymnasium environment."""
        return self.make()

    @cached_property
    def mdp(self) -> MDP:
        """The exact finite MDP; `MDPError` says why there is none."""
        return self.env.mdp

    @property
    def known_mdp(self) -> MDP | None:
        """The exact finite MDP, or None if it is unknown or would have to be searched for."""
        return self.mdp

    @abc.abstractmethod
    def make(self, *, limited: bool = False) -> gymnasium.Env:
        """Makes the Gymnasium environment.

        Args:
            limited: Whether episodes must have a time limit, as for training an agent: that of the
                environment, or `LONGEST` steps if it has none.
        """


@final
@dataclass(frozen=True, eq=False)
class GridMap(World):
    """A text map: one that is shipped, or a file."""

    source: str
    """The name of the shipped map, or the file, for error messages."""

    @property
    def grid(self) -> GridWorld:
        """The map as a grid world."""
        return self.env.world

    def make(self, *, limited: bool = False) -> gymnasium.Env:
        from drogo.worlds.grid.environment import GridWorldEnv
        from drogo.worlds.grid.parse import parse
        from drogo.worlds.grid.world import GridWorld

        grid = GridWorld(self.name, *parse(self.digest["map"], self.source))
        return GridWorldEnv(grid, self.view)


@final
@dataclass(frozen=True, eq=False)
class MiniGrid(World):
    """A MiniGrid environment with one layout of its grid, and costs in place of its reward."""

    spec: EnvSpec
    arguments: dict[str, Any]
    """Of `MiniGridWorld`."""

    def make(self, *, limited: bool = False) -> gymnasium.Env:
        from drogo.worlds.minigrid import MiniGridWorld

        return MiniGridWorld(self.spec.id, **self.arguments)


@final
@dataclass(frozen=True, eq=False)
class Environment(World):
    """Any other Gymnasium environment."""

    spec: EnvSpec
    reward: float | None
    """Cost of every step in place of the environment's own reward."""
    key: str | tuple[str, ...] | None
    """The part of a `Dict` observation to use, or several, which are joined."""

    @property
    def sampling(self) -> dict[str, Any]:
        from drogo.worlds.control import STARTS, STEP_COSTS

        start = STARTS.get(self.spec.id, "reset")
        reward = STEP_COSTS.get(self.spec.id) if self.reward is None else self.reward
        return {"start": start, "reward": reward, "key": self.key}

    @cached_property
    def mdp(self) -> MDP:
        from drogo.mdp import MDP

        return MDP.from_gymnasium(self.env, reward=self.sampling["reward"])

    @property
    def known_mdp(self) -> MDP | None:
        from gymnasium.spaces import Discrete

        has_table = isinstance(getattr(self.env.unwrapped, "P", None), Mapping)
        if has_table and isinstance(self.env.observation_space, Discrete):
            with contextlib.suppress(MDPError):
                return self.mdp
        return None

    @property
    def has_limit(self) -> bool:
        """Whether the environment is registered with a time limit."""
        return self.spec.max_episode_steps is not None

    def make(self, *, limited: bool = False) -> gymnasium.Env:
        import gymnasium

        longest = LONGEST if limited and not self.has_limit else None
        try:
            env = gymnasium.make(self.spec, max_episode_steps=longest)
        except (gymnasium.error.Error, ImportError) as error:
            raise ArgumentError(f"Gymnasium could not make {self.spec.id}: {error}") from error
        if limited:
            return env
        # Where each transition starts in a state of its own there are no episodes to limit.
        return env.unwrapped if callable(self.sampling["start"]) else env


def resolve(
    name: str,
    *,
    observation: str | None = None,
    reward: float | None = None,
    key: str | Sequence[str] | None = None,
    layout: int | None = None,
    tile: int | None = None,
) -> World:
    """Returns the world that a name stands for.

    Args:
        name: A shipped world, a map file, a Gymnasium or MiniGrid id, or "module:Id-v0", of which
            the module is imported first and registers the id.
        observation: What is observed of a grid world ("one-hot", "coordinates", "pixels" or
            "state") or of a MiniGrid environment ("pixels" or "symbolic").
        reward: The cost of every step in place of a Gymnasium environment's own reward.
        key: The part of a `Dict` observation to use, or several, which are joined.
        layout: The seed of a MiniGrid environment's grid, by default 0.
        tile: Pixels per cell of a MiniGrid environment, by default 3.

    Raises:
        ArgumentError: There is no such world, or an option does not apply to it.
    """
    keys = (key,) if isinstance(key, str) else tuple(key or ())
    not_for_maps: dict[str, Any] = {"key": keys, "layout": layout, "tile": tile}
    if name in shipped.names() or Path(name).is_file():
        return _grid_map(name, observation or "coordinates", reward, **not_for_maps)
    from drogo.worlds.register import ENTRY_POINT

    spec = _find_spec(name)
    if spec.entry_point == ENTRY_POINT and isinstance(spec.kwargs.get("world"), str):
        kind = observation or spec.kwargs.get("observation") or "coordinates"
        return _grid_map(spec.kwargs["world"], kind, reward, **not_for_maps)
    if spec.id.startswith("MiniGrid-"):
        _refuse(f"{name} is observed as a whole", key=keys)
        return _minigrid(spec, observation, reward, layout, tile)
    if observation is not None:
        raise ArgumentError(
            f"The observation {observation!r} is for grid worlds and MiniGrid; {spec.id} has its "
            "own observations.",
            remedy="Use key= to choose a part of a Dict observation.",
            command_remedy="Use --key to choose a part of a Dict observation.",
        )
    _refuse(f"{name} is not one", layout=layout, tile=tile)
    digest = _describe(spec)
    if len(keys) > 1:  # joined names could be those of another request
        digest["key"] = keys
    chosen = (*keys, None)[0] if len(keys) < 2 else keys
    return Environment(spec.id.replace("/", "-"), "+".join(keys), digest, spec, reward, chosen)


def _refuse(why: str, **options: object) -> None:
    """Raises an error if an option was given that does not apply."""
    for option, value in options.items():
        if value not in (None, ()):
            raise ArgumentError(
                f"{ABOUT[option]}, and {why}.",
                remedy=f"Leave {option}= out.",
                command_remedy=f"Leave --{option} out.",
            )


def _minigrid(
    spec: EnvSpec,
    observation: str | None,
    reward: float | None,
    layout: int | None,
    tile: int | None,
) -> MiniGrid:
    if observation not in (None, "pixels", "symbolic"):
        raise ArgumentError(
            f"The observation {observation!r} is for grid worlds; a MiniGrid environment is "
            "observed as 'pixels' or 'symbolic'."
        )
    view = "rgb"
    if observation == "symbolic":
        _refuse("symbolic observations have no pixels", tile=tile)
        view = "symbolic"
    layout, tile = check_whole("layout", layout or 0, 0), 3 if tile is None else tile
    arguments = {"layout": layout, "observation": view, "tile": tile, **COSTS}
    arguments |= {} if reward is None else {"step": reward}
    digest = {**_describe(spec), "arguments": arguments}
    return MiniGrid(f"{spec.id}-layout{layout}", view, digest, spec, arguments)


def _grid_map(source: str, observation: str, reward: float | None, **others: object) -> GridMap:
    by_symbol = "in a map each symbol has its own reward, which its header sets ('reward .: -2')"
    _refuse(by_symbol, reward=reward)
    _refuse(f"{source} is a text map", **others)
    if observation == "symbolic":
        raise ArgumentError("The observation 'symbolic' is for MiniGrid environments.")
    name, text = shipped.read(source)
    return GridMap(name, observation, {"map": text}, source)


def _find_spec(name: str) -> EnvSpec:
    """Gymnasium's specification of an id, after the module that registers it was imported."""
    import gymnasium

    from drogo.worlds.register import OWN_MAP, register, register_minigrid

    register()
    module, _, identifier = name.rpartition(":")
    if module == "minigrid" or identifier.startswith(("MiniGrid-", "BabyAI-")):
        register_minigrid()
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ArgumentError(
                f"The module {module!r} of {name!r} cannot be imported: {error}."
            ) from error
    if identifier == OWN_MAP:
        raise ArgumentError(f"{OWN_MAP} needs a map: give the map's file instead.")
    if identifier in gymnasium.registry:
        return gymnasium.registry[identifier]
    close = difflib.get_close_matches(identifier, [*shipped.names(), *gymnasium.registry], n=3)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    raise ArgumentError(
        f"{name!r} is not a shipped world, a map file or a Gymnasium id.{hint}",
        command_remedy="'drogo envs' lists the shipped worlds.",
    )


def _describe(spec: EnvSpec) -> dict[str, Any]:
    """A specification as JSON, with the version and the source of the package that provides it."""
    import numpy as np

    def as_json(value: Any) -> Any:
        if callable(value) and hasattr(value, "__qualname__"):
            return f"{value.__module__}:{value.__qualname__}"
        if isinstance(value, np.ndarray | np.generic):
            return value.tolist()
        # Without its content, results of different environments could not be told apart.
        raise ArgumentError(
            f"{spec.id} is registered with {value!r}, which JSON cannot describe. Register it with "
            "plain arguments instead."
        )

    content = json.loads(json.dumps(dataclasses.asdict(spec), default=as_json))
    if content["entry_point"] is None:
        return {"spec": content}
    module = content["entry_point"].partition(":")[0]
    version = _version(module.partition(".")[0])
    return {"spec": content, "version": version, "source": source_digest(module)}


def _version(package: str) -> str | None:
    """The version of the distribution that provides a package; None for a file of one's own."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        distributions = metadata.packages_distributions().get(package)
        return metadata.version(distributions[0]) if distributions else None
