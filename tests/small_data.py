"""Small worlds and data sets with exact answers, which many tests share."""

from functools import cache

import equinox as eqx
import gymnasium
import jax
import numpy as np

from drogo import MDP, GridWorld, Transitions, collect
from drogo.learn import MLP, Optimiser

CHAIN = GridWorld.parse("#######\n#S.x.G#\n#######")
WORLD = GridWorld.parse("########\n#S.x...#\n#.##.#.#\n#....#G#\n########")
ROOM = GridWorld.parse("#######\n#S..x.#\n#.#...#\n#...xG#\n#######")
SMALL = MLP(width=16, depth=2)
"""A small network: the same one in many tests is one compiled program."""
FAST, SLOW = Optimiser(step_size=0.02), Optimiser("rmsprop", 1e-3, "constant")


def world_env(world, kind="state"):
    return gymnasium.make("drogo/GridWorld-v0", world=world, observation=kind)


@cache
def data_of(world, kind="state", n=4000, policy=None):
    return collect(world_env(world, kind), n, seed=0, policy=policy)


def mostly_right(observation, rng):
    """A behaviour policy that is far from the default policy."""
    return 0 if rng.random() < 0.7 else int(rng.integers(4))


@cache
def balanced(world=CHAIN):
    """Every action of every state once: the data are the model, and so is their solution."""
    live = np.repeat(np.flatnonzero(~world.terminal), 4)
    after = world.next_state[~world.terminal].ravel()
    return Transitions.from_table(
        np.arange(world.n_states), live, after, world.reward[live], world.terminal[after]
    )


def table_of(state, after, reward, terminated=None, copies=3, table=None, **columns):
    """Transitions between numbered states, each several times."""
    n = int(max(np.max(state), np.max(after))) + 1
    over = np.zeros(len(state), dtype=bool) if terminated is None else np.asarray(terminated)
    rewards = np.broadcast_to(np.asarray(reward, dtype=float), len(state))
    rows = [np.tile(part, copies) for part in (state, after, rewards, over)]
    columns = {
        name: np.tile(part, copies) if np.ndim(part) else part for name, part in columns.items()
    }
    columns.setdefault("terminal_reward", 0.0)
    return Transitions.from_table(np.arange(n) if table is None else table, *rows, **columns)


def corridor(n=7, terminal=True, reward=-1.0, **columns):
    """A corridor between two walls, or whose last state is terminal; and its MDP."""
    last = n - 1 if terminal else n
    state = np.repeat(np.arange(last), 2)
    after, P = np.clip(state + np.tile([-1, 1], last), 0, n - 1), np.zeros((n, n))
    np.add.at(P, (state, after), 0.5)
    data = table_of(state, after, reward - 0.1 * state, (after == n - 1) & terminal, **columns)
    return data, MDP.from_arrays(P, reward - 0.1 * np.arange(n), [n - 1] if terminal else [])


def ring(n=5):
    """Two steps on or one step back around a ring whose states pay 1, 0, -1 ...; and its MDP."""
    state, action = np.repeat(np.arange(n), 2), np.tile([0, 1], n)
    after, reward = (state + np.where(action == 0, 2, -1)) % n, 1.0 - np.arange(n)
    P = np.zeros((2, n, n))
    P[action, state, after] = 1.0
    data = table_of(state, after, reward[state], action=action, n_actions=2)
    return data, MDP.from_arrays(P, reward)


@cache
def line(n=800, scale=1.0):
    """Steps of 0.1 to either side on a line from 0 to its terminal part at 1; no state repeats."""
    rng = np.random.default_rng(0)
    x, action = rng.uniform(0, 1, (n, 1)), rng.integers(0, 2, n)
    y = np.abs(x + np.where(action, 0.1, -0.1)[:, None])
    before, after = ((scale * part).astype(np.float32) for part in (x, y))
    return Transitions.from_arrays(
        before, after, np.full(n, -1.0), y[:, 0] >= 0.97, action=action, behaviour=np.full(n, 0.5)
    )


def assert_nothing_is_cut_off(figure):
    """Lays out a figure and looks where everything ends, in inches."""
    figure.get_layout_engine().execute(figure)
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= -0.01


class Fixed(eqx.Module):
    """A network of given values by state, for tests of the evaluation alone."""

    rows: jax.Array

    def __call__(self, states):
        return self.rows[states]
