"""Fits as files, which are read with suspicion."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drogo.config import CUSTOM, Config, is_a
from drogo.data.arrays import MOST_ACTIONS
from drogo.errors import ArgumentError, DamagedFile, DrogoError
from drogo.files import Header, read_array_file, write_array_file
from drogo.learn.build import UserNetwork
from drogo.learn.checkpoint import (
    HISTORY,
    STATE,
    as_section,
    by_path,
    check_history,
    section,
    tree_from,
)
from drogo.learn.inputs import Inputs
from drogo.learn.learner import Learner, State
from drogo.learn.objectives import AbstractObjective, Numbers
from drogo.learn.prepare import make_learner, make_objective
from drogo.learn.result import LogEigenvector

FORMAT = "drogo fit 8"
STATUSES = {"converged", "unverified", "max_updates", "diverged"}
ARRAYS = ("v", "observations", "terminal_states", "terminal_rewards", "log_scale", "mean_step")
TUPLES = ("seeds", "status", "diverged_at", "notes")
OTHERS = ("own", "versions", "data_digest", "n_actions")
"""The fields of a fit that a file holds as they are: as arrays, or among its settings."""


def write_fit(result: LogEigenvector, path: Path, *, overwrite: bool) -> None:
    """Writes a fit to one `.npz` file, without objects.

    Args:
        result: The fit.
        path: The file.
        overwrite: Whether to replace a file that is there.
    """
    arrays, settings = parts_of(result)
    write_array_file(path, arrays, {"format": FORMAT, **settings}, overwrite=overwrite)


def load(
    path: str | Path,
    *,
    network: UserNetwork | None = None,
    optimiser: Any = None,
    objective: type[AbstractObjective] | None = None,
) -> LogEigenvector:
    """Returns a saved fit.

    Args:
        path: The file.
        network: The network that was given to `fit`, if it was the user's own.
        optimiser: The optax transformation that was given to `fit`. Without it the fit can be used
            but not continued.
        objective: The class that was given to `fit`, if it was the user's own.
    """
    path = Path(path)
    arrays, settings = read_array_file(path, FORMAT, check_parts)
    try:
        return from_parts(arrays, settings, network, optimiser, objective)
    except DrogoError as error:
        raise type(error)(f"{path} cannot be loaded: {error}") from error


def parts_of(result: LogEigenvector) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Returns the arrays and the settings of a fit, as a file holds them.

    Args:
        result: The fit.
    """
    arrays = {name: getattr(result, name) for name in ARRAYS}
    arrays |= learner_arrays(result.learner, result.state, result.history)
    settings = {name: getattr(result, name) for name in (*TUPLES, *OTHERS)}
    return arrays, {"config": result.config.as_json(), **settings}


def check_parts(settings: dict[str, Any], headers: dict[str, Header]) -> None:
    """Raises an error unless the settings and the shapes of the arrays are those of a fit.

    Args:
        settings: What `parts_of` returned, read from a file.
        headers: The headers of its arrays.
    """
    Config.from_json(settings["config"])
    check_record(settings)
    if not all(isinstance(settings[name], dict) for name in ("own", "versions")):
        raise ValueError("the versions of the libraries are missing")
    check_numbers(headers)
    lanes, distinct = headers["v"].shape
    known = headers["terminal_states"].shape
    shapes = {
        "v": (len(settings["seeds"]), distinct),
        "observations": (distinct, *headers["observations"].shape[1:]),
        "terminal_rewards": known,
        "log_scale": (lanes,),
        "mean_step": (lanes,),
    }
    wrong = [name for name, shape in shapes.items() if headers[name].shape != shape]
    is_index = headers["terminal_states"].dtype.kind in "iu"
    if wrong or len(known) != 1 or known > (distinct,) or not is_index:
        raise ValueError(f"the shape or type of {', '.join(wrong) or 'terminal_states'} is wrong")
    check_history(section(headers, HISTORY), lanes)


