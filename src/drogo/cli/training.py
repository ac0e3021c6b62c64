"""The agents that `drogo train` trains, and what it shows of them.

The verb imports this file when it runs: unlike the verb, it imports what is heavy at its top.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from drogo import plot
from drogo.agents.deep import as_numbers, train_agent
from drogo.agents.one_stage import one_stage
from drogo.cli.pictures import as_it_is
from drogo.cli.train import Train
from drogo.plot.animation import as_gif
from drogo.plot.fields import draw_cloud, plane_of
from drogo.plot.maps import heatmap
from drogo.plot.panels import COLOURS, finite_range
from drogo.plot.scenes import exact_scenes
from drogo.plot.shaping import OKABE_ITO, legend_below
from drogo.runs import Job, Outcome
from drogo.runs.store import Record
from drogo.use import OnlineMap, OnlineTable
from drogo.worlds.minigrid.scenes import scenes
from drogo.worlds.resolve import GridMap, MiniGrid, World, resolve

METHODS = {"map": "with the map", "plain": "without"}
FRAMES = 30
MOST_OBSERVATIONS = 2000
EVALUATIONS = 200
Records = dict[tuple[str, int], Record]


def jobs(options: Train, steps: int) -> dict[tuple[str, int], Job]:
    """Returns the runs that are needed, by method and seed (all seeds at once for tables)."""
    names = ("env", "agent", "map", "lam", "weight", "optimism", "explore", "discount",
             "observation", "reward", "layout", "tile")  # fmt: skip
    given = {name: getattr(options, name) for name in names}
    made = {}
    tabular = options.agent == "q-learning"
    for method in METHODS:
        for seed in range(1 if tabular else options.seeds):
            which = {"seeds": options.seeds} if tabular else {"seed": seed}
            settings = {**given, **which, "method": method, "steps": steps}
            label = f"{METHODS[method]}, seed {seed}"
            function = "run_table" if tabular else "run_deep"
            made[method, seed] = Job(f"drogo.cli.training:{function}", settings, label)
    return made


def world_of(settings: dict[str, Any]) -> World:
    """Returns the world of a run."""
    names = ("observation", "layout", "tile")
    return resolve(settings["env"], **{name: settings[name] for name in names})


def run_table(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """Trains tabular agents, all seeds at once."""
    world = world_of(settings)
    assert isinstance(world, GridMap)
    grid, seeds, steps = world.grid, settings["seeds"], settings["steps"]
    every = max(1, steps // EVALUATIONS)
    steps -= steps % every
    how: dict[str, Any] = {"map": "none", "sweeps": 0}
    if settings["method"] == "map":
        how = {"optimism": settings["optimism"], "sweeps": 1, "map_every": min(every, 50)}
        how["map_every"] = max(k for k in range(1, how["map_every"] + 1) if every % k == 0)
    else:
        how["map_every"] = every
    runs = one_stage(
        grid.mdp, weight=np.full(seeds, settings["weight"]), step_size=np.ones(seeds),
        seed=np.arange(seeds), step_limit=grid.step_limit, low_reward=grid.low_reward, steps=steps,
        every=every, lam=settings["lam"], discount=settings["discount"],
        progress=lambda done: report(done * every / steps), keep_maps=True, **how,
    )  # fmt: skip
    arrays = {"steps": every * np.arange(1.0, runs.returns.shape[1] + 1), "returns": runs.returns,
              "solved_at": runs.steps_to_optimal, "bad": runs.low_reward_visits.astype(float),
              "maps": runs.maps[0], "places": np.zeros((0, 2))}  # fmt: skip
    return Outcome(arrays, {"found": True})


def run_deep(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """Trains one agent of Stable-Baselines3."""
    import torch

    torch.set_num_threads(1)
    world = world_of(settings)
    env = as_numbers(world.make())
    shaping, table = None, np.zeros((0, *(env.observation_space.shape or ())))
    if settings["method"] == "map":
        shaping, table = _map(settings, world, env)
    every = max(1, settings["steps"] // FRAMES)
    scratch.mkdir(parents=True, exist_ok=True)
    trained = train_agent(
        settings["agent"], lambda: as_numbers(world.make()), shaping, steps=settings["steps"],
        every=every - every % 8 or 8, observations=table,
        explore=None if settings["explore"] else False, gamma=settings["discount"],
        seed=settings["seed"], progress=lambda done: report(done / settings["steps"]),
        checkpoint=scratch / "checkpoint.npz", stop_when_solved=False,
    )  # fmt: skip
    arrays = {"steps": trained.steps, "returns": trained.returns[None], "maps": trained.maps,
              "solved_at": np.array([trained.solved_at]), "bad": trained.deaths[-1:],
              "places": places_of(table) if table.size else np.zeros((0, 2))}  # fmt: skip
    found = bool(getattr(shaping, "found", True))
    return Outcome(arrays, {"found": found, "metrics": dict(trained.metrics)})


def places_of(observations: np.ndarray) -> np.ndarray:
    """Two coordinates of each observation, where it is drawn."""
    return plane_of(observations)[0]


def _map(settings: dict[str, Any], world: World, env: Any) -> tuple[Any, np.ndarray]:
    """Returns the map of an agent, and observations at which it is looked at."""
    finite = isinstance(world, GridMap | MiniGrid)
    kind = settings["map"]
    if kind == "auto":
        kind = "table" if finite else "network"
    options = {name: settings[name] for name in ("lam", "weight", "optimism", "discount", "reward")}
    spaces = (env.observation_space, env.action_space)
    if kind == "table":
        made: Any = OnlineTable(*spaces, **options)
    else:
        image = len(env.observation_space.shape or ()) == 3
        capacity = 20_000 if image else 100_000
        made = OnlineMap(*spaces, seed=settings["seed"], capacity=capacity, **options)
    if finite:
        return made, _seen_by_agent(world, env)
    rows, observation = [], env.reset(seed=0)[0]
    for _ in range(MOST_OBSERVATIONS):
        rows.append(observation)
        observation, _, over, cut, _ = env.step(env.action_space.sample())
        if over or cut:
            observation = env.reset()[0]
    return made, np.stack(rows)


def _seen_by_agent(world: World, env: Any) -> np.ndarray:
    """All observations of a finite world, as the wrappers of the agent show them."""
    shown, layer = world.env.all_observations(), env
    wrappers = []
    while layer is not layer.unwrapped:
        wrappers.append(layer)
        layer = layer.env
    for wrapper in reversed(wrappers):
        change = getattr(wrapper, "observation", None)
        if change is not None:
            shown = np.stack([change(one) for one in shown])
    return shown


def summary(records: Records) -> dict[str, dict[str, Any]]:
    """Returns a row for each method: which seeds solved the world, and when."""
    rows = {}
    for method, name in METHODS.items():
        found = [record for (which, _), record in records.items() if which == method]
        steps = np.concatenate([record.arrays["solved_at"] for record in found])
        returns = np.concatenate([record.arrays["returns"][:, -1:] for record in found])
        median = float(np.sort(steps)[steps.size // 2])
        rows[name] = {
            "steps": steps.tolist(),
            "solved": int(np.isfinite(steps).sum()),
            "told": f"{median:,.0f}" if np.isfinite(median) else "not solved",
            "return": float(returns.mean()),
            "bad": float(np.concatenate([record.arrays["bad"] for record in found]).mean()),
        }
    return rows


def warnings_of(records: Records) -> list[str]:
    """Returns what a user should know of the runs."""
    lost = [seed for (_, seed), record in records.items() if not record.facts["found"]]
    if not lost:
        return []
    return [f"No goal was seen in training by seed(s) {', '.join(map(str, lost))}: the map leads "
            "to what was not tried yet. Train for longer, or give a lower --optimism."]  # fmt: skip


def pictures(options: Train, world: World, records: Records) -> dict[str, bytes]:
    """Draws the returns of all agents, and the map of the first seed as it forms."""
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for k, (method, name) in enumerate(METHODS.items()):
        found = [record for (which, _), record in records.items() if which == method]
        curves = [(record.arrays["steps"], row) for record in found
                  for row in record.arrays["returns"]]  # fmt: skip
        for j, (steps, returns) in enumerate(curves):
            axes.plot(steps, returns, color=OKABE_ITO[2 * k], alpha=0.8, linewidth=1.2,
                      label=name if j == 0 else None)  # fmt: skip
    title = f"{as_it_is(world.name)}: {options.agent}, {options.seeds} seeds"
    axes.set(xlabel="environment steps", ylabel="return of a greedy episode", title=title)
    axes.grid(alpha=0.3)
    legend_below(figure, axes)
    made = {"curves": plot.as_png(figure)}
    first = records["map", 0].arrays
    if first["maps"].size:
        made["map"] = as_gif(_frames(world, first))
    return made


def _frames(world: World, arrays: Mapping[str, np.ndarray]) -> list[Figure]:
    """The map of one agent at several times, all with the same colours."""
    steps, maps, places = arrays["steps"], arrays["maps"], arrays["places"]
    chosen = np.unique(np.linspace(0, len(maps) - 1, min(FRAMES, len(maps))).round().astype(int))
    limits = finite_range(maps[chosen])
    name, figures = as_it_is(world.name), []
    for k in chosen:
        title = f"{name}: the map after {steps[k]:,.0f} steps"
        if isinstance(world, GridMap):
            figures.append(heatmap(world.grid, maps[k], title=title, limits=limits, numbers=False))
        elif isinstance(world, MiniGrid):
            shown = {"title": title, "label": "log e", "limits": limits}
            figures.append(exact_scenes(scenes(world.env), maps[k], **shown))
        else:
            figures.append(_cloud(places, maps[k], limits, title))
    return figures


def _cloud(
    places: np.ndarray, values: np.ndarray, limits: tuple[float, float], title: str
) -> Figure:
    """Draws a map where a random walk from the start comes by."""
    figure = Figure(figsize=(5.6, 4.2), layout="constrained")
    options = {"limits": limits, "colours": COLOURS, "label": "log e", "title": title}
    draw_cloud(places, values, axes=figure.add_subplot(), **options)
    return figure
