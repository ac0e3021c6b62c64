"""Reference values of the four paper worlds, computed independently, to all their digits."""

import numpy as np
import pytest

from drogo import MDP, GridWorld, exact
from drogo.exact.definitions import successor_eigenvector, successor_representation

# world, lam, states, smallest eigenvalue of R - P~, top eigenvalue of (Z + Z^T)/2,
# min of column / representation / transition, cosine of each of the last two with column
REFERENCE = [
    ("grid-task", 20, 104, -0.0850703814, 28317.639064, -8.4879, -9.6565, -11.7817, 0.99573, 0.99595),
    ("four-rooms", 20, 104, -0.0762746360, 26926.409363, -11.9755, -13.0790, -14.1715, 0.99773, 0.99064),
    ("grid-maze", 20, 162, -0.0349712842, 22989.674119, -39.2058, -40.0863, -49.1399, 0.99991, 0.99968),
    ("grid-room", 20, 272, -0.0534232295, 25051.824940, -27.8893, -28.8937, -34.9704, 0.99971, 0.99791),
    ("grid-maze", 1.3, 162, -0.0088248814, 1307.386647, -183.2245, -183.8924, -184.3147, 1.0, 1.0),
]  # fmt: skip


def cosine(a, b):
    return a @ b / np.sqrt((a @ a) * (b @ b))


@pytest.mark.parametrize("reference", REFERENCE, ids=lambda row: f"{row[0]}-{row[1]}")
def test_reference(reference):
    name, lam, states, smallest, top, column, representation, transition, cos_r, cos_t = reference
    mdp = GridWorld.load(name).mdp
    by = {d: exact.solve(mdp, float(lam), d) for d in ("column", "representation", "transition")}
    assert mdp.n_states == states
    assert round(by["transition"].eigenvalue, 10) == smallest
    assert round(by["representation"].eigenvalue, 6) == top
    assert round(by["column"].log_e.min(), 4) == column
    assert round(by["representation"].log_e.min(), 4) == representation
    assert round(by["transition"].log_e.min(), 4) == transition
    assert round(cosine(by["representation"].log_e, by["column"].log_e), 5) == cos_r
    assert round(cosine(by["transition"].log_e, by["column"].log_e), 5) == cos_t


def test_a_chain_by_hand():
    """Two states and a goal, r/lam = -log 2, so R = 2: e1 = (e0 + 1)/4, e0 = (e0 + e1)/4."""
    P = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
    mdp = MDP.from_arrays(P, [-np.log(2)] * 2 + [0.0], [2])
    # 2 e0 = e0/2 + e1/2 and 2 e1 = e0/2 + 1/2: e0 = e1/3, e1 (2 - 1/6) = 1/2
    assert np.allclose(np.exp(exact.log_column(mdp, 1.0)), [1 / 11, 3 / 11, 1.0], rtol=1e-14)


def test_one_state_by_hand():
    """One state, r/lam = -log 3, a fair coin between staying and the goal; Z is 2 x 2."""
    mdp = MDP.from_arrays(np.array([[0.5, 0.5], [0.0, 1.0]]), [-np.log(3), 0.0], [1])
    Z = exact.default_representation(mdp, 1.0, delta=np.log(2))  # R_T - 1 = 1
    assert np.allclose(Z, np.linalg.inv([[2.5, -0.5], [0.0, 1.0]]), rtol=1e-14)
    solution = exact.solve(mdp, 1.0, "transition", delta=np.log(2))
    # [[2.5, -0.25], [-0.25, 1]]: (3.5 - sqrt(1.5^2 + 0.25)) / 2
    assert solution.eigenvalue == pytest.approx((3.5 - np.sqrt(2.5)) / 2, abs=1e-14)
    low, high = solution.bracket
    assert low - 1e-15 <= solution.eigenvalue <= high + 1e-15


def test_successor_representation_by_hand():
    """A goal one step away, discount 1/2: SR = [[1, 1/2], [0, 1]], symmetrised top (1, 1)."""
    mdp = MDP.from_arrays(np.array([[0.0, 1.0], [0.0, 0.0]]), [-1.0, 0.0], [1])
    assert np.allclose(successor_representation(mdp, 0.5), [[1.0, 0.5], [0.0, 1.0]])
    assert np.allclose(successor_eigenvector(mdp, 0.5), np.sqrt([0.5, 0.5]), rtol=1e-14)


@pytest.mark.parametrize("name", ["grid-room", "four-rooms-multigoal"])
def test_successor_eigenvector_against_numpy(name):
    mdp = GridWorld.load(name).mdp
    sr = np.linalg.inv(np.eye(mdp.n_states) - 0.99 * mdp.P.toarray())
    assert np.allclose(successor_representation(mdp, 0.99), sr, rtol=1e-9, atol=1e-300)
    _, vectors = np.linalg.eigh((sr + sr.T) / 2)
    assert np.allclose(successor_eigenvector(mdp, 0.99), np.abs(vectors[:, -1]), atol=1e-9)
