"""The settings of a fit as options of the command line, made from `Config` itself."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_type_hints

import tyro

from drogo import config


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
