"""Maps of tasks that never end, against their exact solutions."""

from dataclasses import replace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from drogo import MDP, NeverEnding, Transitions, collect, exact, fit
from drogo.errors import ArgumentError, DamagedFile, DataError, NotConverged
from drogo.exact.growth import growth
from drogo.learn import Numbers, Sample, continuing, fit_continuing, load_continuing
from drogo.learn.differential import Differential
from drogo.worlds.continuing import river_swim

SETTINGS = {"updates": 600, "network": "table"}
JOINTLY = {"updates": 3000, "network": "table"}


def ring(n=5):
    """Two steps on or one step back around a ring, whose states pay 1, 0, -1 ...; every step once."""
    state, action = np.repeat(np.arange(n), 2), np.tile([0, 1], n)
    next_state = (state + np.where(action == 0, 2, -1)) % n
    reward = 1.0 - np.arange(n)
    P = np.zeros((2, n, n))
    P[action, state, next_state] = 1.0
    columns = (np.tile(part, 3) for part in (state, next_state, reward[state]))
    data = Transitions.from_table(
        np.arange(n), *columns, np.zeros(6 * n), action=np.tile(action, 3), n_actions=2
    )
    return data, MDP.from_arrays(P, reward)


@pytest.mark.slow
def test_the_gain_is_learned_as_well():
    """By an update of all transitions, and from transitions one by one."""
    data, mdp = ring()
    known = exact.perron(mdp, 2.0, reference=3)
    result = fit_continuing(data, lam=2.0, reference=3, preset="fast", **JOINTLY)
    assert result.gain == pytest.approx([known.gain], abs=0.01)
    assert np.abs(result.v - known.log_e).max() < 0.02
    assert result.status == ("converged",)
    assert result.history["log_eigenvalue"][-1] == pytest.approx(result.log_eigenvalue)
    shares = result.policy().probabilities(np.arange(5))
    assert np.abs(shares - known.policy(mdp)).max() < 0.02
    assert result([3, 0])[0] == pytest.approx(result.v[0, [3, 0]])
    short = fit_continuing(data, lam=2.0, preset="fast", network="table", updates=5)
    assert short.status == ("max_updates",)


def test_the_eigenvalue_of_one_class_is_not_verified_for_another():
    """State 2 leads to a ring of two and is never come back to."""
    state, after = np.tile([0, 1, 2], 8), np.tile([1, 0, 0], 8)
    reward = np.tile([1.0, 0.0, -1.0], 8)
    data = Transitions.from_table(np.arange(3), state, after, reward, np.zeros(24))
    result = fit_continuing(data, lam=2.0, reference=0, preset="fast", **JOINTLY)
    assert result.gain == pytest.approx([0.5], abs=0.02)
    assert result.status == ("unverified",)


def circle(n=2000):
    """A point on a circle of circumference 1 that is moved on or back by 0.1, at a cost that is
    lowest at 0; no state is seen twice."""
    rng = np.random.default_rng(0)
    place, action = rng.uniform(size=n), rng.integers(0, 2, n)
    after = (place + np.where(action, 0.1, -0.1)) % 1

    def seen(x):
        return np.stack([np.cos(2 * np.pi * x), np.sin(2 * np.pi * x)], 1).astype(np.float32)

    reward = np.cos(2 * np.pi * place)
    return seen(place), seen(after), reward, np.zeros(n, dtype=bool), action


def two_rings(costs):
    """From the ring of 0 and 1 one may leave for that of 2 and 3, and never come back."""
    state, after = np.tile([0, 0, 1, 1, 2, 2, 3, 3], 4), np.tile([1, 0, 0, 2, 3, 2, 2, 3], 4)
    reward = -np.repeat(costs, 2)[state]
    return Transitions.from_table(np.arange(4), state, after, reward, np.zeros(32))


