"""An index that is gone or broken is rebuilt from the store, or refused with the command that rebuilds it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import memory_searcher_fulltext.searcher as fulltext
from memory_core.contracts import MemorySolution
from memory_core.errors import MemoryCoreError

from .pairs import Pair, found_keys

FACTS = {
    "editor": "Prefers vim over every other text editor",
    "pet": "Has a dog that barks at the postman",
    "坐骑": "每天骑自行车上班",
    "drink": "Drinks green tea in the morning",
}


def remove(files: list[Path]) -> None:
    for file in files:
        file.unlink()


def truncate(files: list[Path]) -> None:
    for file in files:
        with file.open("r+b") as stream:
            stream.truncate(file.stat().st_size // 2)


def empty(files: list[Path]) -> None:
    for file in files:
        file.write_bytes(b"")


def scribble(files: list[Path]) -> None:
    for file in files:
        file.write_bytes(b"\xff\x00not an index" * 20)


def refused(solution: MemorySolution) -> str | None:
    """Return what a search says when it is refused."""
    try:
        solution.search("dog postman")
    except MemoryCoreError as error:
        return str(error)
    return None


@pytest.mark.soak
@pytest.mark.parametrize("harm", [None, remove, truncate, empty, scribble])
def test_a_damaged_index_never_answers_wrongly(
    pair: Pair, harm: Callable[[list[Path]], None] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fulltext, "MIN_ENTRIES", 1)  # so that it keeps a snapshot of these few
    solution = pair.open()
    for key, content in FACTS.items():
        solution.remember(key, content)
    solution.remember("gone", "Parks the car in the garage")
    assert solution.search("dog postman")
    solution.forget("gone")
    assert "gone" not in found_keys(solution.search("car garage", top_k=9))
    pair.close()
    assert pair.index_files(), "there is something to damage"
    if harm is None:
        for folder in (pair.home / "index", pair.home / "cache"):
            shutil.rmtree(folder, ignore_errors=True)
    else:
        harm(pair.index_files())
    solution = pair.open()
    if (refusal := refused(solution)) is not None:
        assert "memory-core reindex" in refusal
        solution.reindex()
    for key, content in FACTS.items():
        keys = found_keys(solution.search(content, top_k=9))
        assert key in keys
        assert len(keys) == len(set(keys))
        assert set(keys) <= set(FACTS)
    assert {entry.id.key for entry in solution.list_all()} == set(FACTS)
