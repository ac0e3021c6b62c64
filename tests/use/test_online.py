"""Maps that are learned from steps as they come, against the exact ones."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from drogo import (
    ArgumentError,
    BadCheckpoint,
    DataError,
    GridWorld,
    OnlineMap,
    OnlineShaping,
    OnlineTable,
    VectorOnlineShaping,
    collect,
    exact,
)
from drogo.learn.networks import MLP, Layer
from drogo.use import OnlineConfig, Steps, make_learner
from drogo.use.online import compiled
from drogo.use.online.compiled import put_together
from drogo.use.online.moment import Answers, Moment
from drogo.use.online.steps import Replay
from drogo.use.online.visits import Visits

LAM = 20.0
SMALL = """
step-limit: 40

######
#S..G#
#.x..#
######
"""
WORLD = GridWorld.parse(SMALL)
BOX = gymnasium.spaces.Box(-0.5, 0.5, (2,), np.float32)
FOUR = gymnasium.spaces.Discrete(4)


def make(**options):
    return gymnasium.make("drogo/GridWorld-v0", world=WORLD, observation="coordinates", **options)


def steps_of(n, seed=0):
    """Random transitions from everywhere, as columns."""
    data = collect(make(), n, seed=seed)
    table = data.observations.astype(np.float32)
    return (table[data.state], data.action, data.reward, table[data.next_state], data.terminated)


def rows(columns, chosen):
    return tuple(column[chosen] for column in columns)


def test_batches_that_are_drawn_evenly_and_from_where_something_is_left_to_try():
    """At 0 one action was taken 15 times, at 1 both were, once each: of three pairs, each is a third
    of what is drawn, and at 0 something is left to try."""
    settings = OnlineConfig(evenly=True, untried_share=0.5, centred=True, batch_size=6000)
    network = MLP(1, 0, jax.random.key(0), 4, 1, 2)
    learner = make_learner(network, np.full(2, 0.5), settings)
    state = learner.init(network, jax.random.key(0), jnp.zeros(1), capacity=20, sides=0.5)
    at, action = np.array([0.0] * 15 + [1.0, 1.0]), np.array([0] * 15 + [0, 1], np.int32)
    place = at[:, None].astype(np.float32)
    ended = np.zeros(17, bool)
    steps = Steps(place, action, -np.ones(17, np.float32), place, ended, np.zeros(17, np.float32))

    @jax.jit
    def looked(steps):
        after = learner.observe(state, steps)
        drawn = learner.drawing.draw(after, jax.random.split(jax.random.key(1), 3))
        untried = learner.untried(after, jnp.array([[0.0], [1.0], [3.0]]))
        return after.mean, drawn, untried, learner.is_done(after)

    mean, drawn, untried, is_done = looked(steps)
    assert mean.tolist() == pytest.approx([2 / 17])
    assert not drawn.observation[:3000].any()
    assert np.mean(drawn.observation[3000:] == 0) == pytest.approx(1 / 3, abs=0.04)
    assert np.mean(drawn.action[3000:] == 1) == pytest.approx(1 / 3, abs=0.04)
    assert untried.tolist() == [[False, True], [False, False], [True, True]]
    assert not is_done


@pytest.mark.parametrize(
    "settings",
    [{}, {"evenly": True}, {"evenly": True, "untried_share": 0.25}, {"untried_share": 0.95}],
)
def test_an_action_that_ends_sometimes_counts_as_often_as_it_does(settings):
    """At 0 the action 0 was taken 160 times and ends half of the time; elsewhere pairs are rare.
    However batches are drawn, half of the weight of that pair must be on steps that end."""
    config = OnlineConfig(batch_size=400, known_after=1, until_found=False, **settings)
    network = MLP(1, 0, jax.random.key(0), 4, 1, 2)
    learner = make_learner(network, np.full(2, 0.5), config)
    state = learner.init(network, jax.random.key(0), jnp.zeros(1), capacity=200, sides=0.5)
    place = np.array([0.0] * 160 + [1.0 + k // 4 for k in range(40)], np.float32)[:, None]
    action = np.array([0] * 160 + [0, 1, 0, 1] * 9 + [0] * 4, np.int32)
    ended = (np.arange(200) % 2 == 0) & (place[:, 0] == 0)
    zero = np.zeros(200, np.float32)
    steps = Steps(place, action, zero - 1, place + 1, ended, zero)

    @jax.jit
    def weights(key, steps):
        seen = learner.observe(state, steps)
        batch = learner.drawing.draw(seen, jax.random.split(key, 3))
        weight = learner.drawing.weights(seen, batch)
        here = (batch.observation[:, 0] == 0) & (batch.action == 0)
        return weight.sum(where=here & batch.terminated), weight.sum(where=here)

    drawn = np.array([weights(jax.random.key(k), steps) for k in range(60)]).sum(axis=0)
    assert drawn[0] / drawn[1] == pytest.approx(0.5, abs=0.03)


@pytest.mark.slow
def test_standing_still_does_not_make_differences_smaller():
    """One step in 33 moves, between two places of the same distance."""
    still, columns = np.zeros((32, 1), np.float32), {}
    for share in (0, 32):
        online = OnlineMap(gymnasium.spaces.Box(0, 1, (1,), np.float32), FOUR, learning_starts=8,
                           width=8, updates=4.0, step_size=1e-9)  # fmt: skip
        for _ in range(12 if share else 20):
            before = np.concatenate([still[:share], np.full((2, 1), 0.25, np.float32)])
            after = np.concatenate([still[:share], np.full((2, 1), 0.75, np.float32)])
            n = len(before)
            over = np.arange(n) == n - 1
            online.observe(before, np.arange(n) % 4, -np.ones(n), after, over)
            online.train()
        columns[share] = online.mean_step
    assert columns[32] == pytest.approx(columns[0], rel=0.1)


def test_a_replay_keeps_the_last_steps_and_only_the_chosen_ones():
    replay = Replay.empty(3, jnp.zeros(1))
    for k in range(5):
        both = jnp.array([[10.0 * k], [10.0 * k + 1]])
        zeros = jnp.zeros(2)
        steps = Steps(both, jnp.array([k, k]), zeros, both, zeros > 0, zeros)
        replay = replay.add(steps, jnp.array([k % 2 == 0, True]))
    assert int(replay.added) == 8
    assert int(replay.size) == 3
    assert sorted(replay.steps.observation[:, 0].tolist()) == [31.0, 40.0, 41.0]
    drawn = replay.draw(jax.random.key(0), 100)
    assert set(drawn.action.tolist()) == {3, 4}


def test_visits_are_counted_in_cells():
    visits = Visits.none(np.array([0.5, 0.5]), 3)
    seen = jnp.array([[0.1, 0.1], [0.4, 0.49], [0.6, 0.1], [-0.1, 0.1]])
    visits = visits.add(seen, jnp.array([0, 0, 2, 1]), jnp.array([True, True, True, False]))
    assert visits.of(seen).tolist() == [[2, 0, 0], [2, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_a_table_of_everything_is_the_exact_column():
    online = OnlineTable(BOX, FOUR, every=1)
    online.observe(*steps_of(2000))
    online.train()
    assert np.abs(online.values(WORLD.observations("coordinates"))
                  - exact.log_column(WORLD.mdp, LAM)).max() < 1e-9  # fmt: skip
    assert online.found
    assert online.metrics["states"] == WORLD.mdp.n_states


def test_states_by_their_numbers():
    online = OnlineTable(gymnasium.spaces.Discrete(3), FOUR, every=1, optimism=None)
    online.observe([0, 1], [0, 0], [-1.0, -2.0], [1, 2], [False, True])
    online.train()
    assert online.values(np.arange(3)) == pytest.approx([-3 / LAM, -2 / LAM, 0.0])
    assert online.knows(np.arange(3)).all()


def test_before_a_terminal_state_only_what_was_not_tried_gives_the_map_a_form():
    before, action, reward, after, over = steps_of(300)
    few = np.flatnonzero(~over)[:12]
    columns = rows((before, action, reward, after, over), few)
    explore, idle = OnlineTable(BOX, FOUR, every=1), OnlineTable(BOX, FOUR, every=1, optimism=None)
    for online in (explore, idle):
        online.observe(*columns)
        online.train()
    assert not explore.found
    assert np.ptp(explore.values(before)) > 0.01
    assert (idle.values(before) == 0).all()
    assert (idle.shaped(reward, before, after, over) == 0.5 * reward).all()


@pytest.mark.parametrize("kind", [OnlineMap, OnlineTable])
def test_a_bad_end_is_no_goal_and_optimism_goes_on(kind):
    """What was not tried is worth 0, and lava -200. Where lava is all that was found, the map still
    leads to what was not tried."""
    options = (
        {"learning_starts": 1, "width": 16, "updates": 4.0} if kind is OnlineMap else {"every": 1}
    )
    online, here, there = kind(BOX, FOUR, **options), np.zeros((3, 2)), np.full((3, 2), 0.4)
    for value, is_found in ((-200.0, False), (0.0, True)):
        ended, worth = np.array([False, False, True]), np.array([0.0, 0.0, value])
        online.observe(
            here, [0, 1, 2], [-1.0] * 3, np.where(ended[:, None], there, here), ended, worth
        )
        for _ in range(300 if kind is OnlineMap and not is_found else 1):
            online.observe(here[:1], [0], [-1.0], here[:1], [False])
            online.train()
        assert online.found == is_found
        if not is_found:
            assert online.act(here[:1], np.random.default_rng(0)).tolist() == [3]


def test_frequencies_are_looked_at_again_although_nothing_is_new():
    """From one state an action ends in 1 of 2 tries, and then in 1 of 200: the map must fall."""
    online, here = OnlineTable(BOX, FOUR, optimism=None), np.zeros((10, 2))
    there, ended = here + 0.4, np.arange(10) < 5
    online.observe(here, [0] * 10, [-1.0] * 10, np.where(ended[:, None], there, here), ended)
    online.train()
    first = online.values(here[:1])
    for _ in range(100):
        online.observe(here, [0] * 10, [-1.0] * 10, here, [False] * 10)
        online.train()
    share = 5 / 1010
    e = share * np.exp(-0.05) / (1 - (1 - share) * np.exp(-0.05))
    assert online.values(here[:1]) < first
    assert online.values(here[:1]) == pytest.approx(np.log(e), abs=0.1)


@pytest.mark.slow
def test_a_network_learns_the_column():
    online = OnlineMap(BOX, FOUR, learning_starts=400, width=64, depth=2, updates=2.0, seed=1)
    columns = steps_of(1600)
    for begin in range(0, 1600, 100):
        online.observe(*rows(columns, slice(begin, begin + 100)))
        online.train()
    live = ~WORLD.terminal
    v = online.values(WORLD.observations("coordinates"))[live]
    assert online.updates == 2 * 1200 + 1
    assert np.abs(v - exact.log_column(WORLD.mdp, LAM)[live]).max() < 0.4
    assert not online.metrics["diverged"]


@pytest.mark.slow
def test_optimism_and_what_was_seen_decide_whether_a_network_learns():
    columns = steps_of(300)
    columns = rows(columns, ~columns[-1])
    idle = OnlineMap(BOX, FOUR, learning_starts=10, optimism=None, width=8)
    idle.observe(*columns)
    idle.train()
    assert idle.updates == 0
    assert (idle.values(columns[0]) == 0).all()


def test_few_observations_many_and_the_pure_learner_give_the_same_numbers():
    """A network with known parameters: few observations are evaluated by NumPy, many by a compiled
    program, and both as the pure learner says. A kept promise does not change with the map."""
    online = OnlineMap(BOX, FOUR, learning_starts=64, width=16, capacity=200)
    table, columns = WORLD.observations("coordinates"), steps_of(200)
    assert (online.values(table) == 0).all()
    online.observe(*rows(columns, slice(100)))
    online.train()
    promised = online.promises()
    kept = promised.logits(table)
    online.observe(*rows(columns, slice(100, 200)))
    online.train()
    learner, state = put_together(online._parts)
    known = learner.value(state, jnp.asarray(table))
    assert online.values(table) == pytest.approx(np.asarray(known), abs=1e-5)
    alone = np.concatenate([online.values(table[k : k + 1]) for k in range(len(table))])
    assert alone == pytest.approx(np.asarray(known), abs=1e-5)
    few, many = online.logits(table[:2]), online.logits(table)[:2]
    assert few == pytest.approx(many, abs=1e-5)
    assert many == pytest.approx(
        np.asarray(learner.logits(state, jnp.asarray(table[:2]))), abs=1e-5
    )
    assert np.array_equal(promised.logits(table), kept)
    assert not np.allclose(online.promises().logits(table), kept)
    assert online.values(table[:0]).shape == (0,)
    assert online.logits(table[:0]).shape == (0, 4)


def test_what_a_map_says_with_numbers_worked_out_by_hand():
    """Inputs 1 and -3, less 1, halved: 0 and -2. One hidden layer of two rectified units, max(x, 0)
    and max(-x, 0), of which the output of the second action is minus the double."""
    weights = [[[1.0], [-1.0]], [[0.0, 0.0], [0.0, -2.0]]]
    network = tuple(Layer(jnp.asarray(weight), jnp.zeros(2)) for weight in weights)
    numbers = {"shift": [1.0], "width": [0.5], "scale": 3.0, "ceiling": 0.5, "mean_step": 1.0}
    arrays = {name: jnp.asarray(number, jnp.float32) for name, number in numbers.items()}
    moment = Moment(network, network, **arrays, updates=jnp.asarray(1), diverged_at=jnp.asarray(-1))
    for copies in (1, 4):  # by NumPy, and compiled
        answers, batch = Answers(moment), np.array([[1.0], [-3.0]] * copies)
        assert answers.logits(batch)[:2].tolist() == [[0, 0], [0, -12]]
        assert answers.value(batch)[:2] == pytest.approx([0.5, np.log1p(np.exp(-12))])
    silent = Answers(moment._replace(updates=jnp.asarray(0)))
    assert silent.value(batch).tolist() == [0] * 8
    assert silent.logits(batch).tolist() == [[0, 0]] * 8


def test_shaped_rewards_are_those_of_the_formula():
    online = OnlineTable(BOX, FOUR, every=1, weight=0.3, discount=0.9)
    columns = steps_of(500)
    online.observe(*columns)
    online.train()
    before, _, reward, after, over = columns
    phi = exact.log_column(WORLD.mdp, LAM)
    table = {
        row.tobytes(): value
        for row, value in zip(WORLD.observations("coordinates"), phi, strict=True)
    }
    scale = online.mean_step
    at = lambda batch: np.array([table[row.tobytes()] for row in batch]) / scale  # noqa: E731
    expected = 0.7 * reward + 0.3 * (0.9 * np.where(over, 0.0, at(after)) - at(before))
    assert online.shaped(reward, before, after, over) == pytest.approx(expected)


@pytest.mark.parametrize("kind", [OnlineMap, OnlineTable])
def test_a_saved_map_goes_on_with_the_same_numbers(kind, tmp_path):
    options = {"learning_starts": 64, "width": 16, "capacity": 200} if kind is OnlineMap else {}
    first, columns = kind(BOX, FOUR, **options), steps_of(600)
    for begin in range(0, 330, 30):
        first.observe(*rows(columns, slice(begin, begin + 30)))
        first.train()
    first.save(tmp_path / "map.npz")
    second = kind(BOX, FOUR, **options)
    second.restore(tmp_path / "map.npz")
    for online in (first, second):
        for begin in range(330, 600, 30):
            online.observe(*rows(columns, slice(begin, begin + 30)))
            online.train()
    table = WORLD.observations("coordinates")
    assert np.array_equal(first.values(table), second.values(table))
    assert first.metrics == second.metrics
    assert np.ptp(first.values(table)) > 0


def test_a_map_of_other_settings_is_not_continued(tmp_path):
    OnlineMap(BOX, FOUR).save(tmp_path / "map.npz")
    skewed = [0.7, 0.1, 0.1, 0.1]
    for other in (OnlineMap(BOX, FOUR, lam=2.0), OnlineMap(BOX, FOUR, default_policy=skewed),
                  OnlineTable(BOX, FOUR)):  # fmt: skip
        with pytest.raises(BadCheckpoint, match="differs in"):
            other.restore(tmp_path / "map.npz")
    with pytest.raises(BadCheckpoint, match="very map"):
        OnlineMap(BOX, FOUR).restore(tmp_path / "nothing.npz")


def test_what_is_kept_of_steps_does_not_change_with_the_buffer_they_were_in():
    online = OnlineMap(gymnasium.spaces.Box(0, 255, (3,), np.uint8), FOUR)
    buffer = np.zeros((2, 3), np.uint8)
    online.observe(buffer, [0, 1], [-1, -1], buffer, [False, False])
    buffer[:] = 255
    assert (online._staged[0].observation == 0).all()


def test_observations_are_recognised_in_any_precision():
    online = OnlineTable(gymnasium.spaces.Box(-1, 1, (1,), np.float32), FOUR, every=1)
    there = np.array([[0.1], [0.2], [0.0]], np.float32)
    online.observe(there, [0, 1, 2], [-1.0] * 3, there[::-1], [False, False, True])
    online.train()
    zero = np.array([[0.1], [0.2], [-0.0]])  # in double precision, as a list would be
    for ask in (online.values, online.logits, online.knows):
        assert np.array_equal(ask(zero.astype(np.float32)), ask(there))
        assert np.array_equal(ask(there.astype(np.float64)), ask(there))
    assert online.knows(there).all()


def test_columns_of_a_replay_are_shaped_as_rows():
    online, columns = OnlineTable(BOX, FOUR, every=1), steps_of(50)
    online.observe(*columns)
    online.train()
    before, _, reward, after, over = rows(columns, slice(6))
    flat = online.shaped(reward, before, after, over)
    assert np.array_equal(online.shaped(reward[:, None], before, after, over[:, None]), flat)
    with pytest.raises(ArgumentError, match=r"different lengths: \[6, 3, 6, 6\]"):
        online.shaped(reward, before, after[:3], over)


def test_one_outcome_of_an_action_does_not_stand_for_all():
    """An action that mostly arrives, and then falls into lava once, is not feared until the map is
    solved again."""
    online = OnlineTable(gymnasium.spaces.Discrete(4), FOUR, every=100)
    online.observe([0] * 100, [0] * 100, [-1.0] * 100, [1] * 100, [True] * 100)
    online.train()
    before = online.logits([0])
    online.observe([0], [0], [-1.0], [2], [True], [-2000.0])
    assert np.array_equal(online.logits([0]), before)


def test_wrong_use_is_a_clear_error():
    online = OnlineTable(BOX, FOUR)
    before, action, reward, after, over = rows(steps_of(50), slice(10))
    wrong = {
        "shape": (before[:, :1], action, reward, after, over),
        "action": (before, action + 4, reward, after, over),
        "reward=-1.0": (before, action, -reward, after, over),
        "lengths": (before, action[:3], reward, after, over),
        "finite": (before + np.nan, action, reward, after, over),
        "value of a terminal state": (before, action, reward, after, over | True, reward * np.inf),
    }
    for message, columns in wrong.items():
        with pytest.raises((ArgumentError, DataError), match=message):
            online.observe(*columns)
    pixels = OnlineTable(gymnasium.spaces.Box(0, 255, (4,), np.uint8), gymnasium.spaces.Discrete(2))
    with pytest.raises(ArgumentError, match="the agent sees float32"):
        OnlineShaping(gymnasium.make("CartPole-v1"), pixels)
    with pytest.raises(ArgumentError, match="made for uint8"):
        pixels.values(np.full((1, 4), 0.5))
    with pytest.raises(ArgumentError, match="must be negative"):
        OnlineTable(BOX, FOUR, reward=1.0)
    with pytest.raises(ArgumentError, match="Discrete"):
        OnlineMap(BOX, BOX)
    with pytest.raises(ArgumentError, match="OnlineTable"):
        OnlineMap(FOUR, FOUR)
    with pytest.raises(ArgumentError, match="widht"):
        OnlineMap(BOX, FOUR, widht=3)
    for sides in (0.0, [0.1, 0.1, 0.1], [0.1, -1.0]):
        with pytest.raises(ArgumentError, match="sides"):
            OnlineMap(BOX, FOUR, sides=sides)
    with pytest.raises(ArgumentError, match="made for shape"):
        OnlineShaping(gymnasium.make("CartPole-v1"), online)
    with pytest.raises(ArgumentError, match="different observations"):
        OnlineTable(BOX, FOUR, most_states=2).observe(before, action, reward, after, over)


def test_different_rewards_of_one_step_are_one_row_that_means_the_same():
    """A step into the end costs 1 or 3: exp(v) is the mean of exp(-1/20) and exp(-3/20)."""
    online, here = OnlineTable(BOX, FOUR, optimism=None, every=1), np.zeros((400, 2))
    rewards = np.where(np.arange(400) % 2, -1.0, -3.0)
    online.observe(here, [1] * 400, rewards, here + 0.4, [True] * 400)
    online.train()
    assert len(online.seen().state) == 1
    mean = (np.exp(-1 / LAM) + np.exp(-3 / LAM)) / 2
    assert online.values(here[:1]) == pytest.approx(np.log(mean))
    minus = -np.zeros((1, 2), np.float32)
    assert np.signbit(minus).all()
    assert online.potential(minus) == online.potential(here[:1])  # one state, whatever the sign


def test_an_environment_that_writes_into_its_observation():
    class Line(gymnasium.Env):
        observation_space, action_space = BOX, FOUR

        def reset(self, *, seed=None, options=None):
            self.place = np.full(2, -0.5, np.float32)
            return self.place, {}

        def step(self, action):
            self.place += 0.25
            return self.place, -1.0, bool(self.place[0] > 0.4), False, {}

    env = OnlineShaping(Line(), OnlineTable(BOX, FOUR, every=1))
    env.reset()
    for _ in range(4):
        env.step(0)
    seen = env.online.seen()
    assert (seen.state != seen.next_state).all()
    assert seen.state.size == 4


def test_rewards_of_any_sign_are_fine_with_a_cost_of_the_maps_own():
    online = OnlineTable(BOX, FOUR, reward=-1.0, every=1)
    before, action, reward, after, over = steps_of(200)
    online.observe(before, action, -reward, after, over)
    online.train()
    assert np.ptp(online.values(before)) > 0.5


def test_the_wrapper_learns_from_what_passes_through_it():
    env = OnlineShaping(make(), OnlineTable(BOX, FOUR, every=1, discount=0.9, weight=None))
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=0)
    for _ in range(600):
        phi = env.online.potential(observation[None])[0]
        observation, reward, over, cut, info = env.step(rng.integers(4))
        after = 0.0 if over else env.online.potential(observation[None])[0]
        assert reward == pytest.approx(info["reward_original"] + 0.9 * after - phi)
        if over or cut:
            observation, _ = env.reset()
    v = env.online.values(WORLD.observations("coordinates"))
    assert v == pytest.approx(exact.log_column(WORLD.mdp, LAM))


LAVA = GridWorld.parse("goal H: -200\nstep-limit: 9\n\n#####\n#S.H#\n#####")


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_lava_is_no_goal_in_any_reset_mode(mode):
    def lava():
        return gymnasium.make("drogo/GridWorld-v0", world=LAVA, observation="coordinates")

    envs = gymnasium.vector.SyncVectorEnv([lava], autoreset_mode=mode)
    envs = VectorOnlineShaping(envs, OnlineTable(BOX, FOUR, every=1))
    envs.reset(seed=0)
    ended = False
    for _ in range(2):
        _, _, over, _, _ = envs.step(np.zeros(1, int))  # to the right
        ended |= bool(over.any())
    assert ended
    assert not envs.online.found
    assert envs.online.seen().terminal_reward.tolist() == [0, -200]
    assert envs.online.seen().reward == pytest.approx(np.full(2, -1.0))


@pytest.mark.parametrize("is_vector", [False, True])
def test_ends_are_told_apart_where_the_environment_does_not(is_vector):
    """A hole and a goal, of which only the goal pays: the last reward decides."""

    class Lake(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return int(action) + 1, float(action), True, False, {}

    online = OnlineTable(Lake.observation_space, Lake.action_space, reward=-1.0, every=1)
    worth = {"terminal_reward": lambda step: 0.0 if step.reward > 0 else -50.0}
    if is_vector:
        env = VectorOnlineShaping(gymnasium.vector.SyncVectorEnv([Lake]), online, **worth)
        hole, goal = np.array([0]), np.array([1])
    else:
        env, hole, goal = OnlineShaping(Lake(), online, **worth), 0, 1
    env.reset()
    env.step(hole)
    assert not online.found
    env.reset()
    env.step(goal)
    assert online.found
    assert sorted(online.seen().terminal_reward) == [-50, 0]
    with pytest.raises(ArgumentError, match="terminal_reward"):
        OnlineShaping(Lake(), online, terminal_reward=np.nan)


def test_a_bonus_at_the_goal_is_refused_with_what_to_do():
    online = OnlineTable(BOX, FOUR)
    seen = np.zeros((2, 2), np.float32)
    with pytest.raises(
        DataError, match=r"a reward is 10\.0.*reward=-1\.0.*bonus.*terminal_reward="
    ):
        online.observe(seen, [0, 1], [-1.0, 10.0], seen, [False, True])


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vectors_in_all_reset_modes(mode):
    """Whatever the mode, the map sees real steps alone: its map is that of the world."""
    envs = gymnasium.vector.SyncVectorEnv([make] * 3, autoreset_mode=mode)
    envs = VectorOnlineShaping(envs, OnlineTable(BOX, FOUR, every=1))
    rng = np.random.default_rng(0)
    envs.reset(seed=0)
    for _ in range(400):
        _, rewards, over, cut, infos = envs.step(rng.integers(4, size=3))
        assert np.isfinite(rewards).all()
        assert set(infos["reward_original"].tolist()) <= {-1.0, -20.0, 0.0}
        if mode == AutoresetMode.DISABLED and (over | cut).any():
            envs.reset(options={"reset_mask": over | cut})
    v = envs.online.values(WORLD.observations("coordinates"))
    assert v == pytest.approx(exact.log_column(WORLD.mdp, LAM))


@pytest.mark.slow
def test_the_pure_learner_inside_a_scan():
    config = OnlineConfig(lam=LAM, width=32, depth=2)
    network = MLP(2, 4, jax.random.key(0), 32, 2, 4)
    learner = make_learner(network, np.full(4, 0.25), config)
    before, action, reward, after, over = steps_of(512)
    zeros = np.zeros(512, np.float32)
    steps = Steps(before, action.astype(np.int32), reward.astype(np.float32), after, over, zeros)
    state = learner.init(network, jax.random.key(1), before[0], capacity=512, low=-0.5, high=0.5)
    assert state.visits.sides.tolist() == pytest.approx([0.05, 0.05])
    with pytest.raises(ArgumentError, match="give sides, or low and high"):
        learner.init(network, jax.random.key(1), before[0], capacity=512, low=-0.5)

    @jax.jit
    def train(state, steps):
        def body(state, chunk):
            state = learner.observe(state, chunk)
            return jax.lax.fori_loop(0, 40, lambda _, s: learner.update(s)[0], state), None

        chunks = jax.tree.map(
            lambda part: jnp.asarray(part).reshape(16, 32, *part.shape[1:]), steps
        )
        return jax.lax.scan(body, state, chunks)[0]

    trained = train(state, steps)
    assert int(trained.steps) == 512
    assert bool(trained.ended)
    live = ~WORLD.terminal
    v = learner.value(trained, jnp.asarray(WORLD.observations("coordinates")))[live]
    assert np.corrcoef(v, exact.log_column(WORLD.mdp, LAM)[live])[0, 1] > 0.9


@pytest.mark.parametrize("reward", [np.nan, np.inf])
def test_rewards_that_are_no_numbers_are_an_error_whatever_the_map_counts(reward):
    """The agent learns from its own rewards, also where the map has a cost in their place."""
    online = OnlineTable(BOX, FOUR, reward=-1.0)
    seen = np.zeros((2, 2), np.float32)
    with pytest.raises(DataError, match=f"a reward of the agent is {reward}"):
        online.observe(seen, [0, 1], [-1.0, reward], seen, [False, False])
    assert online.steps == 0
    with pytest.raises(DataError, match=f"a reward of the agent is {reward}"):
        online.shaped([-1.0, reward], seen, seen, [False, False])


@pytest.mark.parametrize(
    ("space", "side"),
    [
        (gymnasium.spaces.Box(-1000, 1000, (16,)), 100),
        (gymnasium.spaces.Box(-1000, 1000, (17,)), 100),
        (gymnasium.spaces.Box(-1000, 1000, (2, 2)), 100),
        (gymnasium.spaces.Box(0, 1, (5, 4)), 1 / 256),
        (gymnasium.spaces.Box(0, 255, (2,), np.uint8), 1),
        (gymnasium.spaces.Box(0, 255, (4, 4, 3), np.uint8), 1),
    ],
)
def test_what_is_a_picture_and_what_a_vector_of_numbers(space, side):
    online = OnlineMap(space, FOUR, capacity=10, learning_starts=10)
    sides = online._cell_sides(online._low, online._high)
    assert sides == pytest.approx(np.full(sides.shape, side))


def test_compiled_programs_are_not_kept_for_ever():
    assert compiled._advancing.cache_info().maxsize == compiled.PROGRAMS_KEPT
