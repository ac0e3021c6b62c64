"""Wrappers that shape rewards by a potential, for one environment or a vector of environments.

The shaping reward of a step from s to s' is `F = discount * phi(s') - phi(s)`. With a `weight` w
the agent receives the mix `(1 - w) r + w F`, as in the paper; without a weight, `r + F`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode

from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.potential import Function, Potential

View = Callable[[Any], Any]


class PotentialShaping(gymnasium.Wrapper, RecordConstructorArgs):
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

    def __init__(
        self,
        env: gymnasium.Env,
        potential: Potential | Function,
        weight: float | None = None,
        discount: float = 0.99,
        *,
        terminal: str = "zero",
        view: View | None = None,
    ) -> None:
        options = {"weight": weight, "discount": discount, "terminal": terminal, "view": view}
        RecordConstructorArgs.__init__(self, potential=potential, **options)
        gymnasium.Wrapper.__init__(self, env)
        self.potential = _checked(potential, **options, space=env.observation_space)
        self.weight, self.discount, self.terminal, self.view = weight, discount, terminal, view
        self._value = np.nan

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._value = self._potential_at(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        value = self._potential_at(observation)
        counted = 0.0 if terminated and self.terminal == "zero" else value
        shaping = self.discount * counted - self._value
        self._value = value
        info = {**info, "reward_original": reward, "shaping": shaping}
        mixed = float(_mix(reward, shaping, self.weight))
        return observation, mixed, terminated, truncated, info

    def _potential_at(self, observation: Any) -> float:
        return self.potential.at(observation if self.view is None else self.view(observation))


class VectorPotentialShaping(gymnasium.vector.VectorWrapper, RecordConstructorArgs):
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

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        potential: Potential | Function,
        weight: float | None = None,
        discount: float = 0.99,
        *,
        terminal: str = "zero",
        view: View | None = None,
    ) -> None:
        options = {"weight": weight, "discount": discount, "terminal": terminal, "view": view}
        RecordConstructorArgs.__init__(self, potential=potential, **options)
        gymnasium.vector.VectorWrapper.__init__(self, env)
        self.potential = _checked(potential, **options, space=env.single_observation_space)
        self.weight, self.discount, self.terminal, self.view = weight, discount, terminal, view
        mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._resets_on_next_step = mode == AutoresetMode.NEXT_STEP
        self._values = np.full(self.num_envs, np.nan)
        self._over = np.zeros(self.num_envs, dtype=bool)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(**kwargs)
        self._values = self._potential_of(observations)
        self._over = np.zeros(self.num_envs, dtype=bool)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        values = self._potential_of(observations)
        counted = values.copy()
        for k in np.flatnonzero(infos.get("_final_obs", ())):
            counted[k] = self._potential_of(_batch_of_one(infos["final_obs"][k]))[0]
        if self.terminal == "zero":
            counted[terminated] = 0.0
        shaping = self.discount * counted - self._values
        if self._resets_on_next_step:
            shaping[self._over] = 0.0  # This step was the reset and belongs to no episode.
        self._values = values
        self._over = np.asarray(terminated | truncated)
        parts = {"reward_original": np.array(rewards), "shaping": shaping}
        present = {f"_{name}": np.ones(self.num_envs, dtype=bool) for name in parts}
        infos = {**infos, **parts, **present}
        return observations, _mix(rewards, shaping, self.weight), terminated, truncated, infos

    def _potential_of(self, observations: Any) -> np.ndarray:
        return self.potential(observations if self.view is None else self.view(observations))


def _mix(reward: Any, shaping: Any, weight: float | None) -> Any:
    return reward + shaping if weight is None else (1 - weight) * reward + weight * shaping


def _batch_of_one(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {name: np.asarray(part)[None] for name, part in observation.items()}
    return np.asarray(observation)[None]


def _checked(
    potential: Any,
    weight: float | None,
    discount: float,
    terminal: str,
    view: View | None,
    space: gymnasium.Space,
) -> Potential:
    """Checks the arguments of a wrapper and return its potential."""
    if weight is not None and not 0 <= weight <= 1:
        raise ArgumentError(
            f"weight is {weight}; it is the share of the shaping reward, from 0 (none of it) to 1 "
            "(nothing else), or None to add the shaping reward to the original one."
        )
    if not 0 <= discount <= 1:
        raise ArgumentError(f"discount is {discount}; give the discount of the agent, from 0 to 1.")
    if terminal not in ("zero", "keep"):
        raise ArgumentError(
            f"terminal is {terminal!r}; choose 'zero' (the potential of a terminal state counts as "
            "0) or 'keep' (it counts as it is)."
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
            f"discount is {discount}, but {potential.name} was made for {potential.discount}. Use "
            "the discount of the agent for both."
        )
    if view is None and isinstance(space, gymnasium.spaces.Dict | gymnasium.spaces.Tuple):
        raise ArgumentError(
            f"observations are a {type(space).__name__}: select the part that the potential takes "
            "with view, for example view=lambda observation: observation['image']."
        )
    if view is None and potential.shape not in (None, space.shape):
        raise ArgumentError(
            f"the environment's observations have shape {space.shape}, and {potential.name} takes "
            f"{potential.shape}. Fit on what the agent sees, or give a view: a function from the "
            "agent's observations to those of the potential."
        )
    return potential
