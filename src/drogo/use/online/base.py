"""`AbstractOnlineMap`: what every map that is learned while an agent trains has in common."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped

from drogo.data.step import check_cost
from drogo.errors import (
    ArgumentError,
    BadCheckpoint,
    DamagedFile,
    DataError,
    MissingFile,
    check_choice,
    check_number,
    check_share,
)
from drogo.files import Header, read_array_file, write_array_file
from drogo.requests import differences
from drogo.use.online.promises import Promises
from drogo.use.online.shaping import AbstractShaping, as_columns
from drogo.use.online.steps import Steps
from drogo.use.shaping import mixed

FORMAT = "drogo online map 1"
EQUAL = 1e-9
"""Promises that differ by less are equal."""


class AbstractOnlineMap(AbstractShaping):
    """A map that is learned from an agent's steps, and the rewards that are shaped with it.

    Feed it with `observe`, let it learn with `train`, and ask it for rewards with `shaped`. For
    agents of Stable-Baselines3, `drogo.use.sb3` does that; for others there are the wrappers
    `OnlineShaping` and `VectorOnlineShaping`.
    """

    shape: tuple[int, ...]
    """The shape of one observation."""
    dtype: np.dtype
    n_actions: int
    lam: float
    optimism: float | None
    weight: float | None
    discount: float
    terminal: str
    reward: float | None

    def __init__(
        self,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        lam: float,
        optimism: float | None,
        weight: float | None,
        discount: float,
        terminal: str,
        reward: float | None,
    ) -> None:
        if not isinstance(action_space, gymnasium.spaces.Discrete) or action_space.start != 0:
            raise ArgumentError(
                f"the actions are {action_space}; a map that is learned from an agent's steps has "
                "a value for each action, so they must be Discrete and start at 0.",
                remedy="Give the agent some actions to choose from, with a wrapper that turns a "
                "number into one of them.",
            )
        space = observation_space
        if not isinstance(space, gymnasium.spaces.Box | gymnasium.spaces.Discrete):
            raise ArgumentError(
                f"the observations are {type(space).__name__}; give a Box or Discrete.",
                remedy="Select or join their parts with gymnasium.wrappers.FlattenObservation.",
            )
        self.shape, self.dtype = tuple(space.shape or ()), np.dtype(space.dtype)
        self.n_actions = int(action_space.n)
        self.lam, self.discount = check_number("lam", lam), check_share("discount", discount)
        if not self.lam > 0:
            raise ArgumentError(f"lam is {lam}; it must be positive.")
        self.optimism = None if optimism is None else check_number("optimism", optimism)
        self.weight = None if weight is None else check_share("weight", weight)
        check_choice("terminal", terminal, ("zero", "keep"))
        self.terminal = terminal
        self.reward = None if reward is None else check_number("reward", reward)
        check_cost(self.reward)

    def check_spaces(
        self, observation_space: gymnasium.Space, action_space: gymnasium.Space
    ) -> None:
        """Raises an error unless the map was made for these observations and actions.

        Args:
            observation_space: Of one environment.
            action_space: Of one environment.
        """
        shape = tuple(observation_space.shape or ())
        kinds = [np.dtype(kind).kind for kind in (observation_space.dtype, self.dtype)]
        if kinds[0] == "f" and kinds[1] in "iub":
            raise ArgumentError(
                f"the agent sees {observation_space.dtype}; this map was made for {self.dtype}.",
                remedy="Make it with the spaces that the agent sees, and not with those behind a "
                "wrapper.",
            )
        actions = getattr(action_space, "n", None)
        if (shape, actions) != (self.shape, self.n_actions):
            raise ArgumentError(
                f"the agent has observations of shape {shape} and the actions {action_space}; this "
                f"map was made for shape {self.shape} and {self.n_actions} actions.",
                remedy="Make it with the spaces that the agent sees. Stable-Baselines3 puts the "
                "colours of images first: wrap the environment in a VecTransposeImage yourself, "
                "and take the spaces of that.",
            )

    def attach(self, agent: Any) -> None:
        self.check_spaces(agent.observation_space, agent.action_space)
        if agent.gamma != self.discount:
            raise ArgumentError(
                f"the agent's discount is {agent.gamma}, and that of the map {self.discount}. With "
                "two discounts, shaping changes which policy is best: give the same to both."
            )

    def complaints(self) -> list[str]:
        told = []
        if not self.found:
            which = "" if self.optimism is None else f" worth {self.optimism:g} or more"
            told.append(
                f"no terminal state{which} was seen in {self.steps:,} steps. The map knows only "
                "what was not tried yet, and with optimism=None nothing at all: train for longer, "
                "or start episodes closer to the goal."
            )
        if self.metrics.get("diverged"):
            told.append("the map diverged, and stays as it was before. Use a smaller step_size.")
        return told

    @property
    @abc.abstractmethod
    def found(self) -> bool:
        """Whether a goal was seen: a terminal state that is worth as much as what was not tried."""

    def is_goal(self, terminal_reward: float) -> bool:
        """Returns whether a terminal state of this value is worth as much as what was not tried.
        Lava is not: optimism goes on after it. Without optimism, any terminal state is.

        Args:
            terminal_reward: The value in units of reward.
        """
        return self.optimism is None or terminal_reward >= self.optimism

    @abc.abstractmethod
    def _add(self, steps: Steps) -> None:
        """Takes steps that were checked."""

    @abc.abstractmethod
    def _values(self, observations: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, " n"]:
        """Returns the map at observations that were checked."""

    @abc.abstractmethod
    def _knows(self, observations: Shaped[np.ndarray, "n ..."]) -> Bool[np.ndarray, " n"]:
        """Returns of which observations, which were checked, the map knows anything."""

    @abc.abstractmethod
    def _logits(self, observations: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, "n actions"]:
        """Returns the promises of actions at observations that were checked."""

    def values(self, observations: npt.ArrayLike) -> Float[np.ndarray, " n"]:
        """Returns the map `v` at some observations.

        Args:
            observations: A batch of observations.
        """
        return self._values(self._checked(observations))

    def knows(self, observations: npt.ArrayLike) -> Bool[np.ndarray, " n"]:
        """Returns of which observations the map knows anything: those that a table has seen, and
        all as soon as a network has learned.

        Args:
            observations: A batch of observations.
        """
        return self._knows(self._checked(observations))

    def logits(self, observations: npt.ArrayLike) -> Float[np.ndarray, "n actions"]:
        """Returns the log of what the map promises of each action, up to a constant.

        Args:
            observations: A batch of observations.
        """
        return self._logits(self._checked(observations))

    @abc.abstractmethod
    def promises(self) -> Promises:
        """Returns what the map promises at this moment. It does not change when the map learns."""

    def act(self, observations: npt.ArrayLike, rng: np.random.Generator) -> Int[np.ndarray, " n"]:
        """Returns the actions of which the map promises most: to the goal as far as it is known,
        and before that to what was not tried yet. Among equal ones, one is drawn.

        Args:
            observations: A batch of observations.
            rng: The random numbers.
        """
        logits = self.logits(observations)
        best = logits >= logits.max(axis=1, keepdims=True) - EQUAL
        return np.where(best, rng.random(logits.shape), -1.0).argmax(axis=1)

    @property
    @abc.abstractmethod
    def mean_step(self) -> float:
        """The mean difference of the map between the two ends of a step, or 1 if it is flat."""

    @abc.abstractmethod
    def _identity(self) -> dict[str, Any]:
        """Returns the arguments that must agree for a saved map to be continued."""

    @abc.abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Returns what a file holds of the map."""

    @abc.abstractmethod
    def check_arrays(self, headers: Mapping[str, Header]) -> None:
        """Raises an error unless these could be the arrays of such a map."""

    @abc.abstractmethod
    def continue_from(self, arrays: dict[str, np.ndarray]) -> None:
        """Goes on from the arrays of a file."""

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the map, with all that it needs to go on.

        Args:
            path: The file.
            overwrite: Whether to replace a file that is there.
        """
        settings = {"format": FORMAT, **self.request()}
        write_array_file(Path(path), self.arrays(), settings, overwrite=overwrite)

    def restore(self, path: str | Path) -> None:
        """Goes on from a saved map, which must have been made with the same arguments.

        Args:
            path: The file.

        Raises:
            BadCheckpoint: It is the map of another agent, or of other settings.
        """

        def check(stored: dict[str, Any], headers: dict[str, Header]) -> None:
            differ = differences(stored, {"format": FORMAT, **self.request()})
            if differ:
                raise ValueError(f"it is another map, which differs in {', '.join(differ)}")
            self.check_arrays(headers)

        try:
            arrays, _ = read_array_file(Path(path), FORMAT, check)
            self.continue_from(arrays)
        except (DamagedFile, MissingFile) as error:
            raise BadCheckpoint(str(error), remedy="Give the file of this very map.") from error

    def request(self) -> dict[str, Any]:
        return {"kind": type(self).__name__, "shape": list(self.shape), "dtype": self.dtype.str,
                "n_actions": self.n_actions, "lam": self.lam, "optimism": self.optimism,
                "weight": self.weight, "discount": self.discount, "terminal": self.terminal,
                "reward": self.reward, **self._identity()}  # fmt: skip

    def observe(
        self,
        observation: npt.ArrayLike,
        action: npt.ArrayLike,
        reward: npt.ArrayLike,
        next_observation: npt.ArrayLike,
        terminated: npt.ArrayLike,
        terminal_reward: npt.ArrayLike | None = None,
    ) -> None:
        before, after = self._checked(observation), self._checked(next_observation)
        n = len(before)
        given = np.zeros(n) if terminal_reward is None else terminal_reward
        actions, rewards, ended, value = as_columns(
            before, after, action, reward, terminated, given
        )
        if (
            actions.dtype.kind not in "iu"
            or not ((actions >= 0) & (actions < self.n_actions)).all()
        ):
            raise DataError(f"an action is none of the numbers from 0 to {self.n_actions - 1}.")
        _check_finite(rewards)
        if self.reward is not None:
            rewards = np.full(n, self.reward)
        if not (rewards < 0).all():
            raise DataError(
                f"a reward is {float(rewards.max())}; the map needs a cost for every step: a "
                "negative number.",
                remedy="Give reward=-1.0 to the map, which then counts every step alike. The agent "
                "keeps its own rewards, such as a bonus at the goal. If some ends are worse than "
                "others, tell the map with terminal_reward= of LearnMap or of the wrapper, or with "
                'info["terminal_reward"] of the environment.',
                command_remedy="Give --reward -1, with which the map counts every step alike. The "
                "agent keeps its own rewards.",
            )
        value = np.where(ended, value, 0.0)
        if not np.isfinite(value).all():
            raise DataError("the value of a terminal state is not finite.")
        self._add(Steps(before, actions.astype(np.int32), rewards.astype(np.float64), after,
                        ended.astype(bool), value))  # fmt: skip

    def _checked(self, observations: npt.ArrayLike) -> Shaped[np.ndarray, "n ..."]:
        given = np.asarray(observations)
        if given.dtype.kind == "f" and self.dtype.kind in "iub":
            raise ArgumentError(
                f"the observations are {given.dtype}; this map was made for {self.dtype}. Make it "
                "with the spaces that the agent sees, and not with those behind a wrapper."
            )
        batch = given.astype(self.dtype, copy=False)
        if batch.shape[1:] != self.shape:
            raise ArgumentError(
                f"the observations have shape {batch.shape[1:]}; this map was made for "
                f"{self.shape}. Make it with the environment that the agent is trained in, and "
                "give a batch of observations."
            )
        if batch.dtype.kind == "f" and not np.isfinite(batch).all():
            raise DataError("an observation is not finite.")
        return batch + np.zeros((), batch.dtype) if batch.dtype.kind == "f" else batch  # no -0.0

    def potential(self, observations: npt.ArrayLike) -> Float[np.ndarray, " n"]:
        """Returns the potential of the moment: the map divided by its mean difference between the
        two ends of a step.

        Args:
            observations: A batch of observations.
        """
        phi = self.values(observations) / self.mean_step
        return np.where(np.isfinite(phi), phi, 0.0)  # an agent must never train on NaN

    def shaped(
        self,
        reward: npt.ArrayLike,
        observation: npt.ArrayLike,
        next_observation: npt.ArrayLike,
        terminated: npt.ArrayLike,
        action: npt.ArrayLike | None = None,
    ) -> Float[np.ndarray, " n"]:
        seen = [self._checked(part) for part in (observation, next_observation)]
        rewards, ended = as_columns(*seen, reward, terminated)
        _check_finite(rewards)
        # One call, which is faster than two.
        before, after = np.split(self.potential(np.concatenate(seen)), 2)
        if self.terminal == "zero":
            after = np.where(ended, 0.0, after)
        shaping = self.discount * after - before
        return mixed(rewards.astype(np.float64), shaping, self.weight)


def _check_finite(rewards: np.ndarray) -> None:
    """Raises an error unless the agent's own rewards are numbers that it can learn from."""
    finite = np.isfinite(rewards)
    if not finite.all():
        raise DataError(
            f"a reward of the agent is {float(rewards[~finite][0])}, so that it cannot learn.",
            remedy="Mend the environment, or the wrapper that changes its rewards.",
        )
