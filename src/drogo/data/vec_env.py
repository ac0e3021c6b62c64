"""Environments that are not Gymnasium's own: those of Stable-Baselines3 are stepped as they are.

Stable-Baselines3 is not imported. What counts is the interface of its `VecEnv`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from drogo.errors import ArgumentTypeError

TERMINAL, TIME_LIMIT = "terminal_observation", "TimeLimit.truncated"
"""Where a `VecEnv` reports the last observation of an episode, and that it was cut off."""


@runtime_checkable
class VecEnv(Protocol):
    """The part of Stable-Baselines3's `VecEnv` that is needed to collect transitions."""

    num_envs: int
    observation_space: gymnasium.Space
    """The space of a single environment."""
    action_space: gymnasium.Space
    """The space of a single environment."""

    def seed(self, seed: int | None = None) -> Any:
        """Sets the seeds of the next reset: `seed`, `seed + 1` and so on."""
        ...

    def reset(self) -> Any:
        """Resets all environments and returns their observations."""
        ...

    def step_async(self, actions: Any) -> None:
        """Begins a step of all environments."""
        ...

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, Sequence[dict[str, Any]]]:
        """Returns observations, rewards, which episodes are over, and infos."""
        ...


class AsVectorEnv(VectorEnv):
    """A `VecEnv` with the interface of a Gymnasium vector that resets in the same step.

    Args:
        envs: The environments.
    """

    def __init__(self, envs: VecEnv) -> None:
        self.envs = envs
        self.num_envs = envs.num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = envs.observation_space
        self.single_action_space = envs.action_space
        self.observation_space = batch_space(envs.observation_space, envs.num_envs)
        self.action_space = batch_space(envs.action_space, envs.num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if isinstance(seed, int):
            self.envs.seed(seed)
        return self.envs.reset(), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self.envs.step_async(actions)
        observations, rewards, over, infos = self.envs.step_wait()
        over = np.asarray(over, dtype=bool)
        truncated = over & np.array([bool(info.get(TIME_LIMIT)) for info in infos])
        merged = _by_name(infos)
        merged["_final_obs"], merged["final_obs"] = over, [None] * self.num_envs
        for k in np.flatnonzero(over).tolist():
            if TERMINAL not in infos[k]:
                raise ArgumentTypeError(
                    f"environment {k} of {self.envs} ended an episode without reporting "
                    f"info[{TERMINAL!r}], so its last observation is unknown."
                )
            merged["final_obs"][k] = _like(observations, infos[k][TERMINAL])
        return observations, rewards, over & ~truncated, truncated, merged


def as_gymnasium(env: object) -> gymnasium.Env | VectorEnv:
    """Returns an environment, or a vector of them, with an interface of Gymnasium.

    Args:
        env: An environment of Gymnasium, a vector of them, or a `VecEnv` of Stable-Baselines3.

    Raises:
        ArgumentTypeError: It is something else.
    """
    if isinstance(env, gymnasium.Env | VectorEnv):
        return env
    if isinstance(env, VecEnv):
        return AsVectorEnv(env)
    kind = f"{type(env).__module__}.{type(env).__qualname__}"
    raise ArgumentTypeError(
        f"env is a {kind}; it must be a Gymnasium environment, a vector of them, a VecEnv of "
        "Stable-Baselines3, or a JAX environment with the interface of gymnax or navix.",
        remedy="For any other source of data, use drogo.Transitions.from_arrays.",
    )


def _by_name(infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The infos of several environments as Gymnasium gives them: values, and who has them."""
    merged: dict[str, Any] = {}
    for name in {name for info in infos for name in info} - {TERMINAL}:
        merged[name] = [info.get(name) for info in infos]
        merged[f"_{name}"] = np.array([name in info for info in infos])
    return merged


def _like(batch: Any, observation: Any) -> Any:
    """An observation in the types of a batch: the last one is reported as the environment made it,
    but the others went through the arrays of the `VecEnv`."""
    if isinstance(batch, dict):
        return {name: _like(part, observation[name]) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(map(_like, batch, observation))
    return np.asarray(observation, dtype=batch.dtype)
