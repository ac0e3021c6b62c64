"""`AbstractOnlineMap`: a map that learns from an agent's steps, and wrappers that show it steps.

In the wrappers, the potential of a state counts as it was when the state was reached, which keeps
optimal policies although it changes (Devlin and Kudenko 2012).
"""

import abc
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.utils import RecordConstructorArgs
from jaxtyping import Bool, Float, Int

from drogo import errors
from drogo.data.step import info_of, number_or_function
from drogo.errors import ArgumentError, ArgumentTypeError, BadCheckpoint, DataError
from drogo.files import Header, as_path, read_arrays, write_arrays
from drogo.learn.settings import as_json, check_not_swept, from_json, subclasses
from drogo.learn.solution import PARTS
from drogo.online.judging import NUMBERS, Judging
from drogo.potential import Potential, discounted_value
from drogo.problems.column import Column
from drogo.requests import check_same
from drogo.use.options import FrozenMap
from drogo.use.shaping import (
    AbstractShaping,
    PotentialShaping,
    Shaping,
    StepBatch,
    VectorPotentialShaping,
    is_reset,
    last_observations,
    number_of_actions,
    spaces_of,
)

KIND = "online map"
Logits = Float[np.ndarray, "n actions"]
OF_SPACES = ("class", "shape", "dtype", "n_actions")
EQUAL = 1e-9  # Logits that differ by less count as equal.


