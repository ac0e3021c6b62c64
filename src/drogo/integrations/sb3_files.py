"""Saves an agent of Stable-Baselines3 and its map to one file, so that both continue together.

    agent.learn(100_000, callback=[LearnMap(online), Checkpoints("run.npz", online)])

and after the process was killed, with an agent and a map made as before:

    restore("run.npz", agent, online)
    agent.learn(100_000 - agent.num_timesteps, reset_num_timesteps=False, callback=...)

A resumed run begins a new episode with other random numbers, so it is not the same to the last bit
as one that was never interrupted."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback

from drogo import errors
from drogo.errors import ArgumentError, BadCheckpoint, DamagedFile, MissingFile, check_positive
from drogo.files import Header, as_path, as_section, read_arrays, section, write_arrays
from drogo.online.base import AbstractOnlineMap
from drogo.requests import check_same

KIND = "agent and map"
Map = AbstractOnlineMap | None
COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_n_calls", "_total_timesteps")
REPLAY = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
STATISTICS = ("mean", "var", "count")
AGENT, BUFFER, MAP, NORM, PART = "agent/", "replay/", "map/", "normalise/", "part/"


def save(path: str | Path, agent: BaseAlgorithm, online: Map = None, **parts: Any) -> None:
    """Writes an agent and its map, if it has one, to one file, in place of an earlier one.

    Other `parts`, such as a learning curve, are saved with them. They have the methods `arrays`,
    which returns arrays by name, and `continue_from`, which takes them.
    """
    _check_saved(agent, online)
    arrays = _arrays(agent) | ({} if online is None else as_section(MAP, online.arrays()))
    for name, part in _checked(parts).items():
        arrays |= as_section(f"{PART}{name}/", part.arrays())
    request = _request(agent, online, parts)
    write_arrays(as_path("path", path), KIND, arrays, request, overwrite=True)


def restore(path: str | Path, agent: BaseAlgorithm, online: Map = None, **parts: Any) -> None:
    """Restores an agent and its map, which were made with the arguments of the saved ones."""
    _check_saved(agent, online)
    _checked(parts)

    def check(stored: dict[str, Any], headers: dict[str, Header]) -> None:
        check_same(stored, _request(agent, online, parts), "agent or map")
        own = _arrays(agent).items()
        expected = {k: part.shape for k, part in own if not k.startswith(f"{AGENT}optimiser/")}
        rows = headers[BUFFER + REPLAY[0]].shape[:1] if BUFFER + REPLAY[0] in expected else ()
        for name, shape in expected.items():
            wanted = (*rows, *shape[1:]) if name.startswith(BUFFER) else shape
            if headers[name].shape != wanted:
                raise ValueError(f"{name} in it has another shape than that of this agent")
        if online is not None:
            online.check_arrays(section(headers, MAP))

    try:
        arrays, _ = read_arrays(as_path("path", path), KIND, check)
        if (buffer := _replay(agent)) is not None:
            place, full = arrays["place"].tolist()
            size = buffer.buffer_size if full else place
            if len(arrays[BUFFER + REPLAY[0]]) != size or not 0 <= place <= buffer.buffer_size:
                raise ValueError("the replay in it is not as long as it says")
        for name, part in parts.items():
            part.continue_from(section(arrays, f"{PART}{name}/"))
        if online is not None:
            online.continue_from(section(arrays, MAP))
        _put_back(agent, arrays)
        if agent.seed is not None:  # or it would repeat the random numbers of its beginning
            agent.set_random_seed((agent.seed + agent.num_timesteps) % 2**31)
    except (DamagedFile, MissingFile, KeyError, ValueError, RuntimeError) as error:
        remedy = "Give the file of this agent."
        raise BadCheckpoint(str(error), remedy=remedy, argument="path") from error


class Checkpoints(BaseCallback):
    """Saves the agent, its map and `parts` as `save` does, every few `seconds` and at the end."""

    def __init__(
        self, path: str | Path, online: Map = None, seconds: float = 30.0, **parts: Any
    ) -> None:
        super().__init__()
        self.path, self.parts = as_path("path", path), _checked(parts)
        self.online = online
        self.seconds, self._saved = check_positive("seconds", seconds), time.monotonic()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:  # after the agent has learned from the last rollout
        _check_saved(self.model, self.online)
        if time.monotonic() - self._saved > self.seconds:
            save(self.path, self.model, self.online, **self.parts)
            self._saved = time.monotonic()

    def _on_training_end(self) -> None:
        save(self.path, self.model, self.online, **self.parts)


def _checked(parts: dict[str, Any]) -> dict[str, Any]:
    for name, part in parts.items():
        if not hasattr(part, "arrays") or not hasattr(part, "continue_from"):
            remedy = "Give a part with the methods arrays and continue_from."
            raise errors.unknown_argument(name, (), remedy)
    return parts


def _check_saved(agent: BaseAlgorithm, online: Any) -> None:
    """Raises an error unless a file can hold an agent together with the map that shapes it."""
    if not hasattr(agent.policy, "optimizer"):
        problem = f"the policy of a {type(agent).__name__} has no optimiser of torch."
        remedy = "Use a DQN, a PPO or an A2C, or agent.save(path) and online.save(path)."
        raise ArgumentError(problem, remedy=remedy, argument="agent")
    buffers = (getattr(agent, f"{kind}_buffer", None) for kind in ("replay", "rollout"))
    maps = [getattr(buffer, "shaping", None) for buffer in buffers]
    if any(isinstance(used, AbstractOnlineMap) and used is not online for used in maps):
        problem = f"another map than online shapes the rewards of this {type(agent).__name__}."
        remedy = "Give its map, for example Checkpoints(path, online)."
        raise ArgumentError(problem, remedy=remedy, argument="online")


def _replay(agent: BaseAlgorithm) -> ReplayBuffer | None:
    buffer = getattr(agent, "replay_buffer", None)
    return buffer if isinstance(buffer, ReplayBuffer) else None


def _request(agent: BaseAlgorithm, online: Map, parts: dict[str, Any]) -> dict[str, Any]:
    """Returns everything that must agree for an agent to continue from a file."""
    buffer = _replay(agent)
    return {
        "agent": type(agent).__name__,
        "observations": list(agent.observation_space.shape or ()),
        "environments": agent.n_envs,
        "discount": agent.gamma,  # pyright: ignore[reportAttributeAccessIssue]
        "replay": None if buffer is None else buffer.buffer_size,
        "map": None if online is None else online.request(),
        "parts": sorted(parts),
    }


def _arrays(agent: BaseAlgorithm) -> dict[str, np.ndarray]:
    """Returns everything that changes while an agent learns."""
    arrays = as_section(f"{AGENT}policy/", _on_host(agent.policy.state_dict()))
    for number, tensors in agent.policy.optimizer.state_dict()["state"].items():
        arrays |= as_section(f"{AGENT}optimiser/{number}/", _on_host(tensors))
    env = agent.get_vec_normalize_env()
    if env is not None:
        pairs = [(k, rms, p) for k, rms in _running(env).items() for p in STATISTICS]
        means = {f"{k}/{p}": getattr(rms, p) for k, rms, p in pairs}
        arrays |= as_section(NORM, {"returns": env.returns, **means})
    arrays["counters"] = np.array([getattr(agent, name, 0) or 0 for name in COUNTERS], np.int64)
    buffer = _replay(agent)
    if buffer is not None:
        size = buffer.buffer_size if buffer.full else buffer.pos
        arrays |= {BUFFER + name: getattr(buffer, name)[:size] for name in REPLAY}
        arrays["place"] = np.array([buffer.pos, buffer.full], np.int64)
    return arrays


def _on_host(tensors: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.as_tensor(part).detach().cpu() for name, part in tensors.items()}


def _running(env: Any) -> dict[str, Any]:
    """Returns the running means of a `VecNormalize`, as far as it has any of plain arrays."""
    means = {name: getattr(env, name, None) for name in ("ret_rms", "obs_rms")}
    return {name: mean for name, mean in means.items() if hasattr(mean, "mean")}


def _put_back(agent: BaseAlgorithm, arrays: dict[str, np.ndarray]) -> None:
    buffer = _replay(agent)
    if buffer is not None:
        for name in REPLAY:
            part = arrays[BUFFER + name]
            getattr(buffer, name)[: len(part)] = part
        buffer.pos, buffer.full = int(arrays["place"][0]), bool(arrays["place"][1])
    stored = {name: torch.as_tensor(part) for name, part in section(arrays, AGENT).items()}
    agent.policy.load_state_dict(section(stored, "policy/"))
    of_parameters: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in section(stored, "optimiser/").items():
        number, part = name.split("/")
        of_parameters.setdefault(int(number), {})[part] = tensor
    optimiser = agent.policy.optimizer
    optimiser.load_state_dict({**optimiser.state_dict(), "state": of_parameters})
    for name, number in zip(COUNTERS, arrays["counters"].tolist(), strict=True):
        if hasattr(agent, name):
            setattr(agent, name, number)
    env, statistics = agent.get_vec_normalize_env(), section(arrays, NORM)
    if env is not None:
        env.returns = statistics["returns"]
        for name, rms in _running(env).items():
            for part in STATISTICS:
                value = statistics[f"{name}/{part}"]
                setattr(rms, part, float(value) if value.ndim == 0 else value)
