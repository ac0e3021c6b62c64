"""Shape Stable-Baselines3 agents in MiniGrid from pixels: a DQN, and a PPO with four environments.

It needs torch and the extras sb3 and minigrid: inside a clone, `pip install ".[sb3,minigrid]"`.
"""

import gymnasium
import numpy as np
from gymnasium.wrappers import TransformObservation
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from drogo import Column, Drogo, MiniGridWorld, PotentialShaping, collect, exact, fit
from drogo.learn import MLP

world = MiniGridWorld("MiniGrid-DoorKey-5x5-v0", layout=0, tile=3)
truth = {"column": exact.log_column(world.mdp, lam=20.0)}
data = collect(world, 20_000, seed=0)
solution = fit(data, Column(lam=20.0), Drogo(updates=1000), network=MLP(), truth=truth)
print(f"cosine with the exact map: {solution.history['cosine_column'][-1, 0]:.4f}")
potential = solution.potential(seed=0)
background = world.reset()[0].astype(np.float32)


def less_background(env: gymnasium.Env) -> gymnasium.Env:
    """Subtracts the first image: states differ from it in a few pixels."""
    space = gymnasium.spaces.Box(-1, 1, background.shape, np.float32)
    return TransformObservation(env, lambda image: (image - background) / 255, space)


def shaped() -> gymnasium.Env:
    """Returns an environment whose potential sees whole images, and the agent no background."""
    env = MiniGridWorld("MiniGrid-DoorKey-5x5-v0", layout=0, tile=3)
    return less_background(PotentialShaping(env, potential, weight=0.5, discount=0.99))


def steps_to_the_goal(agent: DQN | PPO) -> int:
    """Returns the number of steps of the greedy policy in one episode of the original task."""
    env = less_background(world)
    observation, _ = env.reset()
    terminated, truncated, steps = False, False, 0
    while not (terminated or truncated):
        action, _ = agent.predict(observation, deterministic=True)
        observation, _, terminated, truncated, _ = env.step(int(action))
        steps += 1
    return steps


dqn = DQN("MlpPolicy", shaped(), gamma=0.99, seed=0, learning_rate=1e-3, train_freq=2,
          learning_starts=500, target_update_interval=250, device="cpu")  # fmt: skip
dqn.learn(2000)
print(f"DQN, 2,000 steps: {steps_to_the_goal(dqn)} steps to the goal")

several = VecNormalize(make_vec_env(shaped, n_envs=4, seed=0), norm_obs=False, gamma=0.99)
ppo = PPO("MlpPolicy", several, gamma=0.99, seed=0, n_steps=128, batch_size=64, device="cpu")
ppo.learn(1024)  # about 30,000 steps are needed for a policy that arrives
print(f"PPO, 1,024 steps: {steps_to_the_goal(ppo)} steps to the goal")
