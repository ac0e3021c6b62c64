"""Where arrays of other people enter: what they hold is checked before it is converted.

NumPy converts what it can: strings and NaN become True, fractions are cut off, large indices wrap
around, masks and imaginary parts are dropped. Here each of these is an error.
"""

from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped

from drogo.config import is_a
from drogo.errors import ArgumentError, DataError
from drogo.files import KINDS
from drogo.mdp.arrays import frozen

MOST_ACTIONS = 10**6


def plain(name: str, values: npt.ArrayLike) -> Shaped[np.ndarray, "..."]:
    """Returns booleans or real numbers as an array that nobody else can write to.

    Args:
        name: How error messages call the array.
        values: The array, which is copied if anybody else could write to it. A memory map is not
            copied, so it must be read-only.
    """
    array = _real(name, values)
    if isinstance(values, np.memmap):
        if values.flags.writeable:
            raise DataError(
                f"{name} is a memory map that can be written to, so that its numbers could change "
                "after they were checked. Open it with mode='r'."
            )
        return values
    if hasattr(values, "__array__") and _can_be_written(array):
        array = array.copy()
    return frozen(array)


def _can_be_written(array: np.ndarray) -> bool:
    """Whether an array, or one that it is a view of, can be written to."""
    while not array.flags.writeable:
        if not isinstance(array.base, np.ndarray):
            return False
        array = array.base
    return True


def _real(name: str, values: npt.ArrayLike) -> Shaped[np.ndarray, "..."]:
    """Returns booleans or real numbers as an array, which may be shared with others."""
    if isinstance(values, np.ma.MaskedArray):
        raise DataError(f"{name} is a masked array; fill or leave out what is masked.")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"{name} is not an array: {error}.") from error
    if array.dtype.kind not in KINDS:
        raise DataError(
            f"{name} has the type {array.dtype}; it must be booleans, whole numbers or "
            "floating-point numbers."
        )
    return array


def column(name: str, values: npt.ArrayLike, n: int | None = None) -> Shaped[np.ndarray, " n"]:
    """Returns an array with one number for each of n transitions."""
    array = plain(name, values)
    if array.ndim != 1 or (n is not None and array.size != n):
        expected = "one dimension" if n is None else f"shape ({n},)"
        raise DataError(f"{name} has shape {array.shape}; expected {expected}.")
    return array


def numbers(name: str, values: npt.ArrayLike, n: int) -> Float[np.ndarray, " n"]:
    """Returns one finite number for each of n transitions, in double precision."""
    array = column(name, values, n).astype(np.float64)
    bad = ~np.isfinite(array)
    if bad.any():
        raise DataError(f"the {name} of transition {bad.argmax()} is {array[bad.argmax()]}.")
    return frozen(array)


def flags(name: str, values: npt.ArrayLike, n: int) -> Bool[np.ndarray, " n"]:
    """Returns True or False for each of n transitions; 1 and 0 are taken for them."""
    array = column(name, values, n)
    bad = (array != 0) & (array != 1)
    if bad.any():
        at = int(bad.argmax())
        raise DataError(f"{name} of transition {at} is {array[at]}; it must be True or False.")
    return frozen(array.astype(bool))


def indices(
    name: str, values: npt.ArrayLike, size: int, of: str = "observations"
) -> Int[np.ndarray, " n"]:
    """Returns whole numbers that point into a table of some size."""
    array = column(name, values)
    if array.dtype.kind not in "iu":
        raise DataError(f"{name} has the type {array.dtype}; indices must be whole numbers.")
    if array.size and (array.min() < 0 or array.max() >= size):
        raise DataError(f"{name} points outside the table of {size} {of}.")
    return frozen(array.astype(np.int32))


