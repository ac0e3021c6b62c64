"""An agent of Stable-Baselines3 and its map in one file, so that both go on together.

    agent.learn(100_000, callback=[LearnMap(online), Checkpoints("run.npz", online)])

and after the process was killed, with an agent and a map made as before:

    restore("run.npz", agent, online)
    agent.learn(100_000 - agent.num_timesteps, reset_num_timesteps=False, callback=...)

The file holds arrays alone: the parameters, the state of the optimiser, the replay with its own
rewards, the counters, what `VecNormalize` knows, and the map. It is written completely or not at
all. The environment begins a new episode, and random numbers are drawn anew, so an agent that goes
on is not the same to the last bit as one that was never interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback

from drogo.errors import ArgumentError, BadCheckpoint, DamagedFile, MissingFile
from drogo.files import Header, read_array_file, write_array_file
from drogo.learn.checkpoint import as_section, section
from drogo.requests import differences
from drogo.use.online.base import AbstractOnlineMap

FORMAT = "drogo agent and map 1"
COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_n_calls", "_total_timesteps")
REPLAY = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
PARTS = ("mean", "var", "count")
AGENT, BUFFER, MAP, NORM = "agent/", "replay/", "map/", "normalise/"


def save(path: str | Path, agent: BaseAlgorithm, online: AbstractOnlineMap) -> None:
    """Writes an agent and its map to one file, in place of an earlier one.

    Args:
        path: The file.
        agent: The agent.
        online: Its map.
    """
    arrays = as_section(AGENT, dict(_tensors(agent)))
    arrays |= as_section(MAP, online.arrays())
    arrays |= as_section(NORM, _statistics(agent))
    arrays["counters"] = np.array([getattr(agent, name, 0) or 0 for name in COUNTERS], np.int64)
    buffer = getattr(agent, "replay_buffer", None)
    if isinstance(buffer, ReplayBuffer):
        size = buffer.buffer_size if buffer.full else buffer.pos
        arrays |= {BUFFER + name: getattr(buffer, name)[:size] for name in REPLAY}
        arrays["place"] = np.array([buffer.pos, buffer.full], np.int64)
    settings = {"format": FORMAT, **_request(agent, online)}
    write_array_file(Path(path), arrays, settings, overwrite=True)


def restore(path: str | Path, agent: BaseAlgorithm, online: AbstractOnlineMap) -> None:
    """Puts an agent and its map back to where they were saved.

    Args:
        path: The file.
        agent: An agent that was made with the same arguments.
        online: A map that was made with the same arguments.

    Raises:
        BadCheckpoint: It is the file of another agent or map, or it is damaged.
    """
    expected = {name: tuple(tensor.shape) for name, tensor in _tensors(agent, of_optimiser=False)}

    def check(stored: dict[str, Any], headers: dict[str, Header]) -> None:
        differ = differences(stored, {"format": FORMAT, **_request(agent, online)})
        if differ:
            raise ValueError(f"it is of another agent or map, which differs in {', '.join(differ)}")
        found = {name: header.shape for name, header in section(headers, AGENT).items()}
        if any(found.get(name) != shape for name, shape in expected.items()):
            raise ValueError("its parameters have other shapes than those of this agent")
        online.check_arrays(section(headers, MAP))

    try:
        arrays, _ = read_array_file(Path(path), FORMAT, check)
        _put_back(agent, arrays)
        online.continue_from(section(arrays, MAP))
    except (DamagedFile, MissingFile, ValueError, KeyError, RuntimeError) as error:
        raise BadCheckpoint(str(error), remedy="Give the file of this very agent.") from error


class Checkpoints(BaseCallback):
    """Saves the agent and its map every so often, and at the end.

    Args:
        path: The file.
        online: The map.
        seconds: How long to wait between two saves.
    """

    def __init__(self, path: str | Path, online: AbstractOnlineMap, seconds: float = 30.0) -> None:
        super().__init__()
        if not seconds > 0:
            raise ArgumentError(f"seconds is {seconds}; it must be positive.")
        self.path, self.online, self.seconds = Path(path), online, seconds
        self._saved = time.monotonic()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        if time.monotonic() - self._saved > self.seconds:
            save(self.path, self.model, self.online)
            self._saved = time.monotonic()

    def _on_training_end(self) -> None:
        save(self.path, self.model, self.online)


def _request(agent: BaseAlgorithm, online: AbstractOnlineMap) -> dict[str, Any]:
    return {"agent": type(agent).__name__, "map": online.request()}


def _tensors(
    agent: BaseAlgorithm, *, of_optimiser: bool = True
) -> Iterator[tuple[str, torch.Tensor]]:
    """The parameters of an agent and what its optimiser knows of each, by name."""
    for name, tensor in agent.policy.state_dict().items():
        yield f"policy/{name}", tensor
    if of_optimiser:
        for number, known in agent.policy.optimizer.state_dict()["state"].items():
            for name, tensor in known.items():
                yield f"optimiser/{number}/{name}", torch.as_tensor(tensor)


def _statistics(agent: BaseAlgorithm) -> dict[str, np.ndarray]:
    """What a `VecNormalize` knows of rewards and observations."""
    env = agent.get_vec_normalize_env()
    if env is None:
        return {}
    known = {f"{name}/{part}": getattr(rms, part) for name, rms in _running(env) for part in PARTS}
    return {"returns": np.asarray(env.returns), **known}


def _running(env: Any) -> list[tuple[str, Any]]:
    """The running means of a `VecNormalize`, as far as it has any of plain arrays."""
    named = [(name, getattr(env, name, None)) for name in ("ret_rms", "obs_rms")]
    return [(name, rms) for name, rms in named if hasattr(rms, "mean")]


def _put_back(agent: BaseAlgorithm, arrays: dict[str, np.ndarray]) -> None:
    stored = {name: torch.as_tensor(part) for name, part in section(arrays, AGENT).items()}
    agent.policy.load_state_dict(section(stored, "policy/"))
    state = agent.policy.optimizer.state_dict()
    known: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in section(stored, "optimiser/").items():
        number, part = name.split("/")
        known.setdefault(int(number), {})[part] = tensor
    agent.policy.optimizer.load_state_dict({**state, "state": known})
    for name, number in zip(COUNTERS, arrays["counters"].tolist(), strict=True):
        if hasattr(agent, name):
            setattr(agent, name, number)
    buffer = getattr(agent, "replay_buffer", None)
    if isinstance(buffer, ReplayBuffer):
        for name in REPLAY:
            part = arrays[BUFFER + name]
            getattr(buffer, name)[: len(part)] = part
        buffer.pos, buffer.full = int(arrays["place"][0]), bool(arrays["place"][1])
    env, statistics = agent.get_vec_normalize_env(), section(arrays, NORM)
    if env is not None:
        env.returns = statistics["returns"]
        for name, rms in _running(env):
            for part in PARTS:
                value = statistics[f"{name}/{part}"]
                setattr(rms, part, float(value) if value.ndim == 0 else value)
