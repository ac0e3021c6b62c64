"""The size and the shape of the library: lines, names, parameters, imports, and walks through it.

    uv run benchmarks/house.py --write

Prints Markdown. A walk is the set of files of `drogo` in which a function runs, in a fresh process.
Each walk has two numbers. The first counts all files: also those that check an argument, write a
file, show progress, draw a picture, or are the world, its data and the exact vectors to compare
with. The *path* counts those of the rooms in `PATH` alone, which lead from a verb to a solution,
or from an agent's step to its shaped reward. A step of an online map is counted when it is the
first, in which everything is compiled, and when the map has learned from some steps before.

It takes about a minute.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import pkgutil
import subprocess
import sys
import tempfile
import threading
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import drogo
from tables import ROOT, Part, parse_options, write_parts

SOURCE = Path(drogo.__file__).parent
FOLDERS = ("src/drogo", "src/drogo_paper", "tests")
MOST_PARAMETERS = 8
PATH = ("cli", "learn", "online", "potential", "problems", "use")
"""The rooms from a verb to a solution, and from a step to a shaped reward."""
LATER = 12  # The number of steps before one that counts as a later one.
INNER = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Code that is no function of its own, and also runs when a module is imported."""
FRESH = (
    "from drogo import fit; import sys; print(sum(m.split('.')[0] == 'drogo' for m in sys.modules))"
)


def lines_of(folder: str) -> int:
    """Returns the number of lines of the Python files in a folder."""
    return sum(len(path.read_text().splitlines()) for path in (ROOT / folder).rglob("*.py"))


def names_of(module: ModuleType) -> set[tuple[str, int]]:
    """Returns the public names of a package, each with the identity of what it names."""
    plain = [name for name, value in vars(module).items() if not isinstance(value, ModuleType)]
    names = set()
    for name in getattr(module, "__all__", plain):
        if not name.startswith("_"):
            with contextlib.suppress(ImportError):  # of a package that is not installed
                names.add((name, id(getattr(module, name))))
    return names


def wide_functions(folder: str) -> list[str]:
    """Returns the functions with many parameters in a folder, each with the number of them."""
    wide = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = node.args
                named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
                rest = [each for each in (given.vararg, given.kwarg) if each is not None]
                count = sum(each.arg not in ("self", "cls") for each in (*named, *rest))
                if count > MOST_PARAMETERS:
                    wide.append(f"`{path.stem}.{node.name}` ({count})")
    return wide


def learn() -> Callable[[], Any]:
    """Returns the run of `drogo learn four-rooms`."""
    from drogo.cli.main import main

    def run() -> None:
        with tempfile.TemporaryDirectory() as out:
            main(["learn", "four-rooms", "--seeds", "1", "--out", out])

    return run


def online(name: str, steps: int = 0, **settings: Any) -> Callable[[], Any]:
    """Returns a step of an agent whose map learns from it, after some steps before."""
    import gymnasium

    env = gymnasium.make("drogo/FourRooms-v0", observation="coordinates")
    learning = getattr(drogo, name)(env.observation_space, env.action_space, **settings)
    shaped = drogo.OnlineShaping(env, learning)
    shaped.reset(seed=0)
    for number in range(steps):
        shaped.step(number % 4)
    return lambda: shaped.step(steps % 4)


UPDATES = {"learning_starts": 1, "train_every": 1, "updates_per_step": 1.0}
WALKS: dict[str, Callable[[], Callable[[], Any]]] = {
    "`drogo learn four-rooms`": learn,
    "the first step of `OnlineMap`": lambda: online("OnlineMap", **UPDATES),
    "a later step of `OnlineMap`, with an update": lambda: online("OnlineMap", LATER, **UPDATES),
    "the first step of `OnlineTable`": lambda: online("OnlineTable", every=1),
    "a later step of `OnlineTable`, with nothing new": lambda: online("OnlineTable", LATER),
}


def print_walk(name: str) -> None:
    """Prints the files of a walk as JSON."""
    run, files = WALKS[name](), set()

    def note(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        is_function = code.co_flags & 1  # unlike a module or the body of a class
        if event == "call" and is_function and code.co_name not in INNER:
            files.add(code.co_filename)

    with contextlib.redirect_stdout(io.StringIO()):
        threading.setprofile(note)
        sys.setprofile(note)
        run()
        sys.setprofile(None)
    paths = (Path(file) for file in files)
    print(json.dumps([str(p.relative_to(SOURCE)) for p in paths if p.is_relative_to(SOURCE)]))


def fresh(code: str) -> str:
    """Returns the last line that a fresh process prints."""
    command = [sys.executable, "-c", code]
    here = Path(__file__).parent
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def rows(options: Namespace) -> Iterator[list[str]]:
    for folder in FOLDERS:
        yield [f"lines of {folder}", f"{lines_of(folder):,}", ""]
    top = names_of(drogo)
    yield ["names at the top", str(len(top)), "`drogo.__all__`"]
    packages = [m.name for m in pkgutil.walk_packages(drogo.__path__, "drogo.") if m.ispkg]
    rooms = {name: names_of(importlib.import_module(name)) for name in packages}
    every = len(top.union(*rooms.values()))
    each = ", ".join(f"{name.partition('.')[2]} {len(names)}" for name, names in rooms.items())
    yield ["public names of all rooms", str(every), each]
    for folder in FOLDERS[:2]:
        wide = wide_functions(folder)
        label = f"functions of {folder} with more than {MOST_PARAMETERS} parameters"
        yield [label, str(len(wide)), ", ".join(wide)]
    yield ["modules that `from drogo import fit` loads", fresh(FRESH), ""]
    for name in WALKS:
        files = json.loads(fresh(f"import house; house.print_walk({name!r})"))
        counted = Counter(Path(file).parts[0].removesuffix(".py") for file in files)
        path = {room: count for room, count in counted.items() if room in PATH}
        for label, part in ((f"files of {name}", counted), ("of these, on the path", path)):
            each = ", ".join(f"{room} {count}" for room, count in sorted(part.items()))
            yield [label, str(sum(part.values())), each]


NOTE = """A name that is exported by several rooms, or also at the top, counts once. `self` is no
parameter. A file counts if a function in it runs. The path is made of the rooms cli, learn, online,
potential, problems and use: it leaves out errors, files, progress and plots, and what makes the
world, its data and the exact vectors. A first step compiles everything.""".replace("\n", " ")
HEADER = ("measure", "number", "of which")
PARTS = {"house": Part("house", rows, "The size and the shape of the library.", HEADER, NOTE)}

if __name__ == "__main__":
    write_parts(PARTS, parse_options(__doc__, only=tuple(PARTS)))
