"""`drogo train ENV`: an agent that learns the map while it trains, beside one that does not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from drogo.cli.output import print_report, progress_bar, terminal
from drogo.cli.settings import Whole

if TYPE_CHECKING:
    from rich.console import Console

    from drogo.requests import ResultDirectory
    from drogo.runs import Job
    from drogo.worlds.resolve import World

STEPS = {"q-learning": 20_000, "dqn": 20_000, "ppo": 100_352}
FILES = {"curves": "curves.png", "map": "map.gif"}


@dataclass(frozen=True)
class Train:
    """Train an agent that learns the map while it trains, and the same agent without a map.

    For tasks with an end to reach, in which every step has a cost.
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A shipped world, a map file, a Gymnasium id, or module:Id-v0."""
    agent: Literal["q-learning", "dqn", "ppo"] = "dqn"
    """q-learning: a table, in grid worlds. dqn, ppo: those of Stable-Baselines3 (extra sb3)."""
    map: Literal["auto", "table", "network"] = "auto"
    """table: solve the problem that the agent has seen so far exactly, where observations repeat.
    network: learn a network. auto: a table where states have numbers, in grid worlds and in
    MiniGrid, and a network elsewhere."""
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
    """Let the map act for dqn until a goal is found."""
    discount: float = 0.99
    """Discount of the agents."""
    observation: Literal["one-hot", "coordinates", "pixels", "state", "symbolic"] | None = None
    """What agent and map observe, as in `drogo learn`. Not for q-learning."""
    reward: float | None = None
    """Cost of every step for the map, for example -1, if a Gymnasium environment's own reward is
    not negative."""
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
        from drogo.cli import results, train_checks
        from drogo.worlds.resolve import resolve

        console = terminal(quiet=self.json)
        steps = STEPS[self.agent] if self.steps is None else self.steps
        train_checks.check_numbers(self, steps)
        world = resolve(self.env, observation=self.observation, layout=self.layout, tile=self.tile)
        train_checks.check_options(self, world)
        label = f"{world.name}-{self.agent}-lam{self.lam:g}-{self.seeds}seeds"
        result = results.directory(self, world, label, steps=steps, workers=0, view=world.view)
        make = partial(self._train, world, steps, result, console)
        report, note = results.obtain(self, result, make)
        print_report(console, report, result.path, note, as_json=self.json)

    def _train(
        self, world: World, steps: int, result: ResultDirectory, console: Console
    ) -> dict[str, Any]:
        from drogo.cli import train_checks, train_pictures, train_report, training
        from drogo.runs import LocalEngine, Store

        with console.status(f"trying {world.name}"):
            train_checks.try_out(self, world)
        jobs = training.jobs(self, steps)
        with result.begin(overwrite=self.overwrite):
            store = Store(result.path / "runs")
            store.clean()
            missing = [job for job in jobs.values() if not store.has(job)]
            try:
                with progress_bar(console, f"training {self.agent}") as update:
                    LocalEngine(self.workers).run(missing, store, _listener(missing, update))
            except KeyboardInterrupt:
                console.print("What was trained is kept. The same command continues from here.")
                raise
            records = {key: store.get(job) for key, job in jobs.items()}
            found = {key: record for key, record in records.items() if record is not None}
            pictures = train_pictures.pictures(self, world, found)
            files = {kind: name for kind, name in FILES.items() if kind in pictures}
            report = {**train_report.report(self, world, found), "files": files}
            return result.finish(report, **pictures)


def _listener(jobs: list[Job], update: Any) -> Any:
    """Shows how much of all jobs is done, in hundredths of a job."""
    done = dict.fromkeys((job.label for job in jobs), 0.0)

    def listen(job: Job, what: str, amount: float) -> None:
        done[job.label] = amount if what == "progress" else 1.0 if what == "done" else 0.0
        share = sum(done.values())
        update(round(100 * share), 100 * len(jobs), f"{share:.1f} of {len(jobs)} runs")

    return listen
