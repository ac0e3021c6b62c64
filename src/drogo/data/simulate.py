"""Simulators: many copies of an environment that are stepped side by side, from any state on.

A certificate needs to try several actions in one state and to go on with one of them. A simulator
offers that for an environment that knows its MDP, for one that steps many states at once
(`StepsMany`), and for any other environment that can be copied.
"""

from __future__ import annotations

import abc
import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, final, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from jaxtyping import Bool, Float, Int, Shaped

from drogo.data.collect import Start, outcomes, without_transparent
from drogo.data.parts import Key, as_key, part_of
from drogo.data.step import NumberOfStep, Step, check_cost, number_or_function
from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.mdp import MDP, HasMDP

LONGEST_WALK = 50
"""Before a simulation starts, up to so many random steps are taken after a reset."""


class Many(NamedTuple):
    """Where one step of each of several simulated states led."""

    states: Shaped[np.ndarray, "n ..."]
    observations: Shaped[np.ndarray, "n ..."]
    reward: Float[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]
    terminal_reward: Float[np.ndarray, " n"]


@runtime_checkable
class StepsMany(Protocol):
    """An environment that steps many states at once, which is faster than copies of it.

    Its terminal states have the value 0.
    """

    def start_many(self, n: int, rng: np.random.Generator) -> Shaped[np.ndarray, "n ..."]:
        """Returns first states, drawn from wherever transitions may start."""
        ...

    def observe_many(self, states: Shaped[np.ndarray, "n ..."]) -> Shaped[np.ndarray, "n ..."]:
        """Returns the observations of some states."""
        ...

    def step_many(
        self, states: Shaped[np.ndarray, "n ..."], actions: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the next states, the rewards, and which next states are terminal."""
        ...


class Simulator(abc.ABC):
    """Steps many states of an environment side by side."""

    space: gymnasium.Space
    group_size: ClassVar[int] = 16
    """How many rollouts a group has, unless that is said."""

    @abc.abstractmethod
    def start(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Returns states to start in, none of them terminal, and their observations."""

    @abc.abstractmethod
    def step(self, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> Many:
        """Takes one action in each state. The states themselves stay as they are."""

    def candidates(
        self, states: np.ndarray, most: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, Float[np.ndarray, "n k"]]:
        """Returns actions to try in each state, and the log of how much each of them counts.

        Discrete actions are all tried, and count as the default policy takes them. Of others so
        many are drawn from the action space, and count alike.

        Args:
            states: The states.
            most: How many actions to draw in each state, if they are not discrete.
            rng: The random numbers.
        """
        n = len(states)
        if isinstance(self.space, gymnasium.spaces.Discrete):
            count = int(self.space.n)
            actions = np.tile(np.arange(count), (n, 1)) + int(self.space.start)
            return actions, np.full((n, count), -np.log(count))
        box = self.space
        if isinstance(box, gymnasium.spaces.Box) and box.is_bounded() and box.dtype.kind == "f":
            drawn = rng.uniform(box.low, box.high, (n * most, *box.shape)).astype(box.dtype)
        else:
            box.seed(int(rng.integers(2**31)))
            drawn = np.stack([box.sample() for _ in range(n * most)])
        return drawn.reshape(n, most, *drawn.shape[1:]), np.full((n, most), -np.log(most))


@final
@dataclass(frozen=True)
class OfMDP(Simulator):
    """The states of an environment that knows its MDP, by their numbers."""

    mdp: MDP
    table: Shaped[np.ndarray, "states ..."]
    space: gymnasium.Space
    reward: float | None

    def start(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        live = np.flatnonzero(~self.mdp.terminal)
        states = rng.choice(live, size=n, replace=n > live.size)
        return states, self.table[states]

    def step(
        self, states: Int[np.ndarray, " n"], actions: np.ndarray, rng: np.random.Generator
    ) -> Many:
        arrived = outcomes(self.mdp, states, actions, rng)
        reward = self.mdp.reward[states]
        if self.reward is not None:
            reward = np.full(len(states), self.reward)
        over = self.mdp.terminal[arrived]
        value = np.where(over, self.mdp.reward[arrived], 0.0)
        return Many(arrived, self.table[arrived], reward, over, value)

    def candidates(
        self, states: np.ndarray, most: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, Float[np.ndarray, "n k"]]:
        actions = np.tile(np.arange(self.mdp.n_actions), (len(states), 1))
        with np.errstate(divide="ignore"):
            return actions, np.log(self.mdp.default_policy[states])


@final
@dataclass(frozen=True)
class OfMany(Simulator):
    """The states of an environment that steps many of them at once."""

    env: StepsMany
    space: gymnasium.Space
    reward: float | None

    def start(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        states = self.env.start_many(n, rng)
        return states, self.env.observe_many(states)

    def step(self, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> Many:
        arrived, reward, over = self.env.step_many(states, actions, rng)
        if self.reward is not None:
            reward = np.full(len(states), self.reward)
        return Many(arrived, self.env.observe_many(arrived), reward, over, np.zeros(len(states)))


Place = tuple[gymnasium.Env, np.ndarray]
"""A copy of an environment, and what is observed there."""
SHARED = (gymnasium.Space, EnvSpec, np.random.Generator, np.random.RandomState, random.Random)


@final
@dataclass(frozen=True)
class Copies(Simulator):
    """Copies of an environment. Its random numbers are shared by all copies, and so independent."""

    group_size: ClassVar[int] = 4  # a copy takes as long as many steps

    env: gymnasium.Env
    space: gymnasium.Space
    begin: Start | None
    reward: NumberOfStep
    terminal_reward: NumberOfStep
    key: Key

    def start(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        self.env.reset(seed=int(rng.integers(2**31)))
        self.space.seed(int(rng.integers(2**31)))
        places = [self._place(rng) for _ in range(n)]
        return _objects(places), np.stack([seen for _, seen in places])

    def _place(self, rng: np.random.Generator) -> Place:
        """Returns one copy in a state to start in, and its observation."""
        env, steps = self.env, int(rng.integers(LONGEST_WALK + 1))
        if self.begin is not None:
            observation = self.begin(env, rng)
            return self.copied(env), part_of(observation, self.key)
        observation, _ = env.reset()
        for _ in range(steps):
            observation, _, terminated, truncated, _ = env.step(self.space.sample())
            if terminated or truncated:
                observation, _ = env.reset()
        return self.copied(env), part_of(observation, self.key)

    def step(self, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> Many:
        rows = [self._one(place, action) for place, action in zip(states, actions, strict=True)]
        places, reward, over, value = zip(*rows, strict=True)
        seen = np.stack([observation for _, observation in places])
        return Many(_objects(places), seen, *map(np.array, (reward, over, value)))

    def _one(self, place: Place, action: Any) -> tuple[Place, float, bool, float]:
        env, before = self.copied(place[0]), place[1]
        discrete = isinstance(self.space, gymnasium.spaces.Discrete)
        action = int(action) if discrete else np.asarray(action, dtype=self.space.dtype)
        observation, reward, over, cut, info = env.step(action)
        arrived = part_of(observation, self.key)
        step = Step(before, action, float(reward), arrived, bool(over), bool(cut), info)
        own, value = step.numbers(self.reward, self.terminal_reward)
        return (env, arrived), own, step.terminated, value

    def copied(self, env: gymnasium.Env) -> gymnasium.Env:
        """Returns a copy of an environment. What may be shared by all copies is, and so is what
        draws random numbers: copies of a generator would all draw the same."""
        shared: list[Any] = []
        layer: Any = env
        while True:
            parts = vars(layer)
            shared += [part for part in parts.values() if isinstance(part, SHARED)]
            if not isinstance(layer, gymnasium.Wrapper):
                break
            layer = layer.env
        return copy.deepcopy(env, {id(part): part for part in shared})


def _objects(items: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    for k, item in enumerate(items):
        array[k] = item
    return array


def simulator(
    env: gymnasium.Env,
    *,
    start: Start | None = None,
    reward: NumberOfStep = None,
    terminal_reward: NumberOfStep = None,
    key: str | Sequence[str] | None = None,
) -> Simulator:
    """Returns a simulator of an environment. The arguments are those of `collect`.

    Args:
        env: The environment. It must know its MDP, step many states at once (`StepsMany`), or be
            copied by `copy.deepcopy`.
        start: Where simulations start: a function `start(env, rng)`, or None for any state of an
            MDP, what `StepsMany` draws, or elsewhere a reset and some random steps.
        reward: Replaces the environment's reward.
        terminal_reward: The terminal state's own value.
        key: The part of a `Dict` observation to use.
    """
    if not isinstance(env, gymnasium.Env):
        raise ArgumentTypeError(
            f"env is a {type(env).__name__}; only a single Gymnasium environment is simulated."
        )
    if start is not None and not callable(start):
        raise ArgumentError(
            f"start is {start!r}; give a function start(env, rng), or leave it out."
        )
    reward = number_or_function("reward", reward)
    terminal_reward = number_or_function("terminal_reward", terminal_reward)
    check_cost(reward)
    space = copy.deepcopy(env.action_space)
    plain = start is None and key is None and terminal_reward is None
    inner = without_transparent(env)
    if plain and not callable(reward):
        if isinstance(inner, HasMDP):
            return OfMDP(inner.mdp, inner.all_observations(), space, reward)
        if isinstance(inner, StepsMany):
            return OfMany(inner, space, reward)
    made = Copies(env, space, start, reward, terminal_reward, as_key(key))
    try:
        env.reset(seed=0)
        made.copied(env)
    except Exception as error:  # whatever an environment's parts raise when they are copied
        raise ArgumentError(
            f"{env} cannot be copied ({type(error).__name__}: {error}), so its states cannot be "
            "tried out.",
            remedy="Give it the method __deepcopy__, or the methods of "
            "drogo.data.simulate.StepsMany.",
        ) from error
    return made
