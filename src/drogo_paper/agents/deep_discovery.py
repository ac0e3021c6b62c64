"""Deep option discovery: the cycle of `discover` for one agent with a network, in any environment
with discrete actions. Only untried actions are terminal for its map: an episode that is over
continues with the first observation of the next, at the cost of its end."""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float, Int

from drogo.data.step import NumberOfStep, Step, number_or_function
from drogo.errors import check_cost, check_whole
from drogo.learn import MLP
from drogo.learn.methods import Drogo
from drogo.online.base import AbstractOnlineMap
from drogo.problems import Column
from drogo.use.options import Option, OptionWrapper, learned_option
from drogo_paper.agents.discovery import Cycle
from drogo_paper.agents.even_map import EvenMap
from drogo_paper.agents.trained import is_bad

CHUNK = 64
"""The number of steps that the map observes together."""
LEARNING: dict[str, Any] = {
    "problem": Column(lam=5.0),
    "method": Drogo(batch_size=64),
    "network": MLP(width=64, depth=3, centred=True),
    "until_found": False,
    "learning_starts": 1,
    "updates_per_step": 2.0,
    "untried_share": 0.25,
    "evenly": True,
}
"""Arguments of an `EvenMap` that differ from its defaults."""


@dataclass(frozen=True, eq=False)
class DeepDiscovery:
    """The result of `discover_deep`."""

    visited: Int[np.ndarray, " iterations"]
    """The number of different places, without terminal states, up to each iteration."""
    deaths: Int[np.ndarray, " iterations"]
    """The number of episodes of each iteration with a negative `info["terminal_reward"]`."""
    reward: Float[np.ndarray, " iterations"]
    """The mean original reward of the steps of each iteration."""
    options: Sequence[Option]
    online: AbstractOnlineMap | None
    """The map, or None after a random walk."""
    begun: int
    cut: int
    """The number of begun options that the limit stopped."""


class _Walked(gymnasium.Wrapper):
    """Records the steps of a walk, and truncates the episode after its last step."""

    def __init__(self, env: gymnasium.Env, cost: NumberOfStep) -> None:
        super().__init__(env)
        self.cost = cost
        self.steps: list[Step] = []
        self.costs: list[float] = []
        self.seen: set[Hashable] = set()
        self.left = 0

    def begin(self, steps: int) -> None:
        self.steps, self.costs, self.left = [], [], steps

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._before = np.array(observation)  # a copy: some environments reuse their buffers
        self.seen.add(place_of(observation, info))
        if self.steps and self.steps[-1].terminated:  # the episode continues with the next one
            self.steps[-1] = self.steps[-1]._replace(next_observation=self._before)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        reached, ended, late = np.array(observation), bool(terminated), bool(truncated)
        step = Step(self._before, action, float(reward), reached, ended, late, info)
        cost = self.cost(step) if callable(self.cost) else self.cost
        self.costs.append(step.reward if cost is None else float(cost))
        self.steps.append(step)
        if not ended:
            self.seen.add(place_of(observation, info))
        self._before = reached
        self.left -= 1
        return observation, step.reward, ended, late or self.left <= 0, info

    def columns(self) -> tuple[np.ndarray, ...]:
        """Returns the arguments of `observe` for the walk, in which no step is terminal."""
        before, action, _, after, *_ = zip(*self.steps, strict=True)
        none = np.zeros(len(self.steps), dtype=bool)
        return np.stack(before), np.array(action), np.array(self.costs), np.stack(after), none


def discover_deep(
    make_env: Callable[[], gymnasium.Env],
    cycle: Cycle,
    *,
    seed: int = 0,
    reward: NumberOfStep = None,
    limit: int = 100,
    make_map: Callable[..., AbstractOnlineMap] = EvenMap,
    **settings: Any,
) -> DeepDiscovery:
    """Discovers options with a network, one in each iteration: random actions and options from a
    first observation, then the map learns from these steps, and the next option follows it.
    `reward` is the cost of a step for the map, by default the environment's: with -1.0 the map is
    blind to rewards. `settings` are arguments of the map, in place of `LEARNING`."""
    check_whole("limit", limit, 1)
    rng = np.random.default_rng([seed, 1])
    env = _Walked(make_env(), number_or_function("reward", reward, check_cost))
    online, capacity = None, max(2, cycle.iterations * cycle.steps)
    if cycle.p_option > 0:
        defaults = {**LEARNING, "seed": seed, "capacity": capacity} if make_map is EvenMap else {}
        online = make_map(env.observation_space, env.action_space, **{**defaults, **settings})
    options: deque[Option] = deque(maxlen=cycle.keep)
    visited, deaths, rewards, begun, cut = [], [], [], 0, 0
    for number in range(cycle.iterations):
        env.begin(cycle.steps)
        wrapped = OptionWrapper(env, list(options), limit=limit)
        wrapped.reset(seed=seed if number == 0 else None)
        options_begun, options_cut = _walk(wrapped, env, cycle.p_option, rng)
        begun, cut = begun + options_begun, cut + options_cut
        visited.append(len(env.seen))
        deaths.append(sum(step.terminated and is_bad(step.info) for step in env.steps))
        rewards.append(float(np.mean([step.reward for step in env.steps])))
        if online is not None:
            columns = env.columns()
            for k in range(0, len(columns[0]), CHUNK):
                online.observe(*(column[k : k + CHUNK] for column in columns))
                online.train()
            options.append(learned_option(online, f"option {number}", seed))
    arrays = (np.array(visited), np.array(deaths), np.array(rewards))
    return DeepDiscovery(*arrays, list(options), online, begun, cut)


def _walk(
    env: OptionWrapper, walked: _Walked, p_option: float, rng: np.random.Generator
) -> tuple[int, int]:
    """Takes the steps of one walk, and returns the numbers of options that began and were cut."""
    over, begun, cut = False, 0, 0
    while walked.left > 0:
        if over:
            env.reset()
        able = np.flatnonzero(env.action_masks()[env.primitive :])
        follows = able.size > 0 and rng.random() < p_option
        action = env.primitive + rng.choice(able) if follows else rng.integers(env.primitive)
        _, _, terminated, truncated, info = env.step(np.int64(action))
        over = terminated or truncated
        begun, cut = begun + bool(follows), cut + bool(info["option_cut"])
    if walked.steps[-1].terminated:
        walked.reset()  # for the next observation of the last step
    return begun, cut


def place_of(observation: Any, info: dict[str, Any]) -> Hashable:
    """Returns the state that an environment reports, or else the bytes of its observation."""
    state = info.get("state")
    return np.asarray(observation).tobytes() if state is None else state
