"""A row of places with a costly fall at its end, for tests of options."""

import gymnasium
import numpy as np

from drogo import Column, Drogo, OnlineTable
from drogo.learn import MLP

LEFT, RIGHT = 0, 1
LAST = 5
FALL = -20.0
NETWORK = {
    "network": MLP(width=16, depth=2, frequencies=3, centred=True),
    "method": Drogo(batch_size=32),
    "sides": 0.1,
    "capacity": 64,
}
"""Settings of a small network, which are the same everywhere, so that it is compiled once."""


class Ledge(gymnasium.Env):
    """Six places in a row. Who goes right from the last one falls, and begins again at place 1."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = (options or {}).get("state", 1)
        return seen(self.state), {"state": self.state}

    def step(self, action):
        self.state = max(self.state - 1, 0) if action == LEFT else self.state + 1
        fell = self.state > LAST
        info = {"state": self.state} | ({"terminal_reward": FALL} if fell else {})
        return seen(self.state), -1.0 + FALL * fell, fell, False, info


def seen(state):
    return np.array([state / (LAST + 1)], np.float32)


def all_steps(without, fall=FALL):
    """Every pair of a place and an action but some, once; a fall leads back to place 1."""
    pairs = [(s, a) for s in range(LAST + 1) for a in (LEFT, RIGHT) if (s, a) not in without]
    before, action = (np.array(part) for part in zip(*pairs, strict=True))
    after = np.where(action == LEFT, np.maximum(before - 1, 0), before + 1)
    reward = np.where(after > LAST, -1.0 + fall, -1.0)
    after = np.where(after > LAST, 1, after)
    rows = [np.stack([seen(s) for s in states]) for states in (before, after)]
    return rows[0], action, reward, rows[1], np.zeros(len(pairs), bool)


def spaces():
    return Ledge.observation_space, Ledge.action_space


def table(columns, **options):
    online = OnlineTable(*spaces(), Column(lam=5.0), until_found=False, every=1, **options)
    online.observe(*columns)
    online.train()
    return online


def policy(option):
    return [option.policy(seen(state)) for state in range(LAST + 1)]
