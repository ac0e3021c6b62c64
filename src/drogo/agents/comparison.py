"""Shaped Q-learning against its baselines: every method over the whole grid, in one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.agents.q_learning import Progress, q_learning
from drogo.errors import ArgumentError
from drogo.mdp import MDP

WEIGHTS = (0.25, 0.5, 0.75, 1.0)
STEP_SIZES = (0.1, 0.3, 1.0)
"""The paper's grid."""


@dataclass(frozen=True, eq=False)
class Grid:
    """One method: every setting of the grid, every seed."""

    weight: Float[np.ndarray, " settings"]
    step_size: Float[np.ndarray, " settings"]
    returns: Float[np.ndarray, "settings seeds evaluations"]
    best_return: Float[np.ndarray, "settings seeds evaluations"]
    steps_to_optimal: Float[np.ndarray, "settings seeds"]
    """Training steps until every evaluation is optimal; inf where that never came."""
    low_reward_visits: Int[np.ndarray, "settings seeds"]
    q: Float[np.ndarray, "settings seeds states actions"]
    every: int

    @cached_property
    def chosen(self) -> int:
        """The setting that is reported: lowest mean `steps_to_optimal`.

        If no setting got there with every seed: the one with the most seeds that did, then with
        the highest return over all of training.
        """
        steps = self.steps_to_optimal
        missing = np.isinf(steps).sum(axis=1)
        mean = np.where(missing > 0, np.inf, np.where(np.isinf(steps), 0, steps).mean(axis=1))
        earned = self.returns.mean(axis=(1, 2))
        return int(np.lexsort((-earned, mean, missing))[0])


def compare(
    mdp: MDP,
    potentials: Mapping[str, Float[np.ndarray, "seeds states"] | None],
    *,
    seeds: int,
    step_limit: int,
    low_reward: Bool[np.ndarray, " states"] | None = None,
    weights: Sequence[float] = WEIGHTS,
    step_sizes: Sequence[float] = STEP_SIZES,
    steps: int = 100_000,
    every: int = 100,
    discount: float = 0.99,
    epsilon: float = 0.05,
    progress: Progress | None = None,
) -> dict[str, Grid]:
    """Q-learning with each potential (one row per seed; None: no shaping) over the grid."""
    lanes: list[tuple[str, float, float]] = []
    for name, potential in potentials.items():
        if potential is not None and potential.shape != (seeds, mdp.n_states):
            raise ArgumentError(
                f"potential {name!r} has shape {potential.shape}; expected one row of "
                f"{mdp.n_states} states for each of {seeds} seeds."
            )
        tried = (0.0,) if potential is None else weights
        lanes += [(name, weight, size) for weight in tried for size in step_sizes]
    flat = np.zeros((seeds, mdp.n_states))
    tables = {name: flat if rows is None else rows for name, rows in potentials.items()}
    runs = q_learning(
        mdp,
        potential=np.concatenate([tables[name] for name, _, _ in lanes]),
        weight=np.repeat([weight for _, weight, _ in lanes], seeds),
        step_size=np.repeat([size for _, _, size in lanes], seeds),
        seed=np.tile(np.arange(seeds), len(lanes)),
        step_limit=step_limit,
        low_reward=low_reward,
        steps=steps,
        every=every,
        discount=discount,
        epsilon=epsilon,
        progress=progress,
    )

    def grid(name: str) -> Grid:
        mine = [k for k, lane in enumerate(lanes) if lane[0] == name]

        def rows(array: np.ndarray) -> np.ndarray:
            return array.reshape(len(lanes), seeds, *array.shape[1:])[mine]

        return Grid(
            weight=np.array([lanes[k][1] for k in mine]),
            step_size=np.array([lanes[k][2] for k in mine]),
            returns=rows(runs.returns),
            best_return=rows(runs.best),
            steps_to_optimal=rows(runs.steps_to_optimal),
            low_reward_visits=rows(runs.low_reward_visits),
            q=rows(runs.q),
            every=every,
        )

    return {name: grid(name) for name in potentials}


def greedy_path(
    mdp: MDP, q: Float[np.ndarray, "states actions"], step_limit: int
) -> Int[np.ndarray, " length"]:
    """States from the likeliest start on, by the likeliest outcome of the greedy action (lowest
    index among ties), up to an end or the step limit."""
    path = [int(mdp.start.argmax())]
    likeliest = [np.asarray(matrix.argmax(axis=1)).ravel() for matrix in mdp.transitions]
    while not mdp.terminal[path[-1]] and len(path) <= step_limit:
        action = int(q[path[-1]].argmax())
        path.append(int(likeliest[action][path[-1]]))
    return np.array(path)
