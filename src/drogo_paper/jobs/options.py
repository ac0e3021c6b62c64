"""The jobs of option discovery: each with one method in one world, with all seeds together."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.worlds.grid import GridWorld
from drogo.worlds.tabular import TabularWorld
from drogo_paper.agents import representations
from drogo_paper.agents.discovery import Cycle, Iteration, discover
from drogo_paper.agents.options import best_values
from drogo_paper.engines.job import Outcome, Report

WALK, CEO, RACE = "random walk", "CEO", "RACE"
CEO_EXACT, RACE_EXACT, UNTRIED = "CEO, exact", "RACE, exact", "RACE, untried actions"
METHODS = (WALK, CEO, RACE, CEO_EXACT, RACE_EXACT, UNTRIED)
KINDS = {CEO: "ceo", RACE: "race", CEO_EXACT: "ceo-exact", RACE_EXACT: "race-exact",
         UNTRIED: "untried"}  # fmt: skip
"""The names of the methods on the command line."""
PUBLISHED = (WALK, CEO, RACE)
QL = "Q-learning"
"""Without options: epsilon-greedy with the values of all steps before this iteration."""
STEPS, DISCOUNT, LAM = 100, 0.99, 1.3
LARGE_STEPS = 200
ITERATIONS = {"grid-task": 50, "four-rooms": 50, "grid-room": 120, "grid-maze": 120}
PLAIN = {f"{world}-plain": iterations for world, iterations in ITERATIONS.items()}
LARGE = {"grid-room-large": 120, "grid-maze-large": 120}
EVERY = {**ITERATIONS, **PLAIN, **LARGE}
"""The ten worlds, with the number of their iterations."""


class Chosen(NamedTuple):
    p_option: float
    passes: int
    step_size: float


_CEO = {
    "grid-task": Chosen(0.05, 1, 0.1),
    "four-rooms": Chosen(0.1, 10, 0.1),
    "grid-room": Chosen(0.1, 10, 0.1),
    "grid-maze": Chosen(0.1, 100, 0.01),
    "grid-room-large": Chosen(0.05, 100, 0.01),
    "grid-maze-large": Chosen(0.05, 100, 0.01),
}
_RACE = {
    "grid-task": Chosen(0.05, 1, 0.1),
    "four-rooms": Chosen(0.1, 10, 0.01),
    "grid-room": Chosen(0.1, 1, 0.03),
    "grid-maze": Chosen(0.1, 1, 0.01),
    "grid-task-plain": Chosen(0.05, 10, 0.01),
    "four-rooms-plain": Chosen(0.05, 1, 0.1),
    "grid-room-plain": Chosen(0.1, 1, 0.01),
    "grid-maze-plain": Chosen(0.1, 1, 0.01),
    "grid-room-large": Chosen(0.05, 1, 0.03),
    "grid-maze-large": Chosen(0.1, 1, 0.03),
}
# CEO does not see rewards, and has the same settings in the worlds without low-reward cells.
_CEO |= {world: _CEO[world.removesuffix("-plain")] for world in PLAIN}
SETTINGS = {(world, CEO): chosen for world, chosen in _CEO.items()} | {
    (world, RACE): chosen for world, chosen in _RACE.items()
}


class ChosenQ(NamedTuple):
    """The published settings of Q-learning. Its step size does not matter at convergence."""

    epsilon: float
    untried: float


Q_SETTINGS = {
    "grid-room": ChosenQ(0.2, -10.0),
    "grid-maze": ChosenQ(0.2, 0.0),
    "grid-room-large": ChosenQ(0.2, -10.0),
    "grid-maze-large": ChosenQ(0.2, -10.0),
}


def steps_of(world: str) -> int:
    return LARGE_STEPS if world in LARGE else STEPS


TOLERANCE = 1e-9

Tried = Bool[np.ndarray, "runs states actions"]
ActionValues = Float[np.ndarray, "runs states actions"]
Policy = Int[np.ndarray, "runs states"]


def solve_tried(
    world: TabularWorld, tried: Tried, *, untried: float, discount: float
) -> ActionValues:
    """Returns the value of each action if untried ones are worth `untried`, as the published script
    does, which sweeps over all steps until no value changes."""
    by_action = np.moveaxis(tried, 2, 0)
    gain = np.where(by_action, world.reward, untried)
    gain = np.where(world.terminal, 0.0, gain)
    goes_on = np.ascontiguousarray(by_action & ~world.terminal)
    q = best_values(world.next_state, gain, goes_on, discount=discount, tolerance=TOLERANCE)
    return np.moveaxis(q, 0, 2)


def greedy_return(world: TabularWorld, policy: Policy, steps: int) -> Float[np.ndarray, " runs"]:
    """Returns the undiscounted return of an episode of at most `steps` steps from the start."""
    run, state = np.arange(len(policy)), np.full(len(policy), int(world.start.argmax()))
    earned = np.zeros(len(policy))
    for _ in range(steps):
        earned += np.where(world.terminal[state], 0.0, world.reward[state])
        after = world.next_state[state, policy[run, state]]
        state = np.where(world.terminal[state], state, after)
    return earned


PESSIMISTIC = -10_000.0
"""The value of untried actions in the search for the best policy."""


def make_vectors(world: str, method: str) -> representations.AbstractVectors:
    chosen = SETTINGS.get((world, method), SETTINGS[world, RACE])
    return representations.make_vectors(
        KINDS[method], step_size=chosen.step_size, passes=chosen.passes, lam=LAM, discount=DISCOUNT
    )


def discover_options(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Discovers options with every seed."""
    name, method, iterations = settings["world"], settings["method"], settings["iterations"]
    world, seeds = GridWorld.load(name).without_goals(), range(1, settings["seeds"] + 1)
    if method == WALK:
        walks = published_walks(world, seeds, iterations, steps_of(name))
        return Outcome(dict(zip(("visited", "reward"), walks, strict=True)))
    return _discover(settings, report)


