"""Bonuses for what is new from a default representation that a network learns, at any observation.

`DefaultCounts` learns the rows Z(sa, .) in a table. Here they are *successor features* of the
default representation: a network learns

    psi(s, a) = exp(x / lam) (phi(s, a) + E[psi(s', a')]),

where phi are features of pairs, a' is drawn from the uniform default policy, and nothing follows a
terminal state. With one feature for each pair, psi(s, a) is the row Z(sa, .) itself. In general it
is the sum of Z(sa, s'a') phi(s', a') over all pairs, and has the norm of the row as far as features
of different states are orthogonal.

At first psi is phi, of length 1, so that the log of its norm is 0. It falls where the network has
learned that rewards are not the best, and stays where it has not been.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
from jaxtyping import Array, Bool, Float, Int, Shaped

from drogo.device import to_device
from drogo.errors import ArgumentError, DataError, check_number, check_whole
from drogo.learn.networks import MLP
from drogo.use.counts import ROUNDING
from drogo.use.online.shaping import AbstractShaping, as_columns

TOGETHER = 4
"""So many updates are made by one call of a compiled program: the call takes longer than one."""
FOLLOWING = 1e-2
"""The least rate at which the running mean of the norms follows."""
SMALLEST = 1e-2
"""Log norms are divided by this at least: before anything is learned, all of them are 0."""
HUGE = 1e6
"""A wider range of numbers is no range: it stands for none."""

StateFeatures = Callable[[Shaped[np.ndarray, "n ..."]], Float[np.ndarray, "n features"]]


class Psi(eqx.Module):
    """Successor features of all actions, psi(s, a) = phi(s, a) + f(phi(s), a), where f begins at 0.

    The features of a pair are those of its state in a block for its action, and zeros elsewhere.
    """

    network: MLP
    actions: int = eqx.field(static=True)

    def __init__(self, features: int, actions: int, width: int, depth: int, key: Array) -> None:
        outputs = actions * actions * features
        network = MLP(features, 0, key, width, depth, outputs)
        last = network.layers[-1]
        zeros = (jnp.zeros_like(last.weight), jnp.zeros(outputs))
        self.network = eqx.tree_at(
            lambda n: (n.layers[-1].weight, n.layers[-1].bias), network, zeros
        )
        self.actions = actions

    def __call__(self, phi: Float[Array, "n k"]) -> Float[Array, "n actions actions k"]:
        learned = self.network(phi).reshape(len(phi), self.actions, self.actions, -1)
        return of_pairs(phi, self.actions) + learned


def of_pairs(phi: Float[Array, "n k"], actions: int) -> Float[Array, "n actions actions k"]:
    """Returns the features of the pairs of some states with all actions.

    Args:
        phi: The features of the states.
        actions: The number of actions.
    """
    return jnp.eye(actions)[None, :, :, None] * phi[:, None, None, :]


def targets(
    psi: Psi,
    phi: Float[Array, "n k"],
    action: Int[Array, " n"],
    factor: Float[Array, " n"],
    next_phi: Float[Array, "n k"],
    ended: Bool[Array, " n"],
) -> Float[Array, "n actions k"]:
    """Returns what psi(s, a) should be according to some steps: factor (phi(s, a) + psi(s', .)).

    Args:
        psi: The successor features of the moment.
        phi: The features of the states that were left.
        action: The actions.
        factor: exp(x / lam).
        next_phi: The features of the states that were reached.
        ended: Whether these are terminal.
    """
    own = of_pairs(phi, psi.actions)[jnp.arange(len(phi)), action]
    after = jnp.where(ended[:, None, None], 0.0, psi(next_phi).mean(axis=1))
    return factor[:, None, None] * (own + after)


def random_features(
    space: gymnasium.spaces.Box, count: int, *, resolution: float = 0.1, seed: int = 0
) -> StateFeatures:
    """Returns random Fourier features of observations, vectors of length 1.

    Their inner products are about exp(-d^2 / 2), where d is the distance of two observations in
    units of `resolution`: those that are far apart have features that are nearly orthogonal.

    Args:
        space: The observations.
        count: How many features.
        resolution: The distance, as a share of the range of a number where the space has bounds.
        seed: The seed.
    """
    rng = np.random.default_rng([seed, 2])
    low, high = (np.asarray(end, np.float64).ravel() for end in (space.low, space.high))
    known = np.isfinite(low) & np.isfinite(high) & (high - low < HUGE) & (high > low)
    shift, unit = np.where(known, low, 0.0), np.where(known, high - low, 1.0)
    frequency = rng.standard_normal((low.size, count)) / resolution / unit[:, None]
    phase = rng.uniform(0, 2 * np.pi, count)

    def features(observations: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, "n features"]:
        flat = np.asarray(observations, np.float64).reshape(len(observations), -1)
        waves = np.cos((flat - shift) @ frequency + phase)
        return waves / np.linalg.norm(waves, axis=1, keepdims=True)

    return features


class _Learning(eqx.Module):
    """Everything that changes while norms are learned."""

    psi: Psi
    optimiser: Any
    count: Float[Array, ""]
    size: Float[Array, ""]
    """A running mean of the absolute log norms of the steps that were learned from."""


class LearnedCounts(AbstractShaping):
    """A bonus `weight log ||psi(s, a)|| / size`, from a default representation that is learned.

    It is 0 for what is new and negative for what is known, -`weight` in the mean: `size` is a
    running mean of how far log norms are from 0, so that a weight means the same in every world and
    at every `lam`. What is known to pay well loses less. Use it like `OnlineMap` with the classes
    of `drogo.use.sb3`, or with `BonusWrapper`.

    Args:
        observation_space: The observations of the agent: a `Box`.
        action_space: Its actions, `Discrete`.
        best: The largest reward that there is. Where it is the most frequent one too, give a larger
            number: a row that nothing shrinks grows with the length of episodes.
        unit: What rewards are divided by: x is `(r - best) / unit`.
        lam: The temperature lambda.
        weight: The weight of the bonus.
        features: How many random features of observations there are, or a function that returns a
            vector of length 1 for each of a batch of observations.
        resolution: Observations that differ by more than this share of their range are different,
            to random features.
        width: Units in each hidden layer.
        depth: The number of hidden layers. With 0, psi is linear in the features.
        step_size: The step size of Adam.
        batch_size: The number of steps of an update.
        updates: Updates for each step of the environment.
        capacity: How many steps are kept to learn from.
        seed: The seed.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        *,
        best: float = 0.0,
        unit: float = 1.0,
        lam: float = 1.0,
        weight: float = 1.0,
        features: int | StateFeatures = 64,
        resolution: float = 0.1,
        width: int = 128,
        depth: int = 1,
        step_size: float = 1e-3,
        batch_size: int = 32,
        updates: float = 0.5,
        capacity: int = 10_000,
        seed: int = 0,
    ) -> None:
        if not isinstance(observation_space, gymnasium.spaces.Box):
            raise ArgumentError(f"the observations are {observation_space}; counts take a Box.")
        if not isinstance(action_space, gymnasium.spaces.Discrete) or action_space.start != 0:
            raise ArgumentError(f"counts need Discrete actions from 0; these are {action_space}.")
        for name, number in (("lam", lam), ("unit", unit), ("resolution", resolution)):
            if not check_number(name, number) > 0:
                raise ArgumentError(f"{name} is {number}; it must be positive.")
        self.shape, self.n_actions = observation_space.shape, int(action_space.n)
        self.best, self.unit, self.lam = check_number("best", best), unit, lam
        self.weight, self.updates = check_number("weight", weight), check_number("updates", updates)
        self.batch_size = check_whole("batch_size", batch_size, 1)
        self._rows = check_whole("capacity", capacity, 1)
        if isinstance(features, int):
            check_whole("features", features, 1)
            features = random_features(
                observation_space, features, resolution=resolution, seed=seed
            )
        self._features, self._due = features, 0.0
        self._rng = np.random.default_rng(seed)
        example = self._phi(np.zeros((1, *self.shape), observation_space.dtype))
        key = jax.random.key(seed)
        psi = Psi(example.shape[1], self.n_actions, width, depth, key)
        self._adam = _adam(step_size)
        optimiser = self._adam.init(eqx.filter(psi, eqx.is_inexact_array))
        self._state = _Learning(psi, optimiser, jnp.zeros(()), jnp.ones(()))
        self._kept = {
            "phi": np.zeros((self._rows, example.shape[1]), np.float32),
            "action": np.zeros(self._rows, np.int32),
            "factor": np.zeros(self._rows, np.float32),
            "next_phi": np.zeros((self._rows, example.shape[1]), np.float32),
            "ended": np.zeros(self._rows, bool),
        }

    def _phi(self, observations: npt.ArrayLike) -> Float[np.ndarray, "n features"]:
        batch = np.asarray(observations)
        if batch.shape[1:] != self.shape:
            raise ArgumentError(
                f"the observations have shape {batch.shape[1:]}; these counts are of {self.shape}."
            )
        return np.asarray(self._features(batch), np.float32)

    @property
    def metrics(self) -> Mapping[str, float]:
        return {"steps": float(self.steps), "size": float(self._state.size)}

    def observe(
        self,
        observation: npt.ArrayLike,
        action: npt.ArrayLike,
        reward: npt.ArrayLike,
        next_observation: npt.ArrayLike,
        terminated: npt.ArrayLike,
        terminal_reward: npt.ArrayLike | None = None,
    ) -> None:
        """Takes steps, whose rewards must not be above the best."""
        own = np.asarray(reward, np.float64)
        earned = own if terminal_reward is None else own + np.asarray(terminal_reward, np.float64)
        x = (earned - self.best) / self.unit
        if not (x <= ROUNDING * abs(self.best / self.unit)).all():
            raise DataError(
                f"a reward is {earned.max():g}, and best is {self.best:g}. Rewards above the best "
                "would let the representation grow without bounds.",
                remedy="Give the largest reward of the environment as best.",
            )
        rows = (self._steps + np.arange(x.size)) % self._rows
        parts = (self._phi(observation), np.asarray(action).reshape(-1), np.exp(x / self.lam),
                 self._phi(next_observation), np.asarray(terminated).reshape(-1))  # fmt: skip
        for kept, part in zip(self._kept.values(), parts, strict=True):
            kept[rows] = part
        self._steps += x.size
        self._due += self.updates * x.size

    def train(self) -> None:
        """Makes the updates that are due, several at once."""
        while self._due >= TOGETHER:
            seen, size = min(self.steps, self._rows), (TOGETHER, self.batch_size)
            rows = self._rng.integers(seen, size=size)
            batches = {name: to_device(part[rows]) for name, part in self._kept.items()}
            self._state = _learn(self._adam, self._state, batches)
            self._due -= TOGETHER

    def log_norms(self, observations: npt.ArrayLike) -> Float[np.ndarray, "n actions"]:
        """Returns log ||psi(s, a)|| of all actions at some observations.

        Args:
            observations: A batch of observations.
        """
        return np.asarray(_log_norms(self._state.psi, to_device(self._phi(observations))))

    def bonus(self, observation: npt.ArrayLike, action: npt.ArrayLike) -> Float[np.ndarray, " n"]:
        """Returns the bonus of some actions at some observations.

        Args:
            observation: A batch of observations.
            action: An action for each.
        """
        norms = self.log_norms(observation)
        taken = norms[np.arange(len(norms)), np.asarray(action).reshape(-1)].astype(np.float64)
        return self.weight * taken / max(float(self._state.size), SMALLEST)

    def shaped(
        self,
        reward: npt.ArrayLike,
        observation: npt.ArrayLike,
        next_observation: npt.ArrayLike,
        terminated: npt.ArrayLike,
        action: npt.ArrayLike | None = None,
    ) -> Float[np.ndarray, " n"]:
        """Returns the rewards with the bonus of what was done."""
        if action is None:
            raise ArgumentError("a bonus of pairs needs the actions: give shaped(..., action=...).")
        rewards, actions = as_columns(observation, next_observation, reward, action)
        return rewards.astype(np.float64) + self.bonus(observation, actions)

    def attach(self, agent: Any) -> None:
        shape = tuple(agent.observation_space.shape or ())
        actions = getattr(agent.action_space, "n", None)
        if (shape, actions) != (self.shape, self.n_actions):
            raise ArgumentError(
                f"the agent has observations of shape {shape} and the actions "
                f"{agent.action_space}; these counts are of shape {self.shape} and "
                f"{self.n_actions} actions."
            )


@functools.cache
def _adam(step_size: float) -> optax.GradientTransformation:
    """The optimiser. Counts that share it share what was compiled for the first of them."""
    return optax.adam(step_size)


@eqx.filter_jit
def _log_norms(psi: Psi, phi: Float[Array, "n k"]) -> Float[Array, "n actions"]:
    return _half_log(jnp.square(psi(phi)).sum(axis=(2, 3)))


def _half_log(squared: Float[Array, "*n"]) -> Float[Array, "*n"]:
    return jnp.log(jnp.maximum(squared, jnp.finfo(jnp.float32).tiny)) / 2


@eqx.filter_jit
def _learn(
    adam: optax.GradientTransformation, state: _Learning, batches: dict[str, Array]
) -> _Learning:
    arrays, rest = eqx.partition(state, eqx.is_array)

    def update(arrays: Any, batch: dict[str, Array]) -> tuple[Any, None]:
        return eqx.filter(_updated(adam, eqx.combine(arrays, rest), batch), eqx.is_array), None

    return eqx.combine(jax.lax.scan(update, arrays, batches)[0], rest)


def _updated(
    adam: optax.GradientTransformation, state: _Learning, batch: dict[str, Array]
) -> _Learning:
    wanted = targets(state.psi, **batch)
    rows = jnp.arange(len(wanted))

    def loss(psi: Psi) -> tuple[Array, Array]:
        own = psi(batch["phi"])[rows, batch["action"]]
        return jnp.square(own - wanted).sum(axis=(1, 2)).mean() / 2, own

    (_, own), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(state.psi)
    with jax.numpy_dtype_promotion("standard"):  # optax mixes types
        change, optimiser = adam.update(gradient, state.optimiser)
    psi = eqx.apply_updates(state.psi, change)
    count = state.count + 1
    far = jnp.abs(_half_log(jnp.square(own).sum(axis=(1, 2)))).mean()
    size = state.size + jnp.maximum(1 / count, FOLLOWING) * (far - state.size)
    return _Learning(psi, optimiser, count, size)
