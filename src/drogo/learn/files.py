"""Saves and loads solutions, and validates every file it reads."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from drogo.data.arrays import MOST_ACTIONS
from drogo.errors import DamagedFile, DrogoError
from drogo.files import Header, read_arrays, write_arrays
from drogo.learn.architectures import AbstractArchitecture, as_architecture
from drogo.learn.checkpoint import (
    HISTORY,
    STATE,
    as_section,
    by_path,
    check_history,
    section,
    tree_from,
)
from drogo.learn.fit import make_learner
from drogo.learn.inputs import Inputs
from drogo.learn.learner import Learner, State
from drogo.learn.method import AbstractMethod
from drogo.learn.objective import Objective
from drogo.learn.optimiser import CustomOptimiser, Optimiser, as_optimiser
from drogo.learn.problem import AbstractProblem
from drogo.learn.settings import CUSTOM, as_json, from_json
from drogo.learn.solution import Solution

KIND = "solution"
STATUSES = {"converged", "unverified", "max_updates", "diverged"}
INPUTS, SCALES = "inputs/", "scales/"
SCALE_NAMES = ("scale", "extra_scale", "ceiling")
PARTS = {
    "problem": AbstractProblem,
    "method": AbstractMethod,
    "network": AbstractArchitecture,
    "optimiser": Optimiser,
}


def save_solution(solution: Solution, path: Path, *, overwrite: bool) -> None:
    """Writes a solution to one `.npz` file, without Python objects."""
    arrays = {"error": solution.error, **solution.arrays}
    arrays |= as_section(HISTORY, solution.history)
    if solution.learner is not None:
        objective = solution.learner.objective
        arrays |= as_section(STATE, by_path(solution.state))
        arrays |= as_section(INPUTS, vars(solution.learner.inputs))
        arrays |= as_section(SCALES, {name: getattr(objective, name) for name in SCALE_NAMES})
    settings = {name: as_json(getattr(solution, name)) for name in PARTS}
    for name in ("seeds", "status", "diverged_at", "notes", "provenance"):
        settings[name] = getattr(solution, name)
    write_arrays(path, KIND, arrays, settings, overwrite=overwrite)


def load_solution(path: Path, **given: Any) -> Solution:
    """Returns a saved solution."""
    arrays, settings = read_arrays(path, KIND, _check_file)
    try:
        return _solution(arrays, settings, given)
    except DrogoError as error:
        argument = error.argument
        raise type(error)(f"{path} cannot be loaded: {error}", argument=argument) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{path} cannot be loaded: {error}") from error


def _check_file(settings: dict[str, Any], headers: dict[str, Header]) -> None:
    """Raises an error unless the settings and the shapes of the arrays are those of a solution."""
    seeds, status, at = settings["seeds"], settings["status"], settings["diverged_at"]
    are_seeds = all(_is_whole(seed) and 0 <= seed < 2**32 for seed in seeds)
    if not are_seeds or not seeds or not len(seeds) == len(status) == len(at):
        raise ValueError(f"its seeds are {seeds}")
    if not set(status) <= STATUSES or not all(k is None or _is_whole(k) for k in at):
        raise ValueError(f"its status is {status}, and its seeds diverged at {at}")
    notes, provenance = settings["notes"], settings["provenance"]
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError(f"its notes are {notes}")
    if not isinstance(provenance, dict):
        raise ValueError("its provenance is missing")
    actions = provenance.get("n_actions")
    if actions is not None and not (_is_whole(actions) and 0 < actions <= MOST_ACTIONS):
        raise ValueError(f"its number of actions is {actions}")
    if headers["error"].shape != (len(seeds),):
        raise ValueError("its errors are not as many as its seeds")
    if section(headers, STATE):
        scales = section(headers, SCALES)
        if set(scales) != set(SCALE_NAMES) or any(part.shape != () for part in scales.values()):
            raise ValueError(f"its scales are {', '.join(scales)}")
        check_history(section(headers, HISTORY), len(seeds))


def _solution(
    arrays: dict[str, np.ndarray], settings: dict[str, Any], given: dict[str, Any]
) -> Solution:
    parts = {}
    for name, base in PARTS.items():
        is_custom = isinstance(settings[name], dict) and CUSTOM in settings[name]
        if is_custom and name == "optimiser" and given.get(name) is None:
            parts[name] = None  # the solution can be used, and not continued
            continue
        parts[name] = from_json(base, settings[name], given.get(name), name)
    learned = ("method", "network") if section(arrays, STATE) else ()
    missing = [name for name in ("problem", *learned) if parts[name] is None]
    if missing:
        raise DamagedFile(f"its {' and its '.join(missing)} is missing.")
    problem, seeds = parts["problem"], tuple(settings["seeds"])
    sections = (HISTORY, STATE, INPUTS, SCALES)
    named = {name: part for name, part in arrays.items() if not name.startswith(sections)}
    error = named.pop("error")
    problem.check_file(named, len(seeds))
    good = [status != "diverged" for status in settings["status"]]
    problem.check_arrays(named, good, settings["provenance"].get("n_actions"))
    learner, state = None, None
    if section(arrays, STATE):
        learner, state = _learner(arrays, settings, parts)
    return Solution(
        **parts,
        seeds=seeds,
        status=tuple(settings["status"]),
        error=error,
        arrays=named,
        history=section(arrays, HISTORY),
        diverged_at=tuple(settings["diverged_at"]),
        notes=tuple(settings["notes"]),
        provenance=settings["provenance"],
        learner=learner,
        state=state,
    )


def _learner(
    arrays: dict[str, np.ndarray], settings: dict[str, Any], parts: dict[str, Any]
) -> tuple[Learner, State]:
    """Returns the learner and the state of training that a file holds."""
    scales = section(arrays, SCALES)
    if any(np.isnan(number) for number in scales.values()):
        raise DamagedFile("a scale of its objective is not a number.")
    optimiser = parts["optimiser"]
    missing = optimiser is None
    optimiser = CustomOptimiser(_nothing()) if missing else as_optimiser(optimiser)
    like = SimpleNamespace(
        observations=arrays["observations"], n_actions=settings["provenance"].get("n_actions")
    )
    learner, params = make_learner(
        Objective(parts["problem"], parts["method"], **scales),
        as_architecture(parts["network"]),
        optimiser,
        Inputs(**section(arrays, INPUTS)),
        like,
        settings["seeds"],
    )
    fresh = jax.eval_shape(jax.vmap(learner.init), params)
    stored = section(arrays, STATE)
    if missing:
        stored = {name: part for name, part in stored.items() if not name.startswith(".optimiser")}
    return learner, tree_from(stored, fresh)


def _nothing() -> Any:
    import optax

    return optax.identity()


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
