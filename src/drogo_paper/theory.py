"""The propositions of section 3, checked numerically on small random MDPs in double precision."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drogo.exact import default_representation, log_column, solve
from drogo.learn import Objective
from drogo.learn.methods import Paper
from drogo.mdp import MDP
from drogo.problems import Column
from drogo_paper.scope import Answer, Get, Question, Scope, Table

LAM, DELTA, STATES, WORLDS = 20.0, 0.001, 6, 20
Matrix = np.ndarray


def random_chain(rng: np.random.Generator) -> MDP:
    """Returns an MDP whose last state is terminal and can be reached from every state."""
    P = rng.random((STATES, STATES)) * (rng.random((STATES, STATES)) < 0.5)
    P += 0.3 * np.eye(STATES, k=1)
    P /= np.maximum(P.sum(axis=1, keepdims=True), 1e-12)
    r = np.append(-rng.uniform(0.5, 20, STATES - 1), 0.0)
    return MDP.from_arrays(P, r, [STATES - 1])


def matrices(mdp: MDP) -> tuple[np.ndarray, np.ndarray]:
    """Returns R and P with absorbing terminal states."""
    P = mdp.P.toarray() + np.diag(mdp.terminal.astype(float))
    r = np.where(mdp.terminal, -DELTA, mdp.reward)
    return np.diag(np.exp(-r / LAM)), P


def smallest_eigenvector(M: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(M)
    e = vectors[:, values.argmin()]
    return e * np.sign(e.sum())


def definition(mdp: MDP, R: Matrix, P: Matrix, rng: np.random.Generator) -> float:
    """Z = (R - P)^-1."""
    Z = default_representation(mdp, LAM, delta=DELTA)
    return float(np.abs(Z @ (R - P) - np.eye(mdp.n_states)).max())


def same_eigenvectors(mdp: MDP, R: Matrix, P: Matrix, rng: np.random.Generator) -> float:
    """3.1: I + R - P~ has the eigenvectors of R - P~."""
    M = R - (P + P.T) / 2
    e = smallest_eigenvector(M)
    shifted = smallest_eigenvector(np.eye(len(M)) + M)
    exact = np.exp(solve(mdp, LAM, "transition", delta=DELTA).checked().log_e)
    return float(max(np.abs(e - shifted).max(), np.abs(e - exact).max()))


def quadratic_form_as_a_sum(
    R: Matrix, P: Matrix, rng: np.random.Generator, corrected: bool
) -> float:
    """3.2: u'(I + R - P~)u as a sum over transitions, as printed or with row sums of P~."""
    sym = (P + P.T) / 2
    u = rng.normal(size=len(P))
    pairs = 0.5 * (sym * (u[:, None] - u[None, :]) ** 2).sum() + u @ R @ u
    rows = np.diag(sym.sum(axis=1)) if corrected else np.eye(len(P))
    form = u @ (rows + R - sym) @ u
    return float(abs(pairs - form) / abs(form))


def gdo_loss(mdp: MDP, R: Matrix, P: Matrix, rng: np.random.Generator) -> float:
    """3.3: the expected loss is the sum, with the penalty unbiased (s and s'' independent)."""
    n, b, c = len(P), 0.7, 1.3
    u = rng.normal(size=n)
    expected = 0.0
    for s in range(n):
        for following in range(n):
            for extra in range(n):
                loss = 0.5 * (u[s] - u[following]) ** 2 + R[s, s] * u[s] ** 2
                loss += b * (u[s] ** 2 - c) * (u[extra] ** 2 - c)
                expected += loss * P[s, following] / n**2
    pairs = 0.5 * (P * (u[:, None] - u[None, :]) ** 2).sum() / n
    direct = pairs + (np.diag(R) * u**2).mean() + b * ((u**2).mean() - c) ** 2
    return float(abs(expected - direct) / abs(direct))


