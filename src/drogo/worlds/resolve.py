"""`resolve`: the world that a name on the command line stands for."""

from __future__ import annotations

import abc
import dataclasses
import difflib
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import gymnasium
from gymnasium.envs.registration import EnvSpec

from drogo.errors import ArgumentError, MDPError, MissingPackage
from drogo.mdp import MDP
from drogo.requests import source_digest
from drogo.worlds.grid import GridWorld, names
from drogo.worlds.register import ENTRY_POINT, OWN_MAP, register

if TYPE_CHECKING:
    from drogo.worlds.minigrid import MiniGridWorld

COSTS = {"step": -1.0, "lava": -200.0, "collision": 0.0}
"""Costs of a MiniGrid environment, whose own reward depends on the time."""


class World(abc.ABC):
    """What a name stands for: a `GridMap`, a `MiniGrid` or any other `Environment`."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The readable part of the names of result directories."""

    @property
    @abc.abstractmethod
    def view(self) -> str:
        """What of the world is observed, or the empty string if there is nothing to choose."""

    @property
    @abc.abstractmethod
    def digest(self) -> dict[str, Any]:
        """The world itself as plain JSON: two worlds that differ have different digests."""

    @property
    @abc.abstractmethod
    def sampling(self) -> dict[str, Any]:
        """The arguments `start`, `reward` and `key` with which `collect` samples the world."""

    @property
    @abc.abstractmethod
    def mdp(self) -> MDP:
        """The exact finite MDP; `MDPError` says why there is none."""

    @property
    @abc.abstractmethod
    def known_mdp(self) -> MDP | None:
        """The exact finite MDP, or None if it is unknown and would have to be searched for."""

    @abc.abstractmethod
    def make(self) -> gymnasium.Env:
        """Returns the Gymnasium environment."""


@final
@dataclass(frozen=True)
class GridMap(World):
    """A text map: one that is shipped, or a file.

    Args:
        grid: The map.
        observation: What the agent observes.
    """

    grid: GridWorld
    observation: str = "coordinates"

    @property
    def name(self) -> str:
        return self.grid.name

    @property
    def view(self) -> str:
        return self.observation

    @property
    def digest(self) -> dict[str, Any]:
        return {
            "map": self.grid.text,
            "rewards": dict(self.grid.map.rewards),
            "goals": dict(self.grid.map.goals),
            "step_limit": self.grid.step_limit,
        }

    @property
    def sampling(self) -> dict[str, Any]:
        return {"start": "uniform"}

    @property
    def mdp(self) -> MDP:
        return self.grid.mdp

    @property
    def known_mdp(self) -> MDP:
        return self.grid.mdp

    def make(self) -> gymnasium.Env:
        return gymnasium.make(OWN_MAP, world=self.grid, observation=self.observation)


@final
@dataclass(frozen=True)
class MiniGrid(World):
    """A MiniGrid environment with one layout of its grid.

    Args:
        spec: Gymnasium's specification of the environment.
        layout: The seed of the grid.
        observation: "rgb" or "symbolic".
        tile: Pixels per cell.
        step: The cost of a step, which is negative.
    """

    spec: EnvSpec
    layout: int = 0
    observation: str = "rgb"
    tile: int = 3
    step: float = COSTS["step"]

    @property
    def name(self) -> str:
        return f"{self.spec.id}-layout{self.layout}"

    @property
    def view(self) -> str:
        return f"{self.observation}{self.tile}"

    @property
    def digest(self) -> dict[str, Any]:
        return {
            **_describe(self.spec),
            "layout": self.layout,
            "observation": self.observation,
            "tile": self.tile,
            "costs": {**COSTS, "step": self.step},
        }

    @property
    def sampling(self) -> dict[str, Any]:
        return {"start": "uniform"}

    @property
    def mdp(self) -> MDP:
        return self.env.mdp

    @property
    def known_mdp(self) -> MDP:
        return self.env.mdp

    def make(self) -> gymnasium.Env:
        return self.env

    @cached_property
    def env(self) -> MiniGridWorld:
        from drogo.worlds.minigrid import MiniGridWorld

        return MiniGridWorld(
            self.spec.id,
            self.layout,
            observation=self.observation,
            tile=self.tile,
            step=self.step,
            lava=COSTS["lava"],
            collision=COSTS["collision"],
        )


@final
@dataclass(frozen=True)
class Environment(World):
    """Any other Gymnasium environment.

    Args:
        spec: Gymnasium's specification of the environment.
        reward: The cost of every step in place of the environment's own reward, if any.
        key: The part of a `Dict` observation to use, if any.
    """

    spec: EnvSpec
    reward: float | None = None
    key: str | None = None

    @property
    def name(self) -> str:
        return self.spec.id.replace("/", "-")

    @property
    def view(self) -> str:
        return self.key or ""

    @property
    def digest(self) -> dict[str, Any]:
        return _describe(self.spec)

    @property
    def cost(self) -> float | None:
        """The cost of a step: -1 in the known control problems unless another one is given."""
        return -1.0 if self.reward is None and self.start != "reset" else self.reward

    @property
    def start(self) -> Any:
        """Where transitions start: where the episode is, or in any state of a control problem."""
        from drogo.worlds.control import STARTS

        return STARTS.get(self.spec.id, "reset")

    @property
    def sampling(self) -> dict[str, Any]:
        return {"start": self.start, "reward": self.cost, "key": self.key}

    @property
    def mdp(self) -> MDP:
        return self._mdp

    @cached_property
    def _mdp(self) -> MDP:
        return MDP.from_gymnasium(self.make(), reward=self.cost)

    @property
    def known_mdp(self) -> MDP | None:
        env = self.make()
        has_table = isinstance(getattr(env.unwrapped, "P", None), Mapping)
        if not has_table or not isinstance(env.observation_space, gymnasium.spaces.Discrete):
            return None
        try:
            return self.mdp
        except MDPError:
            return None

    def make(self) -> gymnasium.Env:
        try:
            env = gymnasium.make(self.spec)
        except (gymnasium.error.Error, ImportError) as error:
            raise ArgumentError(f"Gymnasium could not make {self.spec.id}: {error}") from error
        # Where each transition starts in a state of its own there are no episodes to limit.
        return env if self.start == "reset" else env.unwrapped


