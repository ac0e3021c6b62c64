"""`OnlineLearner`: a map that is learned from steps as they come, as pure functions of a state
that holds arrays alone, so all of this can be jitted and scanned, together with an agent.

    learner = OnlineLearner(drogo.Column(), drogo.Drogo(), network, n_actions=4)
    state = learner.init(network, key, observation, capacity=10_000, low=-0.5, high=0.5)
    state = learner.observe(state, steps)
    state, loss = learner.update(state)
    log_e = learner.value(state, observations)

Before the first terminal state is seen, nothing anchors the map. Under *optimism*, an action that
was never taken in a cell of observations counts as one into a terminal state of a given reward. The
map then leads to what was not tried yet, around costly states, and later to the goal."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int, Shaped

from drogo import errors
from drogo.errors import ArgumentError, Count, Flag, check_choice, check_whole
from drogo.learn.architectures import MOST_COORDINATES, AnyOptimiser, Optimiser, as_optimiser
from drogo.learn.learner import Batch, Learner, Objective
from drogo.learn.methods import Drogo
from drogo.learn.networks import AbstractNetwork
from drogo.learn.settings import check_not_swept
from drogo.mdp.costs import of_steps
from drogo.online.base import probabilities
from drogo.online.replay import OnlineState, Replay, Sampler, Visits, flat
from drogo.problems.column import Column
from drogo.use.shaping import StepBatch

CELLS = 20  # The number of cells along each number of an observation, unless their sides are given.
TERMINAL_STEPS = 1000  # The number of steps into terminal states that are kept.
RATE = 0.01  # The rate of the running means of the parameters and of the map's differences.
MEASURED = 16
"""The number of steps of a batch on which differences are measured; all would cost far more."""
DEFAULTS = {"batch_size": 32, "action_values": True, "emphasis": 0.0, "terminal_fraction": 0.1}


@dataclass(frozen=True)
class OnlineSettings:
    """The settings of a network that learns the map while an agent acts."""

    optimism: errors.Number | None = 0.0
    """The reward of the terminal state that an action is taken to lead to until it was tried in a
    cell of observations. With None there is no map before the first real terminal state."""
    until_found: Flag = True
    """Ends optimism as soon as a terminal state was seen that is worth as much."""
    capacity: Annotated[int, errors.at_least(2)] = 100_000
    """The number of steps that are kept."""
    updates_per_step: errors.Positive = 0.5
    """The number of updates for each step of the environment."""
    train_every: Count = 8
    """The number of steps between training calls: several updates at once are faster."""
    learning_starts: Count = 500
    """The number of steps before the first update."""
    sides: Any = None
    """The sides of the cells of observations, one for all or one for each number. By default a
    twentieth of the range of each number, and for images so small that all differ. Images are
    `uint8`, or more than 16 numbers along two or three axes."""

    def __post_init__(self) -> None:
        errors.check_fields(self)

    def sampler(self, method: Drogo) -> Sampler:
        """Returns the sampling of batches for a method whose settings are resolved."""
        n = int(method.batch_size or 0)
        return Sampler(n, round((method.terminal_fraction or 0.0) * n), self.optimism is not None)


class Snapshot(NamedTuple):
    """The arrays of a state that the values of the map depend on, of JAX or of NumPy.

    A network sees the numbers of an observation minus `shift`, times `width`. Its outputs times
    `scale` are logits. `ceiling` is the best reward of a terminal state, over lam.
    """

    latest: list[Any]
    average: list[Any]  # The parameters after the last update, and their running mean.
    shift: Float[Any, " size"]
    width: Float[Any, " size"]
    scale: Float[Any, ""]
    ceiling: Float[Any, ""]
    mean_step: Float[Any, ""]
    updates: Int[Any, ""]
    diverged_at: Int[Any, ""]


class OnlineLearner(eqx.Module):
    """A learner with a memory.

    Args:
        method: The method; its settings that are None are resolved.
        n_actions: The number of actions.
        optimiser: By default Adam with a constant step size of 0.002.
        settings: The other settings. Those of `OnlineMap` alone have no effect.
        scale: The factor from the network's outputs to values: a twentieth of the map's depth.
        normalise: The number that the network sees as 0: the "middle" of the range of each number
            of a flat observation, or its "mean". With None it sees observations as they are.
    """

    learner: Learner
    log_default: Float[Array, " actions"]
    optimism: Float[Array, ""]
    step_size: Float[Array, ""]
    sampler: Sampler = eqx.field(static=True)
    until_found: bool = eqx.field(static=True)
    normalise: str | None = eqx.field(static=True)

    def __init__(
        self,
        problem: Column,
        method: Drogo | None,
        network: eqx.Module,
        n_actions: int,
        *,
        optimiser: Any = None,
        settings: OnlineSettings | None = None,
        scale: float = 1.0,
        normalise: str | None = "middle",
    ) -> None:
        check_whole("n_actions", n_actions, 1)
        if normalise is not None:
            check_choice("normalise", normalise, ("middle", "mean"))
        method, optimiser = resolved_method(method), resolved_optimiser(optimiser)
        settings = OnlineSettings() if settings is None else settings
        objective = Objective(problem, method, scale=scale if method.scaled else 1.0)
        self.learner = Learner(objective, network, optimiser.transformation())
        default = probabilities(problem.default_policy, n_actions)
        self.log_default = jnp.log(jnp.asarray(default, jnp.float32))
        self.optimism = jnp.asarray(settings.optimism or 0.0, jnp.float32)
        self.step_size = jnp.asarray(optimiser.step_size, jnp.float32)
        self.sampler = settings.sampler(method)
        self.until_found, self.normalise = settings.until_found, normalise

    def init(
        self,
        params: Any,
        key: Array,
        observation: Shaped[Any, "..."],
        *,
        capacity: int,
        low: Float[Any, "..."] | float | None = None,
        high: Float[Any, "..."] | float | None = None,
        sides: Float[Any, "..."] | float | None = None,
    ) -> OnlineState:
        """Returns the state before the first step.

        Args:
            params: A network like that of the learner, or its parameters.
            key: Decides the batches.
            observation: An observation, or anything of its shape and type.
            capacity: The number of steps that are kept.
            low: The smallest number of an observation, or one for each; infinity if unknown.
            high: The largest likewise; minus infinity if unknown.
            sides: As in `OnlineSettings`, by default a twentieth of the range given here.
        """
        if sides is None and (low is None or high is None):
            raise ArgumentError("give sides, or the whole range: low and high.", argument="sides")
        low, high = (jnp.inf if low is None else low), (-jnp.inf if high is None else high)
        low, high = jnp.asarray(low, jnp.float32), jnp.asarray(high, jnp.float32)
        sides = jnp.where(high > low, high - low, 1.0) / CELLS if sides is None else sides
        size, sides = math.prod(observation.shape), jnp.asarray(sides, jnp.float32)
        low, high, sides = (jnp.broadcast_to(part, (size,)) for part in (low, high, sides))
        training, zero = self.learner.init(params), jnp.zeros(())
        return OnlineState(
            training,
            training.params,
            Replay.empty(capacity, observation),
            Replay.empty(min(capacity, TERMINAL_STEPS), observation),
            Visits.none(sides, self.log_default.size),
            jnp.zeros(capacity, jnp.uint32),
            *(low, high, jnp.zeros(size), zero - jnp.inf, zero, key),
        )

    def observe(
        self, state: OnlineState, steps: StepBatch, chosen: Bool[Array, " n"] | None = None
    ) -> OnlineState:
        """Returns the state with the chosen steps (by default all), at most as many as fit."""
        chosen = jnp.ones(len(steps.reward), bool) if chosen is None else jnp.asarray(chosen)
        is_last, before = chosen & steps.terminated, flat(steps.observation)
        both, mask = jnp.stack([before, flat(steps.next_observation)]), chosen[None, :, None]
        share = 1 / jnp.maximum(state.steps + chosen.sum(dtype=jnp.int32), 1)
        distance = jnp.where(chosen[:, None], before - state.mean[None], 0.0).sum(axis=0)
        known = is_last & ~jnp.isnan(steps.terminal_reward)
        best = jnp.where(known, steps.terminal_reward, -jnp.inf).max()
        place, slots = state.replay.places(chosen), state.visits.slot(steps.observation)
        return replace(
            state,
            replay=state.replay.add(steps, chosen),
            terminal=state.terminal.add(steps, is_last),
            visits=state.visits.add(steps.observation, steps.action, chosen),
            slots=state.slots.at[place].set(slots, mode="drop"),
            low=jnp.minimum(state.low, jnp.where(mask, both, jnp.inf).min(axis=(0, 1))),
            high=jnp.maximum(state.high, jnp.where(mask, both, -jnp.inf).max(axis=(0, 1))),
            mean=state.mean + share * distance,
            best=jnp.maximum(state.best, best),
        )

    def update(
        self, state: OnlineState, judged: tuple[Array, Array] | None = None
    ) -> tuple[OnlineState, Float[Array, ""]]:
        """Makes one update from the steps so far, of which there must be one. Returns the state
        after it, and the loss before it.

        Args:
            state: The state.
            judged: For steps with an environment's own rewards, whose terminal rewards are NaN: the
                numbers of `drogo.mdp.Costs`, and the best terminal reward by them.
        """
        key, *keys = jax.random.split(state.key, 5)
        steps = self.sampler.sample(state, keys)
        if judged is not None:
            costs, state = judged[0], replace(state, best=judged[1])
            ends = steps.terminated & jnp.isnan(steps.terminal_reward)
            reward, value = of_steps(costs, steps.reward, ends, steps.reward, jnp)
            value = jnp.where(ends, value, steps.terminal_reward)
            steps = steps._replace(reward=reward, terminal_reward=value)
        batch, is_anchored = self._batch(state, steps, keys[3])
        ceiling = self._ceiling(state)
        learner = eqx.tree_at(lambda part: part.objective.ceiling, self.learner, ceiling)
        training, loss = learner.step(state.training, batch, self.step_size)
        # Without an anchor, the map would fall without bounds.
        kept = lambda new, old: jnp.where(is_anchored, new, old)  # noqa: E731
        training = jax.tree.map(kept, training, state.training)
        rate = jnp.maximum(RATE, 1 / (1 + training.update))
        moved = lambda mean, new: mean + rate * (new - mean)  # noqa: E731
        average = jax.tree.map(moved, state.average, training.params)
        mean_step = self._mean_step(state, average, steps, rate)
        new = {"training": training, "average": average, "mean_step": mean_step, "key": key}
        return replace(state, **new), loss

    def _mean_step(self, state: OnlineState, average: Any, steps: StepBatch, rate: Array) -> Array:
        """Returns the running mean of differences, with those of a few steps of a batch."""
        few = jax.tree.map(lambda part: part[:MEASURED], steps)
        both = jnp.concatenate([few.observation, few.next_observation])
        outputs = self.learner.network(average)(self.inputs(both, *self._range(state)))
        before, after = jnp.split(self.learner.objective.log_e(outputs), 2)
        moved = (flat(few.observation) != flat(few.next_observation)).any(axis=1)
        measured = moved & ~few.terminated
        change = jnp.mean(jnp.abs(after - before), where=measured) - state.mean_step
        return state.mean_step + jnp.where(measured.any(), rate * change, 0.0)

    def _batch(self, state: OnlineState, steps: StepBatch, key: Array) -> tuple[Batch, Array]:
        """Returns the batch of an update, and whether anything in it anchors the map."""
        n = self.sampler.batch_size
        other, untried = self.sampler.other_actions(state, steps, key)
        if self.until_found:
            untried &= state.best < self.optimism
        real = self.sampler.weights(state, steps)
        weight = jnp.concatenate([real, untried.astype(real.dtype)])
        rows, action = jnp.tile(jnp.arange(n), 2), jnp.concatenate([steps.action, other])
        zero, limits = jnp.zeros(n), self._range(state)
        features, next_features = (
            self.learner.skeleton.features(self.inputs(part, *limits))
            for part in (steps.observation, steps.next_observation)
        )
        real_steps = (steps.reward, steps.terminated, steps.terminal_reward)
        pairs = zip(real_steps, (zero, jnp.ones(n, bool), zero + self.optimism), strict=True)
        reward, terminated, value = (jnp.concatenate(both) for both in pairs)
        log_default, weight = self.log_default[action], weight / weight.sum()
        after = (reward, terminated, value, weight, action, log_default)
        batch = Batch(features, next_features, rows, rows, *after)
        return batch, state.has_terminal | untried.any()

    def snapshot(self, state: OnlineState) -> Snapshot:
        """Returns the arrays that the values of the map depend on."""
        training, scale = state.training, self.learner.objective.scale
        latest, average = (jax.tree.leaves(part) for part in (training.params, state.average))
        rest = (scale, self._ceiling(state), state.mean_step, training.update, training.diverged_at)
        return Snapshot(latest, average, *self._range(state), *rest)

    def inputs(self, observations: Array, shift: Array, width: Array) -> Array:
        """Returns the numbers that the network sees, as `Snapshot` says."""
        if self.normalise is None:
            return self.learner.inputs(observations)
        return (flat(observations) - shift[None]) * width[None]

    def logits_of(
        self, network: AbstractNetwork, snapshot: Snapshot, observations: Shaped[Array, "n ..."]
    ) -> Float[Array, "n actions"]:
        """Returns the logits of all actions by a network of a snapshot."""
        return snapshot.scale * network(self.inputs(observations, snapshot.shift, snapshot.width))

    def logits(self, state: OnlineState, observations: Shaped[Array, "n ..."]) -> Array:
        """Returns the log of the value of each action, up to a constant."""
        snapshot, network = self.snapshot(state), self.learner.network(state.training.params)
        return jnp.where(snapshot.updates > 0, self.logits_of(network, snapshot, observations), 0.0)

    def value(self, state: OnlineState, observations: Shaped[Array, "n ..."]) -> Float[Array, " n"]:
        """Returns the map at some observations: 0 everywhere before the first update."""
        snapshot, network = self.snapshot(state), self.learner.network(state.average)
        v = logsumexp(self.logits_of(network, snapshot, observations), axis=-1)
        return jnp.where(snapshot.updates > 0, jnp.minimum(v, snapshot.ceiling), 0.0)

    def potential(self, state: OnlineState, observations: Shaped[Array, "n ..."]) -> Array:
        """Returns the map divided by its mean difference between the two states of a step."""
        mean = jnp.where(state.mean_step > 0, state.mean_step, 1.0)
        return self.value(state, observations) / mean

    def _ceiling(self, state: OnlineState) -> Float[Array, ""]:
        optimism = self.optimism if self.sampler.optimistic else -jnp.inf
        lam: Any = self.learner.objective.problem.lam
        return jnp.maximum(state.best, optimism) / lam

    def _range(self, state: OnlineState) -> tuple[Float[Array, " size"], Float[Array, " size"]]:
        width = state.high - state.low
        varies = (width > 0) & jnp.isfinite(width)
        middle = state.mean if self.normalise == "mean" else (state.low + state.high) / 2
        shift = jnp.where(varies, middle, state.low)
        scale = jnp.where(varies, 1 / jnp.where(varies, width, 1.0), 0.0)
        return jnp.where(jnp.isfinite(shift), shift, 0.0), scale


def resolved_method(method: Any, size: int = 1) -> Drogo:
    """Returns the method of a map with its settings resolved, for observations of a given size."""
    method = Drogo() if method is None else method
    if not isinstance(method, Drogo):
        problem = f"method is {method!r}; an online map learns with drogo.Drogo()."
        raise ArgumentError(problem, argument="method")
    check_not_swept(method)
    fixed = {"action_values": (None, True), "updates": (None,), "emphasis": (None, 0.0)}
    for name, allowed in fixed.items():
        if getattr(method, name) not in allowed:
            problem = f"{name} is {getattr(method, name)}, which an online map cannot have."
            raise ArgumentError(problem, remedy="Leave it out.", argument=name)
    # With a faster target network the map of images sinks as a whole, far below the truth.
    rate = 0.5 if size <= MOST_COORDINATES else 0.05
    method = method.resolve({**DEFAULTS, "target_rate": rate})
    check_whole("batch_size", method.batch_size, 10)
    if not (share := method.terminal_fraction or 0.0) <= 0.9:
        problem = f"terminal_fraction is {share}; it must be at most 0.9."
        raise ArgumentError(problem, argument="terminal_fraction")
    # Values are right where next states have probabilities above exp(-4), 2 %. A larger cap makes
    # training less stable.
    return replace(method, cap=4.0) if method.cap == "auto" else method


def resolved_optimiser(optimiser: Any) -> AnyOptimiser:
    """Returns the optimiser of an online map: Adam unless given."""
    if optimiser is None:
        return Optimiser(step_size=2e-3, schedule="constant")
    optimiser = as_optimiser(optimiser)
    check_not_swept(optimiser)
    if isinstance(optimiser, Optimiser) and optimiser.schedule != "constant":
        remedy = 'Give drogo.learn.Optimiser(step_size=..., schedule="constant").'
        problem = f"schedule is {optimiser.schedule!r}; online training has no last update."
        raise ArgumentError(problem, remedy=remedy, argument="schedule")
    return optimiser
