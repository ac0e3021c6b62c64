"""`drogo shape ENV`: shaped Q-learning against its baselines."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from drogo import plot
from drogo.agents import Grid, compare, optimal_values
from drogo.agents.comparison import greedy_path
from drogo.agents.q_learning import RETURN_TOLERANCE
from drogo.agents.value_iteration import action_values
from drogo.cli import learn
from drogo.cli.problem import find_world
from drogo.errors import AlreadyExists, ArgumentError
from drogo.files import read_array_file, write_array_file, write_file
from drogo.learn import LogEigenvector, load
from drogo.plot.shaping import Curve
from drogo.statistics import bootstrap_band
from drogo.worlds.grid import GridWorld
from drogo_paper import shaping, shaping_runs

if TYPE_CHECKING:
    from drogo.cli.main import Shape

FORMAT = "drogo shape 1"
ARRAYS = ("weight", "step_size", "returns", "best_return", "steps_to_optimal",
          "low_reward_visits", "q")  # fmt: skip
EVERY = 100
"""Steps between evaluations."""


def run(options: Shape) -> None:
    console = Console(quiet=options.json)
    world = _world(options)
    settings = _settings(options, world)
    directory = options.out / _name(options, world)
    kept = directory / "runs.npz"
    if kept.exists() and not options.overwrite:
        grids, note = _read(kept, settings), "Already there"
    else:
        _warn_if_discounting_misleads(world, options.discount, console)
        learned = _learned(options, world, console)
        grids, note = _compare(options, world, learned, console), "Written"
        _write(kept, grids, settings, options.overwrite)
    rows = shaping.summarise(grids)
    pictures = _draw(options, world, grids, directory)
    if options.json:
        report = {
            "world": world.name,
            "settings": settings,
            "methods": {name: _as_json(row) for name, row in rows.items()},
            "files": [str(path) for path in (kept, *pictures)],
        }
        print(json.dumps(report, indent=2, allow_nan=False))
        return
    console.print(_table(options, world, rows))
    names = ", ".join(path.name for path in pictures)
    console.print(f"{note}: {kept} with {names}", soft_wrap=True)


def _world(options: Shape) -> GridWorld:
    world = find_world(options.env)
    if world is None:
        raise ArgumentError(
            f"{options.env} is no grid world. `drogo shape` compares tabular agents; for an agent "
            "of your own, wrap the environment in drogo.PotentialShaping."
        )
    if not options.inputs and options.potential is None:
        raise ArgumentError("--inputs is empty: name at least one, or give --potential a file.")
    if options.steps < EVERY or options.steps % EVERY:
        raise ArgumentError(f"--steps is {options.steps}; it must be a multiple of {EVERY}.")
    if options.seeds < 1:
        raise ArgumentError(f"--seeds is {options.seeds}; at least 1 is needed.")
    return world


def _settings(options: Shape, world: GridWorld) -> dict[str, Any]:
    chosen = asdict(options)
    for name in ("out", "fits", "overwrite", "json", "env"):
        del chosen[name]
    chosen["inputs"] = list(options.inputs)
    chosen["potential"] = None if options.potential is None else str(options.potential)
    return {"format": FORMAT, "map": world.text, "rewards": world.reward.tolist(), **chosen}


def _name(options: Shape, world: GridWorld) -> str:
    source = options.preset if options.potential is None else options.potential.stem
    return f"{world.name}-{source}-lam{options.lam:g}-{options.seeds}seeds"


def _learned(options: Shape, world: GridWorld, console: Console) -> dict[str, np.ndarray]:
    """Vectors over the world's states, one method for each input."""
    if options.potential is not None:
        fit = load(options.potential)
        return {f"DR {options.potential.stem}": _over_states(fit, world, options.potential)}
    found = {}
    for kind in options.inputs:
        console.print(f"potential from {kind}", style="dim")
        found[f"DR {kind}"] = _over_states(_fit(options, kind, console), world, None)
    return found


def _fit(options: Shape, kind: Any, console: Console) -> LogEigenvector:
    from drogo.cli.main import Learn

    how = Learn(
        options.env,
        observation=kind,
        preset=options.preset,
        seeds=options.seeds,
        lam=options.lam,
        out=options.fits,
        resume=True,
    )
    return learn.obtain(how, console)[0]


def _over_states(fit: LogEigenvector, world: GridWorld, path: Path | None) -> np.ndarray:
    """v in the order of the world's states; a fit of another world is an error."""
    where = "the fit" if path is None else str(path)
    for seed, status in zip(fit.seeds, fit.status, strict=True):
        if status == "diverged":
            raise ArgumentError(
                f"seed {seed} of {where} diverged; it is no potential. Train again."
            )
    for kind in ("one-hot", "coordinates", "pixels", "state"):
        table = world.observations(kind)
        if table.shape == fit.observations.shape and (table == fit.observations).all():
            return fit.v
    raise ArgumentError(
        f"{where} was not made for {world.name}: its {len(fit.observations)} observations are not "
        "those of this world, in any kind of observation."
    )


