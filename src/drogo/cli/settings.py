"""The settings of a fit as options of the command line, made from `Config` itself."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from itertools import pairwise
from typing import Annotated, Any, TypedDict, get_type_hints

import tyro

from drogo.config import Config


def _helptexts() -> dict[str, str]:
    """The docstring under each field of `Config`."""
    (definition,) = ast.parse(inspect.getsource(Config)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value).replace("\n", " ")
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        if isinstance(text.value.value, str)
    }


def _options() -> dict[str, Any]:
    types, helptexts = get_type_hints(Config), _helptexts()
    names = [field.name for field in dataclasses.fields(Config)]
    return {
        name: Annotated[
            types[name],
            tyro.conf.FlagConversionOff,
            tyro.conf.arg(help=helptexts.get(name), help_behavior_hint="(default: the preset's)"),
        ]
        for name in names
    }


# Not total: a setting that is not given is absent, and the preset's value is used.
Settings: Any = TypedDict("Settings", _options(), total=False)  # pyright: ignore
