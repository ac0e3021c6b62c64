"""The `column` of a continuous world, on a grid: soft value iteration on interpolated logs.

`v(s) = r/lam + log mean_a exp(v(s'_a))` at every node, with `v(s')` interpolated linearly between
nodes. Interpolating `v` and not `e = exp(v)` matters: `e` falls by many orders of magnitude within
a few cells, and a straight line through it smears the large values over the small ones (on
MountainCar at 201 x 201 nodes, 0.57 in the mean log against 0.16 from one grid to the next).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float
from scipy.interpolate import RegularGridInterpolator

from drogo.errors import ArgumentError, NumericalError

Dynamics = Callable[
    [Float[np.ndarray, "n dimensions"], int],
    tuple[Float[np.ndarray, "n dimensions"], Bool[np.ndarray, " n"]],
]
"""`dynamics(states, action)` gives the next states and which of them are ends."""

SMALLEST_GRID = 32
"""Nodes along an axis below which a grid is not halved any more for a first guess."""


@dataclass(frozen=True, eq=False)
class GridSolution:
    """Call it with states: log e, interpolated. Ends are worth 0; the caller knows them."""

    axes: tuple[Float[np.ndarray, " nodes"], ...]
    log_e: np.ndarray
    """At the nodes, an axis to each dimension."""
    change: float
    """Mean difference to the solution on half as many nodes along each axis: about three times the
    error that is left, if halving once more would shrink it as much again."""
    iterations: int

    def __call__(self, states: Float[np.ndarray, "n dimensions"]) -> Float[np.ndarray, " n"]:
        inside = np.clip(states, [a[0] for a in self.axes], [a[-1] for a in self.axes])
        return RegularGridInterpolator(self.axes, self.log_e)(inside)


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
    most_iterations: int = 100_000,
) -> GridSolution:
    """From a coarse grid to the one asked for, each starting at the last one's answer."""
    if not reward < 0 or not lam > 0:
        raise ArgumentError(f"reward is {reward} and lam {lam}; they must be below and above 0.")
    if min(nodes) < 3:
        raise ArgumentError(f"nodes is {tuple(nodes)}; at least 3 along each axis.")
    coarse = None
    if min(nodes) // 2 >= SMALLEST_GRID:
        halved = [count // 2 + 1 for count in nodes]
        coarse = solve_on_grid(
            dynamics, low, high, halved, actions=actions, lam=lam, reward=reward,
            tolerance=tolerance, most_iterations=most_iterations,
        )  # fmt: skip
    axes = tuple(np.linspace(a, b, n) for a, b, n in zip(low, high, nodes, strict=True))
    states = np.stack([m.ravel() for m in np.meshgrid(*axes, indexing="ij")], axis=1)
    moves = [dynamics(states, action) for action in range(actions)]
    weights = [_interpolation(axes, there) for there, _ in moves]
    v = np.zeros(len(states)) if coarse is None else coarse(states)
    guess = v
    count, moved = 0, np.inf
    while moved >= tolerance and count < most_iterations:
        reached = np.stack(
            [np.where(ends, 0.0, w @ v) for w, (_, ends) in zip(weights, moves, strict=True)]
        )
        new = reward / lam + np.logaddexp.reduce(reached, axis=0) - np.log(actions)
        moved = np.abs(new - v).max()
        v = new
        count += 1
    if moved >= tolerance:
        raise NumericalError(
            f"not done after {most_iterations} iterations: the last moved {moved:.2g}. Can every "
            "state reach an end?"
        )
    change = float(np.abs(v - guess).mean()) if coarse is not None else float("nan")
    return GridSolution(axes, v.reshape(*nodes), change, count)


def _interpolation(
    axes: tuple[np.ndarray, ...], states: Float[np.ndarray, "n dimensions"]
) -> sp.csr_array:
    """The matrix that takes values at nodes to values at states, linear along each axis."""
    shape = [axis.size for axis in axes]
    low_node, share = [], []
    for axis, x in zip(axes, states.T, strict=True):
        place = np.clip((x - axis[0]) / (axis[1] - axis[0]), 0, axis.size - 1)
        node = np.minimum(place.astype(np.int64), axis.size - 2)
        low_node.append(node)
        share.append(place - node)
    columns, values = [], []
    for corner in product((0, 1), repeat=len(axes)):
        at = [node + up for node, up in zip(low_node, corner, strict=True)]
        columns.append(np.ravel_multi_index(at, shape))
        values.append(np.prod([s if up else 1 - s for s, up in zip(share, corner, strict=True)], 0))
    rows = np.tile(np.arange(len(states)), len(columns))
    entries = (np.concatenate(values), (rows, np.concatenate(columns)))
    return sp.csr_array(entries, shape=(len(states), int(np.prod(shape))))