@pytest.mark.parametrize("preset", ["direct", "fast"])
def test_parts_that_are_left_for_good(preset):
    """In a ring in which half of the steps leave, a step that costs 1 is worth -1 + 2 log g, where g
    is the eigenvalue of ((1, 1), (1, 0)) / 2: half the golden ratio."""
    settings = {"lam": 2.0, "preset": preset, "network": "table", "updates": 20}
    with pytest.raises(
        DataError, match=r"2 observation.s. never lead to the reference .* number 2"
    ):
        fit_continuing(two_rings([1.0, 3.0]), reference=0, **settings)
    worth = -1 + 2 * np.log((1 + np.sqrt(5)) / 4)
    told = rf"worth -3 where the reference is, and {worth:.6g} in a part .*number 0"
    with pytest.raises(DataError, match=told):
        fit_continuing(two_rings([1.0, 3.0]), reference=2, **settings)
    result = fit_continuing(two_rings([1.0, 0.5]), reference=2, **settings)
    if preset == "direct":
        assert result.gain == pytest.approx([-0.5])


def test_a_worth_that_was_not_computed(monkeypatch):
    monkeypatch.setattr(
        "drogo.learn.growth.growth",
        lambda *arguments: growth(*arguments)._replace(bracket=(-1.0, -0.5)),
    )
    with pytest.raises(NotConverged, match="its bounds are -2 and -1"):
        fit_continuing(ring()[0], lam=2.0, **SETTINGS)
    reported = []
    result = fit_continuing(
        ring()[0], lam=2.0, preset="fast", network="table", updates=5, callbacks=[reported.append]
    )
    assert result.status[0] in ("unverified", "max_updates")
    last = reported[-1].row["log_eigenvalue"]
    assert last == pytest.approx(result.log_eigenvalue)
    assert last == pytest.approx(result.history["log_eigenvalue"][-1])


@pytest.mark.slow
def test_states_that_do_not_repeat():
    """From 0 on, states are 0.1 apart: a ring of ten."""
    before, after, reward, never, action = circle()
    data = Transitions.from_arrays(before, after, reward, never, action=action)
    settings = {"updates": 400, "width": 32, "depth": 2, "batch_size": 200, "step_size": 5e-3}
    result = fit_continuing(data, lam=1.0, reference=[1.0, 0.0], **settings)
    place = np.arange(10) / 10
    on = np.roll(np.eye(10), 1, axis=1)
    known = exact.perron(MDP.from_arrays([on.T, on], np.cos(2 * np.pi * place)), 1.0)
    angle = 2 * np.pi * place
    learned = result(np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32))[0]
    assert abs(learned[0]) < 1e-6
    assert np.corrcoef(learned, known.log_e)[0, 1] > 0.99
    assert result.gain[0] == pytest.approx(known.gain, abs=0.05)
    assert result.status[0] in ("unverified", "max_updates")  # there is nothing to compare with
    policy = result.policy()
    assert policy(np.float32([[0.0, 1.0], [0.0, -1.0]])).tolist() == [0, 1]  # towards 0


@pytest.mark.parametrize("preset", ["direct", "fast"])
def test_saved_and_loaded(preset, tmp_path):
    data, _ = ring()
    result = fit_continuing(data, lam=2.0, preset=preset, network="table", updates=20)
    result.save(tmp_path / "map.npz")
    again = load_continuing(tmp_path / "map.npz")
    assert np.array_equal(again.v, result.v)
    assert np.array_equal(again.gain, result.gain)
    assert np.array_equal(again([1, 4]), result([1, 4]))
    assert again.policy()(np.arange(5)).tolist() == result.policy()(np.arange(5)).tolist()
    with pytest.raises(FileExistsError):
        result.save(tmp_path / "map.npz")
    result.fit.save(tmp_path / "fit.npz")
    with pytest.raises(DamagedFile, match="drogo continuing"):
        load_continuing(tmp_path / "fit.npz")


