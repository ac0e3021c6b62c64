"""Shaped Q-learning against its baselines: every method with every setting, in one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from drogo.agents.q_learning import q_learning
from drogo.errors import ArgumentError
from drogo.mdp import MDP

WEIGHTS = (0.25, 0.5, 0.75, 1.0)
STEP_SIZES = (0.1, 0.3, 1.0)
"""The settings of the paper."""


@dataclass(frozen=True, eq=False)
class Grid:
    """The runs of one method: all settings, all seeds.

    Args:
        weight: The weight of the shaping reward in each setting.
        step_size: The step size of each setting.
        returns: The return of each evaluation.
        best_return: The largest expected return from the first state of each evaluation.
        steps_to_optimal: Training steps until all later evaluations are optimal, or inf.
        low_reward_visits: Visits to low-reward states during training.
        q: The action values after training.
        every: The number of training steps between evaluations.
    """

    weight: Float[np.ndarray, " settings"]
    step_size: Float[np.ndarray, " settings"]
    returns: Float[np.ndarray, "settings seeds evaluations"]
    best_return: Float[np.ndarray, "settings seeds evaluations"]
    steps_to_optimal: Float[np.ndarray, "settings seeds"]
    low_reward_visits: Int[np.ndarray, "settings seeds"]
    q: Float[np.ndarray, "settings seeds states actions"]
    every: int

    @cached_property
    def chosen(self) -> int:
        """The index of the reported setting, which has the lowest mean of `steps_to_optimal`.

        If no setting became optimal with all seeds, it is the one with the most seeds that did,
        and among equals the one with the highest mean return.
        """
        unfinished = np.isinf(self.steps_to_optimal).sum(axis=1)
        mean = self.steps_to_optimal.mean(axis=1)
        return int(np.lexsort((-self.returns.mean(axis=(1, 2)), mean, unfinished))[0])


def compare(
    mdp: MDP,
    potentials: Mapping[str, Float[np.ndarray, "seeds states"] | None],
    *,
    seeds: int,
    weights: Sequence[float] = WEIGHTS,
    step_sizes: Sequence[float] = STEP_SIZES,
    **options: Any,
) -> dict[str, Grid]:
    """Trains Q-learning with several potentials and all combinations of weights and step sizes.

    Args:
        mdp: The MDP.
        potentials: By method, the potential for each seed; None is no shaping.
        seeds: The number of seeds.
        weights: The weights of the shaping reward that are tried.
        step_sizes: The step sizes that are tried.
        options: The other arguments of `q_learning`: `step_limit`, and more if needed.

    Returns:
        The runs of each method.
    """
    settings: list[tuple[str, float, float]] = []
    for name, potential in potentials.items():
        if potential is not None and potential.shape != (seeds, mdp.n_states):
            raise ArgumentError(
                f"potential {name!r} has shape {potential.shape}; expected one row of "
                f"{mdp.n_states} states for each of {seeds} seeds."
            )
        tried = (0.0,) if potential is None else weights
        settings += [(name, weight, size) for weight in tried for size in step_sizes]
    flat = np.zeros((seeds, mdp.n_states))
    tables = {name: flat if rows is None else rows for name, rows in potentials.items()}
    names, weight, step_size = (np.array(column) for column in zip(*settings, strict=True))
    runs = q_learning(
        mdp,
        potential=np.concatenate([tables[name] for name in names]),
        weight=np.repeat(weight, seeds),
        step_size=np.repeat(step_size, seeds),
        seed=np.tile(np.arange(seeds), len(settings)),
        **options,
    )

    quantities = ("returns", "best_return", "steps_to_optimal", "low_reward_visits", "q")
    grids = {}
    for name in potentials:
        mine = names == name
        lanes = {q: getattr(runs, q)[np.repeat(mine, seeds)] for q in quantities}
        rows = {q: array.reshape(-1, seeds, *array.shape[1:]) for q, array in lanes.items()}
        grids[name] = Grid(weight[mine], step_size[mine], every=runs.every, **rows)
    return grids


def greedy_path(
    mdp: MDP, q: Float[np.ndarray, "states actions"], step_limit: int
) -> Int[np.ndarray, " length"]:
    """Follow the first greedy action and its likeliest outcome, from the likeliest start."""
    path = [int(mdp.start.argmax())]
    likeliest = [np.asarray(matrix.argmax(axis=1)).ravel() for matrix in mdp.transitions]
    while not mdp.terminal[path[-1]] and len(path) <= step_limit:
        action = int(q[path[-1]].argmax())
        path.append(int(likeliest[action][path[-1]]))
    return np.array(path)
