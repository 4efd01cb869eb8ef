import os
from pathlib import Path
from typing import Any

import pytest

from memory_core.errors import IndexUnavailableError, StorageUnavailableError
from memory_core.ledger import Ledger
from memory_core.ledger import index as index_module
from memory_core.ledger.index import LedgerIndex
from memory_core.model import ChangeBatch
from memory_core.testing import FakeClock
from tests.ledger.conftest import fulltext

from .texts import Make, write


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("框架", "MEMORY.md#3: 用户喜欢使用Solon框架写代码"),
        ("Solon", "MEMORY.md#3: 用户喜欢使用Solon框架写代码"),
        ("猫", "memory/2026-06-02.md#1: The user's cat 猫 is ill"),
        ("where does the user live?", "MEMORY.md#4: The user lives in Basel"),
        ("C++20", "memory/2026-06-01.md#5: The build runs on Redis 7 and C++20"),
        ("Ｒｅｄｉｓ", "memory/2026-06-01.md#5: The build runs on Redis 7 and C++20"),
        ("3.11", "memory/2026-06-02.md#2: plan: 3.11 → 3.12"),
        ("it's user:cat AND * \"x", "memory/2026-06-02.md#1: The user's cat 猫 is ill"),
    ],
)
def test_lines_are_found_and_named(filled: Ledger, query: str, first: str) -> None:
    assert str(filled.search(query)[0]) == first


@pytest.mark.parametrize("query", ["", "  ", "*", '"', "penguin", "2026-06-01", "md", "\x00"])
def test_nothing_by_accident(filled: Ledger, query: str) -> None:
    assert filled.search(query) == []


def test_the_same_line_is_shown_once_and_limits_hold(make: Make, tmp_path: Path) -> None:
    for day in range(1, 29):
        write(tmp_path, f"memory/2026-05-{day:02}.md", "".join(f"- tea number {n}\n" for n in range(40)))
    ledger = make()
    assert len(ledger.search("tea")) == 30
    assert len({hit.text for hit in ledger.search("tea")}) == 30
    assert len(ledger.search("tea", 3)) == 3
    assert ledger.search("tea", 0) == []
    assert len(ledger.search("tea", 1_000)) == 30
    assert [hit.text for hit in ledger.search("tea number 7", 1)] == ["tea number 7"]


def test_the_index_follows_the_files(filled: Ledger, tmp_path: Path, monkeypatch: Any) -> None:
    assert not filled.search("zebra")
    path = write(tmp_path, "memory/2026-06-03.md", "- a zebra\n")
    assert [str(hit) for hit in filled.search("zebra")] == ["memory/2026-06-03.md#1: a zebra"]
    path.write_text("- first\n- a zebra\n", "utf-8")  # the line moved
    assert [str(hit) for hit in filled.search("zebra")] == ["memory/2026-06-03.md#2: a zebra"]
    path.rename(tmp_path / "memory" / "2026-06-04.md")
    assert [hit.path for hit in filled.search("zebra")] == ["memory/2026-06-04.md"]
    (tmp_path / "memory" / "2026-06-04.md").unlink()
    assert not filled.search("zebra")
    filled.save("a zebra again")
    assert [hit.path for hit in filled.search("zebra")] == ["MEMORY.md"]
    (tmp_path / "MEMORY.md").unlink()
    assert [hit.path for hit in filled.search("zebra")] == ["memory/2026-06-02.md"]
    old = tmp_path / "memory" / "2026-06-01.md"
    os.utime(old, (1, 1))
    filled.search("x")
    monkeypatch.setattr(index_module, "SCAN_GAP_S", -1.0)  # as if a second had passed
    with old.open("a") as file:
        file.write("- an okapi\n")
    assert filled.search("okapi")


@pytest.mark.parametrize("zone", [None, "UTC", "Pacific/Kiritimati", "America/Los_Angeles"])
def test_days_at_the_edges_of_the_calendar_are_searched(make: Make, tmp_path: Path, zone: str | None) -> None:
    for day in ("0001-01-01", "9999-12-31"):
        write(tmp_path, f"memory/{day}.md", f"- tea of {day}\n")
    assert len(make(timezone=zone).search("tea")) == 2


