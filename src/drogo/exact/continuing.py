"""`perron`: the vector of a continuing task, which is 0 in a reference state.

In an episodic task, `exp(v(s)) = exp(r(s)/lam) sum_s' P(s, s') exp(v(s'))`, and terminal states
fix the level of `v`. In a continuing task, the sum of rewards diverges, but its surplus over the
gain of each step is finite. With `W = diag(exp(r/lam)) P`, the equation is `W e = k e`: `e` is the
positive eigenvector of `W`, `lam log k` is the gain, and `v = log e` is 0 in the reference state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from drogo.errors import ArgumentError, NotConverged, check_positive, check_whole
from drogo.exact.growth import LARGER_LAM, WeightedEdges, edges_of, growth
from drogo.exact.log_solve import NoPositiveSolution, log_solve
from drogo.exact.reach import strong_classes
from drogo.exact.rows import Rows
from drogo.exact.solution import tolerance_at
from drogo.mdp import MDP, check_mdp


@dataclass(frozen=True)
class Perron:
    """The vector of a continuing task, its eigenvalue, and their accuracy."""

    log_e: Float[np.ndarray, " states"]
    """`v`, the log of the positive eigenvector of `W = diag(exp(r/lam)) P`, 0 in `reference`."""
    log_eigenvalue: float
    bracket: tuple[float, float]
    """Collatz-Wielandt bounds of `log_eigenvalue`, valid for any positive vector."""
    residual: float
    """The largest `|(W e)(s) / (eigenvalue e(s)) - 1|`."""
    error: float
    """The estimated largest error of an entry of `log_e`."""
    lam: float
    reference: int
    """The state in which `log_e` is 0."""

    @property
    def eigenvalue(self) -> float:
        """The largest eigenvalue of `W`, which may be beyond the range of a float."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_eigenvalue))

    @property
    def gain(self) -> float:
        """The gain per step, `lam log(eigenvalue)`.

        Where each action has one outcome, it is the average reward of the optimal policy, less
        `lam` times its divergence from the default policy, and no policy has more. Random outcomes
        count as if they could be chosen, at the cost of their divergence.
        """
        return self.lam * self.log_eigenvalue

    @property
    def status(self) -> Literal["converged", "inaccurate"]:
        """Whether every entry is accurate."""
        limit = tolerance_at(float(np.abs(self.log_e).max(initial=0.0)))
        good = self.residual <= limit and self.error <= limit and np.isfinite(self.log_eigenvalue)
        return "converged" if good else "inaccurate"

    def checked(self) -> Perron:
        """Returns this solution, or raises `NotConverged` if some entry is not accurate."""
        if self.status != "converged":
            raise NotConverged(
                f"the vector at lam = {self.lam:g} is not accurate: its residual is "
                f"{self.residual:.1e} and the estimated error of a log entry {self.error:.1e}.",
                remedy=LARGER_LAM,
            )
        return self

    def policy(self, mdp: MDP) -> Float[np.ndarray, "states actions"]:
        """Computes the optimal policy of the MDP: `d(a|s) E[exp(v(s'))]`, normalised."""
        logits = np.full((check_mdp(mdp).n_states, mdp.n_actions), -np.inf)
        for action, matrix in enumerate(mdp.transitions):
            entries = matrix.tocoo()
            after = np.log(entries.data) + self.log_e[entries.col]
            np.logaddexp.at(logits[:, action], entries.row, after)
        with np.errstate(divide="ignore"):
            logits += np.log(mdp.default_policy)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    def average_reward(self, mdp: MDP) -> float:
        """Computes the average reward per step of the optimal policy of the MDP."""
        return average_reward(mdp, self.policy(mdp))


def perron(mdp: MDP, lam: float, reference: int = 0) -> Perron:
    """Computes the vector of a continuing task, and its gain.

    Args:
        mdp: An MDP without terminal states, all of whose states can reach each other. Its rewards
            may have any sign.
        lam: The temperature lambda, positive.
        reference: The state in which the vector is 0. Another one shifts the vector by a constant.

    Returns:
        The solution. If it is inaccurate, its `status` says so; `solution.checked()` then raises.

    Raises:
        ArgumentError: An argument cannot be used, or the vector is not defined for this MDP.
    """
    lam = check_positive("lam", lam)
    if check_mdp(mdp).terminal.any():
        problem = f"this MDP is not a continuing task: {int(mdp.terminal.sum())} state(s) end it."
        raise ArgumentError(problem, remedy="Use exact.log_column.", argument="mdp")
    return perron_of_edges(edges_of(mdp, lam), lam, reference)


