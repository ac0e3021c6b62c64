"""`raises`: expects an error by its type and by the argument that it names, not by its wording."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest


@contextlib.contextmanager
def raises(
    kind: type[Exception], argument: str | None = None, **fields: Any
) -> Iterator[pytest.ExceptionInfo]:
    """Fails unless an error of this very type is raised.

    Args:
        kind: The type of the error. A subclass does not count.
        argument: The argument that the error names, if it names one.
        **fields: Other attributes of the error, such as the line of a `MapError`.
    """
    with pytest.raises(kind) as caught:
        yield caught
    assert type(caught.value) is kind, f"{type(caught.value).__name__}: {caught.value}"
    expected = fields if argument is None else {"argument": argument, **fields}
    actual = {name: getattr(caught.value, name) for name in expected}
    assert actual == expected, f"{actual}: {caught.value}"
