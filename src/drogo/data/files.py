"""Files of transitions: an `.npz`, and beside it a file of observations that were in one before."""

import math
from collections.abc import Callable
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from drogo.errors import ArgumentError, DamagedFile, DrogoError, MissingFile, is_a
from drogo.files import KINDS, Header, read_arrays, write_arrays

KIND = "transitions"
OPTIONAL = ("action", "behaviour", "default", "outcome", "environment")
ARRAYS = ("observations", "state", "next_state", "reward", "terminated", "truncated",
          "terminal_reward", *OPTIONAL)  # fmt: skip
"""The arrays of a file. Weights follow from the actions and are not saved."""


def write(path: Path, columns: Any, settings: dict[str, Any], *, overwrite: bool) -> None:
    """Writes the known columns of transitions. Observations that are in a file stay there."""
    parts = {name: part for name, part in columns.items() if part is not None}
    table = parts["observations"]
    if isinstance(table, np.memmap) and table.filename and table.flags.c_contiguous:
        file = Path(str(table.filename)).resolve()
        if table.offset == 0 and file.stat().st_size == table.nbytes:
            if file.parent != path.resolve().parent:
                problem = f"the observations are in {file}, and {path} is not beside them."
                remedy = f"Save to {file.parent}, or move the observations first."
                raise ArgumentError(problem, remedy=remedy, argument="path")
            del parts["observations"]
            settings |= {"file": file.name, "dtype": table.dtype.str, "shape": table.shape}
    write_arrays(path, KIND, parts, settings, overwrite=overwrite)


def read(path: Path, from_table: Callable[..., Any]) -> Any:
    """Returns the transitions that `from_table` makes of the arrays of a file."""
    parts, settings = read_arrays(path, KIND, _check_file)
    if "file" in settings:
        file, shape = path.parent / settings["file"], tuple(settings["shape"])
        size = math.prod(shape) * np.dtype(settings["dtype"]).itemsize
        if not file.is_file() or file.stat().st_size != size:
            problem = f"are in {file}, which does not exist or does not have {size} bytes."
            raise MissingFile(f"the observations of {path} {problem}")
        parts["observations"] = np.memmap(file, settings["dtype"], mode="r", shape=shape)
    try:
        columns: dict[str, Any] = {"outcome": None, **parts}
        origin = settings.get("origin", {})
        return from_table(**columns, n_actions=settings.get("n_actions"), origin=origin)
    except DrogoError as error:
        raise DamagedFile(f"{path} holds transitions that cannot be used: {error}") from error


def _check_file(settings: dict[str, Any], headers: dict[str, Header]) -> None:
    expected = set(ARRAYS) - (set(OPTIONAL) - set(headers))
    if "file" in settings:
        expected.remove("observations")
        name, shape = settings["file"], settings["shape"]
        if Path(name).name != name or name in ("", ".", ".."):
            raise ValueError(f"its observations are in {name!r}, which is not beside it")
        if not shape or any(not is_a(k, Integral) or k < 0 for k in shape):
            raise ValueError(f"its observations have the shape {shape}")
        if np.dtype(settings["dtype"]).kind not in KINDS:
            raise ValueError(f"its observations have the type {settings['dtype']}")
    if not isinstance(settings.get("origin", {}), dict):
        raise ValueError(f"its origin is {settings['origin']!r}")
    if set(headers) != expected:
        raise ValueError(f"it holds {', '.join(sorted(headers))}")
    lengths = {headers[name].shape[:1] for name in expected - {"observations"}}
    if len(lengths) > 1:
        raise ValueError(f"its arrays have different shapes: {', '.join(map(str, lengths))}")
