"""Agents of Stable-Baselines3 that are evaluated during training, killed, and continued."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import needs
from drogo import GridWorld, OnlineTable
from drogo.errors import ArgumentError
from drogo_paper.agents.deep import as_numbers, make_agent, train_agent
from drogo_paper.agents.trained import Evaluations, Trained
from raising import raises

WORLD = GridWorld.parse("step-limit: 20\n\n######\n#S..G#\n#.x..#\n######")
FEW = {"learning_starts": 20, "train_freq": 4, "buffer_size": 300, "batch_size": 8,
       "policy_kwargs": {"net_arch": [8]}, "seed": 0}  # fmt: skip


def make():
    return as_numbers(gymnasium.make("drogo/GridWorld-v0", world=WORLD, observation="coordinates"))


def table(**options):
    env = make()
    return OnlineTable(env.observation_space, env.action_space, **options)


@pytest.fixture(scope="module")
def evaluating():
    needs.module("torch").set_num_threads(1)
    needs.module("stable_baselines3")
    from drogo_paper.agents import evaluator

    return evaluator


def trained(arrived):
    columns = np.zeros((6, len(arrived)))
    columns[0], columns[2] = 10.0 * np.arange(1, len(arrived) + 1), arrived
    return Trained(*columns, maps=np.zeros((len(arrived), 0)), metrics={})


def test_a_world_is_solved_by_three_evaluations_in_a_row_and_may_fail_later():
    cases = {(): (np.inf, (0, 0)), (1, 1): (np.inf, (0, 0)), (0, 1, 1, 1): (20, (0, 0))}
    cases[1, 0.8, 1, 1, 1, 1, 0.8, 0] = (30, (2, 3))
    for arrived, expected in cases.items():
        assert (trained(arrived).solved_at, trained(arrived).failed_later) == expected


class Right:
    """An agent that always goes to the right, which is the way to the goal."""

    num_timesteps = 0

    def predict(self, observation, deterministic):
        return np.int64(0), None


def test_an_evaluation(evaluating):
    assert evaluating.evaluate_policy(Right(), make(), 1) == (-3.0, 1.0, 3.0)


def step_together(evaluator, model, environments, until, infos=({},)):
    """Lets a callback see the steps of several environments, as Stable-Baselines3 does."""
    evaluator.init_callback(model)
    infos = list(infos) + [{}] * (environments - len(infos))
    evaluator.locals = {"dones": [bool(info) for info in infos], "infos": infos}
    while model.num_timesteps < until:
        model.num_timesteps += environments
        evaluator.on_step()
    evaluator.on_training_end()


def test_several_environments_are_evaluated_though_their_steps_skip_the_round_numbers(evaluating):
    evaluator = evaluating.Evaluator(make(), Evaluations(20))
    ends = ({"terminal_reward": -200.0}, {"terminal_reward": 0.0}, {"other": 1},
            {"TimeLimit.truncated": True})  # fmt: skip
    step_together(evaluator, Right(), 8, 90, ends)
    trained = evaluator.trained({})
    assert trained.steps.tolist() == [24, 40, 64, 80, 96]
    assert trained.arrived.tolist() == [1.0] * 5
    assert trained.deaths.tolist() == [3, 5, 8, 10, 12]  # one in each step of all environments
    assert trained.arrivals.tolist() == [6, 10, 16, 20, 24]


def test_evaluations_continue_where_they_were(evaluating):
    seen = WORLD.observations("coordinates")
    options = (Evaluations(10, observations=seen), table())
    first = evaluating.Evaluator(make(), *options)
    step_together(first, Right(), 1, 25, ({"terminal_reward": -1.0},))
    again = evaluating.Evaluator(make(), *options)
    again.continue_from(first.arrays())
    model = SimpleNamespace(num_timesteps=25, predict=Right().predict)
    step_together(again, model, 1, 30, ({"terminal_reward": -1.0},))
    assert again.trained({}).steps.tolist() == [10, 20, 25, 30]
    assert again.trained({}).deaths.tolist() == [10, 20, 25, 30]
    assert again.trained({}).maps.shape == (4, len(seen))
    with raises(ValueError):
        evaluating.Evaluator(make(), Evaluations(10)).continue_from(first.arrays())


@pytest.mark.parametrize("has_map", [pytest.param(True, marks=pytest.mark.slow), False])
def test_after_an_end_between_the_last_save_and_the_result_nothing_is_lost(
    evaluating, has_map, tmp_path
):
    def train(steps):
        seen = WORLD.observations("coordinates")
        how = Evaluations(20, observations=seen, stop_when_solved=False)
        options = {"evaluations": how, "checkpoint": tmp_path / "run.npz", **FEW}
        return train_agent("dqn", make, table() if has_map else None, steps=steps, **options)

    first, same, longer = train(60), train(60), train(100)
    for name in ("steps", "returns", "deaths", "maps"):
        assert np.array_equal(getattr(first, name), getattr(same, name), equal_nan=True)
        begun = getattr(longer, name)[: len(first.steps)]
        assert np.array_equal(begun, getattr(first, name), equal_nan=True)
    assert longer.steps.tolist() == [20, 40, 60, 80, 100]
    assert longer.maps.shape == (5, WORLD.n_states if has_map else 0)


def test_a_map_explores_for_a_dqn_if_that_is_asked_for(evaluating):
    from drogo.integrations.sb3 import ExploringDQN

    shaping = table()
    for explore in (False, True):
        agent = make_agent("dqn", make, explore=explore, **FEW)
        assert isinstance(agent, ExploringDQN) == explore
    with raises(ArgumentError, "explore"):
        train_agent("ppo", make, shaping, steps=5, explore=True)
