"""`GoalShaping`: the rewards of goal environments, shaped by how well a state reaches a goal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from jaxtyping import Float

from drogo.errors import ArgumentError, check_choice, check_share
from drogo.use.shaping import mixed

GoalValue = Callable[[np.ndarray, np.ndarray], Any]
"""From a batch of observations and one of goals to a number for each pair: 0 in the goal, and less
the worse it is to get there."""
BEFORE, AFTER, ENDED = "seen_before", "seen_after", "ended"
"""The parts of `info` that a reward for another goal is computed from."""


class GoalShaping(gymnasium.Wrapper, RecordConstructorArgs):
    """Shapes the rewards of a goal environment, whose observations are dictionaries of an
    `observation`, an `achieved_goal` and a `desired_goal`.

    The shaping reward of a step from s to s' is `discount * phi(s', g) - phi(s, g)`, where g is the
    goal that the agent had when it took the step. `compute_reward` shapes the rewards of other
    goals too, so hindsight works: give `copy_info_dict=True` to the `HerReplayBuffer` of
    Stable-Baselines3. `info["reward_original"]` and `info["shaping"]` hold the two parts of the
    reward.

    Args:
        env: The goal environment.
        value: The potential: `goals.value(seed)` of a fit, or a function of a batch of observations
            and a batch of goals. The potential of the goal itself counts as 0.
        weight: The share of the shaping reward in the mix, or None to add it to the reward.
        discount: The discount of the agent.
        part: What of an observation the potential takes: "achieved_goal" or "observation".
    """

    def __init__(
        self,
        env: gymnasium.Env,
        value: GoalValue,
        weight: float | None = 0.5,
        discount: float = 0.99,
        *,
        part: str = "achieved_goal",
    ) -> None:
        RecordConstructorArgs.__init__(
            self, value=value, weight=weight, discount=discount, part=part
        )
        gymnasium.Wrapper.__init__(self, env)
        check_choice("part", part, ("achieved_goal", "observation"))
        known = getattr(env.observation_space, "spaces", {})
        needed = {part, "achieved_goal", "desired_goal"}
        if not needed <= set(known) or not env.has_wrapper_attr("compute_reward"):
            raise ArgumentError(
                f"the observations are {env.observation_space}; a goal environment has "
                f"{', '.join(sorted(needed))} among their parts, and a method compute_reward. "
                "PotentialShaping is for other environments."
            )
        self.value, self.part = value, part
        self.weight = None if weight is None else check_share("weight", weight)
        self.discount = check_share("discount", discount)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._before = observation
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        before, goal = self._before[self.part], self._before["desired_goal"]
        self._before = observation
        after = np.array(observation[self.part])
        seen = {BEFORE: np.array(before), AFTER: after, ENDED: terminated}
        arrived = self._arrived(observation["achieved_goal"], goal, info)
        shaping = float(self._shaping([seen], np.asarray(goal)[None], np.array([arrived]))[0])
        info = {**info, **seen, "reward_original": reward, "shaping": shaping}
        return observation, mixed(reward, shaping, self.weight), terminated, truncated, info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Returns the shaped rewards that steps would have had with other goals.

        Args:
            achieved_goal: What was reached: one, or a batch.
            desired_goal: The goals, likewise.
            info: The `info` of the step, or of each step of the batch.
        """
        own = self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info)
        batch = not isinstance(info, dict)
        infos, goals = (list(info), desired_goal) if batch else ([info], desired_goal[None])
        if not all(BEFORE in one for one in infos):
            raise ArgumentError(
                "it is not known where these steps began, because their info is empty.",
                remedy="Give copy_info_dict=True to HerReplayBuffer.",
            )
        arrived = np.atleast_1d(self._arrived(achieved_goal, desired_goal, info))
        shaping = self._shaping(infos, np.asarray(goals), arrived)
        rewards = mixed(np.asarray(own, np.float64), shaping if batch else shaping[0], self.weight)
        return np.asarray(rewards) if batch else float(rewards)

    def _arrived(self, achieved: Any, desired: Any, info: Any) -> Any:
        """Whether goals were reached, as far as the environment tells."""
        if self.env.has_wrapper_attr("compute_terminated"):
            return self.env.get_wrapper_attr("compute_terminated")(achieved, desired, info)
        return np.zeros(1 if isinstance(info, dict) else len(info), dtype=bool)

    def _shaping(
        self, infos: list[dict[str, Any]], goals: np.ndarray, arrived: np.ndarray
    ) -> Float[np.ndarray, " n"]:
        both = np.stack([one[name] for name in (BEFORE, AFTER) for one in infos])
        phi = np.asarray(self.value(both, np.concatenate([goals, goals])), dtype=np.float64)
        if phi.shape != (len(both),) or not np.isfinite(phi).all():
            raise ArgumentError(
                f"value returned {phi.shape} for {len(both)} observations and goals, or numbers "
                "that are not finite; it must return a finite number for each."
            )
        before, after = np.split(phi, 2)
        # Where the episode ended nothing follows, whichever goal a step is taken to have had.
        over = arrived | np.array([one[ENDED] for one in infos])
        return self.discount * np.where(over, 0.0, after) - before
