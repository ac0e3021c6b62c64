"""`OnlineMap`: a network that learns the map while an agent trains."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
from jaxtyping import Bool, Float, Shaped

from drogo.config import MOST_COORDINATES
from drogo.errors import ArgumentError
from drogo.files import Header, check_memory
from drogo.learn.checkpoint import as_section, by_path, check_leaves, section, tree_from
from drogo.learn.learner import Learner
from drogo.learn.networks import MLP, AbstractNetwork
from drogo.learn.numbers import STEPS_OF_A_SCALE
from drogo.learn.objectives import ActionValues, Numbers
from drogo.use.online.base import AbstractOnlineMap
from drogo.use.online.compiled import CHUNKS, Parts, advance, put_together, take_apart
from drogo.use.online.config import OnlineConfig
from drogo.use.online.learner import CELLS, OnlineLearner
from drogo.use.online.moment import Answers
from drogo.use.online.promises import Promises, no_promises
from drogo.use.online.state import OnlineState
from drogo.use.online.steps import Steps
from drogo.use.online.visits import Visits

ON_IMAGES = {"target_rate": 0.05}
"""What is changed where an observation has many numbers. With a faster target network the map of
images sinks as a whole, far below the truth."""
HUGE = 1e6
"""A wider range is no range: it stands for none."""
CLIP_NORM = 0.5
STATE, STAGED = "state/", "staged/"


class OnlineMap(AbstractOnlineMap):
    """A network on observations that learns the map from an agent's steps.

    Args:
        observation_space: The observations of the agent: a `Box` of any shape.
        action_space: The actions, `Discrete`.
        weight: The weight of the shaping reward, as in `PotentialShaping`.
        discount: The discount of the agent.
        terminal: What the potential of a terminal state counts as, as in `PotentialShaping`.
        reward: A cost of every step for the map, in place of the agent's rewards.
        default_policy: The probability of each action under the default policy; uniform unless
            given.
        sides: The sides of the cells of observations in which actions are counted, one number or
            one for each number of an observation. By default a twentieth of the range of each
            number, however many there are, and different pictures are in different cells.
            Pictures are `uint8`, or more than 16 numbers along two or three axes.
        **settings: Fields of `OnlineConfig`.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        *,
        weight: float | None = 0.5,
        discount: float = 0.99,
        terminal: str = "zero",
        reward: float | None = None,
        default_policy: npt.ArrayLike | None = None,
        sides: float | npt.ArrayLike | None = None,
        **settings: Any,
    ) -> None:
        has_many = math.prod(observation_space.shape or ()) > MOST_COORDINATES
        try:
            self.config = OnlineConfig(**{**(ON_IMAGES if has_many else {}), **settings})
        except TypeError as error:
            known = ", ".join(OnlineConfig.__dataclass_fields__)
            raise ArgumentError(f"{error}. The settings are {known}.") from error
        spaces, beliefs = (observation_space, action_space), (self.config.lam, self.config.optimism)
        super().__init__(*spaces, *beliefs, weight, discount, terminal, reward)
        if not isinstance(observation_space, gymnasium.spaces.Box):
            raise ArgumentError(
                f"the observations are {observation_space}; a network takes a Box.",
                remedy="Use OnlineTable, which takes states by their numbers.",
            )
        self._default = _probabilities(default_policy, self.n_actions)
        size = math.prod(self.shape)
        self._sides = None if sides is None else _checked_sides(sides, size)
        row = 2 * size * self.dtype.itemsize
        check_memory(f"a replay of {self.config.capacity} steps", self.config.capacity * row)
        self._is_picture = _is_picture(observation_space)
        self._low, self._high = _known_range(observation_space)
        self._staged: list[Steps] = []
        self._steps, self._due, self._found = 0, 0.0, False
        self._learner: OnlineLearner | None = None
        self._parts: Parts | None = None
        self._answers: Answers | None = None
        self._loss: Any = 0.0
        self._scale = 1.0

    @property
    def found(self) -> bool:
        return self._found

    @property
    def mean_step(self) -> float:
        step = 0.0 if self._answers is None else float(self._answers.host.mean_step)
        return step if step > 0 and math.isfinite(step) else 1.0

    @property
    def updates(self) -> int:
        """How many updates were made."""
        return 0 if self._answers is None else int(self._answers.host.updates)

    @property
    def metrics(self) -> Mapping[str, float]:
        diverged = self._answers is not None and int(self._answers.host.diverged_at) >= 0
        known = {"steps": self._steps, "updates": self.updates, "found": self._found}
        numbers = {name: float(number) for name, number in known.items()}
        return {
            **numbers,
            "loss": float(self._loss),
            "mean_step": self.mean_step,
            "diverged": diverged,
        }

    def _add(self, steps: Steps) -> None:
        self._staged.append(Steps(*(np.array(column) for column in steps)))  # theirs may change
        self._steps += len(steps.reward)
        self._due += self.config.updates * len(steps.reward)
        ends = steps.terminal_reward[steps.terminated]
        self._found |= bool(ends.size) and self.is_goal(float(ends.max()))

    def train(self) -> None:
        if self._steps < self.config.learning_starts or not self._staged:
            return
        waiting = sum(len(steps.reward) for steps in self._staged)
        if self._learner is None:
            self._begin()
            self._due = 1.0
        elif waiting < self.config.train_every:
            return
        staged, self._staged = _joined(self._staged), []
        for begin in range(0, waiting, CHUNKS[-1]):
            part = Steps(*(column[begin : begin + CHUNKS[-1]] for column in staged))
            self._advance(part, int(self._due) if begin + CHUNKS[-1] >= waiting else 0)

    def _advance(self, steps: Steps, updates: int) -> None:
        """Takes at most a chunk of steps, and makes some updates."""
        assert self._parts is not None
        self._parts, loss, moment = advance(self._parts, steps, updates)
        self._answers = Answers(moment)
        self._due -= updates
        self._loss = loss if updates else self._loss  # no number yet: that would wait for it

    def _begin(self) -> None:
        """Builds the network, once it is known what observations and rewards look like."""
        steps = _joined(self._staged)
        self._scale = max(1.0, STEPS_OF_A_SCALE * -float(steps.reward.mean()) / self.lam)
        self._learner, state = self._made(self._scale)
        seen = steps.observation.reshape(len(steps.reward), -1).astype(np.float64)
        low = np.where(np.isfinite(self._low), self._low, seen.min(axis=0))
        high = np.where(np.isfinite(self._high), self._high, seen.max(axis=0))
        sides = jnp.asarray(self._cell_sides(low, high), jnp.float32)
        state = eqx.tree_at(lambda state: state.visits.sides, state, sides)
        self._keep(jax.tree.map(jnp.copy, state))  # a buffer that is donated is used once

    def _keep(self, state: OnlineState) -> None:
        assert self._learner is not None
        self._parts = take_apart(self._learner, state)
        self._answers = Answers(jax.tree.map(jnp.copy, self._learner.moment(state)))

    def _made(self, scale: float) -> tuple[OnlineLearner, OnlineState]:
        """Returns the learner and its first state, in which cells have no sides yet."""
        config, size = self.config, math.prod(self.shape)
        frequencies = config.frequencies if size <= MOST_COORDINATES else 0
        key = jax.random.key(config.seed)
        network = MLP(size, frequencies, key, config.width, config.depth, self.n_actions)
        learner = make_learner(network, self._default, config, scale)
        state = learner.init(
            network,
            jax.random.PRNGKey(config.seed),  # of plain numbers, which a file can hold
            jnp.zeros(self.shape, jax.dtypes.canonicalize_dtype(self.dtype)),
            capacity=config.capacity,
            sides=np.ones(size),
            low=np.where(np.isfinite(self._low), self._low, np.inf),
            high=np.where(np.isfinite(self._high), self._high, -np.inf),
        )
        return learner, state

    def _cell_sides(self, low: np.ndarray, high: np.ndarray) -> Float[np.ndarray, " size"]:
        if self._sides is not None:
            return self._sides
        if self._is_picture:  # every difference counts
            return np.full(low.shape, 1.0 if self.dtype.kind in "iub" else 1 / 256)
        width = np.where(high > low, high - low, 1.0)
        return width / CELLS

    def _values(self, observations: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, " n"]:
        answers = self._answers
        return np.zeros(len(observations)) if answers is None else answers.value(observations)

    def _knows(self, observations: Shaped[np.ndarray, "n ..."]) -> Bool[np.ndarray, " n"]:
        return np.full(len(observations), self.updates > 0)

    def _logits(self, observations: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, "n actions"]:
        if self._answers is None:
            return np.zeros((len(observations), self.n_actions))
        return self._answers.logits(observations)

    def promises(self) -> Promises:
        answers = self._answers
        if answers is None or self._parts is None:
            return no_promises(self.n_actions)
        learner, state = put_together(self._parts)
        visits = jax.tree.map(jnp.copy, state.visits)  # the next update gives up those of the state

        def logits(observations: npt.ArrayLike) -> np.ndarray:
            return answers.logits(self._checked(observations), averaged=True)

        def untried(observations: npt.ArrayLike) -> np.ndarray:
            return np.asarray(_untried(visits, self._checked(observations), learner.known_after))

        return Promises(logits, untried, bool(visits.is_done(learner.known_after)))

    def _identity(self) -> dict[str, Any]:
        sides = None if self._sides is None else self._sides.tolist()
        default = self._default.tolist()
        return {"config": asdict(self.config), "default_policy": default, "sides": sides}

    def arrays(self) -> dict[str, np.ndarray]:
        state = None if self._parts is None else put_together(self._parts)[1]
        arrays = {} if state is None else as_section(STATE, by_path(state))
        if self._staged:
            arrays |= as_section(STAGED, _joined(self._staged)._asdict())
        numbers = (self._steps, self._due, self._found, self._scale, float(self._loss))
        return arrays | {"numbers": np.array(numbers, dtype=np.float64)}

    def check_arrays(self, headers: Mapping[str, Header]) -> None:
        stored = section(headers, STATE)
        if headers["numbers"].shape != (5,):
            raise ValueError("its numbers are missing")
        if stored:
            check_leaves(stored, jax.eval_shape(lambda: self._made(1.0)[1]))

    def continue_from(self, arrays: dict[str, np.ndarray]) -> None:
        count, self._due, found, self._scale, self._loss = arrays["numbers"].tolist()
        self._steps, self._found = int(count), bool(found)
        staged = section(arrays, STAGED)
        self._staged = [Steps(**staged)] if staged else []
        stored = section(arrays, STATE)
        self._learner = self._parts = self._answers = None
        if stored:
            self._learner, like = self._made(self._scale)
            self._keep(tree_from(stored, like))


