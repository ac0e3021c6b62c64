"""The same DQN in four libraries, with the same potential: steps until it solves four-rooms.

    uv run benchmarks/bridges.py --write
    uv run benchmarks/bridges.py --only sb3 torch --seeds 1 --steps 2000

Needs the extras `sb3`, `sbx` and `torchrl`, and a torch. Prints Markdown.
"""

from __future__ import annotations

import copy
import importlib
from functools import partial
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from torch import nn

from common import LAM, data_of, env_of
from drogo import Column, GridWorld, PotentialShaping, fit
from tables import parse_options, write_table

GAMMA, START, BATCH, RATE, TARGET, REPLAY, HIDDEN = 0.99, 500, 64, 1e-3, 200, 50_000, 64
SETTINGS: dict[str, Any] = {
    "gamma": GAMMA, "learning_rate": RATE, "learning_starts": START, "train_freq": 1,
    "batch_size": BATCH, "target_update_interval": TARGET, "buffer_size": REPLAY, "device": "cpu",
    "exploration_fraction": 0.5, "exploration_final_eps": 0.1,
    "policy_kwargs": {"net_arch": [HIDDEN, HIDDEN]},
}  # fmt: skip
RULE: dict[str, Any] = {"discount": GAMMA, "weight": 0.5}


class Watched(BaseCallback):
    def __init__(self, watch: Any) -> None:
        super().__init__()
        self.watch = watch

    def _on_step(self) -> bool:
        self.watch(lambda seen: int(self.model.predict(seen, deterministic=True)[0]))
        return True


def stable(module: str, env: Any, phi: Any, seed: int, steps: int, watch: Any) -> None:
    env = env if phi is None else PotentialShaping(env, phi, **RULE)
    agent = importlib.import_module(module).DQN("MlpPolicy", env, seed=seed, **SETTINGS)
    agent.learn(steps, callback=Watched(watch))


def network_of(env: Any) -> tuple[nn.Module, Any, Any]:
    size, actions = env.observation_space.shape[0], int(env.action_space.n)
    layers = (nn.Linear(size, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
    network = nn.Sequential(*layers, nn.Linear(HIDDEN, actions))
    greedy = lambda seen: int(network(torch.as_tensor(seen)).argmax())  # noqa: E731
    return network, torch.optim.Adam(network.parameters(), RATE), greedy


def explores(step: int, steps: int, rng: Any) -> bool:
    return step <= START or rng.random() < max(0.1, 1 - 0.9 * step / (0.5 * steps))


def update(network: nn.Module, optimiser: Any, loss: torch.Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), 10.0)
    optimiser.step()


def torchrl(env: Any, phi: Any, seed: int, steps: int, watch: Any) -> None:
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
    from torchrl.envs import GymWrapper, TransformedEnv
    from torchrl.modules import QValueActor
    from torchrl.objectives import DQNLoss, HardUpdate

    from drogo.integrations.torchrl import PotentialTransform

    (network, optimiser, greedy), rng = network_of(env), np.random.default_rng(seed)
    world: Any = GymWrapper(env, categorical_action_encoding=True)
    if phi is not None:
        world = TransformedEnv(world, PotentialTransform(phi, out_keys=["reward"], **RULE))
    actor = QValueActor(network, spec=world.action_spec, action_space="categorical")
    loss = DQNLoss(actor, action_space="categorical", loss_function="smooth_l1", delay_value=True)
    loss.make_value_estimator(gamma=GAMMA)
    target = HardUpdate(loss, value_network_update_interval=TARGET)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(REPLAY), batch_size=BATCH)
    state = world.reset()
    for step in range(1, steps + 1):
        with torch.no_grad():
            state = world.rand_action(state) if explores(step, steps, rng) else actor(state)
        made, state = world.step_and_maybe_reset(state.select("observation", "action"))
        buffer.add(made)
        if step > START:
            update(network, optimiser, loss(buffer.sample())["loss"])
            target.step()
        watch(greedy)


