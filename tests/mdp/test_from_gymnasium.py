"""`MDP.from_gymnasium` on Gymnasium's own environments and on awkward ones."""

import gymnasium
import numpy as np
import pytest

from drogo import MDP, GridWorld, MDPError, exact


def newest(name):
    """Old versions warn, and warnings are errors here."""
    return max(key for key in gymnasium.registry if key.startswith(f"{name}-v"))


def test_frozen_lake():
    env = gymnasium.make("FrozenLake-v1", is_slippery=True)
    with pytest.raises(MDPError, match="not a function of the state that is left"):
        MDP.from_gymnasium(env)
    hole = {5, 7, 11, 12}
    mdp = MDP.from_gymnasium(env, reward=lambda s: -50.0 if s in hole else -1.0 * (s != 15))
    assert mdp.n_states == 16
    assert {mdp.states[i] for i in np.flatnonzero(mdp.terminal)} == hole | {15}
    # Slippery: from state 14, action 2 (right) goes up, right or down, a third each.
    row = mdp.transitions[2][[mdp.states.index(14)]].toarray()[0]
    assert {mdp.states[i]: round(p, 6) for i, p in enumerate(row) if p} == {
        10: 0.333333,
        15: 0.333333,
        14: 0.333333,
    }
    v = exact.log_column(mdp, 5.0)
    assert v[mdp.states.index(15)] == 0
    assert v[mdp.states.index(5)] == -10
    assert v[mdp.states.index(14)] > v[mdp.states.index(4)]


def test_taxi_keeps_what_a_start_can_reach():
    mdp = MDP.from_gymnasium(gymnasium.make(newest("Taxi")), reward=-1.0)
    assert mdp.n_states == 404
    assert mdp.terminal.sum() == 4
    assert mdp.start.sum() == pytest.approx(1)
    assert np.count_nonzero(mdp.start) == 300
    assert exact.solve(mdp, 20.0).status == "converged"


def test_cliff_walking():
    env = gymnasium.make(newest("CliffWalking"))
    with pytest.raises(MDPError, match=r"action \d can give -1.* and action \d -100"):
        MDP.from_gymnasium(env)
    mdp = MDP.from_gymnasium(env, reward=-1.0)
    assert [mdp.states[i] for i in np.flatnonzero(mdp.terminal)] == [47]
    assert mdp.states[int(mdp.start.argmax())] == 36


@pytest.mark.parametrize("observation", ["state", "coordinates", "one-hot"])
def test_search_finds_our_own_worlds(observation):
    """The MDP found by walking the environment is the one read off the map."""
    world = GridWorld.load("four-rooms")
    env = gymnasium.make("drogo/FourRooms-v0", observation=observation)
    found = MDP.from_gymnasium(env, state=lambda e: e.unwrapped.state)
    order = np.array(found.states)
    assert found.n_states == world.n_states
    for a in range(4):
        walked = found.transitions[a].toarray()
        assert np.array_equal(walked, world.mdp.transitions[a].toarray()[np.ix_(order, order)])
    assert np.array_equal(found.reward, world.reward[order])
    assert np.allclose(exact.log_column(found, 20.0), exact.log_column(world.mdp, 20.0)[order])
    assert world.mdp.start[found.states[0]] == 1


def test_search_by_observation():
    found = MDP.from_gymnasium(gymnasium.make("drogo/GridTask-v0"))
    coordinates = GridWorld.load("grid-task").observations("coordinates")
    assert {tuple(row) for row in coordinates.tolist()} == set(found.states)


class Line(gymnasium.Env):
    """Six cells; `alias` hides a bit of the state, `noise` makes moves random."""

    observation_space = gymnasium.spaces.Dict({"cell": gymnasium.spaces.Discrete(6)})
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, alias=False, noise=False, end=5):
        self.alias, self.noise, self.end = alias, noise, end

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.visits = 0, 0
        return {"cell": 0}, {}

    def step(self, action):
        self.visits += 1
        move = 1 if action == 1 else -1
        if self.noise and self.np_random.random() < 0.5:
            move = -move
        if self.alias and self.cell == 3 and self.visits > 4:
            move = 0
        self.cell = int(np.clip(self.cell + move, 0, 5))
        return {"cell": self.cell}, -1.0, self.cell == self.end, False, {}


