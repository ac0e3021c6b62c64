"""Shaped Q-learning and its baselines: every method with every setting, in one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from drogo.errors import ArgumentError
from drogo.mdp import MDP
from drogo_paper.agents.q_learning import Runs, q_learning

WEIGHTS = (0.25, 0.5, 0.75, 1.0)
STEP_SIZES = (0.1, 0.3, 1.0)
"""The settings of the paper."""


@dataclass(frozen=True, eq=False)
class Grid(Runs):
    """The runs of one method: all settings, all seeds.

    The arrays of `Runs` have a row for each setting and a column for each seed.

    Args:
        weight: The weight of the shaping reward in each setting.
        step_size: The step size of each setting.
    """

    weight: Float[np.ndarray, " settings"]
    step_size: Float[np.ndarray, " settings"]

    @cached_property
    def chosen(self) -> int:
        """The index of the reported setting, which has the lowest mean of `steps_to_optimal`.

        If no setting became optimal with all seeds, it is the one with the most optimal seeds; ties
        are broken by the highest mean return.
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
        weights: The weights of the shaping reward.
        step_sizes: The step sizes.
        options: The other arguments of `q_learning`, such as `step_limit`.

    Returns:
        The runs of each method.
    """
    settings = []
    for name, potential in potentials.items():
        rows = np.zeros((seeds, mdp.n_states)) if potential is None else potential
        if rows.shape != (seeds, mdp.n_states):
            raise ArgumentError(
                f"potential {name!r} has shape {rows.shape}; expected one row of "
                f"{mdp.n_states} states for each of {seeds} seeds.",
                argument="potentials",
            )
        used = (0.0,) if potential is None else weights
        settings += [(name, rows, weight, size) for weight in used for size in step_sizes]
    names, tables, weight, step_size = map(np.array, zip(*settings, strict=True))
    runs = q_learning(
        mdp,
        potential=np.concatenate(tables),
        weight=np.repeat(weight, seeds),
        step_size=np.repeat(step_size, seeds),
        seed=np.tile(np.arange(seeds), len(settings)),
        **options,
    )
    arrays = {"weight": weight, "step_size": step_size}
    for quantity in ("returns", "arrived", "best_return", "low_reward_visits", "q"):
        values = getattr(runs, quantity)
        arrays[quantity] = values.reshape(len(settings), seeds, *values.shape[1:])
    return {
        name: Grid(every=runs.every, **{part: rows[names == name] for part, rows in arrays.items()})
        for name in potentials
    }


def greedy_path(
    mdp: MDP, q: Float[np.ndarray, "states actions"], step_limit: int
) -> Int[np.ndarray, " length"]:
    """Follows the first greedy action and its likeliest outcome, from the likeliest start."""
    path = [int(mdp.start.argmax())]
    likeliest = [np.asarray(matrix.argmax(axis=1)).ravel() for matrix in mdp.transitions]
    while not mdp.terminal[path[-1]] and len(path) <= step_limit:
        action = int(q[path[-1]].argmax())
        path.append(int(likeliest[action][path[-1]]))
    return np.array(path)
