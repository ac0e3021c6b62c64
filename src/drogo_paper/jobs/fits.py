"""Fits of one world from one kind of observation, and searches over their settings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium
import jax.numpy as jnp
import numpy as np

from drogo.data import collect
from drogo.errors import BadCheckpoint
from drogo.exact import solve
from drogo.learn import LogEigenvector, fit, sweep
from drogo.requests import plain
from drogo.runs.job import Outcome, Report
from drogo.worlds.grid import GridWorld
from drogo_paper.jobs.objectives import OBJECTIVES

TRUTHS = ("column", "representation", "transition")


def learn(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Fits all seeds, and compares them with every exact vector along the way."""
    result = train(fit, settings, scratch, report)
    arrays = {"v": result.v, **{f"history/{k}": rows for k, rows in result.history.items()}}
    facts = {
        "status": list(result.status),
        "network": result.network,
        "updates": result.updates,
        "config": plain(asdict(result.config)),
    }
    return Outcome(arrays, facts)


def search(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Fits a grid over step size and penalty, and keeps the curves of every point and seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a search is expected to diverge somewhere
        results = train(sweep, settings, scratch, report, grid=settings["grid"])
    first = next(iter(results.values()))
    arrays = {"update": first.history["update"]}
    for name in (f"cosine_{truth}" for truth in TRUTHS):
        arrays[name] = np.stack([result.history[name] for result in results.values()])
    arrays["diverged"] = np.array(
        [[status == "diverged" for status in result.status] for result in results.values()]
    )
    arrays["v"] = np.stack([result.v for result in results.values()])
    arrays["wrong_sign"] = np.stack([wrong_signs(result) for result in results.values()])
    return Outcome(arrays, {"grid": list(settings["grid"]), "points": [list(p) for p in results]})


def wrong_signs(result: LogEigenvector) -> np.ndarray:
    """Returns for each seed how many entries of e have another sign than its largest entry."""
    learner, observations = result.learner, jnp.asarray(result.observations)
    outputs = eqx.filter_vmap(lambda params: learner.output(params, observations))
    e = np.asarray(learner.objective.entry(outputs(result.state.params)))
    largest = np.take_along_axis(e, np.abs(e).argmax(axis=1)[:, None], axis=1)
    return (e * np.sign(largest) < 0).sum(axis=1)


def train(
    method: Callable[..., Any],
    settings: dict[str, Any],
    scratch: Path,
    report: Report,
    **more: Any,
) -> Any:
    """Continues from the checkpoint if there is one, and starts again if it is damaged."""
    world = GridWorld.load(settings["world"])
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation=settings["input"])
    chosen = {name: settings[name] for name in ("lam", "objective") if name in settings}
    if chosen.get("objective") in OBJECTIVES:
        chosen["objective"] = OBJECTIVES[chosen["objective"]]
    checkpoint = scratch / "checkpoint.npz"
    run = partial(
        method,
        collect(env, settings["transitions"], seed=0),
        preset=settings["preset"],
        seeds=settings["seeds"],
        truth={name: solve(world.mdp, settings["lam"], name).checked().log_e for name in TRUTHS},
        checkpoint=checkpoint,
        callbacks=[lambda event: report(event.update / event.updates)],
        **more,
        **chosen,
        **settings["overrides"],
    )
    try:
        return run()
    except BadCheckpoint as error:
        print(f"drogo: {error} Training starts again.", file=sys.stderr)
        checkpoint.unlink(missing_ok=True)
        return run()
