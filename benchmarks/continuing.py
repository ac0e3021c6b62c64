"""Tasks that never end: the gain and the map, learned, against the exact ones; and policies.

    uv run benchmarks/continuing.py --write            everything, ten seeds
    uv run benchmarks/continuing.py --only tables      grid worlds and RiverSwim, with their truth
    uv run benchmarks/continuing.py --only control     CartPole and Acrobot, from random actions

All settings are defaults. Only lambda follows the size of the rewards. Prints Markdown.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import scipy.sparse as sp

from common import LAM, timed
from drogo import (
    MDP,
    Continuing,
    Drogo,
    GridWorld,
    NeverEnding,
    Regression,
    Transitions,
    collect,
    exact,
    fit,
)  # fmt: skip
from drogo.exact.growth import Perron, perron_of_edges
from drogo.learn import Policy
from drogo.mdp import Edges
from drogo_paper.continuing_worlds import river_swim
from tables import Part, parse_options, write_parts

WORLDS = ("grid-task", "four-rooms", "grid-room")
EPISODES = 20
LAM_OF_RIVER, LAM_OF_CONTROL = 4000.0, 0.2
AT_END = {"CartPole-v1": -1.0, "Acrobot-v1": 0.0}
"""A fall costs 1, and so does every step of an Acrobot that does not swing up."""


def looping(world: GridWorld, *, goal: bool) -> MDP:
    """Returns a world whose goal pays 20 and leads back to the start, or is a wall."""
    kept = np.ones(world.mdp.n_states, dtype=bool) if goal else ~world.terminal
    matrices = []
    for matrix in world.mdp.transitions:
        P = sp.lil_array(matrix)
        for state in np.flatnonzero(world.terminal):
            P[state, int(world.start.argmax())] = 1.0
        P = sp.csr_array(P)[kept][:, kept]
        lost = 1 - np.asarray(P.sum(axis=1)).ravel()  # a step into a goal that is a wall stays
        matrices.append(sp.csr_array(P + sp.diags_array(lost)))
    reward = np.where(world.terminal, 20.0, world.mdp.reward)
    return MDP.from_arrays(matrices, reward[kept])


def sampled(chances: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Returns uniform states and actions, and the states that follow."""
    states, actions, _ = chances.shape
    state, action = rng.integers(0, states, n), rng.integers(0, actions, n)
    summed = chances.cumsum(axis=2)[state, action]
    after = (summed < rng.random(n)[:, None] * summed[:, -1:]).sum(axis=1)
    return state, action, after


def tables(options: Namespace) -> Iterator[list[str]]:
    rng, n = np.random.default_rng(0), options.transitions
    never = np.zeros(n)
    for name in options.worlds:
        world = GridWorld.load(name)
        for goal in (True, False):
            mdp = looping(world, goal=goal)
            chances = np.stack([part.toarray() for part in mdp.transitions], axis=1)
            state, action, after = sampled(chances, n, rng)
            table = world.observations("coordinates")
            place = table[int(world.start.argmax())]
            table = table if goal else table[~world.terminal]
            start = int(np.flatnonzero((table == place).all(axis=1))[0])
            reward = mdp.reward[state]
            data = Transitions.from_table(table, state, after, reward, never, action=action)
            truth = exact.perron(mdp, LAM, reference=start)
            what = "the goal leads back" if goal else "without a goal"
            yield row(f"{name}, {what}", data, Continuing(lam=LAM, reference=place), truth, options)
    river = river_swim()
    state, action, after = sampled(river.probability, n, rng)
    reward = river.reward[state, action, after]
    data = Transitions.from_table(np.arange(6), state, after, reward, never, action=action)
    s, a, following = np.nonzero(river.probability)
    share, reward = river.probability[s, a, following], river.reward[s, a, following]
    edges = Edges(6, s, following, share, reward, share < 0, np.zeros(s.size))
    truth = perron_of_edges(edges, LAM_OF_RIVER, reference=1)
    problem = Continuing(lam=LAM_OF_RIVER, reference=1)
    yield row(f"RiverSwim (λ = {LAM_OF_RIVER:,.0f})", data, problem, truth, options)


