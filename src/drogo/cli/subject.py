"""What `drogo learn ENV` needs to know of an environment: its data, its truth, its picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from matplotlib.figure import Figure

from drogo import config as configs
from drogo import plot
from drogo.cli.problem import find_world
from drogo.data import Transitions, collect
from drogo.errors import ArgumentError
from drogo.exact import solve
from drogo.exact.continuous import GridSolution
from drogo.learn import LogEigenvector
from drogo.plot.fields import Plane, learned_cloud, learned_field
from drogo.worlds.control import STARTS, mountain_car_truth
from drogo.worlds.control.mountain_car import GOAL, HIGH, LOW
from drogo.worlds.grid import GridWorld

if TYPE_CHECKING:
    from drogo.cli.main import Learn
    from drogo.worlds.minigrid import MiniGridWorld

TRUTHS = ("column", "representation", "transition")
MOUNTAIN_CAR = "MountainCar-v0"
PIXELS_OF_A_PLANE = 120

Truth = dict[str, np.ndarray]


@runtime_checkable
class Subject(Protocol):
    """An environment that something can be learned of."""

    @property
    def name(self) -> str:
        """For the directory of a run."""
        ...

    def collect(self, options: Learn) -> Transitions: ...

    def truth(self, data: Transitions, lam: float) -> Truth:
        """Vectors over the data's observations; none where nothing is known."""
        ...

    def picture(self, result: LogEigenvector, title: str) -> Figure: ...


def find(options: Learn) -> Subject:
    if options.env.startswith("MiniGrid-"):
        from drogo.worlds.minigrid import MiniGridWorld

        if options.observation not in (None, "pixels", "symbolic"):
            raise ArgumentError(
                f"--observation {options.observation} is for grid worlds; a MiniGrid environment "
                "is seen as pixels or symbolic."
            )
        if options.layout < 0:
            raise ArgumentError(f"--layout is {options.layout}; it is a seed, 0 or more.")
        kind = "symbolic" if options.observation == "symbolic" else "rgb"
        made = MiniGridWorld(
            options.env, options.layout, observation=kind, tile=options.tile,
            step=-1.0 if options.reward is None else options.reward,
        )  # fmt: skip
        return MiniGrid(options.env, made)
    if options.observation == "symbolic":
        raise ArgumentError("--observation symbolic is for MiniGrid environments.")
    world = find_world(options.env)
    if world is not None:
        if options.reward is not None:
            raise ArgumentError(
                "--reward is for Gymnasium environments; in a map, rewards belong to its symbols "
                "(header line 'reward .: -2')."
            )
        return Grid(world, options.observation or "coordinates")
    if options.observation is not None:
        raise ArgumentError(
            f"--observation is for grid worlds and MiniGrid; {options.env} is seen as it shows "
            "itself (--key chooses a part of a Dict)."
        )
    return Other(options.env, options.reward, options.key)


@dataclass(frozen=True)
class Grid:
    """One of drogo's worlds, or a map of the user's own."""

    world: GridWorld
    kind: str

    @property
    def name(self) -> str:
        return f"{self.world.name}-{self.kind}"

    @property
    def is_small(self) -> bool:
        return self.world.n_states <= configs.MOST_STATES_OF_FAST

    def collect(self, options: Learn) -> Transitions:
        env = gymnasium.make("drogo/GridWorld-v0", world=self.world, observation=self.kind)
        return collect(env, options.transitions, seed=options.data_seed, start="uniform")

    def truth(self, data: Transitions, lam: float) -> Truth:
        """Every definition that could be computed; an inaccurate one is no truth."""
        solved = {name: solve(self.world.mdp, lam, name) for name in TRUTHS}
        return {name: s.log_e for name, s in solved.items() if s.status == "converged"}

    def picture(self, result: LogEigenvector, title: str) -> Figure:
        exact = solve(self.world.mdp, result.config.lam, "column")
        title = f"{self.world.name} from {self.kind}: {title}"
        if exact.status != "converged":
            return plot.profile(result.v.mean(axis=0), title=title, label="learned log e")
        v = result.v
        if result.config.objective != "drogo":  # of unit norm; shift it to the column's gauge
            v = v - v[:, self.world.terminal][:, :1]
        return plot.learned(self.world, exact.log_e, v, result.history, title=title)


