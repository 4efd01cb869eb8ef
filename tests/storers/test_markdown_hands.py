"""Markdown that people touch: edits, copies, renames, deletions, broken files; seen soon, never lost, never rewritten."""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import pytest

from memory_core.contracts import MemoryStorer, Problem
from memory_core.model import MemoryEntry, MemoryId
from memory_core.testing import FakeClock, make_entry
from memory_core.testing.follower import Follower
from memory_storer_markdown import sweep
from memory_storer_markdown.manifest import Manifest
from memory_storer_markdown.storer import MarkdownStorer

WORK = "workspace"


class Folder:
    """One scope's directory and a store over it."""

    def __init__(self, root: Path) -> None:
        self.root = root / WORK
        self.clock = FakeClock()
        self.storer = self.open()

    def open(self) -> MarkdownStorer:
        return MarkdownStorer({WORK: self.root}, clock=self.clock, fsync=False)

    def path(self, name: str = "shared/k.md") -> Path:
        return self.root / name

    def write(self, text: str | bytes, name: str = "shared/k.md", newline: str = "") -> Path:
        """Save in place, as simple editors do."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            path.write_text(text, "utf-8", newline=newline)
        return path

    def get(self, key: str = "k", user: str = "shared") -> MemoryEntry | None:
        return self.storer.get(MemoryId(WORK, user, key))

    def content(self, key: str = "k", user: str = "shared") -> str | None:
        entry = self.get(key, user)
        return entry.content if entry else None

    def contents(self) -> dict[str, str]:
        return {entry.id.key: entry.content for entry in self.storer.scan()}

    def problem(self) -> Problem:
        (found,) = self.storer.problems()
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    made.storer.close()


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


# --- seen soon -----------------------------------------------------------------------------------------------------


def test_the_file_is_where_and_what_people_expect(folder: Folder) -> None:
    folder.storer.put(make_entry("user-tech-stack", "Uses Python\nand 使用Solon框架", importance=8, metadata={"a": 1}))
    assert folder.path("shared/user-tech-stack.md").read_text("utf-8") == (
        "---\nkey: user-tech-stack\nuser: shared\nimportance: 8\ncreated: 2026-03-01T12:00:00+00:00\n"
        "updated: 2026-03-01T12:00:00+00:00\nexpires: never\nsource: tool\n"
        'metadata: {"a": 1}\n---\nUses Python\nand 使用Solon框架\n'
    )


def test_added_renamed_over_and_deleted_files_are_seen_at_the_next_read(folder: Folder) -> None:
    folder.storer.put(make_entry("k", "stored"))
    follower = Follower(folder.storer, page=100)
    follower.follow()
    folder.write("added by hand\n", "shared/new.md")
    assert folder.content("new") == "added by hand"
    other = folder.write("---\nkey: k\n---\nsaved by rename\n", "shared/.k.md.swp")
    other.rename(folder.path())
    assert folder.content() == "saved by rename"
    follower.follow()
    assert {id.key: entry.content for id, entry in follower.entries.items()} == {
        "new": "added by hand",
        "k": "saved by rename",
    }
    folder.path().unlink()
    assert folder.get() is None
    follower.follow()
    assert {id.key for id in follower.entries} == {"new"}
    assert follower.completes == 1


def test_an_edit_in_place_is_seen_within_a_second(folder: Folder) -> None:
    folder.storer.put(make_entry("k", "before"))
    follower = Follower(folder.storer)
    follower.follow()
    text = folder.path().read_text("utf-8")
    folder.write(text.replace("before", "after!"))
    assert within(2.0, lambda: folder.content() == "after!")
    follower.follow()
    assert [entry.content for entry in follower.entries.values()] == ["after!"]


def test_edits_within_one_tick_of_the_clock_are_seen(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same size, same modification time: a file written this very second is read once more."""
    monkeypatch.setattr(sweep, "SWEEP_INTERVAL_S", 0.0)
    path = folder.write("one")
    assert folder.content() == "one"
    state = path.stat()
    folder.write("two")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert within(2.0, lambda: folder.content() == "two")


