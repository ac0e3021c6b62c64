"""Where arrays of other people enter: what they hold is checked before it is converted.

NumPy converts what it can: strings and NaN become True, fractions are cut off, large indices wrap
around, masks and imaginary parts are dropped. Here each of these is an error.
"""

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float, Int, Shaped

from drogo.errors import DataError
from drogo.files import KINDS
from drogo.mdp.arrays import frozen


def plain(name: str, values: npt.ArrayLike) -> Shaped[np.ndarray, "..."]:
    """Returns booleans or real numbers as an array that nobody else can write to.

    Args:
        name: How error messages call the array.
        values: The array, which is copied unless it is read-only already, or a memory map.
    """
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
    if isinstance(values, np.memmap):
        return values
    if array.flags.writeable and (array is values or array.base is not None):
        array = array.copy()
    return frozen(array)


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


def indices(name: str, values: npt.ArrayLike, size: int) -> Int[np.ndarray, " n"]:
    """Returns whole numbers that point into a table of some size."""
    array = column(name, values)
    if array.dtype.kind not in "iu":
        raise DataError(f"{name} has the type {array.dtype}; indices must be whole numbers.")
    if array.size and (array.min() < 0 or array.max() >= size):
        raise DataError(f"{name} points outside the table of {size} observations.")
    return frozen(array.astype(np.int32))


def as_type(
    name: str, observations: Shaped[np.ndarray, "..."], dtype: np.dtype
) -> Shaped[np.ndarray, "..."]:
    """Returns observations in the type of others, if they are of that kind.

    Args:
        name: Whatever was made for observations of that type.
        observations: The observations.
        dtype: The type. Numbers may lose digits, but fractions do not become whole numbers.
    """
    if observations.dtype == dtype:
        return observations
    with np.errstate(invalid="ignore"):
        cast = observations.astype(dtype)
    if dtype.kind in "biu" and (cast != observations).any():
        raise DataError(
            f"{name} was made for observations of type {dtype}; these are {observations.dtype}, "
            "and do not fit into it.",
            remedy="Give observations as they were in the data: images are not to be scaled.",
        )
    return cast
