"""Random MDPs that hypothesis can shrink: stochastic, sparse, with reachable terminal states."""

import numpy as np
from hypothesis import strategies as st

from drogo import MDP, GridWorld


def corridor(cells):
    """Makes a corridor with a goal at its right end."""
    wall = "#" * (cells + 2)
    return GridWorld.parse(f"{wall}\n#S{'.' * (cells - 2)}G#\n{wall}").mdp


def random_mdp(seed, states, terminals=1, actions=2, branching=3, costs=(0.1, 20.0)):
    """Makes a chain, so that every state can reach a terminal state, or else the first one, and adds
    random jumps."""
    rng, live = np.random.default_rng(seed), states - terminals
    P = np.zeros((actions, states, states))
    for a in range(actions):
        for s in range(live):
            following = rng.integers(0, states, size=branching)
            P[a, s, following] += rng.random(branching)
            P[a, s, (s + 1) % states] += 0.1
            P[a, s] /= P[a, s].sum()
    if terminals > 1:  # Each is entered from some state of the chain.
        for k in range(terminals):
            P[0, k % live, live + k] += 0.3
            P[0, k % live] /= P[0, k % live].sum()
    low, high = np.log(costs)
    r = np.where(np.arange(states) < live, -np.exp(rng.uniform(low, high, states)), 0.0)
    policy = rng.dirichlet(np.ones(actions), size=states)
    return MDP.from_arrays(P, r, np.arange(live, states), default_policy=policy)


@st.composite
def recipes(draw, max_states=12):
    """Draws arguments of `random_mdp`. The test makes the MDP, because beartype uses random numbers,
    which hypothesis does not allow in a strategy."""
    terminals = draw(st.integers(1, 3))
    return {
        "seed": draw(st.integers(0, 2**31)),
        "states": draw(st.integers(terminals + 2, max_states)),
        "terminals": terminals,
        "actions": draw(st.integers(1, 3)),
    }


def dense(mdp, lam, delta=0.001):
    """Returns R and P with absorbing terminal states, in plain NumPy."""
    P = mdp.P.toarray()
    P[mdp.terminal, mdp.terminal] = 1.0
    r = np.where(mdp.terminal, -delta, mdp.reward)
    return np.diag(np.exp(-r / lam)), P
