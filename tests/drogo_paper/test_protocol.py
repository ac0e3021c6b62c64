"""The authors' protocol: plain descent step by step, whole episodes, and double precision."""

import jax
import numpy as np
import pytest

from drogo.worlds.grid import GridWorld
from drogo_paper import ablation, fits, plain_descent
from drogo_paper.newest_networks import Strided
from drogo_paper.scope import Scope

CORRIDOR = "########\n#S..xG.#\n########"
GRADIENTS = {
    "gdo": lambda v, s, after, cost, b: cost * v[s] - v[after] + b * ((v**2).sum() - 1) * v[s],
    "log_gdo": lambda v, s, after, cost, b: (
        (cost + b * (np.exp(2 * v).sum() - 1)) * np.exp(v[s]) - np.exp(v[after])
    ),
    "natural_gdo": lambda v, s, after, cost, b: (
        cost - np.exp(v[after] - v[s]) + b * (np.exp(2 * v).sum() - 1)
    ),
    "drogo": lambda v, s, after, cost, b: cost - np.exp(v[after] * (after != 4) - v[s]),
}


@pytest.mark.parametrize("objective", GRADIENTS)
def test_plain_descent_is_one_loop_over_all_states_and_actions(objective, monkeypatch):
    """Right, down, left, up in each of six cells, of which the fifth is terminal at -0.001."""
    world = GridWorld.parse(CORRIDOR)
    monkeypatch.setattr(GridWorld, "load", lambda name: world)
    v = np.random.default_rng(1).normal(size=6)
    for _ in range(200):
        for s in range(6):
            for right in (1, 0, -1, 0):
                if s == 4 and objective == "drogo":
                    continue
                after = s if s == 4 else min(max(s + right, 0), 5)
                cost = np.exp((20.0 if s == 3 else 0.001 if s == 4 else 1.0) / 20)
                v[s] -= 0.003 * GRADIENTS[objective](v, s, after, cost, 0.5)
    if objective == "drogo":
        v[4] = 0.0
    settings = {"world": "corridor", "objective": objective, "seeds": 2, "lam": 20.0,
                "passes": 200, "grid": {"step_size": [0.003], "penalty": [1.0, 0.5]}}  # fmt: skip
    searched = plain_descent.search(settings, None, lambda done: None)
    theirs = np.log(np.abs(v)) if objective == "gdo" else v
    assert searched.arrays["v"][1, 1] == pytest.approx(theirs, abs=1e-9)
    assert searched.facts["points"] == [[1.0, 0.003], [0.5, 0.003]]
    assert searched.arrays["cosine_representation"].shape == (2, 101, 2)


def test_data_of_the_code_are_episodes_from_anywhere():
    world = GridWorld.load("grid-task")
    data = fits.data_of(world, "state", 20_000, episodes=True)
    assert data.truncated.any()
    assert len(set(data.observations[data.state].tolist())) == 103
    assert np.ptp(np.bincount(data.state)) > 200  # of about 194 steps from each state


def test_jobs_of_each_protocol():
    code, text = (Scope(name, 10) for name in ("code", "text"))
    job = fits.job(code, "grid-maze", "coordinates")
    assert job.settings["overrides"] == {"updates": 300_000, "stop_early": True}
    assert (job.settings["episodes"], job.settings["double"]) == (True, True)
    assert fits.job(code, "grid-maze", "pixels").settings["seeds"] == 2
    assert fits.job(text, "grid-maze", "pixels").settings["overrides"]["updates"] == 40_000
    search = ablation.search_job(code, ablation.TABULAR, "gdo")
    assert search.function == "drogo_paper.plain_descent:search"
    assert search.settings["grid"] == {"step_size": [0.003], "penalty": [0.1, 0.5, 1.0, 2.0]}
    assert ablation.search_job(text, ablation.TABULAR, "gdo").function.endswith("fits:search")


@pytest.mark.parametrize("kind", ["coordinates", "pixels"])
def test_the_newest_networks(kind, tmp_path):
    """Three hidden layers of 256 after two coordinates or, of 13 x 13 pixels, one with strides."""
    settings = fits.job(Scope("newest", 2), "four-rooms", kind).settings
    settings |= {"overrides": {"updates": 2}, "transitions": 2000}
    with jax.numpy_dtype_promotion("standard"):
        learned = fits.learn(settings, tmp_path, lambda done: None)
    assert learned.arrays["v"].shape == (2, 104)
    assert learned.arrays["v"].dtype == np.float64
    network = Strided((13, 13), jax.random.key(0))
    assert [part.weight.shape for part in network.dense] == [(256, 16), *[(256, 256)] * 3, (1, 256)]
