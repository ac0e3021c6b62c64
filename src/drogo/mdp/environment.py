"""Finds the MDP behind a Gymnasium environment, in its table of dynamics or by search."""

import copy
import reprlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import chain
from typing import Any

import gymnasium
import numpy as np
import scipy.sparse as sp

from drogo.errors import MDPError, check_number
from drogo.mdp.costs import Costs, Judged, judge

MAX_STATES, MAX_STATES_OF_REALS = 100_000, 10_000  # Real numbers may never repeat.

Key = Callable[[gymnasium.Env], Hashable] | None
Row = list[list[tuple[float, Hashable, float, bool]]]
"""The outcomes of each action: probability, next state, reward, terminated, as in Gymnasium."""
NO_SEARCH = "Use drogo learn, which needs no search."
Table = tuple[dict[Hashable, Row], np.ndarray]
"""The outcomes of each state, in the order of discovery, and the distribution of the first."""


def tabulate(
    env: gymnasium.Env,
    reward: float | Callable[[Any], float] | Costs | None,
    state: Key,
    max_states: int | None,
    seeds: list[int],
) -> tuple[dict[str, Any], Judged]:
    """Finds the arguments of `MDP.from_arrays`, and what the rewards say; `MDP.from_gymnasium`
    documents those of this."""
    has_table = state is None and isinstance(getattr(env.unwrapped, "P", None), Mapping)
    rows, start = _read(env) if has_table else _explore(env, state, max_states, seeds)
    states, ending = list(rows), set()
    # An episode that begins in a state does not end there.
    continuing = {key for key, chance in zip(rows, start, strict=True) if chance > 0}
    for _, key, _, terminated in chain(*chain(*rows.values())):
        (ending if terminated else continuing).add(key)
    unclear = [key for key in rows if key in ending and key in continuing]
    if unclear:
        problem = f"state {unclear[0]!r} ends some episodes, and others begin or continue in it."
        raise MDPError(problem, remedy="Give state=, a key that tells these apart.", argument="env")
    terminal = np.array([key in ending for key in rows])
    index = {key: i for i, key in enumerate(states)}
    entries = [
        (action, i, index[key], probability, outcome)
        for i, row in enumerate(rows.values())
        if not terminal[i]
        for action, outcomes in enumerate(row)
        for probability, key, outcome, _ in outcomes
    ]
    actions, before, after, weight, outcome = map(np.array, zip(*entries, strict=True))
    P, shape = [], (len(states), len(states))
    for taken in (actions == action for action in range(actions.max() + 1)):
        P.append(sp.csr_array((weight[taken], (before[taken], after[taken])), shape=shape))
    arguments = {"P": P, "terminal": terminal, "start": start, "states": states}
    judged, given, r = Judged(None), outcome, np.zeros(len(states))
    if callable(reward):
        return {**arguments, "r": np.array([float(reward(key)) for key in states])}, judged
    if isinstance(reward, Costs):
        judged = Judged(reward)
    elif reward is not None:
        given = np.full(outcome.size, check_number("reward", reward))
    over = terminal[after]
    if (
        judged.costs is None
        and over.any()
        and (reward is not None or _differ(before, outcome).any())
    ):
        limit = (env.spec and env.spec.max_episode_steps) or 0
        judged = judge(given, over, outcome, np.zeros(after.size, dtype=np.int64), limit)
    if judged.costs is not None:
        given, values = judged.costs.of_steps(given, over, outcome)
        ended = np.bincount(after, weight * over, len(states))
        r = np.bincount(after, weight * values, len(states)) / np.where(terminal, ended, 1.0)
    differ = _differ(before, given)
    if differ.any():
        other = int(differ.argmax())
        one = int((before == before[other]).argmax())
        problem = "the reward is not a function of the state that is left: in state "
        problem += f"{states[before[other]]!r}, action {actions[one]} can give {given[one]:g}, and "
        problem += f"{actions[other]} {given[other]:g}."
        remedy = "Replace it with reward=: a step cost such as -1.0, or a function of a state."
        command = "Replace it with a step cost, for example --reward=-1."
        raise MDPError(problem, remedy=remedy, command_remedy=command, argument="env")
    r[before] = given
    return {**arguments, "r": r}, judged


def _differ(before: np.ndarray, reward: np.ndarray) -> np.ndarray:
    """Returns which rewards differ from the first one of the state that was left."""
    first = np.unique(before, return_index=True)[1]
    expected = np.zeros(before.max() + 1)
    expected[before[first]] = reward[first]
    return expected[before] != reward


