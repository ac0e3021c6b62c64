"""Wrappers that shape rewards by a potential, for one environment or a vector of environments.

The shaping reward of a step from s to s' is `F = discount * phi(s') - phi(s)`. With a `weight` w
the agent receives the mix `(1 - w) r + w F`, as in the paper; without a weight, `r + F`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.potential import Function, Potential

View = Callable[[Any], Any]
Wrapped = TypeVar("Wrapped", gymnasium.Env, VectorEnv)


class _Shaping(RecordConstructorArgs, Generic[Wrapped]):
    """What both wrappers have in common: their arguments, and how the parts of a reward are mixed.

    The arguments are kept, so that the specification of the wrapped environment has them.
    """

    def __init__(
        self,
        env: Wrapped,
        potential: Potential | Function,
        weight: float | None = None,
        discount: float = 0.99,
        *,
        terminal: str = "zero",
        view: View | None = None,
    ) -> None:
        options = {"weight": weight, "discount": discount, "terminal": terminal, "view": view}
        super().__init__(potential=potential, **options)
        # The wrapper's own base class of Gymnasium comes after `RecordConstructorArgs`.
        super(RecordConstructorArgs, self).__init__(env)  # pyright: ignore[reportCallIssue]
        self.weight, self.discount, self.terminal, self.view = weight, discount, terminal, view
        single = isinstance(env, gymnasium.Env)
        space = env.observation_space if single else env.single_observation_space
        self.potential = self._checked(potential, space)

    def _checked(self, potential: Any, space: gymnasium.Space) -> Potential:
        """Checks the arguments, and returns the potential for observations of a space."""
        weight, discount, terminal = self.weight, self.discount, self.terminal
        if weight is not None and not 0 <= weight <= 1:
            raise ArgumentError(
                f"weight is {weight}; it is the share of the shaping reward, from 0 (none of it) "
                "to 1 (nothing else), or None to add the shaping reward to the original one."
            )
        if not 0 <= discount <= 1:
            raise ArgumentError(
                f"discount is {discount}; give the discount of the agent, from 0 to 1."
            )
        if terminal not in ("zero", "keep"):
            raise ArgumentError(
                f"terminal is {terminal!r}; choose 'zero' (the potential of a terminal state "
                "counts as 0) or 'keep' (it counts as it is)."
            )
        if not callable(potential):
            raise ArgumentTypeError(
                f"potential is a {type(potential).__name__}; give a function of a batch of "
                "observations, result.potential(), or Potential.from_states(observations, values)."
            )
        if not isinstance(potential, Potential):
            potential = Potential(potential)
        if potential.discount not in (None, discount):
            raise ArgumentError(
                f"discount is {discount}, but {potential.name} was made for {potential.discount}. "
                "Use the discount of the agent for both."
            )
        if self.view is None and isinstance(space, gymnasium.spaces.Dict | gymnasium.spaces.Tuple):
            raise ArgumentError(
                f"observations are a {type(space).__name__}: select the part that the potential "
                "takes with view, for example view=lambda observation: observation['image']."
            )
        if self.view is None and potential.shape not in (None, space.shape):
            raise ArgumentError(
                f"the environment's observations have shape {space.shape}, and {potential.name} "
                f"takes {potential.shape}. Fit on what the agent sees, or give a view: a function "
                "from the agent's observations to those of the potential."
            )
        return potential

    def _seen(self, observations: Any) -> Any:
        """What the potential takes of an observation, or of a batch of them."""
        return observations if self.view is None else self.view(observations)


class PotentialShaping(_Shaping[gymnasium.Env], gymnasium.Wrapper):
    """Shapes the rewards of an environment.

    `info["reward_original"]` and `info["shaping"]` hold the two parts of the reward. A truncated
    episode is not over for the task, so the potential of its last observation counts in full.

    Args:
        env: The environment.
        potential: `result.potential()`, a `Potential`, or a function of a batch of observations.
        weight: The share of the shaping reward in the mix, or None to add it to the reward.
        discount: The discount of the agent (`gamma` in Stable-Baselines3).
        terminal: What the potential of a terminal state counts as. With "zero" it is 0. If no
            weight is given, the optimal policies then stay optimal for every potential (Ng et al.
            1999, Grzes 2017). With "keep" it is what the potential says, as in the paper: episodes
            of different length or with different terminal states are then paid differently. For a
            fit with one goal both are the same, since its potential is 0 there.
        view: A function from an observation to what the potential takes, if the two differ.
    """

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._value = self.potential.at(self._seen(observation))
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        value = self.potential.at(self._seen(observation))
        counted = 0.0 if terminated and self.terminal == "zero" else value
        shaping = self.discount * counted - self._value
        self._value = value
        info = {**info, "reward_original": reward, "shaping": shaping}
        mix = float(mixed(reward, shaping, self.weight))
        return observation, mix, terminated, truncated, info


class VectorPotentialShaping(_Shaping[VectorEnv], gymnasium.vector.VectorWrapper):
    """Shapes the rewards of a vector of environments.

    All autoreset modes are supported. With a reset on the next step, the reward of that step is 0.
    With a reset on the same step, the potential is taken of `infos["final_obs"]`, to which the step
    led, and not of the returned observation.

    Args:
        env: The vector of environments.
        potential: As in `PotentialShaping`.
        weight: As in `PotentialShaping`.
        discount: As in `PotentialShaping`.
        terminal: As in `PotentialShaping`.
        view: As in `PotentialShaping`, but it is called with a batch of observations.
    """

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(**kwargs)
        self._values = self.potential(self._seen(observations))
        self._over = np.zeros(self.num_envs, dtype=bool)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        values = self.potential(self._seen(observations))
        counted = values.copy()
        ended, last = last_observations(self, infos)
        if ended.size:
            counted[ended] = self.potential(self._seen(last))
        if self.terminal == "zero":
            counted[terminated] = 0.0
        shaping = self.discount * counted - self._values
        mode = self.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        if mode == AutoresetMode.NEXT_STEP:
            shaping[self._over] = 0.0  # This step was the reset and belongs to no episode.
        self._values = values
        self._over = np.asarray(terminated | truncated)
        parts = {"reward_original": np.array(rewards), "shaping": shaping}
        present = {f"_{name}": np.ones(self.num_envs, dtype=bool) for name in parts}
        infos = {**infos, **parts, **present}
        return observations, mixed(rewards, shaping, self.weight), terminated, truncated, infos


def mixed(reward: Any, shaping: Any, weight: float | None) -> Any:
    """Returns `(1 - w) r + w F`, or `r + F` without a weight.

    Args:
        reward: The original reward r, or several.
        shaping: The shaping reward F, or several.
        weight: The weight w.
    """
    return reward + shaping if weight is None else (1 - weight) * reward + weight * shaping


def last_observations(
    env: VectorEnv | gymnasium.vector.VectorWrapper, infos: dict[str, Any]
) -> tuple[np.ndarray, Any]:
    """Returns which environments were reset on the step itself, and their last observations.

    Args:
        env: The vector of environments.
        infos: What the step returned.
    """
    ended, space = np.flatnonzero(infos.get("_final_obs", ())), env.single_observation_space
    if not ended.size:
        return ended, None
    last = [infos["final_obs"][k] for k in ended]
    return ended, concatenate(space, last, create_empty_array(space, ended.size))
