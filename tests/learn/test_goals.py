"""A map to every goal: against exact columns, by hand, and what must hold of a quasimetric."""

from dataclasses import replace
from functools import cache

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from drogo import DamagedFile, GridWorld, Transitions, collect, exact, fit_goals, load_goals
from drogo.learn.goals.networks import PairMLP, Pairs, Quasimetric, union_length
from drogo.learn.judge import cosine

WORLD = GridWorld.parse("goal H: -5\n\n######\n#..xG#\n#.#x.#\n#H...#\n######")
SMALL = {"width": 32, "depth": 1, "components": 8, "length": 4, "updates": 100, "step_size": 0.01}
TASKS = [[0.0, -3.0], [-5.0, 1.0], [-np.inf, 0.0]]


@cache
def data_of(kind="coordinates", n=1500, policy=None):
    env = gymnasium.make("drogo/GridWorld-v0", world=WORLD, observation=kind)
    return collect(env, n, seed=0, policy=policy)


def in_state_order(goals, kind="coordinates"):
    """The rows of the map's observations that are the states of the world."""
    return goals.rows_of(WORLD.observations(kind))


@cache
def fitted(network, objective="drogo"):
    return fit_goals(data_of(), network=network, objective=objective, seeds=2, **SMALL)


NETWORKS = [("table", "drogo"), ("quasimetric", "drogo"), ("mlp", "q")]


def mostly_right(observation, rng):
    return 0 if rng.random() < 0.6 else int(rng.integers(4))


@pytest.mark.parametrize("policy", [None, mostly_right])
@pytest.mark.parametrize("lam", [1.3, 20.0])
def test_the_table_is_that_of_the_world(lam, policy):
    """Every state and action was seen, and moves are certain: the data are the world."""
    goals = fit_goals(data_of(n=2500, policy=policy), lam=lam, network="table")
    rows = in_state_order(goals)
    assert np.array_equal(goals.goals, np.arange(WORLD.n_states))
    v = goals.v[0][np.ix_(rows, rows)]
    np.testing.assert_allclose(v, exact.log_columns(WORLD.mdp, lam), rtol=0, atol=1e-9)
    assert goals.status == ("converged",)
    assert goals.error[0] < 1e-11
    assert sorted(rows[WORLD.terminal]) == goals.terminal_states.tolist()


def test_transfer_from_the_table_is_exact():
    goals = fitted("table")
    terminals = np.flatnonzero(WORLD.terminal)
    order = [terminals.tolist().index(in_state_order(goals).tolist().index(t))
             for t in goals.terminal_states]  # fmt: skip
    task = goals.transfer(np.array(TASKS)[:, order])
    truth = exact.transfer(WORLD.mdp, 20.0, TASKS)
    rows = in_state_order(goals)
    np.testing.assert_allclose(task.v[:, rows], truth, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(task(goals.observations[[3, 4]]), task.v[:, [3, 4]])
    one = goals.transfer(np.array(TASKS[0])[order])
    np.testing.assert_array_equal(one.v, task.v[0])
    live = ~WORLD.terminal
    for k, v in enumerate(truth[:2]):
        weights = np.exp(v[WORLD.next_state] - v[:, None])  # the reward of a state is a factor
        wanted = weights / weights.sum(axis=1, keepdims=True)
        found = task.policy(k).probabilities(goals.observations[rows])
        np.testing.assert_allclose(found[live], wanted[live], atol=1e-9)
        assert np.ptp(found[~live], axis=1).max() == 0  # there is nothing to do


def test_the_policy_to_a_goal_is_that_of_its_column():
    goals = fitted("table")
    rows = in_state_order(goals)
    goal = 2
    v = exact.log_columns(WORLD.mdp, 20.0, [goal])[0]
    live = ~WORLD.terminal
    weights = np.exp(v[WORLD.next_state[live]])
    found = goals.policy(goals.observations[rows[goal]]).probabilities(goals.observations[rows])
    wanted = weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found[live], wanted, atol=1e-9)


