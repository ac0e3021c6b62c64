"""Agents of Stable-Baselines3 that are trained and judged: the harness of experiments.

It needs the extra `sb3`, which is imported when an agent is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float, Shaped

from drogo.errors import ArgumentError, check_choice, check_whole, import_extra

IN_A_ROW = 3
"""So many judgements in a row must succeed for a world to be solved."""
SETTINGS: dict[str, dict[str, Any]] = {
    "dqn": {
        "learning_rate": 1e-3, "learning_starts": 500, "train_freq": 2, "gradient_steps": 1,
        "batch_size": 64, "target_update_interval": 250, "buffer_size": 50_000,
        "exploration_fraction": 0.5, "exploration_final_eps": 0.05,
        "policy_kwargs": {"net_arch": [128, 128]},
    },
    "ppo": {"n_steps": 128, "batch_size": 64, "learning_rate": 2.5e-4, "ent_coef": 0.0},
}  # fmt: skip
"""Those of PPO are from SB3's zoo for MiniGrid, which also normalises the reward."""
ENVIRONMENTS = {"dqn": 1, "ppo": 8}
EVERY = {"dqn": 500, "ppo": 2048}
"""How many steps are between two judgements, unless that is said."""


@dataclass(frozen=True, eq=False)
class Trained:
    """What became of an agent.

    Args:
        steps: The numbers of environment steps after which the agent was judged.
        returns: The mean original return of its deterministic policy.
        arrived: The share of episodes that reached a terminal state that is not bad.
        lengths: The mean length of these episodes.
        deaths: How many training episodes ended in a bad terminal state by then.
        maps: What the map said of some observations at the same times.
        metrics: The metrics of the map at the end.
    """

    steps: Float[np.ndarray, " judgements"]
    returns: Float[np.ndarray, " judgements"]
    arrived: Float[np.ndarray, " judgements"]
    lengths: Float[np.ndarray, " judgements"]
    deaths: Float[np.ndarray, " judgements"]
    maps: Float[np.ndarray, "judgements observations"]
    metrics: Mapping[str, float]

    @property
    def solved_at(self) -> float:
        """The steps at the first of `IN_A_ROW` judgements that all arrive, or infinity."""
        good = np.convolve(self.arrived == 1, np.ones(IN_A_ROW), mode="valid") == IN_A_ROW
        return float(self.steps[good.argmax()]) if good.any() else np.inf


def as_numbers(env: gymnasium.Env) -> gymnasium.Env:
    """Wraps an environment so that an agent's network sees numbers from -1 to 1.

    Images become what differs from the first one: with the background in, an MLP tells states apart
    only slowly.

    Args:
        env: The environment.
    """
    space = env.observation_space
    if isinstance(space, gymnasium.spaces.Box) and space.dtype == np.uint8:
        first = env.reset(seed=0)[0].astype(np.float32)
        seen = gymnasium.spaces.Box(-1, 1, space.shape, np.float32)
        return gymnasium.wrappers.TransformObservation(
            env, lambda picture: (picture.astype(np.float32) - first) / 255, seen
        )
    if isinstance(space, gymnasium.spaces.Box) and space.is_bounded():
        return gymnasium.wrappers.RescaleObservation(env, np.float32(-1), np.float32(1))
    return env


def judge(agent: Any, env: gymnasium.Env, episodes: int) -> tuple[float, float, float]:
    """Returns the mean return of the deterministic policy, the share of episodes that arrive at a
    terminal state that is not bad, and their mean length.

    Args:
        agent: An agent of Stable-Baselines3.
        env: The environment, with its original reward.
        episodes: How many episodes. They have the seeds 0, 1, ...
    """
    earned, arrived, steps = 0.0, 0, 0
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        over = False
        while not over:
            action, _ = agent.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, info = env.step(int(action))
            earned += float(reward)
            steps += 1
            over = terminated or truncated
            arrived += bool(terminated) and not is_bad(info)
    return earned / episodes, arrived / episodes, steps / episodes


def is_bad(info: Mapping[str, Any]) -> bool:
    """Returns whether a terminal state has a negative value, such as lava."""
    return (info.get("terminal_value") or 0.0) < 0


