"""A room imports only from rooms listed above it."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "drogo"
ROOMS = (
    "errors", "files", "requests", "statistics", "device", "mdp", "exact", "worlds", "data", "potential",
    "learn", "problems", "use", "online", "integrations", "engines", "plot", "cli", "__main__",
)  # fmt: skip


def imported_rooms(path):
    """Rooms named by any import in a file, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module]
            if node.module == "drogo":
                modules = [f"drogo.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (m.split(".")[1] for m in modules if m.startswith("drogo."))


def room_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_imports_point_upwards(path):
    room = room_of(path)
    if room == "__init__":
        return
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    assert set(imported_rooms(path)) <= allowed


def test_the_library_does_not_import_the_reproduction():
    for path in SOURCE.rglob("*.py"):
        names = {name for node in ast.walk(ast.parse(path.read_text()))
                 if isinstance(node, ast.Import | ast.ImportFrom)
                 for name in (getattr(node, "module", None), *(alias.name for alias in node.names))}  # fmt: skip
        assert not any(name and name.startswith("drogo_paper") for name in names), path
