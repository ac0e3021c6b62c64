"""Stable-Baselines3 agents, shaped against unshaped: training steps until they solve their world.

    uv run benchmarks/sb3_agents.py --write      DQN and PPO in two MiniGrid worlds and MountainCar
    uv run benchmarks/sb3_agents.py --potentials none DR SR --agents dqn
                                                 also with the learned successor representation

Needs the extras `sb3` and `minigrid`, and a torch. An agent is evaluated every so many steps by its
deterministic policy and the original reward. It has solved its world at the first of three
evaluations in a row that reach the goal in every episode. All kinds have the same settings and the
same budget; each seed is shaped by a map that was learned with the same seed, from the same
transitions. Maps of the default representation are the runs of `beyond_grids.py`. Prints Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count, product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure

from beyond_grids import TILES, data_of, fit_job, learned, saved
from common import finish, job
from drogo import ALLO, MiniGridWorld, Potential, PotentialShaping, Spectrum, fit, load, plot
from drogo.files import write_file
from drogo_paper.agents.deep import ENVIRONMENTS, EVERY, as_numbers, train_agent
from drogo_paper.agents.trained import Evaluations
from drogo_paper.engines import Outcome
from drogo_paper.engines.store import Record
from drogo_paper.plot.figures import OKABE_ITO, legend_below
from tables import ROOT, parse_options, write_table

DISCOUNT, WEIGHT = 0.99, 0.5
WORLDS = {"door-key": "MiniGrid-DoorKey-6x6-v0", "four-rooms": "MiniGrid-FourRooms-v0",
          "mountain-car": "MountainCar-v0"}  # fmt: skip
BUDGETS = {
    ("dqn", "door-key"): 15_000, ("dqn", "four-rooms"): 15_000, ("dqn", "mountain-car"): 20_000,
    ("ppo", "door-key"): 81_920, ("ppo", "four-rooms"): 81_920, ("ppo", "mountain-car"): 102_400,
}  # fmt: skip
POTENTIALS = {"none": "unshaped", "DR": "default representation", "SR": "successor representation"}
FIGURE = ROOT / "docs/figures/sb3-agents.png"


def make(world: str) -> gymnasium.Env:
    name = WORLDS[world]
    return (
        MiniGridWorld(name, layout=0, tile=TILES[name]) if name in TILES else gymnasium.make(name)
    )


def maker(
    make: Callable[[], gymnasium.Env], potential: Potential | None, shaped: int
) -> Callable[[], gymnasium.Env]:
    """Returns a function whose first environments are shaped; the next one evaluates the agent."""
    numbers = count()

    def make_next() -> gymnasium.Env:
        env = make()
        if potential is not None and next(numbers) < shaped:
            env = PotentialShaping(env, potential, WEIGHT, DISCOUNT)
        return as_numbers(env)

    return make_next


def run(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    import torch

    torch.set_num_threads(1)
    world, agent, budget = settings["world"], settings["agent"], settings["budget"]
    potential = None
    if settings["map"]:
        solution = load(settings["map"])
        potential = solution.potential(solution.seeds[0])
    how = Evaluations(
        EVERY[agent], 5 if world == "mountain-car" else 1,
        progress=lambda steps: report(steps / budget),
    )  # fmt: skip
    trained = train_agent(
        agent, maker(lambda: make(world), potential, ENVIRONMENTS[agent]), steps=budget,
        evaluations=how, seed=settings["seed"], gamma=DISCOUNT,
    )  # fmt: skip
    arrays = {"steps": trained.steps, "returns": trained.returns}
    return Outcome(arrays, {"solved at": trained.solved_at})


def run_successor(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """Learns the first vector of the successor representation, from the same transitions."""
    problem = Spectrum(1, matrix="successor", discount=DISCOUNT)
    method = ALLO(updates=settings["updates"])
    solution = fit(data_of(settings["world"])[0], problem, method, seeds=settings["seeds"])
    facts = {"status": solution.status[0], "cosine": float(solution.cosines[0, 0])}
    return Outcome({"fit": saved(solution, scratch)}, facts)


def map_job(world: str, potential: str, seed: int) -> Any:
    name = WORLDS[world]
    if potential == "DR":
        return fit_job(name, seed)
    few = 3000 if world == "mountain-car" else None
    return job("sb3_agents:run_successor", f"SR of {world}, seed {seed}", world=name, seeds=[seed],
               updates=few)  # fmt: skip


def median_cell(solved_at: list[float]) -> str:
    """Returns the median of the steps to solve, its bootstrap interval and the seeds that did."""
    steps = np.sort(np.array(solved_at))
    rng, middle = np.random.default_rng(0), steps.size // 2
    medians = np.sort(
        np.sort(steps[rng.integers(steps.size, size=(10_000, steps.size))])[:, middle]
    )
    texts = [
        "never" if np.isinf(n) else f"{n:,.0f}" for n in (steps[middle], *medians[[250, 9750]])
    ]
    solved = f"{int(np.isfinite(steps).sum())} of {steps.size}"
    return f"{texts[0]} [{texts[1]}, {texts[2]}], {solved}"


def rows(records: Mapping[Any, Record], options: Any) -> Iterator[list[str]]:
    for agent, world in product(options.agents, options.worlds):
        budget = options.budget or BUDGETS[agent, world]
        solved = {
            potential: [float(records[agent, world, potential, seed].facts["solved at"])
                        for seed in range(options.seeds)]
            for potential in options.potentials
        }  # fmt: skip
        cells = map(median_cell, solved.values())
        yield [f"{agent.upper()}, {world} ({budget:,})", *cells]


def draw(records: Mapping[Any, Record]) -> Figure:
    """Draws the return by training steps, every seed, until the agent has solved its world."""
    agents, worlds = (list(dict.fromkeys(key[k] for key in records)) for k in (0, 1))
    figure = Figure(figsize=(4 * len(worlds), 3 * len(agents) + 0.5), layout="constrained")
    panels = figure.subplots(len(agents), len(worlds), squeeze=False)
    for (agent, world, potential, seed), record in records.items():
        axes = panels[agents.index(agent), worlds.index(world)]
        colour = OKABE_ITO[list(POTENTIALS).index(potential)]
        steps, returns = record.arrays["steps"], record.arrays["returns"]
        label = None if seed else POTENTIALS[potential]
        axes.plot(steps, returns, color=colour, alpha=0.8, linewidth=1, label=label)
        if np.isfinite(float(record.facts["solved at"])):
            axes.plot(steps[-1], returns[-1], "o", color=colour, markersize=5)
        axes.set(title=f"{agent}, {world}", xlabel="training steps", ylabel="original return")
        axes.grid(alpha=0.3)
    legend_below(figure, panels[0, 0])
    return figure


def main() -> None:
    options = parse_options(
        __doc__, worlds=tuple(WORLDS), agents=("dqn", "ppo"), potentials=("none", "DR"), seeds=5,
        budget=None, workers=0, maps=Path("results/beyond-grids"), out=Path("results/sb3-agents"),
    )  # fmt: skip
    kinds = product(options.worlds, options.potentials, range(options.seeds))
    maps = {one: map_job(*one) for one in kinds if one[1] != "none"}
    paths = {}
    for (world, potential, seed), record in finish(maps, options.maps, options.workers).items():
        path = (options.out / "maps" / f"{potential}-{world}-{seed}.npz").resolve()
        learned(record).save(path, overwrite=True)
        paths[world, potential, seed] = str(path)
    jobs = {}
    for agent, world in product(options.agents, options.worlds):
        budget = options.budget or BUDGETS[agent, world]
        for potential, seed in product(options.potentials, range(options.seeds)):
            jobs[agent, world, potential, seed] = job(
                "sb3_agents:run", f"{agent}, {world}, {POTENTIALS[potential]}, seed {seed}",
                budget / (300 if agent == "dqn" else 2000), agent=agent, world=world, seed=seed,
                budget=budget, map=paths.get((world, potential, seed), ""),
            )  # fmt: skip
    records = finish(jobs, options.out, options.workers)
    write_table(
        "successor-agents" if "SR" in options.potentials else "sb3-agents",
        "Training steps until an agent of Stable-Baselines3 has solved its world: the median of "
        f"{options.seeds} seeds, its 95 % interval, and the seeds that did.",
        ("agent, world (budget)", *(POTENTIALS[potential] for potential in options.potentials)),
        rows(records, options),
        "*Never* means not within the budget. The transitions of the maps are not counted.",
        write=options.write,
    )
    path = FIGURE if options.write and "SR" not in options.potentials else options.out / FIGURE.name
    write_file(path, plot.as_png(draw(records), 90), overwrite=True)


if __name__ == "__main__":
    main()
