"""The vector `column` of a continuous world on a grid, by soft value iteration.

At every node, `v(s) = r/lam + log mean_a exp(v(s'_a))`, where `v(s')` is interpolated linearly
between nodes, which is more accurate than to interpolate `exp(v)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.interpolate import NdBSpline, RegularGridInterpolator

from drogo.errors import ArgumentError, NumericalError, check_positive

Dynamics = Callable[
    [Float[np.ndarray, "n dimensions"], int],
    tuple[Float[np.ndarray, "n dimensions"], Bool[np.ndarray, " n"]],
]
"""`dynamics(states, action)` returns the next states and which of them are terminal."""

SMALLEST_GRID = 32  # A grid with fewer nodes along an axis is not halved for a first guess.
MAX_ITERATIONS = 100_000


@dataclass(frozen=True, eq=False)
class GridSolution:
    """A function from non-terminal states to `v`, interpolated between the nodes of a grid."""

    axes: tuple[Float[np.ndarray, " nodes"], ...]
    log_e: np.ndarray  # `v` at the nodes, with one axis per dimension.
    change: float  # The mean difference to the solution on half as many nodes along each axis.
    method: Literal["linear", "nearest"] = "linear"
    """The interpolation of `v`: "nearest" in a world with walls, which "linear" would cross."""

    def __call__(self, states: Float[np.ndarray, "n dimensions"]) -> Float[np.ndarray, " n"]:
        return RegularGridInterpolator(self.axes, self.log_e, self.method)(_clip(self.axes, states))


def _clip(axes: tuple[np.ndarray, ...], states: np.ndarray) -> np.ndarray:
    return np.clip(states, [axis[0] for axis in axes], [axis[-1] for axis in axes])


def solve_on_grid(
    dynamics: Dynamics,
    low: Sequence[float],
    high: Sequence[float],
    nodes: Sequence[int],
    *,
    actions: int,
    lam: float,
    reward: float = -1.0,
    tolerance: float = 1e-6,
) -> GridSolution:
    """Solves on a coarse grid first, and uses each solution as the first guess on a finer grid.

    The grid has `nodes` between `low` and `high` along each axis, every step has the same negative
    reward, and the last iteration changes no value by more than `tolerance`.
    """
    check_positive("lam", lam)
    if not reward < 0:
        raise ArgumentError(f"reward is {reward}; it must be negative.", argument="reward")
    if min(nodes) < 3:
        raise ArgumentError(f"nodes is {tuple(nodes)}; give at least 3 each.", argument="nodes")

    def solve(size: tuple[int, ...]) -> GridSolution:
        coarse = None
        if min(size) // 2 >= SMALLEST_GRID:
            coarse = solve(tuple(count // 2 + 1 for count in size))
        axes = tuple(np.linspace(a, b, n) for a, b, n in zip(low, high, size, strict=True))
        states = np.stack([m.ravel() for m in np.meshgrid(*axes, indexing="ij")], axis=1)
        moves = [dynamics(states, action) for action in range(actions)]
        knots = tuple(np.concatenate([axis[:1], axis, axis[-1:]]) for axis in axes)
        weights = [NdBSpline.design_matrix(_clip(axes, after), knots, 1) for after, _ in moves]
        for matrix in weights:
            matrix.resize(
                len(states), len(states)
            )  # SciPy leaves out the last nodes if none is met
        v = guess = np.zeros(len(states)) if coarse is None else coarse(states)
        largest_change = np.inf
        for _ in range(MAX_ITERATIONS):
            pairs = zip(weights, moves, strict=True)
            reached = np.stack([np.where(over, 0.0, w @ v) for w, (_, over) in pairs])
            new = reward / lam + np.logaddexp.reduce(reached, axis=0) - np.log(actions)
            largest_change = np.abs(new - v).max()
            v = new
            if largest_change < tolerance:
                change = float("nan") if coarse is None else float(np.abs(v - guess).mean())
                return GridSolution(axes, v.reshape(size), change)
        problem = f"value iteration still changed a value by {largest_change:.2g} at the end."
        raise NumericalError(problem, remedy="Check that every state reaches a terminal state.")

    return solve(tuple(nodes))
