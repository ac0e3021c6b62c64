"""Whole episodes, as lists of them and as data sets of Minari."""

import sys
import warnings
from itertools import chain
from types import SimpleNamespace

import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

import needs
from drogo import Transitions
from drogo.errors import ArgumentTypeError, DataError, MissingFile, MissingPackage
from raising import raises, refused
from small_lines import line_of

GOAL = {"observations": [[0.0], [1.0], [2.0]], "actions": [1, 1]}
GOAL |= {"rewards": [-1.0, -2.0], "terminated": True}
CUT = {"observations": [[0.0], [1.0], [0.0], [0.0]], "actions": [1, 0, 0]}
CUT |= {"rewards": [-1.0, -2.0, -1.0], "terminated": False}
RAGGED = [[0.0], [1.0, 2.0], [3.0]]
BROKEN = {
    "observations": [None, [[0.0]], np.zeros((3, 2)), RAGGED, [["a"], ["b"], ["c"]]],
    "actions": [[1, 0, 0], None],
    "rewards": [[-1.0]],
    "terminated": [None, [True] * 3, [True, False], 2],
    "truncated": [[True, False]],
}
Numbered = line_of(
    observation_space=spaces.Dict({"at": spaces.Discrete(4, start=-2)}),
    action_space=spaces.Discrete(2, start=3),
    least=-2,
    goal=1,
    first=lambda env: -2,
    move=lambda env, action: 2 * (int(action) - 3) - 1,
    observe=lambda env: {"at": env.at},
)
"""Whole numbers from -2, as a part of a Dict; the goal is 1. Actions are 3 and 4."""


def without(name, *episodes):
    return [{key: part for key, part in one.items() if key != name} for one in episodes]


def test_episodes_by_hand_numbers_for_rewards_and_parts():
    data = Transitions.from_trajectories([GOAL, CUT])
    assert data.observations.ravel().tolist() == [0.0, 1.0, 2.0]
    assert (data.state.tolist(), data.next_state.tolist()) == ([0, 1, 0, 1, 0], [1, 2, 1, 0, 0])
    assert (data.reward.tolist(), data.action.tolist()) == ([-1, -2, -1, -2, -1], [1, 1, 1, 0, 0])
    assert (data.n_actions, data.behaviour) == (2, None)
    # Flags of every step, and objects in place of dictionaries.
    goal = SimpleNamespace(**GOAL | {"terminated": [False, True], "truncated": [0, 0]})
    cut = SimpleNamespace(**CUT | {"terminated": np.zeros(3), "truncated": np.eye(3)[2]})
    for same in (data, Transitions.from_trajectories(iter([goal, cut]))):
        assert same.terminated.tolist() == [False, True, False, False, False]
        assert same.truncated.tolist() == [False, False, False, False, True]
    unpaid = without("rewards", GOAL, CUT)
    functions = {
        "reward": lambda step: -1.0 - float(step.next_observation[0]),
        "terminal_reward": lambda step: -float(step.observation[0] + step.next_observation[0]),
        "behaviour": lambda step: 0.25 + 0.5 * float(step.action),
    }
    data = Transitions.from_trajectories(unpaid, **functions)
    assert data.reward.tolist() == [-2, -3, -2, -1, -1]
    assert data.terminal_reward.tolist() == [0, -3, 0, 0, 0]
    assert data.behaviour.tolist() == [0.75, 0.75, 0.75, 0.25, 0.25]
    refused(DataError, "reward", Transitions.from_trajectories, unpaid)
    parts = {"observations": {"at": [[0.0], [1.0], [2.0]], "side": [0, 1, 0]}}
    data = Transitions.from_trajectories([GOAL | parts], key=("side", "at"))
    assert data.observations.tolist() == [[0, 0], [1, 1], [0, 2]]


def test_action_spaces():
    space = spaces.Discrete(4, start=-1)
    data = Transitions.from_trajectories([GOAL | {"behaviour": [0.5, 0.25]}], action_space=space)
    assert data.action.tolist() == [2, 2]  # counted from 0
    assert (data.n_actions, data.default.tolist()) == (4, [0.25, 0.25])
    assert data.behaviour.tolist() == [0.5, 0.25]
    vectors = {"actions": np.array([[[1.0, 0.0]], [[0.5, 2.0]]])}
    box = spaces.Box(np.array([[-1, 0]]), np.array([[1, 4]]), dtype=np.float64)
    data = Transitions.from_trajectories([GOAL | vectors], action_space=box)
    assert data.action.tolist() == [[1.0, 0.0], [0.5, 2.0]]
    assert data.default.tolist() == [0.125, 0.125]
    unbounded = spaces.Box(-np.inf, np.inf, (1, 2))
    assert Transitions.from_trajectories([GOAL | vectors], action_space=unbounded).default is None
    assert Transitions.from_trajectories(without("actions", GOAL)).action is None


