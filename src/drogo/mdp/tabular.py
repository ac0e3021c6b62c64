"""Gymnasium's table of dynamics (`env.unwrapped.P`), and its conversion to an MDP."""

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
    """The reachable part of an environment, states in the order in which they were found."""

    states: list[Hashable]
    outcomes: list[list[list[Outcome]]]
    """`outcomes[i][a]`; empty for a terminal state."""
    start: np.ndarray

    def to_mdp(self, reward: float | Callable[[Any], float] | None) -> MDP:
        index = {key: i for i, key in enumerate(self.states)}
        terminal = self._terminal(index)
        entries = [
            (action, i, index[key], probability)
            for i, row in enumerate(self.outcomes)
            if not terminal[i]
            for action, outcomes in enumerate(row)
            for probability, key, _, _ in outcomes
        ]
        actions, before, after, weight = map(np.array, zip(*entries, strict=True))
        n = len(self.states)
        matrices = [
            sp.csr_array((weight[taken], (before[taken], after[taken])), shape=(n, n))
            for taken in (actions == action for action in range(actions.max() + 1))
        ]
        r = self._reward(reward, terminal)
        return MDP.from_arrays(matrices, r, terminal, start=self.start, states=self.states)

    def _terminal(self, index: Mapping[Hashable, int]) -> np.ndarray:
        terminal = np.zeros(len(self.states), dtype=bool)
        continuing = self.start > 0  # An episode that begins in a state does not end there.
        for row in self.outcomes:
            for outcomes in row:
                for _, key, _, terminated in outcomes:
                    (terminal if terminated else continuing)[index[key]] = True
        both = np.flatnonzero(terminal & continuing)
        if both.size:
            raise MDPError(
                f"entering state {self.states[both[0]]!r} sometimes ends the episode and sometimes "
                "does not (or episodes begin there), so it is neither terminal nor non-terminal. "
                "Put what decides this into the state (state=)."
            )
        if not terminal.any():
            raise MDPError(
                f"none of the {len(self.states)} reachable states ends the episode, so there is no "
                "terminal state to anchor the vector at."
            )
        return terminal

    def _reward(
        self, reward: float | Callable[[Any], float] | None, terminal: np.ndarray
    ) -> np.ndarray:
        if callable(reward):
            return np.array([float(reward(key)) for key in self.states])
        if reward is not None:
            return np.where(terminal, 0.0, float(reward))
        r = np.zeros(len(self.states))
        for i in np.flatnonzero(~terminal):
            action_of = {
                value: a
                for a, outcomes in enumerate(self.outcomes[i])
                for _, _, value, _ in outcomes
            }
            r[i], *others = action_of
            if others:
                raise MDPError(
                    "the reward is not a function of the state that is left: in state "
                    f"{self.states[i]!r}, action {action_of[r[i]]} can give {r[i]:g} and action "
                    f"{action_of[others[0]]} {others[0]:g}.",
                    remedy="Replace it with reward=: a step cost such as -1.0, or a function of a "
                    "state.",
                    command_remedy="Replace it with a step cost, for example --reward=-1.",
                )
        return r


def read(env: gymnasium.Env) -> Table:
    """Read the states that can be reached from a first state, in breadth-first order."""
    dynamics: Mapping[Any, Any] = env.unwrapped.P  # pyright: ignore[reportAttributeAccessIssue]
    uniform = np.full(len(dynamics), 1 / len(dynamics))
    first = np.asarray(getattr(env.unwrapped, "initial_state_distrib", uniform))
    states: list[Hashable] = [int(s) for s in np.flatnonzero(first > 0)]
    seen = set(states)
    terminal: set[Hashable] = set()
    outcomes: list[list[list[Outcome]]] = []
    for key in states:  # The list grows during the loop.
        row: list[list[Outcome]] = []
        if key not in terminal:
            actions = dynamics[key]
            row = [
                [(float(p), int(s), float(r), bool(done)) for p, s, r, done in actions[a] if p > 0]
                for a in sorted(actions)
            ]
        outcomes.append(row)
        for _, following, _, terminated in (outcome for choice in row for outcome in choice):
            if terminated:
                terminal.add(following)
            if following not in seen:
                seen.add(following)
                states.append(following)
    start = first[np.array(states, dtype=np.int64)]
    return Table(states, outcomes, start / start.sum())
