"""Maps that are learned while an agent of Stable-Baselines3 trains.

    online = OnlineMap(env.observation_space, env.action_space, lam=20.0)
    agent = ExploringDQN("MlpPolicy", env, replay_buffer_class=ShapedReplayBuffer,
                         replay_buffer_kwargs={"shaping": online})
    agent.learn(20_000, callback=LearnMap(online))

    agent = PPO("MlpPolicy", env)
    agent.learn(100_000, callback=LearnMap(online))

The environment, its rewards and everything that the agent logs stay as they are. An off-policy
agent learns from rewards that are shaped with the newest map whenever they are drawn from its
replay; an on-policy agent from a rollout whose rewards are shaped before each of its updates.
`ExploringDQN` is a `DQN` that the map also leads: to what was not tried yet, and then to the goal.
Any other agent works as well, and explores as it always does.

This module needs the extra `sb3`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecTransposeImage, is_vecenv_wrapped

from drogo.data.step import NumberOfStep, number_or_function, split_rewards
from drogo.errors import ArgumentError
from drogo.use.online.base import AbstractOnlineMap
from drogo.use.online.shaping import AbstractShaping

RANDOM = 0.1
"""The share of random actions among those of a map: a network that is wrong about what was tried
would otherwise lead in circles."""
EVERY = 1000
"""The metrics of the map are logged after so many calls, and at the end."""


class ShapedReplayBuffer(ReplayBuffer):
    """A replay buffer whose rewards are shaped when they are drawn, with the map of that moment.

    It holds the environment's own rewards. Use it with the callback `LearnMap`.

    Neither the file of `agent.save_replay_buffer` nor, once the agent has trained, that of
    `agent.save` has the map in it; `LearnMap` gives the buffer one again.

    Args:
        shaping: What shapes the rewards; None if `LearnMap` is to say.
        *args: Those of `ReplayBuffer`.
        **kwargs: Those of `ReplayBuffer`.
    """

    _observed: int = 0
    """How many steps the map had observed when the last one was added."""
    _warned: bool = False

    def __init__(self, *args: Any, shaping: AbstractShaping | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.optimize_memory_usage:
            raise ArgumentError(
                "a shaped replay needs the last observation of every episode, which a buffer with "
                "optimize_memory_usage=True does not keep. Leave it out."
            )
        self.shaping = shaping

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "shaping": None}

    def add(self, *args: Any, **kwargs: Any) -> None:
        """Takes a step of each environment, as in `ReplayBuffer`."""
        super().add(*args, **kwargs)
        steps = 0 if self.shaping is None else self.shaping.steps
        if steps == self._observed > 0 and not self._warned:
            self._warned = True
            warnings.warn(
                "the map that shapes this replay did not observe the last step: it does not learn "
                "any more. Give the callback too: agent.learn(..., callback=LearnMap(online)).",
                UserWarning,
                stacklevel=2,
            )
        self._observed = steps

    def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> ReplayBufferSamples:
        if self.shaping is None or self.shaping.steps == 0:
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
        action = self.actions[rows][:, 0]
        reward = self.shaping.shaped(reward, *seen, ended > 0, action).astype(np.float32)
        data = (
            self._normalize_obs(before, env),
            self.actions[rows],
            self._normalize_obs(after, env),
            ended.reshape(-1, 1),
            reward.reshape(-1, 1),
        )
        return ReplayBufferSamples(*(self.to_torch(np.asarray(part)) for part in data))


class ExploringDQN(DQN):
    """A `DQN` that a map explores for.

    After its first steps, which are random (`learning_starts`), and until a goal is found it does
    what the map promises most of while it trains, which leads to what was not tried yet: there is
    nothing else worth doing. From then on it is epsilon-greedy, and the actions that a `DQN` would
    draw at random are the map's. `LearnMap` tells it which map. Its arguments, and what it predicts
    once it is trained, are those of `DQN`.
    """

    explorer: AbstractOnlineMap | None = None

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the actions of the next step of training, twice: for the environments, and for
        the replay."""
        online = self.explorer
        if online is None or self.num_timesteps < learning_starts:
            return super()._sample_action(learning_starts, action_noise, n_envs)
        # The generator that SB3 draws from, with its seed.
        rng = np.random.Generator(np.random.get_bit_generator())  # pyright: ignore[reportAttributeAccessIssue]
        seen: Any = self._last_obs
        if online.found and rng.random() >= self.exploration_rate:
            actions, _ = self.predict(seen, deterministic=True)
            return actions, actions
        normalised = self.get_vec_normalize_env()
        seen = seen if normalised is None else normalised.unnormalize_obs(seen)
        actions = online.act(seen, rng)
        is_random = rng.random(n_envs) < RANDOM
        actions = np.where(is_random, rng.integers(online.n_actions, size=n_envs), actions)
        return actions, actions

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "explorer"]


