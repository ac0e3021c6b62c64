"""The jobs of the transfer experiment: learners of the published script, and their returns. Arrays
are named `method/evaluation` and hold the return of each seed in each task."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from jaxtyping import Float, Int

from drogo.data import collect
from drogo.data.index import ObservationIndex
from drogo.learn import PairMLP
from drogo.learn.fit import fit
from drogo.learn.methods import Regression
from drogo.problems import Goals, solve
from drogo.worlds.grid import GridWorld
from drogo_paper.engines.job import Outcome, Report
from drogo_paper.jobs import tasks as published
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
    features = Features(cumulant, np.exp(world.reward / settings["lam"]))
    table = learn(
        world, at_goals(world, settings["seeds"]), _rngs(settings["seeds"], 1), features, taken,
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
    problem = Features(cumulant, np.full(world.n_states, settings["discount"]))
    learned = learn(
        world, first, rngs, problem, sampled(policy), step_size=STEP_SIZE,
        steps=settings["steps"], report=lambda done: report(0.4 + 0.6 * done),
    )  # fmt: skip
    exact = fixed_point(world, first, problem, policy)
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


def at_goals(world: GridWorld, runs: int) -> "Table":
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
    problem = Features(world.reward[:, None], np.full(world.n_states, settings["discount"]))
    steps = {"step_size": 1.0, "steps": settings["steps"], "report": report}
    return learn(world, table, rngs, problem, greedy, **steps)[..., 0]


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


# Tables learned by temporal differences from random walks, in many independent runs at once.

BLOCK = 1000
"""Steps whose random numbers are sampled together."""

Table = Float[np.ndarray, "runs states actions features"]
PerRun = Int[np.ndarray, " runs"]


class Step(NamedTuple):
    """One step of every run."""

    state: PerRun
    action: PerRun
    next_state: PerRun
    next_action: PerRun
    number: Float[np.ndarray, " runs"]
    """A uniform random number in [0, 1)."""


Bootstrap = Callable[[Table, Step], PerRun]
"""Returns the actions whose entries in the next states are bootstrapped from."""


def taken(table: Table, step: Step) -> PerRun:
    """Bootstraps from the action that is taken next."""
    return step.next_action


def greedy(table: Table, step: Step) -> PerRun:
    """Bootstraps from the first of the best actions, as Q-learning does with one feature."""
    return table[np.arange(len(table)), step.next_state, :, 0].argmax(axis=1)


def sampled(policy: Float[np.ndarray, "runs states actions"]) -> Bootstrap:
    """Bootstraps from an action of a policy."""
    cumulative = policy.cumsum(axis=2)[:, :, :-1]
    run = np.arange(len(policy))
    return lambda table, step: (step.number[:, None] >= cumulative[run, step.next_state]).sum(1)


def walks(world: GridWorld, rngs: Sequence[np.random.Generator], steps: int) -> Iterator[Step]:
    """Takes uniformly random actions. Episodes begin anywhere, and end in goals or at the limit."""
    runs, actions = len(rngs), world.next_state.shape[1]
    free = np.flatnonzero(~world.terminal)
    state = np.array([rng.choice(free) for rng in rngs])
    action = np.array([rng.integers(actions) for rng in rngs])
    length = np.zeros(runs, dtype=np.int64)
    for done in range(0, steps, BLOCK):
        size = min(BLOCK, steps - done)
        of_runs = [
            (rng.integers(actions, size=size), rng.choice(free, size=size), rng.random(size))
            for rng in rngs
        ]
        blocks = (np.stack(part, axis=1) for part in zip(*of_runs, strict=True))
        for next_action, start, number in zip(*blocks, strict=True):
            next_state = world.next_state[state, action]
            yield Step(state, action, next_state, next_action, number)
            length += 1
            over = world.terminal[next_state] | (length >= world.step_limit)
            state, action = np.where(over, start, next_state), next_action
            length[over] = 0


class Features(NamedTuple):
    """Features of pairs of a state and an action: `cumulant(s) + factor(s) features(s', a')`."""

    cumulant: Float[np.ndarray, "states features"]
    factor: Float[np.ndarray, " states"]
    """A discount, or exp(r/lam)."""


def learn(
    world: GridWorld,
    table: Table,
    rngs: Sequence[np.random.Generator],
    features: Features,
    bootstrap: Bootstrap,
    *,
    step_size: float,
    steps: int,
    report: Report = lambda fraction: None,
) -> Table:
    """Learns features from random walks. Entries of terminal states do not change."""
    table, run = table.copy(), np.arange(len(table))
    for k, step in enumerate(walks(world, rngs, steps)):
        following = table[run, step.next_state, bootstrap(table, step)]
        target = features.cumulant[step.state] + features.factor[step.state, None] * following
        before = table[run, step.state, step.action]
        table[run, step.state, step.action] = before + step_size * (target - before)
        if k % BLOCK == 0:
            report(k / steps)
    return table


def fixed_point(
    world: GridWorld,
    table: Table,
    features: Features,
    policy: Float[np.ndarray, "runs states actions"],
) -> Table:
    """Computes the fixed point of `learn`, if it bootstraps from a policy."""
    cumulant, factor = features
    run, state = np.arange(len(table))[:, None, None], np.arange(world.n_states)[:, None]
    matrix = np.zeros((len(table), world.n_states, world.n_states))
    share = np.where(world.terminal, 0.0, factor)[:, None] * policy
    np.add.at(matrix, (run, state, world.next_state), share)
    constant = np.where(world.terminal[:, None], table[:, :, 0], cumulant)
    values = np.linalg.solve(np.eye(world.n_states) - matrix, constant)
    entries = cumulant[:, None] + factor[:, None, None] * values[:, world.next_state]
    return np.where(world.terminal[:, None, None], table, entries)
