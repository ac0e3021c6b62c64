"""The errors of this library, which the command line prints without a traceback. Every kind is also
the built-in exception that it refines, so `except ValueError` keeps working."""

import contextlib
import difflib
import functools
import math
import reprlib
from collections.abc import Callable, Collection
from importlib import import_module
from numbers import Integral, Real
from typing import Annotated, Any, get_args, get_type_hints

Check = Callable[[str, Any], Any]
"""A function of an argument's name and value, which raises an error or returns what to keep."""

LIKE = 0.7  # The share of letters that a misspelt name has in common with the right one.


class DrogoError(Exception):
    """Base class of every error that this library raises on purpose.

    Args:
        problem: The mistake, the input, and the place in it.
        remedy: A remedy for a Python user.
        command_remedy: The remedy for a user of the command line, if it differs.
        argument: The name of the argument or field that is wrong, if it is a single one.
    """

    def __init__(
        self,
        problem: str,
        *,
        remedy: str = "",
        command_remedy: str = "",
        argument: str | None = None,
    ) -> None:
        super().__init__(f"{problem} {remedy}".rstrip())
        self.for_command_line = f"{problem} {command_remedy or remedy}".rstrip()
        self.argument = argument


class ArgumentError(DrogoError, ValueError):
    """An argument, option or setting has a value that cannot be used."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of a type that cannot be used, or its name is unknown."""


class MDPError(ArgumentError):
    """The default representation of an MDP is not defined."""


class MapError(ArgumentError):
    """A text map cannot be read.

    Args:
        source: The file or the name of the map.
        line: The line of the mistake, counted from 1.
        column: The column of the mistake, counted from 1, where there is one.
        problem: The mistake there.
    """

    def __init__(self, source: str, line: int, column: int | None, problem: str) -> None:
        place = f"line {line}" if column is None else f"line {line}, column {column}"
        super().__init__(f"{source}, {place}: {problem}")
        self.line, self.column = line, column


class DataError(ArgumentError):
    """The vector cannot be learned from these transitions."""


class NumericalError(DrogoError, ArithmeticError):
    """A computation did not arrive at a number that can be trusted."""


class NotConverged(NumericalError):
    """An exact solver stopped before every entry was accurate."""


class Diverged(NumericalError):
    """Every seed of a fit diverged."""


class FileError(DrogoError, OSError):
    """A file or directory cannot be read or written."""


class AlreadyExists(FileError, FileExistsError):
    """A file is there already and was not overwritten."""


class MissingFile(FileError, FileNotFoundError):
    """A file that is needed is not there."""


class DamagedFile(DrogoError, ValueError):
    """A file does not hold what this library wrote into it."""


class BadCheckpoint(DamagedFile):
    """A checkpoint is damaged or belongs to another fit."""


class MissingPackage(DrogoError, ImportError):
    """An optional package is not installed."""