def union_by_hand(left, right):
    """The length of the union of the intervals [x, max(x, y)], point by point."""
    points = np.unique(np.concatenate([left, right]))
    middle = (points[1:] + points[:-1]) / 2
    inside = (middle[:, None] > left) & (middle[:, None] < np.maximum(left, right))
    return (np.diff(points) * inside.any(axis=1)).sum()


def test_a_union_by_hand():
    """[0, 1.5], [1, 1] and [2, 3]: 2.5. The second and third alone: 1. All within [0, 4]: 4."""
    left = jnp.array([[0.0, 1.0, 2.0]] * 3)
    right = jnp.array([[1.5, 0.5, 3.0], [-1.0, 0.5, 3.0], [4.0, 3.0, 3.5]])
    assert union_length(left, right).tolist() == [2.5, 1.0, 4.0]


@pytest.mark.parametrize("length", [1, 2, 7])
def test_unions_of_many_intervals(length):
    rng = np.random.default_rng(length)
    left, right = rng.integers(-8, 9, (2, 200, length)).astype(np.float32)
    found = union_length(
        jnp.sort(left, axis=1), jnp.asarray(np.take_along_axis(right, left.argsort(axis=1), 1))
    )
    np.testing.assert_array_equal(
        found, [union_by_hand(*pair) for pair in zip(left, right, strict=True)]
    )


@eqx.filter_jit
def all_pairs(network, inputs):
    features, n = network.features(inputs), len(inputs)
    state, goal = jnp.divmod(jnp.arange(n * n), n)
    return network.values(Pairs(features, features, state, goal)).reshape(n, n)


def test_a_quasimetric_by_hand():
    """Components [2, 3] + [0, 1] = 2 and [1, 1] + [1, 4] = 3. Half of the largest and half of the
    mean are 2.75. Back: [3, 3] + [1, 1] = 0 and [0, 1] + [4, 4] = 1, so 0.75."""
    network = Quasimetric(4, 0, jax.random.key(0), depth=1, components=2, length=2)
    layer = eqx.tree_at(
        lambda layer: (layer.weight, layer.bias),
        eqx.nn.Linear(4, 4, key=jax.random.key(0)), (jnp.eye(4), jnp.zeros(4)),
    )  # fmt: skip
    network = eqx.tree_at(lambda network: network.layers, network, (layer,))
    table = jnp.array([[2.0, 0.0, 1.0, 1.0], [3.0, 1.0, 0.0, 4.0]])
    np.testing.assert_allclose(all_pairs(network, table), [[0, -2.75], [-0.75, 0]], atol=1e-6)


@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 30.0]))
@settings(max_examples=30)
def test_a_quasimetric_for_all_parameters(seed, size):
    rng = np.random.default_rng(seed)

    def drawn(leaf):
        if not eqx.is_inexact_array(leaf):
            return leaf
        return jnp.asarray(size * rng.normal(size=leaf.shape), dtype=leaf.dtype)

    network = jax.tree.map(drawn, Quasimetric(3, 2, jax.random.key(0), 16, 1, 3, 5))
    inputs = rng.normal(size=(9, 3)).astype(np.float32)
    v = np.asarray(all_pairs(network, inputs), dtype=float)
    assert (np.diag(v) == 0).all()
    assert (v <= 0).all()
    assert (v[:, None, :] >= v[:, :, None] + v[None, :, :] - 1e-5 * np.abs(v).max()).all()


def test_pairs_from_tables_and_side_by_side():
    features = jax.random.normal(jax.random.key(0), (7, 3))
    state, goal = jnp.array([0, 4, 6, 2]), jnp.array([5, 5, 1, 2])
    for network in (
        PairMLP(3, 0, jax.random.key(1), 16, 1, 2),
        Quasimetric(3, 0, jax.random.key(1), 16, 1, 3, 4),
    ):
        values = eqx.filter_jit(network.values)
        found = values(Pairs(features, features, state, goal))
        np.testing.assert_allclose(found, values(Pairs(features[state], features[goal])), atol=1e-6)


