"""Training and evaluation of agents of Stable-Baselines3 (extra `sb3`)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from drogo.errors import ArgumentError, check_choice, check_whole, import_extra
from drogo.online.base import AbstractOnlineMap
from drogo_paper.agents.trained import Evaluations, Trained

SETTINGS: dict[str, dict[str, Any]] = {
    "dqn": {
        "learning_rate": 1e-3, "learning_starts": 500, "train_freq": 2, "gradient_steps": 1,
        "batch_size": 64, "target_update_interval": 250, "buffer_size": 50_000,
        "exploration_fraction": 0.5, "exploration_final_eps": 0.05,
        "policy_kwargs": {"net_arch": [128, 128], "optimizer_kwargs": {"fused": True}},
    },
    "ppo": {
        "n_steps": 128, "batch_size": 256, "n_epochs": 4, "learning_rate": 2.5e-4, "ent_coef": 0.01,
        "policy_kwargs": {"optimizer_kwargs": {"fused": True, "eps": 1e-5}},
    },
}  # fmt: skip
"""PPO has CleanRL's settings for eight environments, with the reward normalised as in SB3's zoo for
MiniGrid. A fused optimiser makes the same updates faster."""
ENVIRONMENTS = {"dqn": 1, "ppo": 8}
EVERY = {"dqn": 500, "ppo": 2048}
"""The default number of steps between evaluations."""


def as_numbers(env: gymnasium.Env) -> gymnasium.Env:
    """Wraps an environment so that a network sees numbers from -1 to 1. Images become differences
    from the first one: with the background, an MLP takes long to distinguish states."""
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


def make_agent(
    kind: str,
    make: Callable[[], gymnasium.Env],
    *,
    explore: bool = False,
    **settings: Any,
) -> Any:
    """Returns a fresh agent, with `settings` in place of those of `SETTINGS`."""
    check_choice("kind", kind, tuple(SETTINGS))
    sb3 = import_extra("stable_baselines3", "Stable-Baselines3", extra="sb3")
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    chosen = {**SETTINGS[kind], "device": "cpu", **settings}
    if kind == "dqn":
        from drogo.integrations.sb3 import ExploringDQN

        return (ExploringDQN if explore else sb3.DQN)("MlpPolicy", make(), **chosen)
    several = make_vec_env(make, n_envs=ENVIRONMENTS[kind], seed=chosen.get("seed"))
    discount = chosen.get("gamma", 0.99)
    return sb3.PPO("MlpPolicy", VecNormalize(several, norm_obs=False, gamma=discount), **chosen)


def train_agent(
    kind: str,
    make: Callable[[], gymnasium.Env],
    shaping: Any = None,
    *,
    steps: int,
    evaluations: Evaluations | None = None,
    explore: bool | None = None,
    checkpoint: Path | None = None,
    **settings: Any,
) -> Trained:
    """Trains an agent, from a checkpoint if there is one, and evaluates it meanwhile and at the
    end. After a `BadCheckpoint`, train again with a new map, which may have read a part of the
    file."""
    check_whole("steps", steps, 1)
    is_map = isinstance(shaping, AbstractOnlineMap)
    explores = _explores(kind, shaping, explore)
    agent = make_agent(kind, make, explore=explores, **settings)
    from drogo.integrations.sb3 import LearnMap
    from drogo_paper.agents.evaluator import Evaluator

    how = Evaluations(EVERY[kind]) if evaluations is None else evaluations
    evaluator = Evaluator(make(), how, shaping if is_map else None)
    listening: list[Any] = [evaluator]
    if shaping is not None:
        listening.append(LearnMap(shaping))
    if checkpoint is not None:
        listening.append(_continued(checkpoint, agent, shaping, evaluator))
    left = steps - agent.num_timesteps
    if left > 0 and not evaluator.is_done:
        agent.learn(left, callback=listening, reset_num_timesteps=agent.num_timesteps == 0)
    evaluator.evaluate(agent)  # the last evaluation may be missing in a checkpoint
    return evaluator.trained({} if shaping is None else dict(shaping.metrics))


def _continued(path: Path, agent: Any, shaping: Any, evaluator: Any) -> Any:
    """Restores an agent, its map and its evaluations from a file, and returns a callback for it."""
    from drogo.integrations.sb3_files import Checkpoints, restore

    if shaping is not None and not isinstance(shaping, AbstractOnlineMap):
        raise ArgumentError(
            "checkpoint= is for an agent with a map, or without any shaping.", argument="checkpoint"
        )
    if path.exists():
        restore(path, agent, shaping, evaluator=evaluator)
    return Checkpoints(path, shaping, evaluator=evaluator)


def _explores(kind: str, shaping: Any, explore: bool | None) -> bool:
    is_able = kind == "dqn" and isinstance(shaping, AbstractOnlineMap)
    if explore and not is_able:
        raise ArgumentError(
            "explore=True needs a DQN with a map, which chooses its actions.", argument="explore"
        )
    return is_able and (shaping.optimism is not None if explore is None else explore)
