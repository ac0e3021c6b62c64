"""Risk-neutral values: `v = F(v)`, `F(v)(s) = log sum_a d(a|s) exp(q(s, a))` for the default policy
d and `q(s, a) = E[r/lam + v(s')]`, the mean over the outcomes of an action.

`v(s)` is the largest `E[sum of r/lam - log(pi(a|s) / d(a|s))]`, with the value of the terminal
state at its end, of all policies pi that reach one with probability 1 from every state from which
that is possible. Elsewhere it is minus infinity, and actions that may lead there are not taken.

The derivative of F at v is the transition matrix `P_pi` of `pi(a|s) = d(a|s) exp(q - F(v))`. So a
step of Newton's method, which adds `(I - P_pi)^-1 (F(v) - v)`, gives the value of pi: this is
policy iteration. It begins with d among the actions that are left, and no value ever falls.

The error is proved by multiplication. If `F(w) >= w`, then `w <= v`, because the policy that F
takes at w is worth at least w; if `F(u) <= u`, then no policy is worth more than u, because F is
monotone. Both are checked, rounding included, for vectors on either side of the result. Rewards are
taken as they are given, and the probabilities of the outcomes of an action to sum to 1 exactly.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from drogo.errors import ArgumentError, NotConverged, check_positive
from drogo.exact.growth import check_has_terminal, log_sums
from drogo.exact.positive import TOLERANCE, InLogs, NoPositiveSolution, factorise
from drogo.exact.rows import weighted_rows
from drogo.mdp.arrays import leads_to
from drogo.mdp.model import MDP, Edges

MOST_STEPS = 200
NEARLY = 1e3  # Multiples of the rounding error at which a step that gains little is the last.
RELATIVE = 1e3  # The bounds of an error are larger than those of `exact.positive`.
TERMS = 4  # The number of roundings of a sum besides one for each of its terms.
Values = Float[np.ndarray, " nodes"]
States = Float[np.ndarray, " kept"]
Pairs = Float[np.ndarray, " pairs"]


@dataclass(frozen=True)
class SoftValues(InLogs):
    """The values of states and actions, and their accuracy."""

    lam: float
    log_e: Float[np.ndarray, " states"]
    """v, minus infinity where no policy is sure to reach a terminal state, NaN if unknown."""
    actions: Float[np.ndarray, "states actions"]
    """`log d(a|s) + q(s, a)`, whose exponentials sum to exp(v(s)); minus infinity if unknown."""
    residual: float  # The largest `|F(v) - v|`.
    error: float  # A proven bound on the error of a value, infinite if nothing is proven.
    definition = "soft"
    remedies: ClassVar = {"remedy": "Use a larger lam."}

    @property
    def tolerance(self) -> float:
        return TOLERANCE + RELATIVE * (super().tolerance - TOLERANCE)


def soft_values(mdp: MDP, lam: float) -> SoftValues:
    """Computes the values of an MDP, where terminal states have their rewards over lam."""
    check_has_terminal(mdp)
    every = sp.vstack(mdp.transitions).tocoo()
    action, state = np.divmod(every.row, mdp.n_states)
    ends = np.where(mdp.terminal, mdp.reward, 0.0)[every.col]
    parts = state, every.col, every.data, mdp.reward[state], mdp.terminal[every.col], ends
    edges, default = Edges(mdp.n_states, *parts), mdp.default_policy[state, action]
    values = soft_values_of_edges(edges, action, default, lam, mdp.n_actions)
    with np.errstate(over="ignore"):
        values.log_e[mdp.terminal] = mdp.reward[mdp.terminal] / lam
    return values


def soft_values_of_edges(
    edges: Edges, action: Int[np.ndarray, " edges"], default: np.ndarray, lam: float, n_actions: int
) -> SoftValues:
    """Computes the values of a process whose edges have actions. `default` is the probability of
    the action of each edge, and the weights of edges are relative to those of the same action."""
    model, n = _Model(edges, action, default, check_positive("lam", lam)), edges.n
    v, low = model.solved()
    residual, error = model.bound(v, low)
    values = np.where(np.bincount(edges.state, minlength=n) > 0, -np.inf, np.nan)
    values[model.kept[:n]] = (v + low)[model.kept]
    actions = np.full((n, n_actions), -np.inf)
    actions[model.state, model.action] = model.logits(v, low)[0] + values[model.state]
    return SoftValues(lam, values, actions, residual, error)


class _Model:
    """The actions that lead to states of finite value, and their outcomes. The nodes are the states
    and one more for each terminal value, whose values are `fixed`. Values are sums of two arrays,
    v and low, so that differences lose no digits."""

    def __init__(self, edges: Edges, action: np.ndarray, default: np.ndarray, lam: float) -> None:
        n, over = edges.n, edges.terminated
        with np.errstate(over="ignore"):
            ends, at = np.unique(edges.terminal_reward[over] / lam, return_inverse=True)
            gain = edges.reward / lam
        if not np.isfinite(gain).all() or np.isposinf(ends).any():
            problem = f"rewards divided by lam = {lam:g} are beyond the range of a float."
            raise ArgumentError(problem, remedy="Use a larger lam.", argument="lam")
        node = edges.next_state.astype(np.int64)
        node[over] = n + at
        key = edges.state * (int(action.max(initial=0)) + 1) + action.astype(np.int64)
        first, pair = np.unique(key, return_index=True, return_inverse=True)[1:]
        alive = np.isfinite(np.r_[np.zeros(n), ends])
        self.fixed = np.where(alive, np.r_[np.zeros(n), ends], 0.0)
        while True:  # until no action that is left may lead to a state without any
            used = (np.bincount(pair, ~alive[node]) == 0)[pair] & (default > 0)
            targets = n + np.flatnonzero(alive[n:])
            leads = alive & leads_to(edges.state[used], node[used], alive.size, targets)
            if (leads == alive).all():
                break
            alive = leads
        used &= alive[edges.state]
        left, self.pair = np.unique(pair[used], return_inverse=True)
        self.state, self.action = edges.state[first[left]].astype(np.int64), action[first[left]]
        self.log_default = np.log(default[first[left]])
        self.kept = np.r_[alive[:n], np.zeros(ends.size, dtype=bool)]
        self.node, weight = node[used], edges.weight[used]
        self.share = weight / np.bincount(self.pair, weight)[self.pair]
        self.gain, self.terms = self.expected(gain[used]), self.expected(np.abs(gain[used]))

    def expected(self, of_outcome: np.ndarray) -> Pairs:
        """Returns the mean over the outcomes of each action."""
        sums = np.bincount(self.pair, self.share * of_outcome, self.state.size)
        return sums.astype(np.float64)  # NumPy's sums of no numbers are integers

    def mean(self, of_action: Pairs, log_pi: Pairs) -> Values:
        """Returns the mean over the actions of a policy in each state."""
        sums = np.bincount(self.state, np.exp(log_pi) * of_action, self.fixed.size)
        return sums.astype(np.float64)

    def logits(self, v: Values, low: Values) -> tuple[Pairs, Pairs]:
        """Returns `log d(a|s) + q(s, a) - v(s)`, and bounds of the rounding errors."""
        before = self.state[self.pair]
        step = (v[self.node] - v[before]) + (low[self.node] - low[before])
        logits = self.gain + self.expected(step) + self.log_default
        terms = self.terms + self.expected(np.abs(step))
        roundings = (np.bincount(self.pair) + TERMS) * terms + np.abs(self.log_default)
        return logits, np.finfo(float).eps * (roundings + np.abs(logits))

    def improvement(self, v: Values, low: Values) -> tuple[States, States, Pairs]:
        """Returns `F(v) - v`, bounds of its rounding errors, and the log of the policy that F takes
        at v."""
        logits, noise = self.logits(v, low)
        change = log_sums(self.state, logits, np.full(v.size, -np.inf))
        log_pi = logits - change[self.state]
        return change[self.kept], self.doubt(change, noise, log_pi), log_pi

    def doubt(self, change: Values, noise: Pairs, log_pi: Pairs) -> States:
        """Returns bounds of the rounding errors of a mean over actions."""
        count = np.bincount(self.state, minlength=change.size)
        of_sums = np.finfo(float).eps * (count + TERMS) * (1 + np.abs(change))
        return (2 * self.mean(noise, log_pi) + of_sums)[self.kept]

    def inverse(self, log_pi: Pairs) -> Any:
        """Returns the function that multiplies a vector over states by `(I - P_pi)^-1`."""
        weight = np.exp(log_pi)[self.pair] * self.share
        some = weight > 0
        parts = self.state[self.pair][some], self.node[some], weight[some], np.zeros(some.sum())
        return factorise(weighted_rows(self.kept, *parts)).lu.solve

    def solved(self) -> tuple[Values, Values]:
        """Returns the solution in two parts."""
        v, low, last, kept = self.fixed.copy(), np.zeros(self.fixed.size), np.inf, self.kept
        log_pi = self.log_default - log_sums(self.state, self.log_default, low - np.inf)[self.state]
        with suppress(NoPositiveSolution), np.errstate(over="ignore", invalid="ignore"):
            # The first policy is evaluated: E[q] - D(pi | d) - v, with bounds of rounding errors.
            logits, noise = self.logits(v, low)
            gap = self.mean(logits - log_pi, log_pi)
            change, doubt = gap[kept], self.doubt(gap, noise, log_pi)
            for step in range(MOST_STEPS):
                ratio = float((np.abs(change) / doubt).max(initial=0.0))
                if ratio <= 1 or (step and last / 2 < ratio < NEARLY):
                    return v, low
                added, before = self.inverse(log_pi)(change) + low[kept], v[kept]
                v[kept] = before + added
                low[kept], last = added - (v[kept] - before), ratio
                if not np.isfinite(v).all():
                    break
                change, doubt, log_pi = self.improvement(v, low)
        problem = "the soft values could not be computed: a cycle gains more than it loses, or "
        problem += "their differences are beyond double precision."
        raise NotConverged(problem, remedy="Lower all rewards, or use a larger lam.")

    def bound(self, v: Values, low: Values) -> tuple[float, float]:
        """Returns the residual, and a bound on the error of any value."""
        if not self.kept.any():
            return 0.0, 0.0
        change, doubt, log_pi = self.improvement(v, low)
        off, proved = np.zeros(v.size), True
        off[self.kept] = self.inverse(log_pi)(np.abs(change) + 2 * doubt)
        for sign in (1.0, -1.0):
            gap, noise, _ = self.improvement(v, low + sign * off)
            proved &= bool((sign * gap <= -noise).all())
        error = off.max() + np.finfo(float).eps * np.abs(v).max()
        return float(np.abs(change).max()), float(error) if proved else np.inf
