"""`drogo train ENV`: an agent that learns the map while it trains, beside one that does not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from drogo.cli.output import number, print_report, progress_bar, table, terminal
from drogo.cli.settings import Whole
from drogo.errors import ArgumentError, check_share, check_whole

if TYPE_CHECKING:
    from rich.console import Console

    from drogo.requests import ResultDirectory
    from drogo.runs import Job
    from drogo.worlds.resolve import World

STEPS = {"q-learning": 20_000, "dqn": 20_000, "ppo": 100_352}
FILES = {"curves": "curves.png", "map": "map.gif"}


@dataclass(frozen=True)
class Train:
    """Train an agent that learns the map while it trains, and the same agent without a map."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A shipped world, a map file, a Gymnasium id, or module:Id-v0."""
    agent: Literal["q-learning", "dqn", "ppo"] = "dqn"
    """q-learning: a table, in grid worlds. dqn, ppo: those of Stable-Baselines3 (extra sb3)."""
    map: Literal["auto", "table", "network"] = "auto"
    """table: solve the problem that the agent has seen so far exactly, where observations repeat.
    network: learn a network. auto: a table in grid worlds and MiniGrid, a network elsewhere."""
    steps: Annotated[Whole | None, tyro.conf.arg(metavar="INT")] = None
    """Environment steps of each agent: 20,000 unless given, or 100,352 of ppo."""
    seeds: int = 3
    """Number of agents of each kind."""
    lam: float = 20.0
    """Temperature lambda of the map."""
    weight: float = 0.5
    """Weight of the shaping reward, from 0 to 1."""
    optimism: float = 0.0
    """Terminal value, in units of reward, that an action is believed to have until it was tried."""
    explore: bool = True
    """Let the map choose the exploratory actions of dqn until a goal is found."""
    discount: float = 0.99
    """Discount of the agents."""
    observation: Literal["one-hot", "coordinates", "pixels", "state", "symbolic"] | None = None
    """What agent and map observe, as in `drogo learn`."""
    reward: float | None = None
    """Cost of every step for the map, if the environment's own reward is not negative."""
    layout: int | None = None
    """Seed of a MiniGrid environment's grid, 0 unless given."""
    tile: int | None = None
    """Pixels per cell of a MiniGrid environment, 3 unless given."""
    workers: int = 0
    """Number of processes, by default one for each core."""
    out: Path = Path("results/train")
    """Directory of all results; each result has its own directory in it."""
    overwrite: bool = False
    """Train again even if there is a result."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> None:
        from drogo.cli import results
        from drogo.worlds.resolve import GridMap, resolve

        console = terminal(quiet=self.json)
        check_whole("--seeds", self.seeds, 1)
        given = {"observation": self.observation, "layout": self.layout, "tile": self.tile}
        world = resolve(self.env, **given)
        if self.agent == "q-learning" and not isinstance(world, GridMap):
            raise ArgumentError(
                f"{self.env} is not a grid world, and q-learning is tabular. Use --agent dqn."
            )
        check_share("--weight", self.weight)
        check_share("--discount", self.discount)
        label = f"{world.name}-{self.agent}-lam{self.lam:g}-{self.seeds}seeds"
        steps = STEPS[self.agent] if self.steps is None else self.steps
        check_whole("--steps", steps, 1)
        result = results.directory(self, world, label, steps=steps, workers=0, view=world.view)
        make = partial(self._train, world, steps, result, console)
        report, note = results.obtain(self, result, make)
        print_report(console, report, result.path, note, as_json=self.json)

    def _train(
        self, world: World, steps: int, result: ResultDirectory, console: Console
    ) -> dict[str, Any]:
        from drogo.cli import training
        from drogo.runs import LocalEngine, Store

        jobs = training.jobs(self, steps)
        with result.begin(overwrite=self.overwrite):
            store = Store(result.path / "runs")
            store.clean()
            missing = [job for job in jobs.values() if not store.has(job)]
            try:
                with progress_bar(console, f"training {self.agent}") as update:
                    LocalEngine(self.workers).run(missing, store, _listener(missing, update))
            except KeyboardInterrupt:
                console.print("Finished runs are kept. The same command continues from here.")
                raise
            records = {key: store.get(job) for key, job in jobs.items()}
            found = {key: record for key, record in records.items() if record is not None}
            pictures = training.pictures(self, world, found)
            rows = training.summary(found)
            files = {kind: name for kind, name in FILES.items() if kind in pictures}
            report = {
                "env": self.env,
                "agent": self.agent,
                "steps": steps,
                "methods": {name: _plain(row) for name, row in rows.items()},
                "files": files,
                "warnings": training.warnings_of(found),
                "table": self._table(world.name, steps, rows),
            }
            return result.finish(report, **pictures)

    def _table(self, world: str, steps: int, rows: dict[str, Any]) -> dict[str, Any]:
        lines = []
        for name, row in rows.items():
            line = {"agent": name, "solved": f"{row['solved']} of {self.seeds}"}
            line["steps to solve"] = row["told"]
            line["return at the end"] = f"{row['return']:.1f}"
            if any(other["bad"] for other in rows.values()):
                line["low rewards"] = f"{row['bad']:.0f}"
            lines.append(line)
        caption = "steps to solve: the median seed, of all environment steps. "
        if self.agent == "q-learning":
            caption += "Solved: the return of a greedy episode stays the best possible. "
        else:
            caption += "Solved: three evaluations in a row reach the goal in every episode. "
        if "low rewards" in lines[0]:
            caption += "low rewards: visits to low-reward states, or episodes with a bad end"
        title = f"{world}: {self.agent}, {self.seeds} seeds, {steps:,} steps"
        return table(title, caption, lines, left=("agent",))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "steps": [number(step) for step in row["steps"]]}


def _listener(jobs: list[Job], update: Any) -> Any:
    """Shows how much of all jobs is done, in hundredths of a job."""
    done = dict.fromkeys((job.label for job in jobs), 0.0)

    def listen(job: Job, what: str, amount: float) -> None:
        done[job.label] = amount if what == "progress" else 1.0 if what == "done" else 0.0
        share = sum(done.values())
        update(round(100 * share), 100 * len(jobs), f"{share:.1f} of {len(jobs)} agents")

    return listen
