"""Columns after walls, costs or goals changed, against solving again."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from drogo import MDP, GridWorld, exact
from drogo.exact import low_rank
from drogo.exact.columns import solve_columns
from drogo.exact.inverse_part import inverse_part
from drogo.exact.log_solve import factorise
from drogo.exact.rows import default_rows
from random_mdps import random_mdp, recipes

WORLD = GridWorld.load("four-rooms")
CLOSE = 1e-10
GOALS = [0, 7, 50, 103]


def difference(columns, mdp):
    """The largest difference to solving again, which must be minus infinity in the same places."""
    ours, theirs = columns.log_e, exact.log_columns(mdp, columns.lam, columns.goals)
    assert np.array_equal(np.isneginf(ours), np.isneginf(theirs))
    both = np.isfinite(theirs)
    return np.abs(ours[both] - theirs[both]).max()


def goal_of(world):
    return tuple(map(int, world.cells[world.terminal][0]))


CHANGES = {
    "nothing": {},
    "one cost": {(4, 4): "x"},
    "one wall": {(4, 4): "#"},
    "a door": {(6, 2): "#"},
    "two walls side by side": {(4, 4): "#", (4, 5): "#"},
    "a wall, a cost, a way": {(2, 3): "#", (10, 10): "x", (8, 3): "."},
    "many": {**{(8, c): "." for c in range(2, 6)}, (1, 1): "x", (3, 3): "#", (9, 9): "#"},
    "the goal": {goal_of(WORLD): ".", (1, 11): "G"},
    "a second goal and a wall": {(1, 1): "G", (2, 3): "#"},
}


@pytest.mark.parametrize("lam", [1.3, 20.0, 1e6])
@pytest.mark.parametrize("change", CHANGES)
def test_the_same_as_solving_again(change, lam):
    before = exact.solve_columns(WORLD.mdp, lam, GOALS)
    mdp = WORLD.mdp_with(CHANGES[change])
    after = exact.update(before, mdp)
    if lam > 1.3:  # where a door or a costly cell is not the whole difference
        assert after.method == "updated"
        assert bool(after.changed.size) == bool(CHANGES[change])
    assert after.status == "converged"
    assert difference(after, mdp) < CLOSE


def test_the_changed_rows_by_hand():
    """A wall changes its own row and those of the cells beside it; a cost changes one row; a goal
    that moves changes the rows of both places."""
    before = exact.solve_columns(WORLD.mdp, 20.0, GOALS)

    def changed(cells):
        return exact.update(before, WORLD.mdp_with(cells)).changed.tolist()

    number = WORLD.index
    wall = [number[3, 4], number[4, 3], number[4, 4], number[4, 5], number[5, 4]]
    assert changed({(4, 4): "#"}) == sorted(wall)
    assert changed({(4, 4): "x"}) == [number[4, 4]]
    assert changed(CHANGES["the goal"]) == sorted([number[1, 11], number[goal_of(WORLD)]])


def test_a_wall_is_a_state_that_nothing_leads_to():
    mdp = WORLD.mdp_with({(4, 4): "#"})
    state = WORLD.index[4, 4]
    after = exact.update(exact.solve_columns(WORLD.mdp, 20.0, GOALS), mdp, [state, 0])
    others = np.arange(mdp.n_states) != state
    assert np.isneginf(after.log_e[0, others]).all()
    assert after.log_e[0, state] == 0
    assert np.isneginf(after.log_e[1, state])
    # The same as in the world without that cell, where the states have other numbers.
    text = WORLD.text.splitlines()
    text[4] = text[4][:4] + "#" + text[4][5:]
    smaller = exact.log_columns(GridWorld.parse("\n".join(text)).mdp, 20.0, [0])[0]
    finite = others & np.isfinite(after.log_e[1])
    np.testing.assert_allclose(after.log_e[1, finite], smaller[np.isfinite(smaller)], atol=1e-12)


def test_updates_of_updates():
    """Rows add up against the first factorisation, and what is undone no longer counts."""
    columns = first = exact.solve_columns(WORLD.mdp, 20.0, GOALS)
    cells = {}
    for cell, symbol in [((4, 4), "#"), ((2, 3), "x"), ((10, 10), "#"), ((11, 2), "x")]:
        cells[cell] = symbol
        mdp = WORLD.mdp_with(cells)
        columns = exact.update(columns, mdp)
        assert columns.method == "updated"
        assert difference(columns, mdp) < CLOSE
    assert columns.changed.size == 12  # 5 and 5 for the walls
    back = exact.update(columns, WORLD.mdp)
    assert back.changed.size == 0
    np.testing.assert_allclose(back.log_e, first.log_e, atol=1e-13)


def test_a_goal_that_moved_and_other_goals_than_before():
    before = exact.solve_columns(WORLD.mdp, 20.0, WORLD.terminal)
    mdp = WORLD.mdp_with(CHANGES["the goal"])
    after = exact.update(before, mdp, mdp.terminal)
    assert after.method == "updated"
    assert difference(after, mdp) < CLOSE
    np.testing.assert_allclose(after.transfer([-3.0]), exact.log_column(mdp, 20.0, [-3.0]))


# Short of the door the way to the goal is 2 steps; around, it is more than 60.
LOOP = GridWorld.parse("#" * 34 + "\n#" + "S.G" + "." * 29 + "#\n#." + "#" * 30 + ".#\n#" + "." * 32 + "#\n" + "#" * 34)  # fmt: skip


def test_a_closed_door_takes_a_new_factorisation():
    """The detour is worth e^-100 of the way through the door: subtracting has no digit of it."""
    before = exact.solve_columns(LOOP.mdp, 1.0, [0, 2])
    mdp = LOOP.mdp_with({(1, 2): "#"})
    after = exact.update(before, mdp)
    assert before.log_e[1, 0] - after.log_e[1, 0] > 100
    assert after.method == "factorised"
    assert after.changed.size == 0
    assert after.status == "converged"
    assert difference(after, mdp) < CLOSE
    again = exact.update(after, LOOP.mdp_with({(1, 2): "#", (2, 1): "x"}))
    assert again.method == "updated"
    assert again.changed.tolist() == [LOOP.index[2, 1]]


def test_many_rows_or_goals_take_a_new_factorisation(monkeypatch):
    before = exact.solve_columns(WORLD.mdp, 20.0, GOALS)
    mdp = WORLD.mdp_with({(4, 4): "#"})
    monkeypatch.setattr(low_rank, "MOST_ROWS", 4)
    assert exact.update(before, mdp).method == "factorised"
    monkeypatch.setattr(low_rank, "MOST_ROWS", 5)
    assert exact.update(before, mdp).method == "updated"
    assert exact.update(before, mdp, range(17)).method == "factorised"


def test_entries_far_below_the_smallest_double():
    """Goals beyond the range of a double are updated in the matrices that were scaled for them."""
    world = GridWorld.load("four-rooms", rewards={"x": -3.0})
    before = exact.solve_columns(world.mdp, 0.03, [0, 7, 50])
    assert before.log_e[np.isfinite(before.log_e)].min() < -700
    assert len(before.kept.parts) > 1
    mdp = world.mdp_with({(4, 4): "x"})
    after = exact.update(before, mdp)
    assert after.method == "updated"
    assert difference(after, mdp) < CLOSE
    other = exact.update(before, mdp, [60])  # not solved for before
    assert other.status == "converged"
    assert difference(other, mdp) < CLOSE


@given(recipes(), st.sampled_from([0.05, 1.3, 20.0]), st.integers(0, 2**31), st.integers(1, 4))
@settings(max_examples=20)
def test_random_changes_of_random_mdps(recipe, lam, seed, count):
    """Whichever way is taken, the answer is right."""
    mdp, rng = random_mdp(**recipe), np.random.default_rng(seed)
    chosen = rng.choice(np.flatnonzero(~mdp.terminal), count)
    P, reward = mdp.P.toarray(), mdp.reward.copy()
    P[chosen] = 0.7 * P[chosen] + 0.3 * np.roll(P[chosen], 1, axis=1)
    reward[chosen] *= rng.uniform(0.1, 10.0, count)
    changed = MDP.from_arrays(P, reward, mdp.terminal)
    goals = np.arange(min(mdp.n_states, 16))
    after = exact.update(exact.solve_columns(mdp, lam, goals), changed)
    assert after.status == "converged"
    assert difference(after, changed) < 1e-9


def test_part_of_an_inverse():
    """A directed world, whose factors are not symmetric, against a dense inverse."""
    mdp = random_mdp(5, 60, actions=1, branching=2)
    rows = default_rows(mdp, 20.0, "zero-row", 1.0)
    lu = factorise(rows, np.zeros(60, dtype=bool), np.zeros(60)).lu
    scale = sp.diags_array(np.where(mdp.terminal, 1.0, np.exp(mdp.reward / 20.0)))
    inverse = np.linalg.inv(np.eye(60) - (scale @ mdp.P).toarray())
    columns = np.array([3, 17, 40, 41, 5, 8, 22, 31, 50, 51, 52, 53, 54, 55, 56, 57, 58])
    states = np.union1d(columns, [0, 59])
    part = inverse_part(lu, states, columns)
    np.testing.assert_allclose(part, inverse[np.ix_(states, columns)], rtol=1e-10, atol=1e-13)


def test_wrong_arguments():
    before = solve_columns(WORLD.mdp, 20.0, GOALS)
    with pytest.raises(ValueError, match=r"mdp has 272 states, and the columns .* with 104.*wall"):
        exact.update(before, GridWorld.load("grid-room").mdp)
    with pytest.raises(ValueError, match="goals names state 104"):
        exact.update(before, WORLD.mdp, [104])
    with pytest.raises(ValueError, match=r"cell \(0, 0\) is not a free cell of four-rooms"):
        WORLD.mdp_with({(0, 0): "."})
    with pytest.raises(ValueError, match=r"symbol of cell \(1, 1\) is 'q'; choose one of #, ., x"):
        WORLD.mdp_with({(1, 1): "q"})
    with pytest.raises(ValueError, match=r"cannot reach a terminal state .*state.? \(1, 1\)"):
        WORLD.mdp_with({(1, 2): "#", (2, 1): "#"})