def _warn_if_discounting_misleads(world: GridWorld, discount: float, console: Console) -> None:
    """An agent that discounts may rightly end up with less than the best undiscounted return."""
    mdp = world.mdp
    values = action_values(mdp, optimal_values(mdp, discount), discount)
    best = optimal_values(mdp)
    state = int(mdp.start.argmax())
    earned = 0.0
    for _ in range(world.step_limit):
        if mdp.terminal[state]:
            break
        after = int(world.next_state[state, values[state].argmax()])
        earned += mdp.reward[state] + (mdp.reward[after] if mdp.terminal[after] else 0.0)
        state = after
    start = best[int(mdp.start.argmax())]
    arrives = bool(mdp.terminal[state])
    if not arrives or earned < start - RETURN_TOLERANCE * max(1, abs(start)):
        does = f"earns {earned:g}" if arrives else "never arrives"
        console.print(
            f"The best policy at discount {discount:g} {does}, and the best return is {start:g}: "
            "agents that learn perfectly will not count as optimal. Raise --discount.",
            style="yellow",
        )


def _compare(
    options: Shape, world: GridWorld, learned: dict[str, np.ndarray], console: Console
) -> dict[str, Grid]:
    phis = shaping_runs.potentials(
        world,
        learned,
        seeds=options.seeds,
        lam=options.lam,
        discount=options.discount,
        terminal=options.terminal,
    )
    columns = (
        TextColumn("Q-learning"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("evaluations"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=options.steps // EVERY)
        return compare(
            world.mdp,
            phis,
            seeds=options.seeds,
            step_limit=world.step_limit,
            low_reward=world.low_reward,
            steps=options.steps,
            every=EVERY,
            discount=options.discount,
            epsilon=options.epsilon,
            progress=lambda done: progress.update(task, completed=done),
        )


def _write(path: Path, grids: dict[str, Grid], settings: dict[str, Any], overwrite: bool) -> None:
    arrays = {
        f"{name}/{part}": getattr(grid, part) for name, grid in grids.items() for part in ARRAYS
    }
    order = {"methods": list(grids)}
    write_array_file(path, arrays, {**settings, **order}, overwrite=overwrite)


def _read(path: Path, settings: dict[str, Any]) -> dict[str, Grid]:
    arrays, kept = read_array_file(path)
    methods = kept.pop("methods", [])
    other = sorted(name for name in settings if kept.get(name) != settings[name])
    if other:
        raise AlreadyExists(
            f"{path} holds runs with another {', '.join(other)}. It was left as it is: choose "
            "another --out, or replace it with --overwrite."
        )
    return {
        name: Grid(**{part: arrays[f"{name}/{part}"] for part in ARRAYS}, every=EVERY)
        for name in methods
    }


def _draw(options: Shape, world: GridWorld, grids: dict[str, Grid], directory: Path) -> list[Path]:
    """Learning curves and paths, if they are not there."""
    paths = [directory / "curves.png", directory / "paths.png"]
    if all(path.exists() for path in paths) and not options.overwrite:
        return paths
    curves = {}
    for name, grid in grids.items():
        seeds = grid.returns[grid.chosen]
        curves[name] = Curve(seeds, *bootstrap_band(seeds, np.random.default_rng(0)))
    best = float(next(iter(grids.values())).best_return.mean())
    title = f"{world.name}: Q-learning, {options.seeds} seeds, best setting of each method"
    figure = plot.returns(curves, EVERY, best, title=title)
    write_file(paths[0], plot.as_png(figure), overwrite=True)
    walked = {
        name: [greedy_path(world.mdp, q, world.step_limit) for q in grid.q[grid.chosen]]
        for name, grid in grids.items()
    }
    figure = plot.paths(world, walked, title=f"{world.name}: where the final policies walk")
    write_file(paths[1], plot.as_png(figure), overwrite=True)
    return paths


def _as_json(row: shaping.Row) -> dict[str, Any]:
    told = asdict(row)
    for quantity in shaping.UNITS:
        interval = getattr(row, quantity)
        finite = np.isfinite(interval.mean)
        told[quantity] = interval._asdict() if finite else None
    return told


def _table(options: Shape, world: GridWorld, rows: dict[str, shaping.Row]) -> Table:
    table = Table(
        title=f"{world.name}: {options.seeds} seeds, {options.steps} steps",
        caption="mean [95 % bootstrap interval over seeds]; bold: below the SR's, without overlap. "
        "N_OPT: steps until the return stays optimal; N_VISIT: visits to low-reward cells. "
        "weight and step: the setting with the lowest N_OPT",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
    )
    stuck = any(row.unfinished for row in rows.values())
    table.add_column("method", no_wrap=True)
    for _, label in shaping.UNITS.values():
        table.add_column(label, justify="right", no_wrap=True)
    for label in ("weight", "step", *(("unfinished",) if stuck else ())):
        table.add_column(label, justify="right")
    for name, row in rows.items():
        cells = []
        for quantity, (unit, _) in shaping.UNITS.items():
            text = shaping.cell(getattr(row, quantity), unit).replace("[", r"\[")
            cells.append(f"[bold]{text}[/bold]" if row.apart[quantity] else text)
        unfinished = f"{row.unfinished} of {options.seeds}" if row.unfinished else ""
        last = (unfinished,) if stuck else ()
        table.add_row(name, *cells, f"{row.weight:g}", f"{row.step_size:g}", *last)
    return table
