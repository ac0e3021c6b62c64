"""Checks arrays that users give before they are converted.

What NumPy converts silently is an error here: strings, NaN as True, fractions, large indices, masks
and imaginary parts. The first word of the `name` of an array is the argument.
"""

from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped

from drogo.errors import ArgumentError, DataError, is_a
from drogo.files import KINDS
from drogo.mdp.arrays import frozen

MOST_ACTIONS = 10**6
BYTES_AT_ONCE = 2**26  # The number of bytes of a table that are checked at once.


def wrong(name: str, problem: str, remedy: str = "") -> DataError:
    """Returns the error about an array."""
    return DataError(f"{name} {problem}", remedy=remedy, argument=name.split()[0])


def plain(name: str, values: npt.ArrayLike) -> Shaped[np.ndarray, "..."]:
    """Returns booleans or real numbers as an array that nobody else can write to."""
    array = real(name, values)
    if isinstance(values, np.memmap):
        if values.flags.writeable:
            raise wrong(name, "is a memory map that can be written to.", "Open it with mode='r'.")
        return values
    is_shared = array.flags.writeable or array.base is not None
    return frozen(array.copy() if is_shared and hasattr(values, "__array__") else array)


def real(name: str, values: Any) -> Shaped[np.ndarray, "..."]:
    """Returns booleans or real numbers as an array, which may be shared with others."""
    if isinstance(values, np.ma.MaskedArray):
        raise wrong(name, "is a masked array; fill or leave out the masked entries.")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise wrong(name, f"is not an array: {error}.") from error
    if array.dtype.kind not in KINDS:
        raise wrong(name, f"has the type {array.dtype}; it must be booleans or real numbers.")
    return array


def table(name: str, values: npt.ArrayLike) -> Shaped[np.ndarray, "rows ..."]:
    """Returns a table with one observation per row, all of them finite."""
    array = plain(name, values)
    if array.ndim == 0:
        raise wrong(name, "is a single number; give one observation per row.")
    rows = max(1, BYTES_AT_ONCE // max(1, array[:1].nbytes))
    for at in range(0, len(array) if array.dtype.kind == "f" else 0, rows):
        part = array[at : at + rows]
        bad = ~np.isfinite(part.reshape(len(part), -1)).all(axis=1)
        if bad.any():
            raise wrong(name, f"has a NaN or infinity in row {at + int(bad.argmax())}.")
    return array


def column(name: str, values: npt.ArrayLike, n: int | None = None) -> Shaped[np.ndarray, " n"]:
    """Returns an array with one number for each of n transitions."""
    array = plain(name, values)
    if array.ndim != 1 or (n is not None and array.size != n):
        expected = "one dimension" if n is None else f"shape ({n},)"
        raise wrong(name, f"has shape {array.shape}; expected {expected}.")
    return array


def numbers(
    name: str, values: npt.ArrayLike | float, n: int, where: npt.ArrayLike = True
) -> Float[np.ndarray, " n"]:
    """Returns one finite number for each of n transitions; a single one counts for all `where`."""
    single = real(name, values)
    array = np.where(where, np.full(n, single), 0.0) if single.ndim == 0 else values
    array = column(name, array, n).astype(np.float64)
    _refuse(name, array, ~np.isfinite(array), "it must be a finite number")
    return frozen(array)


def flags(name: str, values: npt.ArrayLike, n: int) -> Bool[np.ndarray, " n"]:
    """Returns True or False for each of n transitions; 1 and 0 are accepted too."""
    array = column(name, values, n)
    _refuse(name, array, (array != 0) & (array != 1), "it must be True or False")
    return frozen(array.astype(bool))


def indices(
    name: str, values: npt.ArrayLike, size: int, n: int | None = None, of: str = "observations"
) -> Int[np.ndarray, " n"]:
    """Returns whole numbers that are indices into a table of some size."""
    array = column(name, values, n)
    if array.dtype.kind not in "iu":
        raise wrong(name, f"has the type {array.dtype}; indices must be whole numbers.")
    if array.size and (array.min() < 0 or array.max() >= size):
        raise wrong(name, f"points outside the table of {size} {of}.")
    return frozen(array.astype(np.int32))


def _refuse(name: str, array: np.ndarray, bad: Bool[np.ndarray, " n"], expected: str) -> None:
    if bad.any():
        at = int(bad.argmax())
        raise wrong(name, f"of transition {at} is {array[at]}; {expected}.")


def as_type(name: str, values: Any, dtype: np.dtype) -> Shaped[np.ndarray, "..."]:
    """Returns observations in the type of `name`, in which only floats may lose digits."""
    observations = real("observations", values)
    if observations.dtype == dtype:
        return observations
    with np.errstate(invalid="ignore"):
        cast = observations.astype(dtype)
    whole = dtype.kind in "biu" or observations.dtype.kind in "iu"
    if whole and (cast != observations).any():
        problem = f"of type {observations.dtype} do not fit into the type {dtype} of {name}."
        remedy = "Give observations as they were in the data: do not scale images."
        raise wrong("observations", problem, remedy)
    return cast


def as_batch(
    name: str, values: npt.ArrayLike, table: Shaped[np.ndarray, "distinct ..."]
) -> Shaped[np.ndarray, "n ..."]:
    """Returns a batch of observations in the type and shape of the table of `name`."""
    batch, expected = as_type(name, values, table.dtype), table.shape[1:]
    if batch.ndim != table.ndim or batch.shape[1:] != expected:
        problem = f"the observations are of shape {batch.shape[1:]}; those of {name} of {expected}."
        remedy = f"Give a batch: (n, {', '.join(map(str, expected))})."
        raise ArgumentError(problem, remedy=remedy, argument="observations")
    return batch


def actions(
    n: int,
    action: npt.ArrayLike | None = None,
    behaviour: npt.ArrayLike | None = None,
    default: npt.ArrayLike | None = None,
    n_actions: int | None = None,
) -> dict[str, Any]:
    """Returns the checked action columns of n transitions; see `Transitions.from_table`."""
    options = {"behaviour": behaviour, "default": default, "n_actions": n_actions}
    if action is None:
        for name, value in options.items():
            if value is not None:
                raise wrong(name, "cannot be used without action.")
        return {}
    taken = plain("action", action)
    discrete = taken.ndim == 1
    if taken.ndim not in (1, 2) or len(taken) != n:
        raise wrong("action", f"has shape {taken.shape}; give a number or vector for each of {n}.")
    if discrete:
        n_actions = int(taken.max(initial=0)) + 1 if n_actions is None else n_actions
        if not is_a(n_actions, Integral) or not 0 < n_actions <= MOST_ACTIONS:
            raise wrong("n_actions", f"is {n_actions!r}; give a number from 1 to {MOST_ACTIONS}.")
        taken = indices("action", taken, n_actions, of="actions")
    elif n_actions is not None:
        raise wrong("n_actions", "is for whole numbers as actions, and these are vectors.")
    elif not np.isfinite(taken).all():
        raise wrong("action", "has a NaN or infinity.")
    columns: dict[str, Any] = {"action": taken, "n_actions": n_actions}
    kind = "a probability" if discrete else "a density"
    for name, least in (("behaviour", np.nextafter(0.0, 1.0)), ("default", 0.0)):
        if options[name] is not None:
            columns[name] = array = numbers(name, options[name], n)
            bad = (array < least) | (discrete & (array > 1))
            _refuse(name, array, bad, f"{kind} of an action that was taken cannot have this value")
    return columns
