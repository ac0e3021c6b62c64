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
from typing import Any, Protocol, runtime_checkable

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
STATISTICS = ("mean", "var", "count")
AGENT, BUFFER, MAP, NORM, PART = "agent/", "replay/", "map/", "normalise/", "part/"


@runtime_checkable
class Part(Protocol):
    """Something else that a file holds beside an agent and its map, such as a learning curve."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns what the file holds of it."""
        ...

    def continue_from(self, arrays: dict[str, np.ndarray]) -> None:
        """Goes on from the arrays of a file, or raises a ValueError."""
        ...


def save(
    path: str | Path, agent: BaseAlgorithm, online: AbstractOnlineMap | None = None, **parts: Part
) -> None:
    """Writes an agent and its map to one file, in place of an earlier one.

    Args:
        path: The file.
        agent: The agent.
        online: Its map, if it has one.
        **parts: What else goes on with them.
    """
    _check_kept(agent, online)
    arrays = as_section(AGENT, dict(_tensors(agent)))
    arrays |= as_section(NORM, _statistics(agent))
    arrays |= {} if online is None else as_section(MAP, online.arrays())
    for name, part in parts.items():
        arrays |= as_section(f"{PART}{name}/", part.arrays())
    arrays["counters"] = np.array([getattr(agent, name, 0) or 0 for name in COUNTERS], np.int64)
    buffer = _replay(agent)
    if buffer is not None:
        size = buffer.buffer_size if buffer.full else buffer.pos
        arrays |= {BUFFER + name: getattr(buffer, name)[:size] for name in REPLAY}
        arrays["place"] = np.array([buffer.pos, buffer.full], np.int64)
    settings = {"format": FORMAT, **_request(agent, online, parts)}
    write_array_file(Path(path), arrays, settings, overwrite=True)


def restore(
    path: str | Path, agent: BaseAlgorithm, online: AbstractOnlineMap | None = None, **parts: Part
) -> None:
    """Puts an agent and its map back to where they were saved.

    Args:
        path: The file.
        agent: An agent that was made with the same arguments.
        online: A map that was made with the same arguments.
        **parts: What else was saved with them.

    Raises:
        BadCheckpoint: It is the file of another agent or map, or it is damaged.
    """
    _check_kept(agent, online)

    def check(stored: dict[str, Any], headers: dict[str, Header]) -> None:
        differ = differences(stored, {"format": FORMAT, **_request(agent, online, parts)})
        if differ:
            raise ValueError(f"it is of another agent or map, which differs in {', '.join(differ)}")
        _check_agent(agent, headers)
        if online is not None:
            online.check_arrays(section(headers, MAP))

    try:
        arrays, _ = read_array_file(Path(path), FORMAT, check)
        _check_place(agent, arrays)
        for name, part in parts.items():
            part.continue_from(section(arrays, f"{PART}{name}/"))
        if online is not None:
            online.continue_from(section(arrays, MAP))
        _put_back(agent, arrays)
        if agent.seed is not None:  # or it would draw the numbers of its beginning again
            agent.set_random_seed((agent.seed + agent.num_timesteps) % 2**31)
    except (DamagedFile, MissingFile, KeyError, ValueError, RuntimeError) as error:
        raise BadCheckpoint(str(error), remedy="Give the file of this very agent.") from error


class Checkpoints(BaseCallback):
    """Saves the agent and its map every so often, and at the end.

    Args:
        path: The file.
        online: The map, if the agent has one.
        seconds: How long to wait between two saves.
        **parts: What else goes on with them.
    """

    def __init__(
        self,
        path: str | Path,
        online: AbstractOnlineMap | None = None,
        seconds: float = 30.0,
        **parts: Part,
    ) -> None:
        super().__init__()
        if not seconds > 0:
            raise ArgumentError(f"seconds is {seconds}; it must be positive.")
        self.path, self.online, self.seconds, self.parts = Path(path), online, seconds, parts
        self._saved = time.monotonic()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:  # after the agent has learned from the last rollout
        _check_kept(self.model, self.online)
        if time.monotonic() - self._saved > self.seconds:
            save(self.path, self.model, self.online, **self.parts)
            self._saved = time.monotonic()

    def _on_training_end(self) -> None:
        save(self.path, self.model, self.online, **self.parts)