def counted(count: int | Integral, noun: str) -> str:
    """Returns a number and its noun, such as "1 seed" or "3 seeds"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def is_a(value: Any, kind: type) -> bool:
    """Returns whether a value is a number of some kind. True and False are none."""
    return isinstance(value, kind) and not isinstance(value, bool)


def check_type(name: str, value: Any, kind: Any, wanted: str) -> Any:
    """Returns the value of an argument, or raises an `ArgumentTypeError` unless it is of a kind."""
    if isinstance(value, kind):
        return value
    plain = isinstance(value, str | Real | type(None))
    shown = reprlib.repr(value) if plain else f"a {type(value).__name__}"
    shown = f"the class {value.__name__}" if isinstance(value, type) else shown
    raise ArgumentTypeError(f"{name} is {shown}; give {wanted}.", argument=name)


def check_flag(name: str, value: Any) -> bool:
    """Returns a value that is True or False, checked."""
    if type(value).__name__ not in ("bool", "bool_"):  # that of NumPy as well
        raise ArgumentTypeError(f"{name} is {value!r}; it must be True or False.", argument=name)
    return bool(value)


SYNONYMS = {"learning_rate": "step_size", "lr": "step_size", "gamma": "discount"}
"""Names of arguments in other libraries."""
PLACES = {"step_size": "an optimiser, such as drogo.learn.Optimiser(step_size=...)",
          "lam": "a problem, such as drogo.Column(lam=...)"}  # fmt: skip
"""The parts of a fit that have an argument which is often given elsewhere."""


def unknown_argument(name: str, every: Collection[str], remedy: str = "") -> ArgumentTypeError:
    """Returns the error for an argument that there is not, with the closest one that there is."""
    known = SYNONYMS.get(name, name)
    close = difflib.get_close_matches(known, every, n=1, cutoff=LIKE)
    others = f"It belongs to {PLACES[known]}." if known in PLACES else f"Use {', '.join(every)}."
    remedy = remedy or (f"Did you mean {close[0]}?" if close else others)
    return ArgumentTypeError(f"{name} is not an argument.", remedy=remedy, argument=name)


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raises an `ArgumentError` unless the value of an argument is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        problem = f"{name} is {value!r}; choose one of {', '.join(choices)}."
        raise ArgumentError(problem, argument=name)


def check_number(name: str, value: Any) -> float:
    """Returns the value of an argument, a finite number, as a float: integers may be too long."""
    problem = f"{name} is {value!r}; it must be a finite number."
    if not is_a(value, Real):
        raise ArgumentTypeError(problem, argument=name)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ArgumentError(problem, argument=name)
    return number


def check_that(is_right: Callable[[float], bool], wanted: str) -> Check:
    """Returns a check of an argument that must be a number for which `is_right` is true."""

    def check(name: str, value: Any) -> float:
        number = check_number(name, value)
        if not is_right(number):
            raise ArgumentError(f"{name} is {value}; it must be {wanted}.", argument=name)
        return number

    return check


check_share = check_that(lambda number: 0 <= number <= 1, "a number from 0 to 1")
check_positive = check_that(lambda number: number > 0, "a positive number")
check_below_one = check_that(lambda number: 0 <= number < 1, "at least 0 and less than 1")
check_inside = check_that(lambda number: 0 < number < 1, "between 0 and 1")
check_cost = check_that(lambda number: number < 0, "negative, as a cost is")
check_not_negative = check_that(lambda number: number >= 0, "at least 0")


def check_whole(name: str, value: Any, least: int, most: int = 2**31 - 1) -> int:
    """Returns the value of an argument, a whole number in a range, as an int."""
    if not is_a(value, Integral) or not least <= value <= most:
        problem = f"{name} is {value!r}; it must be a whole number from {least} to {most}."
        raise ArgumentError(problem, argument=name)
    return int(value)


def at_least(least: int, most: int = 2**31 - 1) -> Check:
    """Returns a check of whole numbers."""
    return lambda name, value: check_whole(name, value, least, most)


def optional(check: Check, *words: Any) -> Check:
    """Returns a check that lets some words pass."""

    def checked(name: str, value: Any) -> Any:
        is_word = any(isinstance(value, type(word)) and value == word for word in words)
        return value if is_word else check(name, value)

    return checked


Flag = Annotated[bool, check_flag]
Count = Annotated[int, at_least(1)]
Number = Annotated[float, check_number]
Positive = Annotated[float, check_positive]
NotNegative = Annotated[float, check_not_negative]
Share = Annotated[float, check_share]
BelowOne = Annotated[float, check_below_one]


def check_fields(settings: Any) -> None:
    """Checks the fields of a frozen object with the functions in their annotations, such as
    `Positive`, or `Count | None` where None is allowed. In settings, a list is a sweep, of which
    each entry is checked."""
    for name, check in _checks(type(settings)).items():
        value = getattr(settings, name)
        if hasattr(value, "aval"):  # an array of a compiled program, which was checked before
            continue
        if isinstance(value, list) and getattr(settings, "is_setting", False):
            kept: Any = [check(name, entry) for entry in value]
            if not kept or len(set(kept)) < len(kept):
                raise ArgumentError(f"{name} is {value}; give values, each once.", argument=name)
        else:
            kept = check(name, value)
        object.__setattr__(settings, name, kept)


@functools.cache
def _checks(kind: type) -> dict[str, Check]:
    """Returns the checks in the annotations of a class and of its bases, by the field's name."""
    checks = {}
    for base in reversed(kind.__mro__):
        hints: dict[str, Any] = {}
        with contextlib.suppress(NameError):  # of a user's class
            hints = get_type_hints(base, include_extras=True)
        for name, hint in hints.items():
            for part in (hint, *get_args(hint)):
                for check in filter(callable, getattr(part, "__metadata__", ())):
                    checks[name] = check if part is hint else optional(check, None)
    return checks


def import_extra(module: str, package: str, *, extra: str) -> Any:
    """Returns a module of a package that is installed only with an extra of drogo."""
    try:
        return import_module(module)
    except ImportError as error:
        remedy = f"Install drogo with its extra '{extra}'."
        raise MissingPackage(f"{package} is not installed. {remedy}") from error
