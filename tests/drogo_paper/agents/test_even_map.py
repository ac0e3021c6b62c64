"""The sampling of batches for deep discovery, with shares worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drogo_paper.agents.even_map import EvenSettings
from small_world import as_steps, pure


def test_batches_are_sampled_evenly_and_from_cells_with_untried_actions():
    """At 0 one action was taken 15 times, at 1 both were, once each: of three pairs, each is a third
    of a batch, and at 0 something is left to try."""
    learner, network = pure(6000, EvenSettings(evenly=True, untried_share=0.5))
    state = learner.init(network, jax.random.key(0), jnp.zeros(1), capacity=20, sides=0.5)
    place = np.array([0.0] * 15 + [1.0, 1.0], np.float32)[:, None]

    @jax.jit
    def look(seen):
        after = learner.observe(state, seen)
        batch = learner.sampler.sample(after, jax.random.split(jax.random.key(1), 3))
        untried = after.visits.of(jnp.array([[0.0], [1.0], [3.0]])) == 0
        return after.mean, batch, untried, after.visits.are_complete

    seen = as_steps(place, np.array([0] * 15 + [0, 1]), place, np.zeros(17, bool))
    mean, batch, untried, is_done = look(seen)
    assert mean.tolist() == pytest.approx([2 / 17])
    assert not batch.observation[:3000].any()
    assert np.mean(batch.observation[3000:] == 0) == pytest.approx(1 / 3, abs=0.04)
    assert np.mean(batch.action[3000:] == 1) == pytest.approx(1 / 3, abs=0.04)
    assert untried.tolist() == [[False, True], [False, False], [True, True]]
    assert not is_done


@pytest.mark.parametrize(
    "settings",
    [{}, {"evenly": True}, {"evenly": True, "untried_share": 0.25}, {"untried_share": 0.95}],
)
def test_an_action_that_ends_sometimes_counts_as_often_as_it_does(settings):
    """At 0 the action 0 was taken 160 times and ends half of the time; elsewhere pairs are rare.
    However batches are sampled, half of the weight of that pair must be on steps that end."""
    learner, network = pure(400, EvenSettings(until_found=False, **settings))
    state = learner.init(network, jax.random.key(0), jnp.zeros(1), capacity=200, sides=0.5)
    place = np.array([0.0] * 160 + [1.0 + k // 4 for k in range(40)], np.float32)[:, None]
    ended = (np.arange(200) % 2 == 0) & (place[:, 0] == 0)
    seen = as_steps(place, np.array([0] * 160 + [0, 1, 0, 1] * 9 + [0] * 4), place + 1, ended)

    @jax.jit
    def weights(key, seen):
        after = learner.observe(state, seen)
        batch = learner.sampler.sample(after, jax.random.split(key, 3))
        weight = learner.sampler.weights(after, batch)
        here = (batch.observation[:, 0] == 0) & (batch.action == 0)
        return weight.sum(where=here & batch.terminated), weight.sum(where=here)

    total = np.array([weights(jax.random.key(k), seen) for k in range(60)]).sum(axis=0)
    assert total[0] / total[1] == pytest.approx(0.5, abs=0.03)
