"""`Evaluator`: a callback of Stable-Baselines3 that evaluates an agent during training.

This module needs the extra `sb3`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Shaped
from stable_baselines3.common.callbacks import BaseCallback

from drogo.data.step import is_bad
from drogo.errors import check_whole
from drogo.online.base import AbstractOnlineMap
from drogo_paper.agents.trained import Trained

LONGEST = 10_000
"""The largest number of steps of an episode, also where the environment has no limit."""
COLUMNS = 6
"""Steps, return, share of episodes that arrive, length, deaths and arrivals."""


def evaluate_policy(
    agent: Any, env: gymnasium.Env, episodes: int, longest: int = LONGEST
) -> tuple[float, float, float]:
    """Returns the mean return of the deterministic policy, the share of episodes that arrive at a
    terminal state that is not bad, and their mean length.

    Args:
        agent: An agent of Stable-Baselines3.
        env: The environment, with its original reward.
        episodes: The number of episodes. They have the seeds 0, 1, ...
        longest: The largest number of steps of an episode. A truncated episode does not arrive.
    """
    earned, arrived, steps = 0.0, 0, 0
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        for _ in range(longest):
            action, _ = agent.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, info = env.step(int(action))
            earned += float(reward)
            steps += 1
            if terminated or truncated:
                arrived += bool(terminated) and not is_bad(info)
                break
    return earned / episodes, arrived / episodes, steps / episodes


class Evaluator(BaseCallback):
    """Evaluates an agent after every `every` steps, and once at the end.

    It can be a part of a checkpoint, so that its results continue with the agent.

    Args:
        env: The environment of the evaluations, with its original reward.
        every: The number of steps between evaluations. With several environments, whose steps are
            taken together, an evaluation follows when at least as many were taken.
        episodes: The number of episodes of an evaluation.
        online: The map of the agent, or None.
        observations: The observations at which the map is recorded at each evaluation.
        progress: Called at each evaluation with the number of steps.
        stop_when_solved: Whether the agent stops as soon as the world is solved.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        *,
        every: int,
        episodes: int = 1,
        online: AbstractOnlineMap | None = None,
        observations: Shaped[np.ndarray, "n ..."] | None = None,
        progress: Callable[[int], None] | None = None,
        stop_when_solved: bool = False,
    ) -> None:
        super().__init__()
        self.env, self.stop_when_solved = env, stop_when_solved
        self.every = check_whole("every", every, 1)
        self.episodes = check_whole("episodes", episodes, 1)
        self.online, self.observations, self.progress = online, observations, progress
        self._rows: list[tuple[float, ...]] = []
        self._maps: list[np.ndarray] = []
        self._deaths, self._arrivals = 0, 0

    @property
    def is_done(self) -> bool:
        """Whether the agent should stop, since the world is solved."""
        return self.stop_when_solved and bool(np.isfinite(self.trained({}).solved_at))

    @property
    def evaluated_at(self) -> int:
        """The number of steps at the last evaluation, or 0."""
        return int(self._rows[-1][0]) if self._rows else 0

    def evaluate(self, agent: Any) -> None:
        """Evaluates an agent, unless it has not changed since the last evaluation."""
        steps = int(agent.num_timesteps)
        if steps == self.evaluated_at and self._rows:
            return
        results = evaluate_policy(agent, self.env, self.episodes)
        self._rows.append((steps, *results, self._deaths, self._arrivals))
        if self.online is not None and self.observations is not None:
            is_known = self.online.knows(self.observations)
            self._maps.append(np.where(is_known, self.online.values(self.observations), np.nan))
        if self.progress is not None:
            self.progress(steps)

    def _on_step(self) -> bool:
        for done, info in zip(self.locals["dones"], self.locals["infos"], strict=True):
            if done and not info.get("TimeLimit.truncated", False):
                self._deaths += is_bad(info)
                self._arrivals += not is_bad(info)
        if self.num_timesteps // self.every > self.evaluated_at // self.every:
            self.evaluate(self.model)
            return not self.is_done
        return True

    def _on_training_end(self) -> None:
        self.evaluate(self.model)

    def trained(self, metrics: Mapping[str, float]) -> Trained:
        """Returns the results so far, with the metrics of the agent's map."""
        arrays = self.arrays()
        return Trained(*arrays["rows"].T, maps=arrays["maps"], metrics=metrics)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the results as arrays, for a checkpoint."""
        rows = np.array(self._rows, dtype=np.float64).reshape(-1, COLUMNS)
        maps = np.stack(self._maps) if self._maps else np.zeros((len(rows), 0))
        return {"rows": rows, "maps": maps, "counts": np.array([self._deaths, self._arrivals])}

    def continue_from(self, arrays: dict[str, np.ndarray]) -> None:
        """Continues from the result of `arrays`."""
        rows, maps, counts = (arrays[name] for name in ("rows", "maps", "counts"))
        shown = () if self.online is None or self.observations is None else self.observations
        places = len(shown) if len(rows) else 0
        fitting = rows.ndim == 2 and rows.shape[1] == COLUMNS and counts.shape == (2,)
        if not fitting or maps.shape != (len(rows), places):
            raise ValueError("its evaluations are not those of this agent")
        self._rows = [tuple(row) for row in rows.tolist()]
        self._maps = list(maps) if places else []
        self._deaths, self._arrivals = counts.tolist()
