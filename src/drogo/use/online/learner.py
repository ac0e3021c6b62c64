"""`OnlineLearner`: a map that is learned from steps as they come, as pure functions.

    state = learner.init(network, key, observation, capacity=10_000, low=-0.5, high=0.5)
    state = learner.observe(state, steps)
    state, loss = learner.update(state)
    log_e = learner.value(state, observations)

The state holds arrays alone, so all of this can be jitted and scanned, together with the agent that
takes the steps. The objective is `ActionValues`: it has a value for each action, and it does not
matter how often an agent takes which.

Before the first terminal state is seen, nothing holds the map in place. Under *optimism*, an action
that was never taken in some part of the observations counts as one that ends the episode with a
given value. The map then leads to what was not tried yet, around what is known to be costly, and
later to the goal.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

from drogo.errors import ArgumentError
from drogo.learn.inputs import Inputs
from drogo.learn.learner import Batch, Learner
from drogo.learn.networks import MLP
from drogo.learn.objectives import Numbers
from drogo.use.online.drawing import Drawing
from drogo.use.online.moment import Moment
from drogo.use.online.state import OnlineState
from drogo.use.online.steps import Replay, Steps
from drogo.use.online.visits import Visits

CELLS = 20
"""The number of cells along each number of an observation, unless their sides are given."""
TERMINAL_STEPS = 1000
"""How many steps into terminal states are kept."""
RATE = 0.01
"""The rate at which running means of the parameters and of the map's differences follow."""
MEASURED = 16
"""How many steps of each batch it follows. All of them would cost a third of an update."""