def make_agent(kind: str, make: Callable[[], gymnasium.Env], shaping: Any, **settings: Any) -> Any:
    """Returns a fresh agent of Stable-Baselines3.

    Args:
        kind: "dqn" or "ppo".
        make: Makes one environment.
        shaping: What shapes its rewards, or None.
        **settings: Arguments of the agent, in place of those of `SETTINGS`.
    """
    check_choice("kind", kind, tuple(SETTINGS))
    sb3 = import_extra("stable_baselines3", "Stable-Baselines3", extra="sb3")
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    from drogo.use.sb3 import ShapedReplayBuffer

    chosen = {**SETTINGS[kind], "device": "cpu", **settings}
    if kind == "dqn":
        if shaping is not None:
            chosen |= {"replay_buffer_class": ShapedReplayBuffer,
                       "replay_buffer_kwargs": {"shaping": shaping}}  # fmt: skip
        return sb3.DQN("MlpPolicy", make(), **chosen)
    several = make_vec_env(make, n_envs=ENVIRONMENTS[kind], seed=chosen.get("seed"))
    discount = chosen.get("gamma", 0.99)
    return sb3.PPO("MlpPolicy", VecNormalize(several, norm_obs=False, gamma=discount), **chosen)


def train_agent(
    kind: str,
    make: Callable[[], gymnasium.Env],
    shaping: Any = None,
    *,
    steps: int,
    every: int | None = None,
    episodes: int = 1,
    explore: bool | None = None,
    stop_when_solved: bool = True,
    observations: Shaped[np.ndarray, "n ..."] | None = None,
    progress: Callable[[int], None] | None = None,
    checkpoint: Path | None = None,
    callbacks: Sequence[Any] = (),
    **settings: Any,
) -> Trained:
    """Trains an agent and judges it now and then.

    Args:
        kind: "dqn" or "ppo".
        make: Makes one environment.
        shaping: What shapes its rewards: an `OnlineMap`, an `OnlineTable`, a rival, or None.
        steps: The number of environment steps.
        every: How many steps are between two judgements.
        episodes: How many episodes a judgement has.
        explore: Whether the map chooses the exploratory actions of a DQN until it found a goal; by
            default it does.
        stop_when_solved: Whether to stop as soon as the world is solved.
        observations: Where the map is looked at, at each judgement.
        progress: Called at each judgement with the number of steps.
        checkpoint: A file that is written now and then. If it exists, the agent and its map go on
            from it.
        callbacks: More callbacks of Stable-Baselines3.
        **settings: Arguments of the agent.
    """
    every = EVERY[kind] if every is None else check_whole("every", every, 1)
    agent = make_agent(kind, make, shaping, **settings)
    from drogo.use.online.base import AbstractOnlineMap
    from drogo.use.sb3 import LearnMap

    is_map = isinstance(shaping, AbstractOnlineMap)
    if explore and not is_map:
        raise ArgumentError("explore=True needs a map, which then chooses exploratory actions.")
    judge_now = _judge(make(), every, episodes, shaping if is_map else None, observations,
                       progress, stop_when_solved)  # fmt: skip
    listening: list[Any] = [judge_now, *callbacks]
    if shaping is not None:
        listening.append(LearnMap(shaping, explore=explore))
    if checkpoint is not None and is_map:
        from drogo.use.sb3_files import Checkpoints, restore

        if checkpoint.exists():
            restore(checkpoint, agent, shaping)
        listening.append(Checkpoints(checkpoint, shaping))
    left = max(steps - agent.num_timesteps, 0)
    agent.learn(left, callback=listening, reset_num_timesteps=agent.num_timesteps == 0)
    return judge_now.trained({} if shaping is None else dict(shaping.metrics))


def _judge(
    env: gymnasium.Env,
    every: int,
    episodes: int,
    online: Any,
    observations: np.ndarray | None,
    progress: Callable[[int], None] | None,
    stop_when_solved: bool,
) -> Any:
    """Returns a callback that judges an agent. Its class needs that of an extra."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Judge(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.rows: list[tuple[float, ...]] = []
            self.maps: list[np.ndarray] = []
            self.deaths = 0

        def _on_step(self) -> bool:
            ends = zip(self.locals["dones"], self.locals["infos"], strict=True)
            self.deaths += sum(bool(done) and is_bad(info) for done, info in ends)
            if self.num_timesteps % every:
                return True
            judged = judge(self.model, env, episodes)
            self.rows.append((self.num_timesteps, *judged, self.deaths))
            if online is not None and observations is not None:
                self.maps.append(online.values(observations))
            if progress is not None:
                progress(self.num_timesteps)
            return not (stop_when_solved and np.isfinite(self.trained({}).solved_at))

        def trained(self, metrics: Mapping[str, float]) -> Trained:
            rows = np.array(self.rows, dtype=np.float64).reshape(-1, 5)
            maps = np.stack(self.maps) if self.maps else np.zeros((len(rows), 0))
            return Trained(*rows.T, maps=maps, metrics=metrics)

    return Judge()
