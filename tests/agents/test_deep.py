"""Agents of Stable-Baselines3 that are judged while they train, killed, and continued."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import needs
from drogo import ArgumentError, BadCheckpoint, GridWorld, OnlineMap, OnlineTable
from drogo.agents.deep import as_numbers, make_agent, train_agent
from drogo.agents.trained import Trained

SMALL = """
step-limit: 20

######
#S..G#
#.x..#
######
"""
WORLD = GridWorld.parse(SMALL)
FEW = {"learning_starts": 20, "train_freq": 4, "buffer_size": 300, "batch_size": 8,
       "policy_kwargs": {"net_arch": [8]}, "seed": 0}  # fmt: skip


def make():
    return as_numbers(gymnasium.make("drogo/GridWorld-v0", world=WORLD, observation="coordinates"))


def table(**options):
    env = make()
    return OnlineTable(env.observation_space, env.action_space, **options)


@pytest.fixture(scope="module")
def judging():
    needs.module("torch").set_num_threads(1)
    needs.module("stable_baselines3")
    from drogo.agents import judge

    return judge


def trained(arrived):
    columns = np.zeros((6, len(arrived)))
    columns[0], columns[2] = 10.0 * np.arange(1, len(arrived) + 1), arrived
    return Trained(*columns, maps=np.zeros((len(arrived), 0)), metrics={})


@pytest.mark.parametrize(
    ("arrived", "solved_at", "later"),
    [
        ([], np.inf, (0, 0)),
        ([1.0], np.inf, (0, 0)),
        ([1.0, 1.0], np.inf, (0, 0)),
        ([0.0, 1.0, 1.0, 1.0], 20.0, (0, 0)),
        ([1.0, 0.8, 1.0, 1.0, 1.0, 1.0, 0.8, 0.0], 30.0, (2, 3)),
    ],
)
def test_a_world_is_solved_by_three_judgements_in_a_row_and_may_fail_later(
    arrived, solved_at, later
):
    assert trained(arrived).solved_at == solved_at
    assert trained(arrived).failed_later == later


class Endless(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), -1.0, False, False, {}


class Right:
    """An agent that always goes to the right, which is the way to the goal."""

    num_timesteps = 0

    def predict(self, observation, deterministic):
        return np.int64(0), None


def test_a_judgement_ends_though_its_environment_does_not(judging):
    assert judging.judge(Right(), Endless(), 2, longest=30) == (-30.0, 0.0, 30.0)
    assert judging.judge(Right(), make(), 1) == (-3.0, 1.0, 3.0)


def step_together(judge, model, environments, until, infos=({},)):
    """Lets a callback see the steps of several environments, as Stable-Baselines3 does."""
    judge.init_callback(model)
    infos = list(infos) + [{}] * (environments - len(infos))
    judge.locals = {"dones": [bool(info) for info in infos], "infos": infos}
    while model.num_timesteps < until:
        model.num_timesteps += environments
        judge.on_step()
    judge.on_training_end()


def test_several_environments_are_judged_though_their_steps_skip_the_round_numbers(judging):
    judge = judging.Judge(make(), every=20)
    step_together(judge, Right(), 8, 90)
    assert judge.trained({}).steps.tolist() == [24, 40, 64, 80, 96]
    assert judge.trained({}).arrived.tolist() == [1.0] * 5


def test_good_bad_and_cut_ends_of_training_are_told_apart(judging):
    judge = judging.Judge(make(), every=20)
    ends = ({"terminal_reward": -200.0}, {"terminal_reward": 0.0}, {"other": 1},
            {"TimeLimit.truncated": True})  # fmt: skip
    step_together(judge, Right(), 4, 4, ends)
    assert judge.trained({}).deaths.tolist() == [1]
    assert judge.trained({}).arrivals.tolist() == [2]


def test_judgements_go_on_where_they_were(judging):
    seen = WORLD.observations("coordinates")
    options = {"every": 10, "online": table(), "observations": seen}
    first = judging.Judge(make(), **options)
    step_together(first, Right(), 1, 25, ({"terminal_reward": -1.0},))
    again = judging.Judge(make(), **options)
    again.continue_from(first.arrays())
    model = SimpleNamespace(num_timesteps=25, predict=Right().predict)
    step_together(again, model, 1, 30, ({"terminal_reward": -1.0},))
    assert again.trained({}).steps.tolist() == [10, 20, 25, 30]
    assert again.trained({}).deaths.tolist() == [10, 20, 25, 30]
    assert again.trained({}).maps.shape == (4, len(seen))
    with pytest.raises(ValueError, match="not those of this agent"):
        judging.Judge(make(), every=10).continue_from(first.arrays())


@pytest.mark.slow
def test_what_a_map_does_not_know(judging):
    online, seen = table(every=1), WORLD.observations("coordinates")
    shown = np.stack([make().observation(one) for one in seen])
    online.observe(shown[:1], [0], [-1.0], shown[1:2], [False])
    online.train()
    known = online.knows(shown)
    assert known.tolist() == [k < 2 for k in range(len(seen))]
    env = make()
    network = OnlineMap(env.observation_space, env.action_space, learning_starts=2, width=8)
    assert not network.knows(shown).any()
    network.observe(shown[:3], [0, 0, 0], [-1.0] * 3, shown[1:4], [False] * 3)
    network.train()
    assert network.knows(shown).all()


@pytest.mark.slow
def test_few_steps_are_judged_at_their_end(judging):
    result = train_agent("dqn", make, steps=5, **FEW)
    assert result.steps.size == 1
    assert result.steps[0] >= 5
    assert result.solved_at == np.inf


@pytest.mark.parametrize("has_map", [pytest.param(True, marks=pytest.mark.slow), False])
def test_after_an_end_between_the_last_save_and_the_result_nothing_is_lost(
    judging, has_map, tmp_path
):
    def train(steps):
        options = {"every": 20, "checkpoint": tmp_path / "run.npz", "stop_when_solved": False}
        seen = WORLD.observations("coordinates")
        shaping = table() if has_map else None
        return train_agent("dqn", make, shaping, steps=steps, observations=seen, **options, **FEW)

    first, same, longer = train(60), train(60), train(100)
    for name in ("steps", "returns", "deaths", "maps"):
        assert np.array_equal(getattr(first, name), getattr(same, name), equal_nan=True)
        begun = getattr(longer, name)[: len(first.steps)]
        assert np.array_equal(begun, getattr(first, name), equal_nan=True)
    assert longer.steps.tolist() == [20, 40, 60, 80, 100]
    assert longer.maps.shape == (5, WORLD.n_states if has_map else 0)


def test_an_agent_that_has_solved_its_world_stays_so(judging, tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "judge", lambda *arguments: (-3.0, 1.0, 3.0))
    options = {"every": 10, "checkpoint": tmp_path / "run.npz"}
    for _ in range(2):
        result = train_agent("dqn", make, steps=100, **options, **FEW)
        assert result.steps.tolist() == [10, 20, 30]
        assert result.solved_at == 10


def test_a_damaged_checkpoint_is_told(judging, tmp_path):
    (tmp_path / "run.npz").write_bytes(b"half a file")
    with pytest.raises(BadCheckpoint):
        train_agent("dqn", make, steps=10, checkpoint=tmp_path / "run.npz", **FEW)


def test_a_map_explores_for_a_dqn_if_that_is_asked_for(judging):
    from drogo.use.sb3 import ExploringDQN

    shaping = table()
    assert isinstance(make_agent("dqn", make, shaping, explore=True, **FEW), ExploringDQN)
    assert not isinstance(make_agent("dqn", make, shaping, **FEW), ExploringDQN)
    with pytest.raises(ArgumentError, match="explore=True needs a DQN with a map"):
        train_agent("ppo", make, shaping, steps=5, explore=True)
