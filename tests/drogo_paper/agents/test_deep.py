"""Deep agents: evaluated, killed and continued, with rivals of the map, and with options."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import small_world
from drogo import Column, OnlineTable
from drogo.errors import ArgumentError
from drogo_paper.agents import Cycle, discover_deep
from drogo_paper.agents.deep import as_numbers, make_agent, train_agent
from drogo_paper.agents.rivals import RND, OwnValue
from drogo_paper.agents.trained import Evaluations, Trained
from ledge import FALL, LAST, NETWORK, Ledge
from raising import refused
from small_world import WORLD

SEEN = WORLD.observations("coordinates")
FEW = {"learning_starts": 20, "train_freq": 4, "buffer_size": 300, "batch_size": 8,
       "policy_kwargs": {"net_arch": [8]}, "seed": 0}  # fmt: skip
SIZES = {"DQN": {"learning_starts": 50, "buffer_size": 300}, "PPO": {"n_steps": 64}}


def make():
    return as_numbers(small_world.make(step_limit=20))


def table(**options):
    env = make()
    return OnlineTable(env.observation_space, env.action_space, **options)


@pytest.fixture(scope="module")
def evaluating(sb3):
    from drogo_paper.agents import evaluator

    return evaluator


def test_a_world_is_solved_by_three_evaluations_in_a_row_and_may_fail_later():
    cases = {(): (np.inf, (0, 0)), (1, 1): (np.inf, (0, 0)), (0, 1, 1, 1): (20, (0, 0))}
    cases[1, 0.8, 1, 1, 1, 1, 0.8, 0] = (30, (2, 3))
    for arrived, expected in cases.items():
        columns = np.zeros((6, len(arrived)))
        columns[0], columns[2] = 10.0 * np.arange(1, len(arrived) + 1), arrived
        trained = Trained(*columns, maps=np.zeros((len(arrived), 0)), metrics={})
        assert (trained.solved_at, trained.failed_later) == expected


def right(steps=0):
    """An agent that always goes to the right, which is the way to the goal."""
    predict = lambda observation, deterministic: (np.int64(0), None)  # noqa: E731
    return SimpleNamespace(num_timesteps=steps, predict=predict)


def step_together(evaluator, model, environments, until, infos=({},)):
    """Lets a callback see the steps of several environments, as Stable-Baselines3 does."""
    evaluator.init_callback(model)
    infos = list(infos) + [{}] * (environments - len(infos))
    evaluator.locals = {"dones": [bool(info) for info in infos], "infos": infos}
    while model.num_timesteps < until:
        model.num_timesteps += environments
        evaluator.on_step()
    evaluator.on_training_end()


def test_evaluations_of_several_environments_and_continued_ones(evaluating):
    assert evaluating.evaluate_policy(right(), make(), 1) == (-3.0, 1.0, 3.0)
    evaluator = evaluating.Evaluator(make(), Evaluations(20))
    ends = ({"terminal_reward": -200.0}, {"terminal_reward": 0.0}, {"other": 1},
            {"TimeLimit.truncated": True})  # fmt: skip
    step_together(evaluator, right(), 8, 90, ends)
    trained = evaluator.trained({})
    assert (trained.steps.tolist(), trained.arrived.tolist()) == ([24, 40, 64, 80, 96], [1.0] * 5)
    assert trained.deaths.tolist() == [3, 5, 8, 10, 12]  # one in each step of all environments
    assert trained.arrivals.tolist() == [6, 10, 16, 20, 24]
    options = (Evaluations(10, observations=SEEN), table())
    first = evaluating.Evaluator(make(), *options)
    step_together(first, right(), 1, 25, ({"terminal_reward": -1.0},))
    again = evaluating.Evaluator(make(), *options)
    again.continue_from(first.arrays())
    step_together(again, right(25), 1, 30, ({"terminal_reward": -1.0},))
    assert again.trained({}).steps.tolist() == [10, 20, 25, 30]
    assert again.trained({}).deaths.tolist() == [10, 20, 25, 30]
    assert again.trained({}).maps.shape == (4, len(SEEN))
    other = evaluating.Evaluator(make(), Evaluations(10))
    refused(ValueError, None, other.continue_from, first.arrays())


@pytest.mark.parametrize("has_map", [pytest.param(True, marks=pytest.mark.slow), False])
def test_after_a_stop_between_save_and_result_nothing_is_lost(evaluating, has_map, tmp_path):
    def train(steps):
        how = Evaluations(20, observations=SEEN, stop_when_solved=False)
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

    for explore in (False, True):
        assert isinstance(make_agent("dqn", make, explore=explore, **FEW), ExploringDQN) == explore
    refused(ArgumentError, "explore", train_agent, "ppo", make, table(), steps=5, explore=True)


@pytest.mark.parametrize("rival", ["RND", "own value"])
@pytest.mark.parametrize("algorithm", SIZES)
def test_agents_train_with_rivals(sb3, rival, algorithm):
    from drogo.integrations.sb3 import LearnMap

    shaping = RND(make().observation_space, width=16) if rival == "RND" else OwnValue(weight=0.1)
    options = {"batch_size": 32, "seed": 0, "device": "cpu", **SIZES[algorithm]}
    getattr(sb3, algorithm)("MlpPolicy", make(), **options).learn(200, callback=LearnMap(shaping))
    assert shaping.steps >= 200
    rewards = shaping.shaped(np.zeros(3), SEEN[:3], SEEN[:3], np.zeros(3, bool))
    assert np.isfinite(rewards).all()
    assert (rewards > 0).all() or rival != "RND"


def test_a_bonus_falls_where_it_was_paid():
    rnd = RND(gymnasium.spaces.Box(-1, 1, (2,), np.float32), step_size=1e-2, width=32)
    often, never = np.full((8, 2), 0.3, np.float32), np.full((8, 2), -0.8, np.float32)
    for change in np.random.default_rng(0).normal(scale=0.05, size=(300, 8, 2)).astype(np.float32):
        rnd.observe(often, np.zeros(8), np.zeros(8), often + change, np.zeros(8))
        rnd.train()
    over = np.zeros(8, bool)
    paid, unpaid = (rnd.shaped(np.zeros(8), x, x, over).mean() for x in (often, never))
    assert unpaid > 5 * paid
    refused(ArgumentError, "agent", OwnValue().attach, object())


def test_an_exact_map_discovers_everything_and_has_no_terminal_state():
    options = {"problem": Column(lam=5.0), "until_found": False, "every": 1}
    cycle = Cycle(4, steps=25, p_option=0.5)
    runs = [discover_deep(Ledge, cycle, make_map=OnlineTable, **options) for _ in range(2)]
    assert runs[0].visited.tolist() == runs[1].visited.tolist()
    result = runs[0]
    assert result.visited.tolist()[-1] == LAST + 1  # the terminal place does not count
    assert (np.diff(result.visited) >= 0).all()
    seen_steps = result.online.seen()
    assert result.online.steps == 100
    assert not seen_steps.terminated.any()
    falls = np.isclose(seen_steps.reward, -1 + FALL)
    assert falls.sum() == 1  # one kind of step
    assert result.deaths.sum() == seen_steps.count[falls].sum() > 0
    assert result.reward.mean() == pytest.approx(-1 + FALL * result.deaths.sum() / 100)
    assert result.begun > 0
    walk = discover_deep(Ledge, Cycle(2, p_option=0.0))
    assert (walk.online, list(walk.options), walk.begun) == (None, [], 0)
    refused(ArgumentError, None, discover_deep, Ledge, Cycle(1), reward=1.0)
    refused(ArgumentError, "iterations", Cycle, iterations=0)


@pytest.mark.slow
def test_a_network_discovers_and_is_the_same_again():
    world, rewards = (Ledge, Cycle(3, steps=20, p_option=0.5)), (None, None, lambda step: -1.0)
    options = {"seed": 3, "updates_per_step": 0.5, **NETWORK}
    runs = [discover_deep(*world, reward=reward, **options) for reward in rewards]
    assert runs[0].visited.tolist() == runs[1].visited.tolist()
    assert (runs[0].reward.tolist(), runs[2].online.steps) == (runs[1].reward.tolist(), 60)
    assert len(runs[0].options) == 1
    assert 0 < runs[0].online.updates <= 60 * 0.5
