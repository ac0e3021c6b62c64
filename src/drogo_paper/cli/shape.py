"""`drogo shape ENV`: compares shaped Q-learning with its baselines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

import drogo
from drogo.cli import output
from drogo.cli.learn import FILES as FILES_OF_FIT, Learn, collected, prepare
from drogo.cli.output import BOLD, Flag, Json, number
from drogo.errors import ArgumentError, check_whole
from drogo.progress import progress_bar

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from drogo.requests import ResultDirectory
    from drogo.worlds.grid import GridWorld
    from drogo_paper.agents.shaping_experiment import Grid, Row

FILES = {"curves": "curves.png", "paths": "paths.png", "runs": "runs.npz"}
ARRAYS = ("weight", "step_size", "returns", "arrived", "best_return", "steps_to_optimal",
          "low_reward_visits", "q")  # fmt: skip
EVERY = 100
"""Steps between evaluations."""
Input = Literal["one-hot", "coordinates", "pixels"]


@dataclass(frozen=True)
class Shape:
    """Shape Q-learning with the vector and compare with baselines: a table, curves and paths."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """A shipped world or a map file."""
    inputs: tuple[Input, ...] = ("one-hot", "coordinates", "pixels")
    """Observations of the networks that learn the potentials. Each is a method."""
    successor: Flag = False
    """Also learn the successor representation from the same transitions, for each of the inputs."""
    potential: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="")] = None
    """A fit saved by `drogo learn` to use instead of learning one."""
    preset: Literal["fast", "paper"] = "fast"
    """fast: fits as by `drogo learn`. paper: with exactly the paper's settings."""
    seeds: int = 10
    """Number of agents and of networks: each agent is shaped by the network with the same seed."""
    lam: float = 20.0
    """Temperature lambda. A smaller value makes the vector more sensitive to rewards."""
    steps: int = 100_000
    """Training steps of an agent."""
    discount: float = 0.99
    """Discount of the agents and of the successor representation."""
    epsilon: float = 0.05
    """Probability of a random action."""
    terminal: Literal["keep", "zero"] = "keep"
    """Potential of terminal states: as it is (the paper's recipe), or 0, which leaves the optimal
    policy unchanged."""
    out: output.Out = Path("results/shape")
    fits: Path = Path("results/learn")
    """Directory of the fits, which `drogo learn` shares."""
    overwrite: Flag = False
    """Compute the result again even if it is already there. Fits are kept."""
    json: Json = False

    def run(self) -> None:
        from drogo.files import read_file
        from drogo.worlds.resolve import resolve

        console = output.terminal(quiet=self.json)
        if not self.inputs and self.potential is None:
            raise ArgumentError("give --inputs, or a --potential.", argument="inputs")
        if self.successor and self.potential is not None:
            raise ArgumentError(
                "--potential replaces the inputs of --successor. Leave one of them out.",
                argument="successor",
            )
        if self.steps < EVERY or self.steps % EVERY:
            raise ArgumentError(
                f"--steps is {self.steps}; it must be a multiple of {EVERY}.", argument="steps"
            )
        check_whole("--seeds", self.seeds, 1)
        world = resolve(self.env)
        if world.grid is None:
            raise ArgumentError(
                f"{self.env} is not a grid world. For an agent of your own, wrap its environment "
                "in drogo.PotentialShaping.",
                argument="env",
            )
        source, digest = self.preset, None
        if self.potential is not None:  # its name names a method
            source, content = self.potential.stem, read_file(self.potential)
            digest = {"name": source, "sha256": hashlib.sha256(content).hexdigest()}
        label = f"{world.name}-{source}-lam{self.lam:g}-{self.seeds}seeds"
        result = output.result_directory(self, world, label, potential=digest)
        output.print_result(self, console, result, partial(self.compare, world, result, console))

    def compare(self, named: Any, result: ResultDirectory, console: Console) -> dict[str, Any]:
        """Trains the agents of all methods, and returns the report."""
        from drogo.problems.worse_ends import notes_of
        from drogo_paper.agents import Training, compare, shaping_experiment

        world = named.grid
        warnings = [limit_warning(world) or discount_warning(world, self.discount)]
        warnings += notes_of(world.mdp.edges, self.lam)
        options = {name: getattr(self, name) for name in ("seeds", "lam", "discount", "terminal")}
        potentials = shaping_experiment.potentials(world, self.learned(named, console), **options)
        training = Training(
            world.step_limit, world.low_reward, self.steps, EVERY, self.discount, self.epsilon
        )
        with progress_bar("Q-learning") as update:
            grids = compare(
                world.mdp, potentials, training, seeds=self.seeds,
                progress=lambda done: update(done, training.evaluations, "evaluations"),
            )  # fmt: skip
        rows = shaping_experiment.summarise(grids)
        report = {
            "world": world.name,
            "methods": {name: _as_json(row) for name, row in rows.items()},
            "files": FILES,
            "warnings": [text for text in warnings if text],
            "table": self._table(world.name, rows),
        }
        arrays = {
            f"{name}/{part}": getattr(grid, part) for name, grid in grids.items() for part in ARRAYS
        }
        figures = _pictures(world, grids)
        return output.keep(self, result, "runs", arrays, report, figures, methods=list(grids))

    def learned(self, named: Any, console: Console) -> dict[str, np.ndarray]:
        """Returns the learned vectors over the states of the world, by method."""
        if self.potential is not None:
            fit = drogo.load(self.potential)
            _check_fit(fit, str(self.potential), named.grid)
            return {f"DR {self.potential.stem}": fit.v}
        learned = {}
        for kind in self.inputs:
            console.print(f"potential from {kind}", style="dim")
            method = "paper" if self.preset == "paper" else "drogo"
            options = Learn(
                self.env, observation=kind, method=method, seeds=self.seeds, lam=self.lam,
                out=self.fits,
            )  # fmt: skip
            seen = replace(named, view=kind)
            result, train = prepare(options, seen, console)
            output.obtain_report(options, result, train)
            path = result.path / FILES_OF_FIT["solution"]
            fit = drogo.load(path)
            _check_fit(fit, str(path), named.grid)
            learned[f"DR {kind}"] = fit.v
            if self.successor:
                learned[f"SR {kind}"] = self._successor(options, seen, console)
        return learned

    def _successor(self, options: Learn, named: Any, console: Console) -> np.ndarray:
        """Returns the learned potential of the successor representation."""
        data = collected(options, named, console)
        problem = drogo.Spectrum(1, matrix="successor", discount=self.discount)
        result = drogo.fit(data, problem, seeds=self.seeds)
        late = result.status.count("max_updates")
        if late:
            console.print(f"{late} of {self.seeds} seeds of SR have not converged.", style="yellow")
        _check_fit(result, f"the successor representation from {named.view}", named.grid)
        return -result.v[:, 0]  # which is largest at the goal

    def _table(self, world: str, rows: Mapping[str, Row]) -> dict[str, Any]:
        from drogo_paper.agents.shaping_experiment import UNITS, cell

        unfinished = any(row.unfinished for row in rows.values())
        lines = []
        for name, row in rows.items():
            line = {"method": name}
            for quantity, (unit, label) in UNITS.items():
                text = cell(getattr(row, quantity), unit)
                line[label] = f"{BOLD}{text}{BOLD}" if row.apart[quantity] else text
            line |= {"weight": f"{row.weight:g}", "step": f"{row.step_size:g}"}
            if unfinished:
                line["unfinished"] = f"{row.unfinished} of {self.seeds}" if row.unfinished else ""
            lines.append(line)
        caption = "mean [95 % bootstrap interval over seeds]; bold: below the interval of SR. "
        caption += "N_OPT: steps until the return stays optimal; N_VISIT: visits to low-reward "
        caption += "cells. weight and step: the setting with the lowest N_OPT"
        title = f"{world}: {self.seeds} seeds, {self.steps} steps"
        return output.table(title, caption, lines, left=("method",))


