"""`OptionWrapper`: options beside the primitive actions of an environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from jaxtyping import Bool

from drogo.errors import ArgumentError, check_share, check_whole
from drogo.use.options.option import Option


class OptionWrapper(gymnasium.Wrapper, RecordConstructorArgs):
    """Offers options as further actions: a semi-Markov decision process for any agent.

    Action `n + k` is option k, where n is the number of primitive actions. It runs until it ends,
    the episode ends, or it was cut. The reward is the discounted sum of the rewards on the way, as
    seen from where it began: `r_1 + discount r_2 + ...`.

    `info["steps"]` is how many steps an action took, and `info["discount"]` is `discount ** steps`,
    which the value of the next state is worth: `reward + info["discount"] max Q(s')` is the target
    of Q-learning. An agent with a fixed discount, such as those of Stable-Baselines3, uses it once
    for an action of any length. `info["option_cut"]` says that an option was cut after `limit`
    steps, because it did not end by itself, and `info["option_unavailable"]` that it may not begin
    where it was chosen: it then takes one step of its policy. `action_masks()` tells an agent which
    actions are possible.

    Args:
        env: The environment. Its action space is Discrete.
        options: The options.
        discount: The discount of the agent.
        limit: How many steps an option may take.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        options: Sequence[Option],
        discount: float = 0.99,
        *,
        limit: int = 100,
    ) -> None:
        RecordConstructorArgs.__init__(self, options=options, discount=discount, limit=limit)
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, gymnasium.spaces.Discrete) or space.start != 0:
            raise ArgumentError(f"options need Discrete actions from 0 on; these are {space}.")
        self.options, self.primitive = list(options), int(space.n)
        self.discount, self.limit = (
            check_share("discount", discount),
            check_whole("limit", limit, 1),
        )
        self.action_space = gymnasium.spaces.Discrete(self.primitive + len(self.options))
        self._observation: Any = None

    def action_masks(self) -> Bool[np.ndarray, " actions"]:
        """Returns which actions are possible now: primitive ones, and options that may begin."""
        begin = [bool(option.begins(self._observation)) for option in self.options]
        return np.array([True] * self.primitive + begin)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self._observation, info = self.env.reset(**kwargs)
        return self._observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ArgumentError(
                f"action is {action!r}; expected 0 to {self.primitive - 1}, or an option from "
                f"{self.primitive} to {self.primitive + len(self.options) - 1}."
            )
        chosen = int(action)
        option = None if chosen < self.primitive else self.options[chosen - self.primitive]
        unavailable = option is not None and not option.begins(self._observation)
        earned, worth, steps = 0.0, 1.0, 0
        while True:
            move = chosen if option is None else int(option.policy(self._observation))
            # Some environments tell NumPy's numbers from Python's.
            move = np.int64(move) if isinstance(action, np.integer) else move
            self._observation, reward, terminated, truncated, info = self.env.step(move)
            earned += worth * float(reward)
            worth *= self.discount
            steps += 1
            over = terminated or truncated
            if option is None or unavailable or over or option.ends(self._observation):
                cut = False
                break
            if steps >= self.limit:
                cut = True
                break
        info = {
            **info, "steps": steps, "discount": worth, "option_cut": cut,
            "option_unavailable": unavailable,
        }  # fmt: skip
        return self._observation, earned, terminated, truncated, info
