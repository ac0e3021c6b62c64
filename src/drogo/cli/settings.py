"""The settings of a fit as options of the command line, made from `Config` itself."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_type_hints

import tyro

from drogo import config


def _whole(arguments: list[str]) -> int:
    """Returns a whole number, which may be written like 2e5."""
    try:
        return int(arguments[0])
    except ValueError:
        value = float(arguments[0])
        if not value.is_integer():
            raise ValueError(f"{arguments[0]} is not a whole number") from None
        return int(value)


Whole = Annotated[
    int,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=_whole,
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    ),
]


def _options() -> dict[str, Any]:
    """The type of each field of `Config`, with the docstring under the field as its help text."""
    parts = ast.parse(inspect.getsource(config)).body
    definition: Any = next(part for part in parts if getattr(part, "name", "") == "Config")
    texts = {
        field.target.id: inspect.cleandoc(ast.literal_eval(text.value)).replace("\n", " ")
        for field, text in pairwise(definition.body)
        if hasattr(field, "annotation") and isinstance(text, ast.Expr)
    }
    hint = "(default: the preset's)"
    return {
        name: Annotated[
            kind,
            tyro.conf.FlagConversionOff,
            tyro.conf.arg(help=texts.get(name), help_behavior_hint=hint),
        ]
        for name, kind in get_type_hints(config.Config).items()
    }


if TYPE_CHECKING:
    Settings = dict[str, Any]
else:  # not total: a setting that is not given is absent, and has the preset's value
    Settings = TypedDict("Settings", _options(), total=False)
