"""The map of what an agent has seen so far: the exact solution of its own empirical problem.

An agent has tried some actions in some states. Where it has, the frequencies of what it saw define
an MDP. What an action leads to that was never tried, nobody knows: under *optimism* it counts as a
terminal state of a given value. The map then leads to the goal, or to the nearest place where
something is left to try, around what is known to be costly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from drogo.exact.sampled import Sampled, solve_sampled


@dataclass(frozen=True)
class Seen:
    """The distinct transitions of an agent, and how often it saw each of them.

    Args:
        state: The state that was left.
        action: The action that was taken.
        next_state: The state that was reached.
        reward: The reward of the step.
        terminated: Whether the state that was reached is terminal.
        terminal_reward: Its value in units of reward, where it is.
        count: How often the transition was seen.
    """

    state: Int[np.ndarray, " n"]
    action: Int[np.ndarray, " n"]
    next_state: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]
    terminal_reward: Float[np.ndarray, " n"]
    count: Int[np.ndarray, " n"]


def solve_seen(
    seen: Seen,
    default: Float[np.ndarray, "states actions"],
    lam: float,
    optimism: float | None,
) -> Float[np.ndarray, " states"]:
    """Computes the map of what was seen.

    Args:
        seen: The transitions.
        default: The default policy in every state that was seen.
        lam: The temperature.
        optimism: The terminal value, in units of reward, that an action is taken to lead to as long
            as it was not tried. With None, the default policy is taken to choose among the actions
            that were tried.

    Returns:
        The value `v` of each state. Where nothing is known of it, it is the lowest of the known
        ones; it is 0 everywhere if nothing is known at all, because no terminal state was seen.
    """
    states, actions = default.shape
    times = np.zeros((states, actions))
    np.add.at(times, (seen.state, seen.action), seen.count)
    weight = default[seen.state, seen.action] * seen.count / times[seen.state, seen.action]
    value = seen.terminal_reward / lam
    columns = (seen.state, seen.next_state, weight, -seen.reward / lam, seen.terminated, value)
    ends = np.zeros(states, dtype=bool)
    ends[seen.next_state[seen.terminated]] = True
    ends[seen.state] = False
    if optimism is not None:
        state, action = np.nonzero((times == 0) & (default > 0) & ~ends[:, None])
        share, none = default[state, action], np.zeros(state.size)
        promised = np.full(state.size, optimism / lam)
        untried = (state, state, share, none, none == 0, promised)
        columns = tuple(np.concatenate(both) for both in zip(columns, untried, strict=True))
    if not columns[4].any():
        return np.zeros(states)
    v = solve_sampled(Sampled(states, *columns))
    # A terminal state has the value that was seen last; several values of one are an average world.
    last = seen.terminated & ends[seen.next_state]
    v[seen.next_state[last]] = seen.terminal_reward[last] / lam
    known = np.isfinite(v)
    return np.where(known, v, v[known].min()) if known.any() else np.zeros(states)


def action_values(
    seen: Seen,
    v: Float[np.ndarray, " states"],
    default: Float[np.ndarray, "states actions"],
    lam: float,
    optimism: float | None,
) -> Float[np.ndarray, "states actions"]:
    """Computes what the map promises of each action: `log d(a|s) + log E[exp(r/lam + v(s'))]`.

    Args:
        seen: The transitions.
        v: Their map.
        default: The default policy in every state.
        lam: The temperature.
        optimism: As in `solve_seen`. With None, nothing is promised of actions that were not tried:
            minus infinity.

    Returns:
        The log of the promise of each action. The optimal policy of the linearly solvable MDP
        takes actions in proportion to the promises.
    """
    times = np.zeros(default.shape)
    np.add.at(times, (seen.state, seen.action), seen.count)
    after = np.where(seen.terminated, seen.terminal_reward / lam, v[seen.next_state])
    promise = seen.reward / lam + after
    most = np.full(default.shape, -np.inf)
    np.maximum.at(most, (seen.state, seen.action), promise)
    total = np.zeros(default.shape)
    scaled = seen.count * np.exp(promise - most[seen.state, seen.action])
    np.add.at(total, (seen.state, seen.action), scaled)
    with np.errstate(divide="ignore", invalid="ignore"):
        tried = most + np.log(total / times)
        untried = -np.inf if optimism is None else optimism / lam
        return np.log(default) + np.where(times > 0, tried, untried)


def mean_step_of(v: Float[np.ndarray, " states"], seen: Seen) -> float:
    """Returns the mean difference of the map between two states that a step led between; 1 if it is
    flat. A potential is divided by it, so that its weight means the same in every world.

    Args:
        v: The map.
        seen: The transitions.
    """
    moved = seen.state != seen.next_state
    steps = np.abs(v[seen.next_state[moved]] - v[seen.state[moved]])
    mean = float(steps.mean()) if steps.size else 0.0
    return mean if mean > 0 else 1.0