def _check_kept(agent: BaseAlgorithm, online: AbstractOnlineMap | None) -> None:
    """Raises an error unless a file can hold an agent together with the map that shapes it."""
    if not hasattr(agent.policy, "optimizer"):
        raise ArgumentError(
            f"the policy of a {type(agent).__name__} has several optimisers, and a file holds the "
            "state of one, as a DQN, a PPO or an A2C has it.",
            remedy="Use one of these, or agent.save(path) and online.save(path).",
        )
    buffers = (getattr(agent, f"{kind}_buffer", None) for kind in ("replay", "rollout"))
    maps = [getattr(buffer, "shaping", None) for buffer in buffers]
    if any(isinstance(used, AbstractOnlineMap) and used is not online for used in maps):
        raise ArgumentError(
            f"the rewards of this {type(agent).__name__} are shaped by a map, which is not the one "
            "given here, so that agent and map would not be restored together.",
            remedy="Give its map: Checkpoints(path, online), save(path, agent, online) and "
            "restore(path, agent, online).",
        )


def _replay(agent: BaseAlgorithm) -> ReplayBuffer | None:
    buffer = getattr(agent, "replay_buffer", None)
    return buffer if isinstance(buffer, ReplayBuffer) else None


def _request(
    agent: BaseAlgorithm, online: AbstractOnlineMap | None, parts: dict[str, Part]
) -> dict[str, Any]:
    """What must agree for an agent to go on from a file."""
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


def _check_agent(agent: BaseAlgorithm, headers: dict[str, Header]) -> None:
    """Raises an error unless all arrays that an agent needs are there, with its shapes."""
    expected = {AGENT + name: tuple(tensor.shape)
                for name, tensor in _tensors(agent, of_optimiser=False)}  # fmt: skip
    expected |= {NORM + name: part.shape for name, part in _statistics(agent).items()}
    expected["counters"] = (len(COUNTERS),)
    buffer = _replay(agent)
    if buffer is not None:
        expected["place"] = (2,)
        size = headers[BUFFER + REPLAY[0]].shape[0]
        expected |= {BUFFER + name: (size, *getattr(buffer, name).shape[1:]) for name in REPLAY}
    wrong = [name for name, shape in expected.items() if headers[name].shape != shape]
    if wrong:
        raise ValueError(f"{wrong[0]} in it has another shape than that of this agent")


def _check_place(agent: BaseAlgorithm, arrays: dict[str, np.ndarray]) -> None:
    """Raises an error unless the replay in a file is as long as its counters say."""
    buffer = _replay(agent)
    if buffer is not None:
        place, full = (int(number) for number in arrays["place"])
        size = buffer.buffer_size if full else place
        if len(arrays[BUFFER + REPLAY[0]]) != size or not 0 <= place <= buffer.buffer_size:
            raise ValueError("the replay in it is not as long as it says")


def _tensors(
    agent: BaseAlgorithm, *, of_optimiser: bool = True
) -> Iterator[tuple[str, torch.Tensor]]:
    """The parameters of an agent and what its optimiser knows of each, by name."""
    for name, tensor in agent.policy.state_dict().items():
        yield f"policy/{name}", tensor.detach().cpu()
    if of_optimiser:
        for number, known in agent.policy.optimizer.state_dict()["state"].items():
            for name, tensor in known.items():
                yield f"optimiser/{number}/{name}", torch.as_tensor(tensor).detach().cpu()


def _statistics(agent: BaseAlgorithm) -> dict[str, np.ndarray]:
    """What a `VecNormalize` knows of rewards and observations."""
    env = agent.get_vec_normalize_env()
    if env is None:
        return {}
    known = {f"{name}/{part}": np.asarray(getattr(rms, part))
             for name, rms in _running(env) for part in STATISTICS}  # fmt: skip
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
    buffer = _replay(agent)
    if buffer is not None:
        for name in REPLAY:
            part = arrays[BUFFER + name]
            getattr(buffer, name)[: len(part)] = part
        buffer.pos, buffer.full = int(arrays["place"][0]), bool(arrays["place"][1])
    env, statistics = agent.get_vec_normalize_env(), section(arrays, NORM)
    if env is not None:
        env.returns = statistics["returns"]
        for name, rms in _running(env):
            for part in STATISTICS:
                value = statistics[f"{name}/{part}"]
                setattr(rms, part, float(value) if value.ndim == 0 else value)