_untried = jax.jit(Visits.untried, static_argnums=2)


def make_learner(
    network: AbstractNetwork,
    default: Float[np.ndarray, " actions"],
    config: OnlineConfig,
    scale: float = 1.0,
) -> OnlineLearner:
    """Returns the pure learner of an online map.

    Args:
        network: The network, with an output for each action.
        default: The default policy's probability of each action.
        config: The settings.
        scale: What outputs are multiplied by: about a twentieth of the depth of the map.
    """
    given = {"lam": config.lam, "cap": config.cap, "scaling": 1.0, "scale": scale}
    numbers = Numbers(**{name: jnp.asarray(number) for name, number in given.items()})
    optimiser = _adam(config.step_size)
    learner = Learner(ActionValues(numbers), network, optimiser, target_rate=config.target_rate)
    return OnlineLearner(
        learner,
        jnp.log(jnp.asarray(default, jnp.float32)),
        jnp.asarray(0.0 if config.optimism is None else config.optimism, jnp.float32),
        0 if config.optimism is None else config.known_after,
        config.until_found,
        config.batch_size,
        config.centred,
        config.untried_share,
        config.evenly,
    )


@functools.cache
def _adam(step_size: float) -> optax.GradientTransformation:
    """The optimiser. Maps that share it share what was compiled for the first of them."""
    return optax.chain(optax.clip_by_global_norm(CLIP_NORM), optax.adam(step_size))


