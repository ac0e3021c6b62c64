"""`Continuing`: maps of tasks that never end and their gains, against exact solutions."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import drogo
from drogo import MDP, Continuing, Drogo, Regression, Transitions, exact, fit, solve
from drogo.errors import ArgumentError, DataError, Diverged, MDPError, NotConverged
from drogo.exact.growth import growth, perron_of_edges
from drogo.learn import Optimiser, Table
from drogo.mdp import Edges
from drogo.problems import continuing
from drogo_paper.continuing_worlds import river_swim
from raising import raises, refused
from small_data import SMALL, ring, table_of

DATA, RING = ring()
EXACT = exact.perron(RING, 2.0, reference=3)
WORTH = np.stack([P @ np.exp(EXACT.log_e) for P in RING.transitions], axis=1) * RING.default_policy
POLICY = WORTH / WORTH.sum(axis=1, keepdims=True)
PROBLEM = Continuing(2.0, reference=3)
QUICK = Regression(updates=600)


@pytest.mark.parametrize(
    ("method", "exactly"),
    [
        (None, True),
        (Regression(updates=600), True),
        pytest.param(Drogo(updates=3000), False, marks=pytest.mark.slow),
    ],
)
def test_a_ring_against_its_exact_solution(method, exactly):
    """The gain is computed from the data, or learned as well: by updates of all transitions."""
    result = fit(DATA, PROBLEM, method, seeds=2)
    assert result.gain == pytest.approx([EXACT.gain] * 2, abs=1e-12 if exactly else 0.01)
    assert np.allclose(result.gain, 2.0 * result.log_eigenvalue)
    assert np.abs(result.v - EXACT.log_e).max() < 0.02
    assert result.status == ("converged", "converged")
    assert result.reference == 3
    assert np.abs(result.policy(1).probabilities(np.arange(5)) - POLICY).max() < 0.02
    assert np.isfinite(result.potential()(np.arange(5))).all()
    assert result([3, 0])[0] == pytest.approx(result.v[0, [3, 0]])
    if not exactly:
        assert result.history["log_eigenvalue"][-1] == pytest.approx(result.log_eigenvalue)


def test_exact_solutions_and_gains_that_could_not_be_computed(monkeypatch):
    for source in (RING, DATA):
        solution = solve(source, PROBLEM)
        assert solution.v[0] == pytest.approx(EXACT.log_e, abs=1e-9)
        assert solution.gain == pytest.approx([EXACT.gain], abs=1e-9)
        assert (solution.status, int(solution.reference)) == (("converged",), 3)
        assert solution.potential(normalised=False)(np.array([0])) == pytest.approx(EXACT.log_e[:1])
    first = solve(DATA, Continuing(2.0))  # by default the first state of the data
    assert first.v[0] == pytest.approx(EXACT.log_e - EXACT.log_e[0], abs=1e-9)
    # The best cycle, 0 2 1, pays 1 - 1 + 0, and the default policy takes each step half the time.
    result = fit(DATA, Continuing(0.01), Regression(updates=20))
    assert result.gain == pytest.approx([-0.01 * np.log(2)])
    assert result.status == ("max_updates",)
    unknown = {"bracket": (-1.0, -0.5)}
    with monkeypatch.context() as patch:
        patch.setattr(continuing, "growth", lambda *parts: replace(growth(*parts), **unknown))
        refused(NotConverged, None, fit, DATA, PROBLEM, QUICK)
        result = fit(DATA, PROBLEM, Drogo(updates=5))
    assert result.status[0] in ("unverified", "max_updates")
    assert result.history["log_eigenvalue"][-1] == pytest.approx(result.log_eigenvalue)
    right, part = continuing.growth_around(DATA, 2.0, 3)
    wrong = replace(right, log_eigenvalue=right.log_eigenvalue + 0.2)
    monkeypatch.setattr(continuing, "growth_around", lambda *_: (wrong, part))
    assert fit(DATA, PROBLEM, QUICK).status == ("max_updates",)


def two_rings(first, second):
    """From the ring of 0 and 1 one may leave for that of 2 and 3, and never return."""
    state, after = np.repeat(np.arange(4), 2), np.array([1, 0, 0, 2, 3, 2, 2, 3])
    return table_of(state, after, -np.repeat([first, second], 4), copies=4)


@pytest.mark.parametrize("method", [Regression(updates=20), Drogo(updates=20)])
def test_parts_that_are_left_for_good(method):
    """In a ring in which half of the steps leave, a step that costs 1 is worth -1 + 2 log g, where g
    is half the golden ratio, the eigenvalue of ((1, 1), (1, 0)) / 2: -1.42, which is more than -3."""
    for reference in (0, 2):
        problem = Continuing(2.0, reference=reference)
        refused(DataError, None, fit, two_rings(1.0, 3.0), problem, method)
    result = fit(two_rings(1.0, 0.5), Continuing(2.0, reference=2), method)
    if method.needs_solution:
        assert result.gain == pytest.approx([-0.5])
    assert -1 + 2 * np.log((1 + np.sqrt(5)) / 4) > -3


@pytest.mark.slow
def test_states_that_do_not_repeat():
    """A point on a circle of circumference 1 is moved on or back by 0.1, and pays most at 0. From 0
    on, states are 0.1 apart: a ring of ten."""
    rng = np.random.default_rng(0)
    place, action = rng.uniform(size=2000), rng.integers(0, 2, 2000)
    after = place + np.where(action, 0.1, -0.1)

    def seen(x):
        return np.stack([np.cos(2 * np.pi * x), np.sin(2 * np.pi * x)], 1).astype(np.float32)

    data = Transitions.from_arrays(
        seen(place), seen(after), np.cos(2 * np.pi * place), np.zeros(2000, bool), action=action
    )
    result = fit(data, Continuing(1.0, reference=[1.0, 0.0]), Drogo(updates=400, batch_size=200),
                 network=replace(SMALL, width=32), optimiser=Optimiser(step_size=5e-3))  # fmt: skip
    places, on = np.arange(10) / 10, np.roll(np.eye(10), 1, axis=1)
    truth = exact.perron(MDP.from_arrays([on.T, on], np.cos(2 * np.pi * places)), 1.0)
    learned = result(seen(places))[0]
    assert abs(learned[0]) < 1e-6
    assert np.corrcoef(learned, truth.log_e)[0, 1] > 0.99
    assert result.gain[0] == pytest.approx(truth.gain, abs=0.05)
    assert result.status[0] in ("unverified", "max_updates")  # there is nothing to compare with
    assert result.policy()(np.float32([[0.0, 1.0], [0.0, -1.0]])).tolist() == [0, 1]  # towards 0


def test_river_swim_and_an_environment_that_leads_on():
    """Its rewards belong to an action and what it led to, and are positive."""
    world, lam = river_swim(), 4000.0
    state, action, after = np.nonzero(world.probability)
    share, reward = world.probability[state, action, after] / 2, world.reward[state, action, after]
    edges = Edges(6, state, after, share, reward, share < 0, np.zeros(share.size))
    truth = perron_of_edges(edges, lam, reference=1)
    often = np.round(20 * share).astype(int)  # every share is a multiple of 1/20
    columns = [np.repeat(part, often) for part in (state, after, reward)]
    data = table_of(*columns, copies=1, action=np.repeat(action, often))
    result = fit(data, Continuing(lam, reference=1), QUICK)
    assert result.gain == pytest.approx([truth.gain], rel=1e-12)
    assert np.abs(result.v[0] - truth.log_e).max() < 0.02
    assert result.policy()(np.array([5])) == [0]  # at the far end, stay there
    env = drogo.NeverEnding(gymnasium.make("drogo/GridTask-v0", observation="state"), at_end=7.0)
    with pytest.warns(UserWarning, match="different from the unwrapped version"):
        check_env(env, skip_render_check=True)
    data = drogo.collect(env, 5000, seed=0)
    assert not data.terminated.any()
    into = data.observations[data.next_state[data.reward == 7.0]]
    assert set(into.tolist()) == {env.reset(seed=0)[0]}
    assert fit(data, Continuing(), Regression(updates=20)).gain > -2
    missing = (data.state == data.state[0]) & (data.action == data.action[0])
    assert fit(data[~missing], Continuing(), Drogo(updates=5, action_values=True)).updates == 5


def test_a_map_that_is_0_everywhere_has_a_policy_and_one_of_another_class_is_not_verified():
    """All states pay the same, so that the default policy is the best one."""
    problem = Continuing(2.0, default_policy=np.array([0.9, 0.1]))
    with pytest.warns(UserWarning, match="flat"):
        result = fit(replace(DATA, reward=-np.ones(len(DATA))), problem, QUICK)
    assert result.gain == pytest.approx([-1.0])
    assert np.abs(result.v).max() < 1e-4
    assert np.abs(result.policy().probabilities(np.arange(5)) - [0.9, 0.1]).max() < 1e-3
    result = fit(DATA, PROBLEM, Regression(updates=2, action_values=False), network=Table())
    refused(ArgumentError, None, result.policy)
    # State 2 leads to a ring of two and is never returned to.
    data = table_of([0, 1, 2], [1, 0, 0], [1.0, 0.0, -1.0], copies=8)
    result = fit(data, Continuing(2.0, reference=0), Drogo(updates=3000))
    assert result.gain == pytest.approx([0.5], abs=0.02)
    assert result.status == ("unverified",)


def test_a_range_of_rewards_far_above_lam_is_told_and_numbers_stay_quiet():
    """NumPy's own warnings, of a run that diverges where states do not repeat, would be errors."""
    noise = np.random.default_rng(0).normal(size=(201, 2)).astype(np.float32)
    data = Transitions.from_arrays(noise[:-1], noise[1:], 1e6 * noise[:-1, 0], np.zeros(200))
    optimiser = Optimiser(step_size=1e30, clip_norm=1e30)
    with pytest.warns(UserWarning, match="larger lam") as told, raises(Diverged):
        fit(data, Continuing(1.0), Drogo(updates=40), network=SMALL, optimiser=optimiser)
    assert {warning.category for warning in told} == {UserWarning}


def test_what_cannot_be_learned():
    for wrong in (9, [1, 2]):
        refused(ArgumentError, "reference", fit, DATA, Continuing(reference=wrong))
    refused(MDPError, "reference", Continuing, reference="here")
    refused(DataError, None, fit, DATA, Continuing(reference=3.7))
    refused(DataError, "data", fit, table_of([0, 0], [0, 1], -1.0, [False, True]), Continuing())
    once = Transitions.from_table(np.arange(3), [0, 1], [1, 2], [1.0, 2.0], [0, 0])
    refused(DataError, None, fit, once, Continuing(), Regression())
    left = table_of([0, 1, 1, 1], [1, 1, 1, 1], [1.0, 2.0, 2.0, 2.0])
    refused(DataError, "reference", fit, left, Continuing(reference=0))
    refused(NotConverged, None, fit, DATA, Continuing(0.001))
    for method in (drogo.Paper(), Drogo(scaled=False), Drogo(weigh_actions=False)):
        refused(ArgumentError, "method", fit, DATA, PROBLEM, method)
