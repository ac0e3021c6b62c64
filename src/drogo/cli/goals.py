"""`drogo goals ENV`: computes the map to every goal, distances between all states, and transfer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

import drogo
from drogo.cli.output import obtain_report, print_report, result_directory, table, terminal

if TYPE_CHECKING:
    import numpy as np

    from drogo.exact.columns import Columns
    from drogo.mdp import MDP
    from drogo.requests import ResultDirectory
    from drogo.worlds.resolve import World

KIND = "columns"
MOST_STATES = 2000
"""Worlds with more states have no table of all distances."""
MOST_PANELS = 9


@dataclass(frozen=True)
class Goals:
    """Compute the map to any goal: pictures, a page to click in, distances, and transfer."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A shipped world, a map file, a Gymnasium id, or module:Id-v0."""
    goal: tuple[str, ...] = ()
    """The goals: numbers of states, or cells of a map as row,column. By default the terminal
    states."""
    terminal_rewards: tuple[float, ...] = ()
    """Reward of each terminal state, in state order: the map for these is drawn too. -inf excludes
    a terminal state."""
    lam: float = 20.0
    """Temperature lambda. A smaller value makes the maps more sensitive to rewards."""
    reward: float | None = None
    """Reward of every step in place of a Gymnasium environment's, for example -1."""
    out: Path = Path("results/goals")
    """Directory of all results; each result has its own directory in it."""
    overwrite: bool = False
    """Compute the result again even if it is already there."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> None:
        from drogo.worlds.resolve import resolve

        console = terminal(quiet=self.json)
        world = resolve(self.env, reward=self.reward)
        goals = _states_of(self.goal, world)
        result = result_directory(self, world, f"{world.name}-goals-lam{self.lam:g}")
        with console.status(f"solving {self.env}"):
            report, note = obtain_report(self, result, partial(self._solve, world, goals, result))
        print_report(console, report, result.path, note, as_json=self.json)

    def _solve(self, world: World, goals: np.ndarray, result: ResultDirectory) -> dict[str, Any]:
        from drogo.files import write_arrays
        from drogo.requests import plain

        mdp, began = world.mdp, time.perf_counter()
        every = mdp.n_states <= MOST_STATES
        columns = drogo.exact.solve_columns(mdp, self.lam, None if every else goals).checked()
        vectors = columns.log_e[goals] if every else columns.log_e
        task = None
        if self.terminal_rewards:
            task = drogo.exact.transfer(mdp, self.lam, list(self.terminal_rewards))
        seconds = time.perf_counter() - began
        pictures = _pictures(world, mdp, goals, vectors, columns if every else None, task)
        arrays = {"log_e": vectors, "goals": goals}
        arrays |= {} if task is None else {"transfer": task}
        arrays |= {"log_columns": columns.log_e} if every else {}
        files = {kind: f"{kind}.{'html' if kind == 'page' else 'png'}" for kind in pictures}
        report = self._report(mdp, goals, vectors, columns, seconds, files)
        with result.begin(overwrite=self.overwrite):
            settings = plain(result.request)
            write_arrays(result.path / "columns.npz", KIND, arrays, settings, overwrite=True)
            return result.finish(report, **pictures)

    def _report(
        self,
        mdp: MDP,
        goals: np.ndarray,
        vectors: np.ndarray,
        columns: Columns,
        seconds: float,
        files: dict[str, str],
    ) -> dict[str, Any]:
        finite = abs(vectors) < float("inf")
        rows = [
            {
                "goal": f"state {goal}",
                "reached from": f"{reached.sum()} of {mdp.n_states}",
                "lowest v(s, g)": f"{vector[reached].min():.6g}",
            }
            for goal, vector, reached in zip(goals.tolist(), vectors, finite, strict=True)
        ]
        bound = float(columns.error.max())
        caption = f"No v(s, g) is off by more than {bound:.1e}. {seconds * 1e3:.0f} ms."
        title = f"{self.env}, {mdp.n_states} states, lambda = {self.lam:g}"
        return {
            "env": self.env,
            "states": mdp.n_states,
            "lam": self.lam,
            "goals": goals.tolist(),
            "lowest": [float(v[f].min()) for v, f in zip(vectors, finite, strict=True)],
            "error": bound,
            "status": columns.status,
            "seconds": seconds,
            "files": {**files, "columns": "columns.npz"},
            "warnings": [f"the picture shows {MOST_PANELS} of {goals.size} goals."]
            if "picture" in files and goals.size > MOST_PANELS
            else [],
            "table": table(title, caption, rows, left=("goal",)),
        }


def _pictures(
    world: World,
    mdp: MDP,
    goals: np.ndarray,
    vectors: np.ndarray,
    columns: Columns | None,
    task: np.ndarray | None,
) -> dict[str, bytes]:
    """Returns the pictures of a result by name; `columns` are those of all states, if computed."""
    from drogo.cli.pictures import without_formulas
    from drogo.worlds.resolve import GridMap

    name = without_formulas(world.name)
    pictures = {}
    if isinstance(world, GridMap):
        cells = world.grid.cells
        maps = {f"to row {cells[g][0]}, column {cells[g][1]}": v
                for g, v in zip(goals.tolist(), vectors, strict=True)}  # fmt: skip
        maps = dict(list(maps.items())[:MOST_PANELS])
        if task is not None:
            maps["with the given terminal rewards"] = task
        pictures["picture"] = drogo.plot.as_png(drogo.plot.goal_maps(world.grid, maps, title=name))
    if columns is not None:
        pictures["distances"] = drogo.plot.as_png(drogo.plot.distances(columns.log_e, title=name))
        if isinstance(world, GridMap):
            pictures["page"] = drogo.plot.goal_page(
                world.grid, columns.log_e, int(goals[0]), title=f"{world.name}: the map to any goal"
            )
    return pictures


def _states_of(given: tuple[str, ...], world: World) -> np.ndarray:
    """Returns the states that the option --goal names."""
    import numpy as np

    from drogo.errors import ArgumentError
    from drogo.worlds.resolve import GridMap

    mdp = world.mdp
    if not given:
        return np.flatnonzero(mdp.terminal)
    cells = {}
    if isinstance(world, GridMap):
        cells = {f"{row},{column}": k for k, (row, column) in enumerate(world.grid.cells.tolist())}
    states = []
    for text in given:
        number = cells.get(text.replace(" ", ""))
        if number is None and text.isdecimal() and int(text) < mdp.n_states:
            number = int(text)
        if number is None:
            cell = " or a free cell of the map as row,column, such as " + next(iter(cells), "")
            raise ArgumentError(
                f"the goal {text!r} is no state of {world.name}; give a number from 0 to "
                f"{mdp.n_states - 1}{cell if cells else ''}.",
                argument="goal",
            )
        states.append(number)
    return np.array(list(dict.fromkeys(states)))
