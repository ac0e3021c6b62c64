"""`MiniGridWorld`: a MiniGrid environment that the default representation can be learned of."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
import scipy.sparse as sp
from gymnasium.utils import RecordConstructorArgs, seeding
from jaxtyping import Float, UInt8

from drogo.errors import ArgumentError, ArgumentTypeError, MissingPackage
from drogo.mdp import MDP, FiniteWorld
from drogo.worlds.minigrid.search import FAILURE, GOING_ON, Found, explore
from drogo.worlds.minigrid.snapshot import put_back

ACTIONS = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
"""MiniGrid's, in its order."""
TRIED = ("left", "right", "forward", "pickup", "toggle")
"""Of these, the ones that ever change anything are an environment's actions unless given. To drop
things lets every object lie everywhere, which multiplies the states and seldom helps."""
OBSERVATIONS = ("rgb", "symbolic")
RENDERED_TILE = 16
"""Pixels to a cell in `render()`."""
SCENES = 64
"""Pictures of the grid without the agent that are kept."""


class MiniGridWorld(gymnasium.Wrapper, RecordConstructorArgs):
    """Turns MiniGrid's time-dependent reward into a cost of the state, and shows the whole grid.

    - `env`: an id such as `"MiniGrid-FourRooms-v0"`, or a MiniGrid environment.
    - `layout`: the seed of the grid. Every episode has the same, from the same start.
    - `observation`: `"rgb"`, a picture of the whole grid with `tile` pixels to a cell, or
      `"symbolic"`, planes of zeros and 255s for each kind of object, state of a door, and direction
      of the agent. Both `uint8`.
    - `step`: the cost of leaving a state (negative). `collision` is added to it in states that face
      something that cannot be entered. `lava` is the cost of an end that MiniGrid does not reward;
      reaching the goal costs nothing.
    - `actions`: names from `ACTIONS`; unless given, those of `TRIED` that change anything.

    States are position, direction, doors, and objects; `mdp` is the exact problem over those that
    can be reached, in the order of `all_observations()`, and `info["state"]` names them.
    `reset(options={"state": i})` starts in one of them, `options={"start": "uniform"}` in any.
    """

    def __init__(
        self,
        env: str | gymnasium.Env,
        layout: int = 0,
        *,
        observation: str = "rgb",
        tile: int = 3,
        step: float = -1.0,
        lava: float = -200.0,
        collision: float = 0.0,
        actions: Sequence[str] | None = None,
        step_limit: int | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, layout=layout, observation=observation, tile=tile, step=step, lava=lava,
            collision=collision, actions=actions, step_limit=step_limit,
        )  # fmt: skip
        gymnasium.Wrapper.__init__(self, _make(env))
        if observation not in OBSERVATIONS:
            raise ArgumentError(
                f"observation is {observation!r}; choose one of {', '.join(OBSERVATIONS)}."
            )
        if tile < 1:
            raise ArgumentError(f"tile is {tile}; it must be at least 1 pixel a cell.")
        if not step < 0:
            raise ArgumentError(
                f"step is {step}; the default representation needs a cost, below 0."
            )
        for name, value in (("lava", lava), ("collision", collision)):
            if not value <= 0:
                raise ArgumentError(f"{name} is {value}; it is a cost, and must not be positive.")
        unknown = sorted(set(actions or ()) - set(ACTIONS))
        if unknown or (actions is not None and not actions):
            raise ArgumentError(f"actions has {unknown or 'nothing'}; choose from {ACTIONS}.")
        self.layout = layout
        self.observation_kind = observation
        self.tile = tile
        self.costs = {"step": step, "lava": lava, "collision": collision}
        inner = self.unwrapped
        self.step_limit = step_limit or int(inner.max_steps)  # pyright: ignore[reportAttributeAccessIssue]
        inner.max_steps = np.iinfo(np.int64).max  # pyright: ignore[reportAttributeAccessIssue]
        self._chosen = None if actions is None else tuple(actions)
        self._explored: Found | None = None
        self._scenes: dict[Hashable, np.ndarray] = {}
        self._state = 0
        self._steps = 0
        self.action_space = gymnasium.spaces.Discrete(len(self.actions))
        shape = self._picture().shape
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)

    @property
    def found(self) -> Found:
        """All states, and what leads where; found when first asked for."""
        if self._explored is None:
            self._explored = self._explore()
        return self._explored

    def _explore(self) -> Found:
        self.env.reset(seed=self.layout)
        if hasattr(self.unwrapped, "instrs"):
            raise ArgumentTypeError(
                f"{self.env} is of BabyAI: its missions keep a memory of their own, which no state "
                "of the grid shows. Use drogo.collect on the environment itself."
            )
        numbers = [ACTIONS.index(name) for name in self._chosen or TRIED]
        found = explore(self.unwrapped, numbers)
        if self._chosen is None:
            idle = (found.next_state == np.arange(len(found.names))[:, None]).all(axis=0)
            self._chosen = tuple(name for name, i in zip(TRIED, idle, strict=True) if not i)
            kept = found.next_state[:, ~idle]
            found = Found(found.snapshots, found.names, kept, found.kind, found.blocked)
        if not (found.kind != GOING_ON).any():
            raise ArgumentError(
                f"no end of {self.spec.id if self.spec else self.env} can be reached in layout "
                f"{self.layout} with the actions {', '.join(self._chosen)}. Try another layout, or "
                "more actions: some missions need something to be put down (actions=ACTIONS[:6])."
            )
        self._index = {(name, kind): k for k, (name, kind) in
                       enumerate(zip(found.names, found.kind.tolist(), strict=True))}  # fmt: skip
        return found

    @property
    def actions(self) -> tuple[str, ...]:
        """Their names, in the order of the action space."""
        _ = self.found
        assert self._chosen is not None
        return self._chosen

    @property
    def n_states(self) -> int:
        return len(self.found.names)

    @cached_property
    def state_reward(self) -> Float[np.ndarray, " states"]:
        """Of leaving a state; of an end, its own."""
        ahead = np.where(self.found.blocked, self.costs["collision"], 0.0)
        ends = np.where(self.found.kind == FAILURE, self.costs["lava"], 0.0)
        return np.where(self.found.kind == GOING_ON, self.costs["step"] + ahead, ends)

    @cached_property
    def mdp(self) -> MDP:
        """The exact problem under the uniform random policy."""
        n, actions = self.found.next_state.shape
        moves = [
            sp.csr_array((np.ones(n), (np.arange(n), self.found.next_state[:, a])), shape=(n, n))
            for a in range(actions)
        ]
        start = np.zeros(n)
        start[0] = 1.0
        terminal = self.found.kind != GOING_ON
        return MDP.from_arrays(moves, self.state_reward, terminal, start=start)

    def finite_world(self) -> FiniteWorld:
        return FiniteWorld(
            self.found.next_state,
            self.state_reward,
            self.found.kind != GOING_ON,
            np.array([0]),
            self.step_limit,
        )

    def all_observations(self) -> UInt8[np.ndarray, "states height width channels"]:
        """What each state looks like; an error if two look the same."""
        return self._table

    @cached_property
    def _table(self) -> np.ndarray:
        now = self._state
        pictures = []
        for state in range(self.n_states):
            self._go_to(state)
            pictures.append(self._draw(state))
        self._go_to(now)
        table = np.stack(pictures)
        found = self.found
        looks = {picture.tobytes(): k for k, picture in enumerate(table)}
        if len(looks) < len(table):
            first = next(k for k, p in enumerate(table) if looks[p.tobytes()] != k)
            other = looks[table[first].tobytes()]
            if found.kind[first] != found.kind[other]:
                raise ArgumentError(
                    f"state {found.names[first]} looks the same whether the episode is over or "
                    "not: an action ends it without changing the grid. Leave that action out of "
                    "actions=."
                )
            raise ArgumentError(
                f"states {first} and {other} look the same ({self.found.names[first]} and "
                f"{self.found.names[other]}). Use more pixels a cell (tile={2 * self.tile}), or "
                "observation='symbolic'."
            )
        return table

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        options = options or {}
        unknown = set(options) - {"state", "start"}
        if unknown:
            raise ArgumentError(
                f"unknown reset option(s) {sorted(unknown)}; known: 'state', 'start'."
            )
        found = self.found
        inner: Any = self.unwrapped
        if seed is not None:  # of the start alone: the grid is the layout's
            inner._np_random, inner._np_random_seed = seeding.np_random(seed)
        state = int(options.get("state", 0))
        if options.get("start", "map") == "uniform":
            state = int(inner.np_random.choice(np.flatnonzero(found.kind == GOING_ON)))
        if not 0 <= state < len(found.names) or found.kind[state] != GOING_ON:
            raise ArgumentError(
                f"reset option 'state' is {state}; expected a state that is no end, from 0 to "
                f"{len(found.names) - 1}."
            )
        self._go_to(state)
        self._steps = 0
        return self._picture(), {"state": state}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ArgumentError(f"action is {action!r}; expected 0 to {len(self.actions) - 1}.")
        before = self._state
        after = int(self.found.next_state[before, action])
        self._go_to(after)
        self._steps += 1
        terminated = bool(self.found.kind[after] != GOING_ON)
        reward = self.state_reward[before]
        info: dict[str, Any] = {"state": after}
        if terminated:
            info["terminal_reward"] = float(self.state_reward[after])
            reward += self.state_reward[after]
        truncated = self._steps >= self.step_limit and not terminated
        return self._picture(), float(reward), terminated, truncated, info

    def render(self) -> Any:
        return self._render(RENDERED_TILE)

    def _go_to(self, state: int) -> None:
        put_back(self.unwrapped, self.found.snapshots[state])
        self._state = state

    def _picture(self) -> np.ndarray:
        if "_table" in vars(self):
            return self._table[self._state].copy()
        return self._draw(self._state)

    def _draw(self, state: int) -> np.ndarray:
        """The picture of a state, which the environment must be in. MiniGrid draws every cell;
        here all but the agent's are drawn once for each state of the doors and objects."""
        if self.observation_kind != "rgb":
            return self._planes()
        inner: Any = self.unwrapped
        picture = self._scene(self.found.names[state][-1]).copy()  # pyright: ignore[reportIndexIssue]
        (column, row), size = inner.agent_pos, self.tile
        picture[row * size : (row + 1) * size, column * size : (column + 1) * size] = (
            inner.grid.render_tile(inner.grid.get(column, row), inner.agent_dir, False, size)
        )
        return picture

    def _scene(self, things: Hashable) -> np.ndarray:
        """All but the agent; `things` tells what is where."""
        if things not in self._scenes:
            if len(self._scenes) >= SCENES:
                self._scenes.clear()
            inner: Any = self.unwrapped
            self._scenes[things] = inner.grid.render(self.tile, (-1, -1), None, None)
        return self._scenes[things]

    def _render(self, tile: int) -> np.ndarray:
        inner: Any = self.unwrapped
        return inner.grid.render(tile, inner.agent_pos, inner.agent_dir, None)

    def _planes(self) -> np.ndarray:
        from minigrid.core.constants import OBJECT_TO_IDX

        inner: Any = self.unwrapped
        encoded = inner.grid.encode().transpose(1, 0, 2)
        kinds = np.eye(len(OBJECT_TO_IDX), dtype=bool)[encoded[..., 0]]
        is_door = encoded[..., :1] == OBJECT_TO_IDX["door"]
        doors = np.eye(3, dtype=bool)[np.minimum(encoded[..., 2], 2)] & is_door
        agent = np.zeros((*encoded.shape[:2], 4), dtype=bool)
        column, row = inner.agent_pos
        agent[row, column, inner.agent_dir] = True
        return np.concatenate([kinds, doors, agent], axis=-1).astype(np.uint8) * 255


def _make(env: str | gymnasium.Env) -> gymnasium.Env:
    try:
        import minigrid
        from minigrid.minigrid_env import MiniGridEnv
    except ImportError as error:
        raise MissingPackage("MiniGrid is not installed: pip install 'drogo[minigrid]'.") from error
    if isinstance(env, str):
        if "MiniGrid-Empty-5x5-v0" not in gymnasium.registry:
            minigrid.register_minigrid_envs()
        env = gymnasium.make(env, disable_env_checker=True)
    if not isinstance(env.unwrapped, MiniGridEnv):
        raise ArgumentTypeError(f"{env} is not a MiniGrid environment.")
    return env
