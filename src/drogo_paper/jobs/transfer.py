"""The jobs of the transfer experiment: learners of the published script, and their returns. Arrays
are named `method/evaluation` and hold the return of each seed in each task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float

from drogo.data import collect
from drogo.data.index import ObservationIndex
from drogo.engines.job import Outcome, Report
from drogo.learn import PairMLP, Regression, fit
from drogo.problems import Goals, solve
from drogo.worlds.grid import GridWorld
from drogo_paper.jobs import tasks as published, td
from drogo_paper.jobs.tasks import WORLD, Policy, Tasks, Values

AS_PUBLISHED, UNCHANGED = "as published", "unchanged"
"""Evaluations: with low-reward cells erased once an episode has begun in them, or unchanged."""
OPTIMAL, DEFAULT, DEFAULT_DIVIDED = "optimal", "DF", "DF, weights exp(r/λ)"
EXACT = ", exact"
"""Suffix of the names of features that are computed instead of learned."""
TABLE = "table"
"""Source of a map to every goal: a table of states, or a kind of observation."""
UPDATES = 1000
"""Updates of a network that learns four goals only, which needs fewer than one of all."""
POLICIES = (1, 2, 4, 8)
"""Numbers of policies for generalised policy improvement."""
STEP_SIZE = 0.1
"""The step size of features. That of Q-learning is 1, since moves are deterministic."""


def evaluations(world: GridWorld, count: int) -> dict[str, Tasks]:
    """Returns the published tasks by evaluation."""
    return {
        name: published.published_tasks(world, count, erased=name == AS_PUBLISHED)
        for name in (AS_PUBLISHED, UNCHANGED)
    }


def successor(k: int) -> str:
    """The name of generalised policy improvement over k policies."""
    return f"SF-{k}"


def goal_map(source: str) -> str:
    """The name of a map to every goal that is learned from a source."""
    return f"map, {source}"


def optimal(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Learns a policy for each task by Q-learning, which the published figure calls optimal."""
    world = GridWorld.load(WORLD)
    tasks = evaluations(world, settings["tasks"])
    q = q_values(world, tasks[UNCHANGED].value, _rngs(1, settings["tasks"]), settings, report)
    return Outcome(_earned(world, tasks, OPTIMAL, q.argmax(axis=-1)[None]))


