"""Bonuses for what is new, from a default representation that a network learns.

The rows Z(sa, .) of the default representation over pairs of a state and an action are learned as
its *successor features* psi(s, a) = exp(x / lam) (phi(s, a) + E[psi(s', a')]), where x is
`r - best`, phi are features of pairs, a' is sampled from the uniform default policy, and nothing
follows a terminal state. With one feature for each pair, psi(s, a) is the row Z(sa, .) itself. In
general it has the norm of the row as far as features of different states are orthogonal.

At first psi is phi, of length 1, so that the log of its norm is 0. It falls where the network has
learned that rewards are below the best, and stays where the agent has not been.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
from gymnasium import Space
from jaxtyping import Array, Float, Shaped

from drogo.device import to_device
from drogo.errors import (
    ArgumentError,
    Count,
    DataError,
    Number,
    Positive,
    at_least,
    check_fields,
    check_whole,
)
from drogo.learn.networks import DenseNetwork
from drogo.learn.settings import from_keywords
from drogo.use.shaping import AbstractShaping, StepBatch, number_of_actions, range_of

ROUNDING = 1e-9  # The relative excess over the best reward that counts as rounding.
TOGETHER = 4
"""The number of updates in one call of a compiled program, which takes longer than one update."""
FOLLOWING = 1e-2  # The smallest rate of the running mean of the norms.
SMALLEST = 1e-2
"""Log norms are divided by at least this number: before anything is learned, all of them are 0."""

StateFeatures = Callable[[Shaped[np.ndarray, "n ..."]], Float[np.ndarray, "n features"]]


def check_features(name: str, value: Any) -> Any:
    """Returns a number of features, or a function that computes them."""
    return value if callable(value) else check_whole(name, value, 1)


@dataclass(frozen=True)
class CountSettings:
    """The settings of `LearnedCounts`."""

    best: Number = 0.0
    """The largest reward that there is. Where it is also the most frequent one, give a larger
    number: a row that nothing shrinks grows with the length of episodes."""
    lam: Positive = 1.0
    """Temperature lambda."""
    weight: Number = 1.0
    """The weight of the bonus."""
    features: Annotated[int | StateFeatures, check_features] = 64
    """The number of random features of observations, or a function that returns a vector of length
    1 for each observation of a batch."""
    resolution: Positive = 0.1
    """The share of the range at which random features distinguish observations."""
    width: Count = 128
    """The number of units in each hidden layer."""
    depth: Annotated[int, at_least(0)] = 1
    """The number of hidden layers. With 0, psi is linear in the features."""
    step_size: Positive = 1e-3
    """The step size of Adam."""
    batch_size: Count = 32
    """The number of steps in a batch."""
    updates_per_step: Positive = 0.5
    """The number of updates for each step of the environment."""
    capacity: Count = 10_000
    """The number of steps that are kept to learn from."""

    def __post_init__(self) -> None:
        check_fields(self)


class Psi(eqx.Module):
    """Successor features of all actions, psi(s, a) = phi(s, a) + f(phi(s), a), where f begins at 0.

    The features of a pair are those of its state in a block for its action, and zeros elsewhere.
    """

    network: DenseNetwork
    actions: int = eqx.field(static=True)

    def __init__(self, features: int, actions: int, width: int, depth: int, key: Array) -> None:
        outputs = actions * actions * features
        network = DenseNetwork(features, 0, key, width, depth, outputs)
        zeros = jax.tree.map(jnp.zeros_like, network.layers[-1])
        self.network = eqx.tree_at(lambda n: n.layers[-1], network, zeros)
        self.actions = actions

    def __call__(self, phi: Float[Array, "n k"]) -> Float[Array, "n actions actions k"]:
        learned = self.network(phi).reshape(len(phi), self.actions, self.actions, -1)
        return self.of_pairs(phi) + learned

    def of_pairs(self, phi: Float[Array, "n k"]) -> Float[Array, "n actions actions k"]:
        """Returns the features of the pairs of some states with all actions."""
        return jnp.eye(self.actions)[None, :, :, None] * phi[:, None, None, :]

    def targets(self, steps: StepBatch) -> Float[Array, "n actions k"]:
        """Returns the targets of psi(s, a) for some steps, factor (phi(s, a) + psi(s', .)), where
        observations are features of states, and rewards are factors exp(x / lam)."""
        phi = steps.observation
        pairs = self.of_pairs(phi)[jnp.arange(len(phi)), steps.action]
        after = self(steps.next_observation).mean(axis=1)
        after = jnp.where(steps.terminated[:, None, None], 0.0, after)
        return steps.reward[:, None, None] * (pairs + after)


def random_features(
    space: Space, count: int, *, resolution: float = 0.1, seed: int = 0
) -> StateFeatures:
    """Returns random Fourier features of observations, vectors of length 1.

    Their inner products are about exp(-d^2 / 2), where d is the distance of two observations in
    units of `resolution`, a share of the range where the space has bounds.
    """
    rng = np.random.default_rng([seed, 2])
    low, high, bounded = range_of(space)
    bounded &= high > low
    shift, unit = np.where(bounded, low, 0.0), np.where(bounded, high - low, 1.0)
    frequency = rng.standard_normal((low.size, count)) / resolution / unit[:, None]
    phase = rng.uniform(0, 2 * np.pi, count)

    def features(observations: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, "n features"]:
        flat = np.asarray(observations, np.float64).reshape(len(observations), -1)
        waves = np.cos((flat - shift) @ frequency + phase)
        return waves / np.linalg.norm(waves, axis=1, keepdims=True)

    return features


class _Learned(eqx.Module):
    """Everything that changes during training."""

    psi: Psi
    optimiser: Any
    count: Float[Array, ""]
    size: Float[Array, ""]  # A running mean of the absolute log norms in the batches.


class LearnedCounts(AbstractShaping):
    """A bonus `weight log ||psi(s, a)|| / size`, from a default representation that is learned.

    It is 0 for what is new and negative for what is known, -`weight` in the mean: `size` is a
    running mean of the distance of log norms from 0, so that a weight means the same in every world
    and at every `lam`. Pairs that are known to pay well lose less. Use it with
    `drogo.sb3.LearnMap`, as an `OnlineMap`, or with `BonusWrapper`.

    Args:
        observation_space: The observations of the agent: a `Box`.
        action_space: Its actions, `Discrete`.
        **settings: Fields of `CountSettings`.
    """

    def __init__(
        self, observation_space: Space, action_space: Space, *, seed: int = 0, **settings: Any
    ) -> None:
        number_of_actions(action_space)
        self.for_spaces(observation_space, action_space)
        (chosen,) = from_keywords(settings, CountSettings)
        self.settings: CountSettings = chosen
        self._features, self._due = chosen.features, 0.0
        if isinstance(chosen.features, int):
            options = {"resolution": chosen.resolution, "seed": check_whole("seed", seed, 0)}
            self._features = random_features(observation_space, chosen.features, **options)
        self._rng = np.random.default_rng(seed)
        phi, one = self._of_states(np.zeros((1, *self.shape), self.dtype)), np.zeros(1, np.float32)
        network = (chosen.width, chosen.depth, jax.random.key(seed))
        psi = Psi(phi.size, self.n_actions, *network)
        optimiser = optax.adam(chosen.step_size).init(eqx.filter(psi, eqx.is_inexact_array))
        self._state = _Learned(psi, optimiser, jnp.zeros(()), jnp.ones(()))
        row = StepBatch(phi, one.astype(np.int32), one, phi, one > 0, one)
        self._replay = StepBatch(*(np.repeat(part, chosen.capacity, axis=0) for part in row))

    def _of_states(self, observations: np.ndarray) -> Float[np.ndarray, "n features"]:
        return np.asarray(self._features(observations), np.float32)

    @property
    def metrics(self) -> Mapping[str, float]:
        return {"steps": float(self.steps), "size": float(self._state.size)}

    def take(self, steps: StepBatch, time: Any = None) -> None:
        """Takes steps, whose rewards must not be above the best."""
        settings, earned = self.settings, steps.reward + steps.terminal_reward
        x = earned - settings.best
        if not (x <= ROUNDING * abs(settings.best)).all():
            problem = f"best is {settings.best:g}, and a reward is {earned.max():g}."
            remedy = "Give the largest reward: above it, the representation has no bounds."
            raise DataError(problem, remedy=remedy, argument="best")
        rows = (self.steps + np.arange(x.size)) % settings.capacity
        phi, after = map(self._of_states, (steps.observation, steps.next_observation))
        factor = np.exp(x / settings.lam)
        kept = steps._replace(observation=phi, next_observation=after, reward=factor)
        for column, part in zip(self._replay, kept, strict=True):
            column[rows] = part
        self._due += settings.updates_per_step * x.size
        super().take(steps, time)

    def train(self) -> None:
        while self._due >= TOGETHER:
            rows = min(self.steps, self.settings.capacity)
            chosen = self._rng.integers(rows, size=(TOGETHER, self.settings.batch_size))
            batches = StepBatch(*(to_device(part[chosen]) for part in self._replay))
            self._state = _learn(self.settings.step_size, self._state, batches)
            self._due -= TOGETHER

    def log_norms(self, observations: npt.ArrayLike) -> Float[np.ndarray, "n actions"]:
        """Returns log ||psi(s, a)|| of all actions at a batch of observations."""
        phi = to_device(self._of_states(self.checked(observations)))
        return np.asarray(_log_norms(self._state.psi, phi))

    def bonus(self, observation: npt.ArrayLike, action: npt.ArrayLike) -> Float[np.ndarray, " n"]:
        """Returns the bonus of an action at each observation of a batch."""
        norms, actions = self.log_norms(observation), np.asarray(action).reshape(-1)
        taken = norms[np.arange(len(norms)), actions].astype(np.float64)
        return self.settings.weight * taken / max(float(self._state.size), SMALLEST)

    def shape_rewards(self, steps: StepBatch) -> Float[np.ndarray, " n"]:
        if (steps.action < 0).any():
            raise ArgumentError("give the actions: shaped(..., action=...).", argument="action")
        return steps.reward + self.bonus(steps.observation, steps.action)


def _half_log(squared: Float[Array, "*n"]) -> Float[Array, "*n"]:
    return jnp.log(jnp.maximum(squared, jnp.finfo(jnp.float32).tiny)) / 2


@eqx.filter_jit
def _log_norms(psi: Psi, phi: Float[Array, "n k"]) -> Float[Array, "n actions"]:
    return _half_log(jnp.square(psi(phi)).sum(axis=(2, 3)))


@eqx.filter_jit
def _learn(step_size: float, state: _Learned, batches: StepBatch) -> _Learned:
    for k in range(TOGETHER):
        state = _updated(step_size, state, jax.tree.map(lambda part, k=k: part[k], batches))
    return state


def _updated(step_size: float, state: _Learned, batch: StepBatch) -> _Learned:
    wanted = state.psi.targets(batch)
    rows = jnp.arange(len(wanted))

    def loss(psi: Psi) -> tuple[Array, Array]:
        taken = psi(batch.observation)[rows, batch.action]
        return jnp.square(taken - wanted).sum(axis=(1, 2)).mean() / 2, taken

    (_, taken), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(state.psi)
    with jax.numpy_dtype_promotion("standard"):  # optax mixes types
        change, optimiser = optax.adam(step_size).update(gradient, state.optimiser)
    count = state.count + 1
    far = jnp.abs(_half_log(jnp.square(taken).sum(axis=(1, 2)))).mean()
    size = state.size + jnp.maximum(1 / count, FOLLOWING) * (far - state.size)
    return _Learned(eqx.apply_updates(state.psi, change), optimiser, count, size)


class BonusWrapper(gymnasium.Wrapper):
    """Changes the rewards of an environment by shaping that learns, such as `LearnedCounts`.

    The original reward is in `info["reward_original"]`, and the difference in `info["bonus"]`.
    """

    def __init__(self, env: gymnasium.Env, shaping: AbstractShaping) -> None:
        super().__init__(env)
        self.shaping = shaping

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._before = np.array(observation)[None]  # a copy: environments reuse their arrays
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        before, self._before = self._before, np.array(observation)[None]
        columns = ([float(reward)], self._before, [terminated])
        self.shaping.learn_from(before, [action], *columns, [info])
        (shaped,) = self.shaping.shaped(columns[0], before, *columns[1:], [action])
        info = {**info, "reward_original": reward, "bonus": float(shaped) - float(reward)}
        return observation, float(shaped), terminated, truncated, info
