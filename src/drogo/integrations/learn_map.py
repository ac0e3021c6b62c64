"""`LearnMap`, which lets a map learn while an agent trains, and what shapes the agent's rewards."""

import warnings
from typing import Any

import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecTransposeImage, is_vecenv_wrapped

from drogo.data.step import NumberOfStep, number_or_function
from drogo.errors import ArgumentError, check_whole
from drogo.online.base import AbstractOnlineMap
from drogo.use.shaping import AbstractShaping

RANDOM = 0.1
"""The share of random actions among those of a map: a wrong network would lead in circles."""
EVERY = 1000  # The number of calls between two records of the map's metrics.
CALLBACK = "Give the callback too: agent.learn(..., callback=LearnMap(online))."


class ShapedReplayBuffer(ReplayBuffer):
    """A replay buffer whose rewards are shaped when they are sampled, with the map at that time.

    It holds the original rewards. `LearnMap` installs it in an agent with a `ReplayBuffer`. The
    files of an agent and of its replay do not hold the map; `LearnMap` gives the buffer one again.
    """

    shaping: AbstractShaping | None = None
    _observed: int = 0  # The number of steps that the map had observed when the last one was added.
    _warned: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "shaping": None}

    def add(self, *args: Any, **kwargs: Any) -> None:
        """Takes a step of each environment, as in `ReplayBuffer`."""
        super().add(*args, **kwargs)
        steps = 0 if self.shaping is None else self.shaping.steps
        if steps == self._observed > 0 and not self._warned:
            self._warned = True
            problem = "the map that shapes this replay did not observe the last step."
            warnings.warn(f"{problem} {CALLBACK}", UserWarning, stacklevel=2)
        self._observed = steps

    def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> ReplayBufferSamples:
        if self.shaping is None or self.shaping.steps == 0:
            problem = "nothing was observed for the map that shapes this replay."
            raise ArgumentError(problem, remedy=CALLBACK, argument="callback")
        rows = (batch_inds, np.random.randint(0, high=self.n_envs, size=len(batch_inds)))  # noqa: NPY002  # as SB3 samples, from its seed
        parts = (self.observations, self.next_observations, self.actions)
        before, after, actions = (part[rows] for part in parts)
        terminated = self.dones[rows] * (1 - self.timeouts[rows])
        reward = self._normalize_reward(self.rewards[rows], env)
        shape = (len(batch_inds), *(self.observation_space.shape or ()))  # SB3 adds one to a number
        both = (before.reshape(shape), after.reshape(shape))
        shaped = self.shaping.shaped(reward, *both, terminated > 0, actions[:, 0])
        shown = [np.asarray(self._normalize_obs(part, env)) for part in (before, after)]
        columns = (terminated[:, None], shaped.astype(np.float32)[:, None])
        data = (shown[0], actions, shown[1], *columns)
        return ReplayBufferSamples(*map(self.to_torch, data))


