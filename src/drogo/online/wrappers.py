"""Wrappers whose map learns from the steps that pass through them, for any agent.

The potential of a state counts as it was when the state was reached. Rewards that are shaped in
this way with a potential that changes keep their optimal policies (Devlin and Kudenko 2012).
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from drogo.data.step import NumberOfStep, info_of, number_or_function, split_rewards
from drogo.errors import ArgumentTypeError
from drogo.online.base import AbstractOnlineMap
from drogo.use.shaping import is_reset, last_observations, parts_of_rewards


class OnlineShaping(gymnasium.Wrapper):
    """Shapes the rewards of an environment by a map that learns from its steps.

    The original reward is in `info["reward_original"]`, and the shaping reward in
    `info["shaping"]`.

    Args:
        env: The environment.
        online: The map, which has the weight and the discount.
        terminal_reward: The reward of a terminal state itself: a number, or a function of the last
            `Step` of an episode, as in `collect`. By default `info["terminal_reward"]`, or else 0.
    """

    def __init__(
        self, env: gymnasium.Env, online: AbstractOnlineMap, *, terminal_reward: NumberOfStep = None
    ) -> None:
        super().__init__(env)
        self.online = check_map(online)
        online.check_spaces(env.observation_space, env.action_space)
        self.terminal_reward = number_or_function("terminal_reward", terminal_reward)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._before = np.array(observation)[None]  # a copy: environments reuse their arrays
        self._phi = self.online.potential(self._before)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        online, before, after = self.online, self._before, np.array(observation)[None]
        costs, values = split_rewards(
            before, [action], [float(reward)], after, [terminated], [info], self.terminal_reward
        )
        online.observe(before, [action], costs, after, [terminated], values)
        online.train()
        phi, self._before, self._phi = self._phi, after, online.potential(after)
        (mixed,), (shaping,) = online.shaping.reward_of([reward], phi, self._phi, [terminated])
        info = {**info, "reward_original": reward, "shaping": float(shaping)}
        return observation, float(mixed), terminated, truncated, info


class VectorOnlineShaping(gymnasium.vector.VectorWrapper):
    """Shapes the rewards of a vector of environments by a map that learns from all their steps.

    All autoreset modes are supported. With a reset on the next step, the map does not see that
    step, and its shaping reward is 0.

    Args:
        env: The vector of environments.
        online: As in `OnlineShaping`.
        terminal_reward: As in `OnlineShaping`.
    """

    def __init__(
        self, env: VectorEnv, online: AbstractOnlineMap, *, terminal_reward: NumberOfStep = None
    ) -> None:
        super().__init__(env)
        self.online = check_map(online)
        online.check_spaces(env.single_observation_space, env.single_action_space)
        self.terminal_reward = number_or_function("terminal_reward", terminal_reward)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(**kwargs)
        self._before, self._over = np.array(observations), np.zeros(self.num_envs, dtype=bool)
        self._phi = self.online.potential(self._before)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        online, reached = self.online, np.array(observations)
        over, last = last_observations(self, infos)
        if over.size:
            reached[over] = last
        real, before, taken = ~is_reset(self, self._over), self._before, np.asarray(actions)
        each = [info_of(infos, k) for k in range(self.num_envs)]
        costs, values = split_rewards(
            before, taken, rewards, reached, terminated, each, self.terminal_reward
        )
        columns = (before, taken, costs, reached, terminated, values)
        online.observe(*(column[real] for column in columns))
        online.train()
        phi_reached = online.potential(reached)
        phi, next_phi = np.where(real, (self._phi, phi_reached), 0.0)
        mixed, shaping = online.shaping.reward_of(rewards, phi, next_phi, terminated)
        self._before, self._over = np.array(observations), np.asarray(terminated | truncated)
        self._phi = online.potential(self._before) if over.size else phi_reached
        infos = {**infos, **parts_of_rewards(rewards, shaping)}
        return observations, mixed, terminated, truncated, infos


def check_map(online: Any) -> AbstractOnlineMap:
    """Returns an argument of the user that must be an online map."""
    if not isinstance(online, AbstractOnlineMap):
        raise ArgumentTypeError(
            f"online is {online!r}; give a drogo.OnlineMap or a drogo.OnlineTable.",
            argument="online",
        )
    return online
