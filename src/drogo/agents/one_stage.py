"""One stage: Q-learning whose potential is the map of what the agent itself has seen so far.

The paper learns the map first, from transitions that its tables do not count. Here the map and the
policy are learned together, from the same steps. After each block of steps, the map of the
transitions that a lane has seen is computed again, and its rewards are shaped with it from then on.
Actions that were never tried are believed to be good (`optimism`), so the map also leads to them.

A value that was learned under an old potential is wrong under a new one. An action that looked bad
when the map was young would hardly be tried again, and the agent would keep the first way that it
found. Therefore all transitions that a lane has seen are replayed with the new rewards (`sweeps`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.special import logsumexp

from drogo.agents.q_learning import (
    Progress,
    Runs,
    check_counts,
    check_lanes,
    first_lanes,
)
from drogo.agents.task import RandomNumbers, Task, make_task, shaped_rewards
from drogo.agents.training import Agent, Lanes, Taken, evaluate, numbers_of_seeds, train_lanes
from drogo.agents.value_iteration import optimal_values
from drogo.data.arrays import column
from drogo.device import to_device
from drogo.errors import ArgumentError, check_choice, check_number, check_whole
from drogo.exact import log_column
from drogo.learn.judge import cosine
from drogo.mdp import MDP
from drogo.use.online.empirical import Seen, mean_step_of, solve_seen

MAPS = ("solve", "backups", "none")
SETTLED = 1e-9
"""A map has settled if backups change no value by more."""


@dataclass(frozen=True, eq=False)
class OneStageRuns(Runs):
    """The result of `one_stage`: that of `q_learning`, and how the map came about.

    Args:
        cosine: The cosine of the map with the exact column, at each evaluation.
        tried: The share of all pairs of a state and an action that were tried by then.
        found: Whether each lane has reached a terminal state in training.
        maps: The map of each lane at each evaluation, if they were to be kept. It is NaN in states
            that the lane had not seen by then.
    """

    cosine: Float[np.ndarray, "*lanes evaluations"]
    tried: Float[np.ndarray, "*lanes evaluations"]
    found: Bool[np.ndarray, "*lanes"]
    maps: Float[np.ndarray, "lanes kept states"]


@dataclass(frozen=True)
class _Model:
    """What each lane has seen, and its map. The arrays are changed in place."""

    mdp: MDP
    lam: float
    optimism: float | None
    kind: str
    backups: int
    count: Int[np.ndarray, "lanes states actions outcomes"]
    v: Float[np.ndarray, "lanes states"]
    potential: Float[np.ndarray, "lanes states"]
    moving: Bool[np.ndarray, " lanes"]
    """Where the map does not yet follow from what was seen."""

    def add(self, taken: Taken) -> bool:
        """Counts steps, of shape (steps, lanes), and computes the maps that they change.

        Returns:
            Whether any map changed.
        """
        before = self.count > 0
        steps = [np.asarray(part) for part in taken]
        lane = np.broadcast_to(np.arange(len(self.v)), steps[0].shape)
        np.add.at(self.count, (lane, *steps), 1)
        if self.kind == "none":
            return False
        self.moving[((self.count > 0) != before).any(axis=(1, 2, 3))] = True
        if self.count.shape[3] > 1:  # every further step changes the frequencies of outcomes
            self.moving[:] = True
        lanes = np.flatnonzero(self.moving)
        for k in lanes.tolist():
            self._update(k)
        return lanes.size > 0

    def tried(self) -> Float[np.ndarray, " lanes"]:
        """The share of all pairs of a state and an action that each lane has tried."""
        return (self.count.sum(axis=3) > 0)[:, ~self.mdp.terminal].mean(axis=(1, 2))

    def known(self) -> Bool[np.ndarray, "lanes states"]:
        """Which states each lane has left or reached."""
        known = np.asarray(self.count.any(axis=(2, 3)))
        lane, *step = np.nonzero(self.count)
        known[lane, self.mdp.outcomes.next_state[tuple(step)]] = True
        return known

    def _seen(self, lane: int) -> Seen:
        state, action, outcome = np.nonzero(self.count[lane])
        next_state = self.mdp.outcomes.next_state[state, action, outcome]
        terminated = self.mdp.terminal[next_state]
        value = np.where(terminated, self.mdp.reward[next_state], 0.0)
        count = self.count[lane][state, action, outcome]
        return Seen(state, action, next_state, self.mdp.reward[state], terminated, value, count)

    def _update(self, lane: int) -> None:
        seen = self._seen(lane)
        if self.kind == "solve":
            v = solve_seen(seen, self.mdp.default_policy, self.lam, self.optimism)
        elif self.optimism is None and not seen.terminated.any():
            v = self.v[lane]  # still 0: nothing would hold it in place
        else:
            v = self._backed_up(lane)
        self.moving[lane] = self.kind == "backups" and np.abs(v - self.v[lane]).max() > SETTLED
        self.v[lane] = v
        self.potential[lane] = v / mean_step_of(v, seen)

    def _backed_up(self, lane: int) -> Float[np.ndarray, " states"]:
        """Backs every value up some times, from those that the map had."""
        mdp, times, v = self.mdp, self.count[lane].sum(axis=2), self.v[lane]
        share = self.count[lane] / np.maximum(times, 1)[:, :, None]
        promise = -np.inf if self.optimism is None else self.optimism / self.lam
        with np.errstate(divide="ignore"):
            log_share = np.log(share * mdp.default_policy[:, :, None])
            untried = np.log(np.where(times == 0, mdp.default_policy, 0.0)) + promise
        for _ in range(self.backups):
            tried = log_share + (mdp.reward / self.lam)[:, None, None]
            tried = (tried + v[mdp.outcomes.next_state]).reshape(len(v), -1)
            new = np.asarray(logsumexp(np.concatenate([tried, untried], axis=1), axis=1))
            v = np.where(mdp.terminal, mdp.reward / self.lam, np.where(np.isfinite(new), new, v))
        return v


def one_stage(
    mdp: MDP,
    *,
    weight: Float[np.ndarray, " lanes"],
    step_size: Float[np.ndarray, " lanes"],
    seed: Int[np.ndarray, " lanes"],
    step_limit: int,
    lam: float = 20.0,
    map: str = "solve",
    optimism: float | None = 0.0,
    sweeps: int = 100,
    backups: int = 100,
    map_every: int = 50,
    low_reward: Bool[np.ndarray, " states"] | None = None,
    steps: int = 100_000,
    every: int = 100,
    discount: float = 0.99,
    epsilon: float = 0.05,
    progress: Progress | None = None,
    keep_maps: bool = False,
) -> OneStageRuns:
    """Trains all lanes, each with the map of what it has seen itself.

    Args:
        mdp: The MDP, of which a lane knows only what it has seen.
        weight: The weight of the shaping reward in each lane.
        step_size: The step size of each lane.
        seed: The seed of each lane.
        step_limit: The number of steps after which an episode is truncated.
        lam: The temperature of the map.
        map: How the map is computed: "solve" exactly, "backups" of all values from those of the
            last time, or "none", which leaves plain Q-learning, with a replay if `sweeps` is not 0.
        optimism: The terminal value, in units of reward, that an action is taken to lead to as long
            as it was never tried. With None, nothing is believed of it, and there is no map before
            the first terminal state.
        sweeps: How many times all transitions of a lane are replayed after each block; 0 for no
            replay.
        backups: How many times all values of the map are backed up after each block, if it is made
            in that way.
        map_every: The number of steps of a block.
        low_reward: The states whose visits are counted.
        steps: The number of training steps.
        every: The number of training steps between evaluations.
        discount: The discount of the agents.
        epsilon: The probability of a random action.
        progress: Called after each evaluation with their number.
        keep_maps: Whether to keep the maps at all evaluations.

    Returns:
        Learning curves, visits and action values of all lanes, and how the map came about.
    """
    one_per_lane = {"weight": weight, "step_size": step_size, "seed": seed}
    weight, step_size, seed = (column(*given) for given in one_per_lane.items())
    check_choice("map", map, MAPS)
    check_counts(steps, every, step_limit, seed)
    check_whole("sweeps", sweeps, 0)
    check_whole("backups", backups, 1)
    if every % check_whole("map_every", map_every, 1):
        raise ArgumentError(f"map_every is {map_every}; it must divide every, which is {every}.")
    if not check_number("lam", lam) > 0:
        raise ArgumentError(f"lam is {lam}; it must be positive.")
    none = np.zeros((len(weight), mdp.n_states))
    check_lanes(mdp, none, weight, step_size, seed)
    if map == "none":
        weight = np.zeros_like(weight)
    task = make_task(mdp, low_reward, discount, epsilon)
    count = np.zeros((len(weight), *mdp.outcomes.next_state.shape), dtype=np.int64)
    moving = np.zeros(len(weight), dtype=bool)
    model = _Model(mdp, lam, optimism, map, backups, count, none.copy(), none.copy(), moving)
    lanes = first_lanes(task, shaped_rewards(task, mdp, none, weight), step_size, seed)
    truth, curves, maps = log_column(mdp, lam), [], []
    blocks = np.arange(every).reshape(-1, map_every)
    for evaluation in range(steps // every):
        random = _random_numbers(lanes, evaluation, every)
        for block in blocks:
            agents, taken = _train(task, lanes, random, block, step_limit)
            changed = model.add(taken)
            if changed:
                rewards = shaped_rewards(task, mdp, model.potential, weight)
                lanes = lanes._replace(reward=to_device(rewards))
            q = _replay(task, agents.q, lanes, to_device(model.count), sweeps)
            lanes = lanes._replace(agents=agents._replace(q=q))
        evaluated = _evaluate(task, lanes, evaluation, step_limit)
        curves.append((*evaluated, cosine(model.v, truth), model.tried()))
        maps += [np.where(model.known(), model.v, np.nan)] if keep_maps else []
        if progress is not None:
            progress(evaluation + 1)
    parts = (np.stack(part, axis=1) for part in zip(*curves, strict=True))
    returns, arrived, starts, cosines, tried = parts
    return OneStageRuns(
        returns=returns.astype(np.float64),
        arrived=arrived,
        best_return=optimal_values(mdp)[starts],
        every=every,
        low_reward_visits=np.asarray(lanes.agents.visits),
        q=np.asarray(lanes.agents.q),
        cosine=cosines,
        tried=tried,
        found=np.asarray(model.known()[:, mdp.terminal].any(axis=1)),
        maps=np.stack(maps, axis=1) if maps else np.zeros((len(weight), 0, mdp.n_states)),
    )


@partial(jax.jit, static_argnames="steps")
def _random_numbers(lanes: Lanes, evaluation: Array, steps: int) -> RandomNumbers:
    """The random numbers of the training before an evaluation, those of `q_learning`."""
    drawn = numbers_of_seeds(lanes, to_device(2 * evaluation, jnp.uint32), steps)
    return RandomNumbers(*(part.T for part in drawn))


@partial(jax.jit, static_argnames="step_limit")
def _train(
    task: Task, lanes: Lanes, random: RandomNumbers, block: Array, step_limit: int
) -> tuple[Agent, Taken]:
    """Trains all lanes for a block of steps."""
    return train_lanes(task, step_limit, lanes, RandomNumbers(*(part[block] for part in random)))


@partial(jax.jit, static_argnames="step_limit")
def _evaluate(
    task: Task, lanes: Lanes, evaluation: Array, step_limit: int
) -> tuple[Array, Array, Array]:
    """Returns what `evaluate` tells of one greedy episode of each lane."""
    random = numbers_of_seeds(lanes, to_device(2 * evaluation + 1, jnp.uint32), step_limit)
    return evaluate(task, lanes.agents.q, random, lanes.seed_of_lane)


@jax.jit
def _replay(
    task: Task,
    q: Float[Array, "lanes states actions"],
    lanes: Lanes,
    count: Int[Array, "lanes states actions outcomes"],
    sweeps: Int[Array, ""],
) -> Float[Array, "lanes states actions"]:
    """Backs up the value of every pair that was tried, with the outcomes that were seen."""
    times = count.sum(axis=3)
    share = count / jnp.maximum(times, 1)[:, :, :, None]
    reward = (share * lanes.reward).sum(axis=3)

    def sweep(_: Array, q: Array) -> Array:
        best = jnp.where(task.terminal[None], 0.0, q.max(axis=2))
        after = jax.vmap(lambda values, share: (share * values[task.next_state]).sum(axis=2))
        target = reward + task.discount * after(best, share)
        changed = q + lanes.step_size[:, None, None] * (target - q)
        return jnp.where(times > 0, changed, q)

    return jax.lax.fori_loop(0, sweeps, sweep, q)
