"""Simulators step many states of an environment side by side: of one that knows its MDP, that steps
many states at once (`StepsMany`), or that can be copied."""

import abc
import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, final, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from jaxtyping import Bool, Float, Shaped

from drogo.data.collect import Start, outcomes, without_transparent
from drogo.data.step import Key, NumberOfStep, Step, StepNumbers, as_key, part_of
from drogo.errors import ArgumentError
from drogo.mdp import MDP, HasMDP
from drogo.public import checked

LONGEST_WALK = 50  # The most random steps between a reset and the start of a simulation.
SHARED = (gymnasium.Space, EnvSpec, np.random.Generator, np.random.RandomState, random.Random)
"""Copies of an environment share these. Copies of a generator would all sample the same numbers."""

States = Shaped[np.ndarray, "n ..."]
Tried = tuple[np.ndarray, Float[np.ndarray, "n k"]]
Moved = tuple[np.ndarray, np.ndarray, np.ndarray]


class Many(NamedTuple):
    """The results of one step of each of several simulated states."""

    states: States
    observations: Shaped[np.ndarray, "n ..."]
    reward: Float[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]
    terminal_reward: Float[np.ndarray, " n"]


@runtime_checkable
class StepsMany(Protocol):
    """An environment that steps many states at once, with the terminal reward 0."""

    def start_many(self, n: int, rng: np.random.Generator) -> States:
        """Samples first states from wherever transitions may start."""
        ...

    def observe_many(self, states: States) -> Shaped[np.ndarray, "n ..."]:
        """Returns the observations of some states."""
        ...

    def step_many(self, states: States, actions: np.ndarray, rng: np.random.Generator) -> Moved:
        """Returns the next states, the rewards, and which next states are terminal."""
        ...


