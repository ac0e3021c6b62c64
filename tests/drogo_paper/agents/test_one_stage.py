"""One stage: the map and the policy from the same steps."""

import numpy as np
import pytest

from drogo import GridWorld
from drogo.errors import ArgumentError
from drogo_paper.agents import MapSettings, Training, one_stage, q_learning
from raising import raises

SMALL = "step-limit: 30\n\n######\n#S..G#\n#.x..#\n######"
RUNS = {"weight": np.full(3, 0.5), "step_size": np.ones(3), "seed": np.arange(3)}


def run(world, steps, keep_maps=False, **settings):
    training = Training(world.step_limit, world.low_reward, steps, every=50)
    return one_stage(world.mdp, training, MapSettings(**settings), keep_maps=keep_maps, **RUNS)


@pytest.mark.slow
def test_without_a_map_and_a_replay_it_is_q_learning():
    world = GridWorld.parse(SMALL)
    training = Training(world.step_limit, world.low_reward, steps=1000, every=50)
    unshaped = {**RUNS, "potential": np.zeros((3, world.n_states)), "weight": np.zeros(3)}
    plain = q_learning(world.mdp, training, **unshaped)
    ours = run(world, map="none", sweeps=0, steps=1000)
    for name in ("q", "returns", "low_reward_visits"):
        assert np.array_equal(getattr(ours, name), getattr(plain, name))


@pytest.mark.parametrize("how", ["solve", "backups"])
def test_a_map_of_its_own_steps_finds_the_best_return_and_becomes_the_column(how):
    world = GridWorld.parse(SMALL)
    runs = run(world, map=how, steps=1500, sweeps=5)
    assert np.isfinite(runs.steps_to_optimal).all()
    assert (runs.tried[:, -1] > 0.9).all()
    everything = runs.tried[:, -1] == 1
    assert everything.any()
    assert (runs.cosine[everything, -1] > 0.9999).all()


@pytest.mark.parametrize("how", ["solve", "backups"])
def test_without_optimism_there_is_no_map_before_a_terminal_state(how):
    runs = run(GridWorld.load("four-rooms"), map=how, optimism=None, steps=100, keep_maps=True)
    assert not runs.solved.any()
    assert np.nanmax(np.abs(runs.maps)) == 0


def test_what_cannot_be_done_is_an_error():
    world = GridWorld.parse(SMALL)
    for name, value in {"map": "magic", "map_every": 7, "lam": 0.0, "sweeps": -1}.items():
        with raises(ArgumentError, name):
            run(world, steps=100, **{name: value})
