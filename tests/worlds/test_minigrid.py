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
def test_random_walks_of_the_real_environment_follow_the_tables(world):
    """The real MiniGrid is stepped with its own actions beside the tables."""
    check_env(world, skip_render_check=True)
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


def test_an_empty_room_by_hand():
    """3 x 3 cells in 4 directions, but the goal in a corner can be entered in two only."""
    empty = MiniGridWorld("MiniGrid-Empty-5x5-v0", tile=2)
    assert empty.n_states == 9 * 4 - 2
    assert empty.positions.min() == 1
    assert empty.positions.max() == 3
    assert empty.actions == ("left", "right", "forward")
    assert int(empty.mdp.terminal.sum()) == 2
    assert isinstance(empty, HasMDP)
    # v = r/lam + log of the mean over three actions, in every non-terminal state
    v = exact.log_column(empty.mdp, lam=5.0)
    move = empty.moves.next_state
    for s in np.flatnonzero(~empty.mdp.terminal):
        assert v[s] == pytest.approx(-1 / 5 + np.log(np.exp(v[move[s]]).mean()), abs=1e-9)


def test_lava_has_a_terminal_reward_and_collisions_cost():
    world = MiniGridWorld("MiniGrid-LavaCrossingS9N2-v0", lava=-50.0)
    v = exact.log_column(world.mdp, lam=20.0)
    assert set(np.round(v[world.mdp.terminal], 6)) == {0.0, -2.5}
    # With a policy the environment is stepped, and otherwise the MDP is sampled.
    for policy in (None, lambda o, rng: int(rng.integers(3))):
        data = collect(world, 5000, seed=0, start="reset", policy=policy)
        assert set(data.reward) == {-1.0}
        assert set(data.terminal_reward[data.terminated]) <= {0.0, -50.0}
        assert len(data.observations) <= world.n_states
    world = MiniGridWorld("MiniGrid-Empty-5x5-v0", collision=-3.0)
    moves, live = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)]), ~world.mdp.terminal
    ahead = (world.positions + moves[[name[1] for name in world.mdp.states]])[live]
    faces_a_wall = ((ahead == 0) | (ahead == 4)).any(axis=1)
    assert np.array_equal(world.mdp.reward[live], np.where(faces_a_wall, -4.0, -1.0))


WRONG = {"step": [0.0], "lava": [1.0], "collision": [0.5], "observation": ["smell"]}
WRONG |= {"tile": [0, 1]}  # 1 does not show the direction
WRONG |= {"actions": [("jump",), ("left", "right")]}  # the second reach no goal


def test_wrong_settings():
    cases = [("Empty", name, {name: value}) for name, values in WRONG.items() for value in values]
    for name, argument, options in (
        *cases,
        ("Empty", "observation", {"tile": 1000}),  # 9 GiB
        ("GoToDoor", "actions", {}),  # `done` does not change the grid
        ("Dynamic-Obstacles", "env", {}),  # moves at random
    ):
        with raises(ArgumentError, argument):
            MiniGridWorld(f"MiniGrid-{name}-5x5-v0", **options).all_observations()
    with raises(ArgumentTypeError, "lawa"):
        MiniGridWorld("MiniGrid-Empty-5x5-v0", lawa=-1.0)
    with raises(ArgumentTypeError, "env"):
        MiniGridWorld("CartPole-v1")
