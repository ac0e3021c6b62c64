"""Converts and checks the arguments of `MDP.from_arrays`."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.sparse import csgraph

from drogo.errors import MDPError

Matrix = npt.ArrayLike | sp.sparray | sp.spmatrix
Mask = Bool[np.ndarray, " states"]
Values = Float[np.ndarray, " states"]
Policy = Float[np.ndarray, "states actions"]
Nodes = Int[np.ndarray, " edges"]

ROW_SUM_TOLERANCE = 1e-6  # The rounding error of rows in single precision.
ROUNDING = 1e-9  # More than the rounding error of the rows of a policy in double precision.
EXACT = 1e-12  # Rows whose sums differ from 1 by less are not normalised.


def frozen(array: np.ndarray) -> np.ndarray:
    """Makes an array read-only and returns it."""
    array.flags.writeable = False
    return array


def canonical(matrix: Any) -> sp.csr_array:
    """Returns a read-only CSR matrix without explicit zeros or duplicates."""
    matrix = sp.csr_array(matrix).astype(np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    for part in (matrix.data, matrix.indices, matrix.indptr):
        frozen(part)
    return matrix


def as_floats(name: str, values: Any) -> np.ndarray:
    """Converts an argument to an array of doubles."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise _error(name, f"is not an array of numbers: {error}") from None


def as_matrices(P: Any) -> tuple[sp.csr_array, ...]:
    """Converts one matrix, or one per action, to sparse square matrices of one size."""
    parts = P if isinstance(P, Sequence) else [P]
    stack: list[Any] = [part if sp.issparse(part) else as_floats("P", part) for part in parts]
    if stack and stack[0].ndim != 2:  # one matrix as nested lists, or one array of all matrices
        array = as_floats("P", P)
        stack = list(array) if array.ndim == 3 else [array]
    if not stack:
        raise _error("P", "is empty; expected one (states, states) matrix, or one per action.")
    for name, matrix in zip(_names(stack), stack, strict=True):
        if matrix.ndim != 2 or not matrix.shape[0] == matrix.shape[1] == stack[0].shape[0]:
            raise _error(name, f"has shape {matrix.shape}; expected square matrices of one size.")
    return tuple(map(_as_csr, _names(stack), stack))


def _names(matrices: Sequence[Any]) -> list[str]:
    return [f"P[{action}]" for action in range(len(matrices))] if len(matrices) > 1 else ["P"]


def _as_csr(name: str, matrix: Any) -> sp.csr_array:
    """Converts a matrix and checks all indices of a sparse one, which SciPy trusts."""
    if not sp.issparse(matrix):
        return sp.csr_array(matrix)
    try:
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)
        else:  # SciPy checks a new matrix.
            entries = matrix.tocoo()
            matrix = sp.coo_array((entries.data, entries.coords), shape=matrix.shape)
        if matrix.dtype.kind not in "biuf":
            raise ValueError(f"its entries are of type {matrix.dtype}")
    except (ValueError, TypeError, IndexError) as error:
        raise _error(name, f"is not a proper sparse matrix: {error}.") from error
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
        raise _error(name, f"must be a mask of booleans or a list of states, not {array.dtype}.")
    indices = array.astype(np.int64).ravel()
    outside = indices[(indices < 0) | (indices >= n)]
    if outside.size:
        raise _error(name, f"names state {outside[0]}, but states run from 0 to {n - 1}.")
    return indices


def as_mask(terminal: npt.ArrayLike, n: int) -> Mask:
    """Converts the terminal states to a mask."""
    indices = as_indices("terminal", terminal, n)
    if np.unique(indices).size < indices.size:
        remedy = "If it is a mask of 0 and 1, give booleans instead."
        raise _error("terminal", "names a state twice.", remedy)
    return np.isin(np.arange(n), indices)


def as_probabilities(matrices: Sequence[sp.csr_array], terminal: Mask) -> Iterator[sp.csr_array]:
    """Checks that rows are distributions, normalises them, and empties those of terminal states."""
    for name, matrix in zip(_names(matrices), matrices, strict=True):
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        wrong = np.flatnonzero(~terminal[rows] & ~(np.isfinite(matrix.data) & (matrix.data >= 0)))
        if wrong.size:
            row, column, value = rows[wrong[0]], matrix.indices[wrong[0]], matrix.data[wrong[0]]
            problem = f"is {value}; transition probabilities must be finite and not negative."
            raise _error(f"{name}[{row}, {column}]", problem)
        sums = np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()
        wrong = np.flatnonzero((np.abs(sums - 1) > ROW_SUM_TOLERANCE) & ~terminal)
        if wrong.size:
            problem = f"does not sum to 1 in {_name_states(wrong)} (1 {sums[wrong[0]] - 1:+.3g})."
            raise _error(name, problem, "Normalise these rows, or mark the states as terminal.")
        factor = 1 / np.where(terminal | (np.abs(sums - 1) < EXACT), 1.0, sums)
        data = np.where(terminal[rows], 0.0, matrix.data * factor[rows])
        yield canonical(sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape))


