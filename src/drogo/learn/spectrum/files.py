"""Learned eigenvectors as files, which are read with suspicion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from drogo.config import Config
from drogo.errors import DamagedFile, DrogoError, check_choice
from drogo.exact import MATRICES, Spectrum
from drogo.files import Header, read_array_file, write_array_file
from drogo.learn.build import UserNetwork
from drogo.learn.checkpoint import HISTORY, as_section, check_history, section
from drogo.learn.files import (
    check_numbers,
    check_record,
    given_again,
    learner_arrays,
    learner_from,
    numbers_from,
)
from drogo.learn.spectrum.objectives import SEVERAL, AbstractSeveral
from drogo.learn.spectrum.result import Eigenvectors

FORMAT, EXACT = "drogo spectrum 2", "solution/"
ARRAYS = (
    "vectors",
    "eigenvalues",
    "cosines",
    "overlap",
    "observations",
    "neighbours",
    "mixing",
    "energy",
    "products",
)
FINITE = ("vectors", "eigenvalues", "residuals")
TUPLES = ("seeds", "status", "diverged_at", "notes")
OTHERS = ("objective", "matrix", "discount", "complete", "own", "versions", "data_digest")
"""The fields of a result that a file holds as they are: as arrays, or among its settings."""


def write_spectrum(result: Eigenvectors, path: Path, *, overwrite: bool) -> None:
    """Writes learned eigenvectors to one `.npz` file, without objects.

    Args:
        result: The eigenvectors.
        path: The file.
        overwrite: Whether to replace a file that is there.
    """
    arrays = {name: getattr(result, name) for name in ARRAYS}
    arrays |= learner_arrays(result.learner, result.state, result.history)
    if result.solution is not None:
        exact = {k: part for k, part in vars(result.solution).items() if k != "matrix"}
        arrays |= as_section(EXACT, exact)
    settings = {name: getattr(result, name) for name in (*TUPLES, *OTHERS)}
    assert isinstance(result.learner.objective, AbstractSeveral)
    settings |= {"format": FORMAT, "config": result.config.as_json()}
    settings["bounded"] = result.learner.objective.bounded
    write_array_file(path, arrays, settings, overwrite=overwrite)


def load_spectrum(
    path: str | Path,
    *,
    network: UserNetwork | None = None,
    objective: type[AbstractSeveral] | None = None,
) -> Eigenvectors:
    """Returns saved eigenvectors.

    Args:
        path: The file.
        network: The network that was given to `fit`, if it was the user's own.
        objective: The class that was given to `fit`, if it was the user's own.
    """
    path = Path(path)
    arrays, settings = read_array_file(path, FORMAT, _check_file)
    try:
        return _from_file(arrays, settings, network, objective)
    except DrogoError as error:
        raise type(error)(f"{path} cannot be loaded: {error}") from error


def _check_file(settings: dict[str, Any], headers: dict[str, Header]) -> None:
    """Raises an error unless the settings and the shapes of the arrays are those of a result."""
    Config.from_json(settings["config"])
    check_record(settings)
    check_numbers(headers)
    check_choice("matrix", settings["matrix"], MATRICES)
    if not isinstance(settings["discount"], float) or not 0 < settings["discount"] < 1:
        raise ValueError(f"its discount is {settings['discount']}")
    if not all(isinstance(settings[name], bool) for name in ("complete", "bounded")):
        raise ValueError("what it says of the data is neither true nor false")
    if not all(isinstance(settings[name], dict) for name in ("own", "versions")):
        raise ValueError("the versions of the libraries are missing")
    seeds, k, distinct = headers["vectors"].shape
    shapes: dict[str, tuple[int, ...]] = {
        "vectors": (len(settings["seeds"]), k, distinct),
        "eigenvalues": (seeds, k),
        "cosines": (seeds, k),
        "overlap": (seeds,),
        "observations": (distinct, *headers["observations"].shape[1:]),
        "neighbours": (headers["neighbours"].shape[0], 2),
        **dict.fromkeys(("mixing", "energy", "products"), (seeds, k, k)),
    }
    if section(headers, EXACT):
        known = max(k, headers[EXACT + "vectors"].shape[0])  # with all of nearly equal eigenvalues
        exact = {"vectors": (known, distinct), "eigenvalues": (known,), "residuals": (known,)}
        shapes |= {EXACT + name: shape for name, shape in exact.items()}
        shapes[EXACT + "next_eigenvalue"] = ()
    wrong = [name for name, shape in shapes.items() if headers[name].shape != shape]
    if wrong or headers["neighbours"].dtype.kind not in "iu":
        raise ValueError(f"the shape or type of {', '.join(wrong) or 'neighbours'} is wrong")
    check_history(section(headers, HISTORY), seeds)


def _from_file(
    arrays: dict[str, np.ndarray],
    settings: dict[str, Any],
    network: UserNetwork | None,
    objective: type[AbstractSeveral] | None,
) -> Eigenvectors:
    config = Config.from_json(settings["config"])
    own = given_again(config, network=network)
    make = SEVERAL.get(settings["objective"], objective)
    if make is None:
        raise DamagedFile(
            f"its objective {settings['objective']!r} is the user's own, which a file cannot hold.",
            remedy="Give the class again: load_spectrum(path, objective=...).",
        )
    good = [status != "diverged" for status in settings["status"]]
    for name in ("vectors", "mixing", "energy", "products"):
        if not np.isfinite(arrays[name][good]).all():
            raise DamagedFile(f"a number of its {name} is not finite.")
    if not all(np.isfinite(section(arrays, EXACT).get(name, 0)).all() for name in FINITE):
        raise DamagedFile("a number of its exact solution is not finite.")
    pairs = arrays["neighbours"]
    if not ((pairs >= 0) & (pairs < len(arrays["observations"]))).all():
        raise DamagedFile("its neighbours are not among its observations.")
    vectors = arrays["vectors"].shape[1]
    fitted = make(numbers_from(arrays), vectors, settings["matrix"], settings["discount"])
    fitted = replace(fitted, bounded=settings["bounded"])
    learner, state = learner_from(arrays, config, fitted, settings, own)
    solution = None
    if section(arrays, EXACT):
        exact = section(arrays, EXACT)
        exact["next_eigenvalue"] = float(exact["next_eigenvalue"])
        solution = Spectrum(**exact, matrix=settings["matrix"])
    return Eigenvectors(
        **{name: arrays[name] for name in ARRAYS},
        **{name: tuple(settings[name]) for name in TUPLES},
        **{name: settings[name] for name in OTHERS},
        history=section(arrays, HISTORY),
        config=config,
        solution=solution,
        learner=learner,
        state=state,
    )
