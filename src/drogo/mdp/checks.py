"""What must hold for the default representation to exist, and messages that say what does not."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.sparse import csgraph

from drogo.errors import MDPError

ROW_SUM_TOLERANCE = 1e-6
"""What single precision can miss; rows are normalised afterwards."""


def name_states(
    states: Int[np.ndarray, " k"], labels: Sequence[Any] | None = None, shown: int = 5
) -> str:
    """`states 3, 7, 9 and 40 more`: enough to find them, never a page."""
    noun = "state" if len(states) == 1 else "states"
    listed = ", ".join(str(int(s) if labels is None else labels[int(s)]) for s in states[:shown])
    more = f" and {len(states) - shown} more" if len(states) > shown else ""
    return f"{noun} {listed}{more}"


def check_vector(name: str, vector: np.ndarray, states: int) -> None:
    if vector.shape != (states,):
        raise MDPError(
            f"{name} has shape {vector.shape}, but there are {states} states: "
            f"expected shape ({states},)."
        )


def check_transitions(matrices: Sequence[sp.csr_array], terminal: Bool[np.ndarray, " s"]) -> None:
    """Every row of a non-terminal state is a probability distribution."""
    for action, matrix in enumerate(matrices):
        place = f"P[{action}]" if len(matrices) > 1 else "P"
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        live = ~terminal[rows]
        for what, bad in (
            ("is not finite", live & ~np.isfinite(matrix.data)),
            ("is negative", live & (matrix.data < 0)),
        ):
            if bad.any():
                k = int(np.argmax(bad))
                raise MDPError(
                    f"{place}[{rows[k]}, {matrix.indices[k]}] = {matrix.data[k]} {what}; "
                    "transition probabilities must lie in [0, 1]."
                )
        sums = np.asarray(matrix.sum(axis=1)).ravel()
        wrong = np.flatnonzero((np.abs(sums - 1) > ROW_SUM_TOLERANCE) & ~terminal)
        if wrong.size:
            raise MDPError(
                f"{place}: the row of {name_states(wrong)} does not sum to 1 "
                f"(state {wrong[0]}: 1 {sums[wrong[0]] - 1:+.3g}). Normalise these rows, or mark "
                "the states as terminal."
            )


def check_policy(policy: Float[np.ndarray, "s a"], terminal: Bool[np.ndarray, " s"]) -> None:
    if not np.isfinite(policy).all() or (policy < 0).any():
        wrong = np.flatnonzero(~(np.isfinite(policy) & (policy >= 0)).all(axis=1))
        raise MDPError(f"default_policy is negative or not finite in {name_states(wrong)}.")
    sums = policy.sum(axis=1)
    wrong = np.flatnonzero((np.abs(sums - 1) > ROW_SUM_TOLERANCE) & ~terminal)
    if wrong.size:
        raise MDPError(
            f"default_policy: the row of {name_states(wrong)} does not sum to 1 "
            f"(state {wrong[0]} sums to {sums[wrong[0]]:.6g})."
        )


def check_reward(
    reward: Float[np.ndarray, " s"], terminal: Bool[np.ndarray, " s"], labels: Sequence[Any]
) -> None:
    wrong = np.flatnonzero(~np.isfinite(reward))
    if wrong.size:
        raise MDPError(
            f"r is {reward[wrong[0]]} in {name_states(wrong, labels)}; rewards must be finite."
        )
    wrong = np.flatnonzero((reward >= 0) & ~terminal)
    if wrong.size:
        raise MDPError(
            f"r(s) >= 0 in {name_states(wrong, labels)} (r = {reward[wrong[0]]:.6g} in the first). "
            "The default representation needs r(s) < 0 in every non-terminal state: give a step "
            "cost, for example by subtracting a constant from all rewards."
        )


def check_start(start: Float[np.ndarray, " s"]) -> None:
    if not np.isfinite(start).all() or (start < 0).any():
        raise MDPError("start must be a probability distribution; it has negative or NaN entries.")
    if abs(start.sum() - 1) > ROW_SUM_TOLERANCE:
        raise MDPError(f"start must sum to 1; it sums to {start.sum():.6g}.")


def states_that_reach(P: sp.csr_array, targets: Bool[np.ndarray, " s"]) -> Bool[np.ndarray, " s"]:
    """Which states have a path of positive probability to a target (breadth-first, backwards)."""
    states = P.shape[0]
    backwards = P.T.tocoo()
    hub = states  # one extra node that leads to every target
    sources = np.flatnonzero(targets)
    keep = backwards.data > 0
    rows = np.concatenate([backwards.row[keep], np.full(sources.size, hub)])
    columns = np.concatenate([backwards.col[keep], sources])
    graph = sp.csr_array(
        (np.ones(rows.size, dtype=np.int8), (rows, columns)), shape=(states + 1, states + 1)
    )
    order = csgraph.breadth_first_order(graph, hub, directed=True, return_predecessors=False)
    reached = np.zeros(states + 1, dtype=bool)
    reached[order] = True
    return reached[:states]


def check_reachability(
    P: sp.csr_array, terminal: Bool[np.ndarray, " s"], labels: Sequence[Any]
) -> None:
    stuck = np.flatnonzero(~states_that_reach(P, terminal))
    if stuck.size:
        raise MDPError(
            f"{stuck.size} non-terminal state(s) cannot reach a terminal state under the default "
            f"policy: {name_states(stuck, labels)}. Their entry of log e would be minus infinity. "
            "Remove them, or add a way out."
        )
