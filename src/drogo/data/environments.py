"""Environments with an interface other than Gymnasium's: the `VecEnv` of Stable-Baselines3 and JAX
environments. The packages that define these interfaces are not imported."""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from drogo.errors import ArgumentTypeError

VEC_ENV = ("num_envs", "observation_space", "action_space", "reset", "step_async", "step_wait")
"""The attributes of a `VecEnv` that are used, besides `seed`."""
TERMINAL, TIME_LIMIT = "terminal_observation", "TimeLimit.truncated"
"""The infos in which a `VecEnv` reports the last observation of an episode and its truncation."""


def arguments(env: object, name: str) -> set[str]:
    """Returns the names of the arguments of a method; nothing if there is no such method."""
    method = getattr(env, name, None)
    return set(inspect.signature(method).parameters) if callable(method) else set()


def is_pure(env: object) -> bool:
    """Returns whether an environment, or the first of a pair, consists of pure JAX functions."""
    env = env[0] if isinstance(env, tuple) and env else env
    named = arguments(env, "reset") | arguments(env, "step")
    return hasattr(type(env), "step_env") or bool({"key", "rng", "timestep"} & named)


class AsVectorEnv(VectorEnv):
    """A `VecEnv` with the interface of a Gymnasium vector that resets in the same step."""

    def __init__(self, envs: Any) -> None:
        self.envs, self.num_envs = envs, envs.num_envs
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
        merged: dict[str, Any] = {}
        for name in {name for info in infos for name in info} - {TERMINAL}:
            merged[name] = [info.get(name) for info in infos]
            merged[f"_{name}"] = np.array([name in info for info in infos])
        merged["_final_obs"], merged["final_obs"] = over, [None] * self.num_envs
        for k in np.flatnonzero(over).tolist():
            if TERMINAL not in infos[k]:
                problem = f"environment {k} ended an episode without info[{TERMINAL!r}]."
                raise ArgumentTypeError(problem, argument="env")
            merged["final_obs"][k] = _like(observations, infos[k][TERMINAL])
        return observations, rewards, over & ~truncated, truncated, merged


def _like(batch: Any, observation: Any) -> Any:
    """Returns an observation in the types of a batch. A `VecEnv` reports the last one of an episode
    in the types of the environment, but the others in those of its arrays."""
    if isinstance(batch, dict):
        return {name: _like(part, observation[name]) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(map(_like, batch, observation))
    return np.asarray(observation, dtype=batch.dtype)


def as_gymnasium(env: object) -> gymnasium.Env | VectorEnv:
    """Returns an environment of Gymnasium, a vector of them, or a `VecEnv` of Stable-Baselines3
    with an interface of Gymnasium."""
    if isinstance(env, gymnasium.Env | VectorEnv):
        return env
    if all(hasattr(env, name) for name in VEC_ENV):
        return AsVectorEnv(env)
    raise ArgumentTypeError(
        f"env is a {type(env).__module__}.{type(env).__qualname__}; it must be a Gymnasium "
        "environment, a vector of them, a VecEnv of Stable-Baselines3, or a JAX environment with "
        "the interface of gymnax or navix.",
        remedy="For any other source of data, use drogo.Transitions.from_arrays.",
        argument="env",
    )