def test_dictionary_observations_become_keys():
    mdp = MDP.from_gymnasium(Line())
    assert mdp.states[0] == (("cell", 0),)
    assert mdp.n_states == 6


def test_an_environment_that_never_ends():
    mdp = MDP.from_gymnasium(Line(end=99))
    assert not mdp.terminal.any()
    assert mdp.n_states == 6


def test_what_a_search_cannot_do():
    with pytest.raises(MDPError, match=r"more than max_states = 3 states"):
        MDP.from_gymnasium(Line(), max_states=3)
    with pytest.raises(MDPError, match="reached in two ways"):
        MDP.from_gymnasium(Line(alias=True))
    with pytest.raises(MDPError, match="reached in two ways"):
        MDP.from_gymnasium(Line(noise=True))
    with pytest.raises(MDPError, match="more than max_states = 50 states. A continuous"):
        MDP.from_gymnasium(gymnasium.make("CartPole-v1"), max_states=50)
    with pytest.raises(MDPError, match="needs a Discrete action space"):
        MDP.from_gymnasium(gymnasium.make("Pendulum-v1"))


@pytest.mark.usefixtures("unchecked")
def test_a_reward_that_is_no_number():
    with pytest.raises(ValueError, match="reward is 1000.*; it must be a finite number"):
        MDP.from_gymnasium(Line(), reward=10**400)


class Tabled(gymnasium.Env):
    """An environment that is nothing but its table."""

    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(self, P, start):
        self.P, self.initial_state_distrib = P, np.eye(1, 4, start)[0]


def test_a_start_that_also_ends_episodes():
    cycle = {s: {0: [(1.0, (s + 1) % 4, -1.0, s == 3)]} for s in range(4)}
    with pytest.raises(MDPError, match="or episodes begin there"):
        MDP.from_gymnasium(Tabled(cycle, 0))


def test_outcomes_of_probability_zero_do_not_count():
    P = {
        0: {0: [(1.0, 1, -1.0, False), (0.0, 3, -9.0, False)]},
        1: {0: [(1.0, 2, -1.0, True)]},
        2: {0: [(1.0, 2, 0.0, True)]},
        3: {0: [(1.0, 3, -1.0, False)]},
    }
    assert MDP.from_gymnasium(Tabled(P, 0)).states == [0, 1, 2]


def test_errors_name_the_environments_own_states():
    P = {
        1: {0: [(0.5, 3, -1.0, False), (0.5, 2, -1.0, True)]},
        2: {0: [(1.0, 2, 0.0, True)]},
        3: {0: [(1.0, 3, -1.0, False)]},
        0: {0: [(1.0, 0, -1.0, False)]},
    }
    with pytest.raises(MDPError, match="cannot reach a terminal state .*: state 3"):
        MDP.from_gymnasium(Tabled(P, 1))


def test_several_starts():
    env = gymnasium.make("drogo/GridTask-v0", observation="state", start="uniform")
    mdp = MDP.from_gymnasium(env, state=lambda e: e.unwrapped.state, seed=[0, 1, 2, 3])
    assert mdp.start.sum() == pytest.approx(1)
    assert np.count_nonzero(mdp.start) > 1


def test_a_vector_in_the_order_of_the_data():
    """The MDP has its states in another order than the data, which do not hold all of them."""
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    mdp = MDP.from_gymnasium(env, reward=-1.0)
    seen = np.array([15, 4, 0])
    index = mdp.index_of(seen)
    assert [mdp.states[k] for k in index] == [15, 4, 0]
    assert [mdp.states[k] for k in mdp.index_of(seen * 2, key=lambda twice: int(twice) // 2)] == [
        15,
        4,
        0,
    ]
    with pytest.raises(
        MDPError, match="observation 1 is 99, which is none of the .* states .*key="
    ):
        mdp.index_of(np.array([15, 99]))


def test_arrays_are_found_among_the_states_of_a_search():
    mdp = MDP.from_arrays(
        np.array([[0.0, 1.0], [0.0, 0.0]]), [-1.0, 0.0], [1], states=[((0, 1),), ((2, 3),)]
    )
    assert mdp.index_of(np.array([[[2, 3]], [[0, 1]]])).tolist() == [1, 0]
