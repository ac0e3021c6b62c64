"""Converts and checks the arguments of `MDP.from_arrays`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.sparse import csgraph

from drogo.errors import MDPError

Matrix = npt.ArrayLike | sp.sparray | sp.spmatrix

ROW_SUM_TOLERANCE = 1e-6
"""The rounding error of rows in single precision. Rows are normalised afterwards."""
EXACT = 1e-12
"""Rows whose sums differ from 1 by less keep their last bits."""
ROUNDING = 1e-9
"""More than the rounding error of the rows of a policy in double precision."""


def frozen(array: np.ndarray) -> np.ndarray:
    """Makes an array read-only and returns it."""
    array.flags.writeable = False
    return array


def canonical(matrix: Any) -> sp.csr_array:
    """Read-only CSR without explicit zeros or duplicates."""
    matrix = sp.csr_array(matrix).astype(np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    for part in (matrix.data, matrix.indices, matrix.indptr):
        frozen(part)
    return matrix


def as_floats(name: str, values: npt.ArrayLike) -> np.ndarray:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise MDPError(f"{name} is not an array of numbers: {error}") from None


def as_matrices(P: Any) -> tuple[sp.csr_array, ...]:
    parts = P if isinstance(P, Sequence) else [P]
    stack: list[Any] = [part if sp.issparse(part) else as_floats("P", part) for part in parts]
    if stack and stack[0].ndim != 2:  # one matrix as nested lists, or one array of all matrices
        array = as_floats("P", P)
        stack = list(array) if array.ndim == 3 else [array]
    if not stack:
        raise MDPError("P is empty; expected one (states, states) matrix, or one per action.")
    shape = stack[0].shape
    for action, matrix in enumerate(stack):
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape != shape:
            raise MDPError(
                f"P[{action}] has shape {matrix.shape}; expected square matrices of one size, "
                f"here {(shape[0], shape[0]) if shape else '(states, states)'}."
            )
    names = [f"P[{action}]" if len(stack) > 1 else "P" for action in range(len(stack))]
    return tuple(map(_as_csr, names, stack))


def _as_csr(name: str, matrix: Any) -> sp.csr_array:
    """Converts a matrix, after checking that a sparse one has no entry outside of it.

    SciPy's compiled functions believe the indices of a matrix: they read and write where these say.
    """
    if not sp.issparse(matrix):
        return sp.csr_array(matrix)
    try:
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)
        else:  # a new matrix is checked by SciPy
            entries = matrix.tocoo()
            matrix = sp.coo_array((entries.data, entries.coords), shape=matrix.shape)
        if matrix.dtype.kind not in "biuf":
            raise ValueError(f"its entries are of type {matrix.dtype}")
    except (ValueError, TypeError, IndexError) as error:
        raise MDPError(f"{name} is not a proper sparse matrix: {error}.") from error
    return sp.csr_array(matrix)


def as_indices(name: str, states: npt.ArrayLike, n: int) -> Int[np.ndarray, " some"]:
    """Converts a boolean mask, or a list of state indices, to indices."""
    try:
        array = np.asarray(states)
    except ValueError:  # lists of different lengths
        array = np.array([None])
    if array.dtype == bool:
        _check_shape(name, array, (n,))
        return np.flatnonzero(array)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise MDPError(
            f"{name} must be a boolean mask or a list of state indices, not {array.dtype}."
        )
    indices = array.astype(np.int64).ravel()
    outside = indices[(indices < 0) | (indices >= n)]
    if outside.size:
        raise MDPError(f"{name} names state {outside[0]}, but states run from 0 to {n - 1}.")
    return indices


def as_mask(terminal: npt.ArrayLike, n: int) -> Bool[np.ndarray, " states"]:
    indices = as_indices("terminal", terminal, n)
    if np.unique(indices).size < indices.size:
        raise MDPError(
            "terminal names a state twice. If it is a mask of 0 and 1, give booleans instead."
        )
    return np.isin(np.arange(n), indices)


def as_probabilities(
    matrices: Sequence[sp.csr_array], terminal: Bool[np.ndarray, " states"]
) -> Iterator[sp.csr_array]:
    """Checks that rows are distributions, normalises them, and empties those of terminal states."""
    for action, matrix in enumerate(matrices):
        name = f"P[{action}]" if len(matrices) > 1 else "P"
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        wrong = np.flatnonzero(~terminal[rows] & ~(np.isfinite(matrix.data) & (matrix.data >= 0)))
        if wrong.size:
            k = wrong[0]
            problem = "is negative" if np.isfinite(matrix.data[k]) else "is not finite"
            raise MDPError(
                f"{name}[{rows[k]}, {matrix.indices[k]}] = {matrix.data[k]} {problem}; "
                "transition probabilities must lie in [0, 1]."
            )
        sums = np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()
        _check_sums(name, sums, terminal, " Normalise these rows, or mark the states as terminal.")
        exact = np.abs(sums - 1) < EXACT
        factor = 1 / np.where(exact | terminal, 1.0, sums)
        data = np.where(terminal[rows], 0.0, matrix.data * factor[rows])
        yield canonical(sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape))


def as_reward(
    r: npt.ArrayLike, terminal: Bool[np.ndarray, " states"], labels: Sequence[Any]
) -> Float[np.ndarray, " states"]:
    reward = as_floats("r", r)
    _check_shape("r", reward, terminal.shape)
    wrong = np.flatnonzero(~np.isfinite(reward))
    if wrong.size:
        raise MDPError(
            f"r is {reward[wrong[0]]} in {_name_states(wrong, labels)}; rewards must be finite."
        )
    return reward


def as_start(
    start: int | npt.ArrayLike | None, terminal: Bool[np.ndarray, " states"]
) -> Float[np.ndarray, " states"]:
    if start is None:
        allowed = terminal if terminal.all() else ~terminal
        return allowed / allowed.sum()
    array = np.asarray(start)
    if array.ndim == 0 and np.issubdtype(array.dtype, np.integer):
        if not 0 <= array < terminal.size:
            raise MDPError(f"start = {array}, but states run from 0 to {terminal.size - 1}.")
        return np.eye(1, terminal.size, int(array))[0]
    distribution = as_floats("start", start)
    _check_shape("start", distribution, terminal.shape)
    if not np.isfinite(distribution).all() or (distribution < 0).any():
        raise MDPError("start must be a probability distribution; it has negative or NaN entries.")
    if abs(distribution.sum() - 1) > ROW_SUM_TOLERANCE:
        raise MDPError(f"start must sum to 1; it sums to {distribution.sum():.6g}.")
    return _normalised(distribution)


def as_policy(
    policy: npt.ArrayLike | None, actions: int, terminal: Bool[np.ndarray, " states"]
) -> Float[np.ndarray, "states actions"]:
    shape = (terminal.size, actions)
    if policy is None:
        return np.full(shape, 1 / actions)
    array = as_floats("default_policy", policy)
    _check_shape("default_policy", array, shape)
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)).all(axis=1))
    if wrong.size:
        raise MDPError(f"default_policy is negative or not finite in {_name_states(wrong)}.")
    single = np.asarray(policy).dtype == np.float32
    _check_sums(
        "default_policy",
        array.sum(axis=1),
        terminal,
        " Normalise these rows.",
        tolerance=ROW_SUM_TOLERANCE if single else ROUNDING,
    )
    return np.where(terminal[:, None], array, _normalised(array))


def check_reachability(
    P: sp.csr_array, terminal: Bool[np.ndarray, " states"], labels: Sequence[Any]
) -> None:
    """Checks by breadth-first search backwards that every state can reach a terminal state, unless
    there is none."""
    n = terminal.size
    if not terminal.any():
        return
    graph = sp.vstack([P.T, sp.csr_array(terminal[None].astype(np.float64))], format="csr")
    graph.resize((n + 1, n + 1))  # One more node, which leads to every terminal state.
    reached = csgraph.breadth_first_order(graph, n, return_predecessors=False)
    stuck = np.setdiff1d(np.arange(n), reached)
    if stuck.size:
        raise MDPError(
            f"{stuck.size} non-terminal state(s) cannot reach a terminal state under the default "
            f"policy: {_name_states(stuck, labels)}. Their entry of log e would be minus infinity. "
            "Remove them, or add a way out."
        )


def _check_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        axes = "(states,)" if len(shape) == 1 else "(states, actions)"
        raise MDPError(f"{name} has shape {array.shape}; expected {axes} = {shape}.")


def _check_sums(
    name: str,
    sums: np.ndarray,
    terminal: np.ndarray,
    remedy: str,
    tolerance: float = ROW_SUM_TOLERANCE,
) -> None:
    wrong = np.flatnonzero((np.abs(sums - 1) > tolerance) & ~terminal)
    if wrong.size:
        raise MDPError(
            f"{name}: the row of {_name_states(wrong)} does not sum to 1 "
            f"(state {wrong[0]}: 1 {sums[wrong[0]] - 1:+.3g}).{remedy}"
        )


def _normalised(rows: np.ndarray) -> np.ndarray:
    """Returns rows that sum to 1. Those that already do, but for rounding, keep their last bits."""
    sums = rows.sum(axis=-1, keepdims=True)
    keep = (np.abs(sums - 1) < EXACT) | (sums == 0)
    return rows / np.where(keep, 1.0, sums)


def _name_states(states: Int[np.ndarray, " k"], labels: Sequence[Any] | None = None) -> str:
    """Name the first few: `states 3, 7, 9, 12, 15 and 40 more`."""
    noun = "state" if len(states) == 1 else "states"
    listed = ", ".join(str(int(s) if labels is None else labels[int(s)]) for s in states[:5])
    return f"{noun} {listed}" + (f" and {len(states) - 5} more" if len(states) > 5 else "")
