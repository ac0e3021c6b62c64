"""Options of learned maps: ways by hand, and the exact map as the truth."""

import numpy as np
import pytest

from drogo import Column, OnlineMap
from drogo.use import OptionWrapper, learned_option
from ledge import LAST, LEFT, NETWORK, RIGHT, Ledge, all_steps, policy, seen, spaces, table


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
    """The option keeps a snapshot, which does not change later."""
    columns = all_steps({(0, LEFT)})
    exact = table(columns)
    settings = {"until_found": False, "learning_starts": 1, "untried_share": 0.25, "evenly": True}
    online = OnlineMap(*spaces(), Column(lam=5.0), **settings, **NETWORK, updates_per_step=40.0)
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
