"""Slippery FrozenLake: the share of episodes of 100 steps that reach the goal, by the policies of
`Soft` and `Column` and by value iteration on that share. Each number is computed from the table of
the environment, without sampled episodes.

    uv run benchmarks/frozen_lake.py --write
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np

from drogo import MDP, Column, Drogo, Regression, Soft, collect, fit, solve
from drogo.mdp.costs import Costs
from tables import parse_options, write_table

STEPS, GOAL = 100, 15
COSTS = {"as inferred: a hole is worth -1,000": None, "-100": Costs(best=1.0, worth=100.0)}
"""The costs of a step, 1, and of a fall, which the library takes for 1,000 steps by default."""


def success(mdp: MDP, policy: np.ndarray) -> float:
    """Returns the probability of reaching the goal in time, by the probabilities of actions."""
    P = np.stack([part.toarray() for part in mdp.transitions])
    step, at, arrived = np.einsum("sa,ast->st", policy, P), mdp.start, 0.0
    for _ in range(STEPS):
        at = at @ step
        arrived, at = arrived + at[list(mdp.states).index(GOAL)], at * ~mdp.terminal
    return float(arrived)


def by_value_iteration(mdp: MDP) -> np.ndarray:
    """Returns the policy that reaches the goal most often if it has all the time."""
    P = np.stack([part.toarray() for part in mdp.transitions])
    arrived = np.array(mdp.states) == GOAL
    v = arrived.astype(float)
    for _ in range(10_000):
        v = np.where(mdp.terminal, arrived, (P @ v).max(axis=0))
    return np.eye(mdp.n_actions)[(P @ v).argmax(axis=0)]


def rows(options: argparse.Namespace) -> Iterator[list[str]]:
    env = gymnasium.make("FrozenLake-v1")
    mdp = MDP.from_gymnasium(env)
    states = np.array(mdp.states)

    def cells(solutions: list[Any]) -> list[str]:
        each = [one.policy().probabilities(states) for one in solutions]
        greedy = [success(mdp, np.eye(4)[shares.argmax(axis=1)]) for shares in each]
        sampled = [success(mdp, shares) for shares in each]
        texts = (f"{np.mean(part):.3f} ({min(part):.3f})" for part in (greedy, sampled))
        return list(texts)

    best = f"{success(mdp, by_value_iteration(mdp)):.3f}"
    yield ["value iteration on success", "-", "-", best, "-"]
    data = [collect(env, options.transitions, seed=seed) for seed in range(options.seeds)]
    action_values = Regression(action_values=True)
    for costs, given in COSTS.items():
        exactly = MDP.from_gymnasium(env, reward=given)
        for lam in options.lams:
            soft, column = Soft(lam, costs=given), Column(lam, costs=given)
            ways: dict[str, list[Any]] = {
                "`Soft`, of the MDP": [solve(exactly, Soft(lam))],
                "`Soft`, of data": [solve(one, soft) for one in data],
                "`Soft`, `Drogo()`": [fit(one, soft, Drogo()) for one in data],
                "`Column`, `Regression()`": [fit(one, column, action_values) for one in data],
            }
            for name, solutions in ways.items():
                yield [name, costs, f"{lam:g}", *cells(solutions)]


if __name__ == "__main__":
    options = parse_options(__doc__, seeds=5, transitions=100_000, lams=(0.1, 0.3, 1.0))
    warnings.simplefilter("ignore")
    write_table(
        "frozen-lake",
        f"The share of episodes of {STEPS} steps on slippery ice that reach the goal: the mean of "
        f"{options.seeds} data sets of {options.transitions:,} transitions, and the lowest.",
        ("policy", "costs", "λ", "most probable action", "sampled actions"),
        rows(options),
        write=options.write,
    )
