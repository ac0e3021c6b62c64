"""Maps in Stable-Baselines3: for agents that train, and as an agent.

    online = OnlineMap(env.observation_space, env.action_space, Column(lam=20.0))
    agent = ExploringDQN("MlpPolicy", env)
    agent.learn(20_000, callback=LearnMap(online))

The environment, its rewards and everything that the agent logs stay as they are. An off-policy
agent learns from rewards that are shaped with the newest map whenever they are sampled from its
replay; an on-policy agent from a rollout whose rewards are shaped before each of its updates.
`ExploringDQN` is a `DQN` that the map also leads. Any other agent explores as it always does, also
those of SBX, with which `LearnMap` works too. `MapAgent` is an agent that acts on the map itself:

    agent = MapAgent("table", env)
    agent.learn(20_000)

This module needs the extra `sb3`."""

from drogo import public
from drogo.integrations.learn_map import ExploringDQN, LearnMap, ShapedReplayBuffer
from drogo.integrations.map_agent import MapAgent
from drogo.integrations.sb3_files import Checkpoints, restore, save

__all__ = [
    "Checkpoints",
    "ExploringDQN",
    "LearnMap",
    "MapAgent",
    "ShapedReplayBuffer",
    "restore",
    "save",
]

public.check_all(globals())
