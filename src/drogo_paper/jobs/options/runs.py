"""The jobs: each discovers options with one method in one world, with all seeds together.

Settings are `world`, `method`, `seeds` and `iterations`. Arrays are `visited`, the share of states
that each seed has visited after each step, and `reward`, its mean reward in each iteration. Where
goals are asked for, `returns` is what the best policy earns that is known after each iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from drogo.agents.discovery import Discovery, Moment, discover
from drogo.agents.representations import (
    AbstractVectors,
    ExactDefault,
    ExactSuccessor,
    LearnedDefault,
    LearnedSuccessor,
)
from drogo.runs.job import Outcome, Report
from drogo.worlds.grid import GridWorld
from drogo.worlds.tabular import TabularWorld
from drogo_paper.jobs.options.batch import greedy_return, solve_tried
from drogo_paper.jobs.options.settings import (
    CEO,
    CEO_EXACT,
    DISCOUNT,
    LAM,
    PUBLISHED,
    Q_SETTINGS,
    QL,
    RACE,
    RACE_EXACT,
    SETTINGS,
    STEPS,
    UNTRIED,
    WALK,
    steps_of,
)

PESSIMISTIC = -10_000.0
"""What an action is worth that was not tried, where the best known policy is looked for."""


def make_vectors(world: str, method: str) -> AbstractVectors | None:
    """Returns what the options of a method climb, or None if it has no options."""
    chosen = SETTINGS.get((world, method))
    if chosen is not None:
        learned = {"step_size": chosen.step_size, "passes": chosen.passes}
        if method == CEO:
            return LearnedSuccessor(**learned, discount=DISCOUNT)
        return LearnedDefault(**learned, lam=LAM)
    exact = {
        CEO_EXACT: lambda: ExactSuccessor(DISCOUNT),
        RACE_EXACT: lambda: ExactDefault(LAM, optimistic=False),
        UNTRIED: lambda: ExactDefault(LAM),
    }
    return exact[method]() if method in exact else None


def discover_options(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Discovers options with every seed."""
    name, method, iterations = settings["world"], settings["method"], settings["iterations"]
    world, seeds = GridWorld.load(name).without_goals(), range(1, settings["seeds"] + 1)
    if method == WALK:
        walks = published_walks(world, seeds, iterations, steps_of(name))
        return Outcome(dict(zip(("visited", "reward"), walks, strict=True)))
    found = _discover(settings, report, None)
    arrays = {"visited": found.visited, "reward": found.reward}
    return Outcome(arrays, {"inaccurate": found.inaccurate})


def discover_returns(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Discovers options, and looks for the best policy in what was seen after each iteration.

    As published, a walk goes on when it comes by the goal, which is a plain cell for it.
    """
    if settings["method"] == QL:
        return _q_learning(settings, report)
    world, steps = GridWorld.load(settings["world"]), steps_of(settings["world"])
    returns = []

    def watch(moment: Moment) -> None:
        policy = _best(world, moment.memory.tried, PESSIMISTIC)
        returns.append(greedy_return(world, policy, steps))

    found = _discover(settings, report, watch)
    arrays = {"visited": found.visited, "reward": found.reward, "returns": np.stack(returns, 1)}
    return Outcome(arrays, {"inaccurate": found.inaccurate})


def _discover(
    settings: dict[str, Any], report: Report, watch: Callable[[Moment], None] | None
) -> Discovery:
    name, method, iterations = settings["world"], settings["method"], settings["iterations"]
    return discover(
        GridWorld.load(name).without_goals(), make_vectors(name, method),
        seeds=range(1, settings["seeds"] + 1), iterations=iterations, steps=steps_of(name),
        p_option=SETTINGS[name, CEO if method in (CEO, CEO_EXACT) else RACE].p_option,
        discount=DISCOUNT, may_end=method not in PUBLISHED,
        progress=lambda done: report(done / iterations), watch=watch,
    )  # fmt: skip


def _best(world: TabularWorld, tried: np.ndarray, untried: float) -> np.ndarray:
    """Returns the best policy in what was tried."""
    return solve_tried(world, tried, untried=untried, discount=DISCOUNT).argmax(axis=2)


def _q_learning(settings: dict[str, Any], report: Report) -> Outcome:
    """Follows what was learned before each iteration, with random actions now and then."""
    name, iterations = settings["world"], settings["iterations"]
    chosen, steps = Q_SETTINGS[name], steps_of(name)
    world = GridWorld.load(name)
    moves, states, lanes = world.without_goals().next_state, world.n_states, settings["seeds"]
    rngs = [np.random.default_rng([seed, 1]) for seed in range(1, lanes + 1)]
    tried = np.zeros((lanes, *moves.shape), dtype=bool)
    lane, policy = np.arange(lanes), _best(world, tried, chosen.untried)
    seen, shares, rewards, returns = np.zeros((lanes, states), dtype=bool), [], [], []
    for number in range(iterations):
        state, earned = np.full(lanes, int(world.start.argmax())), np.zeros(lanes)
        seen[lane, state] = True
        shares.append(seen.mean(axis=1))
        numbers = np.stack([rng.random((2, steps)) for rng in rngs], axis=2)
        for explore, which in numbers.transpose(1, 0, 2):
            random = np.floor(which * moves.shape[1]).astype(np.int64)
            action = np.where(explore < chosen.epsilon, random, policy[lane, state])
            tried[lane, state, action] = True
            earned += world.reward[state]
            state = moves[state, action]
            seen[lane, state] = True
            shares.append(seen.mean(axis=1))
        policy = _best(world, tried, chosen.untried)
        returns.append(greedy_return(world, policy, steps))
        rewards.append(earned / steps)
        report((number + 1) / iterations)
    arrays = {"visited": shares, "reward": rewards, "returns": returns}
    return Outcome({key: np.stack(parts, axis=1) for key, parts in arrays.items()})


def published_walks(
    world: TabularWorld, seeds: range, iterations: int, steps: int = STEPS
) -> tuple[np.ndarray, np.ndarray]:
    """Walks as the published script does with each seed: its random numbers are known."""
    visited, reward = [], []
    for seed in seeds:
        rng = np.random.RandomState(seed)  # the published numbers come from this kind of generator
        known, shares, earned = np.zeros(world.n_states, dtype=bool), [], []
        for _ in range(iterations):
            path = [int(world.start.argmax())]
            for action in rng.randint(world.next_state.shape[1], size=steps):
                path.append(int(world.next_state[path[-1], action]))
            for state in path:
                known[state] = True
                shares.append(known.mean())
            earned.append(world.reward[path[:-1]].mean())
        visited.append(shares)
        reward.append(earned)
    return np.array(visited), np.array(reward)
