"""Networks that learn the map from steps as they come, against exact maps and numbers by hand."""

from functools import partial

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from drogo import Column, Drogo, Goals, OnlineMap, OnlineTable, Paper, Regression, exact
from drogo.errors import ArgumentError, ArgumentTypeError, BadCheckpoint
from drogo.learn import CNN, MLP, Optimiser, PairMLP, Table
from drogo.learn.networks import DenseNetwork
from drogo.mdp import Costs
from drogo.online import OnlineLearner
from drogo.online.replay import Replay, Visits
from raising import raises, refused
from small_world import BOX, FOUR, WORLD, as_steps, feed, pure, rows, steps_of

PLACES = WORLD.observations("coordinates")
TINY = {"network": MLP(width=16, depth=2, frequencies=4), "capacity": 200, "learning_starts": 64}
BYTES = gymnasium.spaces.Box(0, 255, (6, 6, 3), np.uint8)
WRONG = {
    "widht": {"widht": 3}, "updates_per_stpe": {"updates_per_stpe": 1.0},
    "lam": {"problem": Column(lam=[1.0, 2.0])},
    "default_policy": {"problem": Column(default_policy=[0.5, 0.5])},
    "method": {"method": Regression()}, "action_values": {"method": Paper()},
    "updates": {"method": Drogo(updates=3)}, "batch_size": {"method": Drogo(batch_size="all")},
    "terminal_fraction": {"method": Drogo(terminal_fraction=0.95)},
    "schedule": {"optimiser": Optimiser()}, "optimiser": {"optimiser": 1e-3},
    "sides": {"sides": [0.1, -1.0]}, "weight": {"weight": 2.0}, "until_found": {"until_found": 1},
    "capacity": {"capacity": 1}, "reward": {"reward": 1.0}, "seed": {"seed": -1},
}  # fmt: skip
"""Arguments of an online map that cannot be used, by the name that the error has to give."""


def test_rewards_of_the_replay_are_judged_when_they_are_sampled():
    """A fall that was seen before the goal is worth what the goal says later."""
    (learner, network), costs = pure(), Costs(step=0.5, charge=2.0, last=1.5, best=1.0, worth=100.0)
    place, ended = np.zeros((4, 1), np.float32), np.array([False, False, True, True])
    raw = as_steps(place, np.array([0, 1, 0, 1]), place + ended[:, None], ended)._replace(
        reward=np.float32([0, -2, -1, 1]), terminal_reward=np.where(ended, np.nan, 0.0))  # fmt: skip
    by_hand = raw._replace(reward=np.float32([-0.5, -4.5, -1.5, -1.5]),
                           terminal_reward=np.float32([0, 0, -200, 0]))  # fmt: skip
    state = learner.init(network, jax.random.key(0), jnp.zeros(1), capacity=9, sides=0.5)

    @jax.jit
    def loss(seen, *judged):
        return learner.update(learner.observe(state, seen), *judged)[1]

    assert loss(raw, (costs.numbers.astype(np.float32), np.float32(0))) == loss(by_hand)
    often = {"learning_starts": 1, "train_every": 1, "updates_per_step": 1.0}
    online = OnlineMap(BOX, FOUR, **{**TINY, **often})
    here, there = np.zeros((1, 2)), np.full((1, 2), 0.4)
    for reward, best in ((0.0, -1000.0), (1.0, 0.0)):
        online.observe(here, [0], [reward], there, [True])
        online.train()
        assert (online.found, float(online.state()[1].best)) == (best == 0, best)


