"""`Judge`: a callback of Stable-Baselines3 that judges an agent now and then while it trains.

This module needs the extra `sb3`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Shaped
from stable_baselines3.common.callbacks import BaseCallback

from drogo.agents.trained import Trained
from drogo.data.step import is_bad
from drogo.errors import check_whole
from drogo.use.online.base import AbstractOnlineMap

LONGEST = 10_000
"""An episode of a judgement that takes longer is cut, even if its environment has no limit."""
COLUMNS = 6
"""Steps, return, share of episodes that arrive, length, deaths and arrivals."""


def judge(
    agent: Any, env: gymnasium.Env, episodes: int, longest: int = LONGEST
) -> tuple[float, float, float]:
    """Returns the mean return of the deterministic policy, the share of episodes that arrive at a
    terminal state that is not bad, and their mean length.

    Args:
        agent: An agent of Stable-Baselines3.
        env: The environment, with its original reward.
        episodes: How many episodes. They have the seeds 0, 1, ...
        longest: After so many steps an episode is cut, which does not count as arriving.
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


class Judge(BaseCallback):
    """Judges an agent whenever it has taken another `every` steps, and once at the end.

    It can be a part of a checkpoint: what it has seen goes on with the agent.

    Args:
        env: The environment in which the agent is judged, with its original reward.
        every: How many steps are between two judgements. With several environments, whose steps
            are taken together, a judgement follows as soon as so many were taken.
        episodes: How many episodes a judgement has.
        online: The map of the agent, or None.
        observations: Where the map is looked at, at each judgement.
        progress: Called at each judgement with the number of steps.
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
    def judged_at(self) -> int:
        """The number of steps at the last judgement, or 0."""
        return int(self._rows[-1][0]) if self._rows else 0

    def look(self, agent: Any) -> None:
        """Judges an agent, unless it was just judged.

        Args:
            agent: The agent.
        """
        steps = int(agent.num_timesteps)
        if steps == self.judged_at and self._rows:
            return
        judged = judge(agent, self.env, self.episodes)
        self._rows.append((steps, *judged, self._deaths, self._arrivals))
        if self.online is not None and self.observations is not None:
            known = self.online.knows(self.observations)
            self._maps.append(np.where(known, self.online.values(self.observations), np.nan))
        if self.progress is not None:
            self.progress(steps)

    def _on_step(self) -> bool:
        for done, info in zip(self.locals["dones"], self.locals["infos"], strict=True):
            if done and not info.get("TimeLimit.truncated", False):
                self._deaths += is_bad(info)
                self._arrivals += not is_bad(info)
        if self.num_timesteps // self.every > self.judged_at // self.every:
            self.look(self.model)
            return not self.is_done
        return True

    def _on_training_end(self) -> None:
        self.look(self.model)

    def trained(self, metrics: Mapping[str, float]) -> Trained:
        """Returns what became of the agent so far.

        Args:
            metrics: The metrics of its map.
        """
        arrays = self.arrays()
        return Trained(*arrays["rows"].T, maps=arrays["maps"], metrics=metrics)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns what a file holds of the judgements."""
        rows = np.array(self._rows, dtype=np.float64).reshape(-1, COLUMNS)
        maps = np.stack(self._maps) if self._maps else np.zeros((len(rows), 0))
        return {"rows": rows, "maps": maps, "ends": np.array([self._deaths, self._arrivals])}

    def continue_from(self, arrays: dict[str, np.ndarray]) -> None:
        """Goes on from the arrays of a file.

        Args:
            arrays: What `arrays` returned.
        """
        rows, maps, ends = (arrays[name] for name in ("rows", "maps", "ends"))
        shown = () if self.online is None or self.observations is None else self.observations
        places = len(shown) if len(rows) else 0
        fitting = rows.ndim == 2 and rows.shape[1] == COLUMNS and ends.shape == (2,)
        if not fitting or maps.shape != (len(rows), places):
            raise ValueError("its judgements are not those of this agent")
        self._rows = [tuple(row) for row in rows.tolist()]
        self._maps = list(maps) if places else []
        self._deaths, self._arrivals = ends.tolist()
