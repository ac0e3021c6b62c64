"""The published tasks of the transfer experiment, sampled again from the seeds of the published
script, and policies for them that follow without learning anything again."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from drogo.worlds.grid import GridWorld

WORLD = "four-rooms-multigoal"
SPREAD = 50.0
"""The standard deviation of terminal rewards. The mean is 0."""
STEPS = 100_000
"""The published number of steps of each learner."""
LEARNING = STEPS
"""Numbers that Q-learning takes from the global generator: one action a step."""
EVALUATING = 2 * STEPS + STEPS + 1
"""Numbers that learning successor features takes: a step samples the action of the bootstrap (two
numbers) and the next action; the first action is sampled before."""
EPISODES = 1 + 4 * 50 + 50
"""Episodes of each task: the optimal policy, four sets of policies, and the default features, all
but the first with 50 seeds. Each draws the direction that the agent faces."""
GOALS = 4
TEST_SEED, START_SEED = 0, 42
"""The seeds of the published test rewards, and of the environment in which they are tested."""

Values = Float[np.ndarray, "tasks goals"]
Policy = Int[np.ndarray, "*runs tasks states"]
"""The action in each state."""


class Tasks(NamedTuple):
    value: Values
    """The terminal reward of each goal, in state order."""
    start: Int[np.ndarray, " tasks"]
    reward: Float[np.ndarray, "tasks states"]
    """The reward of leaving each state."""


def draw_values(seed: int, count: int, between: int) -> Values:
    """Samples what goals are worth, as the published script does, which uses `between` other random
    numbers after each task."""
    rng = np.random.RandomState(seed)  # the published numbers come from this kind of generator
    values = np.empty((count, GOALS))
    for row in values:
        row[:] = rng.normal(0.0, SPREAD, size=GOALS)
        rng.randint(4, size=between)
    return values


def draw_starts(world: GridWorld, count: int) -> Int[np.ndarray, " count"]:
    """Samples the first state of each task, as the published environment does: a column and a row
    until the cell is free, then a direction. It is reset twice before the first task."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(START_SEED)))
    height, width = world.shape
    free = ~world.terminal

    def place() -> int:
        while True:
            column, row = rng.integers(width), rng.integers(height)
            state = int(world.index[row, column])
            if state >= 0 and free[state]:
                rng.integers(4)
                return state

    for _ in range(2):
        place()
    starts = []
    for _ in range(count):
        starts.append(place())
        for _ in range(EPISODES):
            rng.integers(4)
    return np.array(starts)


def published_tasks(world: GridWorld, count: int, *, erased: bool) -> Tasks:
    """Returns the first tasks of the published run, at most 100. If `erased`, the cell in which a
    task begins costs no more than a plain cell from then on, as in the published script."""
    start = draw_starts(world, count)
    reward = np.tile(np.where(world.terminal, 0.0, world.reward), (count, 1))
    if erased:
        plain = world.reward[~world.terminal].max()
        for task, state in enumerate(start):
            reward[task:, state] = plain
    return Tasks(draw_values(TEST_SEED, count, LEARNING), start, reward)


def worth(world: GridWorld, tasks: Tasks) -> Float[np.ndarray, "tasks states"]:
    """Returns the terminal reward of each state, which is 0 except in goals."""
    values = np.zeros((len(tasks.start), world.n_states))
    values[:, world.terminal] = tasks.value
    return values


def returns(world: GridWorld, tasks: Tasks, policy: Policy) -> Float[np.ndarray, "*runs tasks"]:
    """Computes the undiscounted return of one episode in each task."""
    task = np.arange(len(tasks.start))
    state = np.broadcast_to(tasks.start, policy.shape[:-1])
    earned = np.zeros(policy.shape[:-1])
    for _ in range(world.step_limit):
        if world.terminal[state].all():
            break
        earned += np.where(world.terminal[state], 0.0, tasks.reward[task, state])
        action = np.take_along_axis(policy, state[..., None], axis=-1)[..., 0]
        state = world.next_state[state, action]  # a goal leads to itself
    return earned + worth(world, tasks)[task, state]


def best_returns(world: GridWorld, tasks: Tasks) -> Float[np.ndarray, " tasks"]:
    """Computes the largest possible return of an episode in each task, by dynamic programming."""
    value = at_the_end = worth(world, tasks)
    for _ in range(world.step_limit):
        following = value[:, world.next_state].max(axis=-1)
        value = np.where(world.terminal, at_the_end, tasks.reward + following)
    return value[np.arange(len(tasks.start)), tasks.start]


Columns = Float[np.ndarray, "*runs goals states"]
"""`v(s, T)`: the log of the column of goal T, which is 0 in T and minus infinity in other goals."""


def from_columns(
    world: GridWorld, columns: Columns, log_weight: Float[np.ndarray, "tasks goals"]
) -> Policy:
    """Goes to the neighbour with the largest `v(s) = log sum_T exp(v(s, T) + log_weight(T))`."""
    v = np.asarray(logsumexp(columns[..., None, :, :] + log_weight[:, :, None], axis=-2))
    return v[..., world.next_state].argmax(axis=-1)


def from_default_features(
    table: Float[np.ndarray, "*runs states actions goals"],
    log_weight: Float[np.ndarray, "tasks goals"],
) -> Policy:
    """Takes the action with the largest weighted sum of default features."""
    desirability = table @ np.exp(log_weight).T
    return np.moveaxis(desirability.argmax(axis=-2), -1, -2)


def improved(
    features: Float[np.ndarray, "*runs policies states actions features"],
    weight: Float[np.ndarray, "tasks features"],
) -> Iterator[Policy]:
    """Improves on the first policy, then on the first two, and so on, by successor features."""
    best = np.array(-np.inf)
    for one in np.moveaxis(features, -4, 0):
        best = np.maximum(best, one @ weight.T)
        yield np.moveaxis(best.argmax(axis=-2), -1, -2)


def greedy_policy(
    q: Float[np.ndarray, "runs states actions"],
) -> Float[np.ndarray, "runs states actions"]:
    """Returns the probabilities of a policy that chooses among the best actions at random."""
    best = q == q.max(axis=-1, keepdims=True)
    return best / best.sum(axis=-1, keepdims=True)
