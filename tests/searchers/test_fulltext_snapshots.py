"""Snapshots: used when they fit, ignored when they do not, never in the way."""

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_core.model import ChangeBatch, MemoryId, SearchQuery
from memory_core.solution import StandardSolution
from memory_core.testing import make_entry
from memory_core.testing.clock import START
from memory_core.testing.samples import NASTY_KEYS
from memory_core.text import TOKENIZER_VERSION
from memory_searcher_fulltext import snapshot
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_searcher_fulltext.snapshot import MIN_ENTRIES, Snapshots
from memory_storer_markdown.storer import MarkdownStorer

COUNT = MIN_ENTRIES + 10


def open_searcher(place: Path, stemmer: str | None = "english", **more: int) -> FulltextSearcher:
    return FulltextSearcher(snapshot_dir=place, stemmer=stemmer, **more)


def fill(searcher: FulltextSearcher, user: str = "shared", count: int = COUNT, cursor: str = "7") -> None:
    entries = [make_entry(f"k{n}", f"coffee number{n}", user=user) for n in range(count)]
    searcher.apply(ChangeBatch(entries, [], cursor, complete=True), user)


def found(searcher: FulltextSearcher, text: str = "number77", user: str = "shared") -> list[str]:
    return [hit.entry.id.key for hit in searcher.search(SearchQuery(user, text, 5, START))]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "index"


def saved(place: Path, user: str = "shared") -> Path:
    """Write a snapshot and return its path."""
    searcher = open_searcher(place)
    fill(searcher, user)
    searcher.close()
    path = Snapshots(place, "english").path(user)
    assert path.exists()
    return path


def test_a_snapshot_knows_entries_and_cursor(place: Path) -> None:
    saved(place)
    again = open_searcher(place)
    assert again.cursor("shared") == "7"
    assert found(again) == ["k77"]
    assert again.count("shared") == COUNT
    again.apply(ChangeBatch([make_entry("new", "zebra")], [MemoryId("workspace", "shared", "k77")], "8"), "shared")
    assert found(again, "zebra") == ["new"]
    assert found(again) == []
    again.close()
    third = open_searcher(place)
    assert third.cursor("shared") == "8"
    assert third.count("shared") == COUNT
    third.close()


def test_small_indexes_are_not_written(place: Path) -> None:
    searcher = open_searcher(place)
    fill(searcher, count=MIN_ENTRIES - 1)
    searcher.close()
    assert not list(place.glob("*.snapshot"))