class AbstractOnlineMap(AbstractShaping):
    """A map that learns from an agent's steps, and shapes the agent's rewards.

    Give it steps with `observe`, let it learn with `train`, and ask it for rewards with `shaped`.
    `drogo.sb3.LearnMap` and the wrapper `OnlineShaping` do that.
    """

    unknown_end = np.nan
    found: bool
    """Whether a goal was seen: a terminal state, worth at least as much as `optimism` if given."""
    until_found: bool
    """Whether optimism ends with the first goal."""
    kinds: tuple[type[gymnasium.Space], ...] = ()
    """The kinds of spaces that observations may have, besides `Box`."""

    def __init__(
        self,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        problem: Column | None,
        optimism: float | None,
        shaping: Shaping,
    ) -> None:
        number_of_actions(action_space)  # these maps need some
        self.for_spaces(observation_space, action_space, *self.kinds)
        self.shaping, self.found = shaping, False
        self.problem = Column() if problem is None else problem
        if getattr(self.problem, "kind", "") != "column" or self.problem.changes_source:
            wrong = f"problem is {problem!r}; give a drogo.Column with the environment's rewards."
            raise ArgumentTypeError(wrong, argument="problem")
        check_not_swept(self.problem)
        self.lam = float(self.problem.lam)  # pyright: ignore[reportArgumentType]
        self.default_policy = probabilities(self.problem.default_policy, self.n_actions)
        self.optimism = None if optimism is None else errors.check_number("optimism", optimism)
        explores = self.optimism is not None
        self.judging = Judging(self.problem.costs, shaping.reward, explores=explores)

    def __repr__(self) -> str:
        found = "a goal was found" if self.found else "no goal was found yet"
        return f"{type(self).__name__}(lam {self.lam:g}, {self.steps:,} steps, {found})"

    def attach(self, agent: Any) -> None:
        super().attach(agent)
        if agent.gamma != self.shaping.discount:
            problem = f"discount is {self.shaping.discount}; that of the agent is {agent.gamma}."
            remedy = "Shaping keeps the best policy only if both agree."
            raise ArgumentError(problem, remedy=remedy, argument="discount")

    def warnings(self) -> list[str]:
        which = "" if self.optimism is None else f" worth {self.optimism:g} or more"
        unseen = f"no terminal state{which} was seen in {self.steps:,} steps, so the map knows at "
        unseen += "most what was not tried yet: train for longer, or start closer to the goal."
        diverged = "the map diverged and is frozen. Use a smaller step size."
        return [unseen] * (not self.found) + [diverged] * bool(self.metrics.get("diverged"))

    @abc.abstractmethod
    def values(self, observations: npt.ArrayLike) -> Float[np.ndarray, " n"]:
        """Returns the map `v` at a batch of observations."""

    @abc.abstractmethod
    def knows(self, observations: npt.ArrayLike) -> Bool[np.ndarray, " n"]:
        """Returns which observations of a batch have a value: all as soon as a network learned."""

    @abc.abstractmethod
    def logits(self, observations: npt.ArrayLike) -> Logits:
        """Returns the log of the value of each action at some observations, up to a constant."""

    @abc.abstractmethod
    def known_logits(self, observations: npt.ArrayLike) -> Logits:
        """Returns the same without hope: minus infinity for actions that were not tried, unless
        none was."""

    @abc.abstractmethod
    def frozen(self) -> FrozenMap:
        """Returns the current action values, which do not change when the map learns on."""

    def act(self, observations: npt.ArrayLike, rng: np.random.Generator) -> Int[np.ndarray, " n"]:
        """Returns the actions of the largest logits; among equal ones, `rng` chooses."""
        return self._best(self.logits(observations), rng)

    def _best(self, logits: Logits, rng: np.random.Generator) -> Int[np.ndarray, " n"]:
        best = logits >= logits.max(axis=1, keepdims=True) - EQUAL
        return np.where(best, rng.random(logits.shape), -1.0).argmax(axis=1)

    @property
    @abc.abstractmethod
    def mean_step(self) -> float:
        """The mean difference of the map between the two states of a step, or 1 if it is flat."""

    def potential(self, observations: npt.ArrayLike) -> Float[np.ndarray, " n"]:
        """Returns the potential: the map over `mean_step`, or the value of a `goal_reward`."""
        phi, rule = self.values(observations) / self.mean_step, self.shaping
        if rule.goal_reward is not None:
            goal = (self.optimism or 0.0) / self.lam / self.mean_step
            phi = discounted_value(phi, rule.goal_reward, rule.discount, goal)
        return np.where(np.isfinite(phi), phi, 0.0)  # an agent must never train on NaN

    @abc.abstractmethod
    def _add(self, steps: StepBatch) -> None:
        """Takes steps that were checked, with the agent's own rewards."""

    def take(self, steps: StepBatch, time: Float[np.ndarray, " n"] | None = None) -> None:
        """Takes steps, which must have whole numbers as actions."""
        whole = steps.action.dtype.kind in "iu"
        if not whole or not ((steps.action >= 0) & (steps.action < self.n_actions)).all():
            problem = f"an action is none of the numbers from 0 to {self.n_actions - 1}."
            raise DataError(problem, argument="action")
        _check_finite(steps.reward)
        steps = steps._replace(action=steps.action.astype(np.int32))
        self._add(steps)
        self.judging.see(steps, time)
        if steps.terminated.any():
            self.found = self.optimism is None or self.judging.best() >= self.optimism
        super().take(steps, time)

    def shape_rewards(self, steps: StepBatch) -> Float[np.ndarray, " n"]:
        _check_finite(steps.reward)
        both = np.concatenate([steps.observation, steps.next_observation])
        phi, next_phi = np.split(self.potential(both), 2)  # faster than two calls
        return self.shaping.reward_of(steps.reward, phi, next_phi, steps.terminated)[0]

    @abc.abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Returns everything that a file holds of the map; here, what rewards said so far."""
        return {"rewards": self.judging.numbers}

    @abc.abstractmethod
    def check_arrays(self, headers: Mapping[str, Header]) -> None:
        """Raises an error unless these could be the arrays of such a map."""
        shape = headers["rewards"].shape
        if len(shape) != 1 or shape[0] < NUMBERS or (shape[0] - NUMBERS) % 2:
            raise ValueError("what it says of rewards is missing")

    @abc.abstractmethod
    def continue_from(self, arrays: dict[str, np.ndarray]) -> None:
        """Continues from the arrays of a file."""
        self.judging.numbers = arrays["rewards"].astype(np.float64)

    def request(self) -> dict[str, Any]:
        """Returns the arguments that must agree for a saved map to be continued."""
        spaces = {"shape": list(self.shape), "dtype": self.dtype.str, "n_actions": self.n_actions}
        given = {"class": type(self).__name__, "problem": as_json(self.problem)}
        return {**given, **spaces, "optimism": self.optimism, **asdict(self.shaping)}

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the map to a file, with everything that it needs to continue."""
        path = as_path("path", path)
        write_arrays(path, KIND, self.arrays(), self.request(), overwrite=overwrite)

    @classmethod
    def of_request(
        cls, request: Mapping[str, Any], observation_space: Any, action_space: Any, **given: Any
    ) -> "AbstractOnlineMap":
        """Returns a new map with the arguments in the request of a saved one. What holds code of a
        user is `given` again: the problem, the method, the network or the optimiser."""
        kinds = {kind.__name__: kind for kind in (cls, *subclasses(cls))}
        rest = {name: part for name, part in request.items() if name not in OF_SPACES}
        both = ((name, part) for name, part in rest.items() if name in PARTS)
        parts = {name: from_json(PARTS[name], part, given.get(name), name) for name, part in both}
        try:
            return kinds[request["class"]](observation_space, action_space, **rest | parts)
        except (KeyError, TypeError) as error:
            raise errors.DamagedFile(f"its map cannot be made again: {error}.") from error

    @classmethod
    def load(
        cls, path: str | Path, observation_space: Any, action_space: Any, **given: Any
    ) -> "AbstractOnlineMap":
        """Returns a saved map, for the spaces of an environment. Arguments with code of your own,
        such as a network, are given again."""
        made: list[Any] = []

        def check(stored: dict[str, Any], headers: dict[str, Header]) -> None:
            made.append(cls.of_request(stored, observation_space, action_space, **given))
            check_same(stored, made[0].request(), "map")
            made[0].check_arrays(headers)

        arrays, _ = read_arrays(as_path("path", path), KIND, check)
        made[0].continue_from(arrays)
        return made[0]

    def restore(self, path: str | Path) -> None:
        """Continues from a saved map, which must have been made with the same arguments."""

        def check(stored: dict[str, Any], headers: dict[str, Header]) -> None:
            check_same(stored, self.request(), "map")
            self.check_arrays(headers)

        try:
            arrays, _ = read_arrays(as_path("path", path), KIND, check)
            self.continue_from(arrays)
        except (errors.DamagedFile, errors.MissingFile) as error:
            remedy = "Give the file of this map."
            raise BadCheckpoint(str(error), remedy=remedy, argument="path") from error


