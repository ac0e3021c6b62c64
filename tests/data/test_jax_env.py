"""`collect` on environments that are pure JAX functions, in the interfaces of gymnax and navix."""

from collections import namedtuple
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace as Space

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from drogo import collect
from drogo.data import jax_env
from drogo.errors import AlreadyExists, ArgumentError, ArgumentTypeError, DataError
from raising import refused

GOAL, LIMIT = 4, 9


State = namedtuple("State", "at time")


@jax.tree_util.register_dataclass
@dataclass
class Params:
    max_steps_in_episode: int = LIMIT
    slip: float = 0.25


class Line:
    """A walk from 0 or 1 to 4 that sometimes does not move, in the interface of gymnax 1.0."""

    default_params, space = Params(), Space(n=2, shape=())

    def reset(self, key, params):
        state = State(jax.random.randint(key, (), 0, 2), jnp.asarray(0))
        return self.seen(state), state

    def step_env(self, key, state, action, params):
        moves = jax.random.uniform(key) >= params.slip
        at = jnp.clip(state.at + jnp.where(moves, 2 * action - 1, 0), 0, GOAL)
        after = State(at, state.time + 1)
        reward, over = jnp.where(at == GOAL, -4.0, -1.0), self.over(after, params)
        return self.seen(after), after, reward, over, {"terminal_reward": -3.0}

    def over(self, state, params):
        return state.at == GOAL

    def is_truncated(self, state, params):
        return state.time >= params.max_steps_in_episode

    def action_space(self, params):
        return self.space

    def seen(self, state):
        return jnp.array([state.at, -state.at], dtype=jnp.float32)


class OldLine(Line):
    """The same before gymnax 1.0: done includes the time limit."""

    is_truncated = property()  # no such method

    def over(self, state, params):
        return (state.at == GOAL) | (state.time >= params.max_steps_in_episode)


class Timestep(namedtuple("Timestep", "observation reward step_type state key info")):
    def is_termination(self):
        return self.step_type == 2

    def is_truncation(self):
        return self.step_type == 1


class NavixLine:
    """The same in the interface of navix, whose timestep holds everything, also a key."""

    action_space, max_steps, line = Space(minimum=0, maximum=1, n=2, shape=()), LIMIT, Line()

    def reset(self, key):
        key, at = jax.random.split(key)
        _, state = self.line.reset(at, Params())
        return self.at(state, 0.0, key, jnp.asarray(0))

    def step(self, timestep, action):
        key, at = jax.random.split(timestep.key)
        _, state, reward, over, _ = self.line.step_env(at, timestep.state, action, Params())
        kind = jnp.where(over, 2, jnp.where(state.time >= LIMIT, 1, 0))
        after, again = self.at(state, reward, key, kind), self.reset(key)
        return jax.tree.map(partial(jnp.where, timestep.step_type > 0), again, after)

    def at(self, state, reward, key, kind):
        info = {"terminal_reward": jnp.array(-3.0)}
        return Timestep(self.line.seen(state), jnp.asarray(reward), kind, state, key, info)


KINDS = {"gymnax": Line, "older gymnax": OldLine, "navix": NavixLine}


def places(data):
    return (data.observations[rows][:, 0] for rows in (data.state, data.next_state))


@pytest.mark.parametrize("kind", KINDS)
def test_steps_follow_the_world_and_a_time_limit_is_no_terminal_state(kind):
    data = collect(KINDS[kind](), 8000, seed=0)
    before, after = places(data)
    assert (len(data), len(data.observations), data.n_actions) == (8000, 5, 2)
    assert np.array_equal(after == GOAL, data.terminated)
    assert not (before == GOAL).any()
    counts, _, _ = np.histogram2d(before, after, bins=(range(GOAL + 1), range(GOAL + 2)))
    expected = np.array([[5, 3, 0, 0, 0], [3, 2, 3, 0, 0], [0, 3, 2, 3, 0], [0, 0, 3, 2, 3]]) / 8
    visits = counts.sum(axis=1, keepdims=True)
    assert np.abs(counts / visits - expected).max() < 5 * 0.5 / visits.min() ** 0.5
    assert data.follows_default
    assert data.action.mean() == pytest.approx(0.5, abs=0.03)
    walkers = 8000 // LIMIT
    both = np.stack([data.terminated, data.truncated])[:, : LIMIT * walkers]
    terminated, truncated = both.reshape(2, LIMIT, walkers)
    assert truncated.any()
    assert terminated[LIMIT - 1].any()  # in the very step in which the time is over too
    time = np.zeros(walkers, dtype=int)
    for over, cut in zip(terminated, truncated, strict=True):
        time += 1
        assert np.array_equal(cut, (time == LIMIT) & ~over)
        time[over | cut] = 0
    assert set(data.reward) == {-1.0}  # the terminal value was taken out of it
    assert np.array_equal(data.terminal_reward, -3.0 * data.terminated)


def test_an_episode_has_one_row_for_each_observation_and_many_loops_are_one(monkeypatch, tmp_path):
    sampled = partial(collect, Line(), 3000, seed=0)
    whole, single, walkers = sampled(), sampled(merge=False), 3000 // LIMIT
    begun, over = len(single.observations) - 3000, single.terminated | single.truncated
    assert over.sum() < begun <= over.sum() + walkers
    goes_on = ~over[:-walkers]
    assert np.array_equal(single.next_state[:-walkers][goes_on], single.state[walkers:][goes_on])
    monkeypatch.setattr(jax_env, "ROWS_AT_ONCE", 700)
    parts = (sampled(merge=merge, file=tmp_path / f"{merge}.bin") for merge in (True, False))
    for data in (single, *parts):
        assert np.array_equal(data.reward, whole.reward)
        np.testing.assert_array_equal([*places(data)], [*places(whole)])
    refused(AlreadyExists, "file", collect, Line(), 10, seed=0, file=tmp_path / "True.bin")


