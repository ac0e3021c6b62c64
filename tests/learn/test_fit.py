"""`fit` against exact answers: sweeps, continuing, early stopping and divergence."""

import itertools
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import drogo
import small_data
from drogo import Column, Drogo, Goals, Paper, Regression, Spectrum, exact, fit, progress, solve
from drogo.errors import ArgumentError, ArgumentTypeError, Diverged
from drogo.learn import MLP, Optimiser, Quasimetric
from raising import raises, refused
from small_data import CHAIN, FAST, ROOM, SLOW, SMALL, WORLD, balanced, data_of, line, table_of

LONG = Drogo(updates=4000, stop_early=False)
PAPER = Paper(updates=100, batch_size=500)
TRUTH = exact.log_column(WORLD.mdp, 20.0)
PENALTIES = drogo.NaturalGDO(updates=20, penalty=[0.1, 2.0])
GAINS = (small_data.ring()[0], drogo.Continuing([2.0, 4.0]))


def test_drogo_finds_the_column_of_worlds_and_of_data():
    result = fit(balanced(), Column(), LONG, optimiser=FAST)
    assert (result.status, result.v[0, 4]) == (("converged",), 0)
    assert np.abs(result.v[0] - exact.log_column(CHAIN.mdp, 20.0)).max() < 1e-3
    assert np.allclose(result.v, solve(balanced(), Column()).v, atol=1e-3)
    world = drogo.GridWorld.parse("goal L: -40\n\n#######\n#G.x.L#\n#######")
    data = drogo.collect(small_data.world_env(world), 20_000, seed=0)
    result = fit(data, Column(), LONG, optimiser=FAST)
    assert np.abs(result.v[0] - exact.log_column(world.mdp, 20.0)).max() < 0.05
    assert result.v[0, 4] == pytest.approx(-2.0)
    # The fixed point is exact for the sampled matrix, and for the world with weighed actions.
    data, counts = data_of(WORLD, "state", 3000), np.zeros((WORLD.n_states, WORLD.n_states))
    np.add.at(counts, (data.edges.state, data.edges.next_state), data.edges.count)
    P = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    empirical = drogo.MDP.from_arrays(P, WORLD.reward, WORLD.terminal)
    result = fit(data, Column(), replace(LONG, weigh_actions=False), optimiser=FAST)
    assert np.abs(result.v[0] - exact.log_column(empirical, 20.0)).max() < 1e-3
    assert np.abs(result.v[0] - TRUTH).max() > 1e-2
    assert np.abs(fit(data, Column(), LONG, optimiser=FAST).v[0] - TRUTH).max() < 1e-3


@pytest.mark.slow
def test_a_convolutional_network_learns_a_small_world():
    data = data_of(WORLD, "pixels", 100_000)
    result = fit(data, Column(), Drogo(updates=800), seeds=2, truth={"column": TRUTH})
    assert result.history["cosine_column"][-1].min() > 0.999
    assert result.status == ("converged", "converged")


@pytest.mark.parametrize(
    ("data", "problem", "method", "settings"),
    [
        ("room", Column(), Regression, {"updates": 2000, "batch_size": "all"}),
        ("room", Goals(), Regression, {"updates": 6000}),
        ("chain", drogo.Continuing(), Regression, {"action_values": False}),
        ("line", Column(), Drogo, {"action_values": False, "batch_size": 1000, "target_rate": 0.3}),
        ("line", drogo.Continuing(), Drogo, {"action_values": True}),
        ("line", Goals(radius=0.1), Drogo, {"batch_size": 512}),
    ],
)
def test_recommendations(data, problem, method, settings):
    data = {"room": data_of(ROOM, "coordinates", 1500), "chain": balanced(), "line": line()}[data]
    recommended = drogo.recommend(data, problem)
    assert type(recommended) is method
    assert {name: getattr(recommended, name) for name in settings} == settings
    assert "None" not in repr(recommended)  # every setting is resolved


