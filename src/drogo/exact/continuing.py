"""`perron`: the vector of a task that never ends, held in place by a reference state.

In a task that ends, `exp(v(s)) = exp(r(s)/lam) sum_s' P(s, s') exp(v(s'))`, and terminal states
hold `v` in place. In one that never ends, rewards add up without end, and what remains finite is
their surplus over what a step is worth on average. With `W = diag(exp(r/lam)) P`, it reads
`W e = k e`: the positive eigenvector of `W`, where `lam log k` is that average, and `v = log e` is
0 in a state of one's choice. Lowering all rewards by the average makes `k = 1`, which is the
equation above with the reference state as the terminal one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.sparse import csgraph

from drogo.errors import ArgumentError, NotConverged, check_positive, check_whole
from drogo.exact.growth import Growth, Steps, growth, steps_of
from drogo.exact.log_solve import NoPositiveSolution, log_solve
from drogo.exact.rows import Rows
from drogo.exact.solution import tolerance_at
from drogo.mdp import MDP


@dataclass(frozen=True)
class Perron:
    """The vector of a task that never ends, its eigenvalue, and how accurate they are."""

    log_e: Float[np.ndarray, " states"]
    """`v`, the log of the positive eigenvector of `W = diag(exp(r/lam)) P`, 0 in `reference`."""
    log_eigenvalue: float
    """The log of the eigenvalue."""
    bracket: tuple[float, float]
    """Collatz-Wielandt bounds, which hold `log_eigenvalue` whatever vector was computed."""
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
        """`lam log(eigenvalue)`: what a step is worth on average over an endless episode.

        Where each action has one outcome, it is the average reward of the optimal policy, less
        `lam` times its divergence from the default policy, and no policy has more. Where outcomes
        are left to chance, they count as if they could be chosen, at the price of their divergence.
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
                remedy="Use a larger lam: rewards of some hundred times lam are beyond the range "
                "of double precision.",
            )
        return self

    def policy(self, mdp: MDP) -> Float[np.ndarray, "states actions"]:
        """Computes the optimal policy: `d(a|s) E[exp(v(s'))]` of each action, normalised.

        Args:
            mdp: The MDP that was solved.
        """
        logits = np.full((mdp.n_states, mdp.n_actions), -np.inf)
        for action, matrix in enumerate(mdp.transitions):
            entries = matrix.tocoo()
            after = np.log(entries.data) + self.log_e[entries.col]
            np.logaddexp.at(logits[:, action], entries.row, after)
        with np.errstate(divide="ignore"):
            logits += np.log(mdp.default_policy)
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True)

    def average_reward(self, mdp: MDP) -> float:
        """Computes the average reward of a step of the optimal policy.

        Args:
            mdp: The MDP that was solved.
        """
        return average_reward(mdp, self.policy(mdp))


