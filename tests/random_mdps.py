"""Random MDPs that hypothesis can shrink: stochastic, sparse, every state reaching an end."""

import numpy as np
from hypothesis import strategies as st

from drogo import MDP


def random_mdp(seed, states, ends=1, actions=2, branching=3, costs=(0.1, 20.0), connected=True):
    """A chain keeps every state able to reach an end; random jumps do the rest."""
    rng = np.random.default_rng(seed)
    live = states - ends
    P = np.zeros((actions, states, states))
    for a in range(actions):
        for s in range(live):
            following = rng.integers(0, states, size=branching)
            P[a, s, following] += rng.random(branching)
            P[a, s, s + 1 if s + 1 < live or connected else live + s % ends] += 0.1
            P[a, s] /= P[a, s].sum()
    if connected and ends > 1:  # every end is entered from somewhere in the one chain
        for k in range(ends):
            P[0, k % live, live + k] += 0.3
            P[0, k % live] /= P[0, k % live].sum()
    low, high = np.log(costs)
    r = np.where(np.arange(states) < live, -np.exp(rng.uniform(low, high, states)), 0.0)
    policy = rng.dirichlet(np.ones(actions), size=states)
    return MDP.from_arrays(P, r, np.arange(live, states), default_policy=policy)


@st.composite
def recipes(draw, max_states=12, max_ends=3):
    """Arguments of `random_mdp`. (Made inside the test: beartype draws random numbers of its own,
    which hypothesis does not allow while it draws.)"""
    ends = draw(st.integers(1, max_ends))
    return {
        "seed": draw(st.integers(0, 2**31)),
        "states": draw(st.integers(ends + 2, max_states)),
        "ends": ends,
        "actions": draw(st.integers(1, 3)),
    }