def test_the_slopes_of_the_map_and_of_the_eigenvalue():
    """With k = 2 * 0.25, -r/lam = 0.3 and v(s') - v(s) = 0.5, the bracket is, scaled,
    1 - exp(0.5 - 0.8) = 0.2591818; the level 0.7 adds 3 * 0.7 to the slope of v alone."""
    objective = Differential(Numbers(lam=1.0, scale=2.0, scaling=1.0, penalty=3.0))
    sample = Sample(jnp.float32(0.3), jnp.bool_(False), jnp.float32(0.7), jnp.float32(0.25))
    slope = jax.grad(objective.loss)(jnp.float32(1.0), jnp.float32(1.5), sample)
    assert slope == pytest.approx(0.2591818 + 2.1, abs=1e-6)

    def by_held(held):
        return objective.loss(jnp.float32(1.0), jnp.float32(1.5), sample._replace(held=held))

    assert jax.grad(by_held)(jnp.float32(0.25)) == pytest.approx(2 * 0.2591818, abs=1e-6)


def test_an_environment_that_leads_on():
    env = NeverEnding(gymnasium.make("drogo/GridTask-v0", observation="state"), at_end=7.0)
    with pytest.warns(UserWarning, match="different from the unwrapped version"):
        check_env(env, skip_render_check=True)
    data = collect(env, 5000, seed=0)
    assert not data.terminated.any()
    assert (data.reward == 7.0).sum() > 0
    first = env.reset(seed=0)[0]
    into = np.asarray(data.observations)[data.next_state[data.reward == 7.0]]
    assert set(into.tolist()) == {first}
    assert fit_continuing(data, updates=20).gain > -2


def test_a_ring_against_its_exact_solution():
    data, mdp = ring()
    result = fit_continuing(data, lam=2.0, reference=3, seeds=2, **SETTINGS)
    known = exact.perron(mdp, 2.0, reference=3)
    assert result.gain == pytest.approx([known.gain] * 2, abs=1e-12)
    assert np.abs(result.v - known.log_e).max() < 0.02
    assert result.status == ("converged", "converged")
    shares = result.policy(1).probabilities(np.arange(5))
    assert np.abs(shares - known.policy(mdp)).max() < 0.02
    assert np.isfinite(result.potential()(np.arange(5))).all()
    assert "gain" in repr(result)


def test_river_swim():
    """Its rewards belong to an action and what it led to, and are positive."""
    world, lam = river_swim(), 4000.0
    state, action, after = np.nonzero(world.probability)
    share = world.probability[state, action, after] / 2
    reward = world.reward[state, action, after]
    steps = exact.Steps(6, state, after, share, reward / lam)
    known = exact.perron_of_steps(steps, lam, reference=1)
    often = np.round(20 * share).astype(int)  # every share is a multiple of 1/20
    columns = (np.repeat(part, often) for part in (state, after, reward))
    data = Transitions.from_table(
        np.arange(6), *columns, np.zeros(often.sum()), action=np.repeat(action, often)
    )
    result = fit_continuing(data, lam=lam, reference=1, **SETTINGS)
    assert result.gain == pytest.approx([known.gain], rel=1e-12)
    assert np.abs(result.v[0] - known.log_e).max() < 0.02
    assert result.policy()(np.array([5])) == [0]  # at the far end, stay there