def as_reward(r: npt.ArrayLike, terminal: Mask, labels: Sequence[Any]) -> Values:
    """Converts the rewards, which must be finite."""
    reward = as_floats("r", r)
    _check_shape("r", reward, terminal.shape)
    wrong = np.flatnonzero(~np.isfinite(reward))
    if wrong.size:
        place = _name_states(wrong, labels)
        raise _error("r", f"is {reward[wrong[0]]} in {place}; rewards must be finite.")
    return reward


def as_start(start: int | npt.ArrayLike | None, terminal: Mask) -> Values:
    """Converts a state, or a distribution over states, to a distribution."""
    if start is None:
        allowed = terminal if terminal.all() else ~terminal
        return allowed / allowed.sum()
    distribution = as_floats("start", start)
    if distribution.ndim == 0 and np.issubdtype(np.asarray(start).dtype, np.integer):
        (state,) = as_indices("start", np.asarray(start), terminal.size).tolist()
        return np.eye(1, terminal.size, state)[0]
    _check_shape("start", distribution, terminal.shape)
    return _distributions("start", distribution[None], np.zeros(1, bool), ROW_SUM_TOLERANCE)[0]


def as_policy(policy: npt.ArrayLike | None, actions: int, terminal: Mask) -> Policy:
    """Converts the default policy, which is uniform by default."""
    if policy is None:
        return np.full((terminal.size, actions), 1 / actions)
    array = as_floats("default_policy", policy)
    _check_shape("default_policy", array, (terminal.size, actions))
    tolerance = ROW_SUM_TOLERANCE if np.asarray(policy).dtype == np.float32 else ROUNDING
    return _distributions("default_policy", array, terminal, tolerance)


def _distributions(name: str, rows: np.ndarray, terminal: Mask, tolerance: float) -> np.ndarray:
    """Normalises rows to a sum of 1, except in terminal states."""
    sums = rows.sum(axis=1)
    signs = (np.isfinite(rows) & (rows >= 0)).all(axis=1)
    wrong = np.flatnonzero(~signs | ~(terminal | (np.abs(sums - 1) <= tolerance)))
    if wrong.size:
        place = f" in {_name_states(wrong)}" if len(rows) > 1 else ""
        excess = f"1 {sums[wrong[0]] - 1:+.3g}"
        raise _error(name, f"is negative, not finite, or sums to {excess}{place}.", "Normalise it.")
    return rows / np.where(terminal | (np.abs(sums - 1) < EXACT), 1.0, sums)[:, None]


def leads_to(row: Nodes, column: Nodes, n: int, targets: np.ndarray) -> Bool[np.ndarray, " n"]:
    """Returns the nodes from which edges from `row` to `column` lead to one of `targets`."""
    # One more node leads to all targets, and the search follows every edge backwards from it.
    sources = np.concatenate([column, np.full(targets.size, n)])
    reached = np.concatenate([row, targets])
    graph = sp.csr_array((np.ones(sources.size), (sources, reached)), shape=(n + 1, n + 1))
    leads = np.zeros(n + 1, dtype=bool)
    leads[csgraph.breadth_first_order(graph, n, return_predecessors=False)] = True
    return leads[:n]


def _error(place: str, problem: str, remedy: str = "") -> MDPError:
    return MDPError(f"{place} {problem}", remedy=remedy, argument=place.partition("[")[0])


def _check_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        axes = "(states,)" if len(shape) == 1 else "(states, actions)"
        raise _error(name, f"has shape {array.shape}; expected {axes} = {shape}.")


def _name_states(states: Int[np.ndarray, " k"], labels: Sequence[Any] | None = None) -> str:
    """Names the first few: `states 3, 7, 9, 12, 15 and 40 more`."""
    noun = "state" if len(states) == 1 else "states"
    listed = ", ".join(str(int(s) if labels is None else labels[int(s)]) for s in states[:5])
    return f"{noun} {listed}" + (f" and {len(states) - 5} more" if len(states) > 5 else "")