def test_a_user_s_first_file_by_hand_is_seen_at_once(folder: Folder) -> None:
    folder.storer.put(make_entry("k", "x"))
    folder.storer.get(MemoryId(WORK, "shared", "k"))
    folder.write("of ann\n", "ann/note.md")
    assert folder.content("note", "ann") == "of ann"
    assert folder.storer.users() == ["ann", "shared"]


def test_a_whole_folder_may_come_and_go(folder: Folder, tmp_path: Path) -> None:
    folder.storer.put(make_entry("k", "x", user="ann"))
    (folder.root / "ann").rename(tmp_path / "away")
    assert list(folder.storer.scan()) == []
    assert folder.content("k", "ann") is None
    (tmp_path / "away").rename(folder.root / "ann")
    assert folder.content("k", "ann") == "x"


def test_partial_saves_are_reported_and_mended_by_the_next_save(folder: Folder) -> None:
    folder.storer.put(make_entry("k", "whole"))
    text = folder.path().read_text("utf-8")
    for cut in ("", "---", text[:20], text[:-30][:60]):
        folder.write(cut)
        assert within(2.0, lambda: folder.get() is None)
        assert folder.problem().code == "unreadable-file"
        assert folder.path().read_text("utf-8") == cut
    folder.write(text)
    assert within(2.0, lambda: folder.content() == "whole")
    assert folder.storer.problems() == []


# --- what people write ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"\xef\xbb\xbf---\r\nkey: k\r\nimportance: 7\r\n---\r\none\r\ntwo\r\n", "one\ntwo"), (b"---\nkey: k\n---\n---\nkey: evil\n---\nbody", "---\nkey: evil\n---\nbody"),
        (b"---\nkey: k\ncreated: 2026-01-31\nsource: yes\nexpires: never\n---\nx", "x"), (b"# Title\n\ntext\n", "# Title\n\ntext"),
        ("---\nkey: k\n---\n  leading\n\n{{ x }}\u2028🎉\n\n".encode(), "  leading\n\n{{ x }}\u2028🎉\n"),
    ],
)  # fmt: skip
def test_hand_written_files_are_entries(folder: Folder, data: bytes, content: str) -> None:
    path = folder.write(data)
    assert folder.content() == content
    assert folder.storer.problems() == []
    assert path.read_bytes() == data


def test_a_plain_file_is_an_entry_of_its_folder_s_owner(folder: Folder) -> None:
    folder.write("# Coffee\nblack", "shared/drinks & food.md")
    folder.write("top level", "top.md")
    folder.write("of ann", "ann/note.md")
    entry = folder.get("drinks & food")
    assert entry is not None
    assert (entry.importance, entry.expires_at, entry.source, entry.id.user_id) == (5, None, "file", "shared")
    assert folder.content("top") == "top level"
    assert folder.content("note", "ann") == "of ann"
    folder.storer.put(make_entry("drinks & food", "tea"))
    assert folder.path("shared/drinks & food.md").read_text("utf-8").startswith("---\nkey: ")
    assert len(list((folder.root / "shared").iterdir())) == 1


def test_a_plain_file_in_a_folder_with_a_hash_belongs_to_its_user(folder: Folder) -> None:
    folder.storer.put(make_entry("k", "x", user="Ann/Lee"))
    (place,) = [path for path in folder.root.iterdir() if not path.name.startswith(".")]
    folder.write("plain", f"{place.name}/note.md")
    assert folder.content("note", "Ann/Lee") == "plain"


def test_only_markdown_files_in_plain_sight_are_read(folder: Folder) -> None:
    for name in (
        "shared/a.txt",
        "shared/.hidden.md",
        ".hidden/b.md",
        "shared/c.md~",
        "shared/deep/er/d.md",
        "shared/e.MD",
    ):
        folder.write("text", name)
    (folder.root / "shared" / "folder.md").mkdir()
    assert folder.contents() == {}
    assert folder.storer.problems() == []


def test_unknown_fields_survive_a_rewrite(folder: Folder) -> None:
    folder.write("---\ntags: [a, b]\nkey: k\nnote: |\n  two\n  lines\n---\nold\n")
    assert folder.content() == "old"
    folder.storer.put(make_entry("k", "new"))
    text = folder.path().read_text("utf-8")
    assert "tags: [a, b]\n" in text
    assert "note: |\n  two\n  lines\n" in text
    assert folder.content() == "new"