@pytest.mark.parametrize(
    ("network", "objective"),
    [NETWORKS[0], pytest.param(*NETWORKS[1], marks=pytest.mark.slow), NETWORKS[2]],
)
def test_what_was_learned_can_be_used_and_kept(network, objective, tmp_path):
    goals = fitted(network, objective)
    n = WORLD.n_states
    assert goals.v.shape == (2, n, n)
    truth = fitted("table").v[0]
    assert np.array_equal(np.isneginf(goals.v[1]), np.isneginf(truth))
    assert (goals.v[:, np.arange(n), goals.goals] == 0).all()
    known = np.isfinite(truth)
    off = np.abs(goals.v[:, known] - truth[known]).max(axis=1)
    assert off == pytest.approx(goals.error, abs=1e-9)
    for lane in goals.v:  # after a few updates
        assert cosine(lane[known][None], truth[known])[0] > 0.97
    state, goal = np.divmod(np.arange(n * n), n)
    obs = goals.observations
    np.testing.assert_allclose(
        goals(obs[state], obs[goal]).reshape(2, n, n), goals.v.transpose(0, 2, 1), atol=1e-4
    )
    goals.save(tmp_path / "goals.npz")
    again = load_goals(tmp_path / "goals.npz")
    assert (again.status, again.seeds, again.notes) == (goals.status, goals.seeds, goals.notes)
    np.testing.assert_array_equal(again.v, goals.v)
    np.testing.assert_array_equal(again(obs, obs[3]), goals(obs, obs[3]))
    tasks = [part.transfer([0.0, -3.0], seed=1) for part in (goals, again)]
    np.testing.assert_array_equal(tasks[0].v, tasks[1].v)
    for part in (goals, tasks[0]):
        given = (obs[3],) if part is goals else ()
        of_seed = {"seed": 1} if part is goals else {}
        probabilities = part.policy(*given, **of_seed).probabilities(obs)
        assert probabilities.shape == (n, 4)
        assert probabilities.sum(axis=1) == pytest.approx(np.ones(n))
        potential = part.potential(*given, **of_seed)
        assert np.isfinite(potential(obs)).all()
        assert np.abs(np.diff(potential(obs)[goals.neighbours], axis=1)).mean() == pytest.approx(1)


def test_unseen_observations():
    near = np.array([[0.03, 0.04]], dtype=np.float32)
    for network, objective in NETWORKS[1:]:
        goals = fitted(network, objective)
        assert np.isfinite(goals(near, near + 0.1)).all()
        assert (goals(near, near) == 0).all()
        end = goals.observations[goals.terminal_states[:1]]
        assert np.isneginf(goals(end, near)).all()  # an episode is over there
        assert goals.transfer([0.0, -3.0])(near).shape == (1,)
        assert np.isfinite(goals.potential(near[0])(near + 0.1)).all()
        if objective == "q":
            assert goals.policy(near[0]).predict(near[0] + 0.1)[0] in range(4)
            assert goals.transfer([0.0, -3.0]).policy().probabilities(near).shape == (1, 4)
        else:
            with pytest.raises(ValueError, match="does not occur in the data"):
                goals.policy(near[0]).probabilities(near)
    with pytest.raises(ValueError, match="a table knows no other"):
        fitted("table")(near, near)


def test_what_the_data_do_not_tell():
    """State 2 cannot get back, state 3 was never left, and action 1 of state 1 never taken."""
    state = np.tile([0, 0, 1, 2, 2], 3)
    after = np.tile([1, 0, 2, 4, 3], 3)
    action = np.tile([0, 1, 0, 0, 1], 3)
    rewards = np.full(15, -np.log(2))
    data = Transitions.from_table(
        np.eye(5, dtype=np.float32), state, after, rewards, after == 4, action=action
    )
    goals = fit_goals(data, lam=1.0, network="table")
    # Half of the time to 1, at half the worth of a step: e = 1/4 + e/4 = 1/3. The way to 3 is left
    # out, so that 2 leads to 4 for certain.
    wanted = [[1, 0, 0, np.nan, 0], [1 / 3, 1, 0, np.nan, 0], [1 / 6, 1 / 2, 1, np.nan, 0],
              [1 / 12, 1 / 4, 1 / 2, np.nan, 1]]  # fmt: skip
    np.testing.assert_allclose(np.exp(goals.v[0]), wanted, atol=1e-12)
    assert goals.goals.tolist() == [0, 1, 2, 4]
    assert goals.status == ("unverified",)
    assert [note.split()[0] for note in goals.notes] == ["1", "1", "3"]
    # Of action 1 of state 2 nothing is known, so that action 0 is all that there is to do.
    policies = (goals.policy(goals.observations[4]), goals.transfer([0.0]).policy())
    for policy in policies:
        assert policy.probabilities(goals.observations)[[1, 2]].tolist() == [[1, 0], [1, 0]]
    network = fit_goals(data, lam=1.0, **SMALL)
    assert network.status[0] != "converged"
    assert np.isfinite(network.v[0, :, 3]).all()


