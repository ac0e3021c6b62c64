"""`MiniGridWorld`: the states that the search finds are the real environment's."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from drogo import collect, exact
from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.mdp import HasMDP
from drogo.worlds.minigrid import ACTIONS, MiniGridWorld, name_of
from raising import raises

IDS = ["MiniGrid-LavaCrossingS9N2-v0", "MiniGrid-DoorKey-6x6-v0", "MiniGrid-Empty-5x5-v0"]


@pytest.fixture(scope="module", params=IDS)
def world(request):
    return MiniGridWorld(request.param, layout=3)


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")  # it is a wrapper
def test_gymnasium_accepts_it(world):
    check_env(world, skip_render_check=True)


def test_random_walks_of_the_real_environment_follow_the_tables(world):
    """The real MiniGrid is stepped with its own actions beside the tables."""
    real = gymnasium.make(world.spec.id, disable_env_checker=True).unwrapped
    rng, over = np.random.default_rng(0), True
    for _ in range(500):
        if over or real.step_count > 300:
            real.reset(seed=3)
            state = 0
        action = int(rng.integers(len(world.actions)))
        _, reward, over, _, _ = real.step(ACTIONS.index(world.actions[action]))
        state = int(world.moves.next_state[state, action])
        assert world.moves.states[state] == name_of(real)
        assert bool(world.mdp.terminal[state]) == over
        assert not over or (world.mdp.reward[state] == 0) == (reward > 0)


def test_rewards_are_of_the_state(world):
    world.reset(seed=0)
    rng, state = np.random.default_rng(1), 0
    for _ in range(300):
        _, reward, terminated, truncated, info = world.step(int(rng.integers(len(world.actions))))
        assert reward == world.mdp.reward[state] + info.get("terminal_reward", 0.0)
        over = terminated or truncated
        state = (world.reset()[1] if over else info)["state"]


@pytest.mark.parametrize("observation", ["rgb", "symbolic"])
def test_every_state_looks_different(observation):
    world = MiniGridWorld("MiniGrid-DoorKey-6x6-v0", observation=observation)
    fresh = MiniGridWorld("MiniGrid-DoorKey-6x6-v0", observation=observation)
    table = world.all_observations()
    assert len(np.unique(table.reshape(len(table), -1), axis=0)) == world.n_states
    if observation == "rgb":
        for state in range(0, world.n_states, 7):
            world.reset(options={"state": state})
            assert np.array_equal(world.render(world.tile), table[state])
            assert np.array_equal(fresh.reset(options={"state": state})[0], table[state])


@pytest.fixture(scope="module")
def empty():
    return MiniGridWorld("MiniGrid-Empty-5x5-v0", tile=2)


def test_states_of_an_empty_room(empty):
    """By hand: 3 x 3 cells in 4 directions, but the goal in a corner can be entered in two only."""
    assert empty.n_states == 9 * 4 - 2
    assert empty.positions.min() == 1
    assert empty.positions.max() == 3
    assert empty.actions == ("left", "right", "forward")
    assert int(empty.mdp.terminal.sum()) == 2
    assert isinstance(empty, HasMDP)


def test_column_by_hand(empty):
    """v = r/lam + log of the mean over three actions, in every non-terminal state."""
    v = exact.log_column(empty.mdp, lam=5.0)
    move = empty.moves.next_state
    for s in np.flatnonzero(~empty.mdp.terminal):
        assert v[s] == pytest.approx(-1 / 5 + np.log(np.exp(v[move[s]]).mean()), abs=1e-9)


def test_lava_has_a_terminal_reward():
    world = MiniGridWorld("MiniGrid-LavaCrossingS9N2-v0", lava=-50.0)
    v = exact.log_column(world.mdp, lam=20.0)
    assert set(np.round(v[world.mdp.terminal], 6)) == {0.0, -2.5}
    # With a policy the environment is stepped, and otherwise the MDP is sampled.
    for policy in (None, lambda o, rng: int(rng.integers(3))):
        data = collect(world, 5000, seed=0, start="reset", policy=policy)
        assert set(data.reward) == {-1.0}
        assert set(data.terminal_reward[data.terminated]) <= {0.0, -50.0}
        assert len(data.observations) <= world.n_states


def test_collision_costs_where_the_way_is_blocked():
    world = MiniGridWorld("MiniGrid-Empty-5x5-v0", collision=-3.0)
    moves, live = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)]), ~world.mdp.terminal
    ahead = (world.positions + moves[[name[1] for name in world.mdp.states]])[live]
    faces_a_wall = ((ahead == 0) | (ahead == 4)).any(axis=1)
    assert np.array_equal(world.mdp.reward[live], np.where(faces_a_wall, -4.0, -1.0))


@pytest.mark.parametrize(
    ("kind", "argument", "name", "options"),
    [
        (ArgumentError, "step", "Empty", {"step": 0.0}),
        (ArgumentError, "lava", "Empty", {"lava": 1.0}),
        (ArgumentError, "collision", "Empty", {"collision": 0.5}),
        (ArgumentError, "tile", "Empty", {"tile": 0}),
        (ArgumentError, "tile", "Empty", {"tile": 1}),  # does not show the direction
        (ArgumentError, "observation", "Empty", {"tile": 1000}),  # 9 GiB
        (ArgumentError, "observation", "Empty", {"observation": "smell"}),
        (ArgumentError, "actions", "Empty", {"actions": ("jump",)}),
        (ArgumentError, "actions", "Empty", {"actions": ("left", "right")}),  # reach no goal
        (ArgumentError, "actions", "GoToDoor", {}),  # `done` does not change the grid
        (ArgumentTypeError, "lawa", "Empty", {"lawa": -1.0}),
        (ArgumentTypeError, "env", "CartPole-v1", {}),
        (ArgumentError, "env", "Dynamic-Obstacles", {}),  # moves at random
    ],
)
def test_wrong_settings(kind, argument, name, options):
    with raises(kind, argument):
        name = name if name == "CartPole-v1" else f"MiniGrid-{name}-5x5-v0"
        MiniGridWorld(name, **options).all_observations()
