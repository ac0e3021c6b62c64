"""The fits that several questions share: each world from each input."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from drogo import config as configs
from drogo.data import collect
from drogo.errors import BadCheckpoint
from drogo.exact import solve
from drogo.learn import fit, sweep
from drogo.learn.result import LogEigenvector
from drogo.runs.job import Job, Outcome, Report
from drogo.worlds.grid import GridWorld
from drogo_paper.scope import INPUTS, LAM, TRANSITIONS, WORLDS, Scope

TRUTHS = ("column", "representation", "transition")
SECONDS = {"one-hot": 40.0, "coordinates": 40.0, "pixels": 250.0}
SIZE = {"grid-task": 1.0, "four-rooms": 1.0, "grid-maze": 1.6, "grid-room": 2.7}
"""How long a fit takes, about: to start the longest first."""
QUICK_UPDATES = {"one-hot": 800, "coordinates": 800, "pixels": 200}


def job(scope: Scope, world: str, kind: str) -> Job:
    settings: dict[str, Any] = {
        "world": world,
        "input": kind,
        "preset": scope.preset,
        "seeds": scope.seeds,
        "lam": LAM,
        "overrides": {"updates": QUICK_UPDATES[kind]} if scope.quick else {},
    }
    seconds = SECONDS[kind] * SIZE[world] * (30 if scope.preset == "paper" else 1)
    label = f"learn {world} from {kind}"
    return Job("drogo_paper.fits:learn", settings, label, 0.1 * seconds if scope.quick else seconds)


def jobs(scope: Scope) -> list[Job]:
    return [job(scope, world, kind) for world in WORLDS for kind in INPUTS]


def learn(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """One fit of all seeds, compared with every exact definition along the way."""
    return outcome(trained(fit, settings, scratch, report))


def search(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """A grid over step size and penalty in one program: curves of every point and seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # finding what diverges is the purpose
        found = trained(sweep, settings, scratch, report, grid=settings["grid"])
    names = [f"cosine_{name}" for name in TRUTHS]
    first = next(iter(found.values()))
    arrays = {"update": first.history["update"]}
    arrays |= {name: np.stack([r.history[name] for r in found.values()]) for name in names}
    arrays["diverged"] = np.array([[s == "diverged" for s in r.status] for r in found.values()])
    arrays["v"] = np.stack([r.v for r in found.values()])
    return Outcome(arrays, {"grid": list(settings["grid"]), "points": [list(p) for p in found]})


def trained(
    method: Callable[..., Any],
    settings: dict[str, Any],
    scratch: Path,
    report: Report,
    **more: Any,
) -> Any:
    """From a checkpoint if there is one; from the start if it is damaged."""
    world = GridWorld.load(settings["world"])
    data = data_of(world, settings["input"])
    chosen = {name: settings[name] for name in ("lam", "objective") if name in settings}
    chosen |= settings["overrides"]
    updates = configs.make(settings["preset"], chosen, ndim=data.observations.ndim).updates
    checkpoint = scratch / "checkpoint.npz"
    train = partial(
        method,
        data,
        preset=settings["preset"],
        seeds=settings["seeds"],
        truth=truths(world, settings["lam"]),
        checkpoint=checkpoint,
        progress=lambda done, _: report(done / updates),
        **more,
        **chosen,
    )
    try:
        return train()
    except BadCheckpoint as error:
        print(f"drogo: {error} It is begun again.", file=sys.stderr)
        checkpoint.unlink(missing_ok=True)
        return train()


def outcome(result: LogEigenvector) -> Outcome:
    arrays = {"v": result.v, **{f"history/{k}": rows for k, rows in result.history.items()}}
    facts = {
        "status": list(result.status),
        "network": result.network,
        "updates": result.updates,
        "config": configs.as_json(result.config),
    }
    return Outcome(arrays, facts)


def data_of(world: GridWorld, kind: str) -> Any:
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation=kind)
    return collect(env, TRANSITIONS, seed=0)


def truths(world: GridWorld, lam: float) -> dict[str, np.ndarray]:
    return {name: solve(world.mdp, lam, name).checked().log_e for name in TRUTHS}