class OnlineLearner(eqx.Module):
    """How a map is learned from steps as they come.

    Args:
        learner: The learner, with the objective `ActionValues`.
        log_default: The log of the default policy's probability of each action.
        optimism: The terminal value, in units of reward, that an action is taken to lead to until
            it was tried.
        known_after: How many times an action must have been taken in a cell for it to count as
            tried there; 0 for no optimism.
        until_found: Whether optimism ends as soon as a terminal state was seen that is worth as
            much.
        batch_size: The number of steps of an update.
        centred: Whether the network sees how far numbers are from their mean, in place of the
            middle of their range.
        untried_share: The share of a batch that is drawn from steps that left a cell where an
            action was not tried.
        evenly: Whether all pairs of a cell and an action are drawn equally often.
    """

    learner: Learner
    log_default: Float[Array, " actions"]
    optimism: Float[Array, ""]
    known_after: int = eqx.field(static=True)
    until_found: bool = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    centred: bool = eqx.field(static=True, default=False)
    untried_share: float = eqx.field(static=True, default=0.0)
    evenly: bool = eqx.field(static=True, default=False)

    def init(
        self,
        params: Any,
        key: Array,
        observation: Shaped[Array, ...],
        *,
        capacity: int,
        low: Float[Any, ...] | float | None = None,
        high: Float[Any, ...] | float | None = None,
        sides: Float[Any, ...] | float | None = None,
    ) -> OnlineState:
        """Returns the state before the first step.

        Args:
            params: A network like the learner's own, or its parameters.
            key: Decides what is drawn.
            observation: An observation, or anything of its shape and type.
            capacity: How many steps are kept.
            low: The least number of an observation that is known beforehand, or one for each of its
                numbers: infinity where it is not known.
            high: Likewise the largest: minus infinity where it is not known.
            sides: The sides of the cells in which visits are counted: one for all, or one for each
                number. By default a twentieth of the range, which must then be known.
        """
        if sides is None and (low is None or high is None):
            raise ArgumentError("give sides, or low and high, of which a side is then a twentieth.")
        zero, shape = jnp.zeros(()), (math.prod(observation.shape),)
        low, high = (
            jnp.broadcast_to(jnp.asarray(unknown if end is None else end, jnp.float32), shape)
            for end, unknown in ((low, jnp.inf), (high, -jnp.inf))
        )
        if sides is None:
            sides = jnp.where(high > low, high - low, 1.0) / CELLS
        training = self.learner.init(params)
        return OnlineState(
            training,
            training.params,
            Replay.empty(capacity, observation),
            Replay.empty(min(capacity, TERMINAL_STEPS), observation),
            Visits.none(
                jnp.broadcast_to(jnp.asarray(sides, jnp.float32), shape), self.log_default.size
            ),
            jnp.zeros(capacity, jnp.uint32),
            low,
            high,
            jnp.zeros(shape),
            zero - jnp.inf,
            zero,
            key,
        )

    def observe(
        self, state: OnlineState, steps: Steps, chosen: Bool[Any, " n"] | None = None
    ) -> OnlineState:
        """Returns the state with more steps, at most as many as there is room for.

        Args:
            state: The state.
            steps: The steps.
            chosen: Which of them are meant; all unless given.
        """
        every = jnp.ones(len(steps.reward), bool)
        chosen = every if chosen is None else jnp.asarray(chosen)
        ended = chosen & steps.terminated
        flat = _flat(steps.observation)
        both = jnp.stack([flat, _flat(steps.next_observation)])
        value = jnp.where(ended, steps.terminal_reward, -jnp.inf)
        mask = chosen[None, :, None]
        added = chosen.sum(dtype=jnp.int32)
        share = 1 / jnp.maximum(state.steps + added, 1)
        slots = state.visits.slot(steps.observation)
        gone = jnp.where(chosen[:, None], flat - state.mean[None], 0.0).sum(axis=0)
        return OnlineState(
            state.training,
            state.average,
            state.replay.add(steps, chosen),
            state.ends.add(steps, ended),
            state.visits.add(steps.observation, steps.action, chosen),
            state.slots.at[state.replay.places(chosen)].set(slots, mode="drop"),
            jnp.minimum(state.low, jnp.where(mask, both, jnp.inf).min(axis=(0, 1))),
            jnp.maximum(state.high, jnp.where(mask, both, -jnp.inf).max(axis=(0, 1))),
            state.mean + share * gone,
            jnp.maximum(state.best, value.max()),
            state.mean_step,
            state.key,
        )

    def update(self, state: OnlineState) -> tuple[OnlineState, Float[Array, ""]]:
        """Makes one update from the steps that were observed, of which there must be one.

        Args:
            state: The state.

        Returns:
            The state after the update, and the loss before it.
        """
        key, *keys = jax.random.split(state.key, 5)
        steps = self.drawing.draw(state, keys)
        learner = self._learner(state)
        batch, is_anchored = self._batch(state, learner, steps, keys[3])
        training, loss = learner.step(state.training, batch)
        # With nothing to anchor it, the map would fall without end.
        training = jax.tree.map(
            lambda new, old: jnp.where(is_anchored, new, old), training, state.training
        )
        rate = jnp.maximum(RATE, 1 / (1 + training.update))
        average = jax.tree.map(
            lambda mean, new: mean + rate * (new - mean), state.average, training.params
        )
        few = jax.tree.map(lambda part: part[:MEASURED], steps)
        features = jnp.concatenate([batch.features[:MEASURED], batch.next_features[:MEASURED]])
        v = learner.objective.log_e(learner.network(average).values(features))
        moved = (_flat(few.observation) != _flat(few.next_observation)).any(axis=1)
        difference = jnp.abs(v[len(moved) :] - v[: len(moved)])
        measured = moved & ~few.terminated
        step = jnp.mean(difference, where=measured)
        mean = state.mean_step + jnp.where(measured.any(), rate * (step - state.mean_step), 0.0)
        after = eqx.tree_at(
            lambda s: (s.training, s.average, s.mean_step, s.key),
            state,
            (training, average, mean, key),
        )
        return after, loss

    def value(self, state: OnlineState, observations: Shaped[Array, "n ..."]) -> Float[Array, " n"]:
        """Returns the map at some observations: 0 everywhere before the first update.

        Args:
            state: The state.
            observations: A batch of observations.
        """
        learner = self._learner(state)
        v = learner.objective.log_e(learner.output(state.average, observations))
        # A value above the best end is an error of the network: no way is better than its end.
        v = jnp.minimum(v, learner.objective.numbers.ceiling)
        return jnp.where(state.training.update > 0, v, 0.0)

    def logits(
        self, state: OnlineState, observations: Shaped[Array, "n ..."]
    ) -> Float[Array, "n actions"]:
        """Returns the log of what the map promises of each action, up to a constant.

        Args:
            state: The state.
            observations: A batch of observations.
        """
        learner = self._learner(state)
        outputs = learner.output(state.training.params, observations)
        return jnp.where(state.training.update > 0, learner.objective.numbers.scale * outputs, 0.0)

    def moment(self, state: OnlineState) -> Moment:
        """Returns what the map says in this state, for evaluation outside of compiled programs. The
        network must be an `MLP` whose units have no leak.

        Args:
            state: The state.
        """
        learner, training = self._learner(state), state.training
        latest, average = (learner.network(params) for params in (training.params, state.average))
        if not (isinstance(latest, MLP) and isinstance(average, MLP)) or latest.leak:
            raise ArgumentError(
                "the moment of a map is that of an MLP without a leak; evaluate another network "
                "with the learner's own functions."
            )
        numbers, (shift, width) = learner.objective.numbers, self._range(state)
        return Moment(
            latest.numbers(),
            average.numbers(),
            shift,
            width,
            numbers.scale,
            numbers.ceiling,
            state.mean_step,
            training.update,
            training.diverged_at,
        )

    def untried(
        self, state: OnlineState, observations: Shaped[Array, "n ..."]
    ) -> Bool[Array, "n actions"]:
        """Returns which actions were not tried in the cells of some observations.

        Args:
            state: The state.
            observations: A batch of observations.
        """
        return state.visits.untried(observations, self.known_after)

    def is_done(self, state: OnlineState) -> Bool[Array, ""]:
        """Returns whether every action was tried in all cells that were ever left.

        Args:
            state: The state.
        """
        return state.visits.is_done(self.known_after)

    def potential(
        self, state: OnlineState, observations: Shaped[Array, "n ..."]
    ) -> Float[Array, " n"]:
        """Returns the map divided by its mean difference between the two ends of a step.

        Args:
            state: The state.
            observations: A batch of observations.
        """
        mean = jnp.where(state.mean_step > 0, state.mean_step, 1.0)
        return self.value(state, observations) / mean

    def _learner(self, state: OnlineState) -> Learner:
        """The learner with what was seen of the range of observations and of terminal values."""
        shift, scale = self._range(state)
        numbers: Numbers = self.learner.objective.numbers
        ceiling = jnp.maximum(state.best, self.optimism if self.known_after else -jnp.inf)
        numbers = eqx.tree_at(lambda n: n.ceiling, numbers, ceiling / numbers.lam)
        inputs = Inputs(shift, scale, jnp.arange(shift.size))
        changed = (numbers, inputs)
        return eqx.tree_at(lambda lr: (lr.objective.numbers, lr.inputs), self.learner, changed)

    def _range(self, state: OnlineState) -> tuple[Float[Array, " size"], Float[Array, " size"]]:
        """What the numbers of an observation are lowered by, and then multiplied by."""
        width = state.high - state.low
        some = (width > 0) & jnp.isfinite(width)
        middle = state.mean if self.centred else (state.low + state.high) / 2
        shift = jnp.where(some, middle, state.low)
        scale = jnp.where(some, 1 / jnp.where(some, width, 1.0), 0.0)
        return jnp.where(jnp.isfinite(shift), shift, 0.0), scale

    @property
    def drawing(self) -> Drawing:
        """How the steps of its batches are drawn."""
        return Drawing(self.batch_size, self.known_after, self.untried_share, self.evenly)

    def _batch(
        self, state: OnlineState, learner: Learner, steps: Steps, key: Array
    ) -> tuple[Batch, Bool[Array, ""]]:
        """Returns the batch of an update, and whether anything in it anchors the map: a terminal
        state that was seen, or an action that was not tried."""
        n, drawing = self.batch_size, self.drawing
        other, untried = drawing.other_actions(state, steps, key)
        if self.until_found:
            untried &= state.best < self.optimism
        real = drawing.weights(state, steps)
        weight = jnp.concatenate([real, untried.astype(real.dtype)])
        rows, action = jnp.tile(jnp.arange(n), 2), jnp.concatenate([steps.action, other])
        zero = jnp.zeros(n)
        batch = Batch(
            learner.features(steps.observation),
            learner.features(steps.next_observation),
            rows,
            rows,
            jnp.concatenate([steps.reward, zero]),
            jnp.concatenate([steps.terminated, jnp.ones(n, bool)]),
            jnp.concatenate([steps.terminal_reward, zero + self.optimism]),
            weight / weight.sum(),
            action,
            self.log_default[action],
        )
        return batch, state.ended | untried.any()


def _flat(observations: Shaped[Array, "n ..."]) -> Float[Array, "n size"]:
    return jnp.asarray(observations).reshape(len(observations), -1).astype(jnp.float32)