def test_a_hand_edit_that_no_read_has_seen_keeps_its_unknown_fields(folder: Folder) -> None:
    folder.storer.put(make_entry("k", "one"))
    text = folder.path().read_text("utf-8")
    folder.write(text.replace("---\none", "tags: [kept]\n---\none"))
    folder.storer.put(make_entry("k", "two"))
    assert "tags: [kept]" in folder.path().read_text("utf-8")
    assert folder.content() == "two"


def test_a_file_broken_by_hand_that_no_read_has_seen_is_not_overwritten(folder: Folder) -> None:
    folder.storer.put(make_entry("k", "one"))
    folder.write("---\nkey: [broken\n---\nprecious words\n")
    folder.storer.put(make_entry("k", "two"))
    assert "precious words" in folder.path().read_text("utf-8")
    assert folder.content() == "two"
    assert folder.problem().code == "unreadable-file"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"---\nkey: [a\n---\nx", "line 3"), (b"---\nkey: k\nno end", "line 1"), ("---\nkey: k\n---\n中文内容".encode("gbk"), "line 4: the file is not UTF-8"),
        ("café".encode("latin-1"), "line 1: the file is not UTF-8"), (b"---\n- a\n---\nx", "a list"), (b"---\njust text\n---\nx", "plain text"),
        (b"", "blank"), (b"  \n\n", "blank"), (b"---\nkey: k\n---\n", "blank"), (b"---\nkey: k\n\timportance: 3\n---\nx", "line 3"),
        (b"---\nimportance: 11\n---\nx", "line 2"), (b"---\nkey: 'a\\x00b'\nuser: \"\\0\"\n---\nx", "user id"), (b"x" * 100 + b"\xff", "line 1"),
        (b"---\nmetadata: {a: " + b"[" * 200 + b"]" * 200 + b"}\n---\nx", "metadata"), (b"---\nmetadata: {a: " + b"[" * 5000 + b"]" * 5000 + b"}\n---\nx", ""),
        (b"---\nkey: &a [x]\nb: *a\n---\nx", "aliases"), (b"---\nkey: " + b"x" * 513 + b"\n---\nx", "513 characters"),
        (b"---\nupdated: 9999-12-31T23:59:59-09:00\n---\nx", "updated"), (b"---\nmetadata: !!timestamp 2026-01-01\n---\nx", "metadata"),
        (b"---\nmetadata: {a: !!timestamp 2026-01-01, b: !!set {x}}\n---\nx", "metadata"), (b"---\nmetadata: {a: !!binary aGVsbG8=}\n---\nx", "metadata"),
    ],
    ids=lambda value: ascii(value)[2:22],
)  # fmt: skip
def test_a_broken_file_is_reported_left_alone_and_stops_nobody(folder: Folder, data: bytes, said: str) -> None:
    folder.storer.put(make_entry("good", "fine"))
    path = folder.write(data, "shared/broken.md")
    assert folder.contents() == {"good": "fine"}
    problem = folder.problem()
    assert (problem.severity, problem.code, problem.where) == ("error", "unreadable-file", str(path))
    assert said in problem.message
    assert "\n" not in problem.message
    folder.storer.put(make_entry("broken", "another"))
    assert folder.contents() == {"good": "fine", "broken": "another"}
    assert folder.storer.remove(MemoryId(WORK, "shared", "broken"))
    folder.storer.purge_expired(folder.clock.advance(days=999))
    assert path.read_bytes() == data


def test_a_file_that_is_too_large_is_reported(tmp_path: Path) -> None:
    storer = MarkdownStorer({WORK: tmp_path / WORK}, clock=FakeClock(), max_file_bytes=1 << 20)
    storer.put(make_entry("good", "fine"))
    (tmp_path / WORK / "shared" / "large.md").write_text("x" * (1 << 20) + "y")
    assert [entry.id.key for entry in storer.scan()] == ["good"]
    assert "larger than 1 MiB" in storer.problems()[0].message
    storer.close()