def test_broken_episodes(unchecked):
    for name, value in ((name, value) for name, values in BROKEN.items() for value in values):
        refused(DataError, name, Transitions.from_trajectories, [CUT, GOAL | {name: value}])
    refused(DataError, "trajectories", Transitions.from_trajectories, [])
    parts = [GOAL | {"observations": {"at": [1, 2, 3]}}]
    refused(DataError, "key", Transitions.from_trajectories, parts, key="side")
    for trajectories in (GOAL, "episodes.npz", 3):
        refused(ArgumentTypeError, "trajectories", Transitions.from_trajectories, trajectories)
    for space, actions in (
        *((spaces.Discrete(2), actions) for actions in ([1, 2], [0.0, 1.0])),
        (spaces.Discrete(2, start=1), [0, 1]),
        *((spaces.Box(-1, 1, (1,)), [[0.0], [last]]) for last in (1.5, np.nan)),
        (spaces.Box(-1, 1, (2,)), [[0.0], [0.5]]),
        (spaces.MultiBinary(2), [[0, 1], [1, 1]]),
    ):
        with raises(DataError, "action"):
            Transitions.from_trajectories([GOAL | {"actions": actions}], action_space=space)


def walk(env, episodes=30):
    """Returns the observations of each episode, and lists of its actions, rewards and flags."""
    env.action_space.seed(0)
    for seed in range(episodes):
        observations, steps = [env.reset(seed=seed)[0]["at"]], []
        while not steps or not any(steps[-1][2:]):
            action = env.action_space.sample()
            observation, *rest, _ = env.step(action)
            observations.append(observation["at"])
            steps.append((action, *rest))
        yield observations, *(list(column) for column in zip(*steps, strict=True))


def test_a_data_set_of_minari(tmp_path, monkeypatch):
    minari = needs.module("minari")
    buffers = needs.module("minari.data_collector.episode_buffer")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env, names = Numbered(), ("actions", "rewards", "terminations", "truncations")
    episodes, recorded = list(walk(TimeLimit(env, 12))), []
    for k, (seen, *rest) in enumerate(episodes):
        columns = {"observations": {"at": seen}, **dict(zip(names, rest, strict=True))}
        recorded.append(buffers.EpisodeBuffer(id=k, **columns))
    both = {"observation_space": env.observation_space, "action_space": env.action_space}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the author is not given
        dataset = minari.create_dataset_from_buffers("test/test-v0", recorded, **both)
    split = [(one[0][:-1], one[0][1:], *one[1:]) for one in episodes]
    columns = [[*chain.from_iterable(column)] for column in zip(*split, strict=True)]
    before, after, action, _, over, cut = columns
    data = Transitions.from_minari(dataset, key="at", terminal_reward=-1.0)
    assert data.observations[data.state].tolist() == before
    assert data.observations[data.next_state].tolist() == after
    assert (data.action.tolist(), data.n_actions) == ([int(one) - 3 for one in action], 2)
    assert (data.terminated.tolist(), data.truncated.tolist()) == (over, cut)
    assert any(cut)
    assert np.array_equal(data.terminal_reward, -1.0 * np.array(over))
    numbers = {"reward": -2.0, "behaviour": lambda step: 0.5}
    by_name = Transitions.from_minari("test/test-v0", key="at", **numbers)
    assert np.array_equal(by_name.state, data.state)
    assert set(by_name.reward) == {-2.0}
    assert by_name.follows_default


def test_data_sets_that_cannot_be_read(tmp_path, monkeypatch, unchecked):
    monkeypatch.setitem(sys.modules, "minari", None)
    refused(MissingPackage, None, Transitions.from_minari, "line/none-v0")
    monkeypatch.undo()
    needs.module("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    refused(MissingFile, "dataset", Transitions.from_minari, "line/none-v0")
    refused(ArgumentTypeError, "dataset", Transitions.from_minari, [])
    pairs = spaces.Tuple((spaces.Discrete(4), spaces.Discrete(2)))
    dataset = SimpleNamespace(iterate_episodes=list, observation_space=pairs)
    refused(DataError, "dataset", Transitions.from_minari, dataset)
