"""Who may import whom: the house's rooms and layers, read from the source."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOM_PARENTS = ("storers", "searchers", "providers")
ROOMS = sorted(path.parent for parent in ROOM_PARENTS for path in (ROOT / parent).glob("*/__init__.py"))
SOURCES = sorted(
    path
    for parent in ("memory_core", *ROOM_PARENTS)
    for path in (ROOT / parent).rglob("*.py")
    if "__pycache__" not in path.parts
)

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "clock", "tracing", "forking"),
    ("model",),
    ("contracts", "policy", "text", "serial", "feed", "naming", "options", "vectors", "locales", "thoughts"),
    ("plugins", "config", "settings", "hooks", "embedding_cache"),
    ("cached_embedder",),
    ("embedding_status",),
    ("solution", "async_solution", "caching"),
    ("loading",),
    ("talent", "sessions", "context"),
    ("ledger", "transfer"),
    ("harness", "adapters", "evaluation", "testing", "audit"),
    ("cli",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def imports(path: Path, *, top_level: bool = False) -> Iterator[str]:
    """Yield the full names of what a file imports at run time; `top_level` leaves out what functions import."""

    def visit(node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if top_level and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            if isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path} imports relatively"
                yield from (f"{child.module}.{alias.name}" for alias in child.names)
            yield from visit(child)

    yield from visit(ast.parse(path.read_text("utf-8")))


def layer(name: str) -> str | None:
    """Return the part of memory_core that an import names, None for others and for the root's public names."""
    parts = name.split(".")
    return parts[1] if parts[0] == "memory_core" and len(parts) > 1 and parts[1] in RANK else None


def test_there_is_something_to_read() -> None:
    assert len(SOURCES) > 30
    assert {"memory_storer_markdown", "memory_searcher_fulltext", "memory_provider_workspace"} <= {
        room.name for room in ROOMS
    }


def test_every_module_has_a_layer() -> None:
    names = {path.stem if path.is_file() else path.name for path in (ROOT / "memory_core").iterdir()}
    names -= {"__init__", "__pycache__", "__main__", "py"}
    assert {
        name
        for name in names
        if (ROOT / "memory_core" / f"{name}.py").exists() or (ROOT / "memory_core" / name / "__init__.py").exists()
    } <= set(RANK)


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if path.is_relative_to(ROOT / "memory_core")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_a_layer_imports_only_what_stands_above_it(path: Path) -> None:
    own = path.relative_to(ROOT / "memory_core").parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for name in imports(path):
        if name.split(".")[0] != "memory_core":
            assert not name.startswith(
                ("memory_storer_", "memory_searcher_", "memory_provider_", "memory_embedder_")
            ), name
            continue
        other = layer(name)
        if other is not None and other != own:
            assert RANK[other] <= RANK[own], f"{own} imports {other}"


def test_no_two_modules_of_a_layer_import_each_other() -> None:
    edges: set[tuple[str, str]] = set()
    for path in SOURCES:
        if path.is_relative_to(ROOT / "memory_core"):
            own = path.relative_to(ROOT / "memory_core").parts[0].removesuffix(".py")
            edges |= {
                (own, other) for name in imports(path, top_level=True) if (other := layer(name)) not in (None, own)
            }
    assert [(one, other) for one, other in edges if (other, one) in edges] == []


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_room_imports_memory_core_and_no_other_room(room: Path) -> None:
    others = {other.name for other in ROOMS} - {room.name}
    for path in room.rglob("*.py"):
        assert not {name.split(".")[0] for name in imports(path)} & others, path


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_room_s_door_imports_nothing_foreign(room: Path) -> None:
    foreign = {name.split(".")[0] for name in imports(room / "__init__.py", top_level=True)}
    assert foreign - set(sys.stdlib_module_names) <= {"memory_core", "pydantic", room.name}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_grows_beyond_600_lines(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 600


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_prints_outside_the_command_line(path: Path) -> None:
    if path.is_relative_to(ROOT / "memory_core" / "cli"):
        return
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
