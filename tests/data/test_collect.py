"""`collect`: samples from an MDP, and steps of any environment."""

import gymnasium
import numpy as np
import pytest

from drogo import MDP, GridWorld, collect
from drogo.mdp import HasMDP

FOUR_ROOMS = GridWorld.load("four-rooms")


def make(**options):
    return gymnasium.make("drogo/FourRooms-v0", **options)


@pytest.mark.parametrize("kind", ["state", "coordinates", "one-hot", "pixels"])
def test_uniform_transitions_follow_the_world(kind):
    data = collect(make(observation=kind), 20_000, seed=0)
    world = FOUR_ROOMS
    assert np.array_equal(data.observations, world.observations(kind))
    reachable = {(s, t) for s in range(world.n_states) for t in world.next_state[s]}
    assert {*zip(data.state.tolist(), data.next_state.tolist(), strict=True)} <= reachable
    assert np.array_equal(data.reward, world.reward[data.state])
    assert np.array_equal(data.terminated, world.terminal[data.next_state])
    assert not world.terminal[data.state].any()
    counts = np.bincount(data.state, minlength=104)[~world.terminal]
    assert abs(counts / 20_000 * 103 - 1).max() < 0.35  # five standard deviations


def test_same_seed_same_data():
    first, again, other = (collect(make(), 500, seed=s) for s in (1, 1, 2))
    assert np.array_equal(first.state, again.state)
    assert not np.array_equal(first.state, other.state)


PINNED = {
    "uniform": ([39, 19, 80, 97, 88, 2], [38, 18, 81, 96, 88, 1], 147),
    "reset": ([85, 66, 41, 64, 45, 64], [96, 67, 31, 58, 35, 65], 7),
}


@pytest.mark.parametrize("start", PINNED)
def test_a_seed_keeps_its_meaning(start):
    """The data of published results are drawn again from their seed alone."""
    data = collect(make(), 20_000, seed=0, start=start)
    tail = data.state[-6:].tolist(), data.next_state[-6:].tolist()
    assert (*tail, int(data.terminated.sum())) == PINNED[start]


def test_episodes_start_where_the_map_says():
    data = collect(make(observation="state"), 20_000, seed=0, start="reset")
    start = int(FOUR_ROOMS.start.argmax())
    assert (data.state[:100] == start).all()  # a hundred walkers side by side, 200 steps each
    assert np.array_equal(data.terminated, FOUR_ROOMS.terminal[data.next_state])


def test_long_episodes_are_truncated_not_terminated():
    world = GridWorld.parse("step-limit: 2\n\n#####\n#S.G#\n#####")
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation="state")
    data = collect(env, 4000, seed=0, start="reset")
    assert data.truncated.any()
    assert data.terminated.any()
    assert not (data.truncated & data.terminated).any()


def test_stepping_agrees_with_sampling():
    """With a policy of one's own the environment is stepped; it is the same world."""
    data = collect(
        make(observation="state", start="uniform"),
        3000,
        seed=0,
        start="reset",
        policy=lambda observation, rng: int(rng.integers(4)),
    )
    table = data.observations
    world = FOUR_ROOMS
    assert all(
        t in world.next_state[s]
        for s, t in zip(table[data.state], table[data.next_state], strict=True)
    )
    assert np.array_equal(data.reward, world.reward[table[data.state]])


def test_a_policy_does_not_change_where_episodes_start():
    env = make(observation="state")
    default = collect(env, 6000, seed=0)
    walk = collect(env, 6000, seed=0, policy=lambda observation, rng: int(rng.integers(4)))
    first = [data.observations[data.state[0]] for data in (default, walk)]
    assert first[0] == first[1]
    assert default.truncated.sum() == walk.truncated.sum() == 0


