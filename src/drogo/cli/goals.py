"""`drogo goals ENV`: computes the map to every goal, and transfer to other terminal rewards."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import drogo
from drogo.cli import output

if TYPE_CHECKING:
    from drogo.exact.columns import Columns
    from drogo.requests import ResultDirectory
    from drogo.worlds.resolve import World

KIND = "columns"
MOST_STATES, MOST_PANELS = 2000, 9


@dataclass(frozen=True)
class Goals:
    """Compute the map to any goal, and transfer; of a text map, also draw a picture and a page."""

    env: output.Env
    goal: Annotated[tuple[str, ...], output.hint("(default: the terminal states)")] = ()
    """The goals: cells of a map as row,column, or the environment's states, such as 47."""
    terminal_rewards: Annotated[tuple[float, ...], output.hint()] = ()
    """Reward of each terminal state, in state order, for one more map. -inf excludes a state."""
    lam: float = 20.0
    """Temperature lambda. A smaller value makes the maps more sensitive to rewards."""
    reward: output.Reward = None
    layout: output.Layout = None
    actions: output.Actions = ()
    out: output.Out = Path("results/goals")
    overwrite: output.Overwrite = False
    json: output.Json = False

    def run(self) -> None:
        output.solve(self, "goals", self._solve)

    def _solve(self, world: "World", result: "ResultDirectory") -> dict[str, Any]:
        import numpy as np

        from drogo.errors import ArgumentError

        mdp = world.mdp
        goals = np.flatnonzero(mdp.terminal)
        if self.goal:
            keys = {_plain(key): k for k, key in enumerate(mdp.states)}
            if not all(key.isdecimal() for key in keys):  # or an index would be taken for one
                keys = {str(k): k for k in range(mdp.n_states)} | keys
            for text in self.goal:
                if _plain(text) not in keys:
                    kind = "a state" if world.grid is None else "a free cell"
                    remedy = f"give {kind} that can be reached, such as {next(reversed(keys))}."
                    raise ArgumentError(f"the goal {text!r} is no state; {remedy}", argument="goal")
            goals = np.array(list(dict.fromkeys(keys[_plain(text)] for text in self.goal)))
        began = time.perf_counter()
        every = mdp.n_states <= MOST_STATES  # a larger world has no page
        columns = drogo.exact.solve_columns(mdp, self.lam, None if every else goals).checked()
        vectors = columns.log_e[goals] if every else columns.log_e
        arrays = {"log_e": vectors, "goals": goals}
        if self.terminal_rewards:
            arrays["transfer"] = drogo.exact.transfer(mdp, self.lam, list(self.terminal_rewards))
        if every:
            arrays["log_columns"] = columns.log_e
        seconds = time.perf_counter() - began
        pictures = _pictures(world, arrays)
        report = self._report(world, arrays, columns, seconds)
        files = {kind: f"{kind}.{'html' if kind == 'page' else 'png'}" for kind in pictures}
        report["files"] = {**files, "columns": "columns.npz"}
        if "picture" in files and goals.size > MOST_PANELS:
            report["warnings"] = [f"the picture shows {MOST_PANELS} of {goals.size} goals."]
        return output.keep(self, result, KIND, arrays, report, pictures)

    def _report(
        self, world: "World", arrays: dict[str, Any], columns: "Columns", seconds: float
    ) -> dict[str, Any]:
        states, names = world.mdp.n_states, world.state_names
        goals, vectors = arrays["goals"].tolist(), arrays["log_e"]
        finite = [vector[abs(vector) < float("inf")] for vector in vectors]
        rows = [
            {"goal": names[goal], "reached from": f"{reached.size} of {states}"}
            | {"lowest v(s, g)": f"{reached.min():.6g}"}
            for goal, reached in zip(goals, finite, strict=True)
        ]
        bound = float(columns.error.max())
        caption = f"No v(s, g) is off by more than {bound:.1e}. {seconds * 1e3:.0f} ms."
        title = f"{self.env}, {states} states, lambda = {self.lam:g}"
        report = {"env": self.env, "states": states, "lam": self.lam, "goals": goals}
        report["names"] = [names[goal] for goal in goals]
        report["lowest"] = [float(reached.min()) for reached in finite]
        report |= {"error": bound, "status": columns.status, "seconds": seconds, "warnings": []}
        return {**report, "table": output.table(title, caption, rows, left=("goal",))}


def _pictures(world: "World", arrays: dict[str, Any]) -> dict[str, bytes]:
    from drogo.plot.maps import goal_page

    grid, goals, pictures = world.grid, arrays["goals"].tolist(), {}
    if grid is not None:
        titles = [f"to {world.state_names[goal]}" for goal in goals[:MOST_PANELS]]
        maps = dict(zip(titles, arrays["log_e"], strict=False))
        if "transfer" in arrays:
            maps["with the given terminal rewards"] = arrays["transfer"]
        pictures["picture"] = drogo.plot.as_png(drogo.plot.goal_maps(grid, maps, title=world.title))
    if "log_columns" in arrays:
        columns = arrays["log_columns"]
        if grid is not None:
            title = f"{world.name}: the map to any goal"
            pictures["page"] = goal_page(grid, columns, goals[0], title=title)
    return pictures


def _plain(key: object) -> str:
    """Returns a state as it is written in an option: 3,4 for (3, 4)."""
    return str(key).replace(" ", "").strip("()[]")
