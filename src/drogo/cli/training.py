"""The runs of `drogo train`: agents with the map, and the same agents without.

The verb imports this file when it runs: unlike the verb, it imports what is heavy at its top.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from drogo.agents.deep import EVERY, as_numbers, train_agent
from drogo.agents.one_stage import one_stage
from drogo.agents.trained import IN_A_ROW, Trained
from drogo.cli.train import Train
from drogo.errors import BadCheckpoint, DataError
from drogo.plot.fields import plane_of
from drogo.runs import Job, Outcome
from drogo.use import OnlineMap, OnlineTable
from drogo.worlds.resolve import Environment, GridMap, MiniGrid, World, resolve

METHODS = {"map": "with the map", "plain": "without"}
MOST_OBSERVATIONS = 2000
EVALUATIONS = 200
"""The number of evaluations of a table."""
JUDGEMENTS = 40
"""The largest number of judgements of a network."""
EPISODES = 5
"""The episodes of a judgement where they begin or go on at random."""
MAP_EVERY = 50
"""The map of a table is solved after so many steps, and all that was seen is replayed once."""
OPTIONS = ("env", "agent", "map", "lam", "weight", "optimism", "explore", "discount",
           "observation", "reward", "layout", "tile")  # fmt: skip


def settings_of(options: Train) -> dict[str, Any]:
    """Returns the options that decide a run.

    Args:
        options: The options.
    """
    return {name: getattr(options, name) for name in OPTIONS}


def jobs(options: Train, steps: int) -> dict[tuple[str, int], Job]:
    """Returns the runs that are needed, by method and seed (all seeds at once for tables).

    Args:
        options: The options.
        steps: The number of steps of each agent.
    """
    made = {}
    tabular = options.agent == "q-learning"
    for method, name in METHODS.items():
        for seed in range(1 if tabular else options.seeds):
            which = {"seeds": options.seeds} if tabular else {"seed": seed}
            settings = {**settings_of(options), **which, "method": method, "steps": steps}
            label = f"{name}, all seeds" if tabular else f"{name}, seed {seed}"
            function = "run_table" if tabular else "run_deep"
            made[method, seed] = Job(f"drogo.cli.training:{function}", settings, label)
    return made


def world_of(settings: dict[str, Any]) -> World:
    """Returns the world of a run."""
    names = ("observation", "layout", "tile")
    return resolve(settings["env"], **{name: settings[name] for name in names})


def judged_every(agent: str, steps: int) -> int:
    """Returns how many steps of a network are between two judgements.

    They are never closer than `EVERY`: judgements of a policy that has hardly changed in between
    say the same three times, so that three in a row would mean no more than one.

    Args:
        agent: "dqn" or "ppo"; tables are evaluated more often.
        steps: The number of steps of the run.
    """
    return max(steps // JUDGEMENTS, EVERY.get(agent, 1))


def episodes_of(world: World) -> int:
    """Returns how many episodes a judgement has: one where all would be the same.

    Args:
        world: The world.
    """
    if isinstance(world, GridMap):
        return EPISODES if np.count_nonzero(world.grid.start) > 1 else 1
    return 1 if isinstance(world, MiniGrid) else EPISODES


def run_table(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """Trains tabular agents, all seeds at once. Both methods replay alike: they differ in the map
    alone."""
    world = world_of(settings)
    assert isinstance(world, GridMap)
    grid, seeds, steps = world.grid, settings["seeds"], settings["steps"]
    every = max(1, steps // EVALUATIONS)
    every -= every % MAP_EVERY if every > MAP_EVERY else 0
    steps -= steps % every
    map_every = min(every, MAP_EVERY)
    is_plain = settings["method"] == "plain"
    how: dict[str, Any] = {"map": "none"} if is_plain else {"optimism": settings["optimism"]}
    runs = one_stage(
        grid.mdp, weight=np.full(seeds, settings["weight"]), step_size=np.ones(seeds),
        seed=np.arange(seeds), step_limit=grid.step_limit, low_reward=grid.low_reward, steps=steps,
        every=every, lam=settings["lam"], discount=settings["discount"], sweeps=1,
        map_every=map_every, progress=lambda done: report(done * every / steps), keep_maps=True,
        **how,
    )  # fmt: skip
    solved = runs.steps_to_optimal
    lasting = solved <= steps - (IN_A_ROW - 1) * every
    goals = grid.terminal & ~(grid.reward < 0)
    found = np.isfinite(runs.maps[:, -1, goals]).any(axis=1)  # it is NaN where no agent was
    arrays = {"steps": every * np.arange(1.0, runs.returns.shape[1] + 1), "returns": runs.returns,
              "solved_at": np.where(lasting, solved, np.inf), "found": found,
              "failed_later": np.zeros((seeds, 2)), "maps": runs.maps[0],
              "low_reward_visits": runs.low_reward_visits.astype(float)}  # fmt: skip
    return Outcome(arrays, {"replayed_every": map_every})


def run_deep(settings: dict[str, Any], scratch: Path, report: Any) -> Outcome:
    """Trains one agent of Stable-Baselines3, and goes on from a checkpoint if there is one."""
    import torch

    torch.set_num_threads(1)
    world = world_of(settings)
    scratch.mkdir(parents=True, exist_ok=True)
    path, notes = scratch / "checkpoint.npz", []
    try:
        trained, looked_at = _train(settings, world, path, report)
    except BadCheckpoint as error:
        path.unlink(missing_ok=True)
        notes = [f"A checkpoint was dropped and its run was started afresh: {error}"]
        trained, looked_at = _train(settings, world, path, report)
    except DataError as error:  # of a job, the message alone reaches the command
        raise DataError(error.for_command_line) from error
    places, names = plane_of(looked_at) if looked_at.size else (np.zeros((0, 2)), ("", ""))
    arrays = {"steps": trained.steps, "returns": trained.returns[None], "maps": trained.maps,
              "solved_at": np.array([trained.solved_at]), "bad_ends": trained.deaths[-1:],
              "failed_later": np.array([trained.failed_later], dtype=float),
              "found": trained.arrivals[-1:] > 0, "places": places}  # fmt: skip
    diverged = bool(trained.metrics.get("diverged", False))
    return Outcome(arrays, {"diverged": diverged, "names": list(names), "notes": notes})


def _train(
    settings: dict[str, Any], world: World, checkpoint: Path, report: Any
) -> tuple[Trained, np.ndarray]:
    """Trains an agent; also returns the observations of the world at which its map is looked at,
    as they are without the wrapper of the agent."""
    raw = world.make(limited=True)
    env = as_numbers(raw)
    shaping, looked_at, seen = None, np.zeros(0), None
    if settings["method"] == "map":
        shaping, looked_at = make_map(settings, world, env), _all_or_some(world, raw)
        change: Callable[[Any], Any] = getattr(env, "observation", np.asarray)
        seen = looked_at if env is raw else np.stack([change(one) for one in looked_at])
    steps = settings["steps"]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no terminal state")  # the report says it
        trained = train_agent(
            settings["agent"], lambda: as_numbers(world.make(limited=True)), shaping, steps=steps,
            every=judged_every(settings["agent"], steps), episodes=episodes_of(world),
            observations=seen, explore=None if settings["explore"] else False,
            gamma=settings["discount"], seed=settings["seed"], checkpoint=checkpoint,
            progress=lambda done: report(min(done / steps, 1.0)), stop_when_solved=False,
        )  # fmt: skip
    return trained, looked_at


def make_map(settings: dict[str, Any], world: World, env: gymnasium.Env) -> Any:
    """Returns the map of an agent.

    Args:
        settings: Those of a run; the seed is 0 unless they have one.
        world: The world.
        env: The environment that the agent is trained in.
    """
    kind, space = settings["map"], env.observation_space
    if kind == "auto":
        repeats = isinstance(world, GridMap | MiniGrid)
        is_state = isinstance(space, gymnasium.spaces.Discrete)
        kind = "table" if repeats or is_state else "network"
    cost = world.sampling.get("reward") if settings["reward"] is None else settings["reward"]
    options = {name: settings[name] for name in ("lam", "weight", "optimism", "discount")}
    if kind == "table":
        return OnlineTable(space, env.action_space, reward=cost, **options)
    capacity = 20_000 if len(space.shape or ()) == 3 else 100_000
    return OnlineMap(
        space, env.action_space, reward=cost, seed=settings.get("seed", 0), capacity=capacity,
        **options,
    )  # fmt: skip


def _all_or_some(world: World, env: Any) -> np.ndarray:
    """All observations of a finite world, or some of another: from all over it where its states can
    be drawn, and else where random actions lead to."""
    if not isinstance(world, Environment):
        return env.all_observations()
    start, rng = world.sampling["start"], np.random.default_rng(0)
    observation, rows = env.reset(seed=0)[0], []
    if callable(start):
        return np.array([start(env, rng) for _ in range(MOST_OBSERVATIONS)])
    env.action_space.seed(0)  # the same after a process was killed
    for _ in range(MOST_OBSERVATIONS):
        rows.append(observation)
        observation, _, over, cut, _ = env.step(env.action_space.sample())
        if over or cut:
            observation = env.reset()[0]
    return np.stack(rows)
