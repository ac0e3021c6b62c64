"""The public names of the rooms: mistakes in the names and the types of arguments are errors of
this library. Within the library functions call each other without these checks."""

import ast
import contextlib
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import lazy_loader

from drogo.errors import LIKE, ArgumentTypeError, check_type, unknown_argument

WANTED = {
    "str": "a string", "bool": "True or False", "NoneType": "None", "Callable": "a function",
    "Path": "a path", "Mapping": "a dictionary", "Env": "a Gymnasium environment",
    "MDP": "a drogo.MDP: an attribute mdp, MDP.from_gymnasium(env) or MDP.from_arrays",
    "Transitions": "drogo.Transitions, for example drogo.collect(env, 20_000, seed=0)",
    "AbstractProblem": "a problem, for example drogo.Column(lam=20.0)",
    "AbstractMethod": "a method, for example drogo.Drogo()",
    "AbstractOnlineMap": "a drogo.OnlineMap or a drogo.OnlineTable",
}  # fmt: skip
"""Descriptions of types, by their names."""
PLAIN = (str, bool, type(None), Path, Callable, Mapping)
CHECKED = ("drogo", "equinox", "gymnasium", "matplotlib", "numpy.random", "optax",
           "stable_baselines3")  # fmt: skip
"""Packages whose classes are checked. Numbers and arrays have checks of their own."""


def attach(name: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns `__getattr__`, `__dir__` and `__all__` of a room that loads its names late."""
    load, names, every = lazy_loader.attach_stub(name, file)

    def get(part: str) -> Any:
        vars(sys.modules[name])[part] = thing = checked(load(part))
        return thing

    return get, names, every


def check_all(names: dict[str, Any]) -> None:
    """Checks the arguments of the public functions and classes of a room."""
    public = names.get("__all__") or [name for name in names if not name.startswith("_")]
    names |= {name: checked(names[name]) for name in public}


def checked(thing: Any) -> Any:
    """Returns a function, or a class, with the arguments checked; anything else as it is."""
    whole: Any = thing
    if not isinstance(whole, type) or issubclass(whole, Exception):
        return _checked(whole) if inspect.isfunction(whole) else thing
    for kind in whole.__mro__:
        for name, part in [*vars(kind).items()] if kind.__module__.startswith("drogo") else ():
            function = part.__func__ if isinstance(part, classmethod) else part
            if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
                replaced = _checked(function, kind)
                setattr(kind, name, classmethod(replaced) if function is not part else replaced)
    if inspect.isfunction(whole.__init__):  # perhaps that of another package
        whole.__init__ = _checked(whole.__init__, whole)
    if is_dataclass(whole) and isinstance(text := vars(whole).get("__doc__"), str):
        setattr(whole, "__doc__", _WithFields(text))  # noqa: B010
    return thing


class _WithFields:
    """The docstring of a class with those of its fields, which `help` does not show by itself."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __get__(self, instance: Any, owner: Any) -> str:
        texts, parts = {}, [inspect.cleandoc(self.text)]
        for kind in owner.__mro__:
            with contextlib.suppress(OSError, TypeError):  # there may be no source
                (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
                for field, text in pairwise(ast.iter_child_nodes(tree)):
                    if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                        texts.setdefault(ast.unparse(field.target), ast.literal_eval(text.value))
        for name in (field.name for field in fields(owner) if field.name in texts):
            parts.append(f"{name}\n{textwrap.indent(inspect.cleandoc(texts[name]), '    ')}")
        return "\n\n".join(parts)


@functools.cache
def _checked(function: Any, owner: Any = None) -> Any:
    if hasattr(function, "is_checked"):
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for k, name, kinds, wanted in _types(function, owner):
            if k < len(args) or name in kwargs:
                value = args[k] if k < len(args) else kwargs[name]
                if bool not in kinds or type(value).__name__ not in ("bool", "bool_"):  # of NumPy
                    check_type(name, value, kinds, wanted)
        try:
            return function(*args, **kwargs)
        except TypeError:
            _check_names(function, owner, args, kwargs)
            raise

    vars(call)["is_checked"] = True
    return call


def _check_names(function: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    parts = (signature := inspect.signature(function)).parameters
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        unknown = [name for name in kwargs if name not in parts]
        if unknown and not any(part.kind is part.VAR_KEYWORD for part in parts.values()):
            names = [name for name in parts if name not in ("self", "cls")]
            raise unknown_argument(unknown[0], names) from None
        name = str(error).rpartition(" '")[2].rstrip("'")
        like = get_close_matches(name, unknown, n=1, cutoff=LIKE)
        wanted = {part: text for _, part, _, text in _types(function, owner)}.get(name)
        remedy = f"Give it in place of {like[0]}." if like else f"Give {wanted}." if wanted else ""
        problem = f"{function.__name__}: {error}."
        raise ArgumentTypeError(problem, remedy=remedy, argument=name) from None


@functools.cache
def _types(function: Any, owner: Any) -> list[tuple[int, str, Any, str]]:
    """Returns the position, name, classes and description of arguments that are of some classes."""
    hints: dict[str, Any] = {}
    # Fields may be inherited from another module, and those with a converter are `Any` here.
    is_field = function.__name__ == "__init__" and is_dataclass(owner)
    for part in (owner, function) if is_field else (function,):
        with contextlib.suppress(NameError, AttributeError, TypeError):
            hints |= {name: hint for name, hint in get_type_hints(part).items() if hint is not Any}
    checks = []
    for k, name in enumerate(inspect.signature(function).parameters):
        hint = hints.get(name, Any)
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        kinds = tuple(get_origin(part) or part for part in parts)
        if all(kind in PLAIN or _is_checked(kind) for kind in kinds):
            wanted = [WANTED.get(kind.__name__, f"a {kind.__name__}") for kind in kinds]
            checks.append((k, name, kinds, " or ".join(wanted)))
    return checks


def _is_checked(kind: Any) -> bool:
    is_class = isinstance(kind, type) and not getattr(kind, "_is_protocol", False)
    return is_class and kind.__module__.startswith(CHECKED)