def resolve(
    name: str,
    *,
    observation: str | None = None,
    reward: float | None = None,
    key: str | None = None,
    layout: int = 0,
    tile: int = 3,
) -> World:
    """Returns the world that a name stands for.

    Args:
        name: A shipped world, a map file, a Gymnasium or MiniGrid id, or "module:Id-v0", of which
            the module is imported first and registers the id.
        observation: What is observed of a grid world ("one-hot", "coordinates", "pixels" or
            "state") or of a MiniGrid environment ("pixels" or "symbolic").
        reward: The cost of every step in place of a Gymnasium environment's own reward.
        key: The part of a `Dict` observation to use.
        layout: The seed of a MiniGrid environment's grid.
        tile: Pixels per cell of a MiniGrid environment.

    Raises:
        ArgumentError: There is no such world, or an argument does not apply to it.
    """
    register()
    if name in names() or Path(name).is_file():
        return _grid_map(GridWorld.load(name), observation or "coordinates", reward)
    spec = _find_spec(name)
    if spec.entry_point == ENTRY_POINT:
        env: Any = gymnasium.make(spec).unwrapped
        return _grid_map(env.world, observation or env.observation_kind, reward)
    if spec.id.startswith("MiniGrid-"):
        if observation not in (None, "pixels", "symbolic"):
            raise ArgumentError(
                f"The observation {observation!r} is for grid worlds; a MiniGrid environment is "
                "observed as 'pixels' or 'symbolic'."
            )
        if layout < 0:
            raise ArgumentError(f"layout is {layout}; it is a seed and must be 0 or more.")
        view = "symbolic" if observation == "symbolic" else "rgb"
        return MiniGrid(spec, layout, view, tile, COSTS["step"] if reward is None else reward)
    if observation is not None:
        raise ArgumentError(
            f"The observation {observation!r} is for grid worlds and MiniGrid; {spec.id} has its "
            "own observations.",
            remedy="Use key= to choose a part of a Dict observation.",
            command_remedy="Use --key to choose a part of a Dict observation.",
        )
    return Environment(spec, reward, key)


def _grid_map(grid: GridWorld, observation: str, reward: float | None) -> GridMap:
    if reward is not None:
        raise ArgumentError(
            "A step cost in place of the reward is for Gymnasium environments; in a map, each "
            "symbol has its own reward.",
            remedy="Set it in the map's header ('reward .: -2') and leave reward= out.",
            command_remedy="Set it in the map's header ('reward .: -2') and leave --reward out.",
        )
    if observation == "symbolic":
        raise ArgumentError("The observation 'symbolic' is for MiniGrid environments.")
    return GridMap(grid, observation)


def _find_spec(name: str) -> EnvSpec:
    """Gymnasium's specification of an id, after the module that registers it was imported."""
    module, _, identifier = name.rpartition(":")
    if identifier.startswith(("MiniGrid-", "BabyAI-")):
        module = module or "minigrid"
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            if module == "minigrid":
                raise MissingPackage(
                    "MiniGrid is not installed: pip install 'drogo[minigrid]'."
                ) from error
            raise ArgumentError(
                f"The module {module!r} of {name!r} cannot be imported: {error}."
            ) from error
    if identifier == OWN_MAP:
        raise ArgumentError(f"{OWN_MAP} needs a map: give the map's file instead.")
    if identifier in gymnasium.registry:
        return gymnasium.registry[identifier]
    close = difflib.get_close_matches(identifier, [*names(), *gymnasium.registry], n=3)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    raise ArgumentError(
        f"{name!r} is not a shipped world, a map file or a Gymnasium id.{hint}",
        command_remedy="'drogo envs' lists the shipped worlds.",
    )


def _describe(spec: EnvSpec) -> dict[str, Any]:
    """A specification as JSON, with the version and the source of the package that provides it."""

    def readable(value: Any) -> str:
        named = callable(value) and hasattr(value, "__qualname__")
        return f"{value.__module__}:{value.__qualname__}" if named else repr(value)

    described: dict[str, Any] = {
        "spec": json.loads(json.dumps(dataclasses.asdict(spec), default=readable))
    }
    entry_point = described["spec"]["entry_point"]
    if entry_point is not None:
        module = entry_point.partition(":")[0]
        described["source"] = source_digest(module)
        described["version"] = _version(module.partition(".")[0])
    return described


def _version(package: str) -> str | None:
    """The version of the distribution that provides a package; None for a file of one's own."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        distributions = metadata.packages_distributions().get(package)
        return metadata.version(distributions[0]) if distributions else None
