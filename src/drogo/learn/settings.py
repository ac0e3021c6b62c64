"""Settings: problems, methods, networks and optimisers as plain values, files and grids. A field
that holds a list stands for several values, which `fit` sweeps."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import product
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from drogo import errors
from drogo.errors import ArgumentError, DamagedFile, is_a

T = TypeVar("T")
if TYPE_CHECKING:
    Swept = float
else:
    Swept = Any
    """A number, or a list of numbers to sweep over. Where it is computed with, it is a number."""
CLASS, CUSTOM = "class", "custom"
MOST_SEEDS = 10**6
UNSET = (None, "auto")  # Values of fields that `fit` resolves.


def from_keywords(given: Mapping[str, Any], *kinds: Any) -> list[Any]:
    """Returns one object of each dataclass, with the fields that a user gave as keywords."""
    names = [[field.name for field in fields(kind)] for kind in kinds]
    every = [name for part in names for name in part]
    for name in given:
        if name not in every:
            raise errors.unknown_argument(name, every)
    return [
        kind(**{name: given[name] for name in some if name in given})
        for kind, some in zip(kinds, names, strict=True)
    ]


def seed_list(seeds: Any) -> list[int]:
    """Returns the seeds that an argument stands for."""
    listed: Sequence[Any] = ()
    if is_a(seeds, Integral):
        listed = range(int(seeds)) if seeds <= MOST_SEEDS else ()
    elif isinstance(seeds, Iterable) and not isinstance(seeds, str | bytes):
        listed = list(seeds)
    distinct = {int(k) for k in listed if is_a(k, Integral) and 0 <= int(k) < 2**32}
    if not listed or len(distinct) < len(listed):
        wrong = f"seeds is {seeds!r}; give a number, or distinct ones below 2**32."
        raise ArgumentError(wrong, argument="seeds")
    return [int(seed) for seed in listed]


def bare(settings: Any) -> Any:
    """Returns a problem or a method without what only the host needs."""
    defaults = {field.name: field.default for field in fields(settings)}
    return replace(settings, **{name: defaults[name] for name in settings.host_only})


def grid_of(*parts: Any) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Returns the points of the grid of all fields that hold lists, by their values in order."""
    swept = [(k, *item) for k, part in enumerate(parts) for item in _lists(part)]
    points = {}
    for values in product(*(values for _, _, values in swept)):
        point = list(parts)
        for (k, name, _), value in zip(swept, values, strict=True):
            point[k] = replace(point[k], **{name: value})
        points[values] = tuple(point)
    return points


def check_not_swept(part: Any) -> None:
    """Raises an error if a field of some settings holds a list."""
    for name, value in _lists(part):
        raise ArgumentError(f"{name} is {value}; only drogo.fit makes sweeps.", argument=name)


def _lists(part: Any) -> list[tuple[str, list[Any]]]:
    names = [field.name for field in fields(part)] if is_dataclass(part) else []
    named = [(name, getattr(part, name)) for name in names]
    return [(name, value) for name, value in named if isinstance(value, list)]


def as_json(part: Any) -> Any:
    """Returns settings as plain JSON: their class and fields, or the name of a user's object."""
    if part is None:
        return None
    if not getattr(type(part), "is_setting", False):
        return {CUSTOM: _described(part)}
    return {CLASS: _class_name(type(part))} | {
        field.name: _plain(getattr(part, field.name)) for field in fields(part)
    }


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: getattr(value, part.name) for part in fields(value)}
    if callable(value) and not isinstance(value, type):
        return {CUSTOM: _described(value)}
    return value


def _class_name(kind: type) -> str:
    """Returns the name by which a file refers to a class: short if drogo defines it."""
    shipped = kind.__module__.split(".")[0] == "drogo"
    return kind.__qualname__ if shipped else f"{kind.__module__}.{kind.__qualname__}"


def _described(part: Any) -> str:
    """Returns the full name of an object or a function that a user gave."""
    part = part.func if isinstance(part, partial) else part
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}.{named.__qualname__}"


def from_json(base: type[T], stored: Any, given: T | None, name: str) -> Any:
    """Returns the settings that `as_json` wrote, checked, or those that are `given` again."""
    if given is not None:
        again, unset = as_json(given), {}
        if CLASS in again and isinstance(stored, Mapping):  # the file has the resolved values
            unset = {key: stored.get(key) for key, value in again.items() if value in UNSET}
        if json.dumps(stored, sort_keys=True) != json.dumps(again | unset, sort_keys=True):
            raise ArgumentError(f"{name} is {given!r}, but {stored} in the file.", argument=name)
        return replace(given, **_numbers(unset)) if unset else given  # pyright: ignore
    if stored is None:
        return None
    if not isinstance(stored, Mapping):
        raise DamagedFile(f"its {name} is {stored!r}.")
    kinds = {_class_name(kind): kind for kind in (base, *subclasses(base))}
    kind = kinds.get(str(stored.get(CLASS)))
    nested = [part for part in (stored, *stored.values()) if isinstance(part, Mapping)]
    if kind is None or any(CUSTOM in part for part in nested):
        code = stored.get(CUSTOM, stored.get(CLASS))
        remedy = f"Give it again: load(path, {name}=...), or import its class first."
        wrong = f"its {name} is or has code of the user: {code!r}."
        raise ArgumentError(wrong, remedy=remedy, argument=name)
    values = {key: value for key, value in stored.items() if key != CLASS}
    differ = sorted(set(values) ^ {field.name for field in fields(kind)})  # pyright: ignore[reportArgumentType]
    if differ:
        raise DamagedFile(f"its {name} is from another version: {', '.join(differ)} differ.")
    try:
        return kind(**_numbers(values))
    except (TypeError, ValueError) as error:
        raise DamagedFile(f"its {name} cannot be used: {error}") from error


def _numbers(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns stored fields with infinity and NaN, for which JSON has no words."""
    words = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
    return {k: words.get(v, v) if isinstance(v, str) else v for k, v in stored.items()}


def subclasses(base: type) -> list[type]:
    direct = base.__subclasses__()
    return direct + [kind for part in direct for kind in subclasses(part)]
