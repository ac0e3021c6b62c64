"""What users bring: networks, optimisers, schedules, objectives, callbacks."""

from typing import ClassVar

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import needs
from drogo import GridWorld, Transitions, collect, exact, fit, load, sweep
from drogo.learn import AbstractAnchored, TensorBoard, WandB
from drogo.learn.value import terminal_rewards

WORLD = GridWorld.parse("########\n#S.x...#\n#.##.#.#\n#....#G#\n########")
CHAIN = GridWorld.parse("#######\n#S.x.G#\n#######")


class Residual(eqx.Module):
    """A residual MLP with layer norm, for a batch."""

    inward: eqx.nn.Linear
    hidden: list[eqx.nn.Linear]  # a list, as in many people's networks
    norm: eqx.nn.LayerNorm
    outward: eqx.nn.Linear

    def __init__(self, key, width=32):
        a, b, c = jax.random.split(key, 3)
        self.inward = eqx.nn.Linear(2, width, key=a)
        self.hidden = [eqx.nn.Linear(width, width, key=b)]
        self.norm = eqx.nn.LayerNorm(width)
        self.outward = eqx.nn.Linear(width, "scalar", key=c)

    def __call__(self, batch):
        def one(x):
            x = jnp.tanh(self.inward(8 * x))
            return self.outward(x + jax.nn.relu(self.hidden[0](self.norm(x))))

        return jax.vmap(one)(batch)


@pytest.fixture(scope="module")
def data():
    env = gymnasium.make("drogo/GridWorld-v0", world=WORLD, observation="coordinates")
    return collect(env, 20_000, seed=0)


