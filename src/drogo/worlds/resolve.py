"""`resolve` finds a world by a name of the command line, and makes its environment when needed."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import difflib
import hashlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from drogo.errors import ArgumentError, MDPError, check_whole
from drogo.worlds import shipped
from drogo.worlds.wrappers import numbered_actions

if TYPE_CHECKING:
    from drogo.mdp import MDP
    from drogo.mdp.costs import Costs
    from drogo.worlds.control import Plane
    from drogo.worlds.grid import GridWorld
    from drogo.worlds.scenes import Scene

LONGEST, MOST_LETTERS = 1000, 30
APPLIES_TO = {
    "observation": "grid worlds (one-hot, coordinates, pixels, state), MiniGrid (pixels, symbolic)",
    "reward": "environments; the header of a map sets the reward of each symbol ('reward .: -2')",
    "terminal_reward": "Gymnasium environments; a map has 'goal L: -50' in its header",
    "key": "Gymnasium environments with Dict observations",
    "layout": "MiniGrid environments, whose grid it seeds",
    "actions": "MiniGrid environments, whose actions it chooses",
    "tile": "MiniGrid environments observed as pixels",
}
MINIGRID_VIEWS = {None: "rgb", "pixels": "rgb", "symbolic": "symbolic"}


@dataclass(frozen=True, eq=False)
class World(abc.ABC):
    """A resolved name. Pictures are over its `grid`, `scenes` or `plane`, or its observations."""

    name: str
    view: str  # The kind of observation, or the empty string if there is only one.
    digest: dict[str, Any]
    """The world itself as plain JSON. Worlds that differ have different digests."""

    truths: ClassVar[Sequence[str]] = ("column",)
    grid: ClassVar[GridWorld | None] = None
    scenes: ClassVar[Sequence[Scene]] = ()

    @property
    def title(self) -> str:
        """The name in a picture, in which matplotlib finds no formula."""
        return self.name.replace("$", r"\$")

    @property
    def sampling(self) -> dict[str, Any]:
        """The arguments `start`, `reward` and `key` of `collect`."""
        return {"start": "uniform"}

    def plane(self, lam: float) -> Plane | None:
        """Returns the exact solution of a world of two continuous coordinates."""
        return None

    def truth(
        self, observations: np.ndarray, terminal: np.ndarray, lam: float, costs: Costs | None = None
    ) -> dict[str, Any]:
        """Returns the exact vectors over the observations of data with these ends and costs."""
        from drogo.exact import solve

        mdp = self.known_mdp
        solutions = () if mdp is None else [solve(mdp, lam, name) for name in self.truths]
        return {s.definition: s.log_e for s in solutions if s.status == "converged"}

    @cached_property
    def env(self) -> Any:
        return self.make()

    @cached_property
    def mdp(self) -> MDP:
        """The exact finite MDP; `MDPError` says why there is none."""
        return self.env.mdp

    @property
    def known_mdp(self) -> MDP | None:
        """The exact finite MDP, or None if it is unknown or would have to be searched for."""
        return self.mdp

    @cached_property
    def state_names(self) -> list[str]:
        """The names of the states: cells, or keys of `mdp.states` that are short enough to read."""
        if self.grid is not None:
            return [f"row {row}, column {column}" for row, column in self.grid.cells.tolist()]
        keys = map(str, self.mdp.states)
        return [f"state {key if len(key) <= MOST_LETTERS else k}" for k, key in enumerate(keys)]

    @property
    def lattice(self) -> tuple[int, int] | None:
        """The height and width of the grid through which the environment counts its states."""
        env: Any = self.env.unwrapped
        shape = getattr(env, "shape", (getattr(env, "nrow", 0), getattr(env, "ncol", 0)))
        space = self.env.observation_space
        if not isinstance(space, gymnasium.spaces.Discrete) or np.shape(shape) != (2,):
            return None
        height, width = map(int, shape)
        return (height, width) if height * width == space.n else None

    @abc.abstractmethod
    def make(self, *, limited: bool = False) -> gymnasium.Env:
        """Makes the environment, which has a step limit (`LONGEST` if no other) if `limited`."""


@dataclass(frozen=True, eq=False)
class GridMap(World):
    """A text map: one that is shipped, or a file. `source` is its name in error messages."""

    source: str
    truths = ("column", "representation", "transition")

    @property
    def grid(self) -> GridWorld:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.env.world

    def make(self, *, limited: bool = False) -> gymnasium.Env:
        from drogo.worlds.grid import GridWorld, GridWorldEnv
        from drogo.worlds.text_map import parse

        grid = GridWorld(self.name, *parse(self.digest["map"], self.source))
        return GridWorldEnv(grid, self.view)


@dataclass(frozen=True, eq=False)
class MiniGrid(World):
    """A MiniGrid environment with one layout of its grid, and costs in place of its reward."""

    spec: EnvSpec
    arguments: dict[str, Any]  # The arguments of `MiniGridWorld`.

    @property
    def title(self) -> str:
        return f"{self.spec.id}, layout {self.arguments['layout']}"

    @cached_property
    def scenes(self) -> Sequence[Scene]:  # pyright: ignore[reportIncompatibleVariableOverride]
        from drogo.worlds.scenes import scenes

        return scenes(self.env)

    def make(self, *, limited: bool = False) -> gymnasium.Env:
        from drogo.worlds.minigrid import MiniGridWorld

        return MiniGridWorld(self.spec.id, **self.arguments)

    def unless_not_searchable(self, reward: float | None) -> World:
        """Returns this world, or its environment alone if the states cannot be searched for."""
        from drogo.worlds.minigrid import NotSearchable, WholeGrid

        try:
            _ = self.env
            return self
        except NotSearchable as error:
            reason = error
            if self.arguments["tile"] != 3 or "actions" in self.arguments:
                raise  # the environment alone has no such options
        kwargs = {"env": self.spec.id, "layout": self.arguments["layout"]}
        make: Any = WholeGrid
        spec = EnvSpec(f"drogo/{self.spec.id}", make, kwargs=kwargs, disable_env_checker=True)
        label = self.name, "symbolic", self.digest, spec
        return Environment(*label, reward, None, unsearchable=reason)


@dataclass(frozen=True, eq=False)
class Environment(World):
    """Any other Gymnasium environment."""

    spec: EnvSpec
    reward: float | None  # Cost of every step in place of the environment's own reward.
    key: str | tuple[str, ...] | None
    """The part of a `Dict` observation to use, or several, which are joined."""
    terminal_reward: float | None = None  # The value of every terminal state.
    costs: Costs | None = None  # Those of the MDP, in place of what its table alone says.
    unsearchable: ArgumentError | None = None
    """The error that says why the states cannot be searched for, if that was tried."""

    @property
    def sampling(self) -> dict[str, Any]:
        from drogo.worlds.control import STARTS, STEP_COSTS

        start = STARTS.get(self.spec.id, "reset")
        reward = STEP_COSTS.get(self.spec.id) if self.reward is None else self.reward
        value = {} if self.terminal_reward is None else {"terminal_reward": self.terminal_reward}
        return {"start": start, "reward": reward, "key": self.key, **value}

    @cached_property
    def mdp(self) -> MDP:
        from drogo.mdp import MDP

        if self.unsearchable is not None:
            raise self.unsearchable
        return MDP.from_gymnasium(self.env, reward=self.costs or self.sampling["reward"])

    @property
    def known_mdp(self) -> MDP | None:
        has_table = isinstance(getattr(self.env.unwrapped, "P", None), Mapping)
        has_table &= self.terminal_reward is None  # the MDP has the environment's own ends
        if has_table and isinstance(self.env.observation_space, gymnasium.spaces.Discrete):
            with contextlib.suppress(MDPError):
                return self.mdp
        return None

    def plane(self, lam: float) -> Plane | None:
        from drogo.worlds.control import plane

        return plane(self.spec.id, lam, self.reward)

    def truth(
        self, observations: np.ndarray, terminal: np.ndarray, lam: float, costs: Costs | None = None
    ) -> dict[str, Any]:
        if costs is not None:
            return dataclasses.replace(self, costs=costs).truth(observations, terminal, lam)
        plane, mdp = self.plane(lam), self.known_mdp
        if plane is not None:
            vector = plane.v(observations.astype(float))
            vector[terminal] = 0.0
            return {"column": vector}
        rows = None if mdp is None else mdp.index_of(observations)  # some states, in any order
        vectors = super().truth(observations, terminal, lam)
        return {name: vector[rows] for name, vector in vectors.items()}

    def make(self, *, limited: bool = False) -> gymnasium.Env:
        longest = LONGEST if limited and self.spec.max_episode_steps is None else None
        try:
            env = gymnasium.make(self.spec, max_episode_steps=longest)
        except (gymnasium.error.Error, ImportError) as error:
            problem = f"Gymnasium could not make {self.spec.id}: {error}"
            raise ArgumentError(problem, argument="name") from error
        # A start function puts each transition into a state, so there are no episodes to limit.
        env = env.unwrapped if callable(self.sampling["start"]) and not limited else env
        return numbered_actions(env)


def resolve(
    name: str,
    *,
    observation: str | None = None,
    reward: float | None = None,
    terminal_reward: float | None = None,
    key: str | Sequence[str] | None = None,
    layout: int | None = None,
    actions: Sequence[str] = (),
    tile: int | None = None,
) -> World:
    """Returns the world of a name: a shipped world, a map file, a Gymnasium or MiniGrid id, or
    "module:Id-v0", whose module is imported first. `APPLIES_TO` says what each option is for."""
    keys = (key,) if isinstance(key, str) else tuple(key or ())
    options = (observation, reward, terminal_reward, keys, layout, tuple(actions), tile)
    given = dict(zip(APPLIES_TO, options, strict=True))
    is_map = name in shipped.names() or Path(name).is_file()
    spec = None if is_map else _find_spec(name)
    kwargs = {"world": name} if spec is None else spec.kwargs
    is_named = isinstance(kwargs.get("world"), str)
    if spec is None or (spec.entry_point == shipped.GRID_WORLD and is_named):
        _refuse(name, given, "" if observation == "symbolic" else "observation")
        view = observation or kwargs.get("observation") or "coordinates"
        title, text = shipped.read(kwargs["world"])
        return GridMap(title, view, {"map": text}, kwargs["world"])
    digest = _describe(spec)
    if spec.id.startswith(("MiniGrid-", "BabyAI-")):
        seen = "observation" if observation in MINIGRID_VIEWS else ""
        tiles = "" if observation == "symbolic" else "tile"
        _refuse(name, given, "reward", "layout", "actions", seen, tiles)
        layout, view = check_whole("layout", layout or 0, 0), MINIGRID_VIEWS[observation]
        arguments = {"layout": layout, "observation": view, "tile": 3 if tile is None else tile}
        arguments |= {"actions": tuple(actions)} if actions else {}
        arguments |= shipped.MINIGRID_COSTS | ({} if reward is None else {"step": reward})
        digest |= {"arguments": arguments}
        world = MiniGrid(f"{spec.id}-layout{layout}", view, digest, spec, arguments)
        return world.unless_not_searchable(reward)
    _refuse(name, given, "reward", "terminal_reward", "key")
    digest |= {"key": keys} if len(keys) > 1 else {}  # joined, they could be one other key
    chosen = keys if len(keys) > 1 else next(iter(keys), None)
    label = spec.id.replace("/", "-"), "+".join(keys), digest, spec
    return Environment(*label, reward, chosen, terminal_reward)


def _refuse(name: str, given: Mapping[str, object], *allowed: str) -> None:
    """Raises an error if an option was given that does not apply to a world."""
    for option, value in given.items():
        if option not in allowed and value not in (None, ()):
            problem = f"{option} is for {APPLIES_TO[option]}, and does not apply to {name}."
            raise ArgumentError(problem, remedy="Leave it out.", argument=option)


def _find_spec(name: str) -> EnvSpec:
    """Returns Gymnasium's specification of an id, whose module is imported first."""
    shipped.register()
    module, _, identifier = name.rpartition(":")
    if module == "minigrid" or identifier.startswith(("MiniGrid-", "BabyAI-")):
        shipped.register_minigrid()
    try:
        if module:
            importlib.import_module(module)
    except ImportError as error:
        problem = f"The module {module!r} of {name!r} cannot be imported: {error}."
        raise ArgumentError(problem, argument="name") from error
    if identifier == shipped.OTHER_MAPS:
        problem = f"{identifier} needs a map: give the map's file instead."
        raise ArgumentError(problem, argument="name")
    if identifier in gymnasium.registry:
        return gymnasium.registry[identifier]
    known = [*shipped.names(), *map(str, Path(name).parent.glob("*.txt")), *gymnasium.registry]
    close = difflib.get_close_matches(identifier, known, n=3)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    problem = f"{name!r} is not a shipped world, a map file or a Gymnasium id.{hint}"
    remedy = "'drogo envs' lists the shipped worlds."
    raise ArgumentError(problem, command_remedy=remedy, argument="name")


