"""A room imports only from rooms listed above it."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "drogo"
ROOMS = (
    "errors", "public", "files", "requests", "device", "progress", "mdp", "exact", "worlds", "data", "graph",
    "potential", "learn", "problems", "use", "online", "integrations", "plot", "cli", "__main__",
)  # fmt: skip


def imported(path):
    """The full names of the modules that a file imports, wherever that stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "drogo":
            yield from (f"drogo.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize(
    "path", [path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py"))], ids=str
)
def test_imports_point_upwards(path):
    """And never to the reproduction."""
    names = [name.split(".") for name in imported(SOURCE / path)]
    assert all(name[0] != "drogo_paper" for name in names)
    room = path.parts[0].removesuffix(".py")
    if room != "__init__":
        rooms = {name[1] for name in names if name[0] == "drogo" and len(name) > 1}
        assert rooms <= set(ROOMS[: ROOMS.index(room) + 1])
