"""`MDP.from_gymnasium` on the environments of Gymnasium and on difficult ones."""

import gymnasium
import numpy as np
import pytest

from drogo import MDP, Column, GridWorld, exact, solve
from drogo.errors import ArgumentError, ArgumentTypeError, MDPError
from drogo.mdp import Costs
from raising import raises, refused


def test_tables_of_gymnasium():
    env = gymnasium.make("FrozenLake-v1", is_slippery=True)
    # Steps are free, and a hole pays nothing: as bad as ten of the longest episodes, of 100 steps.
    expected = [-1000.0 if s in (5, 7, 11, 12) else -1.0 * (s != 15) for s in range(16)]
    for options in ({}, {"reward": -1.0}):
        mdp = MDP.from_gymnasium(env, **options)
        assert mdp.reward[[mdp.states.index(s) for s in range(16)]] == pytest.approx(expected)
        assert any("worth -1000" in note for note in solve(mdp, Column()).notes)
    mdp = MDP.from_gymnasium(env, reward=Costs(step=2.0, worth=0.0))
    assert sorted(set(mdp.reward)) == [-2.0, 0.0]
    hole = {5, 7, 11, 12}
    mdp = MDP.from_gymnasium(env, reward=lambda s: -50.0 if s in hole else -1.0 * (s != 15))
    assert mdp.n_states == 16
    assert {mdp.states[i] for i in np.flatnonzero(mdp.terminal)} == hole | {15}
    # Slippery: from state 14, action 2 (right) goes up, right or down, a third each.
    row = mdp.transitions[2][[mdp.states.index(14)]].toarray()[0]
    third = pytest.approx(1 / 3)
    assert {mdp.states[i]: p for i, p in enumerate(row) if p} == {10: third, 14: third, 15: third}
    v = exact.log_column(mdp, 5.0)
    assert (v[mdp.states.index(15)], v[mdp.states.index(5)]) == (0, -10)
    assert v[mdp.states.index(14)] > v[mdp.states.index(4)]
    newest = max(key for key in gymnasium.registry if key.startswith("Taxi-v"))  # others warn
    mdp = MDP.from_gymnasium(gymnasium.make(newest), reward=-1.0)
    assert (mdp.n_states, mdp.terminal.sum(), mdp.start.sum()) == (404, 4, pytest.approx(1))
    assert (np.count_nonzero(mdp.start), exact.solve(mdp, 20.0).status) == (300, "converged")


@pytest.mark.parametrize("observation", ["state", "coordinates", "one-hot"])
def test_search_finds_the_mdp_of_a_map(observation):
    world = GridWorld.load("four-rooms")
    env = gymnasium.make("drogo/FourRooms-v0", observation=observation)
    mdp = MDP.from_gymnasium(env, state=lambda e: e.unwrapped.state)
    order = np.array(mdp.states)
    assert mdp.n_states == world.n_states
    for ours, theirs in zip(mdp.transitions, world.mdp.transitions, strict=True):
        assert np.array_equal(ours.toarray(), theirs.toarray()[np.ix_(order, order)])
    assert np.array_equal(mdp.reward, world.reward[order])
    assert np.allclose(exact.log_column(mdp, 20.0), exact.log_column(world.mdp, 20.0)[order])
    assert world.mdp.start[mdp.states[0]] == 1
    env = gymnasium.make("drogo/FourRooms-v0", observation=observation, start="uniform")
    several = MDP.from_gymnasium(env, state=lambda e: e.unwrapped.state, seed=[0, 1, 2, 3])
    assert several.start.sum() == pytest.approx(1)
    assert np.count_nonzero(several.start) > 1


class Line(gymnasium.Env):
    """Six cells; `alias` hides a bit of the state, `noise` makes moves random."""

    observation_space = gymnasium.spaces.Dict({"cell": gymnasium.spaces.Discrete(6)})
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, alias=False, noise=False, end=5, pays=-1.0):
        self.alias, self.noise, self.end, self.pays = alias, noise, end, pays

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.visits = 0, 0
        return {"cell": 0}, {}

    def step(self, action):
        self.visits += 1
        move = -1 if self.noise and self.np_random.random() < 0.5 else 1
        if self.alias and self.cell == 3 and self.visits > 4:
            move = 0
        self.cell = int(np.clip(self.cell + move * (2 * action - 1), 0, 5))
        return {"cell": self.cell}, self.pays, self.cell == self.end, False, {}


