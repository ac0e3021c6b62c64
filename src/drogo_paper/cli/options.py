"""`drogo options ENV`: discovers options, and draws them as they form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

import drogo
from drogo.cli import output
from drogo.cli.output import Json, Overwrite
from drogo.errors import counted
from drogo.progress import progress_bar

if TYPE_CHECKING:
    from rich.console import Console

    from drogo.requests import ResultDirectory
    from drogo.worlds.resolve import World
    from drogo_paper.plot.options import Stage

KIND = "options"
FILES = {"picture": "picture.png", "visits": "visits.gif", "curves": "curves.png",
         "options": "options.npz"}  # fmt: skip
MOST_PANELS, MOST_FRAMES = 6, 40


@dataclass(frozen=True)
class Options:
    """Discover options in a grid world: walk, learn a map, climb it, and walk again.

    Goals are plain cells, and nothing ends. For example: drogo options four-rooms
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A shipped world, or a map file."""
    method: Literal["race", "ceo", "untried", "race-exact", "ceo-exact"] = "race"
    """race: climb the default representation, which sees rewards, as published. ceo: climb the
    successor representation, which does not. untried: the exact map in which untried actions are
    goals; it has no step size and no passes. race-exact, ceo-exact: exact vectors of the visited
    part of the world."""
    iterations: int = 50
    """Number of discovered options."""
    steps: int = 100
    """Steps of each walk, which begins at the start."""
    seeds: int = 10
    """Number of agents. Pictures show the first."""
    p_option: float = 0.1
    """Probability of starting an option in a step in which none is followed."""
    keep: int = 1
    """Number of options that are kept. The oldest is dropped first."""
    step_size: float = 0.03
    """Step size of the representation, for race and ceo."""
    passes: int = 1
    """Passes over the latest walk, for race and ceo."""
    lam: float = 1.3
    """Temperature lambda, for race, untried and race-exact."""
    discount: float = 0.99
    """Discount of the options' own problems, and of the successor representation."""
    out: output.Out = Path("results/options")
    overwrite: Overwrite = False
    json: Json = False

    def run(self) -> None:
        from drogo.errors import check_positive, check_share, check_whole
        from drogo.worlds.resolve import resolve

        console = output.terminal(quiet=self.json)
        for name in ("iterations", "steps", "seeds", "keep", "passes"):
            check_whole(name, getattr(self, name), 1)
        for name in ("p_option", "step_size", "discount"):
            check_share(name, getattr(self, name))
        for name in ("lam", "step_size"):
            check_positive(name, getattr(self, name))
        world = resolve(self.env)
        check_world(world)
        label = f"{world.name}-{self.method}-{self.seeds}seeds"
        result = output.result_directory(self, world, label)
        output.print_result(self, console, result, partial(self._discover, world, result, console))

    def _discover(self, world: Any, result: ResultDirectory, console: Console) -> dict[str, Any]:
        import numpy as np

        from drogo_paper.agents.discovery import Cycle, Iteration, discover
        from drogo_paper.agents.representations import make_vectors
        from drogo_paper.plot.figures import as_gif
        from drogo_paper.plot.options import Stage, exploration, option_maps, visit_frames

        grid, stages = world.grid, []
        visits = np.zeros(grid.n_states, dtype=np.int64)

        def watch(update: Any, iteration: Iteration) -> None:
            update(iteration.number, self.iterations, "iterations")
            memory, option = iteration.memory, iteration.option
            if iteration.vectors is None or option is None:
                return
            visits[memory.state[0, 0]] += 1
            np.add.at(visits, memory.next_state[0], 1)
            stages.append(
                Stage(iteration.number, iteration.vectors[0], option.action[0], option.ends[0],
                      visits.copy())
            )  # fmt: skip

        names = ("step_size", "passes", "lam", "discount")
        vectors = make_vectors(self.method, **{name: getattr(self, name) for name in names})
        cycle = Cycle(self.iterations, self.steps, self.p_option, self.keep)
        with progress_bar(f"discovering options in {self.env}") as update:
            discovery = discover(
                grid.without_goals(), vectors, cycle, seeds=range(self.seeds),
                discount=self.discount, may_end=self.method not in ("race", "ceo"),
                watch=partial(watch, update),
            )  # fmt: skip
        visited = discovery.visited[:, self.steps :: self.steps + 1]
        title = f"{world.title}: {self.method}"
        with console.status("drawing"):
            panels = option_maps(grid, _some(stages, MOST_PANELS), title=title)
            pictures = {
                "picture": drogo.plot.as_png(panels),
                "visits": as_gif(visit_frames(grid, _some(stages, MOST_FRAMES), title=title)),
                "curves": drogo.plot.as_png(exploration(visited, discovery.reward, title=title)),
            }
        arrays = {"visited": discovery.visited, "reward": discovery.reward}
        arrays |= {
            name: np.stack([getattr(stage, name) for stage in stages])
            for name in ("vector", "action", "ends", "visits")
        }
        report = self._report(grid, stages, visited, discovery)
        return output.keep(self, result, KIND, arrays, report, pictures)

    def _report(
        self, grid: Any, stages: list[Stage], visited: Any, discovery: Any
    ) -> dict[str, Any]:
        rows = [
            {
                "iteration": str(stage.number),
                "states visited": f"{visited[:, stage.number - 1].mean():.3f}",
                "reward of a step": f"{discovery.reward[:, stage.number - 1].mean():.2f}",
                "option begins in": f"{int((~stage.ends & (stage.visits > 0)).sum())}",
                "ends in": f"{int((stage.ends & (stage.visits > 0)).sum())}",
            }
            for stage in _some(stages, MOST_PANELS)
        ]
        count = discovery.inaccurate
        warnings = [f"{count} vectors were not accurate, and were used nevertheless."] * bool(count)
        if grid.worse_ends.any():
            warnings.append("Terminal rewards do not count: all ends are plain cells.")
        title = f"{self.env}, {grid.n_states} states, {self.method}"
        caption = (
            f"Means of {counted(self.seeds, 'seed')}; the option is that of the first. "
            f"{self.iterations * self.steps:,} steps."
        )
        return {
            "env": self.env,
            "states": grid.n_states,
            "method": self.method,
            "visited": visited.mean(axis=0).tolist(),
            "reward": discovery.reward.mean(axis=0).tolist(),
            "inaccurate": int(count),
            "files": FILES,
            "warnings": warnings,
            "table": output.table(title, caption, rows, left=()),
        }  # fmt: skip


def check_world(world: World) -> None:
    """Raises an error unless the world is a map with one start."""
    import numpy as np

    from drogo.errors import ArgumentError

    if world.grid is None:
        raise ArgumentError(
            f"{world.name} has no map to draw options over; give a shipped world or a map file, or "
            "use `drogo_paper.agents.discover`.",
            argument="env",
        )
    starts = int(np.count_nonzero(world.grid.start))
    if starts != 1:
        raise ArgumentError(
            f"walks begin in one cell, and {world.name} has {starts} first cells; mark one with S.",
            argument="env",
        )


def _some(stages: list[Stage], most: int) -> list[Stage]:
    """Returns stages that are spread evenly, with the first and the last."""
    import numpy as np

    chosen = np.unique(np.linspace(0, len(stages) - 1, min(most, len(stages))).round().astype(int))
    return [stages[k] for k in chosen]
