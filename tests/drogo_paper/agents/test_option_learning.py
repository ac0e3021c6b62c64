"""Q-learning with options: values worked out by hand, and agents without options."""

import jax.numpy as jnp
import numpy as np

from drogo import GridWorld
from drogo.errors import ArgumentError
from drogo_paper.agents import ExactDefault, Kind, Training, learn_with_options
from drogo_paper.agents.option_learning import Offered, Rules, advance, first_agents
from drogo_paper.agents.options import TabularOption
from raising import raises

CORRIDOR = GridWorld.parse("######\n#S..G#\n######")
RIGHT, DOWN, LEFT, UP = range(4)
NEVER = 0.9999  # of two numbers: explores with epsilon 1, and takes the last choice that there is


def to_the_right(ends):
    return TabularOption(np.full(4, RIGHT), np.array(ends), np.zeros(4))


def agents_with(option, **settings):
    """One run with primitive actions and one option."""
    may, does = np.ones((1, 4, 5), dtype=bool), np.tile(np.arange(5, dtype=np.int32), (1, 4, 1))
    may[0, :, 4], does[0, :, 4] = ~option.ends, option.action
    offered = Offered(jnp.asarray(may), jnp.asarray(does), jnp.asarray([True]))
    rules = Rules.of(CORRIDOR, Training(100, discount=0.5, epsilon=1.0), step_size=0.5)
    rules = rules._replace(**{name: jnp.int32(value) for name, value in settings.items()})
    return rules, offered, first_agents(rules, offered)


def walk(rules, offered, agents, which):
    """Takes the steps in which these numbers choose."""
    for number in which:
        agents = advance(rules, offered, agents, jnp.array([[[0.0], [number]]], jnp.float32))[0]
    return agents


def test_the_value_of_an_option_by_hand():
    """Three steps to the goal, each of -1, halved each time: -1 - 1/2 - 1/4, and half of that.

    The primitive action is taught by each step, too: -1 + 1/2 * 0, and half of that.
    """
    rules, offered, agents = agents_with(to_the_right([False, False, False, True]))
    agents = walk(rules, offered, agents, [NEVER] * 3)
    q = np.asarray(agents.q)[0]
    assert q[0, 4] == -1.75 / 2
    assert q[:3, RIGHT].tolist() == [-0.5, -0.5, -0.5]
    assert q[1:3, 4].tolist() == [0, 0]
    after = walk(rules, offered, agents, [0.0])  # the goal is left with a step that teaches nothing
    np.testing.assert_array_equal(agents.q, after.q)
    assert int(after.state[0]) == 0
    assert np.asarray(after.tried)[0, 3].all()
    counted = (
        agents.state,
        agents.counters.arrival,
        agents.counters.inside,
        agents.counters.reward,
    )
    assert [float(part[0]) for part in counted] == [3, 3, 3, -3]


def test_an_option_that_ends_on_the_way_bootstraps():
    """It ends after two steps, in a state whose best value is 0 where nothing was tried yet."""
    rules, offered, agents = agents_with(to_the_right([False, False, True, True]))
    agents = agents._replace(q=agents.q.at[0, 2, :4].set(-2.0))
    agents = walk(rules, offered, agents, [NEVER] * 2)
    assert float(agents.q[0, 0, 4]) == (-1 - 0.5 + 0.25 * -2) / 2


def test_an_option_is_cut_at_its_limit_and_the_episode_at_its_own():
    option = to_the_right([False, False, False, True])
    rules, offered, agents = agents_with(option, limit=2)
    agents = walk(rules, offered, agents, [NEVER] * 2)
    assert float(agents.q[0, 0, 4]) == -1.5 / 2
    assert bool(agents.over[0])
    rules, offered, agents = agents_with(option, step_limit=2)
    agents = walk(rules, offered, agents, [NEVER] * 2)
    assert (int(agents.state[0]), int(agents.time[0]), bool(agents.over[0])) == (0, 0, True)
    assert float(agents.q[0, 0, 4]) == 0  # the option was not over, so nothing is known of it


def test_agents_learn_the_way_and_a_seed_does_not_depend_on_others():
    def kinds():
        given = Kind(options=[to_the_right([False, False, False, True])])
        return {"none": Kind(), "given": given, "online": Kind(vectors=ExactDefault())}

    training = Training(20, steps=300, every=50)
    both = learn_with_options(CORRIDOR, kinds(), training, seeds=[1, 2], discoveries=3)
    alone = learn_with_options(CORRIDOR, {"none": Kind()}, training, seeds=[2])
    for name, agents in both.items():
        assert agents.runs.returns[:, -1].tolist() == [-3, -3], name
        assert np.isfinite(agents.runs.steps_to_optimal).all()
    np.testing.assert_array_equal(both["none"].runs.returns[1], alone["none"].runs.returns[0])
    np.testing.assert_array_equal(both["none"].runs.q[1, :, :4], alone["none"].runs.q[0, :, :4])
    assert both["none"].inside.tolist() == [0, 0]
    assert (both["given"].inside > 0.2).all()
    with raises(ArgumentError, "world"):
        learn_with_options(CORRIDOR.without_goals(), kinds(), training, seeds=[1])