class Slippery(gymnasium.Env):
    """An environment that is no more than its MDP: two first states, two actions, one slips."""

    step_limit = 5
    mdp = MDP.from_arrays(
        [
            [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0] * 4],
            [[0.5, 0.2, 0.3, 0.0], [0.5, 0.5, 0.0, 0.0], [0.0, 0.9, 0.1, 0.0], [0.0] * 4],
        ],
        [-1.0, -2.0, -3.0, -7.0],
        [3],
        start=[0.75, 0.25, 0.0, 0.0],
        default_policy=[[0.2, 0.8], [1.0, 0.0], [0.5, 0.5], [0.0, 0.0]],
    )

    def all_observations(self):
        return np.arange(4) * 10.0


@pytest.mark.parametrize("start", ["uniform", "reset"])
def test_a_stochastic_mdp_is_sampled_under_its_default_policy(start):
    n = 40_000
    data = collect(Slippery(), n, seed=0, start=start)
    mdp = Slippery.mdp
    counts = np.zeros((4, 4))
    np.add.at(counts, (data.state, data.next_state), 1)
    visits = counts.sum(axis=1, keepdims=True)[:3]
    assert np.abs(counts[:3] / visits - mdp.P.toarray()[:3]).max() < 5 * 0.5 / visits.min() ** 0.5
    assert (counts[:3] > 0).sum() == mdp.P.nnz
    assert np.array_equal(data.reward, mdp.reward[data.state])
    assert set(data.terminal_reward[data.terminated]) == {-7.0}
    assert not data.terminal_reward[~data.terminated].any()


def test_first_states_follow_the_start_distribution():
    data = collect(Slippery(), 5_000, seed=0, start="reset")
    first = data.state[:1000]  # of a thousand episodes side by side
    assert set(first.tolist()) == {0, 1}
    assert (first == 0).mean() == pytest.approx(0.75, abs=0.07)
    assert data.truncated.any()


def test_our_environments_know_their_mdp():
    uniform = make(start="uniform").unwrapped
    assert isinstance(uniform, HasMDP)
    assert np.ptp(uniform.mdp.start[~uniform.mdp.terminal]) == 0
    as_drawn = make().unwrapped
    assert as_drawn.mdp is as_drawn.world.mdp
    first = collect(make(start="uniform"), 20_000, seed=0, start="reset").state[:100]
    assert np.unique(first).size > 50


def test_a_start_of_ones_own():
    def in_state_zero(env, rng):
        return env.reset(options={"state": 0})[0]

    data = collect(make(observation="state"), 50, seed=0, start=in_state_zero)
    assert not data.terminated.any()
    assert len(data.observations) <= 3


def test_any_environment():
    env = gymnasium.make("MountainCar-v0", max_episode_steps=50)
    assert not collect(env, 300, seed=0, start="reset").terminated.any()

    def near_the_top(env, rng):
        env.reset(seed=int(rng.integers(2**31)))
        env.unwrapped.state = np.array([rng.uniform(0.3, 0.5), rng.uniform(0.0, 0.07)])
        return np.array(env.unwrapped.state, dtype=np.float32)

    data = collect(env, 300, seed=0, start=near_the_top)
    assert data.observations.shape[1:] == (2,)
    assert data.terminated.any()


def test_a_step_cost_replaces_the_reward():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    own = collect(env, 200, seed=0, start="reset")
    assert set(own.reward.tolist()) <= {0.0, 1.0}
    data = collect(env, 200, seed=0, start="reset", reward=-1.0)
    assert (data.reward == -1.0).all()
    assert data.observations.dtype == np.int64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n is 0"),
        ({"n": 2**70}, "n is 1180591620717411303424; it must be a whole number"),
        ({"seed": -1}, "seed is -1; it must be a whole number from 0"),
        ({"terminal_reward": 10**400}, "terminal_reward is 1000"),
        ({"start": "everywhere"}, "choose 'uniform', 'reset', or give a function"),
        ({"reward": 1.0}, "a step cost must be negative"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        collect(make(), **{"n": 10, "seed": 0, **arguments})


def test_uniform_starts_need_an_mdp():
    with pytest.raises(ValueError, match="needs an environment that knows its MDP"):
        collect(gymnasium.make("MountainCar-v0"), 10, seed=0, start="uniform")
