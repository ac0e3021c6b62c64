"""Wrappers whose map learns from the steps that pass through them, for any agent.

The shaping reward of a step from s to s' is `discount * phi(s') - phi(s)`, where phi(s) is what the
potential was when s was reached. Rewards that are shaped in this way with a potential that changes
still have the same optimal policies (Devlin and Kudenko 2012).
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from drogo.data.step import NumberOfStep, info_of, number_or_function, split_rewards
from drogo.use.online.base import AbstractOnlineMap
from drogo.use.online.shaping import AbstractShaping
from drogo.use.shaping import last_observations, mixed


class OnlineShaping(gymnasium.Wrapper):
    """Shapes the rewards of an environment by a map that learns from its steps.

    The original reward is in `info["reward_original"]`, and the shaping reward in
    `info["shaping"]`.

    Args:
        env: The environment.
        online: The map, which has the weight and the discount.
        terminal_reward: The value of a terminal state, in units of reward: a number, or a function
            of the last `Step` of an episode, as in `collect`. By default
            `info["terminal_reward"]`, or else 0.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        online: AbstractOnlineMap,
        *,
        terminal_reward: NumberOfStep = None,
    ) -> None:
        super().__init__(env)
        online.check_spaces(env.observation_space, env.action_space)
        self.online = online
        self.terminal_reward = number_or_function("terminal_reward", terminal_reward)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._before = np.array(observation)  # some environments write into what they returned
        self._value = float(self.online.potential(np.asarray(observation)[None])[0])
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        online, before, after = self.online, [self._before], [observation]
        own, worth = split_rewards(
            before, [action], [float(reward)], after, [terminated], [info], self.terminal_reward
        )
        online.observe(before, [action], own, after, [terminated], worth)
        online.train()
        value = float(online.potential(np.asarray(observation)[None])[0])
        counted = 0.0 if terminated and online.terminal == "zero" else value
        shaping = online.discount * counted - self._value
        self._before, self._value = np.array(observation), value
        info = {**info, "reward_original": reward, "shaping": shaping}
        return (
            observation,
            float(mixed(reward, shaping, online.weight)),
            terminated,
            truncated,
            info,
        )


class BonusWrapper(gymnasium.Wrapper):
    """Changes the rewards of an environment by anything that learns from its steps, such as
    `LearnedCounts` or `RND`.

    The original reward is in `info["reward_original"]`, and what was added in `info["bonus"]`.

    Args:
        env: The environment.
        shaping: What changes its rewards.
    """

    def __init__(self, env: gymnasium.Env, shaping: AbstractShaping) -> None:
        super().__init__(env)
        self.shaping = shaping

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._before = np.array(observation)  # some environments write into what they returned
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        before, after = self._before[None], np.array(observation)[None]
        worth = float(info.get("terminal_reward") or 0.0) * bool(terminated)
        self.shaping.observe(
            before, [action], [float(reward) - worth], after, [terminated], [worth]
        )
        self.shaping.train()
        own = float(reward)
        (given,) = self.shaping.shaped([own], before, after, [terminated], [action])
        self._before = after[0]
        info = {**info, "reward_original": reward, "bonus": float(given) - own}
        return observation, float(given), terminated, truncated, info


class VectorOnlineShaping(gymnasium.vector.VectorWrapper):
    """Shapes the rewards of a vector of environments by a map that learns from all their steps.

    All autoreset modes are supported. With a reset on the next step, that step is none: the map
    does not see it, and its shaping reward is 0.

    Args:
        env: The vector of environments.
        online: The map, which has the weight and the discount.
        terminal_reward: As in `OnlineShaping`.
    """

    def __init__(
        self, env: VectorEnv, online: AbstractOnlineMap, *, terminal_reward: NumberOfStep = None
    ) -> None:
        super().__init__(env)
        online.check_spaces(env.single_observation_space, env.single_action_space)
        self.online = online
        self.terminal_reward = number_or_function("terminal_reward", terminal_reward)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(**kwargs)
        self._before = np.array(observations)
        self._values = self.online.potential(self._before)
        self._over = np.zeros(self.num_envs, dtype=bool)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        online, reached = self.online, np.array(observations)
        ended, last = last_observations(self, infos)
        if ended.size:
            reached[ended] = last
        mode = self.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        real = ~self._over if mode == AutoresetMode.NEXT_STEP else np.ones_like(self._over)
        told = [info_of(infos, k) for k in range(self.num_envs)]
        taken, before = np.asarray(actions), self._before
        own, worth = split_rewards(
            before, taken, rewards, reached, terminated, told, self.terminal_reward
        )
        columns = (before, taken, own, reached, terminated, worth)
        online.observe(*(column[real] for column in columns))
        online.train()
        counted = online.potential(reached)
        values = counted if not ended.size else online.potential(observations)
        if online.terminal == "zero":
            counted = np.where(terminated, 0.0, counted)
        shaping = np.where(real, online.discount * counted - self._values, 0.0)
        self._before, self._values = np.array(observations), values
        self._over = np.asarray(terminated | truncated)
        parts = {"reward_original": np.array(rewards), "shaping": shaping}
        present = {f"_{name}": np.ones(self.num_envs, dtype=bool) for name in parts}
        mix = mixed(np.asarray(rewards, np.float64), shaping, online.weight)
        return observations, mix, terminated, truncated, {**infos, **parts, **present}
