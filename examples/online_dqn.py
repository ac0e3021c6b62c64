"""A DQN in one file, in the style of CleanRL, whose map learns while it trains.

    python examples/online_dqn.py                      # four-rooms, with a map
    python examples/online_dqn.py --no-map --seed 1    # the same agent without one
    python examples/online_dqn.py --env-id MountainCar-v0 --steps 10000

The lines with `online` are all that the map adds. The replay holds the original rewards: they are
shaped when they are sampled, with the newest map, so that no reward in the replay is outdated.

It needs torch.
"""

import copy
from dataclasses import dataclass
from typing import NamedTuple

import gymnasium
import numpy as np
import torch
import tyro
from torch import nn

from drogo import Column, OnlineMap


@dataclass(frozen=True)
class Args:
    """A DQN whose rewards are shaped with a map that learns from its own steps."""

    env_id: str = "drogo/FourRooms-v0"
    """An environment with a `Box` of observations and `Discrete` actions."""
    steps: int = 8000
    """The number of steps of the agent."""
    seed: int = 0
    map: bool = True
    """Whether rewards are shaped with a map."""
    map_reward: float | None = None
    """A cost of every step for the map, such as -1, which it needs if some rewards are not
    negative."""
    gamma: float = 0.99
    learning_rate: float = 1e-3
    learning_starts: int = 500
    buffer_size: int = 50_000
    batch_size: int = 64
    tau: float = 0.01
    """The rate at which the target network follows."""
    exploration_fraction: float = 0.5
    """The share of all steps in which that of random actions falls from 1 to `end_e`."""
    end_e: float = 0.05


class Transitions(NamedTuple):
    """Steps with their original rewards."""

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    next_observation: np.ndarray
    terminated: np.ndarray


class Features(nn.Module):
    """Scales the numbers of an observation, and appends sin(pi k x) and cos(pi k x) of each x.

    Cells on either side of a wall differ by a sixth in one coordinate. Without these features, a
    network needs far more steps to distinguish them.
    """

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        super().__init__()
        low, high = (torch.as_tensor(part).flatten().float() for part in (space.low, space.high))
        is_bounded = torch.isfinite(high - low)
        self.shift = torch.where(is_bounded, (low + high) / 2, 0.0)
        self.scale = torch.where(is_bounded, 1 / (high - low), 1.0)
        self.waves = torch.pi * torch.arange(1, 9 if len(low) <= 16 else 1)  # none for images
        self.size = len(low) * (1 + 2 * len(self.waves))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        x = (observations.flatten(1) - self.shift) * self.scale
        angles = (x[:, :, None] * self.waves).flatten(1)
        return torch.cat([x, angles.sin(), angles.cos()], dim=1)


def make(env_id: str) -> gymnasium.Env:
    """Makes an environment of flat observations: numbers of states become one-hot."""
    env = gymnasium.make(env_id)
    if not isinstance(env.action_space, gymnasium.spaces.Discrete):
        raise SystemExit(f"{env_id} has the actions {env.action_space}; a DQN needs Discrete ones.")
    is_flat = isinstance(env.observation_space, gymnasium.spaces.Box)
    return env if is_flat else gymnasium.wrappers.FlattenObservation(env)


def greedy(network: nn.Module, observation: np.ndarray) -> int:
    with torch.no_grad():
        return int(network(torch.as_tensor(observation[None]).float()).argmax())


