"""The fits that several questions share: each world from each kind of observation."""

import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from drogo.data import Transitions, collect
from drogo.errors import BadCheckpoint
from drogo.exact import solve
from drogo.learn.fit import fit
from drogo.learn.settings import as_json
from drogo.learn.solution import Solution
from drogo.problems import Column
from drogo.worlds.grid import GridWorld
from drogo.worlds.text_map import START
from drogo_paper.engines.job import Job, Outcome, Report
from drogo_paper.recipes import recipe
from drogo_paper.scope import INPUTS, LAM, TRANSITIONS, WORLDS, Get, Scope

TRUTHS = ("column", "representation", "transition")


def learn(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Fits all seeds, and compares them with every exact vector along the way."""
    result = train(settings, scratch, report)
    arrays = {"v": result.v, **{f"history/{k}": rows for k, rows in result.history.items()}}
    facts = {
        "status": list(result.status),
        "network": type(result.network).__name__,
        "updates": result.updates,
        "method": as_json(result.method),
    }
    return Outcome(arrays, facts)


def search(settings: dict[str, Any], scratch: Path, report: Report) -> Outcome:
    """Fits a grid over step size and penalty, and keeps the curves of every point and seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a search is expected to diverge somewhere
        results = train(settings, scratch, report, **settings["grid"])
    first = next(iter(results.values()))
    arrays = {"update": first.history["update"]}
    for name in (f"cosine_{truth}" for truth in TRUTHS):
        arrays[name] = np.stack([result.history[name] for result in results.values()])
    arrays["diverged"] = np.array(
        [[status == "diverged" for status in result.status] for result in results.values()]
    )
    arrays["v"] = np.stack([result.v for result in results.values()])
    arrays["wrong_sign"] = np.stack([wrong_signs(result) for result in results.values()])
    names = [name for name in ("penalty", "step_size") if name in settings["grid"]]
    return Outcome(arrays, {"grid": names, "points": [list(point) for point in results]})


def wrong_signs(result: Solution) -> np.ndarray:
    """Returns for each seed how many entries of e have another sign than its largest entry."""
    learner, state = result.learner, result.state
    assert learner is not None
    assert state is not None
    inputs = learner.inputs(jnp.asarray(result.observations))
    outputs = eqx.filter_vmap(lambda params: learner.network(params)(inputs))
    e = np.asarray(learner.objective.entry(outputs(state.params)))
    largest = np.take_along_axis(e, np.abs(e).argmax(axis=1)[:, None], axis=1)
    return (e * np.sign(largest) < 0).sum(axis=1)


def train(settings: dict[str, Any], scratch: Path, report: Report, **grid: list[float]) -> Any:
    """Continues from the checkpoint if there is one, and starts again if it is damaged."""
    world, checkpoint = GridWorld.load(settings["world"]), scratch / "checkpoint.npz"
    data = data_of(world, settings["input"], settings["transitions"], settings["episodes"])
    chosen = {**settings["overrides"], **grid}
    run = partial(
        fit,
        data,
        Column(lam=settings["lam"]),
        **recipe(
            data,
            settings["settings"],
            settings.get("objective", "drogo"),
            newest=settings.get("newest", False),
            **chosen,
        ),
        seeds=settings["seeds"],
        truth={name: solve(world.mdp, settings["lam"], name).checked().log_e for name in TRUTHS},
        checkpoint=checkpoint,
        callbacks=[lambda event: report(event.update / event.updates)],
    )
    with jax.enable_x64(settings["double"]):
        try:
            return run()
        except BadCheckpoint as error:
            print(f"drogo: {error} Training starts again.", file=sys.stderr)
            checkpoint.unlink(missing_ok=True)
            return run()


def data_of(world: GridWorld, kind: str, transitions: int, episodes: bool) -> Transitions:
    """Returns steps from uniform states, or episodes from random cells up to the step limit."""
    if episodes:
        anywhere = world.text.replace(START, ".")
        world = GridWorld.parse(f"step-limit: {world.step_limit}\n\n{anywhere}")
    env = gymnasium.make("drogo/GridWorld-v0", world=world, observation=kind)
    return collect(env, transitions, seed=int(episodes), start="reset" if episodes else "uniform")


VERSION = 2
"""The version of the jobs. Count it up when their numbers change."""
SECONDS = {"one-hot": 0.01, "coordinates": 0.01, "pixels": 0.06}
SIZE = {"grid-task": 1.0, "four-rooms": 1.0, "grid-maze": 1.6, "grid-room": 2.7}
"""The expected seconds of an update, and a factor for the world: the longest starts first."""
QUICK_UPDATES = {"one-hot": 800, "coordinates": 800, "pixels": 200}


def job(scope: Scope, world: str, kind: str, transitions: int = TRANSITIONS) -> Job:
    reading = scope.reading
    overrides = reading.overrides(world)
    if scope.quick:
        overrides |= {"updates": QUICK_UPDATES[kind]}
    settings: dict[str, Any] = {
        "world": world,
        "input": kind,
        "settings": reading.settings,
        "episodes": reading.episodes,
        "double": reading.double,
        "newest": reading.newest_networks,
        "seeds": reading.seeds(world, kind, scope.seeds),
        "lam": LAM,
        "transitions": transitions,
        "overrides": overrides,
    }
    seconds = SECONDS[kind] * SIZE[world] * overrides.get("updates", 5000)
    label = f"learn {world} from {kind}"
    return Job("drogo_paper.fits:learn", settings, label, seconds, VERSION)


def jobs(scope: Scope, get: Get | None = None) -> list[Job]:
    return [job(scope, world, kind) for world in WORLDS for kind in INPUTS]