def test_a_state_that_leads_only_to_unknown_ones_is_no_goal():
    """From 0 to 1 and to 2; from 1 to the end, from 2 to 3, which was never left."""
    state, after = np.tile([0, 0, 1, 2], 3), np.tile([1, 2, 4, 3], 3)
    table = np.eye(5, dtype=np.float32)
    data = Transitions.from_table(table, state, after, np.full(12, -1.0), after == 4)
    goals = fit_goals(data, lam=1.0, network="table")
    assert goals.goals.tolist() == [0, 1, 4]
    np.testing.assert_allclose(goals.v[0, 2], [-2, -1, np.nan, np.nan, 0], atol=1e-12)


def test_the_values_of_actions_add_up_to_those_of_states():
    """Also where an action was never taken, and where data are of another policy."""
    state, after, action = np.tile([0, 0, 1], 4), np.tile([1, 0, 2], 4), np.tile([0, 1, 0], 4)
    table = np.eye(3, dtype=np.float32)
    data = Transitions.from_table(
        table, state, after, np.full(12, -1.0), after == 2, action=action, n_actions=3
    )
    for known in (data, data_of(policy=mostly_right)):
        goals = fit_goals(known, lam=2.0, network="table")
        x = goals.model.values(goals.v[0], goals.n_actions)
        with np.errstate(divide="ignore"):
            total = np.logaddexp.reduce(x, axis=2)
        left = np.isin(np.arange(len(known.observations)), known.state)
        others = left[None] & (np.arange(left.size)[None] != goals.goals[:, None])
        np.testing.assert_allclose(total[others], goals.v[0][others], atol=1e-9)


@pytest.mark.slow
def test_actions_that_lead_nowhere_are_learned_to_be_worth_nothing(optimised):
    """With a value for each action, the policy to each goal is that of the table."""
    learned = fit_goals(
        data_of(), network="mlp", objective="q", width=64, depth=1, updates=1000, batch_size=512,
        step_size=3e-3,
    )  # fmt: skip
    table, worst = fitted("table"), 0.0
    live = np.setdiff1d(np.arange(WORLD.n_states), table.terminal_states)
    for row in table.goals:
        others = np.setdiff1d(live, row)
        places = [goals.policy(goals.observations[row]) for goals in (learned, table)]
        first, second = (policy.probabilities(table.observations[others]) for policy in places)
        worst = max(worst, np.abs(first - second).max())
    assert worst < 0.1
    assert learned.error[0] < 0.3


def test_fewer_goals_have_all_terminal_states():
    goals = fit_goals(data_of(), network="table", most_goals=5, seeds=[3])
    assert goals.v.shape == (1, 5, WORLD.n_states)
    assert np.isin(goals.terminal_states, goals.goals).all()
    assert goals.transfer([0.0, 0.0], seed=3).v.shape == (WORLD.n_states,)
    other = np.setdiff1d(np.arange(WORLD.n_states), goals.goals)[0]
    with pytest.raises(ValueError, match="a higher most_goals"):
        goals(goals.observations, goals.observations[other])


