"""Maps to every goal as files, which are read with suspicion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from drogo.errors import ArgumentError, DamagedFile, DrogoError
from drogo.files import Header, read_array_file, write_array_file
from drogo.learn.checkpoint import as_section, by_path, section, tree_from
from drogo.learn.files import check_numbers, check_record
from drogo.learn.goals.batches import Reached
from drogo.learn.goals.build import make_learner
from drogo.learn.goals.config import GoalConfig
from drogo.learn.goals.continuous import Within
from drogo.learn.goals.problem import ActionModel
from drogo.learn.goals.result import GoalMap
from drogo.learn.inputs import Inputs

FORMAT = "drogo goals 1"
ARRAYS = ("v", "goals", "observations", "terminal_states", "error", "neighbours")
TUPLES = ("seeds", "status", "diverged_at", "notes")
OTHERS = ("n_actions", "repeats", "radius", "data_digest", "versions")
"""The fields of a map that a file holds as they are: as arrays, or among its settings."""


def save(goals: GoalMap, path: Path, *, overwrite: bool) -> None:
    """Writes a map to one `.npz` file, without objects.

    Args:
        goals: The map.
        path: The file.
        overwrite: Whether to replace a file that is there.
    """
    arrays = {name: getattr(goals, name) for name in ARRAYS}
    for k, history in enumerate(goals.history):
        arrays |= as_section(f"history/{k}/", history)
    if goals.model is not None:
        arrays |= as_section("model/", vars(goals.model))
    if goals.learner is not None:
        arrays |= as_section("inputs/", vars(goals.learner.inputs))
        arrays |= as_section("numbers/", vars(goals.learner.objective.numbers))
        arrays |= as_section("params/", by_path(goals.params))
    settings = {name: getattr(goals, name) for name in (*TUPLES, *OTHERS)}
    settings |= {"format": FORMAT, "config": vars(goals.config)}
    write_array_file(path, arrays, settings, overwrite=overwrite)


def load_goals(path: str | Path, *, reached: Reached | None = None) -> GoalMap:
    """Returns a saved map to every goal.

    Args:
        path: The file.
        reached: The function that was given to `fit_goals`, which a file cannot hold.
    """
    path = Path(path)
    arrays, settings = read_array_file(path, FORMAT, _check_file)
    try:
        return _from_file(arrays, settings, reached)
    except (DrogoError, ValueError, KeyError, TypeError) as error:
        kind = type(error) if isinstance(error, DrogoError) else DamagedFile
        raise kind(f"{path} cannot be loaded: {error}") from error


def _check_file(settings: dict[str, Any], headers: dict[str, Header]) -> None:
    """Raises an error unless the settings and the shapes of the arrays are those of a map."""
    if GoalConfig.from_json(settings["config"]).network != "table":
        check_numbers(headers)
    check_record(settings)
    seeds = settings["seeds"]
    if not isinstance(settings["repeats"], bool) or not isinstance(settings["versions"], dict):
        raise ValueError("it does not say whether states repeat, or what it was made with")
    radius = settings["radius"]
    if radius is not None and not (isinstance(radius, float) and radius > 0):
        raise ValueError(f"its radius is {radius}")
    distinct, (goals,) = headers["observations"].shape[0], headers["goals"].shape
    pairs = headers["neighbours"].shape[0]
    shapes = {
        "v": (len(seeds), goals, distinct),
        "error": (len(seeds),),
        "neighbours": (pairs, 2),
        "terminal_states": headers["terminal_states"].shape[:1],
    }
    steps = section(headers, "model/")
    if steps:
        names = ActionModel.__dataclass_fields__
        shapes |= {f"model/{name}": steps["state"].shape[:1] for name in names}
    wrong = [name for name, shape in shapes.items() if headers[name].shape != shape]
    whole = ("goals", "terminal_states", "neighbours", "model/state", "model/action")
    wrong += [n for n in (*whole, "model/next_state") if n in headers and headers[n].dtype != int]
    if wrong:
        raise ValueError(f"the shape or type of {', '.join(wrong)} is wrong")


def _from_file(
    arrays: dict[str, np.ndarray], settings: dict[str, Any], reached: Reached | None
) -> GoalMap:
    config, distinct = GoalConfig.from_json(settings["config"]), len(arrays["observations"])
    rows = {name: arrays[name] for name in ("goals", "terminal_states", "neighbours")}
    model = None
    if section(arrays, "model/"):
        model = ActionModel(**section(arrays, "model/"))
        rows |= {"steps": model.state, "next steps": model.next_state}
        if not settings["n_actions"] or not _within(model.action, settings["n_actions"]):
            raise DamagedFile("its actions are not as many as it says.")
    outside = [name for name, part in rows.items() if not _within(part, distinct)]
    if outside:
        raise DamagedFile(f"its {outside[0]} are not among its observations.")
    learner, params = None, None
    if config.network != "table":
        learner, params = _learner(arrays, config, settings)
    inputs = None if learner is None else learner.inputs
    return GoalMap(
        **{name: arrays[name] for name in ARRAYS},
        **{name: tuple(settings[name]) for name in TUPLES},
        **{name: settings[name] for name in OTHERS},
        history=_history(arrays, len(settings["seeds"]) if learner is not None else 0),
        config=config,
        model=model,
        learner=learner,
        params=params,
        reached=_reached(settings, inputs, reached),
    )


def _within(rows: np.ndarray, size: int) -> bool:
    return bool(((rows >= 0) & (rows < size)).all())


def _history(arrays: dict[str, np.ndarray], seeds: int) -> tuple[dict[str, np.ndarray], ...]:
    return tuple(section(arrays, f"history/{k}/") for k in range(seeds))


def _learner(
    arrays: dict[str, np.ndarray], config: GoalConfig, settings: dict[str, Any]
) -> tuple[Any, Any]:
    """Returns the learner and the parameters of all seeds."""
    inputs = Inputs(**section(arrays, "inputs/"))
    numbers = section(arrays, "numbers/")
    if any(np.isnan(number) for number in numbers.values()):
        raise DamagedFile("a number of its objective is NaN.")
    shape = np.asarray(inputs(arrays["observations"][:1])).shape[1:]
    parts = (config, inputs, shape, numbers, settings["n_actions"])
    learner, first = make_learner(*parts, direct=settings["repeats"])
    seeds = len(settings["seeds"])
    like = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((seeds, *leaf.shape), leaf.dtype),
        jax.eval_shape(lambda: first(0)),
    )
    return learner, tree_from(section(arrays, "params/"), like)


def _reached(
    settings: dict[str, Any], inputs: Inputs | None, given: Reached | None
) -> Reached | None:
    """Returns whether goals are reached: by distance, or by the function that was given again."""
    needed = not settings["repeats"] and settings["radius"] is None
    if given is not None and not needed:
        raise ArgumentError("this map has no function reached. Leave it out.")
    if settings["radius"] is not None and inputs is not None:
        return Within(inputs, settings["radius"])
    if settings["repeats"]:
        return None
    if given is None:
        raise ArgumentError(
            "this map has a function reached of the user's own, which a file cannot hold.",
            remedy="Give it again: load_goals(path, reached=...).",
        )
    return given