def from_parts(
    arrays: dict[str, np.ndarray],
    settings: dict[str, Any],
    network: UserNetwork | None,
    optimiser: Any,
    objective: type[AbstractObjective] | None,
) -> LogEigenvector:
    """Returns the fit whose parts these are.

    Args:
        arrays: What `parts_of` returned, read from a file.
        settings: The same.
        network: The network that was given to `fit`, if it was the user's own.
        optimiser: The optax transformation that was given to `fit`.
        objective: The class that was given to `fit`, if it was the user's own.
    """
    if np.isnan(arrays["v"]).any():
        raise DamagedFile("its vector v is not a number everywhere.")
    config = Config.from_json(settings["config"])
    own = given_again(config, network=network, optimiser=optimiser, objective=objective)
    fitted = make_objective(config, own).with_numbers(numbers_from(arrays))
    if arrays["terminal_states"].max(initial=-1) >= len(arrays["observations"]):
        raise DamagedFile("its terminal states are not among its observations.")
    learner, state = learner_from(arrays, config, fitted, settings, own)
    return LogEigenvector(
        **{name: arrays[name] for name in ARRAYS},
        **{name: tuple(settings[name]) for name in TUPLES},
        **{name: settings[name] for name in OTHERS},
        history=section(arrays, HISTORY),
        config=config,
        learner=learner,
        state=state,
    )


def check_record(settings: dict[str, Any]) -> None:
    """Raises an error unless the seeds of a fit, what became of each, the notes and the number of
    actions are of the right kind.

    Args:
        settings: The settings of a file.
    """
    seeds, status, at = settings["seeds"], settings["status"], settings["diverged_at"]
    are_seeds = all(is_a(seed, Integral) and 0 <= seed < 2**32 for seed in seeds)
    if not are_seeds or not seeds or not len(seeds) == len(status) == len(at):
        raise ValueError(f"its seeds are {seeds}")
    if not set(status) <= STATUSES or not all(k is None or is_a(k, Integral) for k in at):
        raise ValueError(f"its status is {status}, and its seeds diverged at {at}")
    actions, notes = settings.get("n_actions"), settings["notes"]
    if actions is not None and not (is_a(actions, Integral) and 0 < actions <= MOST_ACTIONS):
        raise ValueError(f"its number of actions is {actions}")
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError(f"its notes are {notes}")


def check_numbers(headers: dict[str, Header]) -> None:
    """Raises an error unless a file holds the numbers of an objective."""
    numbers = section(headers, "numbers/")
    scalars = all(header.shape == () for header in numbers.values())
    if not scalars or set(numbers) != set(Numbers.__dataclass_fields__):
        raise ValueError(f"the numbers of its objective are {', '.join(numbers)}")


def learner_arrays(learner: Learner, state: State, history: Any) -> dict[str, np.ndarray]:
    """Returns what a file holds of a learner and of its training.

    Args:
        learner: The learner.
        state: The state of all seeds.
        history: The history.
    """
    arrays = as_section(HISTORY, history) | as_section(STATE, by_path(state))
    arrays |= as_section("inputs/", vars(learner.inputs))
    return arrays | as_section("numbers/", vars(learner.objective.numbers))


def numbers_from(arrays: dict[str, np.ndarray]) -> Numbers:
    """Returns the numbers of an objective that a file holds."""
    return Numbers(**jax.tree.map(jnp.asarray, section(arrays, "numbers/")))


def given_again(config: Config, **given: Any) -> dict[str, Any]:
    """Returns what the user gave again of what a file cannot hold.

    Args:
        config: The settings, which say what was the user's own.
        **given: The objects, or None.
    """
    own = {name: part for name, part in given.items() if part is not None}
    for name in own:
        if getattr(config, name) != CUSTOM:
            raise ArgumentError(
                f"it was trained with the {name} {getattr(config, name)!r}; leave out {name}=."
            )
    return own


def learner_from(
    arrays: dict[str, np.ndarray],
    config: Config,
    objective: AbstractObjective,
    settings: dict[str, Any],
    own: dict[str, Any],
) -> tuple[Learner, State]:
    """Returns the learner and the state of training that a file holds.

    Args:
        arrays: The arrays of the file.
        config: The settings of the fit.
        objective: Its objective, with its numbers.
        settings: The settings of the file.
        own: What the user gave again.
    """
    inputs = Inputs(**section(arrays, "inputs/"))
    parts = (config, arrays["observations"], inputs, objective, settings["seeds"], own)
    learner, params = make_learner(*parts, settings.get("n_actions"))
    fresh = jax.eval_shape(jax.vmap(learner.init), params)
    state = section(arrays, STATE)
    if config.optimiser == CUSTOM and "optimiser" not in own:
        state = {name: part for name, part in state.items() if not name.startswith(".optimiser")}
    return learner, tree_from(state, fresh)