def test_dictionaries_and_observations_become_keys_and_tables():
    assert solve(MDP.from_gymnasium(Line()), Column()).status == ("converged",)
    unsure = solve(MDP.from_gymnasium(Line(pays=0.0), reward=-1.0), Column())
    assert unsure.status == ("unverified",)
    assert any("taken for goals" in note for note in unsure.notes)
    for end in (5, 99):
        mdp = MDP.from_gymnasium(Line(end=end))
        assert set(mdp.states) == {(("cell", cell),) for cell in range(6)}
        assert mdp.terminal.sum() == (end == 5)
    by_observation = MDP.from_gymnasium(gymnasium.make("drogo/FourRooms-v0"))
    coordinates = GridWorld.load("four-rooms").observations("coordinates").tolist()
    assert {tuple(row) for row in coordinates} == set(by_observation.states)
    # A start that also ends episodes, outcomes of probability 0, and the names of states.
    with raises(MDPError, "env"):
        MDP.from_gymnasium(Tabled(0, *([(1.0, (s + 1) % 4, s == 3)] for s in range(4))))
    end, loop = [(1.0, 2, True)], [(1.0, 3, False)]
    never = Tabled(0, [(1.0, 1, False), (0.0, 3, False)], [(1.0, 2, True)], end, loop)
    assert MDP.from_gymnasium(never).states == [0, 1, 2]
    mdp = MDP.from_gymnasium(Tabled(1, loop, [(0.5, 3, False), (0.5, 2, True)], end, loop))
    assert [mdp.states[k] for k in np.flatnonzero(mdp.stuck)] == [3]


def test_environments_without_a_finite_deterministic_mdp_and_wrong_types(unchecked):
    refused(MDPError, "max_states", MDP.from_gymnasium, Line(), max_states=3)
    pole = gymnasium.make("CartPole-v1")
    refused(MDPError, "max_states", MDP.from_gymnasium, pole, max_states=50)
    for env in (Line(alias=True), Line(noise=True), gymnasium.make("Pendulum-v1")):
        refused(MDPError, "env", MDP.from_gymnasium, env)
    refused(ArgumentError, "reward", MDP.from_gymnasium, Line(), reward=10**400)
    for seed in (2.5, -1, [0.5], []):
        refused(ArgumentError, "seed", MDP.from_gymnasium, Line(), seed=seed)
    for env in ("FrozenLake-v1", 3, gymnasium.vector.SyncVectorEnv([Line])):
        refused(ArgumentTypeError, "env", MDP.from_gymnasium, env)


class Tabled(gymnasium.Env):
    """An environment that consists of its table alone, with one action and outcomes of -1."""

    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(self, start, *outcomes):
        self.initial_state_distrib = np.eye(1, 4, start)[0]
        rows = [[(share, after, -1.0, over) for share, after, over in row] for row in outcomes]
        self.P = {s: {0: row} for s, row in enumerate(rows)}


def test_index_of():
    """The data have the states of the MDP in another order, and not all of them."""
    mdp = MDP.from_gymnasium(gymnasium.make("FrozenLake-v1", is_slippery=False), reward=-1.0)
    seen = np.array([15, 4, 0])
    index = mdp.index_of(seen)
    assert [mdp.states[k] for k in index] == [15, 4, 0]
    index = mdp.index_of(seen * 2, key=lambda twice: int(twice) // 2)
    assert [mdp.states[k] for k in index] == [15, 4, 0]
    refused(MDPError, "observations", mdp.index_of, np.array([15, 99]))
    states = [((0, 1),), ((2, 3),)]  # arrays as the keys of a search
    mdp = MDP.from_arrays([[0.0, 1.0], [0.0, 0.0]], [-1.0, 0.0], [1], states=states)
    assert mdp.index_of(np.array([[[2, 3]], [[0, 1]]])).tolist() == [1, 0]
