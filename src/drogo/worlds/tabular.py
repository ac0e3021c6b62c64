"""Worlds whose moves are a table of the next state of each state and action."""

import abc
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from drogo.errors import ArgumentError, check_choice
from drogo.mdp import MDP

Options = dict[str, Any] | None
Reset = tuple[Any, dict[str, Any]]
MOST_PIXELS = 4096  # The largest `tile`: the number of pixels along the side of a cell.
LARGEST_TABLE = 4 * 2**30  # The most bytes of a table of observations.


@dataclass(eq=False, repr=False)
class TabularWorld:
    """A world whose moves are a table."""

    next_state: Int[np.ndarray, "states actions"]
    """The state that each action leads to. A terminal state leads to itself."""
    reward: Float[np.ndarray, " states"]
    """The reward of leaving each state, or the terminal value of a terminal state."""
    terminal: Bool[np.ndarray, " states"]
    start: Float[np.ndarray, " states"]  # The distribution of the first state of an episode.
    states: Sequence[Hashable]  # The label of each state, such as its cell.

    @property
    def n_states(self) -> int:
        """The number of states, terminal ones included."""
        return len(self.states)

    @cached_property
    def mdp(self) -> MDP:
        """The MDP of the world under the uniform random policy."""
        n = self.n_states
        parts = ((np.ones(n), reached, np.arange(n + 1)) for reached in self.next_state.T)
        P = [sp.csr_array(part, shape=(n, n)) for part in parts]
        return MDP.from_arrays(P, self.reward, self.terminal, start=self.start, states=self.states)


class TabularEnv(gymnasium.Env):
    """Episodes in a world whose moves are a table: a `drogo.mdp.HasMDP`. Entering a terminal state
    adds its value to the reward, and reports it as `info["terminal_reward"]`."""

    actions: tuple[str, ...]  # The names of the actions, for error messages.
    moves: TabularWorld
    start = "map"
    """Where episodes begin: "map" as the world says, "uniform" in any non-terminal state."""
    step_limit: int
    state = 0
    steps = 0

    @cached_property
    def mdp(self) -> MDP:
        """The MDP of the world, whose start distribution follows `start`."""
        mdp = self.moves.mdp
        allowed = ~mdp.terminal
        return mdp if self.start == "map" else replace(mdp, start=allowed / allowed.sum())

    @abc.abstractmethod
    def all_observations(self) -> np.ndarray:
        """Returns the observation of every state, in state order."""

    @abc.abstractmethod
    def _observation(self) -> Any:
        """Returns the observation of `state`."""

    def reset(self, *, seed: int | None = None, options: Options = None) -> Reset:
        gymnasium.Env.reset(self.unwrapped, seed=seed)
        options = {"start": self.start, **check_reset(options, "state", "start")}
        check_choice("start", options["start"], ("map", "uniform"))
        if "state" in options:
            state = int(options["state"])
            if state not in np.flatnonzero(~self.moves.terminal):
                last = self.moves.n_states - 1
                problem = f"reset option 'state' is {state}; give a non-terminal state to {last}."
                raise ArgumentError(problem, argument="options")
        else:
            allowed = ~self.moves.terminal if options["start"] == "uniform" else self.moves.start
            state = int(self.np_random.choice(np.flatnonzero(allowed)))
        self.state, self.steps = state, 0
        return self._observation(), {"state": state}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        check_action(self, action)
        before = self.state
        self.state = int(self.moves.next_state[before, action])
        self.steps += 1
        terminated = bool(self.moves.terminal[self.state])
        reward = 0.0 if self.moves.terminal[before] else float(self.moves.reward[before])
        info: dict[str, Any] = {"state": self.state}
        if terminated and self.state != before:
            info["terminal_reward"] = float(self.moves.reward[self.state])
            reward += info["terminal_reward"]
        truncated = self.steps >= self.step_limit and not terminated
        return self._observation(), reward, terminated, truncated, info


def check_reset(options: Options, *allowed: str) -> dict[str, Any]:
    """Returns the options of a reset, or raises an `ArgumentError` if one is unknown."""
    unknown = sorted(set(options or {}) - set(allowed))
    if unknown:
        problem = f"unknown reset option(s) {unknown}; expected {', '.join(map(repr, allowed))}."
        raise ArgumentError(problem, argument="options")
    return options or {}


def check_action(env: Any, action: Any) -> None:
    """Raises an `ArgumentError` unless an action is in the action space of an environment."""
    if not env.action_space.contains(action):
        expected = ", ".join(f"{k} ({name})" for k, name in enumerate(env.actions))
        raise ArgumentError(f"action is {action!r}; expected {expected}.", argument="action")


def check_table(name: str, shape: tuple[int, ...], remedy: str) -> None:
    """Raises an `ArgumentError` if a table of observations is too large to learn from."""
    size = 4 * math.prod(shape)  # networks observe single precision
    if size > LARGEST_TABLE:
        problem = f"{name} of shape {shape} would take {size / 2**30:.0f} GiB."
        raise ArgumentError(problem, remedy=remedy, argument="observation")