def test_without_a_place_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    searcher = FulltextSearcher()
    fill(searcher)
    searcher.close()
    assert list(tmp_path.iterdir()) == []


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "no head": lambda data: data.split(b"\n", 1)[1],
    "head only": lambda data: data.split(b"\n", 1)[0] + b"\n",
    "truncated": lambda data: data[: len(data) // 2],
    "one byte": lambda data: data[:5000] + bytes([data[5000] ^ 1]) + data[5001:],
    "appended": lambda data: data + b"x",
    "garbage": lambda data: os.urandom(5000),
    "json of another kind": lambda data: b"[1, 2]\n" + data.split(b"\n", 1)[1],
    "deep json": lambda data: b"[" * 9_000 + b"\n" + data,
    "not text": lambda data: b"\xff\xfe\n" + data,
    "endless line": lambda data: b" " * 2_000_000,
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_snapshot_is_ignored(place: Path, how: str) -> None:
    path = saved(place)
    path.write_bytes(DAMAGE[how](path.read_bytes()))
    again = open_searcher(place)
    assert again.cursor("shared") is None
    assert found(again) == []
    fill(again)
    assert found(again) == ["k77"]
    again.close()
    healed = open_searcher(place)
    assert healed.cursor("shared") == "7"
    healed.close()


@pytest.mark.parametrize("what", ["format", "tokenizer", "sqlite", "stemmer", "user", "crc"])
def test_a_snapshot_of_another_version_is_ignored(place: Path, what: str) -> None:
    path = saved(place)
    head, blob = path.read_bytes().split(b"\n", 1)
    fields = json.loads(head)
    assert what in fields
    path.write_bytes(json.dumps({**fields, what: "other"}).encode() + b"\n" + blob)
    again = open_searcher(place)
    assert again.cursor("shared") is None
    again.close()


def test_another_stemmer_or_tokenizer_builds_anew(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(place)
    for stemmer in (None, "german"):
        searcher = open_searcher(place, stemmer)
        assert searcher.cursor("shared") is None
    monkeypatch.setattr(snapshot, "TOKENIZER_VERSION", TOKENIZER_VERSION + 1)
    assert open_searcher(place).cursor("shared") is None


def test_a_snapshot_whose_bytes_are_right_but_no_index_is_ignored(place: Path) -> None:
    saved(place)
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE something (a)")
    assert Snapshots(place, "english").save("shared", db.serialize())
    db.close()
    again = open_searcher(place)
    assert again.cursor("shared") is None
    fill(again)
    assert found(again) == ["k77"]
    again.close()


@pytest.mark.parametrize("where", ["file in the way", "missing parent", "folder in the way"])
def test_a_place_that_cannot_be_written_costs_only_time(tmp_path: Path, where: str) -> None:
    place = tmp_path / "index"
    if where == "file in the way":
        place.write_text("a file")
    elif where == "missing parent":
        (tmp_path / "file").write_text("x")
        place = tmp_path / "file" / "index"
    else:
        (place / "shared.snapshot").mkdir(parents=True)
    searcher = open_searcher(place)
    fill(searcher)
    assert found(searcher) == ["k77"]
    searcher.clear()
    searcher.clear("shared")
    fill(searcher)
    searcher.close()
    again = open_searcher(place)
    assert again.cursor("shared") is None
    again.close()


def test_a_snapshot_that_cannot_be_deleted_does_not_come_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(place)
    searcher = open_searcher(place)

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    searcher.clear()
    assert searcher.cursor("shared") is None
    monkeypatch.undo()
    fill(searcher, cursor="9")
    searcher.close()
    again = open_searcher(place)
    assert again.cursor("shared") == "9"
    again.close()


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_snapshots_are_private(place: Path) -> None:
    path = saved(place)
    assert path.parent.stat().st_mode & 0o077 == 0


def test_users_have_snapshots_of_their_own(place: Path) -> None:
    users = list(dict.fromkeys(key.strip() for key in NASTY_KEYS))[:12]
    searcher = open_searcher(place, max_users=2)
    for number, user in enumerate(users):
        fill(searcher, user, count=MIN_ENTRIES, cursor=str(number))
    searcher.close()
    again = open_searcher(place, max_users=2)
    for number, user in enumerate(users):
        assert again.cursor(user) == str(number)
        assert {entry.id.user_id for entry in again.list_all(user, 3)} == {user}
    again.clear(users[0])
    assert again.cursor(users[0]) is None
    assert again.cursor(users[1]) == "1"
    again.clear()
    assert [again.cursor(user) for user in users] == [None] * len(users)
    assert not list(place.glob("*.snapshot"))
    again.close()


def test_a_user_pushed_out_comes_back_from_its_snapshot(place: Path) -> None:
    searcher = open_searcher(place, max_users=1)
    fill(searcher, "a")
    fill(searcher, "b")
    assert searcher.cursor("a") == "7"
    assert found(searcher, user="a") == ["k77"]
    assert found(searcher, user="b") == ["k77"]
    searcher.close()


def test_a_snapshot_behind_the_store_catches_up_and_one_of_another_store_starts_over(
    tmp_path: Path, place: Path
) -> None:
    def solution(root: Path) -> StandardSolution:
        return StandardSolution(MarkdownStorer({"workspace": root}, fsync=False), open_searcher(place), ["workspace"])

    first = solution(tmp_path / "one")
    first.storer.put_many(make_entry(f"k{n}", f"coffee number{n}") for n in range(COUNT))
    assert first.sync() == COUNT
    first.close()
    second = solution(tmp_path / "one")
    second.storer.put(make_entry("new", "zebra"))
    second.forget("k77")
    assert second.sync() == 2
    assert [hit.entry.id.key for hit in second.search("zebra")] == ["new"]
    assert second.search("number77") == []
    second.close()
    other = solution(tmp_path / "two")
    other.storer.put(make_entry("only", "giraffe"))
    assert [entry.id.key for entry in other.list_all()] == ["only"]
    other.close()
