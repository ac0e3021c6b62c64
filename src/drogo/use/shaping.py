"""Wrappers that shape rewards by a potential, for one environment or a vector of them.

The shaping reward of a step from s to s' is `F = discount * phi(s') - phi(s)`. With a `weight` w
the agent is given the convex mix `(1 - w) r + w F` (the paper's way); without one, `r + F`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode

from drogo.errors import ArgumentError, ArgumentTypeError
from drogo.potential import Potential

View = Callable[[Any], Any]


class Shaper:
    """The arithmetic both wrappers share, and the checks of what they are given."""

    def __init__(
        self,
        potential: Any,
        weight: float | None,
        discount: float,
        terminal: str,
        view: View | None,
        space: gymnasium.Space,
    ) -> None:
        if weight is not None and not 0 <= weight <= 1:
            raise ArgumentError(
                f"weight is {weight}; it is the share of the shaping reward, from 0 (none of it) "
                "to 1 (nothing else). None adds the two instead."
            )
        if not 0 <= discount <= 1:
            raise ArgumentError(f"discount is {discount}; it is the agent's own, from 0 to 1.")
        if terminal not in ("zero", "keep"):
            raise ArgumentError(
                f"terminal is {terminal!r}; choose 'zero' (the potential of an end counts as 0) or "
                "'keep' (it counts as it is)."
            )
        if not callable(potential):
            raise ArgumentTypeError(
                f"potential is a {type(potential).__name__}; give a function of a batch of "
                "observations, result.potential(), or Potential.from_states(observations, values)."
            )
        self.potential = potential if isinstance(potential, Potential) else Potential(potential)
        if self.potential.discount not in (None, discount):
            raise ArgumentError(
                f"discount is {discount}, but {self.potential.name} was made for "
                f"{self.potential.discount}. Use the agent's discount for both."
            )
        if view is None:
            self._check_space(space)
        self.weight = weight
        self.discount = discount
        self.terminal = terminal
        self.view = view

    def _check_space(self, space: gymnasium.Space) -> None:
        if isinstance(space, gymnasium.spaces.Dict | gymnasium.spaces.Tuple):
            raise ArgumentError(
                f"observations are a {type(space).__name__}: say which part the potential is of "
                "with view, for example view=lambda observation: observation['image']."
            )
        expected = self.potential.shape
        if expected is not None and space.shape != expected:
            raise ArgumentError(
                f"the environment's observations have shape {space.shape}, and "
                f"{self.potential.name} takes {expected}. If the agent sees something else than "
                "the potential was made for, give a view: a function from the one to the other."
            )

    def values(self, observations: Any) -> np.ndarray:
        """The potential of a batch."""
        return self.potential(observations if self.view is None else self.view(observations))

    def shaping(self, before: Any, after: Any, terminated: Any) -> Any:
        """F, of numbers or arrays."""
        if self.terminal == "zero":
            after = np.where(terminated, 0.0, after)
        return self.discount * after - before

    def mix(self, reward: Any, shaping: Any) -> Any:
        if self.weight is None:
            return reward + shaping
        return (1 - self.weight) * reward + self.weight * shaping


class PotentialShaping(gymnasium.Wrapper, RecordConstructorArgs):
    """Shapes the rewards of one environment.

    - `potential`: `result.potential()`, a `Potential`, or any function of a batch of observations.
    - `weight`: share of the shaping reward in a convex mix, or None for the plain sum.
    - `discount`: the agent's own (`gamma` in Stable-Baselines3).
    - `terminal`: what the potential of an end counts as. `"zero"` leaves the best policies what
      they are, for any potential, if the plain sum is used (Ng et al. 1999, Grzes 2017). `"keep"`
      takes the potential as it is, as the paper does: episodes of different length, or that end
      in different places, then differ by what their ends are worth. For a fit with one goal both
      are the same, its potential being 0 there.
    - `view`: what the potential sees of an observation, if not all of it.

    A truncated episode goes on without the agent: its last observation counts in full.
    `info["reward_original"]` and `info["shaping"]` tell the two apart.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        potential: Any,
        weight: float | None = None,
        discount: float = 0.99,
        *,
        terminal: str = "zero",
        view: View | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            potential=potential,
            weight=weight,
            discount=discount,
            terminal=terminal,
            view=view,
        )
        gymnasium.Wrapper.__init__(self, env)
        batched = None if view is None else lambda batch: np.asarray(view(batch[0]))[None]
        space = env.observation_space
        self.shaper = Shaper(potential, weight, discount, terminal, batched, space)
        self._value = np.nan

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._value = self._potential(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        value = self._potential(observation)
        shaping = float(self.shaper.shaping(self._value, value, terminated))
        self._value = value
        info = {**info, "reward_original": reward, "shaping": shaping}
        return observation, float(self.shaper.mix(reward, shaping)), terminated, truncated, info

    def _potential(self, observation: Any) -> float:
        batch = [observation] if self.shaper.view is not None else np.asarray(observation)[None]
        return float(self.shaper.values(batch)[0])


class VectorPotentialShaping(gymnasium.vector.VectorWrapper, RecordConstructorArgs):
    """Shapes the rewards of a vector of environments; options as in `PotentialShaping`.

    `view` is called with a batch. All modes of resetting are handled: on the next step (whose
    reward is then 0, shaped or not), on the same step (the step led to `infos["final_obs"]`, not to
    the observation returned), and by the user.
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        potential: Any,
        weight: float | None = None,
        discount: float = 0.99,
        *,
        terminal: str = "zero",
        view: View | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            potential=potential,
            weight=weight,
            discount=discount,
            terminal=terminal,
            view=view,
        )
        gymnasium.vector.VectorWrapper.__init__(self, env)
        space = env.single_observation_space
        self.shaper = Shaper(potential, weight, discount, terminal, view, space)
        mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._resets_on_next_step = mode == AutoresetMode.NEXT_STEP
        self._values = np.full(self.num_envs, np.nan)
        self._over = np.zeros(self.num_envs, dtype=bool)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(**kwargs)
        self._values = self.shaper.values(observations)
        self._over = np.zeros(self.num_envs, dtype=bool)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        following = self.shaper.values(observations)
        arrived = following.copy()
        for k in np.flatnonzero(infos.get("_final_obs", ())):
            arrived[k] = self.shaper.values(self._batch_of_one(infos["final_obs"][k]))[0]
        shaping = self.shaper.shaping(self._values, arrived, terminated)
        if self._resets_on_next_step:  # this step was the reset, and no step of an episode
            shaping = np.where(self._over, 0.0, shaping)
        self._values = following
        self._over = np.asarray(terminated | truncated)
        told = np.ones(self.num_envs, dtype=bool)
        added = {"reward_original": np.array(rewards), "shaping": shaping}
        infos = {**infos, **added, "_reward_original": told, "_shaping": told}
        return observations, self.shaper.mix(rewards, shaping), terminated, truncated, infos

    def _batch_of_one(self, observation: Any) -> Any:
        if isinstance(observation, dict):
            return {name: np.asarray(part)[None] for name, part in observation.items()}
        return np.asarray(observation)[None]