def test_recommendations_for_data_of_another_policy_and_for_many_states():
    """Few data get 200 passes and at least 3000 updates, and many states finer features."""
    data = line()
    columns = (data.state, data.next_state, data.reward, data.terminated)
    unknown = drogo.Transitions.from_table(data.observations, *columns, action=data.action)
    few = drogo.recommend(unknown, Column())
    assert (few.action_values, few.updates) == (True, 3000)
    table = np.random.default_rng(0).random((5000, 2), dtype=np.float32)
    states = np.arange(10_000) % 4999
    many = drogo.Transitions.from_table(table, states, states + 1, -np.ones(10_000), states == 4998)
    expected = Regression(updates=5000, batch_size=2000, action_values=False)
    assert drogo.recommend(many, Column()) == expected
    assert Column().network(many, Regression()) == MLP(frequencies=64)


@pytest.mark.parametrize(
    ("data", "problem", "method", "steps"),
    [
        (data_of(WORLD), Column(lam=[5.0, 20.0]), PENALTIES, [1e-3, 1e-2]),
        (*GAINS, Drogo(updates=20), 1e-2),
        (*GAINS, Regression(updates=20), 1e-2),
        (small_data.corridor()[0], Spectrum(2, matrix="default", lam=[6.0, 3.0]),
         drogo.ALLO(updates=40, penalty=[1.0, 2.0]), 3e-2),
    ],
)  # fmt: skip
def test_a_sweep_in_one_program_is_its_fits(data, problem, method, steps):
    """Keys are tuples in the order of the fields: of the problem, the method, the optimiser."""
    fields, reports = (problem.lam, getattr(method, "penalty", 0.0), steps), []
    optimiser, callbacks = Optimiser(step_size=steps), [reports.append]
    swept = fit(data, problem, method, seeds=[3, 7], optimiser=optimiser, callbacks=callbacks)
    points = list(itertools.product(*(field for field in fields if isinstance(field, list))))
    assert list(swept) == points
    if not method.needs_solution:  # one program trains all
        assert reports[-1].seeds == [3, 7] * len(points)
        lams = [lam for lam, *_ in points for _ in range(2)]
        assert [point.problem.lam for point in reports[-1].points] == lams
    for lam, *rest in points[::-3]:
        one = replace(method, penalty=rest[0]) if rest else method
        optimiser = Optimiser(step_size=rest[1] if rest[1:] else steps)
        alone = fit(data, replace(problem, lam=lam), one, seeds=[3, 7], optimiser=optimiser)
        solution = swept[lam, *rest]
        for name in ("problem", "method", "optimiser", "status"):
            assert getattr(solution, name) == getattr(alone, name)
        for name, array in alone.arrays.items():
            assert np.allclose(solution.arrays[name], array, atol=1e-5, equal_nan=True), name


def test_a_sweep_over_lam_with_the_truth_of_each():
    truth = {"column": lambda lam: exact.log_column(CHAIN.mdp, lam)}
    for method, programs in ((LONG, 1), (Regression(), 2)):
        reports, settings = [], {"optimiser": FAST, "truth": truth}
        swept = fit(balanced(), Column([5.0, 20.0]), method, callbacks=[reports.append], **settings)
        for (lam,), solution in swept.items():  # by the chain itself, not by its data
            off = np.abs(solution.v[0] - exact.log_column(CHAIN.mdp, lam)).max()
            assert off < 0.05
            assert (solution.problem.lam, solution.status) == (lam, ("converged",))
            assert solution.history["difference_column"][-1] == pytest.approx(off, abs=1e-9)
        assert [report.update for report in reports].count(0) == programs


@pytest.mark.parametrize("lams", [[0.5, 50.0], [50.0, 0.5]])
def test_each_lam_of_a_sweep_has_data_and_notes_of_its_own(lams):
    """From 0, actions lead into a pit, into a dead end, and on the way to a goal that is far."""
    state, action = np.repeat(np.arange(9), 2), np.tile([0, 1], 9)
    after = np.where(action, state + 1, np.where(state == 0, 10, state - 1))
    state, after, action = (
        np.append(*both) for both in ((state, [0, 11]), (after, [11, 11]), (action, [2, 0]))
    )
    over, paid = np.isin(after, [9, 10]), np.where(after == 10, -30.0, 0.0)
    data = table_of(state, after, -1.0, over, terminal_reward=paid, action=action)
    for method in (Drogo(updates=20), Drogo(updates=20, action_values=True)):
        for (lam,), swept in fit(data, Column(lams), method).items():
            alone = fit(data, Column(lam), method)
            assert np.allclose(swept.v, alone.v, atol=1e-4)
            assert (swept.notes, len(swept.notes)) == (alone.notes, 3 if lam > 1 else 2)