def as_type(name: str, values: npt.ArrayLike, dtype: np.dtype) -> Shaped[np.ndarray, "..."]:
    """Returns observations in the type of others, if they are of that kind.

    Args:
        name: Whatever was made for observations of that type.
        values: The observations.
        dtype: The type. Fractions may lose digits, but whole numbers stay as they are, and
            fractions do not become whole numbers.
    """
    observations = _real("the array of observations", values)
    if observations.dtype == dtype:
        return observations
    with np.errstate(invalid="ignore"):
        cast = observations.astype(dtype)
    whole = dtype.kind in "biu" or observations.dtype.kind in "iu"
    if whole and (cast != observations).any():
        raise DataError(
            f"{name} was made for observations of type {dtype}; these are {observations.dtype}, "
            "and do not fit into it.",
            remedy="Give observations as they were in the data: images are not to be scaled.",
        )
    return cast


def as_batch(
    name: str, values: npt.ArrayLike, table: Shaped[np.ndarray, "distinct ..."]
) -> Shaped[np.ndarray, "n ..."]:
    """Returns a batch of observations in the type of others, whose shape they must have.

    Args:
        name: Whatever was trained on the others.
        values: The observations.
        table: The others.
    """
    batch, expected = as_type(name, values, table.dtype), table.shape[1:]
    if batch.ndim != table.ndim or batch.shape[1:] != expected:
        raise ArgumentError(
            f"the observations have shape {batch.shape[1:]}; {name} was trained on shape "
            f"{expected}. Give a batch: (n, {', '.join(map(str, expected))})."
        )
    return batch


def actions(
    action: npt.ArrayLike | None,
    behaviour: npt.ArrayLike | None,
    default: npt.ArrayLike | None,
    n_actions: int | None,
    n: int,
) -> dict[str, Any]:
    """Returns what is known of the actions of n transitions, checked, by name.

    Args:
        action: The actions: whole numbers from 0 on, or one vector per transition.
        behaviour: The probability (of vectors: the density) with which each was taken.
        default: The probability or density with which the default policy takes it.
        n_actions: The number of discrete actions; by default the largest action plus 1.
        n: The number of transitions.
    """
    if action is None:
        given = {"behaviour": behaviour, "default": default, "n_actions": n_actions}
        needless = [name for name, value in given.items() if value is not None]
        if needless:
            raise DataError(f"{' and '.join(needless)} cannot be used without action.")
        return {}
    taken = plain("action", action)
    if taken.ndim not in (1, 2) or len(taken) != n:
        raise DataError(
            f"action has shape {taken.shape}; expected ({n},) for whole numbers, or one vector for "
            f"each of the {n} transitions."
        )
    discrete = taken.ndim == 1
    if discrete:
        n_actions = int(taken.max(initial=0)) + 1 if n_actions is None else n_actions
        if not is_a(n_actions, Integral) or not 0 < n_actions <= MOST_ACTIONS:
            raise DataError(
                f"n_actions is {n_actions!r}; give a whole number from 1 to {MOST_ACTIONS}."
            )
        taken = indices("action", taken, n_actions, of="actions")
    elif n_actions is not None:
        raise DataError("n_actions is for whole numbers as actions, and these are vectors.")
    elif not np.isfinite(taken).all():
        raise DataError("action has a NaN or infinity.")
    probabilities = {"behaviour": behaviour, "default": default}
    return {
        "action": taken,
        "n_actions": n_actions,
        **{
            name: None if value is None else _probabilities(name, value, n, discrete)
            for name, value in probabilities.items()
        },
    }


def _probabilities(name: str, values: npt.ArrayLike, n: int, discrete: bool) -> np.ndarray:
    array = numbers(name, values, n)
    least = 0.0 if name == "default" else np.nextafter(0.0, 1.0)
    bad = (array < least) | (discrete & (array > 1))
    if bad.any():
        at = int(bad.argmax())
        kind = "a probability" if discrete else "a density"
        raise DataError(
            f"{name} of transition {at} is {array[at]:g}, which is not {kind} with which an action "
            "that was taken can have been chosen."
        )
    return array