@pytest.mark.parametrize("seconds", [-(10**9), 0, 10**11, 10**12])
def test_strange_file_times_stop_nobody(folder: Folder, seconds: int) -> None:
    path = folder.write("text")
    os.utime(path, (seconds, seconds))
    assert folder.contents() == {"k": "text"}


# --- copies and renames --------------------------------------------------------------------------------------------


def test_a_copied_file_is_a_duplicate_and_the_newer_one_counts(folder: Folder) -> None:
    folder.storer.put(make_entry("k", "original"))
    text = folder.path().read_text("utf-8")
    copy = folder.write(
        text.replace("original", "copy").replace("updated: 2026-03-01", "updated: 2026-03-02"), "shared/copy.md"
    )
    follower = Follower(folder.storer)
    follower.follow()
    assert [entry.content for entry in follower.entries.values()] == ["copy"]
    assert folder.contents() == {"k": "copy"}
    problem = folder.problem()
    assert (problem.code, problem.where) == ("duplicate-key", str(folder.path()))
    assert "shared/copy.md" in problem.message
    copy.unlink()
    assert folder.content() == "original"
    follower.follow()
    assert [entry.content for entry in follower.entries.values()] == ["original"]
    assert folder.storer.problems() == []


def test_storing_a_duplicated_key_makes_it_the_one_that_counts_and_removing_it_removes_all(folder: Folder) -> None:
    folder.storer.put(make_entry("k", "original"))
    text = folder.path().read_text("utf-8")
    folder.write(text.replace("updated: 2026", "updated: 2027"), "shared/copy.md")
    assert len(folder.storer.problems()) == 1
    folder.storer.put(make_entry("k", "stored", at=folder.clock.advance(days=900)))
    assert folder.content() == "stored"
    assert folder.storer.remove(MemoryId(WORK, "shared", "k"))
    assert folder.contents() == {}
    assert list((folder.root / "shared").iterdir()) == []


def test_a_copy_that_nobody_touched_goes_with_the_memory_that_replaced_it_when_that_expires(folder: Folder) -> None:
    """The old text is absent before purging and after it."""
    folder.storer.put(make_entry("k", "old"))
    shutil.copy2(folder.path(), folder.path("shared/k copy.md"))
    expires = folder.clock.advance(20)
    folder.storer.put(make_entry("k", "new", at=folder.clock.advance(-10), expires=expires))
    follower = Follower(folder.storer)
    follower.follow()
    assert [entry.content for entry in follower.entries.values()] == ["new"]
    folder.clock.advance(10)
    assert folder.get() is None
    assert folder.storer.purge_expired(folder.clock.now()) == 1
    assert folder.get() is None
    follower.follow()
    assert follower.entries == {}
    assert list((folder.root / "shared").iterdir()) == []


def test_a_copy_that_somebody_edited_later_stays_when_the_memory_expires(folder: Folder) -> None:
    folder.storer.put(make_entry("k", "old"))
    text = folder.path().read_text("utf-8")
    expires = folder.clock.advance(10)
    folder.storer.put(make_entry("k", "new", at=expires - timedelta(seconds=5), expires=expires))
    copy = folder.write(text.replace("old", "my own words"), "shared/k copy.md")
    later = time.time() + 60
    os.utime(copy, (later, later))
    assert folder.storer.purge_expired(expires) == 1
    assert folder.contents() == {"k": "my own words"}


# --- between the look at a file and its deletion -------------------------------------------------------------------


def test_a_file_that_got_another_key_in_place_survives_the_removal_of_the_first(folder: Folder) -> None:
    folder.storer.put(make_entry("a", "old"))
    assert folder.content("a") == "old"
    path = folder.path("shared/a.md")
    folder.write(path.read_text("utf-8").replace("key: a", "key: b").replace("old", "an hour's work"), "shared/a.md")
    assert folder.storer.remove(MemoryId(WORK, "shared", "a")) is False
    assert folder.contents() == {"b": "an hour's work"}
    assert folder.storer.remove(MemoryId(WORK, "shared", "b")) is True
    assert not path.exists()


