"""Maps that are learned while an agent of Stable-Baselines3 trains.

    online = OnlineMap(env.observation_space, env.action_space, lam=20.0)
    agent = DQN("MlpPolicy", env, replay_buffer_class=ShapedReplayBuffer,
                replay_buffer_kwargs={"shaping": online})
    agent.learn(20_000, callback=LearnMap(online))

    agent = PPO("MlpPolicy", env)
    agent.learn(100_000, callback=LearnMap(online))

The environment, its rewards and everything that the agent logs stay as they are. An off-policy
agent learns from rewards that are shaped with the newest map whenever they are drawn from its
replay; an on-policy agent from a rollout whose rewards are shaped before each of its updates.

This module needs the extra `sb3`.
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol, runtime_checkable

import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from drogo.errors import ArgumentError
from drogo.use.online.base import AbstractOnlineMap
from drogo.use.online.table import OnlineTable

EVERY = 1000
"""The metrics of the map are logged after so many calls, and at the end."""


@runtime_checkable
class Shaping(Protocol):
    """What changes the rewards of an agent while it learns: `OnlineMap`, `OnlineTable`, `RND`,
    `OwnValue`."""

    @property
    def steps(self) -> int:
        """How many steps were observed."""
        ...

    @property
    def metrics(self) -> Any:
        """Numbers for a logger."""
        ...

    def observe(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        next_observation: Any,
        terminated: Any,
        terminal_value: Any,
        /,
    ) -> None:
        """Takes some steps of the agent."""
        ...

    def train(self) -> None:
        """Learns what is due."""
        ...

    def shaped(
        self, reward: Any, observation: Any, next_observation: Any, terminated: Any, /
    ) -> np.ndarray:
        """Returns the rewards that the agent is given for some steps."""
        ...


class ShapedReplayBuffer(ReplayBuffer):
    """A replay buffer whose rewards are shaped when they are drawn, with the map of that moment.

    It holds the environment's own rewards. Use it with the callback `LearnMap`.

    Args:
        shaping: What shapes the rewards.
        *args: Those of `ReplayBuffer`.
        **kwargs: Those of `ReplayBuffer`.
    """

    def __init__(self, *args: Any, shaping: Shaping, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.optimize_memory_usage:
            raise ArgumentError(
                "a shaped replay needs the last observation of every episode, which a buffer with "
                "optimize_memory_usage=True does not keep. Leave it out."
            )
        self.shaping = shaping

    def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> ReplayBufferSamples:
        if self.shaping.steps == 0:
            raise ArgumentError(
                "nothing was observed for the map that shapes this replay.",
                remedy="Give the callback too: agent.learn(..., callback=LearnMap(online)).",
            )
        rows = (batch_inds, np.random.randint(0, high=self.n_envs, size=len(batch_inds)))  # noqa: NPY002  # as SB3 draws, from its seed
        before, after = self.observations[rows], self.next_observations[rows]
        ended = self.dones[rows] * (1 - self.timeouts[rows])
        reward = self._normalize_reward(self.rewards[rows], env)
        shape = (len(batch_inds), *(self.observation_space.shape or ()))  # SB3 adds one to a number
        seen = (before.reshape(shape), after.reshape(shape))
        reward = self.shaping.shaped(reward, seen[0], seen[1], ended > 0).astype(np.float32)
        data = (
            self._normalize_obs(before, env),
            self.actions[rows],
            self._normalize_obs(after, env),
            ended.reshape(-1, 1),
            reward.reshape(-1, 1),
        )
        return ReplayBufferSamples(*(self.to_torch(np.asarray(part)) for part in data))


class LearnMap(BaseCallback):
    """Lets a map learn from the steps that an agent takes.

    With an on-policy agent it also shapes the rewards of each rollout before the agent learns from
    it. The metrics of the map go to the agent's logger, under `map/`.

    Args:
        shaping: The map.
        explore: Whether the map chooses the exploratory actions of a `DQN` until a goal is found:
            with the probability `exploration_rate`, the agent goes where something was not tried
            yet. From then on, they are random again. By default, a map with optimism explores for
            a `DQN`.
        verbose: As in `BaseCallback`.
    """

    def __init__(self, shaping: Shaping, *, explore: bool | None = None, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.shaping, self.explore = shaping, explore
        self._rollout: list[tuple[np.ndarray, ...]] = []

    def _on_training_start(self) -> None:
        model = self.model
        if isinstance(model, OffPolicyAlgorithm):
            buffer = model.replay_buffer
            if getattr(buffer, "shaping", None) is not self.shaping:
                raise ArgumentError(
                    f"the replay of this {type(model).__name__} does not shape rewards with this "
                    "map, so the agent would never see it.",
                    remedy="Give replay_buffer_class=ShapedReplayBuffer and "
                    'replay_buffer_kwargs={"shaping": online} to the agent.',
                )
        elif not isinstance(model, OnPolicyAlgorithm):
            raise ArgumentError(f"{type(model).__name__} is neither on-policy nor off-policy.")
        normalised = model.get_vec_normalize_env()
        if normalised is not None and normalised.norm_obs and isinstance(self.shaping, OnlineTable):
            raise ArgumentError(
                "a VecNormalize that normalises observations does not give the last one of an "
                "episode back to the bit, and an OnlineTable would take it for a new state.",
                remedy="Use VecNormalize(..., norm_obs=False), or an OnlineMap.",
            )
        attach = getattr(self.shaping, "attach", None)
        if attach is not None:
            attach(model)
        is_optimistic = getattr(self.shaping, "optimism", None) is not None
        if self.explore or (self.explore is None and is_optimistic and isinstance(model, DQN)):
            explore_with(model, self.shaping)
        self._before = self._original(model._last_obs)

    def _original(self, observations: Any) -> np.ndarray:
        """Observations as the environment gave them, also behind a `VecNormalize`."""
        normalised = self.model.get_vec_normalize_env()
        seen = observations if normalised is None else normalised.get_original_obs()
        return np.array(seen)

    def _on_step(self) -> bool:
        local, normalised = self.locals, self.model.get_vec_normalize_env()
        first = self._original(local["new_obs"])
        after, dones = first.copy(), np.asarray(local["dones"])
        cut = np.zeros(len(dones), dtype=bool)
        for k in np.flatnonzero(dones):
            info = local["infos"][k]
            last = info.get("terminal_observation")
            if last is not None:
                after[k] = last if normalised is None else normalised.unnormalize_obs(last)
            cut[k] = info.get("TimeLimit.truncated", False)
        own = local["rewards"] if normalised is None else normalised.get_original_reward()
        ended = dones & ~cut
        actions = np.asarray(local["actions"]).reshape(len(dones), -1)[:, 0]
        values = [info.get("terminal_value") or 0.0 for info in local["infos"]]
        worth = np.where(ended, values, 0.0)
        self.shaping.observe(self._before, actions, own - worth, after, ended, worth)
        if isinstance(self.model, OnPolicyAlgorithm):
            self._rollout.append((self._before, after, np.array(local["rewards"]), ended))
        self._before = first
        self.shaping.train()
        if self.n_calls % EVERY == 0:
            self._log()
        return True

    def _on_rollout_end(self) -> None:
        model = self.model
        if not isinstance(model, OnPolicyAlgorithm):
            return
        before, after, reward, ended = (np.stack(part) for part in zip(*self._rollout, strict=True))
        self._rollout = []
        n = reward.size
        flat = [part.reshape(n, *part.shape[2:]) for part in (reward, before, after, ended)]
        shaped = self.shaping.shaped(*flat).reshape(reward.shape)
        buffer: RolloutBuffer = model.rollout_buffer  # pyright: ignore[reportAssignmentType]
        # What the agent itself added, the value after a time limit, stays.
        buffer.rewards += (shaped - reward).astype(buffer.rewards.dtype)
        buffer.compute_returns_and_advantage(self.locals["values"], self.locals["dones"])
        self._log()

    def _log(self) -> None:
        for name, number in self.shaping.metrics.items():
            self.logger.record(f"map/{name}", number)

    def _on_training_end(self) -> None:
        self._log()
        if not getattr(self.shaping, "found", True):
            worth = getattr(self.shaping, "optimism", None)
            which = "" if worth is None else f" worth {worth:g} or more"
            warnings.warn(
                f"no terminal state{which} was seen in {self.shaping.steps:,} steps. The map knows "
                "only what was not tried yet, and with optimism=None nothing at all: train for "
                "longer, or start episodes closer to the goal.",
                UserWarning,
                stacklevel=2,
            )


def explore_with(agent: Any, online: Any) -> None:
    """Lets a map choose the exploratory actions of a `DQN` until a goal is found.

    Args:
        agent: The agent. Its method `predict` is replaced: until then, a call that is not
            deterministic takes the map's action with the probability `agent.exploration_rate`.
        online: The map, an `OnlineMap` or `OnlineTable`.
    """
    if not isinstance(agent, DQN) or not isinstance(online, AbstractOnlineMap):
        raise ArgumentError(
            f"explore=True is for a DQN with a map, not for a {type(agent).__name__} with a "
            f"{type(online).__name__}.",
            remedy="Leave explore out: the map then only shapes rewards.",
        )
    rng = np.random.default_rng(agent.seed)

    def predict(
        observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[np.ndarray, Any]:
        if not (deterministic or online.found) and rng.random() < agent.exploration_rate:
            given = np.asarray(observation)
            is_batch = given.shape != online.shape
            actions = online.act(given if is_batch else given[None], rng)
            return (actions if is_batch else actions[0]), state
        rest = deterministic or not online.found
        return DQN.predict(agent, observation, state, episode_start, deterministic=rest)

    agent.predict = predict