def probabilities(given: Any, count: int) -> Float[np.ndarray, " actions"]:
    """Returns the default policy of a problem over `count` actions, checked; uniform by default."""
    if given is None:
        return np.full(count, 1 / count)
    policy = np.zeros(0) if callable(given) else np.asarray(given, dtype=np.float64)
    if policy.shape != (count,) or not (policy > 0).all() or abs(policy.sum() - 1) > 1e-9:
        wanted = f"give {count} probabilities above 0 with a sum of 1."
        raise ArgumentError(f"default_policy is {given!r}; {wanted}", argument="default_policy")
    return policy


def _check_finite(rewards: np.ndarray) -> None:
    wrong = rewards[~np.isfinite(rewards)]
    if wrong.size:
        remedy = "Mend the environment, or the wrapper that changes its rewards."
        raise DataError(f"a reward is {float(wrong[0])}.", remedy=remedy, argument="reward")


class _Learning:
    """The arguments of both wrappers."""

    def __init__(self, env: Any, online: AbstractOnlineMap, *, terminal_reward: Any = None):
        arguments = {"online": online, "terminal_reward": terminal_reward}
        RecordConstructorArgs.__init__(self, _disable_deepcopy=True, **arguments)  # pyright: ignore
        online.check_spaces(*spaces_of(env))
        self.online = online
        self.terminal_reward = number_or_function("terminal_reward", terminal_reward)
        rule, phi = online.shaping, Potential(online.potential, name="the map")
        super().__init__(env, phi, rule.weight, rule.discount, terminal=rule.terminal)  # pyright: ignore

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        if "reset_mask" not in (kwargs.get("options") or {}):
            self._time = np.zeros(getattr(self, "num_envs", 1), np.int64)
        observations, infos = super().reset(**kwargs)  # pyright: ignore[reportAttributeAccessIssue]
        self._before = np.array(observations)  # a copy: environments reuse their arrays
        return observations, infos


class OnlineShaping(_Learning, PotentialShaping):
    """Shapes the rewards of an environment by a map that learns from its steps.

    The original reward is in `info["reward_original"]`, and the shaping reward in
    `info["shaping"]`.

    Args:
        online: The map, which has the weight and the discount.
        terminal_reward: The reward of a terminal state itself: a number, or a function of the last
            `Step` of an episode, as in `collect`. By default `info["terminal_reward"]`, or else
            what the last reward says beside all that were seen.
    """

    def _learn(self, action: Any, reward: Any, observation: Any, over: Any, info: Any) -> None:
        before, self._before = self._before, np.array(observation)
        columns = ([action], [reward], self._before[None], [over[0]], [info])
        self.online.learn_from(before[None], *columns, self.terminal_reward, self._time)
        self._time += 1


class VectorOnlineShaping(_Learning, VectorPotentialShaping):
    """Shapes the rewards of a vector of environments by a map that learns from all their steps.

    The arguments are those of `OnlineShaping`. All autoreset modes are supported. With a reset on
    the next step, the map does not see that step, and its shaping reward is 0.
    """

    def _learn(self, actions: Any, rewards: Any, observations: Any, over: Any, infos: Any) -> None:
        before, self._before = self._before, np.array(observations)
        reached, (ended, last) = self._before.copy(), last_observations(self, infos)
        if ended.size:
            reached[ended] = last
        begins = is_reset(self, self._over)
        real = np.flatnonzero(~begins)
        parts = (before, np.asarray(actions), rewards, reached, over[0])
        columns: list[Any] = [part[real] for part in parts]
        columns += [[info_of(infos, k) for k in real.tolist()]]
        self.online.learn_from(*columns, self.terminal_reward, self._time[real])  # pyright: ignore
        self._time = np.where(begins | over[0] | over[1], 0, self._time + 1)
