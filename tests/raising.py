"""Errors by their type and by the argument that they name, not by their wording."""

import contextlib
from collections.abc import Callable, Iterator
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


def refused(
    kind: type[Exception],
    name: str | None,
    call: Callable[..., Any],
    /,
    *given: Any,
    **options: Any,
) -> Any:
    """Fails unless a call with these arguments raises such an error, which is returned."""
    with raises(kind, name) as caught:
        call(*given, **options)
    return caught.value
