"""RiverSwim and SixArms (Strehl and Littman, 2008): worlds that never end and are hard to explore.

    gymnasium.make("drogo_paper.continuing_worlds:drogo/RiverSwim-v0")

Their rewards depend on the action and the next state, so they are no `MDP`, whose rewards are r(s).
Their exact solution is computed from steps (`drogo.Continuing`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Float

from drogo.errors import ArgumentError, check_choice, check_type, check_whole
from drogo.mdp.arrays import frozen
from drogo.worlds.tabular import Options, Reset, check_action, check_reset

STEP_LIMIT = 5000  # The number of steps of an episode, in all work on these worlds.

Table = Float[np.ndarray, "states actions states"]


@dataclass(frozen=True, eq=False)
class ContinuingWorld:
    """A finite world in which episodes are truncated, but never terminated."""

    name: str
    probability: Table  # The probability of each next state.
    reward: Table  # The reward of each action by the state that it led to.
    start: Float[np.ndarray, " states"]  # The distribution of the first state.
    actions: tuple[str, ...]
    step_limit: int = STEP_LIMIT

    def __post_init__(self) -> None:
        for array in (self.probability, self.reward, self.start):
            frozen(array)

    @property
    def n_states(self) -> int:
        """The number of states."""
        return self.start.size

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return len(self.actions)

    @cached_property
    def cumulative(self) -> Table:
        """The cumulative probabilities of the next states, to sample them with."""
        summed = self.probability.cumsum(axis=2)
        return frozen(np.where(summed > 1 - 1e-12, 1.0, summed))  # no number in [0, 1) is beyond

    @property
    def best_reward(self) -> float:
        """The largest reward."""
        return float(self.reward.max())


def river_swim() -> ContinuingWorld:
    """Returns RiverSwim: six places along a river, with a large reward at its far end.

    Swimming to the right often fails; going back to the left never does, and pays a little."""
    probability, reward = np.zeros((6, 2, 6)), np.zeros((6, 2, 6))
    right, left = 0, 1
    probability[0, right, :2] = 0.7, 0.3
    for place in range(1, 5):  # carried back, no progress, one place further
        probability[place, right, place - 1 : place + 2] = 0.1, 0.6, 0.3
    probability[5, right, 4:] = 0.7, 0.3
    probability[np.arange(6), left, [0, 0, 1, 2, 3, 4]] = 1.0
    reward[0, left, 0], reward[5, right, 5] = 5.0, 10_000.0
    start = np.array([0.0, 0.5, 0.5, 0.0, 0.0, 0.0])
    return ContinuingWorld("river-swim", probability, reward, start, ("right", "left"))


def six_arms() -> ContinuingWorld:
    """Returns SixArms: a room in the middle, and six rooms with an arm that pays when it is pulled.

    The more a room pays, the less often an action leads to it. In a room, the action that leads to
    it pulls its arm; in the first room, all actions but one do."""
    arms = np.arange(6)
    chance = np.array([1.0, 0.15, 0.10, 0.05, 0.03, 0.01])
    pay = np.array([50.0, 133.0, 300.0, 800.0, 1666.0, 6000.0])
    probability, reward = np.zeros((7, 6, 7)), np.zeros((7, 6, 7))
    probability[0, arms, arms + 1], probability[0, :, 0] = chance, 1 - chance
    pulls = np.eye(6, dtype=bool)
    pulls[0] = arms != 4  # the only action that leads out of the first room
    probability[1:, :, 0] = ~pulls
    arm, action = pulls.nonzero()
    probability[arm + 1, action, arm + 1], reward[arm + 1, action, arm + 1] = 1.0, pay[arm]
    actions = tuple(f"arm {arm}" for arm in arms)
    return ContinuingWorld("six-arms", probability, reward, np.eye(7)[0], actions)


WORLDS: dict[str, Callable[[], ContinuingWorld]] = {"river-swim": river_swim, "six-arms": six_arms}
"""The function that makes each world, by its name."""


class ContinuingEnv(gymnasium.Env):
    """A world that never ends, as a Gymnasium environment whose observation is the state.

    `P` and `initial_state_distrib` hold the dynamics, as in Gymnasium's own small environments.
    Made with `gymnasium.make`, an episode is truncated after 5,000 steps.
    `reset(options={"state": i})` begins in state `i`.

    Args:
        world: A world, or its name: "river-swim" or "six-arms".
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    state = 0

    def __init__(self, world: ContinuingWorld | str, *, render_mode: str | None = None) -> None:
        if isinstance(world, str):
            check_choice("world", world, tuple(WORLDS))
            world = WORLDS[world]()
        check_type("world", world, ContinuingWorld, "a ContinuingWorld or its name")
        if render_mode is not None:
            raise ArgumentError("This world has no pictures.", argument="render_mode")
        self.world, self.actions = world, world.actions
        self.observation_space = gymnasium.spaces.Discrete(world.n_states)
        self.action_space = gymnasium.spaces.Discrete(world.n_actions)
        self.initial_state_distrib = world.start

    @cached_property
    def P(self) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:
        """By state and action: the probability, next state, reward, and False (not terminated)."""
        table: dict[int, dict[int, list[Any]]] = {}
        for state, action, following in np.argwhere(self.world.probability).tolist():
            place = state, action, following
            chance, reward = float(self.world.probability[place]), float(self.world.reward[place])
            outcomes = table.setdefault(state, {}).setdefault(action, [])
            outcomes.append((chance, following, reward, False))
        return table

    def reset(self, *, seed: int | None = None, options: Options = None) -> Reset:
        super().reset(seed=seed)
        options = check_reset(options, "state")
        sampled = int(self.np_random.choice(self.world.n_states, p=self.world.start))
        asked, last = options.get("state", sampled), self.world.n_states - 1
        self.state = check_whole("reset option 'state'", asked, 0, last)
        return self.state, {"state": self.state}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        check_action(self, action)
        before = self.state
        cumulative = self.world.cumulative[before, action]
        self.state = int(np.searchsorted(cumulative, self.np_random.random(), side="right"))
        reward = float(self.world.reward[before, action, self.state])
        return self.state, reward, False, False, {"state": self.state}


IDS = {"drogo/RiverSwim-v0": "river-swim", "drogo/SixArms-v0": "six-arms"}
"""The worlds by their ids, under which Gymnasium knows them once this module is imported."""
for identifier, name in IDS.items():
    options = {"kwargs": {"world": name}, "max_episode_steps": STEP_LIMIT}
    gymnasium.register(identifier, f"{__name__}:ContinuingEnv", **options)