def intended_sample(mdp: MDP, R: Matrix, P: Matrix, rng: np.random.Generator) -> float:
    """3.3: the mean of (1 + R) u(s)^2 - u(s) u(s') is u'(I + R - P~)u / n, for every P."""
    n = len(P)
    u = rng.normal(size=n)
    mean = 0.0
    for s in range(n):
        for following in range(n):
            sample = (1 + R[s, s]) * u[s] ** 2 - u[s] * u[following]
            mean += P[s, following] * sample / n
    form = u @ (np.eye(n) + R - (P + P.T) / 2) @ u / n
    return float(abs(mean - form) / abs(form))


def metric(mdp: MDP, R: Matrix, P: Matrix, rng: np.random.Generator) -> float:
    """3.5: |exp(v + dv) - exp(v)|^2 = dv' diag(exp(2v)) dv for small dv."""
    v, dv = rng.normal(size=5), 1e-6 * rng.normal(size=5)
    moved = ((np.exp(v + dv) - np.exp(v)) ** 2).sum()
    return float(abs(moved / (dv**2 * np.exp(2 * v)).sum() - 1))


def natural_gradient(mdp: MDP, R: Matrix, P: Matrix, rng: np.random.Generator) -> float:
    """3.7: exp(-2v) times the gradient in v is R1 - exp(-v) P~ u + b(u'u - c)1, up to a factor 2
    that b and the step size absorb."""
    sym, b, c = (P + P.T) / 2, 0.5, 1.0
    v = rng.normal(size=len(P))
    u = np.exp(v)

    def objective(v: np.ndarray) -> float:
        e = np.exp(v)
        return float(e @ (R - sym) @ e + b / 2 * (e @ e - c) ** 2)

    h = 1e-6
    away = h * np.eye(len(P))
    gradient = np.array([objective(v + d) - objective(v - d) for d in away]) / (2 * h)
    natural = np.exp(-2 * v) * gradient / 2
    printed = np.diag(R) - np.exp(-v) * (sym @ u) + b * (u @ u - c)
    return float(np.abs(natural - printed).max() / np.abs(printed).max())


def sampled_bracket(mdp: MDP, R: Matrix, P: Matrix, rng: np.random.Generator) -> float:
    """3.8: the bracket of one transition is, on average, the s-th entry (with P, not P~)."""
    v = rng.normal(size=len(P))
    n = len(P)
    mean = [sum(P[s, t] * (R[s, s] - np.exp(v[t] - v[s])) for t in range(n)) for s in range(n)]
    entry = np.diag(R) - np.exp(-v) * (P @ np.exp(v))
    return float(np.abs(np.array(mean) - entry).max())


def anchored_minimum(mdp: MDP, R: Matrix, P: Matrix, rng: np.random.Generator) -> float:
    """3.10: with v(s_T) = 0 the loss is stationary at a column of the DR."""
    live = ~mdp.terminal
    e = np.exp(log_column(mdp, LAM))
    return float(np.abs(((R - P) @ e)[live]).max())


def columns_span_the_eigenvector(mdp: MDP, R: Matrix, P: Matrix, rng: np.random.Generator) -> float:
    """3.11: as delta vanishes, the right Perron vector of Z tends to its terminal column."""
    right = solve(mdp, LAM, "right", delta=1e-9).checked().log_e
    column = log_column(mdp, LAM)
    terminal = mdp.terminal.argmax()
    return float(np.abs((right - right[terminal]) - column).max())


@cache
def _slope_of_drogo() -> Callable[..., Any]:
    """The derivative of the loss of one transition with respect to v(s), without a cap."""
    objective = Objective(Column(lam=LAM), Paper())

    def slopes(v: Any, v_next: Any, cost: Any, terminated: Any) -> Any:
        v_next = objective.next_output(v_next, terminated, jnp.zeros_like(v_next))
        return objective.slopes(v, v_next, jnp.log(cost), terminated, jnp.zeros(()), None)

    return jax.jit(slopes)


