"""Whole episodes, as lists of them and as data sets of Minari."""

import sys
import warnings
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

import needs
from drogo import Transitions
from drogo.data.trajectories import minari_dataset, recorded
from drogo.errors import ArgumentTypeError, DataError, MissingFile, MissingPackage

GOAL = {
    "observations": [[0.0], [1.0], [2.0]],
    "actions": [1, 1],
    "rewards": [-1.0, -2.0],
    "terminated": True,
}
CUT = {
    "observations": [[0.0], [1.0], [0.0], [0.0]],
    "actions": [1, 0, 0],
    "rewards": [-1.0, -2.0, -1.0],
    "terminated": False,
}


def test_by_hand():
    data = Transitions.from_trajectories([GOAL, CUT])
    assert data.observations.ravel().tolist() == [0.0, 1.0, 2.0]
    assert data.state.tolist() == [0, 1, 0, 1, 0]
    assert data.next_state.tolist() == [1, 2, 1, 0, 0]
    assert data.reward.tolist() == [-1, -2, -1, -2, -1]
    assert data.action.tolist() == [1, 1, 1, 0, 0]
    assert data.n_actions == 2
    assert data.terminated.tolist() == [False, True, False, False, False]
    assert data.truncated.tolist() == [False, False, False, False, True]
    assert data.behaviour is None


def test_flags_of_every_step_and_objects():
    goal = SimpleNamespace(**GOAL | {"terminated": [False, True], "truncated": [0, 0]})
    cut = SimpleNamespace(**CUT | {"terminated": np.zeros(3), "truncated": np.eye(3)[2]})
    data = Transitions.from_trajectories(iter([goal, cut]))
    assert data.terminated.tolist() == [False, True, False, False, False]
    assert data.truncated.tolist() == [False, False, False, False, True]


def test_what_is_known_of_actions():
    behaviour = {"behaviour": [0.5, 0.25]}
    data = Transitions.from_trajectories(
        [GOAL | behaviour], action_space=spaces.Discrete(4, start=-1)
    )
    assert data.action.tolist() == [2, 2]  # counted from 0
    assert data.n_actions == 4
    assert data.default.tolist() == [0.25, 0.25]
    assert data.behaviour.tolist() == [0.5, 0.25]
    vectors = {"actions": np.array([[[1.0, 0.0]], [[0.5, 2.0]]])}
    box = spaces.Box(np.array([[-1, 0]]), np.array([[1, 4]]), dtype=np.float64)
    data = Transitions.from_trajectories([GOAL | vectors], action_space=box)
    assert data.action.tolist() == [[1.0, 0.0], [0.5, 2.0]]
    assert data.default.tolist() == [0.125, 0.125]
    unbounded = spaces.Box(-np.inf, np.inf, (1, 2))
    assert Transitions.from_trajectories([GOAL | vectors], action_space=unbounded).default is None
    without = {name: part for name, part in GOAL.items() if name != "actions"}
    assert Transitions.from_trajectories([without]).action is None


def test_numbers_of_ones_own():
    without = [
        {name: part for name, part in one.items() if name != "rewards"} for one in (GOAL, CUT)
    ]
    data = Transitions.from_trajectories(
        without, reward=-3.0, terminal_reward=lambda step: -float(step.next_observation[0])
    )
    assert set(data.reward) == {-3.0}
    assert data.terminal_reward.tolist() == [0, -2, 0, 0, 0]
    with pytest.raises(DataError, match="no rewards were recorded. Give a step cost"):
        Transitions.from_trajectories(without)


def test_parts_of_a_dict():
    parts = {"observations": {"at": [[0.0], [1.0], [2.0]], "side": [0, 1, 0]}}
    data = Transitions.from_trajectories([GOAL | parts], key=("side", "at"))
    assert data.observations.tolist() == [[0, 0], [1, 1], [0, 2]]
    data = Transitions.from_trajectories([GOAL | parts], key="at")
    assert data.observations.tolist() == [[0], [1], [2]]