def row(
    name: str, data: Transitions, problem: Continuing, truth: Perron, options: Namespace
) -> list[str]:
    computed, learned = (
        fit(data, problem, method, seeds=options.seeds)
        for method in (Regression(), Drogo(updates=options.updates))
    )
    errors = [np.abs(one.v - truth.log_e).max() for one in (computed, learned)]
    low, high = learned.gain.min(), learned.gain.max()
    converged = [str(one.status.count("converged")) for one in (computed, learned)]
    return [name, f"{truth.gain:.5g}", f"{computed.gain[0]:.5g}", f"{low:.5g} to {high:.5g}",
            *(f"{error:.3f}" for error in errors), f"{np.ptp(truth.log_e):.1f}",
            f"{' and '.join(converged)} of {options.seeds}"]  # fmt: skip


def control(options: Namespace) -> Iterator[list[str]]:
    for name, at_end in AT_END.items():
        env = NeverEnding(gymnasium.make(name).unwrapped, at_end=at_end)
        data = collect(env, options.transitions, seed=0, reward=None)
        if name == "CartPole-v1":  # only falls matter
            reward = np.where(data.reward == at_end, at_end, 0.0)
            data = Transitions.from_table(data.observations, data.state, data.next_state, reward,
                                          data.terminated, action=data.action)  # fmt: skip
        method = Drogo(updates=options.updates)
        problem = Continuing(lam=LAM_OF_CONTROL)
        seconds, solution = timed(fit, data, problem, method, seeds=options.seeds)
        by_seed = [lengths(name, solution.policy(seed)).mean() for seed in solution.seeds]
        worst = min(by_seed) if name == "CartPole-v1" else max(by_seed)
        status = ", ".join(f"{solution.status.count(s)} {s}" for s in sorted(set(solution.status)))
        yield [name, status, f"{solution.gain.min():.4f} to {solution.gain.max():.4f}",
               f"{lengths(name, None).mean():.0f}", f"{np.mean(by_seed):.0f}", f"{worst:.0f}",
               f"{seconds / 60:.1f}"]  # fmt: skip


def lengths(name: str, policy: Policy | None) -> np.ndarray:
    """Returns the lengths of episodes with the best actions of a policy, or with random ones."""
    envs: Any = gymnasium.make_vec(name, EPISODES, vectorization_mode="sync")
    observations, _ = envs.reset(seed=0)
    envs.action_space.seed(0)
    steps, going = np.zeros(EPISODES, dtype=int), np.ones(EPISODES, dtype=bool)
    while going.any():
        actions = envs.action_space.sample() if policy is None else policy(observations)
        observations, _, terminated, truncated, _ = envs.step(actions)
        steps += going
        going &= ~(terminated | truncated)
    return steps


PARTS = {
    "tables": Part(
        "continuing",
        tables,
        "Gain and map of tasks that never end beside the exact ones, from {transitions:,} "
        f"transitions of uniform states and actions, {{seeds}} seeds, λ = {LAM:g}.",
        ("task", "gain: exact", "computed", "learned", "error of v: computed", "learned",
         "depth", "converged"),
        "*Computed* is the gain that follows from the data (`Regression()`), *learned* the one "
        "that is learned with the map (`Drogo()`).",
    ),
    "control": Part(
        "continuing-control",
        control,
        "Policies of tasks that never end, from {transitions:,} random steps, {seeds} seeds, "
        f"λ = {LAM_OF_CONTROL:g}: the mean length of {EPISODES} episodes.",
        ("task", "status", "gain", "random actions", "learned, mean over seeds", "worst seed",
         "minutes"),
    ),
}  # fmt: skip


if __name__ == "__main__":
    options = parse_options(__doc__, only=tuple(PARTS), worlds=WORLDS, seeds=10,
                            transitions=20_000, updates=None)  # fmt: skip
    write_parts(PARTS, options)