def drogo_loss(mdp: MDP, R: Matrix, P: Matrix, rng: np.random.Generator) -> float:
    """3.13: the mean of the loss's gradient is the anchored natural gradient, by enumeration."""
    terminal = int(mdp.terminal.argmax())
    v = rng.normal(size=len(P)).astype(np.float32)
    s, t = np.divmod(np.arange(P.size), len(P))
    cost = np.diag(R)[s].astype(np.float32)
    slopes = np.asarray(_slope_of_drogo()(v[s], v[t], cost, t == terminal))
    mean = (P.ravel() * slopes).reshape(P.shape).sum(axis=1)
    anchored = np.where(np.arange(len(P)) == terminal, 0.0, v)
    entry = np.diag(R) - (P * np.exp(anchored[None] - v[:, None])).sum(axis=1)
    live = ~mdp.terminal
    return float((np.abs(mean - entry) / (np.abs(entry) + 1))[live].max())


Check = Callable[[MDP, Matrix, Matrix, np.random.Generator], float]

CHECKS: list[tuple[str, str, float, Check, str]] = [
    ("section 2", "Z (R - P) = I", 1e-9, definition, ""),
    ("proposition 3.1", "I + R - P~ has the same smallest eigenvector", 1e-8,
     same_eigenvectors, ""),
    ("proposition 3.2, as printed", "u'(I + R - P~)u as a sum over transitions", 1e-12,
     lambda mdp, R, P, rng: quadratic_form_as_a_sum(R, P, rng, corrected=False),
     "needs rows of P~ that sum to 1: P doubly stochastic, which no absorbing state allows"),
    ("proposition 3.2, corrected", "u'(diag(P~1) + R - P~)u as that sum", 1e-12,
     lambda mdp, R, P, rng: quadratic_form_as_a_sum(R, P, rng, corrected=True), ""),
    ("proposition 3.3", "expected loss of gdo, with its unbiased penalty", 1e-12, gdo_loss, ""),
    ("proposition 3.3, another sample", "(1 + exp(-r/λ)) u(s)² - u(s) u(s') on average", 1e-12,
     intended_sample, "u'(I + R - P~)u for every P: the objective gdo_intended of the ablation"),
    ("proposition 3.5", "the metric is diag(exp(2v))", 1e-4, metric, "to first order in dv"),
    ("proposition 3.7", "the natural gradient in closed form", 1e-6, natural_gradient,
     "against finite differences"),
    ("proposition 3.8", "a sampled bracket is right on average", 1e-12, sampled_bracket,
     "with P: sampling goes forwards, and P~ would need backward samples too"),
    ("proposition 3.10", "the anchored loss is stationary at a column", 1e-12,
     anchored_minimum, ""),
    ("theorem 3.11", "right eigenvector tends to the column", 1e-6, columns_span_the_eigenvector,
     "at delta = 1e-9"),
    ("theorem 3.13", "mean gradient of the DROGO loss", 1e-5, drogo_loss, "in single precision"),
]  # fmt: skip


def theory(scope: Scope, get: Get) -> Answer:
    rows, held = [], 0
    for where, what, limit, check, note in CHECKS:
        rng = np.random.default_rng(0)
        chains = (random_chain(rng) for _ in range(WORLDS))
        worst = max(check(mdp, *matrices(mdp), rng) for mdp in chains)
        holds = worst <= limit
        held += holds
        rows.append([where, what, f"{worst:.1e}", "holds" if holds else "does not hold", note])
    failed = [row[0] for row in rows if row[3] != "holds"]
    verdicts: dict[str, Any] = {row[0]: row[3] for row in rows}
    return Answer(
        "The theory, checked numerically",
        "section 3 and appendix B",
        f"{held} of {len(rows)} statements hold to rounding on {WORLDS} random MDPs of {STATES} "
        f"states. Those that do not: {', '.join(failed) or 'none'}.",
        tables=[Table(["statement", "in words", "largest deviation", "verdict", "note"], rows)],
        numbers=verdicts,
    )


QUESTIONS = {"theory": Question(theory)}
