"""Transitions of any policy, weighted so that they describe the default policy."""

import numpy as np
import pytest

from drogo import Column, GridWorld, Transitions, exact, solve
from drogo.data import under
from drogo.errors import ArgumentError, ArgumentTypeError, DataError
from drogo.exact.columns import solve_edges
from raising import refused
from small_data import data_of, mostly_right


def four(action, state=(0, 0, 0, 0), **more):
    """Four transitions to a terminal state."""
    columns = (np.array(state), np.full(4, 1), -np.ones(4), np.ones(4))
    return Transitions.from_table(np.arange(2), *columns, action=action, **more)


def test_table_weights_by_hand_and_notes():
    """State 0 was left four times: three times by action 0, once by action 1. Each counts twice."""
    data, notes = under(four([0, 0, 0, 1]))
    assert (data.weight, notes) == (pytest.approx([2 / 3, 2 / 3, 2 / 3, 2]), [])

    def policy(observations, actions):
        assert observations.tolist() == [0, 0, 0, 0]
        return np.where(actions == 1, 0.75, 0.25)

    known = four([0, 0, 0, 1], default=[0.25, 0.25, 0.25, 0.75])
    for given in ((four([0, 0, 0, 1]), [0.25, 0.75]), (known,), (four([0, 0, 0, 1]), policy)):
        assert under(*given)[0].weight == pytest.approx([1 / 3, 1 / 3, 1 / 3, 3])
    # Pairs that were never seen, and actions never taken, are noted.
    data, notes = under(four([0, 0, 0, 1], n_actions=4))
    assert (data.weight, len(notes)) == (pytest.approx([2 / 3, 2 / 3, 2 / 3, 2]), 1)
    assert notes[0].startswith("In 1 state")
    policy = [0.5, 0.5, 0.0, 0.0]  # which takes no other actions
    assert under(four([0, 0, 0, 1], n_actions=4), policy)[1] == []
    solution = solve(four([0, 0, 0, 1], n_actions=4), Column(default_policy=policy))
    assert (solution.status, solution.notes) == (("converged",), ())
    given = four([0, 0, 0, 1], n_actions=4, default=[1.0, 1.0, 1.0, 0.0])
    assert len(solve(given, Column()).notes) == 1
    data, notes = under(four([0, 0, 0, 1]), [0.0, 1.0])
    assert len(data) == 1
    assert notes[0].startswith("3 transitions")
    refused(ArgumentError, "default_policy", under, four([0, 0, 0, 0], n_actions=2), [0.0, 1.0])


def continuous(**more):
    rng = np.random.default_rng(0)
    x, action = rng.uniform(size=(4, 1)), rng.uniform(-1, 1, (4, 2))
    return Transitions.from_arrays(x, x + 1, -1.0, np.ones(4), action=action, **more)


def test_importance_weights_by_hand():
    data = continuous(behaviour=[1.0, 0.5, 0.25, 0.25], default=np.full(4, 0.25))
    assert under(data)[0].weight == pytest.approx(np.array([1, 2, 4, 4]) / 2.75)
    by_function, _ = under(data, lambda observations, actions: np.full(len(actions), 0.5))
    assert by_function.weight == pytest.approx(np.array([1, 2, 4, 4]) / 2.75)
    refused(ArgumentError, "behaviour", under, continuous(default=np.full(4, 0.25)))
    refused(ArgumentError, "default_policy", under, continuous())


def test_bad_actions_and_default_policies(unchecked):
    for argument, action, columns in (
        ("action", [0, 1, 2, 7], {"n_actions": 4}),
        ("action", [0.5, 1, 0, 0], {}),
        ("action", np.full((4, 2), np.inf), {}),
        ("behaviour", [0, 1, 0, 1], {"behaviour": [0.5, 0.5, 0.0, 0.5]}),
        ("behaviour", [0, 1, 0, 1], {"behaviour": [0.5, 1.5, 0.5, 0.5]}),
        ("behaviour", None, {"behaviour": [0.5] * 4}),
        ("default", [0, 1, 0, 1], {"default": [0.5, -0.5, 0.5, 0.5]}),
        ("n_actions", np.zeros((4, 2)), {"n_actions": 2}),
        ("n_actions", [0, 1, 0, 1], {"n_actions": 0}),
    ):
        refused(DataError, argument, four, action, **columns)
    functions = (lambda o, a: np.ones(3), lambda o, a: -a)
    for policy in ([0.5, 0.4], [0.5, 0.6], [1.5, -0.5], [1.0], *functions):
        refused(ArgumentError, "default_policy", under, four([0, 0, 0, 1]), policy)
    without = Transitions.from_table(np.arange(2), [0, 0], [1, 1], -1.0, [True, True])
    refused(ArgumentError, "default_policy", under, without, [0.5, 0.5])
    refused(ArgumentTypeError, "data", under, "data.npz")


def test_data_of_another_policy_describe_the_same_map():
    """70 % of the actions go right. Without their actions, the data are off by more than 5."""
    world = GridWorld.load("four-rooms")
    data = data_of(world, "state", 8000, mostly_right)
    truth = exact.log_column(world.mdp, 20.0)[~world.terminal]
    solution = lambda data: solve_edges(data.edges, 20.0)[np.unique(data.state)]  # noqa: E731
    weighted, notes = under(data)
    assert notes == []
    np.testing.assert_allclose(solution(weighted), truth, atol=1e-9)
    names = ("state", "next_state", "reward", "terminated")
    without = Transitions.from_table(data.observations, *(getattr(data, name) for name in names))
    unweighted, notes = under(without)
    assert len(notes) == 1
    assert np.abs(solution(unweighted) - truth).max() > 5