def test_seeds_parameters_and_parts_of_a_dict():
    first, again, other = (collect(Line(), 500, seed=s) for s in (1, 1, 2))
    assert np.array_equal(first.state, again.state)
    assert not np.array_equal(first.action, other.action)
    before, after = places(collect((Line(), replace(Params(), slip=0.0)), 2000, seed=0))
    assert (np.abs(after - before)[before > 0] == 1).all()
    assert len(collect((Line(), Params(max_steps_in_episode=10_000)), 50, seed=0)) == 50

    class Parts(Line):
        def seen(self, state):
            both = jnp.array([[state.at], [state.time]], dtype=jnp.float32)
            return {"at": state.at, "both": both}

    data = collect(Parts(), 500, seed=0, key=("both", "at"))
    assert (data.observations[:, 0] == data.observations[:, 2]).all()


def test_policies_and_functions_of_a_step():
    def mostly_right(observation, key):
        assert observation.shape == (2,)
        return (jax.random.uniform(key) < 0.8).astype(jnp.int32)

    options = {
        "behaviour": lambda step: jnp.where(step.action == 1, 0.8, 0.2),
        "reward": lambda step: -1.0 - step.next_observation[0],
        "terminal_reward": lambda step: -step.observation[0],
    }
    data = collect(Line(), 2000, seed=0, policy=mostly_right, **options)
    _, after = places(data)
    np.testing.assert_allclose(data.reward, -1 - after)
    np.testing.assert_allclose(data.behaviour, np.where(data.action == 1, 0.8, 0.2), rtol=1e-6)
    assert data.action.mean() == pytest.approx(0.8, abs=0.05)
    assert set(data.terminal_reward[data.terminated]) == {-(GOAL - 1)}
    data = collect(Line(), 500, seed=0, policy=mostly_right, reward=-0.1, terminal_reward=-0.3)
    assert (set(data.reward), set(data.terminal_reward[data.terminated])) == ({-0.1}, {-0.3})
    assert data.behaviour is None


@pytest.mark.parametrize("kind", ["gymnax", "navix"])
def test_a_start_function(kind):
    def near_the_goal(env, key):
        place, time = jax.random.randint(key, (), 1, GOAL), jnp.asarray(0)
        if kind == "gymnax":
            return env.seen(State(place, time)), State(place, time)
        return env.at(State(place, time), 0.0, key, jnp.asarray(0))

    before, after = places(collect(KINDS[kind](), 1500, seed=0, start=near_the_goal))
    assert np.bincount(before.astype(int)).tolist() == pytest.approx([0, 500, 500, 500], abs=90)
    assert (np.abs(after - before) <= 1).all()


class Smooth(Line):
    space = Space(low=-1.0, high=3.0, shape=(1,))

    def step_env(self, key, state, action, params):
        assert action.shape == (1,)
        return super().step_env(key, state, (action[0] > 1).astype(jnp.int32), params)


def test_vectors_as_actions():
    data = collect(Smooth(), 1000, seed=0)
    assert data.action.shape == (1000, 1)
    assert [data.action.min(), data.action.max()] == pytest.approx([-1, 3], abs=0.1)
    np.testing.assert_allclose(data.default, 0.25)
    assert data.follows_default
    nine = lambda observation, key: jnp.array([9.0])  # noqa: E731
    refused(DataError, "action", collect, Smooth(), 1000, seed=0, policy=nine)

    def with_space(space):
        return type("WithSpace", (Smooth,), {"space": space})()

    navix = Space(minimum=jnp.array([-1.0]), maximum=jnp.array([1.0]), shape=(1,))
    np.testing.assert_allclose(collect(with_space(navix), 100, seed=0).default, 0.5)
    for unknown in (Space(n=3, shape=(2,)), object()):
        refused(ArgumentTypeError, "env", collect, with_space(unknown), 10, seed=0)
    unbounded = with_space(Space(low=-np.inf, high=np.inf, shape=(1,)))
    refused(ArgumentError, "policy", collect, unbounded, 10, seed=0)


class Wrapper:
    """Its step resets by itself, and everything else is that of the environment inside."""

    inside = Line()

    def step(self, key, state, action, params=None):
        raise NotImplementedError

    def __getattr__(self, name):
        return getattr(self.inside, name)


def test_environments_that_lose_something_and_wrong_arguments():
    """The last observation of an episode, or the difference between its end and a time limit."""
    unlimited = type("Unlimited", (OldLine,), {"default_params": None})()
    for env in (Wrapper(), unlimited):
        refused(ArgumentTypeError, "env", collect, env, 10, seed=0)
    for kind, argument, options in (
        (ArgumentError, "start", {"start": "uniform"}),
        (ArgumentError, "reward", {"reward": 1.0}),
        (ArgumentError, "behaviour", {"behaviour": lambda step: 1.0}),
        (ArgumentTypeError, None, {"policy": lambda observation, key: int(observation[0] > 1)}),
        (ArgumentTypeError, None, {"reward": lambda step: -1.0 if step.terminated else -2.0}),
        (DataError, "action", {"policy": lambda observation, key: 7}),
    ):
        refused(kind, argument, collect, Line(), 200, seed=0, **options)