def perron_of_edges(edges: WeightedEdges, lam: float, reference: int = 0) -> Perron:
    """Computes the vector of a continuing task from its transitions under the default policy, whose
    rewards may depend on the action and on the next state. Their gains are `r / lam`."""
    lam = check_positive("lam", lam)
    reference = check_whole("reference", reference, 0, edges.n - 1)
    parts, label = strong_classes(edges.state, edges.next_state, edges.n)
    if parts > 1:
        other = int(np.flatnonzero(label != label[reference])[0])
        raise ArgumentError(
            f"the states fall into {parts} classes that cannot all reach each other (states "
            f"{reference} and {other} are in two of them), and the vector vanishes on some.",
            remedy="Remove the states that are never visited again, or mark those that are never "
            "left as terminal and use exact.log_column.",
        )
    solution = growth(edges, np.ones(edges.n, dtype=bool))
    log_e = solution.log_e - solution.log_e[reference]
    return Perron(log_e, *solution[1:], lam=lam, reference=reference)


def average_reward(mdp: MDP, policy: Float[np.ndarray, "states actions"]) -> float:
    """Computes the average reward per step of a policy in an MDP without terminal states.

    The stationary distribution is computed from positive terms alone.

    Raises:
        ArgumentError: The policy does not fit the MDP, or its average depends on the first state.
        NotConverged: Some probabilities are too small to compute the stationary distribution.
    """
    expected = (check_mdp(mdp).n_states, mdp.n_actions)
    if mdp.terminal.any():
        raise ArgumentError("some state of this MDP is terminal.", argument="mdp")
    if policy.shape != expected or not (policy >= 0).all():
        problem = f"policy has shape {policy.shape}; expected {expected}, none below 0."
        raise ArgumentError(problem, argument="policy")
    if np.abs(policy.sum(axis=1) - 1).max() > 1e-9:
        raise ArgumentError("policy does not sum to 1 in every state.", argument="policy")
    shares = zip(mdp.transitions, policy.T, strict=True)
    chain = sp.csr_array(sum(matrix.multiply(share[:, None]) for matrix, share in shares))
    kept = _recurrent(chain)
    chain = sp.csr_array(chain[kept][:, kept])
    reward = mdp.reward[kept]
    if kept.size == 1:
        return float(reward[0])
    chain = chain.multiply(1 / np.asarray(chain.sum(axis=1)).ravel()[:, None]).tocoo()
    off = (chain.row != chain.col) & (chain.data > 0)
    row, column = chain.row[off].astype(np.int64), chain.col[off].astype(np.int64)
    log_weight = np.log(chain.data[off])
    # The matrix is I - P', whose columns sum to 0.
    n = kept.size
    leaving = np.bincount(row, chain.data[off], n)
    total = leaving - np.bincount(column, chain.data[off], n)
    rows = Rows(column, row, log_weight, leaving, total, np.zeros(n))
    # The fixed state is one that is visited often: 200 steps of a lazy chain show which.
    transposed, time = sp.csr_array(chain).T.tocsr(), np.full(n, 1 / n)
    for _ in range(200):
        time = (time + transposed @ time) / 2
    fixed = np.arange(n) == int(np.argmax(time))
    try:
        log_time, _ = log_solve(rows, fixed, np.zeros(n))
    except NoPositiveSolution as error:
        raise NotConverged(
            f"the stationary distribution of this policy could not be computed: {error}",
            remedy="Set probabilities far below the precision of a float to 0.",
        ) from error
    time = np.exp(log_time - log_time.max())
    return float(time @ reward / time.sum())


def _recurrent(chain: sp.csr_array) -> Int[np.ndarray, " states"]:
    """Returns the recurrent states of a chain, which must be one class."""
    moves = chain.tocoo()
    row, column = moves.row[moves.data > 0], moves.col[moves.data > 0]
    parts, label = strong_classes(row, column, chain.shape[0])
    is_left = np.zeros(parts, dtype=bool)
    is_left[label[row[label[row] != label[column]]]] = True
    closed = np.flatnonzero(~is_left)
    if closed.size > 1:
        first, second = (int(np.flatnonzero(label == part)[0]) for part in closed[:2])
        problem = f"policy never leads between states {first} and {second}; its average depends "
        raise ArgumentError(problem + "on the first state.", argument="policy")
    return np.flatnonzero(label == closed[0])
