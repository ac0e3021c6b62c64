"""What data do not show: states from which no end was reached, and actions that were never taken.
Neither may look better than what was seen, so their values are given as lying below all others."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Bool

from drogo.data import Transitions
from drogo.data.empirical import pair_index
from drogo.errors import counted
from drogo.learn.problem import Prepared
from drogo.mdp.arrays import leads_to

ABSENT = -1e4
"""What is added to the value of an action that never occurs, whose probability is then 0."""


def closed(prepared: Prepared, floor: Callable[[Transitions], float]) -> Prepared:
    """Returns transitions whose states repeat, in which each step into a state that never leads to
    an end is itself an end: worth the `floor` of the data. So are steps to state numbers that were
    never left, of which a table knows nothing."""
    data = prepared.data
    if not data.repeats:
        return prepared
    edges, known, n = data.edges, data.edges.known, len(data.observations)
    over = known.terminated
    leads = leads_to(known.state[~over], known.next_state[~over], n, known.state[over])
    leads[data.next_state[data.terminated]] = True
    left, reached = (np.bincount(at, minlength=n) > 0 for at in (data.state, data.next_state))
    lost = left & ~leads
    unknown = reached & ~left & ~leads & (data.observations.ndim == 1)
    if not (lost | unknown).any():
        return prepared
    facts = {**prepared.facts, "anchor": data.terminal_states[0], "lost": np.flatnonzero(lost)}
    data = ending(data, (lost | unknown)[data.next_state], floor(data))
    frontier = (lost[edges.state] & ~edges.usable).any() or unknown.any()
    count = counted(int((lost | unknown).sum()), "observation")
    note = f"No end was ever reached from {count}, whose values are below all others"
    note += ", though the data do not show all that follows them." if frontier else "."
    complete = prepared.complete and not frontier
    changed = {"notes": (*prepared.notes, note), "complete": complete, "facts": facts}
    return replace(prepared, data=data, shown=data, **changed)


def with_bad_outcomes(prepared: Prepared, floor: Callable[[Transitions], float]) -> Prepared:
    """Returns transitions of the actions of which an outcome is known. Their other outcomes, into
    states that were never left, become ends that are worth the `floor` of the data: left out, they
    would make an action as good as the luck that was seen."""
    data = prepared.data
    pair, usable = pair_index(data), data.edges.usable[data.edges.of_transition]
    bad = ~usable & (np.bincount(pair, usable) > 0)[pair]
    if not bad.any():
        return replace(prepared, data=data.rows(usable))
    facts = {**prepared.facts, "anchor": data.terminal_states[0]}
    note = f"{counted(np.unique(pair[bad]).size, 'pair')} of an observation and an action had "
    note += "outcomes that were never left. These count as ends below all other values."
    data = ending(data, bad, floor(data.rows(usable))).rows(usable | bad)
    changed = {"notes": (*prepared.notes, note), "complete": False, "facts": facts}
    return replace(prepared, data=data, **changed)


def ending(data: Transitions, ends: Bool[np.ndarray, " n"], worth: float) -> Transitions:
    """Returns transitions of which some more are ends."""
    terminal_reward = np.where(ends, worth, data.terminal_reward)
    return replace(data, terminated=data.terminated | ends, terminal_reward=terminal_reward)


def with_unseen_pairs(data: Transitions, floor: Callable[[Transitions], float]) -> Transitions:
    """Adds a transition for each pair of a state and an action that was never seen, into an end
    that is worth the `floor` of the data."""
    if not data.repeats or data.n_actions is None or data.action is None:
        return data
    n, count = len(data.observations), data.n_actions
    seen = np.zeros((n, count), dtype=bool)
    seen[data.state, data.action] = True
    state, action = np.nonzero(~seen & seen.any(axis=1, keepdims=True) & seen.any(axis=0))
    if not state.size:
        return data
    first, ones = data.rows(np.zeros(state.size, dtype=int)), np.ones(state.size)
    added = replace(
        first, state=state.astype(np.int32), next_state=state.astype(np.int32),
        action=action.astype(data.action.dtype), default=ones / count, weight=ones,
        reward=ones * data.reward.mean(), terminated=ones > 0, terminal_reward=ones * floor(data),
    )  # fmt: skip
    return data + added
