"""`OnlineTable`: the exact map of everything that an agent has seen, where observations repeat.

Where an agent has tried an action, the frequencies of its outcomes define an MDP. Under *optimism*,
an action that was never tried leads to a terminal state of a given reward.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int

from drogo.data.index import ObservationIndex
from drogo.errors import ArgumentError, DamagedFile, check_whole
from drogo.exact.columns import solve_edges
from drogo.files import Header
from drogo.learn.settings import from_keywords
from drogo.mdp import Edges
from drogo.mdp.arrays import leads_to
from drogo.mdp.model import mean_gap
from drogo.online.base import AbstractOnlineMap, Logits
from drogo.online.judging import are_judged
from drogo.problems.column import Column
from drogo.problems.shared import ActionModel
from drogo.use.options import FrozenMap
from drogo.use.shaping import Shaping, StepBatch

GROWTH = 1.1
"""The map is solved again once there are this many times the steps, although nothing is new."""

COLUMNS = {"state": np.int64, "action": np.int64, "next_state": np.int64, "terminated": bool,
           "judged": bool, "end": np.float64, "count": np.int64, "log_sum": np.float64}  # fmt: skip
"""The types of the columns of an edge, its count and its sum."""
States = Float[np.ndarray, " states"]
Pairs = Float[np.ndarray, "states actions"]
Edge = tuple[int, int, int, bool, bool, float]
"""The state, the action, the next state, whether it is terminal, whether its value is judged, and
the reward by which it is, or the value itself. The table has, for each edge, its count and the log
of the sum of exp(r / lam), of negative rewards r times their charge: all that any costs need."""


@dataclass(frozen=True)
class Seen:
    """The distinct transitions of an agent, and the number of times that each was seen."""

    state: Int[np.ndarray, " n"]
    action: Int[np.ndarray, " n"]
    next_state: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]
    terminal_reward: Float[np.ndarray, " n"]
    count: Int[np.ndarray, " n"]

    def times(self, shape: tuple[int, ...]) -> Pairs:
        """Returns how often each action was taken in each state."""
        pair = np.ravel_multi_index((self.state, self.action), shape)
        return np.bincount(pair, self.count, math.prod(shape)).reshape(shape)


def solve_seen(
    seen: Seen, default: Pairs, lam: float, optimism: float | None, where: Any = True
) -> States:
    """Computes the map `v` of the transitions of an agent under a default policy, which chooses
    among tried actions if `optimism` is None, or in states other than `where`.

    A state of which nothing is known has the lowest value of the others; all values are 0 if no
    terminal state was seen.
    """
    states, times = len(default), seen.times(default.shape)
    weight = default[seen.state, seen.action] * seen.count / times[seen.state, seen.action]
    value = seen.terminal_reward
    columns = (seen.state, seen.next_state, weight, seen.reward, seen.terminated, value)
    edges, terminal = Edges(states, *columns), np.zeros(states, dtype=bool)
    terminal[seen.next_state[seen.terminated]] = True
    terminal[seen.state] = False
    if optimism is not None:
        hopeful = np.broadcast_to(where, states) & ~terminal
        state, action = np.nonzero((times == 0) & (default > 0) & hopeful[:, None])
        share, zeros = default[state, action], np.zeros(state.size)
        edges = edges + Edges(states, state, state, share, zeros, zeros == 0, zeros + optimism)
    if not edges.terminated.any():
        return np.zeros(states)
    v = solve_edges(edges, lam)
    over = seen.terminated & terminal[seen.next_state]
    ends, times = seen.next_state[over], seen.count[over]
    total = np.bincount(ends, times * value[over], states)
    v[terminal] = (total / np.maximum(np.bincount(ends, times, states), 1))[terminal] / lam
    finite = np.isfinite(v)
    return np.where(finite, v, v[finite].min()) if finite.any() else np.zeros(states)


def action_values(
    seen: Seen, v: States, default: Pairs, lam: float, optimism: float | None, where: Any = True
) -> Pairs:
    """Computes `log d(a|s) + log E[exp(r/lam + v(s'))]`, minus infinity if never tried."""
    after = np.where(seen.terminated, seen.terminal_reward / lam, v[seen.next_state])
    log_gain, times = np.log(seen.count) + seen.reward / lam, seen.times(default.shape)
    model = ActionModel(seen.state, seen.action, seen.next_state, log_gain)
    log_total = model.values(after, default.shape)
    untried = np.where(where, -np.inf if optimism is None else optimism / lam, -np.inf)
    untried = np.broadcast_to(untried, len(default))[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(default) + np.where(times > 0, log_total - np.log(times), untried)


def mean_step_of(v: States, seen: Seen) -> float:
    """Returns the mean difference of a map between the two states of a step; 1 if it is flat."""
    pairs = np.stack([seen.state, seen.next_state], axis=1)[seen.state != seen.next_state]
    mean = float(mean_gap(v, pairs)) if len(pairs) else 0.0
    return mean if mean > 0 else 1.0


class OnlineTable(AbstractOnlineMap):
    """A map of all observations that were seen, recognised bit for bit, of images too.

    The problem that the steps so far describe is solved exactly after `every` steps if anything new
    was seen, and whenever their number has grown by a tenth, since frequencies change.

    Args:
        observation_space: The observations of the agent: a `Box`, or `Discrete` states.
        action_space: The actions, `Discrete`.
        problem: The problem, by default `drogo.Column()`.
        optimism: The reward of the terminal state that an action is taken to lead to until it was
            tried. With None there is no map before the first terminal state.
        until_found: Whether optimism ends as soon as a terminal state was seen that is worth it,
            wherever the steps so far lead to a terminal state. By default the map leads to what was
            not tried as long as that may be better than every known way (R-max); this takes up to
            twice as many steps, and the first way that was found may be a bad one.
        every: The number of steps between two solutions.
        most_states: More different observations than this are an error.
        **shaping: Fields of `Shaping`.
    """

    needs_exact_observations, kinds = True, (gymnasium.spaces.Discrete,)

    def __init__(
        self,
        observation_space: gymnasium.Space,
        action_space: gymnasium.Space,
        problem: Column | None = None,
        *,
        optimism: float | None = 0.0,
        until_found: bool = False,
        every: int = 10,
        most_states: int = 100_000,
        **shaping: Any,
    ) -> None:
        (rule,) = from_keywords(shaping, Shaping)
        super().__init__(observation_space, action_space, problem, optimism, rule)
        self.until_found = until_found
        whole = {"every": every, "most_states": most_states}
        self.every, self.most_states = (check_whole(*pair, 1) for pair in whole.items())
        self._index = ObservationIndex(np.zeros((0, *self.shape), self.dtype), "this map")
        self._edges: dict[Edge, tuple[int, float]] = {}
        self._tried: set[tuple[int, int]] = set()
        self._v, self._mean_step, self._elsewhere = np.zeros(0), 1.0, 0.0
        self._action_values = np.zeros((0, self.n_actions))
        self._solved_at, self._is_new = 0, False
        self._known, self._known_at = self._action_values, 0
        self._charge = (self.problem.costs and self.problem.costs.charge) or 1.0
        self._costs = self.judging.costs()

    @property
    def mean_step(self) -> float:
        return self._mean_step

    @property
    def metrics(self) -> Mapping[str, float]:
        depth = float(np.ptp(self._v)) if self._v.size else 0.0
        numbers = {"steps": self.steps, "states": len(self._index), "found": self.found}
        return {name: float(number) for name, number in numbers.items()} | {"depth": depth}

    def _add(self, steps: StepBatch) -> None:
        both = np.stack([steps.observation, steps.next_observation], axis=1)
        rows = self._index.add(both.reshape(2 * len(both), *self.shape)).reshape(-1, 2).tolist()
        if len(self._index) > self.most_states:
            problem = f"more than {self.most_states} different observations were seen."
            remedy = "Use OnlineMap, or give a larger most_states."
            raise ArgumentError(problem, remedy=remedy, argument="most_states")
        judged = are_judged(steps)
        end = np.where(judged, steps.reward, steps.terminal_reward)
        log_gain = self._charge * np.minimum(steps.reward, 0.0) / self.lam
        columns = (steps.action, steps.reward, steps.terminated, judged, end, log_gain)
        parts = zip(rows, *(column.tolist() for column in columns), strict=True)
        for (state, after), action, reward, terminated, is_judged, end, log_gain in parts:
            edge = (state, action, after, terminated, is_judged, end)
            times, log_sum = self._edges.get(edge, (0, -math.inf))
            self._edges[edge] = (times + 1, float(np.logaddexp(log_sum, log_gain)))
            self._is_new |= not times
            if edge[:2] not in self._tried:
                self._tried.add(edge[:2])
                if state < len(self._action_values):  # or an agent would try it again and again
                    gain, value = self._costs.of_steps(reward, is_judged, end)
                    value = (value if is_judged else end) / self.lam
                    if not terminated:
                        value = self._v[after] if after < self._v.size else self._elsewhere
                    log_default = math.log(self.default_policy[action])
                    self._action_values[state, action] = gain / self.lam + value + log_default

    def train(self) -> None:
        if self.steps - self._solved_at < self.every:
            return
        if not self._is_new and self.steps < GROWTH * self._solved_at:
            return
        self._solved_at, self._is_new, self._costs = self.steps, False, self.judging.costs()
        seen, shape = self.seen(), (len(self._index), self.n_actions)
        default = np.broadcast_to(self.default_policy, shape)
        ends, where = self.found and self.until_found, True
        if ends:  # hope for the states from which no terminal state was reached
            over = seen.terminated
            where = ~leads_to(seen.state[~over], seen.next_state[~over], shape[0], seen.state[over])
        hope = (self.optimism, where)
        self._v = solve_seen(seen, default, self.lam, *hope)
        self._action_values = action_values(seen, self._v, default, self.lam, *hope)
        self._mean_step = mean_step_of(self._v, seen)
        ends |= self.optimism is None
        self._elsewhere = float(self._v.min()) if ends else (self.optimism or 0.0) / self.lam

    def _edge_columns(self) -> dict[str, np.ndarray]:
        rows = [(*edge, *sums) for edge, sums in self._edges.items()]
        columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
        kinds = zip(COLUMNS.items(), columns, strict=True)
        return {name: np.array(column, kind) for (name, kind), column in kinds}

    def seen(self) -> Seen:
        """Returns the distinct transitions so far, with the log-mean-exp of their rewards, by the
        costs of all rewards so far."""
        state, action, next_state, terminated, judged, end, count, log_sum = (
            self._edge_columns().values()
        )
        negative = self.lam * (log_sum - np.log(count)) / self._charge
        reward, value = self.judging.costs().of_steps(negative, judged, end)
        value = np.where(judged, value, end)
        return Seen(state, action, next_state, reward, terminated, value, count)

    def values(self, observations: npt.ArrayLike) -> Float[np.ndarray, " n"]:
        return np.append(self._v, self._elsewhere)[self._rows(observations)]

    def knows(self, observations: npt.ArrayLike) -> Bool[np.ndarray, " n"]:
        return self._rows(observations) < self._v.size

    def logits(self, observations: npt.ArrayLike) -> Logits:
        return _at(self._rows(observations), self._action_values)

    def known_logits(self, observations: npt.ArrayLike) -> Logits:
        if self._known_at != self._solved_at:
            seen, shape = self.seen(), (len(self._index), self.n_actions)
            rest = (np.broadcast_to(self.default_policy, shape), self.lam, None)
            self._known = action_values(seen, solve_seen(seen, *rest), *rest)
            self._known_at = self._solved_at
        return _at(self._rows(observations, len(self._known)), self._known)

    def _rows(self, observations: npt.ArrayLike, n: int | None = None) -> Int[np.ndarray, " rows"]:
        """Returns the rows of observations; the number of states for those without a value."""
        n, rows = self._v.size if n is None else n, self._index.rows(self.checked(observations))
        return np.where((rows < 0) | (rows > n), n, rows)

    def frozen(self) -> FrozenMap:
        n, values = self._v.size, self._action_values.copy()
        tried = np.zeros((n + 1, self.n_actions), dtype=bool)
        state, action = np.array(list(self._tried), dtype=np.int64).reshape(-1, 2).T
        tried[np.minimum(state, n), action] = True
        tried[-1] = False  # nothing was tried where the map has no value
        return FrozenMap(
            lambda batch: _at(self._rows(batch, n), values),
            lambda batch: ~tried[self._rows(batch, n)],
            is_done=bool(tried[:-1].all()) and n > 0,
        )

    def request(self) -> dict[str, Any]:
        return super().request() | {"until_found": self.until_found, "every": self.every}

    def arrays(self) -> dict[str, np.ndarray]:
        counters = (self.steps, self._solved_at, self._is_new, self.found)
        return {
            **super().arrays(),
            **self._edge_columns(),
            "observations": self._index.observations,
            "v": self._v,
            "action_values": self._action_values,
            "scales": np.array([self._mean_step, self._elsewhere]),
            "counters": np.array(counters, dtype=np.int64),
        }

    def check_arrays(self, headers: Mapping[str, Header]) -> None:
        super().check_arrays(headers)
        table, solved, n = headers["observations"], headers["v"].shape, headers["state"].shape
        expected = {"observations": (*table.shape[:1], *self.shape), "counters": (4,)}
        expected |= {"action_values": (*solved, self.n_actions), "scales": (2,)}
        expected |= dict.fromkeys(COLUMNS, n)
        fits = all(headers[name].shape == shape for name, shape in expected.items())
        if not fits or solved > table.shape[:1] or table.dtype != self.dtype:
            raise ValueError("its arrays do not fit together")

    def continue_from(self, arrays: dict[str, np.ndarray]) -> None:
        super().continue_from(arrays)
        states = len(arrays["observations"])
        limits = {"state": states, "next_state": states, "action": self.n_actions}
        for name, limit in limits.items():
            column = arrays[name]
            if ((column < 0) | (column >= limit)).any() or (arrays["count"] < 1).any():
                raise DamagedFile(f"a transition in it has a {name} or a count that cannot be.")
        self._index = ObservationIndex(arrays["observations"], "this map")
        rows = zip(*(arrays[name].tolist() for name in COLUMNS), strict=True)
        self._edges = {row[:-2]: row[-2:] for row in rows}
        self._costs = self.judging.costs()
        self._tried = {edge[:2] for edge in self._edges}
        self._v, self._action_values = arrays["v"], arrays["action_values"]
        self._mean_step, self._elsewhere = arrays["scales"].tolist()
        self.steps, self._solved_at, *flags = arrays["counters"].tolist()
        self._is_new, self.found = map(bool, flags)
        self._known_at = -1


def _at(rows: np.ndarray, values: Pairs) -> Float[np.ndarray, "n actions"]:
    """Returns rows of the action values, and zeros where nothing is known."""
    logits = np.append(values, np.zeros((1, values.shape[1])), axis=0)[rows]
    return np.where(np.isfinite(logits).any(axis=1, keepdims=True), logits, 0.0)
