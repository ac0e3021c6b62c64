"""Learned values as pure JAX functions."""

import jax.numpy as jnp
import numpy as np
import pytest

from drogo import GDO, Column, Continuing, Drogo, Regression, fit
from small_data import CHAIN, data_of, ring


@pytest.mark.parametrize("method", [GDO(updates=2), Drogo(updates=2)])
def test_value_fn_is_the_map_with_and_without_given_terminal_values(method):
    solution = fit(data_of(CHAIN), Column(), method)
    values = solution.value_fn()
    np.testing.assert_allclose(values(jnp.asarray(solution.observations)), solution.v[0], rtol=1e-5)
    assert values(jnp.asarray(solution.observations[:0])).shape == (0,)


def test_value_fn_of_a_task_that_never_ends():
    solution = fit(ring()[0], Continuing(), Regression(updates=2))
    at_table = solution.value_fn()(jnp.asarray(solution.observations))
    np.testing.assert_allclose(at_table, solution.v[0], rtol=1e-5, atol=1e-6)
