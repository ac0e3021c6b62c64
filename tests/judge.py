"""Solutions at 100 digits, by dense matrices in python-flint without error bounds."""

import flint
import numpy as np

flint.ctx.dps = 100


def matrices(mdp, lam, terminal="absorbing", delta=0.001):
    """Returns `R - P`."""
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


def inverse(M):
    n = M.nrows()
    identity = flint.arb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])
    return M.solve(identity, algorithm="approx")


def target(M, definition):
    """Returns the matrix of a definition, and whether its smallest eigenvalue is the one sought."""
    if definition == "transition":
        return (M + M.transpose()) / 2, True
    if definition == "representation":
        Z = inverse(M)
        return (Z + Z.transpose()) / 2, False
    return M, True


def log_unit(vector):
    """Returns the log of a vector of unit norm; `vector` is a list of arb, all of one sign."""
    sign = 1 if max(vector, key=lambda e: abs(e).mid()) > 0 else -1
    vector = [sign * e for e in vector]
    norm = sum((e * e for e in vector), flint.arb(0)).sqrt()
    return np.array([float((e / norm).log().mid()) if e > 0 else -np.inf for e in vector])


def by_eigendecomposition(mdp, lam, definition, terminal="absorbing", delta=0.001):
    """Returns the eigenvector of the extreme real eigenvalue, and that eigenvalue."""
    A, smallest = target(matrices(mdp, lam, terminal, delta), definition)
    values, vectors = flint.acb_mat(A).eig(right=True, algorithm="approx")
    real = [float(v.real.mid()) for v in values]
    k = int(np.argmin(real) if smallest else np.argmax(real))
    return log_unit([vectors[i, k].real.mid() for i in range(mdp.n_states)]), real[k]


def by_inverse_iteration(mdp, lam, definition, near, terminal="absorbing", delta=0.001, steps=12):
    """Computes the eigenvector of the eigenvalue near `near`, which is faster and equally exact."""
    A, _ = target(matrices(mdp, lam, terminal, delta), definition)
    n = mdp.n_states
    shift = flint.arb(near) * (1 + flint.arb("1e-9")) + flint.arb("1e-12")
    for i in range(n):
        A[i, i] -= shift
    inverted = inverse(A)
    x = flint.arb_mat(n, 1, [1] * n)
    for _ in range(steps):
        x = inverted * x
        largest = max(x.entries(), key=lambda e: abs(e).mid())
        x = flint.arb_mat(n, 1, [(e / largest).mid() for e in x.entries()])
    return log_unit(x.entries())


def column(mdp, lam, terminal_reward=None):
    """Computes `(R_N - P_NN)^-1 P_NT exp(terminal_reward / lam)`, in logs."""
    inside, terminal = np.flatnonzero(~mdp.terminal), np.flatnonzero(mdp.terminal)
    M = matrices(mdp, lam)
    rewards = mdp.reward[terminal] if terminal_reward is None else terminal_reward
    values = [flint.arb(float(r)) / flint.arb(lam) for r in rewards]
    A = flint.arb_mat(len(inside), len(inside), [M[int(i), int(j)] for i in inside for j in inside])
    B = flint.arb_mat([[-M[int(i), int(j)] for j in terminal] for i in inside])
    b = (B * flint.arb_mat(len(values), 1, [v.exp() for v in values])).entries()
    x = A.solve(flint.arb_mat(len(inside), 1, b), algorithm="approx")
    log_e = np.empty(mdp.n_states)
    log_e[terminal] = [float(v.mid()) for v in values]
    log_e[inside] = [float(e.log().mid()) for e in x.entries()]
    return log_e


def columns(mdp, lam, digits=100):
    """Computes `log Z(s, g) - log Z(g, g)`, a row for each goal, where terminal rows are zero. Small
    entries of a column need many digits; those below half of them count as zero."""

    def log(entry, scale):
        return float((entry / scale).log().mid()) if entry > least * scale else -np.inf

    with flint.ctx.workdps(digits):
        Z, states = inverse(matrices(mdp, lam, "zero-row")), range(mdp.n_states)
        least = flint.arb(10) ** (-digits // 2)
        return np.array([[log(Z[s, g], Z[g, g]) for s in states] for g in states])


def soft(mdp, lam):
    """Computes v of `Soft` by policy iteration, from the default policy on."""
    n, d, arb = mdp.n_states, mdp.default_policy, flint.arb
    P = [flint.arb_mat(part.toarray().tolist()) for part in mdp.transitions]
    pi = [[arb(float(share)) for share in row] for row in d]
    for _ in range(12):  # the number of right digits doubles
        A = flint.arb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])
        b = [arb(float(r)) / arb(lam) for r in mdp.reward]
        for s in np.flatnonzero(~mdp.terminal).tolist():
            for a, share in enumerate(pi[s]):
                b[s] -= share * (share / float(d[s, a])).log()
                for t in range(n):
                    A[s, t] = (A[s, t] - share * P[a][s, t]).mid()
        v = A.solve(flint.arb_mat(n, 1, [x.mid() for x in b]), algorithm="approx")
        after = [part * v for part in P]
        for s in np.flatnonzero(~mdp.terminal).tolist():
            top = max(q[s, 0] for q in after)
            weight = [float(d[s, a]) * (q[s, 0] - top).exp() for a, q in enumerate(after)]
            pi[s] = [(w / sum(weight)).mid() for w in weight]
    return np.array([float(x.mid()) for x in v.entries()])