def test_a_sweep_over_any_field(unchecked):
    """Fields that are no numbers of the program are swept in several programs."""
    for part, fields in (
        ("method", {"updates": [3, 5]}),
        ("method", {"emphasis": [0.0, 0.5], "cap": [1.0, "auto"]}),
        ("problem", {"tolerance": [0.1, 0.2]}),
    ):
        settings = {"problem": {}, "method": {"updates": 3}}
        settings[part].update(fields)
        swept = fit(balanced(), Column(**settings["problem"]), Drogo(**settings["method"]))
        assert list(swept) == list(itertools.product(*fields.values()))
        for values, solution in swept.items():
            kept = [getattr(getattr(solution, part), name) for name in fields]
            assert all(value in ("auto", k) for value, k in zip(values, kept, strict=True))
        distinct = {solution.v.tobytes() for solution in swept.values()}
        assert len(distinct) == (2 if part == "method" else 1)


def test_a_checkpointed_and_logged_sweep_over_goals(tmp_path):
    data, reports = data_of(ROOM, "coordinates", 1500), []
    problem, method = Goals(lam=[5.0, 20.0]), Regression(updates=20)
    settings = {"network": Quasimetric(16, 1, components=4, length=4), "seeds": 2}
    settings |= {"checkpoint": tmp_path / "goals.npz", "callbacks": [reports.append]}
    swept = fit(data, problem, method, **settings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["goals-0.npz", "goals-1.npz"]
    assert [report.update for report in reports] == [*range(0, 21, 2)] * 2
    assert np.array_equal(reports[-1].row["error"], swept[20.0,].error)
    same = (data.observations == ROOM.observations("coordinates")[:, None]).all(axis=2)
    rows = same.argmax(axis=1)
    for (lam,), solution in swept.items():
        columns = exact.log_columns(ROOM.mdp, lam)
        v, finite = solution.v[:, rows][:, :, rows], np.isfinite(columns)
        off = np.abs(v[:, finite] - columns[finite])
        assert off.max(axis=1) == pytest.approx(solution.error, abs=1e-6)
    again = fit(data, problem, method, **settings)
    assert len(reports) == 22  # nothing was left to do
    assert all(np.array_equal(again[point].v, swept[point].v) for point in swept)


def test_continuing_equals_going_on(tmp_path):
    """With a constant step size, 60 + 40 updates are 100, also after a round trip to disk."""
    data, half_way = data_of(WORLD, "coordinates"), replace(PAPER, updates=60)
    usual, own = {"seeds": 2, "truth": {"column": TRUTH}}, {"network": SMALL, "optimiser": SLOW}
    half, whole = (fit(data, Column(), k, **usual, **own) for k in (half_way, PAPER))
    half.save(tmp_path / "half.npz")
    again = drogo.load(tmp_path / "half.npz")
    assert np.array_equal(fit(data, Column(), PAPER, continue_from=again, **usual).v, whole.v)
    for argument, name, wrong in (
        ("continue_from", "method", half_way),
        ("problem", "problem", Column(3.0)),
        ("method", "method", Drogo(updates=100)),
        ("seeds", "seeds", [0, 2]),
        *(("truth", "truth", truth) for truth in (None, {"column": 2 * TRUTH + 1})),
        ("continue_from", "network", MLP(8, 2)),
        ("continue_from", "optimiser", FAST),
    ):
        given = {"problem": Column(), "method": PAPER, **usual, "continue_from": half, name: wrong}
        refused(ArgumentError, argument, fit, data, **given)


@pytest.mark.parametrize("problem", [Goals(), Spectrum(2)])
def test_other_problems_are_continued_with_their_truth(problem):
    data = data_of(ROOM, "coordinates", 1500)
    truth = {"exact": solve(data, problem).v[0]}
    network = Quasimetric(16, 1, components=4, length=4) if isinstance(problem, Goals) else SMALL
    method = replace(drogo.recommend(data, problem), updates=10)
    first = fit(data, problem, method, network=network, truth=truth)
    more = (data, problem, replace(first.method, updates=20))
    assert fit(*more, truth=truth, continue_from=first).updates == 20
    other = {"exact": np.random.default_rng(0).normal(size=truth["exact"].shape)}
    refused(ArgumentError, "truth", fit, *more, truth=other, continue_from=first)


def test_what_has_converged_stops_here_and_not_elsewhere(tmp_path):
    settings = {"optimiser": FAST, "seeds": 2}
    before = fit(balanced(), Column(5.0), Drogo(updates=2000), **settings)
    assert before.status == ("converged", "converged")
    cheap = replace(balanced(), reward=0.1 * balanced().reward)
    more = Drogo(updates=before.updates + 100)
    after = fit(cheap, Column(5.0), more, continue_from=before, **settings)
    assert (after.history["error"][len(before.history["update"]) - 1] > 0.5).all()
    assert after.updates == before.updates + 100
    path, method = tmp_path / "checkpoint.npz", Drogo(updates=4000)
    result = fit(data_of(CHAIN), Column(), method, checkpoint=path)
    whole = fit(data_of(CHAIN), Column(), LONG)
    assert result.updates < whole.updates == 4000
    assert result.status == ("converged",)
    assert np.abs(whole.v - result.v).max() < 0.02
    again = fit(data_of(CHAIN), Column(), method, checkpoint=path)  # nothing is left to do
    assert (again.v.tolist(), again.updates) == (result.v.tolist(), result.updates)
    data = small_data.corridor(table=np.eye(7, dtype=np.float32))[0]
    parts, network = (data, Spectrum(2), drogo.ALLO(updates=4000)), MLP(16, 1, leak=0.1)
    together = fit(*parts, network=network, seeds=4)
    assert together.status == ("converged",) * 4
    stopped = np.isfinite(together.history["loss"]).sum(axis=0)  # rows until a seed was frozen
    assert len(set(stopped.tolist())) > 1
    for seed in (int(stopped.argmin()), int(stopped.argmax())):
        alone = fit(*parts, network=network, seeds=[seed])
        assert np.array_equal(together.v[seed], alone.v[0])
        assert len(alone.history["update"]) == stopped[seed] + 1


@pytest.mark.usefixtures("unchecked")
def test_ctrl_c_returns_the_solution_so_far(monkeypatch, tmp_path):
    def press(report):
        if report.update == 20:
            raise KeyboardInterrupt

    parts, method = (data_of(CHAIN), Column()), Drogo(updates=40)
    with pytest.raises(KeyboardInterrupt):  # nobody waits
        fit(*parts, method, callbacks=[press])
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    with pytest.warns(RuntimeWarning, match="after 20 of 40 updates"):
        solution = fit(*parts, method, callbacks=[press])
    assert solution.history["update"].tolist() == list(range(21))
    assert solution.status == ("max_updates",)
    assert solution.notes[-1].startswith("Ctrl-C stopped the fit")
    assert np.array_equal(fit(*parts, method, continue_from=solution).v, fit(*parts, method).v)
    two = replace(method, updates=[40, 20])
    for one, path in ((method, tmp_path / "checkpoint.npz"), (two, None)):
        with pytest.raises(KeyboardInterrupt):  # the same call continues, or parts are missing
            fit(*parts, one, callbacks=[press], checkpoint=path)


def test_a_diverged_seed_does_not_poison_its_neighbours():
    reports, steps = [], Optimiser(step_size=[1e37, 1e38])
    parts = (balanced(), Column(), Drogo(updates=8000, cap=np.inf))
    swept = fit(*parts, optimiser=steps, callbacks=[reports.append])
    assert [solution.status for solution in swept.values()] == [("diverged",), ("diverged",)]
    assert [report.update for report in reports] == [0, 200]
    # One point of a sweep overflows at once; the other is what it would be alone.
    data, method = data_of(WORLD), replace(PAPER, updates=200)
    adam = Optimiser("adam", [1e30, 1e-2], "constant")
    lost, fine = fit(data, Column(), method, seeds=2, optimiser=adam).values()
    assert lost.status == ("diverged", "diverged")
    assert all(at is not None and at < 200 for at in lost.diverged_at)
    one = replace(adam, step_size=1e-2)
    assert np.array_equal(fine.v, fit(data, Column(), method, seeds=2, optimiser=one).v)
    refused(ArgumentError, "seed", lost.potential, 1)
    alone = {"seeds": 2, "optimiser": replace(adam, step_size=1e30)}
    refused(Diverged, None, fit, data, Column(), method, **alone)


def test_some_seeds_diverging_is_a_warning():
    """The first values of seed 1 overflow."""

    def first_values(key):
        second = jax.random.key_data(key)[-1] == 1
        return small_data.Fixed(jnp.where(second, -200.0, 0.0) * jnp.eye(5)[0])

    parts = {"network": first_values, "optimiser": SLOW, "seeds": 2}
    with pytest.warns(RuntimeWarning, match=r"1 of 2 seeds"):
        result = fit(balanced(), Column(), Paper(updates=5), **parts)
    assert (result.status, result.diverged_at) == (("max_updates", "diverged"), (None, 0))
    assert result.v[1, 0] == -200.0  # training is frozen at the last finite parameters
    assert "diverged" in result.diagnosis()[1]


@pytest.mark.parametrize(
    ("argument", "wrong", "kind"),
    [
        *(("data", wrong, ArgumentTypeError) for wrong in (None, "x", np.zeros(3))),
        *(("problem", wrong, ArgumentTypeError) for wrong in (None, 3, "column", Column)),
        *(("method", wrong, ArgumentTypeError) for wrong in (3, "drogo", Drogo)),
        *(("network", wrong, ArgumentTypeError) for wrong in (3, "mlp", MLP)),
        ("network", Quasimetric(), ArgumentError),
        *(("optimiser", wrong, ArgumentTypeError) for wrong in (3, "adam", Optimiser)),
        *(("seeds", wrong, ArgumentError) for wrong in (0, -1, "2", [1, 1], [0, 2**32], True, 2**70, 2.5, None, [])),
        *(("truth", wrong, ArgumentTypeError) for wrong in (3, [1], {"c": "x"}, {"c": lambda lam: "x"})),
        *(("truth", wrong, ArgumentError) for wrong in ({"c": 3}, {"c": np.zeros(3)})),
        *(("continue_from", wrong, ArgumentTypeError) for wrong in (3, "x", Column())),
        *(("callbacks", wrong, ArgumentTypeError) for wrong in (3, [3], print)),
    ],
)  # fmt: skip
def test_wrong_arguments(argument, wrong, kind, unchecked):
    given = {"data": balanced(), "problem": Column(), "method": Drogo(updates=1), argument: wrong}
    with raises(kind, argument), warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(**given)


def test_arguments_that_do_not_go_together(unchecked):
    data, column, truth = balanced(), Column(), {"c": np.zeros(5)}
    earlier, exactly = fit(data, column, Drogo(updates=2)), solve(data, column)
    # exp(-r / lam) overflows.
    refused(ArgumentError, "lam", fit, data, Column(0.01), Paper(updates=1))
    refused(ArgumentError, "method", fit, data, Spectrum(2), Drogo())
    refused(ArgumentError, "method", fit, line(), column, Regression())
    refused(ArgumentError, "action_values", fit, data, column, Drogo(action_values=True))
    refused(ArgumentError, "truth", fit, data, Column([1.0, 2.0]), Drogo(), truth=truth)
    swept = (data, Column([5.0, 20.0]), Drogo(updates=3))
    refused(ArgumentError, "continue_from", fit, *swept, continue_from=earlier)
    refused(ArgumentError, "continue_from", fit, data, column, continue_from=exactly)
    refused(ArgumentError, "network", fit, data, column, network=MLP(width=[8, 16]))
    refused(ArgumentError, "lam", solve, data, Column([1.0, 2.0]))
    refused(ArgumentTypeError, "problem", solve, data, "column")
    refused(ArgumentTypeError, "source", solve, "world", column)
    refused(ArgumentTypeError, "data", drogo.recommend, 3, column)
