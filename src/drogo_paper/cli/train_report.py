"""The report and the pictures of `drogo train`, imported when the verb runs."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from drogo import plot
from drogo.cli.output import number, table
from drogo.errors import counted
from drogo.plot.maps import heatmap, over_scenes
from drogo.plot.panels import Panel, draw_cloud, finite_range
from drogo.worlds.resolve import LONGEST, Environment, World
from drogo.worlds.scenes import Scene
from drogo_paper.agents.trained import IN_A_ROW
from drogo_paper.cli.shape import limit_warning
from drogo_paper.cli.train import Train
from drogo_paper.cli.train_runs import METHODS, episodes_of, steps_between
from drogo_paper.engines.store import Record
from drogo_paper.plot.figures import as_gif, growth

Records = dict[tuple[str, int], Record]
COUNTED = {
    "low_reward_visits": ("low-reward visits", "visits to low-reward cells in training"),
    "bad_ends": ("bad ends", "training episodes that ended in a bad terminal state"),
}
"""Counted failures: the title of the column, and its explanation."""
SOLVED = ("solved", "steps to solve", "not solved")
TERMINATES = ("terminates", "steps until it does", "does not")
"""The names of the columns where terminal states are not distinguished."""
FRAMES = 30
UNSEEN = "grey: not visited yet"


def report(options: Train, world: World, records: Records) -> dict[str, Any]:
    """Returns the report on the runs, by method and seed, without its files."""
    rows = {name: _row(_of(records, method)) for method, name in METHODS.items()}
    steps = max(int(record.arrays["steps"][-1]) for record in records.values())
    return {
        "env": options.env,
        "agent": options.agent,
        "steps": steps,
        "methods": rows,
        "warnings": warnings_of(options, world, steps, records),
        "table": _table(options, world, steps, rows, records),
    }


def _of(records: Records, method: str) -> list[Record]:
    return [record for (which, _), record in records.items() if which == method]


def _row(records: list[Record]) -> dict[str, Any]:
    """Returns the results of a method as plain JSON; a seed that did not solve the world has
    None."""
    arrays = [record.arrays for record in records]
    steps = np.concatenate([part["solved_at"] for part in arrays])
    failed, later = np.concatenate([part["failed_later"] for part in arrays]).sum(axis=0)
    failure = next(name for name in COUNTED if name in arrays[0])
    return {
        "solved": int(np.isfinite(steps).sum()),
        "steps_to_solve": [number(step) for step in steps],
        "median_steps_to_solve": number(float(np.sort(steps)[steps.size // 2])),
        "evaluations_after_solved": int(later),
        "failed_after_solved": int(failed),
        "mean_final_return": float(np.mean([part["returns"][:, -1].mean() for part in arrays])),
        f"mean_{failure}": float(np.concatenate([part[failure] for part in arrays]).mean()),
    }


def _table(
    options: Train, world: World, steps: int, rows: dict[str, Any], records: Records
) -> dict[str, Any]:
    failure = next(name for name in COUNTED if f"mean_{name}" in rows[METHODS["map"]])
    title, meaning = COUNTED[failure]
    is_counted = any(row[f"mean_{failure}"] for row in rows.values())
    is_failing = any(row["failed_after_solved"] for row in rows.values())
    solved, when, never = SOLVED if options.reward is None else TERMINATES
    lines = []
    for name, row in rows.items():
        median = row["median_steps_to_solve"]
        line = {"agent": name, solved: f"{row['solved']} of {options.seeds}"}
        line[when] = never if median is None else f"{median:,.0f}"
        line["return at the end"] = f"{row['mean_final_return']:.1f}"
        if is_failing:
            failed, later = row["failed_after_solved"], row["evaluations_after_solved"]
            line["later failed"] = f"{failed} of {later}" if later else "-"
        if is_counted:
            line[title] = f"{row[f'mean_{failure}']:.0f}"
        lines.append(line)
    caption = f"{when}: the median seed, of all environment steps. {_solved(options, world)}"
    if options.agent == "q-learning":
        every = records["map", 0].facts["replayed_every"]
        often = "after every step" if every == 1 else f"every {every} steps"
        caption += f" Both replay all transitions {often}."
    if is_failing:
        caption += " later failed: evaluations after that with a failed episode, of all seeds."
    caption += f" {title}: {meaning}, mean over seeds." if is_counted else ""
    heading = f"{world.name}: {options.agent}, {counted(options.seeds, 'seed')}, {steps:,} steps"
    return table(heading, caption, lines, left=("agent",))


def _solved(options: Train, world: World) -> str:
    """Returns a sentence that defines when a world counts as solved."""
    if options.agent == "q-learning":
        return (
            "Solved: a greedy episode arrives with the best possible return, and so do all later "
            f"ones, {IN_A_ROW} or more of them."
        )
    episodes = episodes_of(world)
    which = "the episode" if episodes == 1 else f"all {episodes} episodes"
    text = f"in {IN_A_ROW} consecutive evaluations, {which} of the deterministic policy "
    if options.reward is not None:
        return (
            f"terminates: {text}terminated before the time limit. With --reward, good and bad "
            "terminal states are not distinguished."
        )
    if isinstance(world, Environment) and not callable(world.sampling["start"]):
        return f"Solved: {text}terminated before the time limit, which ends the costs."
    return f"Solved: {text}reached the goal."


def warnings_of(options: Train, world: World, steps: int, records: Records) -> list[str]:
    """Returns the warnings about runs of some steps, by method and seed."""
    notes = [note for record in records.values() for note in record.facts.get("notes", [])]
    if options.agent == "q-learning" and world.grid is not None:
        cut = limit_warning(world.grid)
        notes += [cut] if cut else []
    for method, name in (("map", "with"), ("plain", "without")):
        arrived = np.concatenate([record.arrays["arrived"] for record in _of(records, method)])
        failed = np.flatnonzero(~arrived.astype(bool)).tolist()
        if failed:
            advice = "longer, or give a lower --optimism" if method == "map" else "longer"
            notes.append(
                f"No goal was reached in training by {_named(failed)} {name} the map. Train for "
                f"{advice}."
            )
    diverged = [seed for (_, seed), record in records.items() if record.facts.get("diverged")]
    if diverged:
        notes.append(
            f"The map of {_named(diverged)} diverged and stopped learning. Give another --lam, or "
            "--map table if observations repeat."
        )
    every = steps_between(options.agent, steps)
    if options.agent != "q-learning" and steps < IN_A_ROW * every:
        notes.append(
            f"Agents are evaluated every {every:,} steps, and a world is solved after {IN_A_ROW} "
            f"consecutive successes: give --steps {IN_A_ROW * every} or more."
        )
    if isinstance(world, Environment) and world.spec.max_episode_steps is None:
        notes.append(
            f"{world.spec.id} has no time limit: episodes were truncated after {LONGEST:,} steps."
        )
    return notes


def _named(seeds: list[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def pictures(options: Train, world: World, records: Records) -> dict[str, bytes]:
    """Draws the returns of all agents, and the map of the first seed during training."""
    curves: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in METHODS.values()}
    for (method, _), record in records.items():
        steps = record.arrays["steps"]
        curves[METHODS[method]] += [(steps, row) for row in record.arrays["returns"]]
    label = "return of a greedy episode"
    if options.agent != "q-learning" and (episodes := episodes_of(world)) > 1:
        label = f"mean return of {episodes} greedy episodes"
    title = f"{world.title}: {options.agent}, {counted(options.seeds, 'seed')}"
    pngs = {"curves": plot.as_png(growth(curves, title=title, label=label))}
    first = records["map", 0]
    if np.isfinite(first.arrays["maps"]).any():
        pngs["map"] = as_gif(frames(world, first))
    return pngs


def frames(world: World, record: Record) -> list[Figure]:
    """Draws the map of one agent at several times, all with the same colours."""
    steps, maps = record.arrays["steps"], record.arrays["maps"]
    chosen = np.unique(np.linspace(0, len(maps) - 1, min(FRAMES, len(maps))).round().astype(int))
    limits, draw = finite_range(maps[chosen]), _drawing(world, record)
    below = "" if np.isfinite(maps[chosen]).all() else f"\n{UNSEEN}"
    titles = [f"{world.title}: the map after {steps[k]:,.0f} steps{below}" for k in chosen]
    return [draw(maps[k], limits=limits, title=one) for k, one in zip(chosen, titles, strict=True)]


def _drawing(world: World, record: Record) -> Any:
    """Returns a function that draws values over the states of a world."""
    if world.grid is not None:
        return partial(heatmap, world.grid, numbers=False)
    if world.scenes:
        return partial(_over_scenes, world.scenes)
    return partial(_cloud, record.arrays["places"], tuple(record.facts["names"]))


def _over_scenes(
    shown: Sequence[Scene], values: np.ndarray, *, limits: tuple[float, float], title: str
) -> Figure:
    """Draws a map over scenes. A cell is grey if it was not visited in any direction."""
    filled = values.copy()
    for scene in shown:
        is_seen = np.isfinite(values[scene.states])
        seen = replace(scene, states=scene.states[is_seen], cell=scene.cell[is_seen])
        mean = seen.over_cells(values).ravel()
        filled[scene.states[~is_seen]] = mean[scene.cell[~is_seen]]
    return over_scenes(shown, [Panel(filled, limits=limits)], title=title)


def _cloud(
    places: np.ndarray, names: tuple[str, str], values: np.ndarray, *, limits: Any, title: str
) -> Figure:
    figure = Figure(figsize=(5.6, 4.2), layout="constrained")
    draw_cloud(figure.add_subplot(), Panel(values, title, limits=limits), places, names)
    return figure
