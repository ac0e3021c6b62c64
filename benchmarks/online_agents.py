"""Agents of Stable-Baselines3 that learn a map while they train, beside rivals: all steps counted.

    uv run benchmarks/online_agents.py                               everything, ten seeds
    uv run benchmarks/online_agents.py --worlds door-key mountain-car --agents dqn --seeds 3
    uv run benchmarks/online_agents.py --search                      the weight of each method
    uv run benchmarks/online_agents.py --ends --worlds lava --agents ppo --methods plain map
                                                                     how training episodes end
    uv run benchmarks/online_agents.py --cosines --worlds door-key four-rooms lava mountain-car
        --agents dqn --methods map --seeds 3                         the map against the exact one

Needs the extras `sb3` and `minigrid`, a torch, and for the maze gymnasium-robotics. An agent is
judged every so many steps by its deterministic policy and the original reward; it has solved its
world when three judgements in a row reach the goal in every episode, and it takes the first of the
three. All methods have the same agent, budget and number of tried weights. Prints Markdown, and
draws the curves.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from matplotlib.figure import Figure

from drogo import STARTS, OnlineMap, OnlineTable, collect, exact, plot
from drogo.agents.deep import EVERY, as_numbers, train_agent
from drogo.files import write_file
from drogo.learn.judge import cosine
from drogo.plot.shaping import OKABE_ITO, legend_below
from drogo.runs import Job, LocalEngine, Outcome, Store
from drogo.use import RND, AbstractOnlineMap, Frozen, OwnValue
from drogo.worlds.control import mountain_car_truth
from sb3_agents import DISCOUNT, median_of, told
from stability import LAM

MINIGRID = {
    "door-key": ("MiniGrid-DoorKey-6x6-v0", 3),
    "door-key-16": ("MiniGrid-DoorKey-16x16-v0", 2),
    "four-rooms": ("MiniGrid-FourRooms-v0", 2),
    "lava": ("MiniGrid-LavaCrossingS9N2-v0", 3),
}
CONTINUOUS = ("mountain-car", "maze")
BUDGETS = {
    "dqn": {"door-key": 10_000, "door-key-16": 20_000, "four-rooms": 10_000, "lava": 15_000,
            "mountain-car": 15_000, "maze": 15_000},
    "ppo": {"door-key": 40_960, "door-key-16": 81_920, "four-rooms": 40_960, "lava": 40_960,
            "mountain-car": 51_200, "maze": 40_960},
}  # fmt: skip
FEWER_SEEDS = {"door-key-16": 5}
"""Worlds in which all runs together take the longest."""
RARELY = {"dqn": 2000, "ppo": 8192}
"""How many steps are between two judgements in DoorKey-16x16, where an episode that does not arrive
has 2,560 steps."""
METHODS = ("plain", "RND", "own value", "two stages", "map", "map, network", "map, not exploring")
BEFOREHAND = 20_000
"""The transitions of the first of two stages, from states that are drawn where that is possible.
They are not part of the steps to solve; the table says so."""
WEIGHTS: dict[str, tuple[float, ...]] = {
    "RND": (0.1, 1.0, 10.0), "own value": (0.1, 0.5, 1.0), "map": (0.25, 0.5, 0.75),
}  # fmt: skip
CHOSEN = {
    "dqn": {"plain": 0.0, "RND": 0.1, "own value": 0.1, "two stages": 0.25, "map": 0.25,
            "map, network": 0.25, "map, not exploring": 0.25},
    "ppo": {"plain": 0.0, "RND": 0.1, "own value": 0.1, "two stages": 0.25, "map": 0.25,
            "map, network": 0.25},
}  # fmt: skip
"""The weights that `--search` found best for each agent, in LavaCrossing with two seeds. PPO solved
it with none of those of RND and of its own value, so it has those of DQN."""
PREDICTIONS = {"dqn": 0.5, "ppo": 0.0625}
"""Updates of RND's network for each step: as many as the agent's own, and four times as many."""


class Maze(gymnasium.Wrapper):
    """A maze of gymnasium-robotics with nine forces to choose from, each held for five steps, from
    one end of the maze to the other, at a cost of 1."""

    FORCES = np.array([(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)], dtype=np.float32)
    HELD, LONGEST = 5, 100
    FAR = np.array([2, 2, 6, 6], dtype=np.float32)

    def __init__(self) -> None:
        import gymnasium_robotics  # pyright: ignore[reportMissingImports]

        gymnasium.register_envs(gymnasium_robotics)
        env = gymnasium.make("PointMaze_UMaze-v3", continuing_task=False, max_episode_steps=10**6)
        super().__init__(env)
        self.action_space = gymnasium.spaces.Discrete(len(self.FORCES))
        self.observation_space = gymnasium.spaces.Box(-self.FAR, self.FAR, dtype=np.float32)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        cells = {"reset_cell": np.array([1, 1]), "goal_cell": np.array([3, 1])}
        kwargs["options"] = {**cells, **(kwargs.get("options") or {})}
        observation, info = self.env.reset(**kwargs)
        self._steps = 0
        return self._seen(observation), info

    def _seen(self, observation: Any) -> np.ndarray:
        return np.clip(observation["observation"].astype(np.float32), -self.FAR, self.FAR)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        for _ in range(self.HELD - 1):
            observation, _, _, _, info = self.env.step(self.FORCES[int(action)])
            if info["success"]:
                return self._seen(observation), -1.0, True, False, info
        observation, _, _, _, info = self.env.step(self.FORCES[int(action)])
        arrived, late = bool(info["success"]), self._steps >= self.LONGEST
        return self._seen(observation), -1.0, arrived, late and not arrived, info


def make(world: str) -> gymnasium.Env:
    if world == "mountain-car":
        return gymnasium.make("MountainCar-v0")
    if world == "maze":
        return Maze()
    from drogo.worlds.minigrid import MiniGridWorld

    name, tile = MINIGRID[world]
    return MiniGridWorld(name, layout=0, tile=tile)


def shaping_of(
    method: str, world: str, env: gymnasium.Env, weight: float, seed: int, agent: str
) -> Any:
    """What changes the rewards of the agent, or None."""
    spaces = (env.observation_space, env.action_space)
    if method == "plain":
        return None
    if method == "RND":
        return RND(spaces[0], weight=weight, seed=seed, updates=PREDICTIONS[agent])
    if method == "own value":
        return OwnValue(weight=weight)
    if method != "map, network" and world in MINIGRID:
        online: AbstractOnlineMap = OnlineTable(*spaces, weight=weight, discount=DISCOUNT)
    else:
        capacity = 20_000 if world in MINIGRID else 100_000
        online = OnlineMap(*spaces, weight=weight, discount=DISCOUNT, seed=seed, capacity=capacity)
    return online if method != "two stages" else Frozen(learned_beforehand(online, world, seed))


def learned_beforehand(online: AbstractOnlineMap, world: str, seed: int) -> AbstractOnlineMap:
    """A map that has learned from random actions in states that are drawn, or in episodes in the
    maze, which has no such states."""
    env = make(world)
    start = STARTS["MountainCar-v0"] if world == "mountain-car" else None
    data = collect(env.unwrapped if start else env, BEFOREHAND, seed=seed, start=start)
    change = getattr(as_numbers(env), "observation", np.asarray)
    table = np.stack([change(observation) for observation in data.observations])
    columns = (table[data.state], data.action, data.reward, table[data.next_state],
               data.terminated, data.terminal_reward)  # fmt: skip
    for begin in range(0, len(data), 100):
        online.observe(*(column[begin : begin + 100] for column in columns))
        online.train()
    return online


def looked_at(world: str) -> tuple[np.ndarray, np.ndarray]:
    """Observations as an agent sees them, and the exact map there."""
    env = make(world)
    if world == "mountain-car":
        ends = zip(env.observation_space.low, env.observation_space.high, strict=True)  # pyright: ignore[reportAttributeAccessIssue]
        places = np.stack(np.meshgrid(*(np.linspace(*end, 40) for end in ends)), axis=-1)
        places = places.reshape(-1, 2)
        truth = mountain_car_truth(LAM)(places)
    else:
        places, truth = env.all_observations(), exact.log_column(env.mdp, LAM)  # pyright: ignore[reportAttributeAccessIssue]
    change = getattr(as_numbers(env), "observation", np.asarray)
    return np.stack([change(place) for place in places]).astype(np.float32), truth


def run(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    import torch

    torch.set_num_threads(1)
    world, agent, seed = settings["world"], settings["agent"], settings["seed"]
    explore = False if settings["method"] == "map, not exploring" else None
    shaping = shaping_of(
        settings["method"], world, as_numbers(make(world)), settings["weight"], seed, agent
    )
    places, truth = looked_at(world) if settings.get("cosines") else (None, np.zeros(0))
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a budget without a terminal state
        trained = train_agent(
            agent, lambda: as_numbers(make(world)), shaping, steps=settings["budget"],
            every=settings["every"], episodes=5 if world in CONTINUOUS else 1, explore=explore,
            progress=lambda steps: report(steps / settings["budget"]), seed=seed, gamma=DISCOUNT,
            observations=places,
        )  # fmt: skip
    names = ("steps", "returns", "arrived", "lengths", "deaths", "arrivals")
    facts = {"seconds": time.perf_counter() - began, "metrics": trained.metrics,
             "solved_at": trained.solved_at}  # fmt: skip
    arrays = {name: getattr(trained, name) for name in names}
    if places is not None:
        known = np.isfinite(trained.maps)
        arrays["known"] = known.mean(axis=1)
        both = zip(trained.maps, known, strict=True)
        alike = [cosine(v[None, k], truth[k])[0] if k.any() else np.nan for v, k in both]
        arrays["cosine"] = np.array(alike)
    return Outcome(arrays, facts)


def job(
    agent: str, world: str, method: str, weight: float, seed: int, cosines: bool = False
) -> Job:
    budget, every = BUDGETS[agent][world], EVERY[agent] if world != "door-key-16" else RARELY[agent]
    settings = {"agent": agent, "world": world, "method": method, "weight": weight, "seed": seed,
                "budget": budget, "every": every}  # fmt: skip
    settings |= {"cosines": True} if cosines else {}
    label = f"{agent}, {world}, {method} ({weight:g}), seed {seed}"
    # Every world and method with one seed, before any with the next.
    return Job("online_agents:run", settings, label, 1.0 / (1 + seed))


def finish(jobs: list[Job], store: Store, workers: int) -> None:
    say = lambda j, what, n: what != "progress" and print(f"<!-- {j.label}: {what}, {n:.0f} s -->", flush=True)  # noqa: E501, E731  # fmt: skip
    LocalEngine(workers).run([j for j in jobs if not store.has(j)], store, say)


def solved_at(record: Any) -> float:
    return float(record.facts["solved_at"])


def of_job(store: Store, one: Job) -> Any:
    record = store.get(one)
    assert record is not None, one.label
    return record


def search(options: argparse.Namespace, store: Store) -> None:
    """Tries three weights of each method on the first world, with two seeds."""
    agent, world = options.agents[0], options.worlds[0]
    tried = [(m, w) for m, weights in WEIGHTS.items() for w in weights]
    jobs = {(m, w, s): job(agent, world, m, w, s) for (m, w), s in product(tried, range(2))}
    finish(list(jobs.values()), store, options.workers)
    print("\n| method | weight | solved at, seed by seed |\n|---|---|---|")
    for method, weight in tried:
        solved = [solved_at(of_job(store, jobs[method, weight, s])) for s in range(2)]
        steps = ", ".join(told(number, BUDGETS[agent][world]) for number in solved)
        print(f"| {method} | {weight:g} | {steps} |")


def ends(records: dict[tuple[str, str, str], list[Any]]) -> None:
    """Deaths and arrivals of training episodes in each quarter of the budget."""
    print("\n| agent | world | method | seed | solved at | deaths in each quarter of the budget | "
          "arrivals |\n" + "|---" * 7 + "|")  # fmt: skip
    for (agent, world, method), found in records.items():
        budget = BUDGETS[agent][world]
        for seed, record in enumerate(found):
            steps = np.append(0, record.arrays["steps"])
            until = np.minimum(np.arange(5) * budget / 4, steps[-1])
            cells = []
            for name in ("deaths", "arrivals"):
                so_far = np.interp(until, steps, np.append(0, record.arrays[name]))
                cells.append(", ".join(f"{n:.0f}" for n in np.diff(so_far)))
            solved = told(solved_at(record), budget)
            print(f"| {agent} | {world} | {method} | {seed} | {solved} | {' | '.join(cells)} |")


def cosines(records: dict[tuple[str, str, str], list[Any]]) -> None:
    """The cosine of the map with the exact one, where it is known, at each judgement."""
    print("\n| agent | world | seed | solved at | steps: cosine (share of known states) |"
          "\n" + "|---" * 5 + "|")  # fmt: skip
    for (agent, world, _), found in records.items():
        for seed, record in enumerate(found):
            rows = zip(*(record.arrays[name] for name in ("steps", "cosine", "known")), strict=True)
            told_of = ", ".join(f"{steps:,.0f}: {c:.4f} ({k:.2f})" for steps, c, k in rows)
            solved = told(solved_at(record), BUDGETS[agent][world])
            print(f"| {agent} | {world} | {seed} | {solved} | {told_of} |")


def draw(records: dict[tuple[str, str, str], list[Any]], title: str) -> Figure:
    """Return by training steps, every seed; a curve ends where its agent had solved the world."""
    rows = list(dict.fromkeys(agent for agent, _, _ in records))
    columns = list(dict.fromkeys(world for _, world, _ in records))
    methods = list(dict.fromkeys(method for _, _, method in records))
    size = (3.2 * len(columns), 2.6 * len(rows) + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(rows), len(columns), squeeze=False)
    for (agent, world, method), seeds in records.items():
        axes = panels[rows.index(agent), columns.index(world)]
        colour = OKABE_ITO[methods.index(method)]
        for k, record in enumerate(seeds):
            steps, returns = record.arrays["steps"], record.arrays["returns"]
            label = method if k == 0 else None
            axes.plot(steps, returns, color=colour, alpha=0.7, linewidth=1, label=label)
            if np.isfinite(solved_at(record)):
                axes.plot(steps[-1], returns[-1], "o", color=colour, markersize=4)
        axes.set(title=f"{agent}, {world}", xlabel="environment steps")
        axes.grid(alpha=0.3)
    for line in panels:
        line[0].set_ylabel("return, original reward")
    legend_below(figure, panels[0, 0])
    figure.suptitle(title)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    worlds = [*MINIGRID, *CONTINUOUS]
    parser.add_argument("--worlds", nargs="+", default=worlds, choices=worlds)
    parser.add_argument("--agents", nargs="+", default=["dqn", "ppo"], choices=["dqn", "ppo"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0, help="to share seeds among machines")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--ends", action="store_true", help="print how training episodes end")
    parser.add_argument("--cosines", action="store_true", help="compare maps with the exact one")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/online-agents"))
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent),
                                                os.environ.get("PYTHONPATH", "")])  # fmt: skip
    store = Store(options.out / "runs")
    if options.search:
        search(options, store)
        return
    asked = [
        (agent, world, method)
        for agent, world, method in product(options.agents, options.worlds, options.methods)
        # Outside of MiniGrid the map is a network anyway, and only a DQN explores with it.
        if (method != "map, network" or world in MINIGRID)
        and (method != "map, not exploring" or agent == "dqn")
    ]
    jobs = {
        (*one, seed): job(*one, CHOSEN[one[0]][one[2]], seed, options.cosines)
        for seed, one in product(range(options.first_seed, options.seeds), asked)
        if one[1] not in FEWER_SEEDS or seed < FEWER_SEEDS[one[1]]
    }
    if not jobs:
        parser.error("no seed is left of these worlds.")
    finish(list(jobs.values()), store, options.workers)
    records: dict[tuple[str, str, str], list[Any]] = {}
    for (agent, world, method, _), made in jobs.items():
        records.setdefault((agent, world, method), []).append(of_job(store, made))
    if options.ends or options.cosines:
        (ends if options.ends else cosines)(records)
        return
    print("\n| agent | world | budget | method | every seed | median steps to solve "
          "[95 % interval] | solved | deaths, mean | seconds |\n" + "|---" * 9 + "|")  # fmt: skip
    for (agent, world, method), found in records.items():
        budget = BUDGETS[agent][world]
        steps = np.array([solved_at(record) for record in found])
        median, low, high = (told(number, budget) for number in median_of(steps))
        deaths = np.mean([record.arrays["deaths"][-1] for record in found])
        seconds = np.mean([record.facts["seconds"] for record in found])
        solved = f"{int(np.isfinite(steps).sum())}/{steps.size}"
        every = ", ".join(told(number, budget) for number in np.sort(steps))
        cells = (agent, world, f"{budget:,}", method, every, f"{median} [{low}, {high}]", solved)
        print(f"| {' | '.join(cells)} | {deaths:.0f} | {seconds:.0f} |")
    figure = draw(records, "every seed; a dot where one has solved its world")
    write_file(options.out / "agents.png", plot.as_png(figure, 90), overwrite=True)


if __name__ == "__main__":
    main()