@pytest.fixture(autouse=True)
def _plain_promotion():
    """Users' modules need not follow this library's strict rules for types and ranks."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def test_own_network_optimiser_and_schedule(data, tmp_path):
    truth = {"column": exact.log_column(WORLD.mdp, 20.0)}
    optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(3e-3, weight_decay=1e-5))
    settings = {"preset": "fast", "updates": 250, "seeds": 2}
    result = fit(data, network=Residual, optimiser=optimiser, truth=truth, **settings)
    assert result.history["cosine_column"][-1].min() > 0.95
    assert result.network.endswith("test_open.Residual")
    assert not np.allclose(result.v[0], result.v[1], atol=1e-6)  # a factory: seeds differ
    result.save(tmp_path / "fit.npz")
    again = load(tmp_path / "fit.npz", network=Residual, optimiser=optimiser)
    assert np.array_equal(again(data.observations), result(data.observations))
    longer = {**settings, "updates": 260}
    settings = {"network": Residual, "optimiser": optimiser, "truth": truth, **longer}
    more = fit(data, continue_from=again, **settings)
    assert more.updates == 260
    usable = load(tmp_path / "fit.npz", network=Residual)  # without the optimiser
    assert np.array_equal(usable(data.observations), result(data.observations))
    with pytest.raises(ValueError, match="loaded without its own optimiser"):
        fit(data, continue_from=usable, **settings)
    with pytest.raises(ValueError, match=r"a file cannot hold. Give the network again"):
        load(tmp_path / "fit.npz")
    with pytest.raises(ValueError, match="do not fit the network"):
        load(tmp_path / "fit.npz", network=lambda key: Residual(key, width=16))


@pytest.mark.slow
def test_a_module_is_where_every_seed_begins(data):
    module = Residual(jax.random.key(7))
    settings = {"preset": "paper", "updates": 1, "seeds": 2}
    result = fit(data, network=module, step_size=optax.constant_schedule(1e-30), **settings)
    inputs = result.learner.inputs(jnp.asarray(data.observations))
    live = np.setdiff1d(np.arange(len(data.observations)), data.terminal_states)
    for k in range(2):
        assert np.allclose(result.v[k, live], np.asarray(module(inputs))[live], atol=1e-6)
    assert (result.config.schedule, result.config.network) == ("custom", "custom")


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (eqx.nn.MLP(2, 1, 8, 1, key=jax.random.key(0)), "needs jax.vmap"),
        (lambda key: 3, "give an equinox.Module"),
        (lambda key: eqx.nn.Lambda(lambda x: x), r"returned \(3, 2\) for a batch of 3"),
    ],
)
def test_wrong_networks(network, message, data):
    with pytest.raises(ValueError, match=message):
        fit(data, network=network, updates=1)


def test_an_optimiser_has_its_own_step_size(data):
    with pytest.raises(ValueError, match="has its own step size"):
        fit(data, optimiser=optax.adam(1e-3), step_size=1e-3)


class Squared(AbstractAnchored):
    """Half the squared residual of the soft Bellman equation in logs, for deterministic moves."""

    calls: ClassVar[int] = 0

    def loss(self, output, next_output, sample):
        error = jax.lax.stop_gradient(output - next_output + sample.log_cost)
        return error * output


def test_an_objective_from_outside(tmp_path):
    """In a corridor with one action its solution is v(s) = r/lam + v(s'): the return to go."""
    data = Transitions.from_table(
        np.arange(4), np.tile([0, 1, 2], 50), np.tile([1, 2, 3], 50), np.full(150, -2.0),
        np.tile([False, False, True], 50),
    )  # fmt: skip
    settings = {"preset": "fast", "lam": 4.0, "updates": 1500, "step_size": 0.05}
    result = fit(data, objective=Squared, **settings)
    assert result.v[0] == pytest.approx([-1.5, -1.0, -0.5, 0.0], abs=1e-3)
    result.save(tmp_path / "fit.npz")
    with pytest.raises(ValueError, match="Give the class again"):
        load(tmp_path / "fit.npz")
    again = load(tmp_path / "fit.npz", objective=Squared)
    assert np.array_equal(again(np.arange(4)), result(np.arange(4)))


TABLE = GridWorld.parse("#######\n#S.x.G#\n#######")


@pytest.fixture(scope="module")
def table():
    env = gymnasium.make("drogo/GridWorld-v0", world=TABLE, observation="state")
    return collect(env, 2000, seed=0)


def test_callbacks_see_every_logged_update_and_may_stop(table):
    reports = []

    def keep(report):
        reports.append(report)

    def stop(report):
        return np.bool_(report.update < 30)

    settings = {"preset": "fast", "updates": 80, "seeds": [3, 5], "stop_early": False}
    result = fit(table, callbacks=[keep, stop], **settings)
    assert result.updates == 30
    assert [report.update for report in reports] == list(range(0, 31, 2))
    assert reports[-1].updates == 80
    assert reports[-1].seeds == [3, 5]
    assert np.array_equal(reports[-1].row["worst"], result.history["worst"][-1])
    assert result.status == ("max_updates", "max_updates")


def test_a_fit_stops_when_it_has_converged(table, tmp_path):
    path = tmp_path / "checkpoint.npz"
    settings = {"preset": "fast", "updates": 4000}
    result = fit(table, checkpoint=path, **settings)
    assert result.updates < 4000
    assert result.status == ("converged",)
    whole = fit(table, stop_early=False, **settings)
    assert whole.updates == 4000
    assert np.abs(whole.v - result.v).max() < 0.02
    again = fit(table, checkpoint=path, **settings)  # nothing is left to do
    assert np.array_equal(again.v, result.v)
    assert again.updates == result.updates


def test_tensorboard(table, tmp_path):
    needs.module("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = fit(table, updates=20, seeds=2, callbacks=[TensorBoard(tmp_path)])
    events = EventAccumulator(str(tmp_path), size_guidance={"tensors": 0})
    events.Reload()
    logged = [event.tensor_proto.float_val[0] for event in events.Tensors("worst/seed 1")]
    assert np.allclose(logged, result.history["worst"][:, 1], rtol=1e-5)


def test_weights_and_biases(table):
    """Against a stand-in for a run: the real thing is tried in test_wandb_offline."""

    class Run:
        logged: ClassVar[list] = []

        def log(self, row, step):
            self.logged.append((step, row))

    needs.module("wandb")
    result = fit(table, updates=20, callbacks=[WandB(Run())])
    assert [step for step, _ in Run.logged] == result.history["update"].tolist()
    assert Run.logged[-1][1]["worst/seed 0"] == pytest.approx(result.history["worst"][-1, 0])


def test_wandb_offline(table, tmp_path, monkeypatch):
    """A real run of Weights & Biases, written to disk and not sent anywhere."""
    needs.module("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    callback = WandB(mode="offline", dir=str(tmp_path), project="drogo")
    fit(table, updates=20, callbacks=[callback])
    callback.run.finish()
    assert list(tmp_path.rglob("run-*.wandb"))


@pytest.mark.parametrize("kind", ["coordinates", "state"])
def test_value_fn_is_the_result_inside_jit(kind):
    world = TABLE
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation=kind)
    few = collect(env, 2000, seed=0)
    result = fit(few, updates=20, seeds=2, width=16)
    (goal,) = np.flatnonzero(world.terminal)
    f = result.value_fn(1)
    table = jnp.asarray(few.observations)

    @jax.jit
    def walk(rows):
        return jax.lax.scan(lambda total, row: (total + f(table[row][None])[0], None), 0.0, rows)[0]

    rows = np.array([goal, 0, 3, goal])
    assert float(walk(jnp.asarray(rows))) == pytest.approx(result.v[1, rows].sum(), abs=1e-4)
    assert float(f(table)[goal]) == 0.0  # the terminal state, exactly
    with pytest.raises(ValueError, match=r"seed 7 is none of this fit's seeds: \[0, 1\]"):
        result.value_fn(7)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int64, bool])