def _pictures(world: GridWorld, grids: Mapping[str, Grid]) -> dict[str, bytes]:
    """Draws the learning curves and the final paths of the reported setting of each method."""
    from drogo_paper.agents.shaping_experiment import greedy_path
    from drogo_paper.plot.figures import paths as draw_paths, returns

    grids = {method.replace("$", r"\$"): grid for method, grid in grids.items()}
    curves = {method: grid.returns[grid.chosen] for method, grid in grids.items()}
    paths = {
        method: [greedy_path(world.mdp, q, world.step_limit) for q in grid.q[grid.chosen]]
        for method, grid in grids.items()
    }
    first = next(iter(grids.values()))
    best, seeds = float(first.best_return.mean()), first.returns.shape[1]
    name = world.name.replace("$", r"\$")
    title = f"{name}: Q-learning, {seeds} seeds, best setting of each method"
    growth = returns(curves, first.every, best, title=title)
    walked = draw_paths(world, paths, title=f"{name}: paths of the final policies")
    return {"curves": drogo.plot.as_png(growth), "paths": drogo.plot.as_png(walked)}


def _check_fit(fit: drogo.Solution, name: str, world: GridWorld) -> None:
    """Raises an error unless a fit is a potential over the states of the world, in their order."""
    import numpy as np

    for seed, status in zip(fit.seeds, fit.status, strict=True):
        if status == "diverged":
            raise ArgumentError(
                f"Seed {seed} of {name} diverged, so it is not a potential. Train it again.",
                argument="potential",
            )
    kinds = ("one-hot", "coordinates", "pixels", "state")
    if not any(np.array_equal(world.observations(kind), fit.observations) for kind in kinds):
        raise ArgumentError(
            f"{name} was not learned in {world.name}: its {len(fit.observations)} observations are "
            "not those of this world, in any kind of observation.",
            argument="potential",
        )