def test_what_cannot_be_learned():
    data, _ = ring()
    with pytest.raises(ArgumentError, match="reference is 9, which is none of the 5 observations"):
        fit_continuing(data, reference=9)
    with pytest.raises(ArgumentError, match="lam is -1"):
        fit_continuing(data, lam=-1.0)
    ends = Transitions.from_table(
        np.arange(2), [0, 0, 0, 0], [0, 1, 0, 1], [-1.0] * 4, [0, 1, 0, 1]
    )
    with pytest.raises(DataError, match="2 of the 4 transitions are terminated, so this task ends"):
        fit_continuing(ends)
    once = Transitions.from_table(np.arange(3), [0, 1], [1, 2], [1.0, 1.0], [0, 0])
    with pytest.raises(DataError, match="computed from states that repeat"):
        fit_continuing(once, preset="direct")
    with pytest.raises(ArgumentError, match="objective is 'gdo'"):
        fit_continuing(data, objective="gdo")
    for wrong, message in (
        (3.7, "these are float64, and do not fit"),
        ([1, 2], "expected one observation"),
    ):
        with pytest.raises(ArgumentError, match=message):
            fit_continuing(data, reference=wrong)
    with pytest.raises(ArgumentError, match="reference is 'here'; expected one observation"):
        fit_continuing(data, reference="here")
    for settings, message in (
        ({"scaled": False}, "scaled is False; for a task that never ends it is True"),
        ({"weigh_actions": False}, "weigh_actions is False"),
        ({"preset": "paper"}, "preset is 'paper'; choose one of auto, direct"),
        ({"vectors": 2}, "takes no vectors="),
    ):
        with pytest.raises(ArgumentError, match=message):
            fit_continuing(data, **settings)
    with pytest.raises(NotConverged, match="the map at lam = 0.01 could not be .* a larger lam"):
        fit_continuing(data, lam=0.01)
    left = Transitions.from_table(np.arange(2), [0, 1, 1, 1], [1, 1, 1, 1], [1.0] * 4, [0] * 4)
    with pytest.raises(DataError, match="the reference, is never come back to"):
        fit_continuing(left, reference=0)


def test_a_map_that_is_0_everywhere_has_a_policy():
    """All states pay the same, so that the default policy is the best one."""
    data, _ = ring()
    data = replace(data, reward=-np.ones(len(data)))
    result = fit_continuing(data, lam=2.0, default_policy=[0.9, 0.1], **SETTINGS)
    assert result.gain == pytest.approx([-1.0])
    assert np.abs(result.v).max() < 1e-4
    shares = result.policy().probabilities(np.arange(5))
    assert np.abs(shares - [0.9, 0.1]).max() < 1e-3


def test_a_gain_of_another_problem_is_noticed(monkeypatch):
    data, _ = ring()
    known = continuing.growth_around(data, 2.0, 0)
    wrong = known[0]._replace(log_eigenvalue=known[0].log_eigenvalue + 0.2)
    monkeypatch.setattr(continuing, "growth_around", lambda *_: (wrong, known[1]))
    assert fit_continuing(data, lam=2.0, **SETTINGS).status == ("max_updates",)


def test_a_trap_that_costs_nothing():
    """Half of the steps from 0 lead to 1, which is never left: there is no infinite vector, and no
    value that holds in 1 either."""
    state, after = np.tile([0, 0, 1, 1], 4), np.tile([1, 2, 1, 1], 4)
    reward = np.where(state == 0, -1.0, 0.5)
    data = Transitions.from_table(np.arange(3), state, after, reward, after == 2)
    with pytest.raises(DataError, match=r"1 observation\(s\) never lead to a terminal state"):
        fit(data, lam=1.0)


def test_rewards_of_any_sign_with_an_end():
    """With g = exp(0.2)/2 and h = exp(-1)/2, x0 = g (x0 + x1) and x1 = h (x0 + 1), so that x1 is
    h / (1 - h g / (1 - g))."""
    P = np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])
    mdp = MDP.from_arrays(P, [0.2, -1.0, 0.0], [2])
    state = np.tile([0, 0, 1, 1], 4)
    next_state = np.tile([0, 1, 0, 2], 4)
    data = Transitions.from_table(
        np.arange(3), state, next_state, mdp.reward[state], next_state == 2
    )
    with pytest.warns(UserWarning, match="8 of 16 rewards are not negative. The vector is finite"):
        result = fit(data, lam=1.0, **SETTINGS)
    known = exact.log_column(mdp, 1.0)
    assert known[1] == pytest.approx(np.log(0.1839397 / (1 - 0.1839397 * 1.568724)), abs=1e-5)
    assert np.abs(result.v[0] - known).max() < 0.02
    assert result.status == ("converged",)
