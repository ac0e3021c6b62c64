"""Breadth-first search over copies of a deterministic Gymnasium environment."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from drogo.errors import MDPError
from drogo.mdp.tabular import Outcome, Table

MAX_STATES = 100_000
MAX_STATES_OF_REALS = 10_000
"""The limit if observations are real numbers: they may never repeat, so the search ends sooner."""


def as_key(observation: Any) -> Hashable:
    """Convert an observation to nested tuples, so that it can be looked up and printed."""
    if isinstance(observation, dict):
        return tuple((name, as_key(part)) for name, part in sorted(observation.items()))
    if isinstance(observation, list | tuple):
        return tuple(as_key(part) for part in observation)
    if isinstance(observation, np.ndarray):
        return as_key(observation.tolist())
    return observation.item() if isinstance(observation, np.generic) else observation


def explore(
    env: gymnasium.Env,
    *,
    state: Callable[[gymnasium.Env], Hashable] | None,
    max_states: int | None,
    seeds: list[int],
) -> Table:
    """Find every state that can be reached from `env.reset(seed=seed)`, for any of the seeds.

    Truncation is ignored, because a step limit is not a property of a state. A state that is
    reached in a second way is expanded from there too (once per state) and the outcomes are
    compared. This detects most environments that are stochastic or whose key is not the state.
    """
    space = env.action_space
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise MDPError(f"a search needs a Discrete action space; this one is {space}.")
    if max_states is None:
        real = state is None and np.issubdtype(env.observation_space.dtype, np.floating)
        max_states = MAX_STATES_OF_REALS if real else MAX_STATES
    expand = partial(
        _expand, actions=range(int(space.start), int(space.start + space.n)), state=state
    )
    waiting: dict[Hashable, gymnasium.Env] = {}
    starts: Counter[Hashable] = Counter()
    for seed in seeds:
        root = copy.deepcopy(env)
        observation, _ = root.reset(seed=seed)
        key = as_key(observation) if state is None else state(root)
        starts[key] += 1
        waiting.setdefault(key, root)
    states: list[Hashable] = list(waiting)
    outcomes: dict[Hashable, list[list[Outcome]]] = {}
    second_way: dict[Hashable, gymnasium.Env | None] = {}
    terminal: set[Hashable] = set()
    for key in states:  # The list grows during the loop.
        node = waiting.pop(key)
        if key in terminal:
            outcomes[key] = []
            continue
        outcomes[key], nodes = expand(node)
        rival = second_way.get(key)
        if rival is not None:
            _check_same(key, outcomes[key], expand(rival)[0])
            second_way[key] = None
        for ((_, following, _, terminated),), copied in zip(outcomes[key], nodes, strict=True):
            if terminated:
                terminal.add(following)
            if following not in outcomes and following not in waiting:
                if len(states) >= max_states:
                    raise MDPError(
                        f"the search found more than max_states = {max_states} states. A "
                        "continuous environment has no finite MDP. For a large finite one, raise "
                        "max_states=, or give a coarser state=."
                    )
                states.append(following)
                waiting[following] = copied
            elif following not in second_way:
                if outcomes.get(following):
                    _check_same(following, outcomes[following], expand(copied)[0])
                    second_way[following] = None
                else:
                    second_way[following] = copied
    start = np.array([starts[key] for key in states]) / len(seeds)
    return Table(states, [outcomes[key] for key in states], start)


def _expand(
    node: gymnasium.Env, actions: range, state: Callable[[gymnasium.Env], Hashable] | None
) -> tuple[list[list[Outcome]], list[gymnasium.Env]]:
    row: list[list[Outcome]] = []
    nodes: list[gymnasium.Env] = []
    for action in actions:
        following = copy.deepcopy(node)
        observation, reward, terminated, _, _ = following.step(action)
        key = as_key(observation) if state is None else state(following)
        row.append([(1.0, key, float(reward), bool(terminated))])
        nodes.append(following)
    return row, nodes


def _check_same(key: Hashable, before: list[list[Outcome]], now: list[list[Outcome]]) -> None:
    for action, (old, new) in enumerate(zip(before, now, strict=True)):
        if old != new:
            raise MDPError(
                f"state {key!r} was reached in two ways, and action number {action} then led to "
                f"{old[0][1:]} (next state, reward, terminated) and to {new[0][1:]}. Either the "
                "environment is stochastic, which a search cannot handle, or the observation does "
                "not determine the state: give state=, a function from the environment to a key."
            )