def test_a_replay_keeps_the_last_chosen_steps_and_visits_are_counted_in_cells():
    replay = Replay.empty(3, jnp.zeros(1))
    for k in range(5):
        both = jnp.array([[10.0 * k], [10.0 * k + 1]])
        chosen = jnp.array([k % 2 == 0, True])
        replay = replay.add(as_steps(both, np.array([k, k]), both, np.zeros(2, bool)), chosen)
    assert (int(replay.added), int(replay.size)) == (8, 3)
    assert sorted(replay.steps.observation[:, 0].tolist()) == [31.0, 40.0, 41.0]
    assert set(replay.sample(jax.random.key(0), 100).action.tolist()) == {3, 4}
    visits = Visits.none(np.array([0.5, 0.5]), 3)
    seen = jnp.array([[0.1, 0.1], [0.4, 0.49], [0.6, 0.1], [-0.1, 0.1]])
    visits = visits.add(seen, jnp.array([0, 0, 2, 1]), jnp.array([True, True, True, False]))
    assert visits.of(seen).tolist() == [[2, 0, 0], [2, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_a_map_with_numbers_worked_out_by_hand():
    """Inputs 1 and -3, minus 1, halved: 0 and -2. One hidden layer of two rectified units, max(x, 0)
    and max(-x, 0), of which the output of the second action is minus the double, times 3."""
    network = DenseNetwork(1, 0, jax.random.key(0), 2, 1, 2)
    weights = [jnp.array([[1.0], [-1.0]]), jnp.array([[0.0, 0.0], [0.0, -2.0]])]
    network = eqx.tree_at(lambda n: [layer.weight for layer in n.layers], network, weights)
    network = eqx.tree_at(lambda n: [layer.bias for layer in n.layers], network, [jnp.zeros(2)] * 2)
    learner = OnlineLearner(Column(lam=2.0), None, network, 2, scale=3.0)
    state = learner.init(network, jax.random.key(0), jnp.zeros(1), capacity=2, low=0.0, high=2.0)
    state = eqx.tree_at(lambda s: s.best, state, jnp.asarray(1.0))
    learned = eqx.tree_at(lambda s: s.training.update, state, jnp.asarray(1))
    batch = jnp.array([[1.0], [-3.0]])
    assert learner.logits(learned, batch).tolist() == [[0, 0], [0, -12]]
    value = learner.value(learned, batch)
    assert np.asarray(value) == pytest.approx([0.5, np.log1p(np.exp(-12))], abs=1e-6)
    for ask in (learner.logits, learner.value):
        assert not np.asarray(ask(state, batch)).any()  # before the first update


def test_few_observations_many_and_the_pure_learner_give_the_same_numbers():
    online, columns = OnlineMap(BOX, FOUR, **TINY), steps_of(200)
    assert not online.values(PLACES).any()
    assert online.frozen().untried(PLACES).all()
    feed(online, rows(columns, slice(100)), 100)
    frozen = online.frozen()
    before = frozen.logits(PLACES)
    feed(online, rows(columns, slice(100, 200)), 100)
    learner, state = online.state()
    for ask, pure_values in ((online.values, learner.value), (online.logits, learner.logits)):
        expected = pytest.approx(np.asarray(pure_values(state, jnp.asarray(PLACES))), abs=1e-5)
        assert ask(PLACES) == expected
        assert np.concatenate([ask(place[None]) for place in PLACES]) == expected
        assert ask(PLACES[:0]).shape[0] == 0
    assert np.array_equal(frozen.logits(PLACES), before)
    assert not np.allclose(online.frozen().logits(PLACES), before)
    columns = rows(steps_of(300), ~steps_of(300)[-1])
    idle = feed(OnlineMap(BOX, FOUR, **TINY, optimism=None), columns, 300)
    assert idle.updates == 0
    for ask in (idle.values, idle.knows):
        assert not ask(columns[0]).any()


@pytest.mark.slow
def test_a_network_learns_the_column(optimised):
    settings = {"seed": 1, "learning_starts": 400, "updates_per_step": 2.0}
    online = OnlineMap(BOX, FOUR, network=MLP(width=64, depth=2), **settings)
    feed(online, steps_of(1600), 100)
    live = ~WORLD.terminal
    assert online.updates == 2 * 1200 + 1
    assert np.abs((online.values(PLACES) - exact.log_column(WORLD.mdp, 20.0))[live]).max() < 0.4
    assert not online.metrics["diverged"]


@pytest.mark.slow
def test_steps_that_stay_do_not_make_differences_smaller():
    """One step in 33 moves, between two places of the same distance."""
    mean_steps, space = [], gymnasium.spaces.Box(0, 1, (1,), np.float32)
    optimiser = Optimiser(step_size=1e-9, schedule="constant")
    for share, rounds in ((0, 20), (32, 12)):
        online = OnlineMap(space, FOUR, network=MLP(width=8, depth=3), optimiser=optimiser,
                           learning_starts=8, updates_per_step=4.0)  # fmt: skip
        before, after = (np.float32([0] * share + [x] * 2)[:, None] for x in (0.25, 0.75))
        n = share + 2
        for _ in range(rounds):
            online.observe(before, np.arange(n) % 4, -np.ones(n), after, np.arange(n) == n - 1)
            online.train()
        mean_steps.append(online.mean_step)
    assert mean_steps[1] == pytest.approx(mean_steps[0], rel=0.1)


class Convolution(eqx.Module):
    """A user's own network on images of bytes, which it gets as numbers in [-0.5, 0.5]."""

    filters: eqx.nn.Conv2d
    last: eqx.nn.Linear

    def __init__(self, key, actions=4):
        self.filters = eqx.nn.Conv2d(3, 4, 3, key=key)
        self.last = eqx.nn.Linear(64, actions, key=key)

    def __call__(self, images):
        moved = jnp.moveaxis(images, -1, 1)
        return jax.vmap(lambda one: self.last(jax.nn.relu(self.filters(one)).ravel()))(moved)


def images(n, seed=0):
    """A walk over images in which one pixel is lit: it moves by the action, and 35 is terminal."""
    rng = np.random.default_rng(seed)
    shown = 255 * np.repeat(np.eye(36, dtype=np.uint8)[..., None], 3, axis=2).reshape(36, 6, 6, 3)
    state, action = rng.integers(35, size=n), rng.integers(4, size=n)
    after = np.clip(state + np.array([1, -1, 6, -6])[action], 0, 35)
    return shown[state], action, -np.ones(n), shown[after], after == 35


@pytest.mark.parametrize(
    "network",
    [CNN(width=8), partial(Convolution, actions=4), Convolution(jax.random.key(0)),
     MLP(width=8, depth=1, leak=0.1), MLP(width=8, depth=1, normalise=False), None],
    ids=["CNN", "function", "module", "MLP", "raw MLP", "table"],
)  # fmt: skip
def test_any_map_learns_and_continues_from_a_file(network, tmp_path):
    def online():
        return OnlineTable(BYTES, FOUR) if network is None else OnlineMap(
            BYTES, FOUR, network=network, optimiser=optax.adamw(1e-3), learning_starts=40,
            capacity=100, updates_per_step=1.0)  # fmt: skip

    first, second, columns = online(), online(), images(120)
    feed(first, rows(columns, slice(80)), 20)
    first.save(tmp_path / "map.npz")
    second.restore(tmp_path / "map.npz")
    for one in (first, second):
        feed(one, rows(columns, slice(80, 120)), 20)
    assert np.ptp(first.logits(columns[0]), axis=0).min() > 0
    assert np.array_equal(first.logits(columns[0]), second.logits(columns[0]))
    assert first.metrics == second.metrics
    if network is None:
        return
    six, (learner, state) = columns[0][:6], first.state()
    assert first.updates == 81
    few = np.concatenate([first.logits(image[None]) for image in six])
    for several in (first.logits(six), np.asarray(learner.logits(state, jnp.asarray(six)))):
        assert few == pytest.approx(several, abs=1e-5)


def test_maps_of_other_settings_are_not_continued_and_steps_are_copied(tmp_path):
    OnlineMap(BOX, FOUR).save(tmp_path / "map.npz")
    skewed = Column(default_policy=[0.7, 0.1, 0.1, 0.1])
    others = [OnlineMap(BOX, FOUR, Column(lam=2.0)), OnlineMap(BOX, FOUR, skewed), OnlineTable(BOX, FOUR),
              OnlineMap(BOX, FOUR, network=MLP(width=8)), OnlineMap(BOX, FOUR, sides=0.1),
              OnlineMap(BOX, FOUR, method=Drogo(cap=5.0))]  # fmt: skip
    restore = [(other, "map.npz") for other in others] + [(OnlineMap(BOX, FOUR), "nothing.npz")]
    for online, name in restore:
        refused(BadCheckpoint, "path", online.restore, tmp_path / name)
    online, buffer = OnlineMap(BYTES, FOUR), np.zeros((2, 6, 6, 3), np.uint8)
    online.observe(buffer, [0, 1], [-1, -1], buffer, [False, False])
    buffer[:] = 255
    assert not online.arrays()["staged/observation"].any()


@pytest.mark.parametrize(
    ("shape", "high", "dtype", "side"),
    [((16,), 1000, np.float32, 100), ((17,), 1000, np.float32, 100), ((2, 2), 1000, np.float32, 100),
     ((5, 4), 1, np.float32, 1 / 256), ((2,), 255, np.uint8, 1)],
)  # fmt: skip
def test_images_and_vectors_of_numbers_have_different_cells(shape, high, dtype, side):
    space = gymnasium.spaces.Box(0 if high < 1000 else -high, high, shape, dtype)
    online = OnlineMap(space, FOUR, network=MLP(width=4, depth=1), capacity=10, learning_starts=1)
    seen = space.sample()[None]
    online.observe(seen, [0], [-1.0], seen, [False])
    online.train()
    sides = np.asarray(online.state()[1].visits.sides)
    assert sides == pytest.approx(np.full(sides.shape, side))
    rate = float(online.state()[0].learner.target_rate)
    assert rate == pytest.approx(0.5 if space.sample().size <= 16 else 0.05)


@pytest.mark.parametrize("argument", WRONG)
def test_wrong_arguments_are_named(argument, unchecked):
    is_type = argument in ("widht", "updates_per_stpe", "method", "optimiser", "until_found")
    with raises(ArgumentTypeError if is_type else ArgumentError, argument) as caught:
        OnlineMap(BOX, FOUR, **WRONG[argument])
    assert argument != "updates_per_stpe" or "updates_per_step?" in str(caught.value)


def test_wrong_networks_spaces_and_problems_are_named(unchecked):
    learner, network = pure()
    for part in (Table(), PairMLP(), CNN(), partial(Convolution, actions=4)):
        refused(ArgumentError, "network", OnlineMap, BOX, FOUR, network=part)
    function, parts = Column(default_policy=lambda *_: 1), gymnasium.spaces.Dict({"a": BOX})
    refused(ArgumentError, "default_policy", OnlineMap, BOX, FOUR, function)
    refused(ArgumentTypeError, "problem", OnlineMap, BOX, FOUR, Goals())
    refused(ArgumentTypeError, "network", OnlineMap, BOX, FOUR, network="mlp")
    refused(ArgumentError, "action_space", OnlineMap, BOX, BOX)
    refused(ArgumentError, "observation_space", OnlineMap, FOUR, FOUR)
    refused(ArgumentError, "observation_space", OnlineTable, parts, FOUR)
    parts = (network, jax.random.key(1), jnp.zeros(1))
    refused(ArgumentError, "sides", learner.init, *parts, capacity=5, low=-0.5)


@pytest.mark.parametrize("optimism", [None, 0.0])
def test_an_action_that_was_never_tried_is_not_taken_without_optimism(optimism):
    columns = steps_of(3000)
    online = OnlineMap(BOX, FOUR, learning_starts=1, optimism=optimism)
    feed(online, rows(columns, columns[1] != 2), 100)
    places = np.unique(columns[0], axis=0)
    assert (online.logits(places).argmax(axis=1) == 2).all()  # nothing was learned of it
    assert not (online.act(places, np.random.default_rng(0)) == 2).any()