def _describe(spec: EnvSpec) -> dict[str, Any]:
    """Returns a specification as JSON, with the version of its package or a digest of its file."""

    def as_json(value: Any) -> Any:
        if hasattr(value, "tolist"):  # an array
            return value.tolist()
        if callable(value) and hasattr(value, "__qualname__"):
            return f"{value.__module__}:{value.__qualname__}"
        # Without its content, results of different environments could not be distinguished.
        problem = f"JSON cannot describe {value!r} of {spec.id}; register it with plain arguments."
        raise ArgumentError(problem, argument="name")

    content = json.loads(json.dumps(dataclasses.asdict(spec), default=as_json))
    if content["entry_point"] is None:
        return {"spec": content}
    module = content["entry_point"].partition(":")[0]
    package = module.partition(".")[0]
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        distributions = metadata.packages_distributions().get(package)
        version = metadata.version(distributions[0]) if distributions else None
    if version is not None:
        return {"spec": content, "version": version}
    with contextlib.suppress(ImportError, ValueError):  # ValueError if it is not from a file
        if origin := getattr(importlib.util.find_spec(module), "origin", None):
            source = hashlib.sha256(Path(origin).read_bytes()).hexdigest()  # it has no version
            return {"spec": content, "version": None, "source": source}
    problem = f"The module {module!r} of {spec.id} is not on sys.path; put its directory there."
    raise ArgumentError(problem, argument="name")
