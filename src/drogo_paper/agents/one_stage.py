"""One-stage Q-learning: the potential is the map of the agent's own transitions so far, computed
again after each block of steps. All transitions are then replayed with the new rewards: an action
that looked bad under an early map would hardly be tried again."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.special import logsumexp

from drogo.data.arrays import column
from drogo.device import to_device
from drogo.errors import ArgumentError, Count, Positive, at_least, check_choice, check_fields
from drogo.exact import log_column
from drogo.learn.judge import cosine
from drogo.mdp import MDP
from drogo.online.table import Seen, mean_step_of, solve_seen
from drogo_paper.agents import training as tabular
from drogo_paper.agents.q_learning import Progress, Runs, check_runs, first_batch, optimal_values
from drogo_paper.agents.training import Agent, Batch, RandomNumbers, Taken, Task, Training

MAPS = ("solve", "backups", "none")
CONVERGED = 1e-9
"""A map has converged if backups change no value by more."""


@dataclass(frozen=True, eq=False)
class OneStageRuns(Runs):
    """The result of `one_stage`, with the history of the map."""

    cosine: Float[np.ndarray, "*runs evaluations"]
    """The cosine of the map with the exact column."""
    tried: Float[np.ndarray, "*runs evaluations"]
    """The share of all pairs of a state and an action that were tried."""
    solved: Bool[np.ndarray, "*runs"]
    maps: Float[np.ndarray, "runs kept states"]
    """The map at each evaluation, if they are kept: NaN in states not seen by then."""


@dataclass(frozen=True)
class MapSettings:
    lam: Positive = 20.0
    map: str = "solve"
    """The solver: "solve" exactly, "backups" of the last values, or "none" for no map."""
    optimism: float | None = 0.0
    """The terminal reward of untried actions; None for no map before a terminal state."""
    sweeps: Annotated[int, at_least(0)] = 100
    """Replays of all transitions of a run after each block."""
    backups: Count = 100
    """Backups of all values of the map after each block, for "backups"."""
    map_every: Count = 50
    """The number of steps of a block."""

    def __post_init__(self) -> None:
        check_choice("map", self.map, MAPS)
        check_fields(self)


@dataclass(frozen=True)
class _Model:
    """The transitions and the map of each run, in arrays that are changed in place."""

    mdp: MDP
    settings: MapSettings
    count: Int[np.ndarray, "runs states actions outcomes"]
    v: Float[np.ndarray, "runs states"]
    potential: Float[np.ndarray, "runs states"]
    moving: Bool[np.ndarray, " runs"]
    """Runs whose map has not converged to that of their transitions."""

    @classmethod
    def of(cls, mdp: MDP, settings: MapSettings, runs: int) -> "_Model":
        count = np.zeros((runs, *mdp.outcomes.next_state.shape), dtype=np.int64)
        v, potential = np.zeros((2, runs, mdp.n_states))
        return cls(mdp, settings, count, v, potential, np.zeros(runs, dtype=bool))

    def add(self, taken: Taken) -> bool:
        """Counts steps, of shape (steps, runs), and returns whether they changed any map."""
        before = self.count > 0
        steps = [np.asarray(part) for part in taken]
        run = np.broadcast_to(np.arange(len(self.v)), steps[0].shape)
        np.add.at(self.count, (run, *steps), 1)
        if self.settings.map == "none":
            return False
        self.moving[((self.count > 0) != before).any(axis=(1, 2, 3))] = True
        if self.count.shape[3] > 1:  # every step changes the frequencies of outcomes
            self.moving[:] = True
        runs = np.flatnonzero(self.moving)
        for k in runs.tolist():
            self._update(k)
        return runs.size > 0

    def tried(self) -> Float[np.ndarray, " runs"]:
        return (self.count.sum(axis=3) > 0)[:, ~self.mdp.terminal].mean(axis=(1, 2))

    def visited(self) -> Bool[np.ndarray, "runs states"]:
        visited = np.asarray(self.count.any(axis=(2, 3)))
        run, *step = np.nonzero(self.count)
        visited[run, self.mdp.outcomes.next_state[tuple(step)]] = True
        return visited

    def _seen(self, run: int) -> Seen:
        state, action, outcome = np.nonzero(self.count[run])
        next_state = self.mdp.outcomes.next_state[state, action, outcome]
        terminated = self.mdp.terminal[next_state]
        value = np.where(terminated, self.mdp.reward[next_state], 0.0)
        count = self.count[run][state, action, outcome]
        return Seen(state, action, next_state, self.mdp.reward[state], terminated, value, count)

    def _update(self, run: int) -> None:
        seen = self._seen(run)
        if self.settings.map == "solve":
            v = solve_seen(seen, self.mdp.default_policy, self.settings.lam, self.settings.optimism)
        elif self.settings.optimism is None and not seen.terminated.any():
            v = self.v[run]  # still 0: nothing anchors it
        else:
            v = self._backed_up(run)
        change = np.abs(v - self.v[run]).max()
        self.moving[run] = self.settings.map == "backups" and change > CONVERGED
        self.v[run] = v
        self.potential[run] = v / mean_step_of(v, seen)

    def _backed_up(self, run: int) -> Float[np.ndarray, " states"]:
        mdp, times, v = self.mdp, self.count[run].sum(axis=2), self.v[run]
        share = self.count[run] / np.maximum(times, 1)[:, :, None]
        lam, optimism = self.settings.lam, self.settings.optimism
        hoped = -np.inf if optimism is None else optimism / lam
        with np.errstate(divide="ignore"):
            log_share = np.log(share * mdp.default_policy[:, :, None])
            untried = np.log(np.where(times == 0, mdp.default_policy, 0.0)) + hoped
        for _ in range(self.settings.backups):
            tried = log_share + (mdp.reward / lam)[:, None, None]
            tried = (tried + v[mdp.outcomes.next_state]).reshape(len(v), -1)
            new = np.asarray(logsumexp(np.concatenate([tried, untried], axis=1), axis=1))
            v = np.where(mdp.terminal, mdp.reward / lam, np.where(np.isfinite(new), new, v))
        return v


def one_stage(
    mdp: MDP,
    training: Training,
    settings: MapSettings,
    *,
    weight: Float[np.ndarray, " runs"],
    step_size: Float[np.ndarray, " runs"],
    seed: Int[np.ndarray, " runs"],
    progress: Progress | None = None,
    keep_maps: bool = False,
) -> OneStageRuns:
    """Trains all runs, each with the map of its own transitions."""
    one_per_run = {"weight": weight, "step_size": step_size, "seed": seed}
    weight, step_size, seed = (column(*item) for item in one_per_run.items())
    if training.every % settings.map_every:
        raise ArgumentError(
            f"map_every is {settings.map_every}; it must divide every, which is {training.every}.",
            argument="map_every",
        )
    model = _Model.of(mdp, settings, len(weight))
    check_runs(mdp, training, model.v, weight, step_size, seed)
    weight = np.zeros_like(weight) if settings.map == "none" else weight
    task = tabular.make_task(mdp, training)
    batch = first_batch(task, tabular.shaped_rewards(task, mdp, model.v, weight), step_size, seed)
    truth, curves, maps = log_column(mdp, settings.lam), [], []
    for evaluation in range(training.evaluations):
        batch = _train_blocks(task, batch, model, weight, evaluation, training)
        evaluated = _evaluate(task, batch, evaluation, training.step_limit)
        curves.append((*evaluated, cosine(model.v, truth), model.tried()))
        maps += [np.where(model.visited(), model.v, np.nan)] if keep_maps else []
        if progress is not None:
            progress(evaluation + 1)
    parts = (np.stack(part, axis=1) for part in zip(*curves, strict=True))
    returns, arrived, starts, cosines, tried = parts
    return OneStageRuns(
        returns.astype(np.float64), arrived, optimal_values(mdp)[starts], training.every,
        np.asarray(batch.agents.visits), np.asarray(batch.agents.q), cosine=cosines, tried=tried,
        solved=np.asarray(model.visited()[:, mdp.terminal].any(axis=1)),
        maps=np.stack(maps, axis=1) if maps else np.zeros((len(weight), 0, mdp.n_states)),
    )  # fmt: skip


def _train_blocks(
    task: Task, batch: Batch, model: _Model, weight: np.ndarray, evaluation: int, training: Training
) -> Batch:
    """Trains all runs until the next evaluation, with a new map after each block of steps."""
    random = _random_numbers(batch, evaluation, training.every)
    for block in np.arange(training.every).reshape(-1, model.settings.map_every):
        agents, taken = _train(task, batch, random, block, training.step_limit)
        if model.add(taken):
            rewards = tabular.shaped_rewards(task, model.mdp, model.potential, weight)
            batch = batch._replace(reward=to_device(rewards))
        q = _replay(task, agents.q, batch, to_device(model.count), model.settings.sweeps)
        batch = batch._replace(agents=agents._replace(q=q))
    return batch


@partial(jax.jit, static_argnames="count")
def _random_numbers(batch: Batch, evaluation: Array, count: int) -> RandomNumbers:
    numbers = tabular.numbers_of_seeds(batch, to_device(2 * evaluation, jnp.uint32), count)
    return RandomNumbers(*(part.T for part in numbers))


@partial(jax.jit, static_argnames="step_limit")
def _train(
    task: Task, batch: Batch, random: RandomNumbers, block: Array, step_limit: int
) -> tuple[Agent, Taken]:
    numbers = RandomNumbers(*(part[block] for part in random))
    return tabular.train_batch(task, step_limit, batch, numbers)


@partial(jax.jit, static_argnames="step_limit")
def _evaluate(
    task: Task, batch: Batch, evaluation: Array, step_limit: int
) -> tuple[Array, Array, Array]:
    phase = to_device(2 * evaluation + 1, jnp.uint32)
    random = tabular.numbers_of_seeds(batch, phase, step_limit)
    return tabular.evaluate(task, batch.agents.q, random, batch.seed_of_run)


@jax.jit
def _replay(
    task: Task,
    q: Float[Array, "runs states actions"],
    batch: Batch,
    count: Int[Array, "runs states actions outcomes"],
    sweeps: Int[Array, ""],
) -> Float[Array, "runs states actions"]:
    """Backs up the value of every tried pair with its observed outcomes."""
    times = count.sum(axis=3)
    share = count / jnp.maximum(times, 1)[:, :, :, None]
    reward = (share * batch.reward).sum(axis=3)

    def sweep(_: Array, q: Array) -> Array:
        best = jnp.where(task.terminal[None], 0.0, q.max(axis=2))
        after = jax.vmap(lambda values, share: (share * values[task.next_state]).sum(axis=2))
        target = reward + task.discount * after(best, share)
        changed = q + batch.step_size[:, None, None] * (target - q)
        return jnp.where(times > 0, changed, q)

    return jax.lax.fori_loop(0, sweeps, sweep, q)
