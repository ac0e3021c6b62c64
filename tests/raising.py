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
    """Fails unless an error of this very type, and not a subclass, is raised, which names an argument
    and has other attributes, such as the line of a `MapError`."""
    with pytest.raises(kind) as caught:
        yield caught
    assert type(caught.value) is kind, f"{type(caught.value).__name__}: {caught.value}"
    expected = fields if argument is None else {"argument": argument, **fields}
    actual = {name: getattr(caught.value, name) for name in expected}
    assert actual == expected, f"{actual}: {caught.value}"