def perron(mdp: MDP, lam: float, reference: int = 0) -> Perron:
    """Computes the vector of a task that never ends, and what a step is worth in it.

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
    if mdp.terminal.any():
        raise ArgumentError(
            f"this task ends: it has {int(mdp.terminal.sum())} terminal state(s), which hold its "
            "vector in place.",
            remedy="Use exact.log_column, or make an MDP without terminal states.",
        )
    return perron_of_steps(steps_of(mdp, lam), lam, reference)


def perron_of_steps(steps: Steps, lam: float, reference: int = 0) -> Perron:
    """Computes the vector of a task that never ends from a list of its steps, whose rewards may
    depend on the action and on the state that is reached.

    Args:
        steps: The steps under the default policy.
        lam: The temperature, by which the rewards in `steps` are divided already.
        reference: The state in which the vector is 0.
    """
    lam = check_positive("lam", lam)
    reference = check_whole("reference", reference, 0, steps.n - 1)
    graph = sp.csr_array(
        (np.ones(steps.state.size), (steps.state, steps.next_state)), shape=(steps.n, steps.n)
    )
    parts, label = csgraph.connected_components(graph, connection="strong")
    if parts > 1:
        other = int(np.flatnonzero(label != label[reference])[0])
        raise ArgumentError(
            f"the states fall into {parts} classes that cannot all reach each other (states "
            f"{reference} and {other} are in two of them), and the positive vector of a task that "
            "never ends vanishes on some. Remove the states that are never come back to, or mark "
            "those that are never left as terminal and use exact.log_column."
        )
    found: Growth = growth(steps, np.ones(steps.n, dtype=bool))
    log_e = found.log_e - found.log_e[reference]
    return Perron(log_e, *found[1:], lam=lam, reference=reference)


def average_reward(mdp: MDP, policy: Float[np.ndarray, "states actions"]) -> float:
    """Computes the average reward of a step of a policy in a task that never ends.

    The share of time that is spent in each state is computed from positive terms alone.

    Args:
        mdp: An MDP without terminal states.
        policy: The probability of each action in each state.

    Raises:
        ArgumentError: The policy is none of this MDP, or its average depends on where it begins.
        NotConverged: Some probabilities are too small to tell where the time is spent.
    """
    expected = (mdp.n_states, mdp.n_actions)
    if policy.shape != expected or not (policy >= 0).all():
        raise ArgumentError(f"policy has shape {policy.shape}; expected {expected}, none below 0.")
    if np.abs(policy.sum(axis=1) - 1).max() > 1e-9 or mdp.terminal.any():
        raise ArgumentError("the actions of a state do not add up to 1, or some state is terminal.")
    shares = zip(mdp.transitions, policy.T, strict=True)
    whole = sp.csr_array(sum(matrix.multiply(share[:, None]) for matrix, share in shares))
    kept = _recurrent(whole)
    chain = sp.csr_array(whole[kept][:, kept])
    reward = mdp.reward[kept]
    if kept.size == 1:
        return float(reward[0])
    chain = chain.multiply(1 / np.asarray(chain.sum(axis=1)).ravel()[:, None]).tocoo()
    off = (chain.row != chain.col) & (chain.data > 0)
    row, column = chain.row[off].astype(np.int64), chain.col[off].astype(np.int64)
    log_weight = np.log(chain.data[off])
    # What leaves a state arrives elsewhere: the diagonal of I - P', whose columns sum to 0.
    n = kept.size
    leaving = np.bincount(row, chain.data[off], n)
    total = leaving - np.bincount(column, chain.data[off], n)
    rows = Rows(column, row, log_weight, leaving, total, np.zeros(n))
    fixed = np.arange(n) == int(np.argmax(_visited_roughly(chain, n)))
    try:
        log_time, _ = log_solve(rows, fixed, np.zeros(n))
    except NoPositiveSolution as error:
        raise NotConverged(
            f"the share of time that is spent in each state could not be computed: {error}",
            remedy="Probabilities far below the precision of a float may as well be 0.",
        ) from error
    time = np.exp(log_time - log_time.max())
    return float(time @ reward / time.sum())


def _recurrent(chain: sp.csr_array) -> Int[np.ndarray, " states"]:
    """Returns the states that a chain comes back to for ever, which must be one class."""
    moves = chain.tocoo()
    row, column = moves.row[moves.data > 0], moves.col[moves.data > 0]
    graph = sp.csr_array((np.ones(row.size), (row, column)), shape=chain.shape)
    parts, label = csgraph.connected_components(graph, connection="strong")
    is_left = np.zeros(parts, dtype=bool)
    is_left[label[row[label[row] != label[column]]]] = True
    closed = np.flatnonzero(~is_left)
    if closed.size > 1:
        first, second = (int(np.flatnonzero(label == part)[0]) for part in closed[:2])
        raise ArgumentError(
            f"under this policy states {first} and {second} never reach each other, so that the "
            "average depends on where it begins."
        )
    return np.flatnonzero(label == closed[0])


def _visited_roughly(chain: sp.coo_array, n: int) -> Float[np.ndarray, " n"]:
    """The share of time in each state after some hundred steps from anywhere."""
    transposed, time = sp.csr_array(chain).T.tocsr(), np.full(n, 1 / n)
    for _ in range(200):
        time = (time + transposed @ time) / 2
    return time
