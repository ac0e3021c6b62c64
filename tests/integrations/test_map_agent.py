"""The map as an agent of a real Stable-Baselines3."""

import numpy as np
import pytest

from drogo import Column, OnlineTable, exact
from drogo.errors import ArgumentError, ArgumentTypeError, DamagedFile
from drogo.learn import MLP
from raising import refused
from small_world import WORLD, make

PLACES = WORLD.observations("coordinates")
SMALL = {"network": MLP(width=16, depth=1), "learning_starts": 50, "capacity": 500}


@pytest.fixture(scope="module")
def agents(sb3):
    from drogo.integrations import sb3 as module

    return module.MapAgent


def test_it_solves_its_world_on_the_exact_map_of_what_it_saw(sb3, agents, tmp_path):
    options = {"problem": Column(lam=20.0), "every": 1}
    agent = agents("table", make(), seed=0, **options)
    agent.learn(600, lambda *_: True, progress_bar=False, log_interval=1)
    assert agent.online.steps == agent.num_timesteps == 600
    assert agent.online.values(PLACES) == pytest.approx(exact.log_column(WORLD.mdp, 20.0), abs=0.3)
    assert agent.logger.name_to_value["map/found"] == 1
    assert min(episode["r"] for episode in agent.ep_info_buffer) >= -800
    evaluate = sb3.common.evaluation.evaluate_policy
    env = sb3.common.monitor.Monitor(make())
    assert evaluate(agent, env, n_eval_episodes=2) == (-3, 0)  # three steps past the dear cell
    agent.save(tmp_path / "agent.npz")
    again = agents.load(tmp_path / "agent.npz", make())
    assert evaluate(again, env, n_eval_episodes=2) == (-3, 0)
    assert (again.seed, again.epsilon, again.num_timesteps) == (0, 0.05, 600)
    assert again.online.judging.numbers.tolist() == agent.online.judging.numbers.tolist()
    again.learn(100, reset_num_timesteps=False)
    assert again.online.steps == again.num_timesteps == 700


def test_actions_follow_the_values_of_the_map(agents):
    agent = agents(OnlineTable(*spaces()), make(), seed=0, epsilon=0.0, temperature=0.5)
    logits = np.log([[0.1, 0.2, 0.3, 0.4]])
    agent.online.known_logits = lambda seen: np.repeat(logits, len(seen), axis=0)
    actions, state = agent.predict(PLACES[0], deterministic=True)
    assert (actions.shape, actions) == ((), 3)
    assert agent.policy.predict(PLACES[0], deterministic=True)[0] == 3
    many = np.repeat(PLACES[:1], 20_000, axis=0)
    squares = np.array([1, 4, 9, 16]) / 30  # exp(q / 0.5)
    for taken in (agent.predict(many)[0], agent.predict(many, state * 20_000, None, True)[0]):
        assert np.bincount(taken, minlength=4) / 20_000 == pytest.approx(squares, abs=0.02)
    first = np.ones(20_000, dtype=bool)  # nothing is known of a new episode
    assert set(agent.predict(many, state * 20_000, first, True)[0]) == {3}
    agent.online.found = agent.online.until_found = True
    agent._last_obs = many
    taken = agent._sample_action(0, n_envs=20_000)[0]
    assert np.bincount(taken, minlength=4) / 20_000 == pytest.approx(squares, abs=0.02)


def test_a_network_a_vector_of_environments_and_images(sb3, agents, tmp_path):
    envs = sb3.common.env_util.make_vec_env(make, 3, seed=0)
    agent = agents("network", envs, seed=3, **SMALL).learn(300)
    assert agent.online.updates > 0
    assert agent.online.seed == 3
    agent.save(tmp_path / "network.npz")
    again = agents.load(tmp_path / "network.npz", envs)
    assert again.online.values(PLACES) == pytest.approx(agent.online.values(PLACES))
    pictures = agents("table", make(observation="pixels"), seed=0).learn(200)
    assert pictures.online.metrics["states"] <= 8


def test_a_student_acts_as_the_map_and_goes_on_learning(sb3, agents):
    agent = agents("table", make(), seed=0).learn(400)
    options = {"n_steps": 32, "batch_size": 16, "learning_rate": 3e-3, "device": "cpu"}
    student = sb3.PPO("MlpPolicy", make(), seed=0, **options)
    steps = agent.online.steps
    assert agent.teach(student, 600, epochs=40, batch_size=16) < 0.05
    assert agent.online.steps == steps
    evaluate = sb3.common.evaluation.evaluate_policy
    env = sb3.common.monitor.Monitor(make())
    assert evaluate(student, env, n_eval_episodes=2) == (-3, 0)
    student.learn(64)
    agent.learn(10, reset_num_timesteps=False)
    refused(ArgumentTypeError, "student", agent.teach, agent)


def test_wrong_arguments_and_files_are_named(sb3, agents, tmp_path, unchecked):
    for argument, wrong in {"online": "tables", "epsilon": 2, "temperature": 0, "lamb": 3}.items():
        given = {"online": "table", argument: wrong}
        kind = ArgumentTypeError if argument == "lamb" else ArgumentError
        refused(kind, argument, agents, given.pop("online"), make(), **given)
    refused(ArgumentTypeError, "every", agents, OnlineTable(*spaces()), make(), every=3)
    agent = agents("table", make(), seed=0)
    agent.save(tmp_path / "agent.npz")
    with pytest.raises(FileExistsError):
        agent.save(tmp_path / "agent.npz")
    other = OnlineTable(*spaces(), Column(lam=3.0))
    with pytest.raises(DamagedFile):
        agents.load(tmp_path / "agent.npz", make(), other)
    with np.load(tmp_path / "agent.npz") as stored:
        np.savez(tmp_path / "short.npz", **{**stored, "counters": np.zeros(1, np.int64)})
    with pytest.raises(DamagedFile):
        agents.load(tmp_path / "short.npz", make())
    agent.online.save(tmp_path / "map.npz")
    with pytest.raises(DamagedFile):
        agents.load(tmp_path / "map.npz", make())
    assert OnlineTable.load(tmp_path / "map.npz", *spaces()).request() == agent.online.request()


def spaces():
    return make().observation_space, make().action_space
