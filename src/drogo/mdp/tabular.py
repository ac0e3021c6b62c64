"""Gymnasium's table of dynamics (`env.unwrapped.P`) and what it takes to make an MDP of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import scipy.sparse as sp

from drogo.errors import MDPError
from drogo.mdp.model import MDP

Outcome = tuple[float, Hashable, float, bool]
"""Probability, next state, reward, terminated: Gymnasium's own order."""


@dataclass(frozen=True)
class Table:
    """The reachable part of an environment: states in the order they were found."""

    states: list[Hashable]
    outcomes: list[list[list[Outcome]]]
    """`outcomes[i][a]`; empty for a terminal state."""
    start: np.ndarray

    def to_mdp(self, reward: float | Callable[[Any], float] | None) -> MDP:
        index = {key: i for i, key in enumerate(self.states)}
        terminal = self._terminal(index)
        n, actions = len(self.states), max(len(row) for row in self.outcomes)
        entries: list[tuple[list[float], list[int], list[int]]] = [
            ([], [], []) for _ in range(actions)
        ]
        for i, row in enumerate(self.outcomes):
            if terminal[i]:
                continue
            for a, outcomes in enumerate(row):
                data, rows, columns = entries[a]
                for probability, key, _, _ in outcomes:
                    data.append(float(probability))
                    rows.append(i)
                    columns.append(index[key])
        matrices = [
            sp.csr_array(sp.coo_array((data, (rows, columns)), shape=(n, n)))
            for data, rows, columns in entries
        ]
        r = self._reward(reward, terminal)
        return MDP.from_arrays(matrices, r, terminal, start=self.start, states=self.states)

    def _terminal(self, index: Mapping[Hashable, int]) -> np.ndarray:
        ends = np.zeros(len(self.states), dtype=bool)
        continues = self.start > 0  # an episode that begins there does not end there
        for row in self.outcomes:
            for outcomes in row:
                for _, key, _, terminated in outcomes:
                    (ends if terminated else continues)[index[key]] = True
        both = np.flatnonzero(ends & continues)
        if both.size:
            raise MDPError(
                f"entering state {self.states[both[0]]!r} sometimes ends the episode and sometimes "
                "does not (or episodes begin there), so it is neither terminal nor non-terminal. "
                "Put what decides this into the state (state=)."
            )
        if not ends.any():
            raise MDPError(
                f"none of the {len(self.states)} reachable states ends the episode: there is no "
                "terminal state to anchor the vector at."
            )
        return ends

    def _reward(
        self, reward: float | Callable[[Any], float] | None, terminal: np.ndarray
    ) -> np.ndarray:
        if callable(reward):
            return np.array([float(reward(key)) for key in self.states])
        if reward is not None:
            return np.where(terminal, 0.0, float(reward))
        r = np.zeros(len(self.states))
        for i, row in enumerate(self.outcomes):
            if terminal[i]:
                continue
            received = {
                float(value): a for a, outcomes in enumerate(row) for _, _, value, _ in outcomes
            }
            if len(received) > 1:
                (one, first), (other, second) = list(received.items())[:2]
                raise MDPError(
                    f"the reward is not a function of the state that is left: in state "
                    f"{self.states[i]!r}, action {first} can give {one:g} and action {second} "
                    f"{other:g}. Supply one with reward=: a step cost such as -1.0, or a function "
                    "of a state."
                )
            r[i] = next(iter(received))
        return r


def read(env: gymnasium.Env) -> Table:
    """The states that can be reached from a start, in breadth-first order."""
    dynamics: Mapping[int, Any] = env.unwrapped.P  # pyright: ignore[reportAttributeAccessIssue]
    everywhere = np.full(len(dynamics), 1 / len(dynamics))
    first = np.asarray(getattr(env.unwrapped, "initial_state_distrib", everywhere))
    states: list[Hashable] = [int(s) for s in np.flatnonzero(first > 0)]
    seen = set(states)
    ended: set[Hashable] = set()
    outcomes: list[list[list[Outcome]]] = []
    for key in states:  # grows while it is walked
        row: list[list[Outcome]] = []
        if key not in ended:
            actions = dynamics[key]  # pyright: ignore[reportArgumentType]
            row = [
                [(float(p), int(s), float(r), bool(done)) for p, s, r, done in actions[a] if p > 0]
                for a in sorted(actions)
            ]
        outcomes.append(row)
        for _, following, _, terminated in (outcome for choice in row for outcome in choice):
            if terminated:
                ended.add(following)
            if following not in seen:
                seen.add(following)
                states.append(following)
    start = first[np.array(states, dtype=np.int64)]
    return Table(states, outcomes, start / start.sum())
