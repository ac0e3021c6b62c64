"""Numbers of fixed seeds, recorded before the code was rewritten: they must not move. What has a
reference of its own, such as the exact solvers, is compared with that instead.

`golden.json` has the numbers of each case by quantity. The numbers of a new case are in the message
of its failure."""

import functools
import json
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import drogo
from drogo import Column, Drogo, exact, fit
from drogo.learn import MLP, Optimiser, PairMLP, Quasimetric
from drogo.worlds import STARTS
from small_world import make

RECORDED = json.loads(Path(__file__).with_name("golden.json").read_text())
EXACT, TRAINED = 1e-9, 2e-4
"""Relative tolerances of double precision, and of training in single precision, whose rounding
errors grow: another compiler moves numbers by up to 3e-5."""
SMALL, SPECTRAL = MLP(width=32, depth=2), MLP(width=32, depth=2, leak=0.1)
PAPER = Optimiser("rmsprop", 1e-3, "constant")
"""Larger steps than those of the paper, which hardly move in so few updates."""
BATCHES, MANY, PAIRS = ({"updates": 200, "batch_size": size} for size in (100, 200, 256))
STABLE = {"target_rate": 0.3, "terminal_fraction": 0.1, "emphasis": 0.0}
TINY = Quasimetric(width=32, depth=1, components=8, length=4)
CASES = {}


def case(name, tolerance, *arguments, **options):
    """Registers a function with some arguments as a case."""

    def register(function):
        CASES[name] = (functools.partial(function, *arguments, **options), tolerance)
        return function

    return register


def some(values, count=8):
    """Evenly spaced entries along the last axis."""
    array = np.asarray(values)
    places = np.linspace(0, array.shape[-1] - 1, min(count, array.shape[-1])).round().astype(int)
    return array[..., places]


def environment(observation, name="FourRooms"):
    return gymnasium.make(f"drogo/{name}-v0", observation=observation)


@functools.cache
def data_of(kind):
    """Transitions of four-rooms, of a task that never ends, or of states that do not repeat."""
    if kind == "endless":
        env = drogo.NeverEnding(environment("state", "GridTask"), at_end=7.0)
        return drogo.collect(env, 4000, seed=0)
    if kind == "mountain-car":
        env = gymnasium.make("MountainCar-v0")
        return drogo.collect(env, 3000, seed=0, start=STARTS["MountainCar-v0"], reward=-1.0)
    return drogo.collect(environment(kind), 3000, seed=0)


@case("data/collect/mountain-car", EXACT)
def collected():
    data = data_of("mountain-car")
    rows = np.linspace(0, len(data) - 1, 4).round().astype(int)
    return {
        "counts": [len(data), len(data.observations), data.terminated.sum(), data.truncated.sum()],
        "sums": [data.state.sum(), data.next_state.sum(), data.reward.sum()],
        "rows": np.stack([data.state, data.next_state])[:, rows],
    }