@dataclass(frozen=True)
class Simulator(abc.ABC):
    """Steps many states of an environment side by side."""

    space: gymnasium.Space
    numbers: StepNumbers
    group_size: ClassVar[int] = 16  # The default number of rollouts in a group.

    @abc.abstractmethod
    def start(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Returns states to start in, none of them terminal, and their observations."""

    @abc.abstractmethod
    def step(self, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> Many:
        """Takes one action in each state. The given states do not change."""

    def candidates(self, states: np.ndarray, most: int, rng: np.random.Generator) -> Tried:
        """Returns actions to try in each state, `most` if not discrete, and their log weights."""
        n, space = len(states), self.space
        if isinstance(space, gymnasium.spaces.Discrete):
            count = int(space.n)
            actions = np.tile(np.arange(count), (n, 1)) + int(space.start)
            return actions, np.full((n, count), -np.log(count))
        is_box = isinstance(space, gymnasium.spaces.Box)
        if is_box and space.is_bounded() and space.dtype.kind == "f":
            shape = (n * most, *space.shape)
            sampled = rng.uniform(space.low, space.high, shape).astype(space.dtype)
        else:
            space.seed(int(rng.integers(2**31)))
            sampled = np.stack([space.sample() for _ in range(n * most)])
        return sampled.reshape(n, most, *sampled.shape[1:]), np.full((n, most), -np.log(most))


@final
@dataclass(frozen=True)
class OfMDP(Simulator):
    """The states of an environment that knows its MDP, by their indices."""

    mdp: MDP
    table: Shaped[np.ndarray, "states ..."]

    def start(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        live = np.flatnonzero(~self.mdp.terminal)
        states = rng.choice(live, size=n, replace=n > live.size)
        return states, self.table[states]

    def step(self, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> Many:
        arrived, cost = outcomes(self.mdp, states, actions, rng), self.numbers.reward
        reward = self.mdp.reward[states] if cost is None else np.full(len(states), cost)
        over = self.mdp.terminal[arrived]
        value = np.where(over, self.mdp.reward[arrived], 0.0)
        return Many(arrived, self.table[arrived], reward, over, value)

    def candidates(self, states: np.ndarray, most: int, rng: np.random.Generator) -> Tried:
        actions = np.tile(np.arange(self.mdp.n_actions), (len(states), 1))
        with np.errstate(divide="ignore"):
            return actions, np.log(self.mdp.default_policy[states])


@final
@dataclass(frozen=True)
class OfMany(Simulator):
    """The states of an environment that steps many of them at once."""

    env: StepsMany

    def start(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        states = self.env.start_many(n, rng)
        return states, self.env.observe_many(states)

    def step(self, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> Many:
        arrived, reward, over = self.env.step_many(states, actions, rng)
        if self.numbers.reward is not None:
            reward = np.full(len(states), self.numbers.reward)
        return Many(arrived, self.env.observe_many(arrived), reward, over, np.zeros(len(states)))


@final
@dataclass(frozen=True)
class Copies(Simulator):
    """Copies of an environment, which share one stream of random numbers."""

    group_size: ClassVar[int] = 4  # a copy takes as long as many steps
    env: gymnasium.Env
    begin: Start | None
    key: Key

    def start(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        env, places = self.env, []
        env.reset(seed=int(rng.integers(2**31)))
        self.space.seed(int(rng.integers(2**31)))
        for _ in range(n):
            steps = int(rng.integers(LONGEST_WALK + 1))
            if self.begin is not None:
                observation, steps = self.begin(env, rng), 0
            else:
                observation, _ = env.reset()
            for _ in range(steps):
                observation, _, terminated, truncated, _ = env.step(self.space.sample())
                if terminated or truncated:
                    observation, _ = env.reset()
            places.append((_copied(env), part_of(observation, self.key)))
        return _objects(places)

    def step(self, states: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> Many:
        rows, discrete = [], isinstance(self.space, gymnasium.spaces.Discrete)
        for (place, before), taken in zip(states, actions, strict=True):
            env: Any = _copied(place)
            action = int(taken) if discrete else np.asarray(taken, dtype=self.space.dtype)
            observation, reward, over, cut, info = env.step(action)
            arrived = part_of(observation, self.key)
            step = Step(before, action, float(reward), arrived, bool(over), bool(cut), info)
            numbers = step.numbers(self.numbers.reward, self.numbers.terminal_reward)
            rows.append(((env, arrived), numbers[0], step.terminated, numbers[1]))
        places, *columns = zip(*rows, strict=True)
        return Many._make((*_objects(places), *map(np.array, columns)))


def _copied(env: gymnasium.Env) -> gymnasium.Env:
    """Returns a copy of an environment, which has the same random numbers."""
    shared: list[Any] = []
    layer: Any = env
    while True:
        shared += [part for part in vars(layer).values() if isinstance(part, SHARED)]
        if not isinstance(layer, gymnasium.Wrapper):
            return copy.deepcopy(env, {id(part): part for part in shared})
        layer = layer.env


def _objects(places: Sequence[tuple[Any, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns an array of the places as objects, and their observations."""
    array = np.empty(len(places), dtype=object)
    for k, place in enumerate(places):
        array[k] = place
    return array, np.stack([observation for _, observation in places])


@checked
def simulator(
    env: gymnasium.Env,
    *,
    start: Start | None = None,
    reward: NumberOfStep = None,
    terminal_reward: NumberOfStep = None,
    key: str | Sequence[str] | None = None,
) -> Simulator:
    """Returns a simulator of an environment, with the arguments of `collect`. Without `start`, it
    starts in any state of an MDP, where `StepsMany` says, or after a reset and random steps."""
    numbers = StepNumbers(reward, terminal_reward).checked()
    space, inner = copy.deepcopy(env.action_space), without_transparent(env)
    is_plain = start is None and key is None and numbers.terminal_reward is None
    if is_plain and not callable(numbers.reward):
        if isinstance(inner, HasMDP):
            return OfMDP(space, numbers, inner.mdp, inner.all_observations())
        if isinstance(inner, StepsMany):
            return OfMany(space, numbers, inner)
    try:
        env.reset(seed=0)
        _copied(env).step(space.sample())  # some copies fail when they are used
    except Exception as error:  # parts of an environment may raise anything when they are copied
        problem = f"{env} cannot be copied ({error!r}), to simulate it."
        remedy = "Give it the method __deepcopy__, or those of drogo.data.simulate.StepsMany."
        raise ArgumentError(problem, remedy=remedy, argument="env") from error
    return Copies(space, numbers, env, start, as_key(key))
