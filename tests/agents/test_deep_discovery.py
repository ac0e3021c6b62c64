"""Options of learned maps, and their discovery: ways by hand, and the exact map as the truth."""

import gymnasium
import numpy as np
import pytest

from drogo import ArgumentError, DataError, OnlineMap, OnlineTable
from drogo.agents import discover_deep
from drogo.agents.deep_discovery import LEARNING
from drogo.use import OptionWrapper, learned_option

LEFT, RIGHT = 0, 1
LAST = 5
FALL = -20.0
NETWORK = {
    "width": 16,
    "depth": 2,
    "frequencies": 3,
    "sides": 0.1,
    "capacity": 64,
    "batch_size": 32,
}
"""The same everywhere, so that it is compiled once."""


class Ledge(gymnasium.Env):
    """Six places in a row. Who goes right from the last one falls, and begins again at place 1."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = (options or {}).get("state", 1)
        return seen(self.state), {"state": self.state}

    def step(self, action):
        self.state = max(self.state - 1, 0) if action == LEFT else self.state + 1
        fell = self.state > LAST
        info = {"state": self.state} | ({"terminal_reward": FALL} if fell else {})
        return seen(self.state), -1.0 + FALL * fell, fell, False, info


def seen(state):
    return np.array([state / (LAST + 1)], np.float32)


def all_steps(without, fall=FALL):
    """Every pair of a place and an action but some, once; a fall leads back to place 1."""
    pairs = [(s, a) for s in range(LAST + 1) for a in (LEFT, RIGHT) if (s, a) not in without]
    before, action = (np.array(part) for part in zip(*pairs, strict=True))
    after = np.where(action == LEFT, np.maximum(before - 1, 0), before + 1)
    reward = np.where(after > LAST, -1.0 + fall, -1.0)
    after = np.where(after > LAST, 1, after)
    rows = [np.stack([seen(s) for s in states]) for states in (before, after)]
    return rows[0], action, reward, rows[1], np.zeros(len(pairs), bool)


def spaces():
    return Ledge.observation_space, Ledge.action_space


def table(columns, **options):
    online = OnlineTable(*spaces(), lam=5.0, until_found=False, every=1, **options)
    online.observe(*columns)
    online.train()
    return online


def policy(option):
    return [option.policy(seen(state)) for state in range(LAST + 1)]


def test_an_option_goes_to_what_was_not_tried_around_what_is_costly():
    """Nobody went left at place 0. A fall is the short way from the last place: it costs 20."""
    without = {(0, LEFT)}
    aware = learned_option(table(all_steps(without)))
    assert policy(aware) == [LEFT] * 6
    assert [aware.ends(seen(state)) for state in range(6)] == [True] + [False] * 5
    assert all(aware.begins(seen(state)) for state in range(6))
    blind = learned_option(table(all_steps(without), reward=-1.0))
    assert policy(blind) == [LEFT] * 4 + [RIGHT] * 2  # 3 is as near by either way: lowest index
    env = OptionWrapper(Ledge(), [aware], 1.0)
    env.reset(options={"state": 5})
    _, reward, terminated, _, info = env.step(2)
    assert (reward, terminated, info["steps"], info["state"]) == (-5, False, 5, 0)


def test_what_was_never_seen_is_new_and_where_all_was_tried_there_is_no_option():
    everything = learned_option(table(all_steps(set())))
    assert not everything.begins(seen(0))
    assert everything.ends(seen(0))
    unseen = learned_option(table(all_steps({(0, LEFT)})))
    assert unseen.ends(seen(6))
    untouched = learned_option(OnlineMap(*spaces()))
    assert untouched.ends(seen(0))
    assert {untouched.policy(seen(0)) for _ in range(20)} == {LEFT, RIGHT}


@pytest.mark.slow
def test_a_network_learns_the_option_of_the_exact_map():
    """By the settings of the cycle. What the option keeps does not change later."""
    columns = all_steps({(0, LEFT)})
    exact = table(columns)
    online = OnlineMap(*spaces(), **LEARNING | NETWORK | {"updates": 40.0})
    for _ in range(3):
        online.observe(*columns)
        online.train()
    places = np.stack([seen(state) for state in range(LAST + 1)])
    np.testing.assert_allclose(online.values(places), exact.values(places), atol=0.1)
    option = learned_option(online)
    assert policy(option) == policy(learned_option(exact))
    assert [option.ends(place) for place in places] == [True] + [False] * LAST
    online.observe(*all_steps(set()))  # nothing is left to try
    online.train()
    assert policy(option) == [LEFT] * (LAST + 1)
    assert option.ends(seen(0))
    assert not learned_option(online).begins(seen(0))


def test_an_exact_map_discovers_everything_and_knows_no_end():
    found = discover_deep(Ledge, iterations=4, steps=25, seed=0, p_option=0.5,
                          make_map=OnlineTable, lam=5.0, until_found=False, every=1)  # fmt: skip
    assert found.visited.tolist()[-1] == LAST + 1  # the terminal place does not count
    assert (np.diff(found.visited) >= 0).all()
    seen_steps = found.online.seen()
    assert found.online.steps == 100
    assert not seen_steps.terminated.any()
    falls = np.isclose(seen_steps.reward, -1 + FALL)
    assert falls.sum() == 1  # one kind of step
    assert found.deaths.sum() == seen_steps.count[falls].sum() > 0
    reached = seen_steps.next_state[falls][0]
    assert list(found.online._index)[reached] == seen(1).tobytes()  # where the next one began
    assert found.reward.mean() == pytest.approx(-1 + FALL * found.deaths.sum() / 100)
    assert found.begun > 0
    again = discover_deep(Ledge, iterations=4, steps=25, seed=0, p_option=0.5,
                          make_map=OnlineTable, lam=5.0, until_found=False, every=1)  # fmt: skip
    assert again.visited.tolist() == found.visited.tolist()
    assert again.deaths.tolist() == found.deaths.tolist()


def test_a_random_walk_learns_nothing():
    done = []
    found = discover_deep(Ledge, iterations=2, steps=30, p_option=0.0, progress=done.append)
    assert (found.online, list(found.options), found.begun, done) == (None, [], 0, [1, 2])


@pytest.mark.slow
def test_a_network_discovers_and_is_the_same_again():
    runs = [
        discover_deep(Ledge, iterations=3, steps=20, seed=3, reward=reward, updates=0.5, **NETWORK)
        for reward in (None, None, lambda step: -1.0)
    ]
    assert runs[0].visited.tolist() == runs[1].visited.tolist()
    assert runs[0].reward.tolist() == runs[1].reward.tolist()
    assert runs[2].online.steps == 60
    assert len(runs[0].options) == 1
    assert 0 < runs[0].online.updates <= 60 * 0.5


def test_errors_of_deep_discovery():
    with pytest.raises(DataError, match=r"reward=-1\.0"):
        discover_deep(lambda: gymnasium.make("CartPole-v1"), iterations=1, steps=10)
    with pytest.raises(ArgumentError, match="step cost must be negative"):
        discover_deep(Ledge, iterations=1, reward=1.0)
    with pytest.raises(ArgumentError, match="iterations is 0"):
        discover_deep(Ledge, iterations=0)