@dataclass(frozen=True)
class MiniGrid:
    """A MiniGrid environment of one layout, with its exact problem."""

    env: str
    made: MiniGridWorld

    @property
    def name(self) -> str:
        kind, step = self.made.observation_kind, self.made.costs["step"]
        name = f"{self.env}-layout{self.made.layout}-{kind}{self.made.tile}"
        return name if step == -1 else f"{name}-reward{step:g}"

    def collect(self, options: Learn) -> Transitions:
        return collect(self.made, options.transitions, seed=options.data_seed, start="uniform")

    def truth(self, data: Transitions, lam: float) -> Truth:
        return {"column": solve(self.made.mdp, lam, "column").checked().log_e}

    def picture(self, result: LogEigenvector, title: str) -> Figure:
        """Over positions: the mean over directions, doors and objects."""
        truth = solve(self.made.mdp, result.config.lam, "column").checked().log_e
        inner: Any = self.made.unwrapped
        seen = "pixels" if self.made.observation_kind == "rgb" else "symbols"
        plane = Plane((-0.5, inner.width - 0.5, inner.height - 0.5, -0.5), "column", "row", True)
        return learned_field(
            plane, self._over_positions(truth), self._over_positions(result.v.mean(axis=0)),
            result.history, seeds=len(result.seeds), title=f"{self.env}, layout "
            f"{self.made.layout}, from {seen}: {title}\n(mean over directions, doors, objects)",
        )  # fmt: skip

    def _over_positions(self, values: np.ndarray) -> np.ndarray:
        inner: Any = self.made.unwrapped
        places = self.made.positions
        at = places[:, 1] * inner.width + places[:, 0]
        size = inner.width * inner.height
        count = np.bincount(at, minlength=size)
        with np.errstate(invalid="ignore"):
            mean = np.bincount(at, values, minlength=size) / count
        return mean.reshape(inner.height, inner.width)


@dataclass(frozen=True)
class Other:
    """Any other Gymnasium environment."""

    env: str
    reward: float | None
    """Step cost in place of the environment's own."""
    key: str | None
    """Part of a Dict observation."""

    @property
    def name(self) -> str:
        parts = [self.env.replace("/", "-"), self.key or ""]
        parts.append("" if self.reward is None else f"reward{self.reward:g}")
        return "-".join(part for part in parts if part)

    @property
    def cost(self) -> float | None:
        """Of a step: 1 in the problems that are known, unless said otherwise."""
        return -1.0 if self.reward is None and self.env in STARTS else self.reward

    def collect(self, options: Learn) -> Transitions:
        made = gymnasium.make(options.env)
        start = STARTS.get(options.env)
        if start is not None:  # each transition from a state of its own: no episode, no limit
            made = made.unwrapped
        return collect(
            made, options.transitions, seed=options.data_seed, start=start or "reset",
            reward=self.cost, key=self.key,
        )  # fmt: skip

    def truth(self, data: Transitions, lam: float) -> Truth:
        if self.env != MOUNTAIN_CAR:
            return {}
        vector = self._mountain_car(lam)(data.observations.astype(np.float64))
        vector[data.terminal_states] = 0.0
        return {"column": vector}

    def _mountain_car(self, lam: float) -> GridSolution:
        return mountain_car_truth(lam, reward=self.cost or -1.0)

    def picture(self, result: LogEigenvector, title: str) -> Figure:
        title = f"{self.env}: {title}"
        if self.env != MOUNTAIN_CAR:
            mean = result.v.mean(axis=0)
            return learned_cloud(
                result.observations, mean, result.history, seeds=len(result.seeds), title=title
            )
        across, up = (
            np.linspace(low, high, PIXELS_OF_A_PLANE) for low, high in zip(LOW, HIGH, strict=True)
        )
        states = np.stack([m.ravel() for m in np.meshgrid(across, up[::-1])], axis=1)
        shape = (up.size, across.size)
        mean = result(states.astype(np.float32)).mean(axis=0)
        truth = self._mountain_car(result.config.lam)(states)
        over = (states[:, 0] >= GOAL) & (states[:, 1] >= 0)
        truth[over] = mean[over] = np.nan
        plane = Plane((LOW[0], HIGH[0], LOW[1], HIGH[1]), "position", "velocity")
        return learned_field(
            plane, truth.reshape(shape), mean.reshape(shape), result.history,
            seeds=len(result.seeds), title=title,
        )  # fmt: skip