def discover_returns(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Discovers options, and evaluates the best policy among tried actions after each iteration. As
    published, the goal is a plain cell of a walk."""
    if settings["method"] == QL:
        return _q_learning(settings, report)
    world, steps = GridWorld.load(settings["world"]), steps_of(settings["world"])

    def evaluate(iteration: Iteration) -> np.ndarray:
        return greedy_return(world, _best(world, iteration.memory.tried, PESSIMISTIC), steps)

    return _discover(settings, report, evaluate)


def _discover(
    settings: dict[str, Any],
    report: Report,
    evaluate: Callable[[Iteration], np.ndarray] | None = None,
) -> Outcome:
    name, method, iterations = settings["world"], settings["method"], settings["iterations"]
    p_option = SETTINGS[name, CEO if method in (CEO, CEO_EXACT) else RACE].p_option
    returns = []

    def watch(iteration: Iteration) -> None:
        returns.extend([] if evaluate is None else [evaluate(iteration)])
        report(iteration.number / iterations)

    discovery = discover(
        GridWorld.load(name).without_goals(), make_vectors(name, method),
        Cycle(iterations, steps_of(name), p_option), seeds=range(1, settings["seeds"] + 1),
        discount=DISCOUNT, may_end=method not in PUBLISHED, watch=watch,
    )  # fmt: skip
    arrays = {"visited": discovery.visited, "reward": discovery.reward}
    arrays |= {"returns": np.stack(returns, axis=1)} if returns else {}
    return Outcome(arrays, {"inaccurate": discovery.inaccurate})


def _best(world: TabularWorld, tried: np.ndarray, untried: float) -> np.ndarray:
    return solve_tried(world, tried, untried=untried, discount=DISCOUNT).argmax(axis=2)


def _q_learning(settings: dict[str, Any], report: Report) -> Outcome:
    """Follows the policy before each iteration, with random exploration."""
    name, iterations = settings["world"], settings["iterations"]
    chosen, steps = Q_SETTINGS[name], steps_of(name)
    world = GridWorld.load(name)
    moves, states, runs = world.without_goals().next_state, world.n_states, settings["seeds"]
    rngs = [np.random.default_rng([seed, 1]) for seed in range(1, runs + 1)]
    tried = np.zeros((runs, *moves.shape), dtype=bool)
    run, policy = np.arange(runs), _best(world, tried, chosen.untried)
    seen, shares, rewards, returns = np.zeros((runs, states), dtype=bool), [], [], []
    for number in range(iterations):
        state, earned = np.full(runs, int(world.start.argmax())), np.zeros(runs)
        seen[run, state] = True
        shares.append(seen.mean(axis=1))
        numbers = np.stack([rng.random((2, steps)) for rng in rngs], axis=2)
        for explore, which in numbers.transpose(1, 0, 2):
            random = np.floor(which * moves.shape[1]).astype(np.int64)
            action = np.where(explore < chosen.epsilon, random, policy[run, state])
            tried[run, state, action] = True
            earned += world.reward[state]
            state = moves[state, action]
            seen[run, state] = True
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
    """Walks as the published script does with each seed, from the same random numbers."""
    visited, reward = [], []
    for seed in seeds:
        rng = np.random.RandomState(seed)  # the published numbers come from this kind of generator
        seen, shares, earned = np.zeros(world.n_states, dtype=bool), [], []
        for _ in range(iterations):
            path = [int(world.start.argmax())]
            for action in rng.randint(world.next_state.shape[1], size=steps):
                path.append(int(world.next_state[path[-1], action]))
            for state in path:
                seen[state] = True
                shares.append(seen.mean())
            earned.append(world.reward[path[:-1]].mean())
        visited.append(shares)
        reward.append(earned)
    return np.array(visited), np.array(reward)
