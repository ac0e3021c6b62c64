"""`NeverEnding`: an environment as a task that never ends."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from drogo.errors import check_number


class NeverEnding(gymnasium.Wrapper, RecordConstructorArgs):
    """An environment in which the last step of an episode leads to the first state of the next.

    The step that would be terminated returns the first observation of a new episode and is not
    terminated, so agents and `drogo.Continuing` see one task that goes on forever. A step limit
    truncates it as before.

    Args:
        env: The environment.
        at_end: The reward of a step that ends an episode; by default the environment's own. Where
            all steps are paid the same, as in CartPole, give 0, or nothing tells an end from none.
    """

    def __init__(self, env: gymnasium.Env, *, at_end: float | None = None) -> None:
        RecordConstructorArgs.__init__(self, at_end=at_end)
        gymnasium.Wrapper.__init__(self, env)
        self.at_end = None if at_end is None else check_number("at_end", at_end)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not terminated:
            return observation, reward, False, truncated, info
        reward = reward if self.at_end is None else self.at_end
        observation, begun = self.env.reset()
        return observation, reward, False, False, {**begun, "ended": info}
