"""The interfaces of JAX environments, told apart without importing JAX."""

from __future__ import annotations

import inspect
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class GymnaxEnv(Protocol):
    """The part of an environment of gymnax that is needed to collect transitions."""

    def reset(self, key: Any, params: Any) -> tuple[Any, Any]:
        """Returns the first observation and state of an episode."""
        ...

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> tuple[Any, ...]:
        """Returns the next observation and state, the reward, done, and infos. Does not reset."""
        ...

    def action_space(self, params: Any) -> Any:
        """Returns the actions: a space with `n`, or with `low`, `high` and `shape`."""
        ...


@runtime_checkable
class NavixEnv(Protocol):
    """The part of an environment of navix that is needed to collect transitions."""

    action_space: Any
    """A space with `n`, or with `minimum`, `maximum` and `shape`."""
    max_steps: Any

    def reset(self, key: Any) -> Any:
        """Returns the first timestep of an episode."""
        ...

    def step(self, timestep: Any, action: Any) -> Any:
        """Returns the next timestep."""
        ...


def arguments(env: object, name: str) -> set[str]:
    """Returns the names of the arguments of a method, if there is one of this name."""
    method = getattr(env, name, None)
    return set(inspect.signature(method).parameters) if callable(method) else set()


def is_pure(env: object) -> bool:
    """Whether the methods of an environment, or of the first of a pair, are functions of a key."""
    env = env[0] if isinstance(env, tuple) and env else env
    return (
        hasattr(type(env), "step_env")
        or bool({"key", "rng"} & (arguments(env, "reset") | arguments(env, "step")))
        or "timestep" in arguments(env, "step")
    )