def _joined(parts: list[Steps]) -> Steps:
    """Returns several steps as one, in single precision."""
    joined = Steps(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    reward, value = (
        np.asarray(part, np.float32) for part in (joined.reward, joined.terminal_reward)
    )
    return joined._replace(reward=reward, terminal_reward=value)


def _probabilities(given: npt.ArrayLike | None, count: int) -> Float[np.ndarray, " actions"]:
    """Returns the default policy, checked."""
    if given is None:
        return np.full(count, 1 / count)
    default = np.asarray(given, dtype=np.float64)
    if default.shape != (count,) or not (default > 0).all() or abs(default.sum() - 1) > 1e-9:
        raise ArgumentError(
            f"default_policy is {given!r}; give one probability above 0 for each of the {count} "
            "actions, which add up to 1."
        )
    return default


def _checked_sides(given: float | npt.ArrayLike, size: int) -> Float[np.ndarray, " size"]:
    """Returns the sides of a cell along each number of an observation."""
    sides = np.asarray(given, dtype=np.float64)
    if sides.shape not in ((), (size,)) or not (np.isfinite(sides) & (sides > 0)).all():
        raise ArgumentError(
            f"sides is {given!r}; give a positive number, or one for each of the {size} numbers of "
            "an observation."
        )
    return np.array(np.broadcast_to(sides, (size,)))


def _is_picture(space: gymnasium.spaces.Box) -> bool:
    """Returns whether observations are pictures, and not a vector of numbers or a few of them."""
    has_axes = len(space.shape) in (2, 3) and math.prod(space.shape) > MOST_COORDINATES
    return has_axes or space.dtype == np.uint8


def _known_range(space: gymnasium.spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    """Returns the least and the largest numbers of a flat observation, infinite if the space does
    not tell them. Of a picture the range of each pixel has to be seen: most never change."""
    low, high = (np.asarray(bound, dtype=np.float64).ravel() for bound in (space.low, space.high))
    if _is_picture(space):
        return np.full(low.shape, -np.inf), np.full(high.shape, np.inf)
    bounded = np.isfinite(low) & np.isfinite(high) & (high - low < HUGE)
    return np.where(bounded, low, -np.inf), np.where(bounded, high, np.inf)
