"""Worlds whose states repeat: the problem of the data is solved, and a network is fitted to it."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from drogo.data import Transitions
from drogo.data.default import unseen_pairs
from drogo.device import to_device
from drogo.learn.goals.batches import Device, KnownPairs
from drogo.learn.goals.build import make_learner
from drogo.learn.goals.config import GoalConfig
from drogo.learn.goals.evaluate import pair_values
from drogo.learn.goals.problem import ActionModel, Problem, solve
from drogo.learn.goals.train import Trained, train
from drogo.learn.inputs import fit_inputs
from drogo.learn.judge import MOST_SHARE, TOLERATED_SHARE
from drogo.learn.numbers import TINY
from drogo.learn.train import STOP_AT_ERROR


def fit_repeating(
    data: Transitions, config: GoalConfig, seeds: list[int]
) -> tuple[dict[str, Any], list[Trained]]:
    """Returns what a `GoalMap` holds of such a world, and the outcome of each seed.

    Args:
        data: The transitions, weighed like the default policy's.
        config: The settings.
        seeds: The seeds.
    """
    problem = solve(data, config.lam, config.most_goals, seeds[0])
    model = ActionModel.of(data, config.lam)
    finite = np.isfinite(problem.v)
    depth = -float(problem.v[finite].min())
    allowed = np.clip(config.tolerance, TOLERATED_SHARE * depth, MOST_SHARE * depth)
    parts: dict[str, Any] = {"learner": None}
    parts["v"] = np.broadcast_to(problem.v, (len(seeds), *problem.v.shape))
    parts["error"] = np.full(len(seeds), problem.error)
    outcomes: list[Trained] = []
    if config.network != "table":
        trained = _train(data, problem, model, config, seeds, float(STOP_AT_ERROR * allowed))
        parts["learner"], outcomes, parts["v"] = trained
        parts["error"] = np.array([_error(problem, v) for v in parts["v"]])
    complete, notes = _coverage(data, problem)
    good = np.where(parts["error"] <= allowed, complete, "max_updates")
    return {
        **parts,
        "status": good.tolist(),
        "goals": problem.goals,
        "observations": data.observations,
        "terminal_states": data.terminal_states.astype(np.int64),
        "neighbours": data.neighbours,
        "model": model,
        "notes": notes,
    }, outcomes


def _train(
    data: Transitions,
    problem: Problem,
    model: ActionModel | None,
    config: GoalConfig,
    seeds: list[int],
    enough: float,
) -> tuple[Any, list[Trained], Float[np.ndarray, "seeds goals distinct"]]:
    """Fits a network to the solution with every seed."""
    table = data.observations
    inputs = fit_inputs(table, normalise=True, by_pixel=True)
    seen = np.asarray(inputs(table))
    scale = max(float(np.std(problem.v[np.isfinite(problem.v)])), TINY)
    numbers = {"lam": config.lam, "scale": scale}
    parts = (config, inputs, seen.shape[1:], numbers, data.n_actions)
    learner, first = make_learner(*parts, direct=True)
    device = Device(learner.skeleton.features(to_device(seen)), to_device(config.lam))
    sampler = KnownPairs.of(problem, model, data.n_actions or 0, config)
    goal, state = np.nonzero(~np.isneginf(problem.v))

    def values(params: Any) -> Float[np.ndarray, "goals distinct"]:
        v = np.full(problem.v.shape, -np.inf)
        one = jax.tree.map(lambda leaf: leaf[None], params)
        rows = (table, table, state, problem.goals[goal])
        v[goal, state] = pair_values(learner, one, *rows)[0]
        v[np.arange(problem.goals.size), problem.goals] = 0.0
        return v

    outcomes = [
        train(
            learner, first(seed), device, sampler, config, seed,
            error=lambda params: _error(problem, values(params)), enough=enough,
        )
        for seed in seeds
    ]  # fmt: skip
    return learner, outcomes, np.stack([values(outcome.state.params) for outcome in outcomes])


def _error(problem: Problem, v: Float[np.ndarray, "goals distinct"]) -> float:
    """Returns the largest difference from the solution, where it is finite."""
    known = np.isfinite(problem.v)
    return float(np.abs(v[known] - problem.v[known]).max())


def _coverage(data: Transitions, problem: Problem) -> tuple[str, list[str]]:
    """Returns the status of a map that agrees with the solution, and what the data lack."""
    live = np.setdiff1d(np.arange(problem.v.shape[1]), data.terminal_states)
    lost = np.isneginf(problem.v[:, live]).sum()
    unknown = np.isnan(problem.v[0]).sum()
    notes = []
    if unknown:
        notes.append(f"{unknown} states were never left, or only to such states: transitions into "
                     "them were left out.")  # fmt: skip
    if lost:
        notes.append(f"{lost} pairs of a state and a goal are not connected in the data.")
    complete = not notes and problem.accurate and unseen_pairs(data) == 0
    return "converged" if complete else "unverified", notes
