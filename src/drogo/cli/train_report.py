"""What `drogo train` reports: which agents solved the world, when, and what to be wary of.

The verb imports this file when it runs: unlike the verb, it imports what is heavy at its top.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drogo.agents.trained import IN_A_ROW
from drogo.cli.output import number, table
from drogo.cli.shape import limit_warning
from drogo.cli.train import Train
from drogo.cli.training import METHODS, episodes_of, judged_every
from drogo.runs.store import Record
from drogo.worlds.resolve import LONGEST, Environment, GridMap, World

Records = dict[tuple[str, int], Record]
COUNTED = {
    "low_reward_visits": ("low-reward visits", "visits to low-reward cells in training"),
    "bad_ends": ("bad ends", "training episodes that ended in a bad terminal state"),
}
"""What is counted of bad things: the title of its column, and what it is."""
SOLVED = ("solved", "steps to solve", "not solved")
TERMINATES = ("terminates", "steps until it does", "does not")
"""What the columns are called where the ends of episodes are not told apart."""


def seeds_of(count: int) -> str:
    """Returns a number of seeds in words."""
    return "1 seed" if count == 1 else f"{count} seeds"


def report(options: Train, world: World, records: Records) -> dict[str, Any]:
    """Returns the report, without its files.

    Args:
        options: The options.
        world: The world.
        records: The runs, by method and seed.
    """
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
    """Returns what is known of one method, as plain JSON. All numbers of steps are those of
    environment steps; a seed that did not solve the world has None."""
    arrays = [record.arrays for record in records]
    steps = np.concatenate([part["solved_at"] for part in arrays])
    failed, later = np.concatenate([part["failed_later"] for part in arrays]).sum(axis=0)
    counted = next(name for name in COUNTED if name in arrays[0])
    return {
        "solved": int(np.isfinite(steps).sum()),
        "steps_to_solve": [number(step) for step in steps],
        "median_steps_to_solve": number(float(np.sort(steps)[steps.size // 2])),
        "judgements_after_solved": int(later),
        "failed_after_solved": int(failed),
        "mean_final_return": float(np.mean([part["returns"][:, -1].mean() for part in arrays])),
        f"mean_{counted}": float(np.concatenate([part[counted] for part in arrays]).mean()),
    }


def _table(
    options: Train, world: World, steps: int, rows: dict[str, Any], records: Records
) -> dict[str, Any]:
    counted = next(name for name in COUNTED if f"mean_{name}" in rows[METHODS["map"]])
    title, meaning = COUNTED[counted]
    is_counted = any(row[f"mean_{counted}"] for row in rows.values())
    is_failing = any(row["failed_after_solved"] for row in rows.values())
    solved, when, never = SOLVED if options.reward is None else TERMINATES
    lines = []
    for name, row in rows.items():
        median = row["median_steps_to_solve"]
        line = {"agent": name, solved: f"{row['solved']} of {options.seeds}"}
        line[when] = never if median is None else f"{median:,.0f}"
        line["return at the end"] = f"{row['mean_final_return']:.1f}"
        if is_failing:
            failed, later = row["failed_after_solved"], row["judgements_after_solved"]
            line["later failed"] = f"{failed} of {later}" if later else "-"
        if is_counted:
            line[title] = f"{row[f'mean_{counted}']:.0f}"
        lines.append(line)
    caption = f"{when}: the median seed, of all environment steps. {_solved(options, world)}"
    if options.agent == "q-learning":
        every = records["map", 0].facts["replayed_every"]
        often = "after every step" if every == 1 else f"every {every} steps"
        caption += f" Both replay all that they have seen {often}."
    if is_failing:
        caption += " later failed: judgements after that in which an episode failed, of all seeds."
    caption += f" {title}: {meaning}, mean over seeds." if is_counted else ""
    heading = f"{world.name}: {options.agent}, {seeds_of(options.seeds)}, {steps:,} steps"
    return table(heading, caption, lines, left=("agent",))


def _solved(options: Train, world: World) -> str:
    """Says what it means that a world is solved."""
    if options.agent == "q-learning":
        return (
            "Solved: a greedy episode arrives with the best possible return, and so do all later "
            f"ones, {IN_A_ROW} or more of them."
        )
    episodes = episodes_of(world)
    which = "the episode" if episodes == 1 else f"all {episodes} episodes"
    text = f"in {IN_A_ROW} judgements in a row, {which} of the deterministic policy "
    if options.reward is not None:
        return (
            f"terminates: {text}terminated before the time limit. Whether that is good is not "
            "known: with --reward, the ends of episodes are not told apart."
        )
    if isinstance(world, Environment) and not callable(world.sampling["start"]):
        return f"Solved: {text}terminated before the time limit, which ends the costs."
    return f"Solved: {text}reached the goal."


def warnings_of(options: Train, world: World, steps: int, records: Records) -> list[str]:
    """Returns what a user should know of the runs.

    Args:
        options: The options.
        world: The world.
        steps: The number of steps of an agent.
        records: The runs, by method and seed.
    """
    made = [note for record in records.values() for note in record.facts.get("notes", [])]
    if options.agent == "q-learning" and isinstance(world, GridMap):
        cut = limit_warning(world.grid)
        made += [cut] if cut else []
    for method, name in (("map", "with"), ("plain", "without")):
        seen = np.concatenate([record.arrays["found"] for record in _of(records, method)])
        lost = np.flatnonzero(~seen.astype(bool)).tolist()
        if lost:
            advice = "longer, or give a lower --optimism" if method == "map" else "longer"
            made.append(
                f"No goal was reached in training by {_named(lost)} {name} the map. Train for "
                f"{advice}."
            )
    diverged = [seed for (_, seed), record in records.items() if record.facts.get("diverged")]
    if diverged:
        made.append(
            f"The map of {_named(diverged)} diverged and did not learn any more from then on. Give "
            "another --lam, or --map table if observations repeat."
        )
    every = judged_every(options.agent, steps)
    if options.agent != "q-learning" and steps < IN_A_ROW * every:
        made.append(
            f"Agents are judged every {every:,} steps, and a world is solved after {IN_A_ROW} "
            f"judgements in a row: give --steps {IN_A_ROW * every} or more."
        )
    if isinstance(world, Environment) and not world.has_limit:
        made.append(
            f"{world.spec.id} has no time limit: episodes were cut after {LONGEST:,} steps."
        )
    return made


def _named(seeds: list[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
