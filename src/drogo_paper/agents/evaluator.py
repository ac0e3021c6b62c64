"""`Evaluator`: a callback of Stable-Baselines3 that evaluates an agent during training."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from drogo.online.base import AbstractOnlineMap
from drogo_paper.agents.trained import Evaluations, Trained, is_bad

LONGEST = 10_000
"""The largest number of steps of an episode, also where the environment has no limit."""
COLUMNS = 6
"""Steps, return, share of episodes that arrive, length, deaths and arrivals."""


def evaluate_policy(agent: Any, env: gymnasium.Env, episodes: int) -> tuple[float, float, float]:
    """Returns the mean return of the deterministic policy, the share of episodes that arrive at a
    terminal state that is not bad, and their mean length. Episodes have the seeds 0, 1, ..."""
    earned, arrived, steps = 0.0, 0, 0
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        for _ in range(LONGEST):
            action, _ = agent.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, info = env.step(int(action))
            earned += float(reward)
            steps += 1
            if terminated or truncated:
                arrived += bool(terminated) and not is_bad(info)
                break
    return earned / episodes, arrived / episodes, steps / episodes


class Evaluator(BaseCallback):
    """Evaluates an agent at intervals and at the end. It can be a part of a checkpoint."""

    def __init__(
        self, env: gymnasium.Env, how: Evaluations, online: AbstractOnlineMap | None = None
    ) -> None:
        super().__init__()
        self.env, self.how, self.online = env, how, online
        self.observations = None if online is None else how.observations
        self._rows: list[tuple[float, ...]] = []
        self._maps: list[np.ndarray] = []
        self._deaths, self._arrivals = 0, 0

    @property
    def is_done(self) -> bool:
        return self.how.stop_when_solved and bool(np.isfinite(self.trained({}).solved_at))

    @property
    def evaluated_at(self) -> int:
        return int(self._rows[-1][0]) if self._rows else 0

    def evaluate(self, agent: Any) -> None:
        """Evaluates an agent, unless it has not changed since the last evaluation."""
        steps = int(agent.num_timesteps)
        if steps == self.evaluated_at and self._rows:
            return
        results = evaluate_policy(agent, self.env, self.how.episodes)
        self._rows.append((steps, *results, self._deaths, self._arrivals))
        if self.online is not None and self.observations is not None:
            is_known = self.online.knows(self.observations)
            self._maps.append(np.where(is_known, self.online.values(self.observations), np.nan))
        if self.how.progress is not None:
            self.how.progress(steps)

    def _on_step(self) -> bool:
        for done, info in zip(self.locals["dones"], self.locals["infos"], strict=True):
            if done and not info.get("TimeLimit.truncated", False):
                self._deaths += is_bad(info)
                self._arrivals += not is_bad(info)
        if self.num_timesteps // self.how.every > self.evaluated_at // self.how.every:
            self.evaluate(self.model)
            return not self.is_done
        return True

    def _on_training_end(self) -> None:
        self.evaluate(self.model)

    def trained(self, metrics: Mapping[str, float]) -> Trained:
        arrays = self.arrays()
        return Trained(*arrays["rows"].T, maps=arrays["maps"], metrics=metrics)

    def arrays(self) -> dict[str, np.ndarray]:
        rows = np.array(self._rows, dtype=np.float64).reshape(-1, COLUMNS)
        maps = np.stack(self._maps) if self._maps else np.zeros((len(rows), 0))
        return {"rows": rows, "maps": maps, "counts": np.array([self._deaths, self._arrivals])}

    def continue_from(self, arrays: dict[str, np.ndarray]) -> None:
        rows, maps, counts = (arrays[name] for name in ("rows", "maps", "counts"))
        places = 0 if self.observations is None or not len(rows) else len(self.observations)
        fitting = rows.ndim == 2 and rows.shape[1] == COLUMNS and counts.shape == (2,)
        if not fitting or maps.shape != (len(rows), places):
            raise ValueError("its evaluations are not those of this agent")
        self._rows = [tuple(row) for row in rows.tolist()]
        self._maps = list(maps) if places else []
        self._deaths, self._arrivals = counts.tolist()
