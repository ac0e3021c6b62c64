"""The runs of `drogo train`: agents with the map and without, imported when the verb runs."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from drogo.data.step import part_of
from drogo.errors import BadCheckpoint, DataError
from drogo.online import OnlineMap, OnlineTable
from drogo.plot.panels import plane_of
from drogo.problems import Column
from drogo.worlds.resolve import Environment, GridMap, MiniGrid, World, resolve
from drogo_paper.agents.deep import EVERY, as_numbers, train_agent
from drogo_paper.agents.one_stage import MapSettings, one_stage
from drogo_paper.agents.trained import IN_A_ROW, Evaluations, Trained
from drogo_paper.agents.training import Training
from drogo_paper.cli.train import Train
from drogo_paper.engines import Job, Outcome

METHODS = {"map": "with the map", "plain": "without"}
MOST_OBSERVATIONS = 2000
EVALUATIONS = 200
VERSION = 1
DEEP_EVALUATIONS = 40
"""The largest number of evaluations of a network."""
EPISODES = 5
"""The episodes of an evaluation where starts or transitions are random."""
MAP_EVERY = 50
"""Steps after which the map of a table is solved, and all transitions are replayed once."""
OPTIONS = ("env", "agent", "map", "lam", "weight", "optimism", "explore", "discount",
           "observation", "reward", "key", "layout", "actions", "tile")  # fmt: skip


def settings_of(options: Train) -> dict[str, Any]:
    return {name: getattr(options, name) for name in OPTIONS}


def jobs(options: Train, steps: int) -> dict[tuple[str, int], Job]:
    """Returns the jobs by method and seed; a table trains all seeds in one."""
    by_seed = {}
    tabular = options.agent == "q-learning"
    for method, name in METHODS.items():
        for seed in range(1 if tabular else options.seeds):
            which = {"seeds": options.seeds} if tabular else {"seed": seed}
            settings = {**settings_of(options), **which, "method": method, "steps": steps}
            label = f"{name}, all seeds" if tabular else f"{name}, seed {seed}"
            function = f"drogo_paper.cli.train_runs:{'run_table' if tabular else 'run_deep'}"
            by_seed[method, seed] = Job(function, settings, label, version=VERSION)
    return by_seed


def world_of(settings: dict[str, Any]) -> World:
    names = ("observation", "key", "layout", "actions", "tile")
    return resolve(settings["env"], **{name: settings[name] for name in names})


def env_of(world: World) -> gymnasium.Env:
    """Makes the environment of an agent, with the parts of its observations that were chosen."""
    env = world.make(limited=True)
    key = world.sampling.get("key")
    if not isinstance(env.observation_space, gymnasium.spaces.Dict):
        return env
    part_of(env.observation_space.sample(), key)  # raises an error if the key is wrong
    if isinstance(key, str):
        part = env.observation_space[key]
        return gymnasium.wrappers.TransformObservation(env, lambda seen: seen[key], part)
    return gymnasium.wrappers.FlattenObservation(
        gymnasium.wrappers.FilterObservation(env, list(key or ()))
    )


def steps_between(agent: str, steps: int) -> int:
    """Returns the steps between evaluations of a network, at least `EVERY`: if the policy hardly
    changes, three successful evaluations in a row mean no more than one."""
    return max(steps // DEEP_EVALUATIONS, EVERY.get(agent, 1))


def episodes_of(world: World) -> int:
    """Returns the number of episodes of an evaluation: one where all would be the same."""
    if isinstance(world, GridMap):
        return EPISODES if np.count_nonzero(world.grid.start) > 1 else 1
    return 1 if isinstance(world, MiniGrid) else EPISODES


def run_table(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """Trains tabular agents, all seeds at once. Both methods replay and differ only in the map."""
    world = world_of(settings)
    assert isinstance(world, GridMap)
    grid, seeds, steps = world.grid, settings["seeds"], settings["steps"]
    every = max(1, steps // EVALUATIONS)
    every -= every % MAP_EVERY if every > MAP_EVERY else 0
    steps -= steps % every
    map_every = min(every, MAP_EVERY)
    is_plain = settings["method"] == "plain"
    options: dict[str, Any] = {"map": "none"} if is_plain else {"optimism": settings["optimism"]}
    training = Training(
        grid.step_limit, grid.low_reward, steps, every, discount=settings["discount"]
    )
    maps = MapSettings(settings["lam"], sweeps=1, map_every=map_every, **options)
    runs = one_stage(
        grid.mdp, training, maps, weight=np.full(seeds, settings["weight"]),
        step_size=np.ones(seeds), seed=np.arange(seeds), keep_maps=True,
        progress=lambda done: report(done * every / steps),
    )  # fmt: skip
    solved = runs.steps_to_optimal
    lasting = solved <= steps - (IN_A_ROW - 1) * every
    goals = grid.terminal & ~(grid.reward < 0)
    arrived = np.isfinite(runs.maps[:, -1, goals]).any(axis=1)  # NaN in unvisited states
    arrays = {"steps": every * np.arange(1.0, runs.returns.shape[1] + 1), "returns": runs.returns,
              "solved_at": np.where(lasting, solved, np.inf), "arrived": arrived,
              "failed_later": np.zeros((seeds, 2)), "maps": runs.maps[0],
              "low_reward_visits": runs.low_reward_visits.astype(float)}  # fmt: skip
    return Outcome(arrays, {"replayed_every": map_every})


def run_deep(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """Trains one agent of Stable-Baselines3, from a checkpoint if there is one."""
    import torch

    torch.set_num_threads(1)
    world = world_of(settings)
    scratch.mkdir(parents=True, exist_ok=True)
    path, notes = scratch / "checkpoint.npz", []
    try:
        trained, observations = _train(settings, world, path, report)
    except BadCheckpoint as error:
        path.unlink(missing_ok=True)
        notes = [f"A checkpoint was dropped and its run was started again: {error}"]
        trained, observations = _train(settings, world, path, report)
    except DataError as error:  # only the message reaches the command
        raise DataError(error.for_command_line) from error
    places, names = plane_of(observations) if observations.size else (np.zeros((0, 2)), ("", ""))
    arrays = {"steps": trained.steps, "returns": trained.returns[None], "maps": trained.maps,
              "solved_at": np.array([trained.solved_at]), "bad_ends": trained.deaths[-1:],
              "failed_later": np.array([trained.failed_later], dtype=float),
              "arrived": trained.arrivals[-1:] > 0, "places": places}  # fmt: skip
    diverged = bool(trained.metrics.get("diverged", False))
    return Outcome(arrays, {"diverged": diverged, "names": list(names), "notes": notes})


def _train(
    settings: dict[str, Any], world: World, checkpoint: Path, report: Any
) -> tuple[Trained, np.ndarray]:
    """Returns the results of an agent, and the observations at which its map is recorded."""
    raw = env_of(world)
    env = as_numbers(raw)
    shaping, observations, wrapped = None, np.zeros(0), None
    if settings["method"] == "map":
        shaping, observations = make_map(settings, world, env), _all_or_some(world, raw)
        change: Callable[[Any], Any] = getattr(env, "observation", np.asarray)
        wrapped = observations if env is raw else np.stack([change(one) for one in observations])
    steps = settings["steps"]
    how = Evaluations(
        steps_between(settings["agent"], steps), episodes_of(world), wrapped,
        stop_when_solved=False, progress=lambda done: report(min(done / steps, 1.0)),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no terminal state")  # the report has its own warning
        trained = train_agent(
            settings["agent"], lambda: as_numbers(env_of(world)), shaping, steps=steps,
            evaluations=how, explore=None if settings["explore"] else False, checkpoint=checkpoint,
            gamma=settings["discount"], seed=settings["seed"],
        )  # fmt: skip
    return trained, observations


def make_map(settings: dict[str, Any], world: World, env: gymnasium.Env) -> Any:
    """Returns the map of an agent that is trained in an environment with the settings of a run."""
    kind, space = settings["map"], env.observation_space
    if kind == "auto":
        repeats = isinstance(world, GridMap | MiniGrid)
        is_state = isinstance(space, gymnasium.spaces.Discrete)
        kind = "table" if repeats or is_state else "network"
    cost = world.sampling.get("reward") if settings["reward"] is None else settings["reward"]
    options = {name: settings[name] for name in ("weight", "optimism", "discount")}
    options |= {"problem": Column(lam=settings["lam"]), "reward": cost}
    if kind == "table":
        return OnlineTable(space, env.action_space, **options)
    capacity = 20_000 if len(space.shape or ()) == 3 else 100_000
    seed = settings.get("seed", 0)
    return OnlineMap(space, env.action_space, seed=seed, capacity=capacity, **options)


def _all_or_some(world: World, env: Any) -> np.ndarray:
    """Returns all observations of a finite world, or some of sampled states or random walks."""
    if not isinstance(world, Environment):
        return env.all_observations()
    start, rng = world.sampling["start"], np.random.default_rng(0)
    observation, rows = env.reset(seed=0)[0], []
    if callable(start):
        return np.array([start(env, rng) for _ in range(MOST_OBSERVATIONS)])
    env.action_space.seed(0)  # the same after a restart
    for _ in range(MOST_OBSERVATIONS):
        rows.append(observation)
        observation, _, over, cut, _ = env.step(env.action_space.sample())
        if over or cut:
            observation = env.reset()[0]
    return np.stack(rows)
