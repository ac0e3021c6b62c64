"""Transitions of any policy, weighed so that they describe the default policy."""

import gymnasium
import numpy as np
import pytest

from drogo import MDP, GridWorld, Transitions, collect, exact, fit
from drogo.data import under


def four(action, state=(0, 0, 0, 0), **more):
    """Four transitions to a terminal state."""
    state = np.array(state)
    return Transitions.from_table(
        np.arange(2), state, np.full(4, 1), -np.ones(4), np.ones(4), action=action, **more
    )


def test_table_weights_by_hand():
    """State 0 was left four times: three times by action 0, once by action 1. Each counts twice."""
    data, notes = under(four([0, 0, 0, 1]))
    assert data.weight == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])
    assert notes == []
    data, _ = under(four([0, 0, 0, 1]), [0.25, 0.75])
    assert data.weight == pytest.approx([1 / 3, 1 / 3, 1 / 3, 3])
    data, _ = under(four([0, 0, 0, 1], default=[0.25, 0.25, 0.25, 0.75]))
    assert data.weight == pytest.approx([1 / 3, 1 / 3, 1 / 3, 3])

    def policy(observations, actions):
        assert observations.tolist() == [0, 0, 0, 0]
        return np.where(actions == 1, 0.75, 0.25)

    assert under(four([0, 0, 0, 1]), policy)[0].weight == pytest.approx([1 / 3, 1 / 3, 1 / 3, 3])


def test_what_was_never_seen_is_counted():
    data, notes = under(four([0, 0, 0, 1], n_actions=4))
    assert data.weight == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2])
    assert len(notes) == 1
    assert "2 pairs of a visited state and an action were never seen" in notes[0]


def test_actions_that_the_default_policy_never_takes_are_left_out():
    data, notes = under(four([0, 0, 0, 1]), [0.0, 1.0])
    assert len(data) == 1
    assert "3 transitions whose action the default policy never takes" in notes[0]
    with pytest.raises(ValueError, match="none of the actions that led to a terminal state"):
        under(four([0, 0, 0, 0], n_actions=2), [0.0, 1.0])


def continuous(**more):
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(4, 1))
    return Transitions.from_arrays(
        x, x + 1, -np.ones(4), np.ones(4), action=rng.uniform(-1, 1, (4, 2)), **more
    )


def test_importance_weights_by_hand():
    data = continuous(behaviour=[1.0, 0.5, 0.25, 0.25], default=np.full(4, 0.25))
    assert under(data)[0].weight == pytest.approx(np.array([1, 2, 4, 4]) / 2.75)
    by_function, _ = under(data, lambda observations, actions: np.full(len(actions), 0.5))
    assert by_function.weight == pytest.approx(np.array([1, 2, 4, 4]) / 2.75)
    with pytest.raises(ValueError, match="with which probability these actions were taken"):
        under(continuous(default=np.full(4, 0.25)))
    with pytest.raises(ValueError, match="how the default policy chooses them is not known"):
        under(continuous())


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"action": [0, 1, 2, 7], "n_actions": 4}, "points outside the table of 4 actions"),
        ({"action": [0, 1, -1, 0]}, "points outside the table"),
        ({"action": [0.5, 1, 0, 0]}, "whole numbers"),
        ({"action": [0, 1, 0]}, "action has shape (3,)"),
        ({"action": [0, 1, 0, 1], "behaviour": [0.5, 0.5, 0.0, 0.5]}, "transition 2 is 0"),
        ({"action": [0, 1, 0, 1], "behaviour": [0.5, 1.5, 0.5, 0.5]}, "transition 1 is 1.5"),
        ({"action": [0, 1, 0, 1], "default": [0.5, -0.5, 0.5, 0.5]}, "transition 1 is -0.5"),
        ({"action": [0, 1, 0, 1], "behaviour": [0.5, np.nan, 1, 1]}, "transition 1 is nan"),
        ({"behaviour": [0.5] * 4, "action": None}, "behaviour cannot be used without action"),
        ({"action": np.zeros((4, 2)), "n_actions": 2}, "these are vectors"),
        ({"action": np.full((4, 2), np.inf)}, "NaN or infinity"),
    ],
)
def test_bad_actions(known, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        four(**known)


@pytest.mark.parametrize(
    "policy", [[0.5, 0.4], [0.5, 0.6], [1.5, -0.5], [1.0], lambda o, a: np.ones(3), lambda o, a: -a]
)
def test_bad_default_policies(policy):
    with pytest.raises(ValueError, match="default_policy"):
        under(four([0, 0, 0, 1]), policy)
    without = Transitions.from_table(np.arange(2), [0, 0], [1, 1], [-1, -1], [True, True])
    with pytest.raises(ValueError, match="have no actions"):
        under(without, [0.5, 0.5])


def mostly_right(observation, rng):
    return 0 if rng.random() < 0.7 else int(rng.integers(4))


def test_data_of_another_policy_lead_to_the_same_map(tmp_path):
    """70 % of the actions go right. Taken as they are, they are off by more than 5."""
    world = GridWorld.load("four-rooms")
    env = gymnasium.make("drogo/FourRooms-v0", observation="state")
    data = collect(env, 8000, seed=0, policy=mostly_right)
    truth = exact.log_column(world.mdp, 20.0)
    result = fit(data)
    assert np.abs(result.v[0] - truth).max() < 0.05
    assert result.status == ("converged",)
    data.save(tmp_path / "data.npz")
    assert np.array_equal(Transitions.load(tmp_path / "data.npz").action, data.action)
    names = ("state", "next_state", "reward", "terminated")
    without = Transitions.from_table(data.observations, *(getattr(data, name) for name in names))
    wrong = fit(without)
    assert np.abs(wrong.v[0] - truth).max() > 5
    assert "taken for the default policy's" in wrong.notes[0]


def test_another_default_policy_has_another_map():
    world = GridWorld.load("grid-task")
    rightwards = np.array([0.4, 0.2, 0.2, 0.2])
    mdp = world.mdp
    P = sum(p * np.eye(mdp.n_states)[world.next_state[:, a]] for a, p in enumerate(rightwards))
    P[mdp.terminal] = 0
    truth = exact.log_column(MDP.from_arrays(P, mdp.reward, mdp.terminal), 20.0)
    env = gymnasium.make("drogo/GridTask-v0", observation="state")
    result = fit(collect(env, 8000, seed=0), default_policy=rightwards)
    assert np.abs(result.v[0] - truth).max() < 0.05
