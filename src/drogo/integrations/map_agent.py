"""`MapAgent`: a map that acts, with the interface of the agents of Stable-Baselines3."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from jaxtyping import Int
from scipy.special import softmax
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from drogo.errors import (
    check_choice,
    check_positive,
    check_share,
    check_type,
    check_whole,
    unknown_argument,
)
from drogo.files import Header, as_path, as_section, read_arrays, section, write_arrays
from drogo.integrations.learn_map import LearnMap, original
from drogo.online.base import AbstractOnlineMap
from drogo.online.network import OnlineMap
from drogo.online.table import OnlineTable
from drogo.problems.column import Column
from drogo.requests import check_same

KIND, MAP = "map agent", "map/"
KINDS: dict[str, Any] = {"table": OnlineTable, "network": OnlineMap}
OF_AGENT = ("stats_window_size", "tensorboard_log", "verbose")
ACTING = ("epsilon", "temperature", "seed")
COUNTERS = ("num_timesteps", "_episode_num", "_total_timesteps")


class MapAgent(OffPolicyAlgorithm):
    """An agent that acts on a map, which learns from all its steps. Nothing else is trained.

        agent = MapAgent("table", env, seed=0)
        agent.learn(20_000)
        evaluate_policy(agent, env)

    While it trains it takes the best action of a map that is optimistic about what was not tried
    yet. If the map's optimism ends with the first goal, which it does in an `OnlineMap`, actions
    are sampled by `exp(q / temperature)` from then on, which keeps improving the way. `predict`
    takes the best action that was tried, or samples one if it is not `deterministic`. It also
    samples where an observation comes a second time in an episode, since a map that is not exact
    can lead in circles; for that it needs the `state` that it returned, as `evaluate_policy` does.

    Args:
        online: The map: `"table"` for an `OnlineTable` or `"network"` for an `OnlineMap` of the
            environment, with lam 5; or one of your own.
        env: The environment, or a vector of environments. Images keep their axes.
        epsilon: The share of random actions while it trains.
        temperature: By what action values are divided where actions are sampled.
        **settings: Arguments of a map that is named, and `stats_window_size`, `tensorboard_log`
            and `verbose` of Stable-Baselines3.
    """

    def __init__(
        self,
        online: AbstractOnlineMap | str,
        env: Any,
        *,
        epsilon: float = 0.05,
        temperature: float = 1.0,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        of_agent = {name: settings.pop(name) for name in OF_AGENT if name in settings}
        seed = None if seed is None else check_whole("seed", seed, 0)
        check_type("env", env, (gymnasium.Env, VecEnv, str), "an environment, a vector or an id")
        options = {"seed": seed, "device": "cpu", "support_multi_env": True, "gradient_steps": 0}
        super().__init__(BasePolicy, env, 0.0, learning_starts=0, **options, **of_agent)
        self.online = self._map_of(online, settings)
        self.gamma = self.online.shaping.discount
        self.epsilon = check_share("epsilon", epsilon)
        self.temperature = check_positive("temperature", temperature)
        self.online.attach(self)
        self._setup_model()

    def _map_of(self, online: AbstractOnlineMap | str, settings: dict[str, Any]) -> Any:
        """Returns the given map, or the one of a name with these settings."""
        if not isinstance(online, str):
            if settings:
                raise unknown_argument(next(iter(settings)), OF_AGENT)
            return online
        check_choice("online", online, KINDS)
        seeded = {"seed": self.seed or 0} if online == "network" else {}
        given = {"problem": Column(lam=5.0)} | seeded | settings
        return KINDS[online](self.observation_space, self.action_space, **given)

    def _setup_model(self) -> None:
        self._convert_train_freq()
        self.set_random_seed(self.seed)
        self._rng = np.random.default_rng(self.seed)
        self.policy = _Policy(self)

    @staticmethod
    def _wrap_env(env: Any, verbose: int = 0, monitor_wrapper: bool = True) -> VecEnv:
        if isinstance(env, VecEnv):
            return env
        plain = not monitor_wrapper or is_wrapped(env, Monitor)
        return DummyVecEnv([lambda: env if plain else Monitor(env)])

    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int = 4,
        tb_log_name: str = "MapAgent",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> "MapAgent":
        """Acts for some steps and learns from them. The arguments are those of every agent."""
        given = callback if isinstance(callback, list) else [callback] * (callback is not None)
        listening = (
            one if isinstance(one, BaseCallback) else ConvertCallback(one) for one in given
        )
        callbacks = [LearnMap(self.online), *listening]
        rest = (log_interval, tb_log_name, reset_num_timesteps, progress_bar)
        return super().learn(total_timesteps, callbacks, *rest)

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        seen = original(self, self._last_obs)
        if self.online.found and self.online.until_found:
            actions = self._sampled(self.online.known_logits(seen))
        else:
            actions = self.online.act(seen, self._rng)
        is_random = self._rng.random(n_envs) < self.epsilon
        anything = self._rng.integers(self.online.n_actions, size=n_envs)
        actions = np.where(is_random, anything, actions)
        return actions, actions

    def _sampled(self, logits: np.ndarray) -> Int[np.ndarray, " n"]:
        return (logits / self.temperature + self._rng.gumbel(size=logits.shape)).argmax(axis=1)

    def _store_transition(self, replay_buffer: Any, buffer_action: np.ndarray, new_obs: Any,
                          reward: np.ndarray, dones: np.ndarray, infos: Any) -> None:  # fmt: skip
        self._last_obs = new_obs  # the callback has shown the step to the map

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """Returns the actions at one observation or a batch, and what was seen in the episodes."""
        seen = np.asarray(original(self, observation))
        is_batch = seen.ndim > len(self.online.shape)
        seen = seen if is_batch else seen[None]
        logits = self.online.known_logits(seen)
        before = [set() for _ in seen] if state is None else list(state)
        for k in np.flatnonzero(np.zeros(0) if episode_start is None else episode_start):
            before[k] = set()
        keys = [row.tobytes() for row in seen]
        again = [key in visited for key, visited in zip(keys, before, strict=True)]
        best = logits.argmax(axis=1)
        is_sampled = np.array(again) | (not deterministic)
        actions = np.where(is_sampled, self._sampled(logits), best)
        after = tuple({key, *visited} for key, visited in zip(keys, before, strict=True))
        return (actions if is_batch else actions.squeeze(axis=0)), after

    def teach(
        self,
        student: OnPolicyAlgorithm,
        steps: int = 4000,
        *,
        epochs: int = 20,
        batch_size: int = 64,
        temperature: float = 0.1,
    ) -> float:
        """Teaches the policy of another agent, such as a `PPO`, to act as this one. It can go on
        learning by itself afterwards.

        The policy learns `exp(q / temperature)` at observations that this agent meets, and then at
        those that it meets itself, by the cross-entropy.

        Args:
            student: An on-policy agent with the same observations and actions.
            steps: The steps in the environment of this agent, half of them of each. Neither learns
                from their rewards.
            epochs: The passes through all observations, for each half.
            batch_size: The observations of an update.
            temperature: By what action values are divided.

        Returns:
            The mean Kullback-Leibler divergence to the taught policy at the last pass.
        """
        policy = check_type("student", student, OnPolicyAlgorithm, "a PPO or an A2C").policy
        self.online.check_spaces(student.observation_space, student.action_space)
        whole = {"steps": steps, "epochs": epochs, "batch_size": batch_size}
        steps, epochs, batch_size = (check_whole(*pair, 1) for pair in whole.items())
        check_positive("temperature", temperature)
        env, met, distance = self.env, [], 0.0
        assert env is not None
        for actor in (self, student):
            seen: Any = env.reset()
            for _ in range(-(-steps // (2 * env.num_envs))):
                met.append(np.array(seen))
                seen, *_ = env.step(actor.predict(seen)[0])
            batch = np.concatenate(met)
            wanted = softmax(self.online.known_logits(original(self, batch)) / temperature, axis=1)
            for _ in range(epochs):
                order, distance = self._rng.permutation(len(batch)), 0.0
                for begin in range(0, len(batch), batch_size):
                    rows = order[begin : begin + batch_size]
                    shown, _ = policy.obs_to_tensor(batch[rows])
                    given: Any = policy.get_distribution(shown).distribution
                    target = torch.as_tensor(wanted[rows], dtype=given.logits.dtype)
                    part = torch.distributions.kl_divergence(type(given)(probs=target), given)
                    policy.optimizer.zero_grad()
                    part.mean().backward()
                    policy.optimizer.step()
                    distance += float(part.detach().sum()) / len(batch)
        self._last_obs = None  # the episode that was under way is over
        return distance

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:  # pyright: ignore
        """Writes the agent and its map to one file, with all that they need to continue."""
        counters = [getattr(self, name) for name in COUNTERS]
        arrays = as_section(MAP, self.online.arrays()) | {"counters": np.array(counters, np.int64)}
        write_arrays(as_path("path", path), KIND, arrays, self._request(), overwrite=overwrite)

    @classmethod
    def load(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, path: str | Path, env: Any, online: AbstractOnlineMap | None = None, **settings: Any
    ) -> "MapAgent":
        """Returns a saved agent. A map with code of your own, such as a network, is given again."""
        made: list[Any] = []
        env = gymnasium.make(env) if isinstance(env, str) else env

        def check(stored: dict[str, Any], headers: dict[str, Header]) -> None:
            spaces = (env.observation_space, env.action_space)
            map_ = online or AbstractOnlineMap.of_request(stored["map"], *spaces)
            made.append(cls(map_, env, **{name: stored[name] for name in ACTING}, **settings))
            check_same(stored, made[0]._request(), "map or agent")
            map_.check_arrays(section(headers, MAP))
            if headers["counters"].shape != (len(COUNTERS),):
                raise ValueError("its counters are missing")

        arrays, _ = read_arrays(as_path("path", path), KIND, check)
        (agent,) = made
        agent.online.continue_from(section(arrays, MAP))
        for name, number in zip(COUNTERS, arrays["counters"].tolist(), strict=True):
            setattr(agent, name, number)
        agent._rng = np.random.default_rng([agent.seed or 0, agent.num_timesteps])
        return agent

    def _request(self) -> dict[str, Any]:
        acting = {name: getattr(self, name) for name in ACTING}
        return acting | {"map": self.online.request()}


class _Policy(BasePolicy):
    """A policy without parameters of its own, which asks the agent's map."""

    def __init__(self, agent: MapAgent) -> None:
        super().__init__(agent.observation_space, agent.action_space)
        self._ask = agent.predict

    def _predict(self, observation: Any, deterministic: bool = False) -> torch.Tensor:
        return torch.as_tensor(self._ask(observation.numpy(), deterministic=deterministic)[0])