class ExploringDQN(DQN):
    """A `DQN` that a map explores for.

    While it trains, after its first random steps (`learning_starts`) and until a goal is found, it
    acts on the map, which leads to what was not tried yet. From then on it is epsilon-greedy, and
    the map chooses where a `DQN` would choose at random. One in ten of the map's actions is random
    all the same. `LearnMap` gives it the map. Its arguments, and its predictions once it is
    trained, are those of `DQN`.
    """

    explorer: AbstractOnlineMap | None = None

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the actions of the next step, for the environments and for the replay."""
        online = self.explorer
        if online is None or self.num_timesteps < learning_starts:
            return super()._sample_action(learning_starts, action_noise, n_envs)
        # The generator that SB3 samples from, with its seed.
        rng = np.random.Generator(np.random.get_bit_generator())  # pyright: ignore[reportAttributeAccessIssue]
        seen: Any = self._last_obs
        if online.found and rng.random() >= self.exploration_rate:
            actions, _ = self.predict(seen, deterministic=True)
            return actions, actions
        actions = online.act(original(self, seen), rng)
        is_random = rng.random(n_envs) < RANDOM
        actions = np.where(is_random, rng.integers(online.n_actions, size=n_envs), actions)
        return actions, actions

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "explorer"]


def original(agent: Any, observations: Any) -> Any:
    """Returns observations as they are before a `VecNormalize` of the agent."""
    normalised = agent.get_vec_normalize_env()
    return observations if normalised is None else normalised.unnormalize_obs(observations)


class LearnMap(BaseCallback):
    """Lets a map learn from the steps that an agent takes, and shapes the agent's rewards with it.

    The replay of an off-policy agent becomes a `ShapedReplayBuffer`. The metrics of the map go to
    the agent's logger, under `map/`.

    Args:
        shaping: The map, or another `AbstractShaping`.
        terminal_reward: The reward of a terminal state itself: a number, or a function of the last
            `Step` of an episode, as in `collect`. By default `info["terminal_reward"]`; or else the
            map judges ends by their last rewards.
        verbose: As in `BaseCallback`.
    """

    def __init__(
        self, shaping: AbstractShaping, *, terminal_reward: NumberOfStep = None, verbose: int = 0
    ) -> None:
        super().__init__(check_whole("verbose", verbose, 0, 2))
        self.shaping = shaping
        self.terminal_reward = number_or_function("terminal_reward", terminal_reward)
        self._rollout: list[tuple[np.ndarray, ...]] = []

    def _on_training_start(self) -> None:
        model = self.model
        if not isinstance(model, OffPolicyAlgorithm | OnPolicyAlgorithm):
            raise ArgumentError(f"{model} is neither on-policy nor off-policy.", argument="agent")
        self.shaping.attach(model)
        self._check_normalisation()
        if isinstance(model, OffPolicyAlgorithm) and model.replay_buffer is not None:
            self._install_replay(model)
        elif isinstance(
            model, OnPolicyAlgorithm
        ):  # under the name that a shaped replay has for it (`drogo.integrations.sb3_files`)
            model.rollout_buffer.shaping = self.shaping  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(model, ExploringDQN):
            shaping = self.shaping
            model.explorer = shaping if isinstance(shaping, AbstractOnlineMap) else None
        self._rollout = []  # an interrupted rollout may have left steps
        self._before = self._original(model._last_obs)
        self._time = np.zeros(model.n_envs, np.int64)

    def _install_replay(self, model: OffPolicyAlgorithm) -> None:
        buffer = model.replay_buffer
        if model.n_steps > 1:
            problem = f"n_steps is {model.n_steps}; a shaped replay samples single steps: give 1."
            raise ArgumentError(problem, argument="n_steps")
        if getattr(buffer, "optimize_memory_usage", False):
            problem = "optimize_memory_usage=True loses the last observations of episodes."
            raise ArgumentError(problem, argument="optimize_memory_usage")
        if type(buffer) is ReplayBuffer:  # it keeps what it holds
            model.replay_buffer_class = buffer.__class__ = ShapedReplayBuffer
        if isinstance(buffer, ShapedReplayBuffer) and buffer.shaping is None:
            buffer.shaping = self.shaping
        if not isinstance(buffer, ShapedReplayBuffer) or buffer.shaping is not self.shaping:
            problem = f"the agent's {type(buffer).__name__} does not shape rewards with this map."
            remedy = "Make the agent with a plain ReplayBuffer, or use one LearnMap."
            raise ArgumentError(problem, remedy=remedy, argument="shaping")

    def _check_normalisation(self) -> None:
        normalised, env = self.model.get_vec_normalize_env(), self.model.get_env()
        if normalised is None or not normalised.norm_obs or env is None:
            return
        if self.shaping.needs_exact_observations or is_vecenv_wrapped(env, VecTransposeImage):
            problem = "norm_obs=True changes the axes of images and the last bits of observations, "
            problem += "which a table would take for new states."
            remedy = "Use VecNormalize(..., norm_obs=False), or an OnlineMap of numbers."
            raise ArgumentError(problem, remedy=remedy, argument="norm_obs")
        if normalised.observation_space.shape != env.observation_space.shape:
            problem = "a wrapper around a VecNormalize changes the shape of the observations."
            remedy = "Put the VecNormalize outermost: VecNormalize(VecFrameStack(env, ...))."
            raise ArgumentError(problem, remedy=remedy, argument="env")

    def _original(self, observations: Any) -> np.ndarray:
        """Returns observations as the agent would see them without a `VecNormalize`."""
        normalised = self.model.get_vec_normalize_env()
        if normalised is None or not normalised.norm_obs:
            return np.array(observations)
        return np.array(normalised.get_original_obs())

    def _on_step(self) -> bool:
        local, normalised = self.locals, self.model.get_vec_normalize_env()
        first = self._original(local["new_obs"])
        after, dones = first.copy(), np.asarray(local["dones"])
        terminated = dones.copy()
        for k in np.flatnonzero(dones):
            info = local["infos"][k]
            last = info.get("terminal_observation")
            if last is not None:
                after[k] = last if normalised is None else normalised.unnormalize_obs(last)
            terminated[k] = not info.get("TimeLimit.truncated", False)
        original = local["rewards"] if normalised is None else normalised.get_original_reward()
        actions = np.asarray(local["actions"]).reshape(len(dones), -1)[:, 0]
        before, self._before = self._before, first
        columns = (before, actions, original, after, terminated, local["infos"])
        self.shaping.learn_from(*columns, self.terminal_reward, self._time)
        self._time = np.where(dones, 0, self._time + 1)
        if isinstance(self.model, OnPolicyAlgorithm):
            self._rollout.append((np.array(local["rewards"]), before, after, terminated, actions))
        if self.n_calls % EVERY == 0:
            self._log()
        return True

    def _on_rollout_end(self) -> None:
        if not isinstance(self.model, OnPolicyAlgorithm):
            return
        parts, self._rollout = [np.stack(part) for part in zip(*self._rollout, strict=True)], []
        reward = parts[0]
        flat = [part.reshape(reward.size, *part.shape[2:]) for part in parts]
        shaped = self.shaping.shaped(*flat).reshape(reward.shape)
        buffer: RolloutBuffer = self.model.rollout_buffer  # pyright: ignore[reportAssignmentType]
        # The agent has added the value after a time limit, which stays.
        buffer.rewards += (shaped - reward).astype(buffer.rewards.dtype)
        values = torch.as_tensor(self.locals["values"])  # SBX has an array
        buffer.compute_returns_and_advantage(values, self.locals["dones"])
        self._log()

    def _log(self) -> None:
        for name, number in self.shaping.metrics.items():
            self.logger.record(f"map/{name}", number)

    def _on_training_end(self) -> None:
        self._log()
        for message in self.shaping.warnings():
            warnings.warn(message, UserWarning, stacklevel=2)