BROKEN = {
    "no episode": ([], "trajectories is empty"),
    "no observations": ([{"terminated": True}], "episode 0 has no observations"),
    "no step": ([GOAL, GOAL | {"observations": [[0.0]]}], r"episode 1 have shape \(1, 1\); a step"),
    "an action too many": (
        [GOAL, CUT | {"actions": [1, 0, 0, 1]}],
        r"episode 1 has 4 observations, and actions of shape \(4,\); expected 3.* one observation",
    ),
    "a reward too few": ([GOAL | {"rewards": [-1.0]}], r"rewards of shape \(1,\); expected 2"),
    "rewards in rows": (
        [GOAL | {"rewards": np.zeros((2, 2))}],
        r"rewards of shape \(2, 2\); expected 2, one for each step",
    ),
    "a number": (
        [GOAL | {"observations": 3.0}],
        "episode 0 has no observations, but 3.0",
    ),
    "no part": ([GOAL | {"observations": {}}], "a Dict without any part"),
    "ragged flags": (
        [GOAL | {"terminated": [[1], [1, 0]]}],
        "terminated of episode 0 is not an ar",
    ),
    "no end": ([{**GOAL, "terminated": None}], "episode 0 has no terminated. Give True if"),
    "flags": ([GOAL | {"terminated": [True] * 3}], r"terminated of shape \(3,\); expected 2"),
    "goes on": (
        [GOAL, CUT | {"terminated": [False, True, False]}],
        "episode 1 goes on after step 1, which is terminated",
    ),
    "cut and on": ([GOAL | {"truncated": [True, False]}], "on after step 0, which is truncated"),
    "not a flag": ([GOAL | {"terminated": 2}], "terminated of episode 0 of transition 1 is 2"),
    "other shape": (
        [GOAL, CUT | {"observations": np.zeros((4, 2))}],
        r"observations of episode 1: shape \(2,\).*; in episode 0 each has shape \(1,\)",
    ),
    "other type": ([GOAL, CUT | {"observations": np.zeros((4, 1), "f4")}], "type float32; in epi"),
    "some actions": ([GOAL, CUT | {"actions": None}], "actions of episode 1: none; in episode 0"),
    "other actions": ([GOAL | {"actions": None}, CUT], "episode 0 has no actions, which other"),
    "ragged": ([GOAL | {"observations": [[0.0], [1.0, 2.0], [3.0]]}], "observations of episode 0"),
    "text": ([GOAL | {"observations": [["a"], ["b"], ["c"]]}], "episode 0 has the type <U1"),
    "two parts": ([GOAL | {"observations": {"at": [1, 2, 3]}}], "choose the part to learn from"),
    "probability 0": ([GOAL | {"behaviour": [0.5, 0.0]}], "behaviour of transition 1 is 0"),
    "probability 2": ([GOAL | {"behaviour": [2.0, 0.5]}], "behaviour of transition 0 is 2"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_episodes_say_what_is_wrong(kind):
    trajectories, message = BROKEN[kind]
    with pytest.raises(DataError, match=message):
        Transitions.from_trajectories(trajectories)


@pytest.mark.parametrize(
    ("actions", "space", "message"),
    [
        (
            [1, 2],
            spaces.Discrete(2),
            r"the action of transition 1 is 2, which is not in Discrete\(2",
        ),
        ([0, 1], spaces.Discrete(2, start=1), "the action of transition 0 is 0, which is not in"),
        ([0.0, 1.0], spaces.Discrete(2), "type float64; in Discrete"),
        ([[0.0], [1.5]], spaces.Box(-1, 1, (1,)), r"transition 1 is \[1.5\], which is not in Box"),
        ([[0.0], [np.nan]], spaces.Box(-1, 1, (1,)), r"transition 1 is \[nan\], which is not in"),
        ([[0.0], [0.5]], spaces.Box(-1, 1, (2,)), r"action has shape \(2, 1\); in Box"),
        ([[0, 1], [1, 1]], spaces.MultiBinary(2), "only Discrete and Box are known"),
    ],
)
def test_actions_outside_their_space(actions, space, message):
    with pytest.raises(DataError, match=message):
        Transitions.from_trajectories([GOAL | {"actions": actions}], action_space=space)


def test_one_episode_is_a_list_too():
    with pytest.raises(ArgumentTypeError, match="trajectories is a dict; give a list of episodes"):
        recorded(GOAL, None, None)


class Line(gymnasium.Env):
    """A walk on a line of whole numbers from -2; the goal is 1. Actions are 3 and 4."""

    observation_space = spaces.Discrete(4, start=-2)
    action_space = spaces.Discrete(2, start=3)
    metadata = {"render_modes": []}  # noqa: RUF012
    render_mode = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = -2
        return self.seen(), {}

    def step(self, action):
        self.at = max(-2, self.at + self.moved(action))
        return self.seen(), -1.0, self.at >= 1, False, {}

    def moved(self, action):
        return 2 * (int(action) - 3) - 1

    def seen(self):
        return self.at


class Smooth(Line):
    observation_space = spaces.Dict(
        {
            "at": spaces.Box(-9, 9, (1,), np.float32),
            "image": spaces.Box(0, 255, (8, 8, 3), np.uint8),
        }
    )
    action_space = spaces.Box(-1, 2, (1,), np.float32)

    def moved(self, action):
        return float(action[0])

    def seen(self):
        image = np.full((8, 8, 3), round(self.at) + 2, dtype=np.uint8)
        return {"at": np.array([self.at], dtype=np.float32), "image": image}


class Pair(Line):
    observation_space = spaces.Tuple((spaces.Discrete(4, start=-2), spaces.Discrete(2)))

    def seen(self):
        return self.at, 0


class TwoActions(Line):
    action_space = spaces.MultiDiscrete([2, 2])

    def moved(self, action):
        return 2 * int(action[0]) - 1


def walk(env, episodes=30):
    """Returns episodes of an environment in lists, as it gave them."""
    env.action_space.seed(0)
    for seed in range(episodes):
        steps, over = [], False
        seen = [env.reset(seed=seed)[0]]
        while not over:
            action = env.action_space.sample()
            observation, *rest, _ = env.step(action)
            seen.append(observation)
            steps.append((action, *rest))
            over = rest[1] or rest[2]
        yield seen, *(list(column) for column in zip(*steps, strict=True))


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Returns a function that writes a data set, and the episodes that are in it."""
    minari = needs.module("minari")
    buffers = needs.module("minari.data_collector.episode_buffer")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))

    def as_columns(seen):
        if isinstance(seen[0], dict):
            return {name: [one[name] for one in seen] for name in seen[0]}
        return tuple(map(list, zip(*seen, strict=True))) if isinstance(seen[0], tuple) else seen

    def make(kind):
        true = list(walk(TimeLimit(kind(), 12)))
        parts = ("actions", "rewards", "terminations", "truncations")
        episodes = [
            buffers.EpisodeBuffer(
                id=k, observations=as_columns(seen), **dict(zip(parts, columns, strict=True))
            )
            for k, (seen, *columns) in enumerate(true)
        ]
        spaces = {"observation_space": kind.observation_space, "action_space": kind.action_space}
        name = f"{kind.__name__.lower()}/test-v0"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about who made it, which is not told
            dataset = minari.create_dataset_from_buffers(name, episodes, **spaces)
        return dataset, name, true

    return make


def joined(true):
    """Returns the columns of all episodes: observations, next observations, and the others."""
    before = [one for seen, *_ in true for one in seen[:-1]]
    after = [one for seen, *_ in true for one in seen[1:]]
    columns = [
        [one for part in parts for one in part] for parts in list(zip(*true, strict=True))[1:]
    ]
    return before, after, *columns


def test_a_data_set_of_discrete_spaces(record):
    dataset, name, true = record(Line)
    data = Transitions.from_minari(dataset)
    before, after, action, _, over, cut = joined(true)
    assert data.observations[data.state].tolist() == list(before)
    assert data.observations[data.next_state].tolist() == list(after)
    assert data.action.tolist() == [int(one) - 3 for one in action]
    assert data.n_actions == 2
    assert data.terminated.tolist() == list(over)
    assert data.truncated.tolist() == list(cut)
    assert any(cut)
    by_name = Transitions.from_minari(name, reward=-2.0, behaviour=lambda step: 0.5)
    assert np.array_equal(by_name.state, data.state)
    assert set(by_name.reward) == {-2.0}
    assert by_name.follows_default


def test_a_data_set_of_a_dict_and_vectors(record):
    dataset, _, true = record(Smooth)
    data = Transitions.from_minari(dataset, key="at", terminal_reward=-1.0)
    before, after, action, _, over, _ = joined(true)
    np.testing.assert_array_equal(data.observations[data.state], [one["at"] for one in before])
    np.testing.assert_array_equal(data.observations[data.next_state], [one["at"] for one in after])
    np.testing.assert_array_equal(data.action, action)
    np.testing.assert_allclose(data.default, 1 / 3)
    assert np.array_equal(data.terminal_reward, -1.0 * np.array(over))
    with pytest.raises(DataError, match="choose the part to learn from, for example key='at'"):
        Transitions.from_minari(dataset)
    with pytest.raises(DataError, match="key is 'left'; the observation has at, image"):
        Transitions.from_minari(dataset, key="left")


def test_data_sets_of_other_spaces(record):
    dataset, _, _ = record(Pair)
    with pytest.raises(DataError, match=r"observations of the data set are a Tuple\("):
        Transitions.from_minari(dataset)
    dataset, _, _ = record(TwoActions)
    with pytest.raises(DataError, match=r"the actions are a MultiDiscrete.*, and only Discrete"):
        Transitions.from_minari(dataset)


def test_a_data_set_that_is_not_there(tmp_path, monkeypatch):
    needs.module("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(MissingFile, match="no data set 'line/none-v0'.*minari download line/none"):
        Transitions.from_minari("line/none-v0")
    with pytest.raises(ArgumentTypeError, match="dataset is a list; it must be a minari.Minari"):
        minari_dataset([])


def test_without_minari(monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(MissingPackage, match="Minari is not installed. .* extra 'minari'"):
        Transitions.from_minari("line/none-v0")