def plain(env: Any, phi: Any, seed: int, steps: int, watch: Any) -> None:
    """A DQN in plain torch, in the style of CleanRL, whose replay is relabelled."""
    (network, optimiser, greedy), rng = network_of(env), np.random.default_rng(seed)
    target, replay, observation = copy.deepcopy(network), [], env.reset(seed=seed)[0]
    for step in range(1, steps + 1):
        random = explores(step, steps, rng)
        action = int(rng.integers(env.action_space.n)) if random else greedy(observation)
        after, reward, terminated, truncated, _ = env.step(action)
        replay.append((observation, action, reward, after, terminated))
        observation = env.reset()[0] if terminated or truncated else after
        if step > START:
            rows = [replay[k] for k in rng.integers(len(replay), size=BATCH)]
            before, actions, rewards, following, ends = map(np.array, zip(*rows, strict=True))
            if phi is not None:
                rewards = phi.shaped(rewards, before, following, ends, **RULE)
            best = target(torch.as_tensor(following)).amax(dim=1).detach()
            wanted = torch.as_tensor(rewards).float() + GAMMA * best * torch.as_tensor(~ends)
            q = network(torch.as_tensor(before)).gather(1, torch.as_tensor(actions)[:, None])
            update(network, optimiser, nn.functional.smooth_l1_loss(q[:, 0], wanted))
            if step % TARGET == 0:
                target.load_state_dict(network.state_dict())
        watch(greedy)


LIBRARIES: dict[str, Any] = {
    "sb3": (partial(stable, "stable_baselines3"), "Stable-Baselines3, wrapped environment"),
    "sbx": (partial(stable, "sbx"), "SBX, wrapped environment"),
    "torchrl": (torchrl, "torchrl, transform"), "torch": (plain, "plain torch, relabelled replay"),
}  # fmt: skip


class Evaluation:
    """Whether the greedy policy arrives, every so many steps."""

    def __init__(self, env: Any, every: int) -> None:
        self.env, self.every, self.step, self.arrived = env, every, 0, []

    def __call__(self, greedy: Any) -> None:
        self.step += 1
        if self.step % self.every == 0:
            observation, over, terminated = self.env.reset(seed=0)[0], False, False
            while not over:
                observation, _, terminated, truncated, _ = self.env.step(greedy(observation))
                over = terminated or truncated
            self.arrived.append(terminated)

    def solved(self) -> str:
        """The first of three evaluations in a row that arrive."""
        seen = self.arrived
        first = [k + 1 for k in range(len(seen) - 2) if all(seen[k : k + 3])]
        return f"{first[0] * self.every:,}" if first else "never"


def rows(options: Any) -> Any:
    world = GridWorld.load(options.world)
    solution = fit(data_of(world, "one-hot", 20_000), Column(lam=LAM), seeds=options.seeds)
    for train, label in (LIBRARIES[name] for name in options.only):
        cells: list[list[str]] = [[], []]
        for seed, shaped in ((s, k) for s in range(options.seeds) for k in (0, 1)):
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
            watch, phi = Evaluation(env_of(world, "one-hot"), options.every), None
            phi = solution.potential(seed) if shaped else None
            train(env_of(world, "one-hot"), phi, seed, options.steps, watch)
            cells[shaped].append(watch.solved())
        yield [label, ", ".join(cells[1]), ", ".join(cells[0])]


if __name__ == "__main__":
    options = parse_options(__doc__, world="four-rooms", seeds=3, steps=6000, every=250,
                            only=tuple(LIBRARIES))  # fmt: skip
    title = f"The same DQN in four libraries in {options.world} from one-hot states, with the same "
    title += (
        f"potential for each of {options.seeds} seeds: steps to solve it, of {options.steps:,}."
    )
    note = f"Solved is the first of three evaluations in a row, {options.every} steps apart, in "
    header = ("library", "shaped", "unshaped")
    note += "which the greedy policy arrives."
    write_table("bridges", title, header, rows(options), note, write=options.write)
