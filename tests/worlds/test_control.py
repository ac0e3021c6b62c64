"""The solution on a grid, against the real environment and against an exact finite one."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from drogo import MDP, exact
from drogo.errors import NumericalError
from drogo.worlds import control
from drogo.worlds.control import STARTS, WalledRoom, dynamics, mountain_car_truth, solve_on_grid
from drogo.worlds.shipped import ROOM_IDS
from raising import refused


def test_mountain_car_moves_as_gymnasium_says():
    env = gymnasium.make("MountainCar-v0").unwrapped
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for k in range(300):
        STARTS["MountainCar-v0"](env, rng)
        state = np.array(env.state, dtype=np.float64)
        _, _, terminated, _, _ = env.step(k % 3)
        following, ends = dynamics(state[None], k % 3)
        assert following[0] == pytest.approx(np.array(env.state), abs=1e-12)
        assert ends[0] == terminated


@pytest.mark.parametrize("name", sorted(STARTS))
def test_starts_are_spread_and_not_terminal(name):
    env = gymnasium.make(name).unwrapped
    if name in ROOM_IDS:
        check_env(env)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    seen = np.stack([STARTS[name](env, rng) for _ in range(300)])
    space = env.observation_space
    assert all(space.contains(o) for o in seen)
    assert (seen.std(axis=0) > 0.2 * (space.high - space.low) / 2).all()


def test_grids_against_the_exact_chain_and_finer_ones(monkeypatch):
    """With moves of one node left and right, interpolation changes nothing."""
    n, lam = 33, 4.0

    def step(states, action):
        following = np.clip(states + (1 if action else -1), 0, n)
        return following, following[:, 0] >= n

    monkeypatch.setattr(control, "TOLERANCE", 1e-12)
    solution = solve_on_grid(step, [0.0], [n - 1.0], (n,), 2, 1 / lam)
    P = np.eye(n + 1)[np.clip([np.arange(n + 1) - 1, np.arange(n + 1) + 1], 0, n)]
    truth = exact.log_column(MDP.from_arrays(P, np.r_[np.full(n, -1.0), 0.0], [n]), lam=lam)
    assert solution.values == pytest.approx(truth[:n], abs=1e-8)
    # The last node may be one that no move meets.
    left = lambda states, action: (states - 2.0, states[:, 0] <= 2.0)  # noqa: E731
    solution = solve_on_grid(left, [0.0], [4.0], (5,), 1, 0.5)
    assert solution.values.tolist() == [-0.5, -0.5, -0.5, -1.0, -1.0]


def test_finer_grids_agree_more_and_a_terminal_state_out_of_reach_is_reported(monkeypatch):
    coarse, fine, finer = (mountain_car_truth(20.0, (n, n)) for n in (49, 65, 97))
    nodes = np.stack([part.ravel() for part in np.meshgrid(*coarse.grid)], axis=1)
    apart = [np.abs(part(nodes) - finer(nodes)).mean() for part in (coarse, fine)]
    assert apart[1] < apart[0]
    at = np.array([[-0.5, 0.0], [0.3, 0.05]])
    assert fine(at)[0] < fine(at)[1] < 0
    monkeypatch.setattr(control, "MOST_ITERATIONS", 50)
    still = lambda states, action: (states, np.zeros(len(states), dtype=bool))  # noqa: E731
    refused(NumericalError, None, solve_on_grid, still, [0.0], [1.0], (5,), 1, 1.0)


def test_walls_stop_a_move_and_gaps_do_not():
    room = WalledRoom("wall")
    below, above = np.array([0.46, 0.3]), np.array([0.46, 0.9])
    after, reward, over = room.step_many(np.stack([below, above]), np.array([[1.0, 0.0]] * 2))
    assert np.allclose(after, [[0.46, 0.3], [0.56, 0.9]])
    assert reward.tolist() == [-1.0, -1.0]
    assert not over.any()
    _, reward, over = room.step_many(np.array([[0.9, 0.5], [0.8, 0.1]]), np.array([[1.0, 0.0]] * 2))
    assert (reward.tolist(), over.tolist()) == ([-5.0, -1.0], [False, True])
    far, _, _ = room.step_many(np.array([[0.1, 0.9]]), np.array([[30.0, 0.0]]))  # is clipped
    assert np.allclose(far, [[0.2, 0.9]])