class LearnMap(BaseCallback):
    """Lets a map learn from the steps that an agent takes.

    With an on-policy agent it also shapes the rewards of each rollout before the agent learns from
    it. The metrics of the map go to the agent's logger, under `map/`.

    Args:
        shaping: The map, or one of its rivals.
        terminal_reward: The value of a terminal state, in units of reward: a number, or a function
            of the last `Step` of an episode, as in `collect`. By default
            `info["terminal_reward"]`, or else 0.
        verbose: As in `BaseCallback`.
    """

    def __init__(
        self, shaping: AbstractShaping, *, terminal_reward: NumberOfStep = None, verbose: int = 0
    ) -> None:
        super().__init__(verbose)
        self.shaping = shaping
        self.terminal_reward = number_or_function("terminal_reward", terminal_reward)
        self._rollout: list[tuple[np.ndarray, ...]] = []

    def _on_training_start(self) -> None:
        model = self.model
        if isinstance(model, OffPolicyAlgorithm):
            self._check_replay(model)
        elif isinstance(model, OnPolicyAlgorithm):
            # What shapes a replay is known by the same name (`drogo.use.sb3_files`).
            model.rollout_buffer.shaping = self.shaping  # pyright: ignore[reportAttributeAccessIssue]
        else:
            raise ArgumentError(f"{type(model).__name__} is neither on-policy nor off-policy.")
        self.shaping.attach(model)
        self._check_normalisation()
        if isinstance(model, ExploringDQN):
            shaping = self.shaping
            model.explorer = shaping if isinstance(shaping, AbstractOnlineMap) else None
        self._rollout = []  # what an interrupted rollout may have left
        self._before = self._original(model._last_obs)

    def _check_replay(self, model: OffPolicyAlgorithm) -> None:
        buffer = model.replay_buffer
        if model.n_steps > 1:
            raise ArgumentError(
                f"n_steps is {model.n_steps}; a shaped replay draws single steps.",
                remedy=f"Make the {type(model).__name__} with n_steps=1.",
            )
        if isinstance(buffer, ShapedReplayBuffer) and buffer.shaping is None:
            buffer.shaping = self.shaping
        if not isinstance(buffer, ShapedReplayBuffer) or buffer.shaping is not self.shaping:
            raise ArgumentError(
                f"the replay of this {type(model).__name__} does not shape rewards with this "
                "map, so the agent would never see it.",
                remedy="Give replay_buffer_class=ShapedReplayBuffer and "
                'replay_buffer_kwargs={"shaping": online} to the agent.',
            )
        # The agent makes no further buffer of them, and would save the map with them.
        model.replay_buffer_kwargs = {**model.replay_buffer_kwargs, "shaping": None}

    def _check_normalisation(self) -> None:
        normalised, env = self.model.get_vec_normalize_env(), self.model.get_env()
        if normalised is None or not normalised.norm_obs or env is None:
            return
        if self.shaping.needs_exact_observations or is_vecenv_wrapped(env, VecTransposeImage):
            raise ArgumentError(
                "a VecNormalize that normalises observations does not give the last one of an "
                "episode back to the bit, so that a table would take it for a new state, nor the "
                "axes of an image as the agent sees them.",
                remedy="Use VecNormalize(..., norm_obs=False), or an OnlineMap of numbers.",
            )
        if normalised.observation_space.shape != env.observation_space.shape:
            raise ArgumentError(
                "a wrapper around a VecNormalize, such as VecFrameStack, changes the shape of the "
                "observations, so that they cannot be given to the map as they were before they "
                "were normalised.",
                remedy="Put the VecNormalize outermost: VecNormalize(VecFrameStack(env, ...)).",
            )

    def _original(self, observations: Any) -> np.ndarray:
        """Observations as the agent would see them without a `VecNormalize`."""
        normalised = self.model.get_vec_normalize_env()
        if normalised is None or not normalised.norm_obs:
            return np.array(observations)
        return np.array(normalised.get_original_obs())

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
        costs, worth = split_rewards(
            self._before, actions, own, after, ended, local["infos"], self.terminal_reward
        )
        self.shaping.observe(self._before, actions, costs, after, ended, worth)
        if isinstance(self.model, OnPolicyAlgorithm):
            own = np.array(local["rewards"])
            self._rollout.append((own, self._before, after, ended, actions))
        self._before = first
        self.shaping.train()
        if self.n_calls % EVERY == 0:
            self._log()
        return True

    def _on_rollout_end(self) -> None:
        model = self.model
        if not isinstance(model, OnPolicyAlgorithm):
            return
        parts = [np.stack(part) for part in zip(*self._rollout, strict=True)]
        self._rollout = []
        reward, n = parts[0], parts[0].size
        flat = [part.reshape(n, *part.shape[2:]) for part in parts]
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
        for complaint in self.shaping.complaints():
            warnings.warn(complaint, UserWarning, stacklevel=2)
