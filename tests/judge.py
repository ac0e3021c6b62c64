"""The 100-digit judge: dense matrices in python-flint, written independently of the library."""

import flint
import numpy as np

flint.ctx.dps = 100


def matrices(mdp, lam, terminal="absorbing", delta=0.001):
    """`R - P` at 100 digits."""
    n = mdp.n_states
    P = mdp.P.toarray()
    reward = mdp.reward.copy()
    if terminal == "absorbing":
        P[mdp.terminal, mdp.terminal] = 1.0
        reward[mdp.terminal] = -delta
    M = flint.arb_mat(n, n, [flint.arb(-x) for x in P.ravel()])
    for i in range(n):
        M[i, i] += (-flint.arb(reward[i]) / flint.arb(lam)).exp()
    return M


def target(M, definition):
    """The matrix whose Perron vector is asked for, and whether its eigenvalue is the smallest."""
    if definition == "transition":
        return (M + M.transpose()) / 2, True
    if definition == "representation":
        Z = M.inv()
        return (Z + Z.transpose()) / 2, False
    return M, True


def log_unit(vector):
    """Log of the unit-norm vector; `vector` is a list of arb, all of one sign."""
    sign = 1 if max(vector, key=lambda e: abs(e).mid()) > 0 else -1
    vector = [sign * e for e in vector]
    norm = sum((e * e for e in vector), flint.arb(0)).sqrt()
    return np.array([float((e / norm).log().mid()) if e > 0 else -np.inf for e in vector])


def by_eigendecomposition(mdp, lam, definition, terminal="absorbing", delta=0.001):
    """All eigenvectors at 100 digits, then the one of the extreme real eigenvalue."""
    A, smallest = target(matrices(mdp, lam, terminal, delta), definition)
    values, vectors = flint.acb_mat(A).eig(right=True, algorithm="approx")
    real = [float(v.real.mid()) for v in values]
    k = int(np.argmin(real) if smallest else np.argmax(real))
    return log_unit([vectors[i, k].real.mid() for i in range(mdp.n_states)]), real[k]


def by_inverse_iteration(mdp, lam, definition, near, terminal="absorbing", delta=0.001, steps=12):
    """The eigenvector nearest `near` at 100 digits: much faster, and as exact."""
    A, _ = target(matrices(mdp, lam, terminal, delta), definition)
    n = mdp.n_states
    shift = flint.arb(near) * (1 + flint.arb("1e-9")) + flint.arb("1e-12")
    for i in range(n):
        A[i, i] -= shift
    inverse = A.inv()
    x = flint.arb_mat(n, 1, [1] * n)
    for _ in range(steps):
        x = inverse * x
        largest = max(x.entries(), key=lambda e: abs(e).mid())
        x = flint.arb_mat(n, 1, [(e / largest).mid() for e in x.entries()])
    return log_unit(x.entries())


def column(mdp, lam, boundary=None):
    """`(R_N - P_NN)^-1 P_NT exp(boundary)` at 100 digits, in logs."""
    end = mdp.terminal
    inside, ends = np.flatnonzero(~end), np.flatnonzero(end)
    M = matrices(mdp, lam)
    values = mdp.reward[end] / lam if boundary is None else boundary
    A = flint.arb_mat(len(inside), len(inside), [M[int(i), int(j)] for i in inside for j in inside])
    b = [
        -sum(
            (M[int(i), int(j)] * flint.arb(v).exp() for j, v in zip(ends, values, strict=True)),
            flint.arb(0),
        )
        for i in inside
    ]
    x = A.solve(flint.arb_mat(len(inside), 1, b))
    log_e = np.empty(mdp.n_states)
    log_e[ends] = values
    log_e[inside] = [float(e.log().mid()) for e in x.entries()]
    return log_e