def test_an_edit_within_one_tick_and_of_one_size_is_seen(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    path = write(tmp_path, "MEMORY.md", "- zebra\n")
    moment = clock.now().timestamp()
    os.utime(path, (moment, moment))
    ledger = make()
    assert ledger.search("zebra")
    path.write_text("- okapi\n", "utf-8")
    os.utime(path, (moment, moment))
    assert ledger.search("okapi")
    assert not ledger.search("zebra")


def test_only_what_changed_is_indexed_again(make: Make, tmp_path: Path, clock: FakeClock, monkeypatch: Any) -> None:
    path = write(tmp_path, "memory/2026-06-02.md", "- a\n- b\n")
    searcher = fulltext()
    applied: list[ChangeBatch] = []
    real = searcher.apply

    def spy(batch: ChangeBatch, user_id: str) -> None:
        applied.append(batch)
        real(batch, user_id)

    monkeypatch.setattr(searcher, "apply", spy)
    index = LedgerIndex(make().places, lambda: searcher, clock, None)
    index.search("a")
    with path.open("a") as file:
        file.write("- c\n")
    index.search("a")
    index.search("a")
    assert [(len(batch.upserts), len(batch.removals), batch.complete) for batch in applied] == [
        (2, 0, True),
        (1, 0, False),
    ]
    again = LedgerIndex(make().places, lambda: searcher, clock, None)  # a persistent index that is up to date
    assert again.search("c")
    assert len(applied) == 2
    again.close()
    again.close()


def test_an_index_that_fails_is_built_anew(
    make: Make, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "memory/2026-06-02.md", "- zebra\n")
    searchers = [fulltext(), fulltext()]
    built = iter(searchers)
    index = LedgerIndex(make().places, lambda: next(built), clock, None)
    assert index.search("zebra")

    def down(*_: Any) -> None:
        raise IndexUnavailableError("the index is gone")

    monkeypatch.setattr(searchers[0], "apply", down)
    path.write_text("- zebra\n- okapi\n", "utf-8")
    with pytest.raises(IndexUnavailableError):
        index.search("okapi")
    assert index.search("okapi")
    assert index.search("zebra")
    monkeypatch.setattr(searchers[1], "apply", down)
    path.write_text("- quagga\n", "utf-8")
    assert [problem.code for problem in index.problems()] == ["ledger-index"]


def test_the_doctor_does_not_hide_changes_from_the_search(filled: Ledger, tmp_path: Path) -> None:
    assert filled.problems() == []
    assert filled.search("Solon")
    write(tmp_path, "memory/2026-06-01.md", "- okapi\n")
    filled.problems()
    assert filled.search("okapi")
    assert not filled.search("Redis")


def test_a_large_ledger_comes_in_pages(make: Make, tmp_path: Path) -> None:
    write(tmp_path, "memory/2026-06-02.md", "".join(f"- line {n} of many\n" for n in range(2_500)))
    ledger = make()
    assert ledger.search("2499")[0].line == 2_500
    assert ledger.search("line 0 of")[0].line == 1


def test_files_that_cannot_be_read_are_left_out_and_reported(filled: Ledger, tmp_path: Path) -> None:
    bad = tmp_path / "memory" / "2026-05-01.md"
    bad.write_bytes("- 用户与猫头鹰".encode("gbk"))
    (tmp_path / "memory" / "2026-05-02.md").symlink_to("/etc/hostname")
    (tmp_path / "memory" / "2026-05-03.md").symlink_to(tmp_path / "nowhere")
    (tmp_path / "memory" / "folder.md").mkdir()
    assert filled.search("Solon")
    names = {problem.where for problem in filled.problems()}
    assert names == {"memory/2026-05-01.md", "memory/2026-05-02.md", "memory/folder.md"}
    bad.write_text("- 猫头鹰", "utf-8")
    assert filled.search("猫头鹰")
    good = tmp_path / "memory" / "2026-06-01.md"
    good.write_bytes(b"\xff\xfe")
    assert not filled.search("Redis")


def test_a_folder_outside_is_refused(make: Make, tmp_path: Path, tmp_path_factory: Any) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "2026-06-01.md").write_text("- secret\n")
    (tmp_path / "memory").symlink_to(outside)
    ledger = make()
    with pytest.raises(StorageUnavailableError, match="leads out of the workspace"):
        ledger.search("secret")
    assert ledger.problems()
    with pytest.raises(StorageUnavailableError):
        ledger.save("tea")
    assert len(list(outside.iterdir())) == 1


def test_the_configured_searcher_is_used(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MEMORY_CORE_HOME", str(tmp_path / "home"))
    write(tmp_path, "MEMORY.md", "- tea\n")
    assert Ledger(tmp_path).search("tea")
    assert Ledger(tmp_path, searcher="fulltext").search("tea")
    with pytest.raises(LookupError, match="Did you mean 'fulltext'"):
        Ledger(tmp_path, searcher="fultext").search("tea")


def test_bom_crlf_and_line_separators_count_as_editors_count(make: Make, tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_bytes("\ufeff# M\r\n\r\n- a\u2028b\x85c\r\n- zebra\r\n".encode())
    hit = make().search("zebra")[0]
    assert (hit.line, hit.text) == (4, "zebra")
    assert make().get("MEMORY.md", hit.line, hit.line).lines == ("- zebra",)