def limit_warning(world: GridWorld) -> str:
    """Returns a warning if the best policy cannot arrive before the step limit."""
    from drogo_paper.agents.q_learning import fewest_steps

    steps = int(fewest_steps(world.mdp)[world.start > 0].max())
    if steps <= world.step_limit:
        return ""
    return (
        f"The best policy takes {steps} steps or more to the goal, and episodes are truncated "
        f"after {world.step_limit}: no agent can become optimal. Raise the step-limit of the map."
    )


def discount_warning(world: GridWorld, discount: float) -> str:
    """Returns a warning if the optimal policy of a discounting agent has a lower return."""
    from drogo_paper.agents.q_learning import RETURN_TOLERANCE, action_values, optimal_values
    from drogo_paper.agents.shaping_experiment import greedy_path

    mdp = world.mdp
    values = action_values(mdp, optimal_values(mdp, discount), discount)
    path = greedy_path(mdp, values, world.step_limit)
    best = float(optimal_values(mdp)[path[0]])
    earned, arrives = float(mdp.reward[path].sum()), bool(mdp.terminal[path[-1]])
    if arrives and earned >= best - RETURN_TOLERANCE * max(1, abs(best)):
        return ""
    does = f"has the return {earned:g}" if arrives else "never reaches a terminal state"
    return (
        f"At discount {discount:g} the optimal policy {does}, but the best return is {best:g}. "
        "Agents that learn perfectly will not count as optimal. Raise --discount."
    )


def _as_json(row: Row) -> dict[str, Any]:
    """Returns a row as plain JSON; a quantity that some seed never reached is None."""
    plain = asdict(row)
    for quantity in row.apart:
        interval = getattr(row, quantity)
        plain[quantity] = None if number(interval.mean) is None else interval._asdict()
    return plain