def _read(env: gymnasium.Env) -> Table:
    dynamics: Mapping[Any, Any] = env.unwrapped.P  # pyright: ignore[reportAttributeAccessIssue]
    uniform = np.full(len(dynamics), 1 / len(dynamics))
    start = np.asarray(getattr(env.unwrapped, "initial_state_distrib", uniform))

    def expand(state: Any) -> tuple[Row, list[Any]]:
        row: Row = [
            [(float(p), int(s), float(r), bool(done)) for p, s, r, done in outcomes if p > 0]
            for _, outcomes in sorted(dynamics[state].items())
        ]
        return row, [s for _, s, _, _ in chain(*row)]

    roots: dict[Hashable, int] = {int(s): int(s) for s in np.flatnonzero(start > 0)}
    outcomes = _breadth_first(roots, expand, len(dynamics))
    reached = start[np.array(list(outcomes), dtype=np.int64)]
    return outcomes, reached / reached.sum()


def _explore(env: gymnasium.Env, state: Key, max_states: int | None, seeds: list[int]) -> Table:
    """Searches copies of a deterministic environment from `env.reset(seed=seed)`, for all seeds."""
    space = env.action_space
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise MDPError(f"env needs a Discrete action space; this one is {space}.", argument="env")
    actions = range(int(space.start), int(space.start + space.n))
    if max_states is None:
        real = state is None and np.issubdtype(env.observation_space.dtype, np.floating)
        max_states = MAX_STATES_OF_REALS if real else MAX_STATES

    def expand(node: gymnasium.Env) -> tuple[Row, list[gymnasium.Env]]:
        row: Row = []
        nodes = [copy.deepcopy(node) for _ in actions]
        for following, action in zip(nodes, actions, strict=True):
            observation, reward, terminated, _, _ = following.step(action)
            key = as_key(observation) if state is None else state(following)
            row.append([(1.0, key, float(reward), bool(terminated))])
        return row, nodes

    roots: dict[Hashable, gymnasium.Env] = {}
    starts: Counter[Hashable] = Counter()
    for seed in seeds:
        root = copy.deepcopy(env)
        observation, _ = root.reset(seed=seed)
        key = as_key(observation) if state is None else state(root)
        starts[key] += 1
        roots.setdefault(key, root)
    outcomes = _breadth_first(roots, expand, max_states)
    return outcomes, np.array([starts[key] for key in outcomes]) / len(seeds)


def as_key(observation: Any) -> Hashable:
    """Converts an observation to nested tuples, so that it can be looked up and printed."""
    if isinstance(observation, dict):
        return tuple((name, as_key(part)) for name, part in sorted(observation.items()))
    if isinstance(observation, list | tuple):
        return tuple(as_key(part) for part in observation)
    if isinstance(observation, np.ndarray):
        return as_key(observation.tolist())
    return observation.item() if isinstance(observation, np.generic) else observation


def _breadth_first(
    roots: Mapping[Hashable, Any],
    expand: Callable[[Any], tuple[Row, Iterable[Any]]],
    max_states: int,
) -> dict[Hashable, Row]:
    """Finds the outcomes of all states, and compares those of a state reached in a second way."""
    waiting, states = dict(roots), list(roots)
    outcomes: dict[Hashable, Row] = {}
    second_way: dict[Hashable, Any] = {}
    terminal: set[Hashable] = set()
    for key in states:  # The list grows during the loop.
        node = waiting.pop(key)
        outcomes[key] = []
        if key in terminal:
            continue
        outcomes[key], nodes = expand(node)
        rival = second_way.get(key)
        if rival is not None:
            _check_same(key, outcomes[key], expand(rival)[0])
            second_way[key] = None
        for (_, following, _, terminated), node in zip(chain(*outcomes[key]), nodes, strict=True):
            if terminated:
                terminal.add(following)
            if following not in outcomes and following not in waiting:
                if len(states) >= max_states:
                    problem = f"the search found more than max_states = {max_states} states."
                    remedy = "If the environment is not continuous, raise it, or give state=."
                    raise MDPError(
                        problem, remedy=remedy, command_remedy=NO_SEARCH, argument="max_states"
                    )
                states.append(following)
                waiting[following] = node
            elif following not in second_way:
                second_way[following] = node
                if outcomes.get(following):
                    _check_same(following, outcomes[following], expand(node)[0])
                    second_way[following] = None
    return outcomes


def _check_same(key: Hashable, before: Row, now: Row) -> None:
    for action, (old, new) in enumerate(zip(before, now, strict=True)):
        if old != new:
            state, one, two = map(reprlib.repr, (key, old[0][1:], new[0][1:]))  # may be pictures
            problem = f"state {state} was reached in two ways, and action number {action} then led "
            problem += f"to {one} (next state, reward, terminated) and to {two}."
            remedy = "If the environment is not stochastic, give state=, a key of its state."
            raise MDPError(problem, remedy=remedy, command_remedy=NO_SEARCH, argument="env")
