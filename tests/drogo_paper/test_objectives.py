"""The objective from outside of the library: numbers worked out by hand."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drogo import GDO, Column, collect, fit
from drogo.exact import solve
from drogo.learn import Optimiser, Sample, Table
from drogo.worlds.grid import GridWorld
from drogo_paper.recipes import IntendedGDO

P = np.array([[0, 1, 0], [0.5, 0, 0.5], [0, 0, 1]])
COST, U = np.array([2.0, 3.0, 1.0]), np.array([1.0, 2.0, 3.0])
"""A chain of three states, the last of which absorbs: R = diag(2, 3, 1) and u = (1, 2, 3)."""


def sample(cost, moment):
    one = jnp.ones(())
    numbers = (jnp.log(jnp.float32(cost)), jnp.asarray(False), jnp.float32(moment), None, one, one)
    return Sample(Column(), *numbers)


def summed(kind):
    """The expected loss of a state, without its penalty, summed over the states of the chain."""
    u, loss, pairs = jnp.asarray(U, jnp.float32), kind(penalty=1e-9).loss, np.argwhere(P)
    return sum(P[s, t] * float(loss(u[s], u[t], sample(COST[s], 0.0))) for s, t in pairs)


def test_loss_slopes_and_mean_by_hand():
    """u = 2, u' = 1, cost 3: 4*4 - 2 + 0.5*(4-1)*(4-1) = 18.5, d/du = 16 - 1 + 0.5*4*3 = 21, and
    d/du' = -2."""
    method, point = IntendedGDO(penalty=0.5), (jnp.float32(2), jnp.float32(1))
    both = jax.value_and_grad(lambda a, b: method.loss(a, b, sample(3.0, 4.0)), (0, 1))(*point)
    assert [float(number) for number in jax.tree.leaves(both)] == pytest.approx([18.5, 21.0, -2.0])
    # u'(I + R)u = 3 + 4*4 + 2*9 = 37 and u'Pu = 2 + 2*(1+3)/2 + 9 = 15, so u'(I + R - P)u = 22.
    # The printed loss gives 2.5 + 12.5 + 9 = 24. The difference is that of the columns of P from
    # 1: (-0.5*1 + 0*4 + 0.5*9) / 2 = 2.
    assert (summed(IntendedGDO), summed(GDO)) == (pytest.approx(22), pytest.approx(24))


def test_it_learns_the_eigenvector_that_the_paper_defines():
    """With the printed loss, a log entry ends 1.8 away from it."""
    world = GridWorld.parse("########\n#S.x..G#\n########")
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation="state")
    data = collect(env, 50_000, seed=0)
    truth = {"transition": solve(world.mdp, 20.0, "transition").checked().log_e}
    rest = {"network": Table(), "optimiser": Optimiser("rmsprop", 1e-3, "constant")}
    settings = {"updates": 2000, "batch_size": "all", "weigh_actions": False, "stop_early": False}
    for kind, least, most in ((IntendedGDO, 0, 0.05), (GDO, 1, 2)):
        result = fit(data, Column(), kind(**settings), truth=truth, **rest)
        assert least < result.history["difference_transition"][-1, 0] < most