def default_features(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Learns default features with every seed."""
    world = GridWorld.load(WORLD)
    tasks = evaluations(world, settings["tasks"])
    cumulant = np.zeros((world.n_states, int(world.terminal.sum())))
    features = td.Features(cumulant, np.exp(world.reward / settings["lam"]))
    table = td.learn(
        world, at_goals(world, settings["seeds"]), _rngs(settings["seeds"], 1), features, td.taken,
        step_size=STEP_SIZE, steps=settings["steps"], report=report,
    )  # fmt: skip
    value = tasks[UNCHANGED].value
    log_weights = {DEFAULT: value, DEFAULT_DIVIDED: value / settings["lam"]}
    arrays = {}
    for method, log_weight in log_weights.items():
        policy = published.from_default_features(table, log_weight)
        arrays |= _earned(world, tasks, method, policy)
    return Outcome(arrays)


def successor_features(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Learns policies for other terminal rewards with every seed, and their successor features."""
    world = GridWorld.load(WORLD)
    tasks = evaluations(world, settings["tasks"])
    seeds, count = settings["seeds"], max(POLICIES)
    between = published.LEARNING + published.EVALUATING
    values = [published.draw_values(seed, count, between) for seed in range(1, seeds + 1)]
    value = np.concatenate(values)
    rngs = _rngs(seeds, count)
    q = q_values(world, value, rngs, settings, lambda done: report(0.4 * done))
    policy = published.greedy_policy(q)
    kinds = np.stack([~world.low_reward & ~world.terminal, world.low_reward], axis=1)
    first = np.pad(at_goals(world, len(value)), ((0, 0), (0, 0), (0, 0), (2, 0)))
    cumulant = np.pad(kinds.astype(float), ((0, 0), (0, value.shape[1])))
    problem = td.Features(cumulant, np.full(world.n_states, settings["discount"]))
    learned = td.learn(
        world, first, rngs, problem, td.sampled(policy), step_size=STEP_SIZE,
        steps=settings["steps"], report=lambda done: report(0.4 + 0.6 * done),
    )  # fmt: skip
    exact = td.fixed_point(world, first, problem, policy)
    rewards = [world.reward[kind].max() for kind in kinds.T]
    # The published script truncates these weights to whole numbers.
    new = np.trunc(tasks[UNCHANGED].value)
    weight = np.concatenate([np.tile(rewards, (len(new), 1)), new], axis=1)
    arrays = {}
    for ending, table in (("", learned), (EXACT, exact)):
        features = table.reshape(seeds, count, *table.shape[1:])
        for k, improved in enumerate(published.improved(features, weight), start=1):
            if k in POLICIES:
                arrays |= _earned(world, tasks, successor(k) + ending, improved)
    return Outcome(arrays)


def goal_maps(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Learns the map to each goal with every seed, from steps of its own."""
    world, source = GridWorld.load(WORLD), settings["input"]
    tasks = evaluations(world, settings["tasks"])
    kind = "coordinates" if source == TABLE else source
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation=kind)
    seen = world.observations(kind)
    problem = Goals(lam=settings["lam"], most_goals=int(world.terminal.sum()))
    runs, statuses = [], []
    for seed in range(1, settings["seeds"] + 1):
        data = collect(env, settings["steps"], seed=seed)
        if source == TABLE:
            goals, name = solve(data, problem), 0
        else:
            method, network, name = Regression(updates=UPDATES), PairMLP(), seed
            goals = fit(data, problem, method, seeds=[seed], network=network)
        rows = ObservationIndex(goals.observations).rows(seen)
        # The map numbers terminal states as they occur in its data, and the tasks as in the world.
        place = {row: goal for goal, row in enumerate(rows[world.terminal])}
        value = tasks[UNCHANGED].value[:, [place[row] for row in goals.terminal_states]]
        v = goals.transfer(value, name).v[:, rows]
        runs.append(v[:, world.next_state].argmax(axis=-1))
        statuses.append(goals.status[0])
        report(seed / settings["seeds"])
    return Outcome(_earned(world, tasks, goal_map(source), np.stack(runs)), {"status": statuses})


def at_goals(world: GridWorld, runs: int) -> td.Table:
    """Returns features that say which goal a state is, and are 0 elsewhere."""
    goals = int(world.terminal.sum())
    table = np.zeros((runs, *world.next_state.shape, goals))
    table[:, world.terminal] = np.eye(goals)[:, None, :]
    return table


def q_values(
    world: GridWorld,
    value: Values,
    rngs: list[np.random.Generator],
    settings: dict[str, Any],
    report: Report,
) -> Float[np.ndarray, "tasks states actions"]:
    """Runs Q-learning for each task, with random actions."""
    table = np.zeros((len(value), *world.next_state.shape, 1))
    table[:, world.terminal] = value[:, :, None, None]
    problem = td.Features(world.reward[:, None], np.full(world.n_states, settings["discount"]))
    steps = {"step_size": 1.0, "steps": settings["steps"], "report": report}
    return td.learn(world, table, rngs, problem, td.greedy, **steps)[..., 0]


def _rngs(seeds: int, runs: int) -> list[np.random.Generator]:
    """Returns the generators of some runs of each seed."""
    return [
        np.random.default_rng([seed, run]) for seed in range(1, seeds + 1) for run in range(runs)
    ]


def _earned(
    world: GridWorld, tasks: dict[str, Tasks], method: str, policy: Policy
) -> dict[str, np.ndarray]:
    return {
        f"{method}/{name}": published.returns(world, given, policy) for name, given in tasks.items()
    }