def test_a_file_whose_expiry_was_lifted_in_place_survives_purging(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edited after the sweep, before the deletion."""
    expires = folder.clock.advance(10)
    folder.storer.put(make_entry("a", "old", expires=expires))
    folder.storer.put(make_entry("gone", expires=expires))

    def edit() -> None:
        text = folder.path("shared/a.md").read_text("utf-8")
        folder.write(text.replace("old", "kept").replace(expires.isoformat(), "never"), "shared/a.md")

    _before_writing(folder, monkeypatch, edit)
    assert folder.storer.purge_expired(expires) == 1
    assert folder.contents() == {"a": "kept"}


def test_what_another_process_has_just_stored_survives_purging(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored after the purge had looked for what has expired, before it took the lock."""
    expires = folder.clock.advance(10)
    folder.storer.put(make_entry("k", "old", expires=expires))
    other = folder.open()
    _before_writing(folder, monkeypatch, lambda: other.put(make_entry("k", "fresh")))
    assert folder.storer.purge_expired(expires) == 0
    assert folder.contents() == {"k": "fresh"}
    other.close()


def test_what_another_process_has_just_stored_anew_is_removed_as_it_is_then(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = folder.open()
    folder.storer.put(make_entry("k", "old", expires=folder.clock.advance(-10)))
    _before_writing(folder, monkeypatch, lambda: other.put(make_entry("k", "fresh")))
    assert folder.storer.remove(MemoryId(WORK, "shared", "k")) is True
    assert folder.contents() == {}
    other.close()


def _before_writing(folder: Folder, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Let `act` happen once, right before the folder's handle takes the lock, after it has looked at the files."""
    folder.contents()
    folder.storer.problems()
    writing = Manifest.writing
    waiting = [act]

    def acting(manifest: Manifest) -> AbstractContextManager[sqlite3.Connection]:
        if waiting:
            waiting.pop()()
        return writing(manifest)

    monkeypatch.setattr(Manifest, "writing", acting)


def test_a_renamed_file_keeps_its_identity(folder: Folder) -> None:
    folder.storer.put(make_entry("k", "text"))
    folder.path().rename(folder.path("shared/another name.md"))
    assert folder.contents() == {"k": "text"}
    folder.storer.put(make_entry("k", "more"))
    assert [path.name for path in (folder.root / "shared").iterdir()] == ["another name.md"]
    folder.path("shared/another name.md").rename(folder.path("moved up.md"))
    assert folder.contents() == {"k": "more"}
    folder.storer.put(make_entry("k", "again"))
    assert folder.storer.remove(MemoryId(WORK, "shared", "k"))
    assert folder.contents() == {}


def test_the_key_in_the_file_counts_not_its_name(folder: Folder) -> None:
    folder.write("---\nkey: ../../x\nuser: bob\n---\ntext\n", "shared/innocent.md")
    assert [entry.id for entry in folder.storer.scan()] == [MemoryId(WORK, "bob", "../../x")]
    assert folder.content("../../x", "bob") == "text"
    assert folder.get("innocent") is None


def test_a_foreign_file_in_the_way_is_not_overwritten(folder: Folder) -> None:
    folder.write("---\nkey: somebody else's\n---\nprecious\n", "shared/k.md")
    folder.storer.put(make_entry("k", "mine"))
    assert folder.contents() == {"somebody else's": "precious", "k": "mine"}


def test_an_expired_file_by_hand_is_no_entry_and_is_purged(folder: Folder) -> None:
    path = folder.write("---\nkey: k\nexpires: 2026-02-01\n---\nold\n")
    assert folder.contents() == {}
    assert path.exists()
    assert folder.storer.purge_expired(folder.clock.now()) == 1
    assert not path.exists()


def test_reads_never_write_a_file(folder: Folder) -> None:
    folder.write("plain")
    folder.write("---\nkey: [\n---\n", "shared/broken.md")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.root.rglob("*.md")}
    storer: MemoryStorer = folder.storer
    list(storer.scan())
    storer.users()
    storer.problems()
    storer.get_many([MemoryId(WORK, "shared", "plain"), MemoryId(WORK, "nobody", "x")])
    storer.changes(None, "shared")
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.root.rglob("*.md")} == before
    assert not (folder.root / "nobody").exists()
