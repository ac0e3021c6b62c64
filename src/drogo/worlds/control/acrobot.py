"""Acrobot: two links, a motor between them, and a height to swing up to."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

SPEEDS = (4 * np.pi, 9 * np.pi)


def uniform_acrobot(env: gymnasium.Env, rng: np.random.Generator) -> np.ndarray:
    """Any two angles and any two speeds that are not the end."""
    inner: Any = env.unwrapped
    while True:
        angles = rng.uniform(-np.pi, np.pi, size=2)
        speeds = rng.uniform(-np.array(SPEEDS), SPEEDS)
        inner.state = np.concatenate([angles, speeds])
        if not inner._terminal():
            return np.asarray(inner._get_ob(), dtype=np.float32)