@case("fit/drogo/paper/state", TRAINED, "state", drogo.Paper(**MANY), optimiser=PAPER)
@case("fit/drogo/fast/state", TRAINED, "state", Drogo(updates=200))
@case("fit/q/fast/state", TRAINED, "state", Drogo(updates=200, action_values=True))
@case("fit/drogo/direct/state", TRAINED, "state", drogo.Regression(updates=200))
@case("fit/q/direct/state", TRAINED, "state", drogo.Regression(updates=200, action_values=True))
@case("fit/gdo/fast/state", TRAINED, "state", drogo.GDO(updates=200))
@case("fit/log_gdo/fast/state", TRAINED, "state", drogo.LogGDO(updates=200))
@case("fit/natural_gdo/fast/state", TRAINED, "state", drogo.NaturalGDO(updates=200))
@case("fit/drogo/fast/coordinates", TRAINED, "coordinates", Drogo(updates=200), SMALL)
@case("fit/drogo/stable/coordinates", TRAINED, "coordinates", Drogo(**BATCHES, **STABLE), SMALL)
@case("fit/drogo/stable/mountain-car", TRAINED, "mountain-car", Drogo(**BATCHES), SMALL)
def one_map(kind, method, network=None, optimiser=None):
    solution = fit(data_of(kind), Column(), method, network=network, optimiser=optimiser, seeds=2)
    loss = solution.history["loss"]
    return {
        "v": some(solution.v, 3),
        "loss": loss[[1, len(loss) // 2, -1], 0],
        "last_worst": solution.history["worst"][-1, 0],
        "mean_step": solution.mean_step,
        "log_scale": solution.log_scale,
        "status": solution.status,
    }


@case("goals/mlp/drogo/coordinates", TRAINED, "coordinates", drogo.Goals(),
      drogo.Regression(**PAIRS), PairMLP(width=32, depth=1))  # fmt: skip
@case("goals/quasimetric/drogo/mountain-car-radius", TRAINED, "mountain-car",
      drogo.Goals(radius=0.1, most_goals=100), Drogo(**PAIRS), TINY)  # fmt: skip
def goals(kind, problem, method, network):
    solution = fit(data_of(kind), problem, method, network=network)
    table = solution.observations
    middle = table[solution.goals[len(solution.goals) // 2]]
    shown = table[some(np.arange(len(table)), 4)]
    return {
        "v": some(some(solution.v[0], 3).T, 3),
        "call": solution(shown, middle),
        "potential": solution.potential(goal=middle)(shown),
        "status": solution.status,
    }


@case("spectrum/gdo/laplacian", TRAINED, drogo.GDO(updates=200), "laplacian")
@case("spectrum/ggdo/successor", TRAINED, drogo.GGDO(updates=200), "successor")
@case("spectrum/allo/default", TRAINED, drogo.ALLO(updates=200), "default")
def several(method, matrix):
    problem = drogo.Spectrum(3, matrix=matrix)
    solution = fit(data_of("coordinates"), problem, method, network=SPECTRAL)
    return {
        "vectors": some(solution.v, 3),
        "eigenvalues": solution.eigenvalues,
        "cosines": solution.cosines,
        "rotated_eigenvalues": solution.rotated().eigenvalues,
    }


@case("continuing/drogo/direct/state", TRAINED, drogo.Regression(updates=200, action_values=False))
@case("continuing/drogo/fast/state", TRAINED, Drogo(updates=200, action_values=False))
def continuing(method):
    solution = fit(data_of("endless"), drogo.Continuing(), method)
    return {"v": some(solution.v, 6), "gain": solution.gain, "status": solution.status}


def walk(env, steps):
    """Observation, action, reward, next observation and termination of each random step."""
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=0)
    for _ in range(steps):
        action = int(rng.integers(env.action_space.n))
        after, reward, terminated, truncated, _ = env.step(action)
        yield observation, action, float(reward), after, terminated
        observation = env.reset()[0] if terminated or truncated else after


@case("agents/q_learning/shaped", TRAINED)
def q_learning():
    from drogo.potential import normalised
    from drogo_paper.agents import Training, q_learning

    world = drogo.GridWorld.load("four-rooms")
    mdp = world.mdp
    potential = np.stack([normalised(exact.log_column(mdp, 20.0), mdp.neighbours)] * 2)
    training = Training(world.step_limit, world.low_reward, steps=5000)
    arrays = {"step_size": np.full(2, 0.3), "seed": np.arange(2), "weight": np.full(2, 0.5)}
    runs = q_learning(mdp, training, potential=potential, threads=1, **arrays)
    return {"returns": some(runs.returns, 5), "low_reward_visits": runs.low_reward_visits}


@case("online/OnlineMap/small-world/plain", TRAINED)
def online():
    env, rest = make(), {"network": SMALL, "learning_starts": 200, "capacity": 2000}
    online = drogo.OnlineMap(env.observation_space, env.action_space, **rest)
    for transition in walk(env, 600):
        online.observe(*([part] for part in transition))
        online.train()
    observations = env.unwrapped.all_observations()
    return {
        "values": some(online.values(observations), 8),
        "logits": online.logits(observations[:2]),
        "mean_step": online.mean_step,
        "found": online.found,
    }


@pytest.mark.parametrize("name", sorted({*CASES, *RECORDED}))
def test_numbers_do_not_move(name):
    compute, tolerance = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = {key: np.ravel(np.asarray(part)).tolist() for key, part in compute().items()}
    assert name in RECORDED, f'not recorded yet: "{name}": {json.dumps(numbers)}'
    assert set(numbers) == set(RECORDED[name])
    for quantity, before in RECORDED[name].items():
        now = numbers[quantity]
        if isinstance(before[0], str):
            assert now == before, quantity
        else:
            atol = tolerance * np.abs(before)[np.isfinite(before)].max()
            np.testing.assert_allclose(now, before, rtol=0.0, atol=atol, err_msg=quantity)