def line(n=800):
    """Steps of 0.1 to either side on a line from 0 to 1, with walls at its ends."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (n, 1)).astype(np.float32)
    action = rng.integers(0, 2, n)
    y = np.abs(x + np.where(action, 0.1, -0.1)[:, None])
    y = np.where(y > 1, 2 - y, y).astype(np.float32)
    over = y[:, 0] > 0.97
    return Transitions.from_arrays(
        x, y, np.full(n, -1.0), over, action=action, behaviour=np.full(n, 0.5)
    )


def near_enough(observations, goals):
    return np.abs(observations - goals)[:, 0] <= 0.05


@pytest.mark.parametrize(
    ("network", "objective"), [NETWORKS[1], pytest.param(*NETWORKS[2], marks=pytest.mark.slow)]
)
def test_continuous_states(network, objective, tmp_path):
    small = {**SMALL, "batch_size": 200, "seeds": 1}
    how = {"radius": 0.05} if objective == "q" else {"reached": near_enough}
    goals = fit_goals(line(), network=network, objective=objective, **how, **small)
    assert goals.status == ("unverified",)
    assert np.isinf(goals.error).all()
    x = np.array([[0.31], [0.5], [0.81]], dtype=np.float32)
    v = goals(x, x[0])[0]
    assert v[0] == 0 > v[1] > v[2]
    assert (goals(x, x + np.float32(0.04)) == 0).all()  # within reach
    goals.save(tmp_path / "goals.npz")
    if objective == "q":
        assert load_goals(tmp_path / "goals.npz").policy(x[0])(x).shape == (3,)
    else:
        with pytest.raises(ValueError, match=r"Give it again: load_goals\(path, reached=...\)"):
            load_goals(tmp_path / "goals.npz")
        again = load_goals(tmp_path / "goals.npz", reached=near_enough)
        np.testing.assert_array_equal(again(x, x[0])[0], v)
        with pytest.raises(ValueError, match="what actions lead to is not known"):
            goals.policy(x[0])
    assert np.isfinite(goals.potential(x[0])(x)).all()
    assert goals.notes[-1].endswith("% of the steps that are learned from reach their goal.")
    far = goals.observations[goals.observations[:, 0] < 0.5][0]
    shown = goals(goals.observations, far)[0]
    np.testing.assert_allclose(shown, goals.v[0, goals.rows_of(far[None])[0]], atol=1e-5)
    with pytest.raises(ValueError, match="terminal states are places that overlap"):
        goals.transfer([0.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"network": "cnn"}, "network is 'cnn'; choose one of quasimetric, mlp, table"),
        ({"lam": -1.0}, "lam is -1.0; it must be positive"),
        ({"frequency": 3}, "unknown setting.s.: frequency. The settings are lam, network"),
        ({"objective": "q"}, "objective 'q' has an output for each action"),
        ({"seeds": 0}, "seeds is 0"),
        ({"radius": 0.1}, "Leave out reached and radius"),
        ({"target_rate": 0.0}, "target_rate is 0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fit_goals(data_of(), **arguments)


@pytest.mark.parametrize(("share", "message"), [(0, "a larger radius"), (1, "a smaller radius")])
def test_goals_that_are_never_reached_or_always(share, message):
    with pytest.raises(ValueError, match=message):
        fit_goals(line(), reached=lambda seen, goals: np.full(len(seen), bool(share)), **SMALL)


def test_wrong_arguments_of_continuous_states():
    for arguments, message in [
        ({}, "no goal is ever reached exactly. Say when"),
        ({"radius": 0.1, "reached": near_enough}, "give either radius="),
        ({"radius": -1.0}, "radius is -1.0; it must be positive"),
        ({"radius": 0.1, "network": "table"}, "there is no table"),
        ({"reached": lambda a, b: a[:, 0] - b[:, 0]}, "reached returned float32 of shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            fit_goals(line(), **{**SMALL, **arguments})


def test_wrong_uses(tmp_path):
    goals = fitted("table")
    obs = goals.observations
    for call, message in [
        (lambda: goals(obs[0], obs[0]), r"Give a batch: \(n, 2\)"),
        (lambda: goals(obs[:3], obs[:2]), "the goals have shape"),
        (lambda: goals.policy(obs[0], seed=5), "seed 5 is none of this map's seeds"),
        (lambda: goals.transfer([0.0]), r"terminal_rewards has shape \(1,\); expected"),
        (lambda: goals.transfer([0.0, 1.0]).policy(1), "task is 1; the tasks run from 0 to 0"),
        (lambda: goals.save(tmp_path), "exists"),
    ]:
        with pytest.raises((ValueError, OSError), match=message):
            call()
    states = data_of("state")
    assert fit_goals(states, network="table").status == ("converged",)
    with pytest.raises(ValueError, match="state numbers"):
        fit_goals(states)
    mixed = Transitions.from_table(np.eye(3), [0, 1, 1, 2], [1, 2, 0, 1], -np.ones(4), [0, 1, 0, 0])
    with pytest.raises(ValueError, match="observation 2 of the table, and 0 more, are terminal"):
        fit_goals(replicate(mixed), network="table")


def replicate(data):
    """The same transitions three times."""
    names = ("state", "next_state", "reward", "terminated")
    columns = [np.tile(getattr(data, name), 3) for name in names]
    return Transitions.from_table(data.observations, *columns)


def test_files_are_read_with_suspicion(tmp_path):
    goals = fitted("quasimetric")
    goals.save(tmp_path / "goals.npz")
    with np.load(tmp_path / "goals.npz") as stored:
        arrays = dict(stored)
    for name, wrong in [
        ("goals", arrays["goals"] + 10**6),
        ("goals", arrays["goals"].astype(float)),
        ("v", arrays["v"][:1]),
        ("neighbours", -1 - arrays["neighbours"]),
        ("model/next_state", arrays["model/next_state"] + 99),
        ("model/action", arrays["model/action"] + 4),
        ("params/.mixing", np.zeros(5, dtype=np.float32)),
        ("numbers/scale", np.zeros(3, dtype=np.float32)),
    ]:
        with (tmp_path / "wrong.npz").open("wb") as stream:
            np.savez(stream, **{**arrays, name: wrong})
        with pytest.raises(DamagedFile, match="wrong.npz"):
            load_goals(tmp_path / "wrong.npz")


def test_the_value_of_pairs_is_finite_and_normalised():
    goals = fitted("table")
    obs, v = goals.observations, goals.v[1]
    state, goal = np.divmod(np.arange(len(obs) ** 2), len(obs))
    plain = goals.value(1, normalised=False)(obs[state], obs[goal])
    known = v.T[state, goal]
    assert np.array_equal(
        plain, np.where(np.isfinite(known), known, known[np.isfinite(known)].min())
    )
    scale = plain / np.where(plain == 0, 1, goals.value(1)(obs[state], obs[goal]))
    ends = v[:, goals.neighbours]
    steps = np.abs(np.diff(ends, axis=2)[..., 0])[np.isfinite(ends).all(axis=2)]
    assert scale[plain < 0] == pytest.approx(np.full((plain < 0).sum(), steps.mean()))


def test_nan_and_a_diverged_seed_are_no_results(tmp_path):
    goals = fitted("quasimetric")
    nothing = goals.observations[:1] * np.float32(np.nan)
    assert np.isnan(goals.value(0)(nothing, goals.observations[:1])).all()
    lost = replace(goals, status=("diverged", "max_updates"), diverged_at=(7, None))
    for use in (lambda: lost.potential(goals.observations[0]), lambda: lost.value(0)):
        with pytest.raises(ValueError, match="seed 0 diverged at update 7"):
            use()
    goals.save(tmp_path / "goals.npz")
    arrays = dict(np.load(tmp_path / "goals.npz"))
    for name, change in {"none": None, "nan": np.float32(np.nan)}.items():
        kept = {key: part for key, part in arrays.items() if key != "numbers/scale"}
        kept |= {} if change is None else {"numbers/scale": np.asarray(change)}
        np.savez(tmp_path / f"{name}.npz", **kept)
        with pytest.raises(DamagedFile):
            load_goals(tmp_path / f"{name}.npz")
    with pytest.raises(ValueError, match="this map has no function reached"):
        load_goals(tmp_path / "goals.npz", reached=near_enough)
