"""Deep option discovery: walk, learn a map from the steps, make an option of it, and walk again.

This is the cycle of `discover` in any environment with discrete actions: from pixels, coordinates
or any other numbers, with a network in place of a table, and one agent in place of many lanes.

No terminal state is needed, and none counts. The map is that of `ActionValues` in which actions
that were never tried are the only ends, and an episode that is over goes on with the first
observation of the next: what its end has cost is the price of this way. So a map of the rewards
leads to what was not tried around what is costly, and its twin, in which every step costs the same,
by the shortest way, through lava too if that is a short way back to the start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float, Int

from drogo.data.step import NumberOfStep, Step, check_cost, is_bad
from drogo.errors import check_share, check_whole
from drogo.use.online import AbstractOnlineMap, OnlineMap
from drogo.use.options import Option, OptionWrapper, learned_option

CHUNK = 64
"""So many steps are given to the map together."""
LEARNING: dict[str, Any] = {
    "lam": 5.0, "until_found": False, "learning_starts": 1, "batch_size": 64, "updates": 2.0,
    "centred": True, "untried_share": 0.25, "evenly": True,
}  # fmt: skip
"""Settings of the map that differ from those of `OnlineConfig`."""


@dataclass(frozen=True, eq=False)
class DeepDiscovery:
    """What one agent saw while it discovered options.

    Args:
        visited: How many different places were seen until the end of each iteration, without
            terminal states.
        deaths: How many episodes ended badly in each iteration: `info["terminal_reward"]` was below
            0.
        reward: The mean reward of the steps of each iteration, as the environment gave it.
        options: The options of the last iterations, the latest at the end.
        online: The map, or None after a random walk.
        begun: How often an option was begun.
        cut: How many of these were cut, because they did not end by themselves.
    """

    visited: Int[np.ndarray, " iterations"]
    deaths: Int[np.ndarray, " iterations"]
    reward: Float[np.ndarray, " iterations"]
    options: Sequence[Option]
    online: AbstractOnlineMap | None
    begun: int
    cut: int


class _Walked(gymnasium.Wrapper):
    """Keeps the steps of a walk, and cuts the episode when there are as many as there should be."""

    def __init__(
        self,
        env: gymnasium.Env,
        cost: NumberOfStep,
        place: Callable[[Any, dict[str, Any]], Hashable],
    ) -> None:
        super().__init__(env)
        self.cost, self.place = cost, place
        self.steps: list[Step] = []
        self.costs: list[float] = []
        self.seen: set[Hashable] = set()
        self.left = 0

    def begin(self, steps: int) -> None:
        """Forgets the last walk, and allows so many steps of the next."""
        self.steps, self.costs, self.left = [], [], steps

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._before = np.array(observation)  # some environments write into what they returned
        self.seen.add(self.place(observation, info))
        if self.steps and self.steps[-1].terminated:  # the episode goes on with the next one
            self.steps[-1] = self.steps[-1]._replace(next_observation=self._before)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        reached, ended, late = np.array(observation), bool(terminated), bool(truncated)
        step = Step(self._before, action, float(reward), reached, ended, late, info)
        given = self.cost(step) if callable(self.cost) else self.cost
        self.costs.append(step.reward if given is None else float(given))
        self.steps.append(step)
        if not ended:
            self.seen.add(self.place(observation, info))
        self._before = reached
        self.left -= 1
        return observation, step.reward, ended, late or self.left <= 0, info

    def columns(self) -> tuple[np.ndarray, ...]:
        """Returns what a map observes of the walk, in which no step reaches a terminal state."""
        before, action, _, after, *_ = zip(*self.steps, strict=True)
        none = np.zeros(len(self.steps), dtype=bool)
        return np.stack(before), np.array(action), np.array(self.costs), np.stack(after), none


def discover_deep(
    make_env: Callable[[], gymnasium.Env],
    *,
    iterations: int,
    steps: int = 200,
    seed: int = 0,
    reward: NumberOfStep = None,
    p_option: float = 0.5,
    limit: int = 100,
    keep: int = 1,
    make_map: Callable[..., AbstractOnlineMap] = OnlineMap,
    place: Callable[[Any, dict[str, Any]], Hashable] | None = None,
    progress: Callable[[int], None] | None = None,
    **settings: Any,
) -> DeepDiscovery:
    """Discovers options with a network, one in each iteration.

    An iteration walks from the first observation of an episode: random actions, and with
    probability `p_option` an option, until it ends. Then the map learns from these steps, and the
    next option goes where it leads (`learned_option`).

    Args:
        make_env: Makes the environment. Its actions are Discrete, its observations a `Box`.
        iterations: How many iterations there are.
        steps: How many steps each walk has.
        seed: Decides everything that is drawn, but for what the environment draws itself after its
            first reset with this seed.
        reward: What a step costs, for the map: a negative number for all of them, a function of a
            `Step`, or None for the environment's own rewards with the value of a terminal state.
            With -1.0 the map is blind to rewards.
        p_option: How likely an option is begun in each step in which none is followed. With 0 the
            walk is random, and nothing is learned.
        limit: After so many steps an option is cut.
        keep: How many options are kept. The oldest is forgotten first.
        make_map: What learns: `OnlineMap`, or `OnlineTable` for the exact map where observations
            repeat.
        place: Which place an observation and its `info` are of, for `visited`. By default it is
            `info["state"]`, or else the observation.
        progress: Called with the number of iterations that are done.
        **settings: Arguments of the map. Those of an `OnlineMap` are `sides` and the fields of
            `OnlineConfig`; some differ from its own (`LEARNING`).

    Returns:
        What was seen.
    """
    for name, number in (("iterations", iterations), ("steps", steps), ("limit", limit)):
        check_whole(name, number, 1)
    check_share("p_option", p_option)
    check_cost(reward)
    rng = np.random.default_rng([seed, 1])
    env = _Walked(make_env(), reward, place or place_of)
    online = None
    if p_option > 0:
        chosen: dict[str, Any] = {}
        if make_map is OnlineMap:
            chosen = {**LEARNING, "seed": seed, "capacity": max(2, iterations * steps)}
        online = make_map(env.observation_space, env.action_space, **{**chosen, **settings})
    options: deque[Option] = deque(maxlen=check_whole("keep", keep, 1))
    visited, deaths, rewards, begun, cut = [], [], [], 0, 0
    for number in range(iterations):
        env.begin(steps)
        wrapped = OptionWrapper(env, list(options), limit=limit)
        wrapped.reset(seed=seed if number == 0 else None)
        taken = _walk(wrapped, env, p_option, rng)
        begun, cut = begun + taken[0], cut + taken[1]
        visited.append(len(env.seen))
        deaths.append(sum(step.terminated and is_bad(step.info) for step in env.steps))
        rewards.append(float(np.mean([step.reward for step in env.steps])))
        if online is not None:
            columns = env.columns()
            for k in range(0, steps, CHUNK):
                online.observe(*(column[k : k + CHUNK] for column in columns))
                online.train()
            options.append(learned_option(online, f"option {number}", seed))
        if progress is not None:
            progress(number + 1)
    counts = (np.array(visited), np.array(deaths), np.array(rewards))
    return DeepDiscovery(*counts, list(options), online, begun, cut)


def _walk(
    env: OptionWrapper, walked: _Walked, p_option: float, rng: np.random.Generator
) -> tuple[int, int]:
    """Takes the steps of one walk, and returns how many options were begun, and how many cut."""
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
        walked.reset()  # to know where it leads
    return begun, cut


def place_of(observation: Any, info: dict[str, Any]) -> Hashable:
    """Returns the state that an environment reports, or else its observation, bit for bit."""
    state = info.get("state")
    return np.asarray(observation).tobytes() if state is None else state
