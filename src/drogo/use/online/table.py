"""`OnlineTable`: the exact map of everything that an agent has seen, where observations repeat."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped

from drogo.errors import ArgumentError, DamagedFile, check_whole
from drogo.files import Header
from drogo.use.online.base import AbstractOnlineMap
from drogo.use.online.empirical import Seen, action_values, mean_step_of, solve_seen
from drogo.use.online.promises import Promises
from drogo.use.online.steps import Steps

MOST_STATES = 100_000
GROWTH = 1.1
"""After so many times the steps, a map is solved again although nothing new was seen."""


Edge = tuple[int, int, int, bool, float]
"""The state that was left, the action, the state that was reached, whether it is terminal, and its
value if it is. The table has, for each edge, how often it was seen and the log of the sum of
exp(r / lam): all that the map needs of its rewards, however many different ones there were."""


class OnlineTable(AbstractOnlineMap):
    """A map of all observations that were seen, recognised bit for bit, from images too.

    The problem that all steps so far describe is solved exactly: `every` so many steps if anything
    new was seen, and else whenever their number has grown by a tenth, since frequencies change.

    Args:
        observation_space: The observations of the agent: a `Box`, or `Discrete` states.
        action_space: The actions, `Discrete`.
        lam: The temperature of the map.
        weight: The weight of the shaping reward, as in `PotentialShaping`.
        discount: The discount of the agent.
        terminal: What the potential of a terminal state counts as, as in `PotentialShaping`.
        reward: A cost of every step for the map, in place of the agent's rewards.
        optimism: The terminal value, in units of reward, that an action is taken to lead to until
            it was tried. With None there is no map before the first terminal state.
        until_found: Whether optimism ends as soon as a terminal state was seen that is worth as
            much as what was not tried.
        every: The number of steps between two solutions.
        most_states: More different observations than this are an error.
    """

    needs_exact_observations = True

    def __init__(
        self,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        *,
        lam: float = 20.0,
        weight: float | None = 0.5,
        discount: float = 0.99,
        terminal: str = "zero",
        reward: float | None = None,
        optimism: float | None = 0.0,
        until_found: bool = True,
        every: int = 10,
        most_states: int = MOST_STATES,
    ) -> None:
        spaces = (observation_space, action_space)
        super().__init__(*spaces, lam, optimism, weight, discount, terminal, reward)
        self.until_found, self.every = until_found, check_whole("every", every, 1)
        self.most_states = check_whole("most_states", most_states, 1)
        self._index: dict[bytes, int] = {}
        self._edges: dict[Edge, tuple[int, float]] = {}
        self._tried: set[tuple[int, int]] = set()
        self._v, self._mean_step, self._elsewhere = np.zeros(0), 1.0, 0.0
        self._promises = np.zeros((0, self.n_actions))
        self._steps, self._solved_at, self._is_new = 0, 0, False
        self._found = False

    @property
    def found(self) -> bool:
        return self._found

    @property
    def mean_step(self) -> float:
        return self._mean_step

    @property
    def metrics(self) -> Mapping[str, float]:
        known = {"steps": self._steps, "states": len(self._index), "found": self._found}
        depth = float(np.ptp(self._v)) if self._v.size else 0.0
        return {name: float(number) for name, number in known.items()} | {"depth": depth}

    def _add(self, steps: Steps) -> None:
        for before, action, reward, after, ended, value in zip(*steps, strict=True):
            edge = (self._state(before), int(action), self._state(after), bool(ended), float(value))
            times, log_sum = self._edges.get(edge, (0, -math.inf))
            log_promise = float(reward) / self.lam
            self._edges[edge] = (times + 1, float(np.logaddexp(log_sum, log_promise)))
            self._is_new |= not times
            if edge[:2] not in self._tried:
                self._tried.add(edge[:2])
                self._back_up(edge, log_promise)
            self._found |= bool(ended) and self.is_goal(float(value))
        self._steps += len(steps.reward)

    def _back_up(self, edge: Edge, log_promise: float) -> None:
        """Corrects what the map promises of an action as soon as it was tried, so that nobody tries
        it again and again until the next solution."""
        state, action, after, ended, value = edge
        if state < len(self._promises):
            known = self._v[after] if after < self._v.size else self._elsewhere
            known = value / self.lam if ended else known
            self._promises[state, action] = log_promise + known - math.log(self.n_actions)

    def _state(self, observation: np.ndarray | np.generic) -> int:
        key = observation.tobytes()
        state = self._index.get(key, len(self._index))
        if state >= self.most_states:
            raise ArgumentError(
                f"more than {self.most_states} different observations were seen.",
                remedy="Use OnlineMap, which learns a network, or give a larger most_states.",
            )
        return self._index.setdefault(key, state)

    def train(self) -> None:
        if self._steps - self._solved_at < self.every:
            return
        if not self._is_new and self._steps < GROWTH * self._solved_at:
            return
        self._solved_at, self._is_new = self._steps, False
        seen = self.seen()
        states = len(self._index)
        default = np.full((states, self.n_actions), 1 / self.n_actions)
        optimism = None if self._found and self.until_found else self.optimism
        self._v = solve_seen(seen, default, self.lam, optimism)
        self._promises = action_values(seen, self._v, default, self.lam, optimism)
        self._mean_step = mean_step_of(self._v, seen)
        self._elsewhere = float(self._v.min()) if optimism is None else optimism / self.lam

    def seen(self) -> Seen:
        """Returns the distinct transitions so far, and how often each was seen. The reward of one
        that was seen with several is the one that means the same to the map."""
        rows = [(*edge, *sums) for edge, sums in self._edges.items()]
        kinds = (np.int64, np.int64, np.int64, bool, np.float64, np.int64, np.float64)
        columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
        given: list[Any] = [np.array(*pair) for pair in zip(columns, kinds, strict=True)]
        state, action, after, ended, value, count, log_sum = given
        reward = self.lam * (log_sum - np.log(count))
        return Seen(state, action, after, reward, ended, value, count)

    def _identity(self) -> dict[str, Any]:
        return {"until_found": self.until_found, "every": self.every}

    def arrays(self) -> dict[str, np.ndarray]:
        seen = self.seen()
        table = np.frombuffer(b"".join(self._index), dtype=np.uint8)
        counters = (self._steps, self._solved_at, self._is_new, self._found)
        return {
            **vars(seen),
            "table": table.reshape(len(self._index), math.prod(self.shape) * self.dtype.itemsize),
            "v": self._v,
            "promises": self._promises,
            "scales": np.array([self._mean_step, self._elsewhere]),
            "counters": np.array(counters, dtype=np.int64),
        }

    def check_arrays(self, headers: Mapping[str, Header]) -> None:
        edges = headers["state"].shape
        states, width = headers["table"].shape
        columns = all(headers[name].shape == edges for name in Seen.__dataclass_fields__)
        if not columns or width != math.prod(self.shape) * self.dtype.itemsize:
            raise ValueError("its arrays do not fit together")
        known = headers["v"].shape
        if headers["promises"].shape != (*known, self.n_actions) or known > (states,):
            raise ValueError("its arrays do not fit together")
        if headers["counters"].shape != (4,) or headers["scales"].shape != (2,):
            raise ValueError("its arrays do not fit together")

    def continue_from(self, arrays: dict[str, np.ndarray]) -> None:
        columns = [arrays[name].tolist() for name in Seen.__dataclass_fields__]
        states = len(arrays["table"])
        known = [0 <= number < states for number in (*columns[0], *columns[2])]
        if not all(known) or not all(0 <= action < self.n_actions for action in columns[1]):
            raise DamagedFile("a transition in it has a state or an action that does not exist.")
        if not all(count > 0 for count in columns[-1]):
            raise DamagedFile("a transition in it was never seen.")
        self._index = {row.tobytes(): k for k, row in enumerate(arrays["table"])}
        self._edges = {
            (state, action, after, ended, value): (n, reward / self.lam + math.log(n))
            for state, action, after, reward, ended, value, n in zip(*columns, strict=True)
        }
        self._tried = {edge[:2] for edge in self._edges}
        self._v, self._promises = arrays["v"], arrays["promises"]
        self._mean_step, self._elsewhere = arrays["scales"].tolist()
        steps, solved_at, is_new, found = arrays["counters"].tolist()
        self._steps, self._solved_at = steps, solved_at
        self._is_new, self._found = bool(is_new), bool(found)

    def _values(self, observations: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, " n"]:
        at = self._rows(observations)
        return np.append(self._v, self._elsewhere)[at]

    def _knows(self, observations: Shaped[np.ndarray, "n ..."]) -> Bool[np.ndarray, " n"]:
        return self._rows(observations) < self._v.size

    def _logits(self, observations: Shaped[np.ndarray, "n ..."]) -> Float[np.ndarray, "n actions"]:
        nothing = np.zeros((1, self.n_actions))
        logits = np.concatenate([self._promises, nothing])[self._rows(observations)]
        return np.where(np.isfinite(logits).any(axis=1, keepdims=True), logits, 0.0)

    def promises(self) -> Promises:
        places = {key: k for key, k in self._index.items() if k < self._v.size}
        tried = np.zeros((len(places) + 1, self.n_actions), dtype=bool)
        for state, action in self._tried:
            tried[min(state, len(places)), action] = True
        tried[-1] = False  # nothing was tried in what the map does not know
        logits = np.concatenate([self._promises, np.zeros((1, self.n_actions))])
        logits[~np.isfinite(logits).any(axis=1)] = 0.0

        def rows(observations: npt.ArrayLike) -> Int[np.ndarray, " n"]:
            keys = [row.tobytes() for row in self._checked(observations)]
            return np.array([places.get(key, len(places)) for key in keys], dtype=np.int64)

        return Promises(
            lambda observations: logits[rows(observations)],
            lambda observations: ~tried[rows(observations)],
            is_done=bool(tried[:-1].all()) and len(places) > 0,
        )

    def _rows(self, observations: Shaped[np.ndarray, "n ..."]) -> Int[np.ndarray, " n"]:
        """The states of some observations; the number of states for those that have no value."""
        n = self._v.size
        keys = [observation.tobytes() for observation in observations]
        return np.array([min(self._index.get(key, n), n) for key in keys], dtype=np.int64)
