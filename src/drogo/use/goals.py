"""`GoalShaping`: the rewards of goal environments, shaped by how well a state reaches a goal."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from drogo.errors import ArgumentError, check_choice
from drogo.use.shaping import Shaping

GoalValue = Callable[[np.ndarray, np.ndarray], Any]
"""Gives each pair of an observation and a goal a number: 0 in the goal, and less far from it."""
BEFORE, AFTER, TERMINATED = "seen_before", "seen_after", "seen_terminated"
"""The entries of `info` from which the reward for another goal is computed."""


class GoalShaping(gymnasium.Wrapper, RecordConstructorArgs):
    """Shapes the rewards of a goal environment, whose observations are dictionaries of an
    `observation`, an `achieved_goal` and a `desired_goal`.

    The shaping reward of a step from s to s' is `discount * phi(s', g) - phi(s, g)`, where g is the
    goal that the agent had when it took the step. `compute_reward` shapes the rewards of other
    goals too, so hindsight works: give `copy_info_dict=True` to the `HerReplayBuffer` of
    Stable-Baselines3. `info["reward_original"]` and `info["shaping"]` hold the two parts of the
    reward.

    Args:
        value: The potential: `solution.value(seed)` of a solution of `drogo.Goals`, or a function
            of a batch of observations and a batch of goals. That of the goal itself counts as 0.
        weight: The share of the shaping reward in the mix, or None to add it to the reward.
        discount: The discount of the agent.
        part: The part of an observation that the potential takes: "achieved_goal" or
            "observation".
    """

    def __init__(
        self,
        env: gymnasium.Env,
        value: GoalValue,
        weight: float | None = None,
        discount: float = 0.99,
        *,
        part: str = "achieved_goal",
    ) -> None:
        options = {"weight": weight, "discount": discount, "part": part}
        RecordConstructorArgs.__init__(self, value=value, **options)
        gymnasium.Wrapper.__init__(self, env)
        check_choice("part", part, ("achieved_goal", "observation"))
        parts = getattr(env.observation_space, "spaces", {})
        needed = {part, "achieved_goal", "desired_goal"}
        if not needed <= set(parts) or not env.has_wrapper_attr("compute_reward"):
            wanted = f"a goal environment has parts {sorted(needed)}, and compute_reward."
            problem = f"the observations are {env.observation_space}; {wanted}"
            remedy = "Use PotentialShaping for other environments."
            raise ArgumentError(problem, remedy=remedy, argument="env")
        self.value, self.part, self.shaping = value, part, Shaping(weight, discount)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._before = observation
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        before, goal = np.array(self._before[self.part]), np.array(self._before["desired_goal"])
        after, self._before = np.array(observation[self.part]), observation
        seen = {BEFORE: before, AFTER: after, TERMINATED: terminated}
        arrived = self._arrived(observation["achieved_goal"], goal, info)
        (mixed,), (shaping,) = self._shaped([reward], [seen], goal[None], np.array([arrived]))
        info = {**info, **seen, "reward_original": reward, "shaping": float(shaping)}
        return observation, mixed, terminated, truncated, info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Returns the shaped rewards that steps had with other goals, by the `info` of each."""
        compute = self.env.get_wrapper_attr("compute_reward")
        original = np.atleast_1d(compute(achieved_goal, desired_goal, info))
        batch = not isinstance(info, dict)
        infos, goals = (list(info), desired_goal) if batch else ([info], desired_goal[None])
        if not all(BEFORE in one for one in infos):
            remedy = "Give copy_info_dict=True to HerReplayBuffer."
            raise ArgumentError("the info of a step is empty.", remedy=remedy, argument="info")
        arrived = np.atleast_1d(self._arrived(achieved_goal, desired_goal, info))
        rewards, _ = self._shaped(original, infos, np.asarray(goals), arrived)
        return rewards if batch else float(rewards[0])

    def _arrived(self, achieved: Any, desired: Any, info: Any) -> Any:
        """Returns which goals were reached, as far as the environment reports it."""
        if self.env.has_wrapper_attr("compute_terminated"):
            return self.env.get_wrapper_attr("compute_terminated")(achieved, desired, info)
        return np.zeros(1 if isinstance(info, dict) else len(info), dtype=bool)

    def _shaped(
        self, rewards: Any, infos: list[dict[str, Any]], goals: np.ndarray, arrived: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        both = np.stack([one[name] for name in (BEFORE, AFTER) for one in infos])
        phi = np.asarray(self.value(both, np.concatenate([goals, goals])), dtype=np.float64)
        if phi.shape != (len(both),) or not np.isfinite(phi).all():
            problem = f"value returned {phi.shape}; give a finite number for each of {len(both)}."
            raise ArgumentError(problem, argument="value")
        before, after = np.split(phi, 2)
        # A terminal state stays terminal, whichever goal the step is taken to have had.
        over = arrived | np.array([one[TERMINATED] for one in infos])
        return self.shaping.reward_of(rewards, before, after, over)