def test_terminal_rewards_of_any_type(dtype):
    """Only the very same observations are recognised, however close others are."""
    known = np.array([[0, 1], [1, 0]], dtype=dtype)
    others = np.array([[1, 1], [0, 0]], dtype=dtype)
    lookup = terminal_rewards(known, np.array([-1.0, -2.0]))
    batch = jnp.asarray(np.concatenate([known, others]))
    assert lookup(batch, jnp.full(4, 9.0)).tolist() == [-1.0, -2.0, 9.0, 9.0]
    close = np.array([[0.2, 0.7], [0.7, 0.2]], dtype=np.float16)
    lookup = terminal_rewards(close[:1], np.zeros(1))
    assert lookup(jnp.asarray(close), jnp.full(2, 9.0)).tolist() == [0.0, 9.0]


def test_terminal_rewards_whose_hashes_agree(monkeypatch):
    """With a hash that is always 0 every known observation is still found."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(np.random, "default_rng", lambda seed: Zero())
    known = rng.normal(size=(6, 3)).astype(np.float32)
    known[:, 1:] = 0
    lookup = terminal_rewards(known, np.arange(6.0))
    assert lookup(jnp.asarray(known), jnp.full(6, 9.0)).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


class Zero:
    """Multipliers that are 1, so that sums of bits often agree."""

    def integers(self, *_, size, dtype):
        return np.zeros(size, dtype=dtype)


@pytest.mark.parametrize(
    ("grid", "settings", "message"),
    [
        ({"step_size": [0.1]}, {"optimiser": optax.sgd(0.1)}, "which a sweep does not vary"),
        ({"penalty": [1.0]}, {}, "has no penalty"),
        ({"lam": [1.0]}, {"truth": {"column": np.zeros(5)}}, "truths as functions of lam"),
        ({"lam": [1.0]}, {"optimiser": "custom"}, "optimiser is 'custom'; choose one of rmsprop"),
    ],
)
def test_sweeps_that_would_do_nothing(table, grid, settings, message):
    with pytest.raises(ValueError, match=message):
        sweep(table, grid=grid, updates=1, **settings)


def test_what_must_agree_to_continue(table, tmp_path):
    first = fit(table, updates=5, preset="fast")
    with pytest.raises(ValueError, match="They must agree"):
        fit(table, updates=9, preset="fast", continue_from=first, objective="natural_gdo")
    truth = {"column": np.zeros(5)}
    with pytest.raises(ValueError, match="made with the truths"):
        fit(table, updates=9, preset="fast", continue_from=first, truth=truth)
    first = fit(table, updates=5, preset="fast", truth=truth)
    other = {"column": -np.arange(5.0)}
    with pytest.raises(ValueError, match="'column' is another vector than in continue_from"):
        fit(table, updates=9, preset="fast", continue_from=first, truth=other)
    path = tmp_path / "checkpoint.npz"
    fit(table, updates=5, preset="fast", optimiser=optax.adam(1e-3), checkpoint=path)
    with pytest.raises(ValueError, match="of another fit, which differs in optimiser"):
        fit(table, updates=5, preset="fast", optimiser=optax.adam(1e-2), checkpoint=path)
    with pytest.raises(ValueError, match=r"which differs in .*configs\.0\.lam"):
        fit(table, updates=5, preset="fast", optimiser=optax.adam(1e-3), lam=3.0, checkpoint=path)