def train(args: Args) -> nn.Module:
    env = gymnasium.wrappers.RecordEpisodeStatistics(make(args.env_id))
    space, actions = env.observation_space, env.action_space
    assert isinstance(space, gymnasium.spaces.Box)
    assert isinstance(actions, gymnasium.spaces.Discrete)
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    inputs = Features(space)
    hidden = (nn.Linear(inputs.size, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    network = nn.Sequential(inputs, *hidden, nn.Linear(128, int(actions.n)))
    target_network = copy.deepcopy(network)
    optimiser = torch.optim.Adam(network.parameters(), lr=args.learning_rate)
    size = args.buffer_size
    blank, terminated = np.zeros((size, *space.shape), space.dtype), np.zeros(size, bool)
    replay = Transitions(blank, np.zeros(size, int), np.zeros(size), blank.copy(), terminated)
    online = None
    if args.map:  # It makes as many updates as the agent.
        online = OnlineMap(space, actions, Column(lam=20.0), seed=args.seed, discount=args.gamma,
                           reward=args.map_reward, updates_per_step=1.0,
                           learning_starts=args.learning_starts)  # fmt: skip

    returns: list[float] = []
    observation, _ = env.reset(seed=args.seed)
    for step in range(args.steps):
        share = min(1.0, step / (args.exploration_fraction * args.steps))
        is_random = rng.random() < 1 + share * (args.end_e - 1)
        action = int(rng.integers(actions.n)) if is_random else greedy(network, observation)
        if online and not online.found:  # the map leads to what was not tried yet
            action = int(online.act([observation], rng)[0])
        next_observation, reward, terminated, truncated, info = env.step(action)
        # A time limit does not end the task, so the agent and the map see `terminated` alone.
        # `next_observation` is the episode's own last one: `env` waits to be reset.
        transition = (observation, action, reward, next_observation, terminated)
        for column, value in zip(replay, transition, strict=True):
            column[step % size] = value
        if online:
            # The reward of a terminal state itself is not a part of the cost of the last step.
            value = float(info.get("terminal_reward") or 0.0) if terminated else 0.0
            cost = float(reward) - value
            online.observe(
                [observation], [action], [cost], [next_observation], [terminated], [value]
            )
            online.train()
        observation = next_observation
        if terminated or truncated:
            returns.append(float(info["episode"]["r"]))
            observation, _ = env.reset()

        if step >= args.learning_starts:
            rows = rng.integers(min(step + 1, size), size=args.batch_size)
            batch = Transitions(*(column[rows] for column in replay))
            rewards, goes_on = batch.reward, torch.as_tensor(~batch.terminated)
            if online:
                rewards = online.shaped(
                    rewards, batch.observation, batch.next_observation, batch.terminated
                )
            with torch.no_grad():
                best = target_network(torch.as_tensor(batch.next_observation).float()).amax(dim=1)
                target = torch.as_tensor(rewards).float() + args.gamma * goes_on * best
            q = network(torch.as_tensor(batch.observation).float())
            q = q.gather(1, torch.as_tensor(batch.action)[:, None])[:, 0]
            optimiser.zero_grad()
            nn.functional.smooth_l1_loss(q, target).backward()
            optimiser.step()
            with torch.no_grad():
                for old, new in zip(target_network.parameters(), network.parameters(), strict=True):
                    old.lerp_(new, args.tau)
        if (step + 1) % max(1, args.steps // 10) == 0 and returns:
            # The original rewards: shaped ones do not measure the task.
            print(f"step {step + 1:,}: the last episodes returned {np.mean(returns[-10:]):.1f}")
            if online:
                print("   map:", ", ".join(f"{k} {v:.4g}" for k, v in online.metrics.items()))
    return target_network  # an average of the last networks, and so the steadier policy


def evaluate(args: Args, network: nn.Module) -> None:
    env = gymnasium.wrappers.TimeLimit(make(args.env_id), args.steps)  # it may circle
    env = gymnasium.wrappers.RecordEpisodeStatistics(env)
    (observation, info), terminated = env.reset(seed=args.seed), False
    while "episode" not in info:
        observation, _, terminated, _, info = env.step(greedy(network, observation))
    end = "a terminal state" if terminated else "the time limit"
    print(f"a greedy episode returned {info['episode']['r']:.1f}, and ended at {end}")


if __name__ == "__main__":
    chosen = tyro.cli(Args)
    evaluate(chosen, train(chosen))
