"""Other methods that change the rewards of an agent while it learns, for comparison with a map."""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Shaped

from drogo.device import to_device
from drogo.errors import ArgumentError, check_number
from drogo.learn.networks import DenseNetwork
from drogo.use.shaping import AbstractShaping, StepBatch

TOGETHER = 4
"""Updates of RND in one call of a compiled program, since a call takes longer than an update."""
BATCH, OUTPUTS, CAPACITY = 64, 64, 10_000
"""The observations of an update of RND, its predicted outputs, and the observations it keeps."""
FAR = 5.0
"""Normalised observations are clipped at this number of standard deviations."""


class _Prediction(eqx.Module):
    """A network that learns to predict the output of a fixed random network."""

    predictor: DenseNetwork
    target: DenseNetwork
    optimiser: Any
    mean: Float[Array, " size"]
    square: Float[Array, " size"]
    """Running means of observations and of their squares."""
    count: Float[Array, ""]
    novelty: Float[Array, ""]
    """The mean squared error of all updates so far."""

    def normalised(self, rows: Shaped[Array, "n size"]) -> Float[Array, "n size"]:
        spread = jnp.sqrt(jnp.maximum(self.square - self.mean**2, 1e-8))
        return jnp.clip((rows - self.mean[None]) / spread[None], -FAR, FAR)

    @eqx.filter_jit
    def errors(self, rows: Float[Array, "n size"]) -> Float[Array, " n"]:
        numbers = self.normalised(rows)
        return ((self.predictor(numbers) - self.target(numbers)) ** 2).mean(axis=1)


class RND(AbstractShaping):
    """Random network distillation (Burda et al. 2018): a bonus for observations that a network
    cannot predict yet, which is the squared error of the prediction divided by its mean so far."""

    def __init__(
        self,
        observation_space: gymnasium.Space,
        *,
        weight: float = 1.0,
        width: int = 128,
        step_size: float = 1e-4,
        updates: float = 0.5,
        seed: int = 0,
    ) -> None:
        self.for_spaces(observation_space)
        self.weight = check_number("weight", weight)
        self.updates, self._due = check_number("updates", updates), 0.0
        self._rng = np.random.default_rng(seed)
        size = math.prod(self.shape)
        self._kept = np.zeros((CAPACITY, size), np.float32)
        keys = jax.random.split(jax.random.key(seed))
        predictor, target = (DenseNetwork(size, 0, key, width, 2, OUTPUTS) for key in keys)
        self._adam = optax.adam(step_size)
        zero = jnp.zeros(size)
        optimiser = self._adam.init(eqx.filter(predictor, eqx.is_inexact_array))
        scalars = (jnp.zeros(()), jnp.ones(()))
        self._state = _Prediction(predictor, target, optimiser, zero, zero, *scalars)

    @property
    def metrics(self) -> Mapping[str, float]:
        return {"steps": float(self.steps), "novelty": float(self._state.novelty)}

    def take(self, steps: StepBatch, time: Any = None) -> None:
        rows = np.asarray(steps.next_observation, np.float32).reshape(len(steps.reward), -1)
        self._kept[(self.steps + np.arange(len(rows))) % len(self._kept)] = rows
        self._due += self.updates * len(rows)
        super().take(steps, time)

    def train(self) -> None:
        while self._due >= TOGETHER:
            seen, size = min(self.steps, len(self._kept)), (TOGETHER, BATCH)
            batches = to_device(self._kept[self._rng.integers(seen, size=size)])
            self._state = _predict_better(self._adam, self._state, batches)
            self._due -= TOGETHER

    def shape_rewards(self, steps: StepBatch) -> np.ndarray:
        rows = np.asarray(steps.next_observation, np.float32).reshape(len(steps.reward), -1)
        errors = np.asarray(self._state.errors(to_device(rows)), np.float64)
        bonus = errors / max(float(self._state.novelty), 1e-8)
        return steps.reward + self.weight * bonus


@eqx.filter_jit
def _predict_better(
    adam: optax.GradientTransformation, state: _Prediction, batches: Float[Array, "updates n size"]
) -> _Prediction:
    arrays, rest = eqx.partition(state, eqx.is_array)

    def update(arrays: Any, rows: Array) -> tuple[Any, None]:
        return eqx.filter(_updated(adam, eqx.combine(arrays, rest), rows), eqx.is_array), None

    return eqx.combine(jax.lax.scan(update, arrays, batches)[0], rest)


def _updated(
    adam: optax.GradientTransformation, state: _Prediction, rows: Float[Array, "n size"]
) -> _Prediction:
    count = state.count + 1
    rate = jnp.maximum(1 / count, 1e-3)
    mean = state.mean + rate * (rows.mean(axis=0) - state.mean)
    square = state.square + rate * ((rows**2).mean(axis=0) - state.square)
    state = eqx.tree_at(lambda s: (s.mean, s.square, s.count), state, (mean, square, count))
    numbers = state.normalised(rows)
    wanted = state.target(numbers)

    def loss(predictor: DenseNetwork) -> Array:
        return ((predictor(numbers) - wanted) ** 2).mean()

    error, gradient = eqx.filter_value_and_grad(loss)(state.predictor)
    with jax.numpy_dtype_promotion("standard"):  # optax mixes types
        change, optimiser = adam.update(gradient, state.optimiser)
    novelty = state.novelty + (error - state.novelty) / count
    predictor = eqx.apply_updates(state.predictor, change)
    changed = (predictor, optimiser, novelty)
    return eqx.tree_at(lambda s: (s.predictor, s.optimiser, s.novelty), state, changed)


class OwnValue(AbstractShaping):
    """Bootstrapped reward shaping (Adamczyk et al. 2025): the agent's own value is the potential,
    from the target network of a DQN or the value of an on-policy agent."""

    def __init__(self, *, weight: float = 0.5) -> None:
        self.weight = check_number("weight", weight)
        self._agent: Any = None

    @property
    def metrics(self) -> Mapping[str, float]:
        return {"steps": float(self.steps)}

    def attach(self, agent: Any) -> None:
        on_policy = hasattr(getattr(agent, "policy", None), "predict_values")
        if not (on_policy or hasattr(agent, "q_net_target")):
            problem = f"a {type(agent).__name__} has no value function of states for OwnValue."
            remedy = "Use a DQN, or an on-policy agent."
            raise ArgumentError(problem, remedy=remedy, argument="agent")
        self._agent = agent

    def train(self) -> None:
        """Does nothing: the agent learns its value itself."""

    def shape_rewards(self, steps: StepBatch) -> np.ndarray:
        if self._agent is None:
            raise ArgumentError(
                "OwnValue has no agent yet.", remedy="Give the agent the callback LearnMap."
            )
        after = np.where(steps.terminated, 0.0, self._value(steps.next_observation))
        before = self._value(steps.observation)
        return steps.reward + self.weight * (self._agent.gamma * after - before)

    def _value(self, observations: Any) -> Float[np.ndarray, " n"]:
        import torch

        agent, target = self._agent, getattr(self._agent, "q_net_target", None)
        normalised = agent.get_vec_normalize_env()
        seen = np.asarray(observations)
        seen = seen if normalised is None else normalised.normalize_obs(seen)
        with torch.no_grad():
            shown = agent.policy.obs_to_tensor(seen)[0]
            if target is not None:
                return target(shown).max(dim=1).values.cpu().numpy().astype(np.float64)
            return agent.policy.predict_values(shown)[:, 0].cpu().numpy().astype(np.float64)
