"""Export and import: to the byte, line by line, whatever stands in between."""

import io
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_core.contracts import MemoryStorer
from memory_core.errors import StorageUnavailableError, VetoedError
from memory_core.hooks import Hooks
from memory_core.model import MemoryEntry
from memory_core.serial import to_json
from memory_core.solution import StandardSolution
from memory_core.testing import NASTY_CONTENTS, NASTY_KEYS, FakeClock, make_entry
from memory_core.testing.samples import contents, metadata, names
from memory_core.transfer import export_jsonl, import_jsonl
from tests.transfer.conftest import OpenSolution


def exported(storer: MemoryStorer) -> bytes:
    sink = io.BytesIO()
    export_jsonl(storer, sink)
    return sink.getvalue()


def everything(storer: MemoryStorer) -> dict[object, MemoryEntry]:
    return {entry.id: entry for entry in storer.scan()}


def nasty_entries(clock: FakeClock) -> list[MemoryEntry]:
    entries = [make_entry(key, f"content of {key}", user=key, scope="user") for key in NASTY_KEYS]
    entries += [
        make_entry(
            f"content-{place}",
            content,
            importance=1 + place % 10,
            expires=clock.now() + timedelta(days=place + 1, microseconds=7),
            created_at=clock.now() - timedelta(days=400),
            source="import:x 来源",
            metadata={"name": content, "deep": [{"a": [1, 2.5, None, True]}]},
        )
        for place, content in enumerate(NASTY_CONTENTS)
    ]
    return entries


def test_a_round_trip_loses_nothing(open_solution: OpenSolution, clock: FakeClock) -> None:
    source, target = open_solution("source"), open_solution("target")
    source.storer.put_many(nasty_entries(clock))
    data = exported(source.storer)
    report = import_jsonl(target, io.BytesIO(data), clock=clock)
    assert report.stored == report.total == len(NASTY_KEYS) + len(NASTY_CONTENTS)
    assert everything(target.storer) == everything(source.storer)
    assert sorted(exported(target.storer).splitlines()) == sorted(data.splitlines())
    again = import_jsonl(target, io.BytesIO(data), clock=clock)
    assert (again.stored, again.unchanged) == (0, report.stored)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_legal_entry_survives(open_solution: OpenSolution, clock: FakeClock, data: st.DataObject) -> None:
    target = open_solution("target")
    entry = make_entry(data.draw(names), data.draw(contents), user=data.draw(names), metadata=data.draw(metadata))
    import_jsonl(target, [to_json(entry).encode() + b"\n"], clock=clock, conflict="replace")
    assert target.storer.get(entry.id) == entry


def test_what_was_imported_is_found(solution: StandardSolution, clock: FakeClock) -> None:
    import_jsonl(solution, [to_json(make_entry("stack", "使用Solon框架")).encode()], clock=clock)
    assert [hit.entry.id.key for hit in solution.search("框架")] == ["stack"]


def test_bad_lines_are_named_and_the_others_go_on(solution: StandardSolution, clock: FakeClock) -> None:
    good = to_json(make_entry("good", "fine")).encode()
    lines = [
        b"\xef\xbb\xbf" + to_json(make_entry("first", "after a byte order mark")).encode() + b"\r\n",
        b"\n",
        b"not json\n",
        b"[]\n",
        b"\xff\xfe\n",
        b'{"scope": "workspace"}\n',
        good.replace(b'"importance":5', b'"importance":11'),
        good.replace(b'"workspace"', b'"workspac"'),
        good.replace(b'"key":"good"', b'"key":"a\\u0000b"'),
        good.replace(b'"key"', b'"kye"'),
        good.replace(b'"content":"fine"', b'"content":" "'),
        good.replace(b'"metadata":{}', b'"metadata":{"x":NaN}'),
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        good[: len(good) // 2],
        good,
    ]
    report = import_jsonl(solution, lines, clock=clock)
    assert [problem.where for problem in report.problems] == [f"line {number}" for number in range(3, 15)]
    assert all(problem.reason.strip() for problem in report.problems)
    assert "Did you mean 'workspace'?" in report.problems[5].reason
    assert (report.stored, report.skipped, report.total) == (2, 12, 14)
    assert {entry.id.key for entry in solution.storer.scan()} == {"first", "good"}


@pytest.mark.parametrize(
    ("rule", "older", "same", "newer"),
    [
        ("newer", "present", "present", "new"),
        ("replace", "old", "same", "new"),
        ("skip", "present", "present", "present"),
    ],
)
def test_conflicts(solution: StandardSolution, clock: FakeClock, rule: str, older: str, same: str, newer: str) -> None:
    day = timedelta(days=1)
    for name, moment, wanted in (("old", -day, older), ("same", timedelta(), same), ("new", day, newer)):
        solution.storer.put(make_entry("k", "present", at=clock.now()))
        line = to_json(make_entry("k", name, at=clock.now() + moment)).encode()
        report = import_jsonl(solution, [line], clock=clock, conflict=rule)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - the table holds the names
        entry = solution.recall("k")
        assert entry is not None
        assert entry.content == wanted
        assert (report.kept, report.stored) == ((1, 0) if wanted == "present" else (0, 1))


def test_a_dry_run_writes_nothing_and_says_the_same(
    open_solution: OpenSolution, clock: FakeClock, tmp_path: Path
) -> None:
    solution = open_solution("dry")
    lines = [
        to_json(make_entry("k", "one")).encode(),
        to_json(make_entry("k", "one")).encode(),
        to_json(make_entry("k", "older", at=clock.now() - timedelta(days=1))).encode(),
        to_json(make_entry("gone", "over", expires=clock.now())).encode(),
        b"broken",
    ]
    dry = import_jsonl(solution, lines, clock=clock, dry_run=True)
    assert list(solution.storer.scan()) == []
    assert not list((tmp_path / "dry").rglob("*.md"))
    real = import_jsonl(solution, lines, clock=clock)
    assert {**dry.to_json(), "dry_run": False} == real.to_json()
    assert (real.stored, real.unchanged, real.kept, real.expired, real.skipped) == (1, 1, 1, 1, 1)


def test_the_boundary_second_of_expiry(solution: StandardSolution, clock: FakeClock) -> None:
    def line(key: str, micros: int) -> bytes:
        return to_json(make_entry(key, "x", expires=clock.now() + timedelta(microseconds=micros))).encode()

    report = import_jsonl(solution, [line("before", -1), line("at", 0), line("after", 1)], clock=clock)
    assert (report.expired, report.stored) == (2, 1)
    assert exported(solution.storer).count(b"\n") == 1
    clock.advance(1)
    assert exported(solution.storer) == b""


def test_everything_can_be_put_elsewhere(solution: StandardSolution, clock: FakeClock) -> None:
    lines = [to_json(make_entry("k", "x", user="bob", scope="elsewhere")).encode()]
    assert import_jsonl(solution, lines, clock=clock).skipped == 1
    report = import_jsonl(solution, lines, clock=clock, scope="user", user_id="alice")
    assert report.stored == 1
    assert [(e.id.scope, e.id.user_id) for e in solution.storer.scan()] == [("user", "alice")]


def test_metadata_does_not_decide_ownership(solution: StandardSolution, clock: FakeClock) -> None:
    entry = make_entry("k", "x", metadata={"user_id": "b", "user": "b", "scope": "user"})
    import_jsonl(solution, [to_json(entry).encode()], clock=clock)
    assert solution.storer.get(entry.id) == entry


def test_a_filter_sees_every_line_and_its_refusal_is_reported(open_solution: OpenSolution, clock: FakeClock) -> None:
    def picky(entry: MemoryEntry) -> MemoryEntry | None:
        if entry.id.key == "secret":
            raise VetoedError("refused by name")
        return entry if entry.id.key != "unwanted" else None

    solution = open_solution("filtered", Hooks(filters=[("picky", picky)]))
    lines = [to_json(make_entry(key, "x")).encode() for key in ("secret", "unwanted", "fine")]
    report = import_jsonl(solution, lines, clock=clock)
    assert report.stored == 1
    assert [problem.where for problem in report.problems] == ["line 1", "line 2"]


def test_a_store_that_fails_ends_the_import(solution: StandardSolution, clock: FakeClock, tmp_path: Path) -> None:
    lines = [to_json(make_entry(f"k{n}", "x", scope=scope)).encode() for n, scope in enumerate(("user", "workspace"))]
    (tmp_path / "store").mkdir(exist_ok=True)
    (tmp_path / "store" / "workspace").write_text("a file where the directory should be")
    with pytest.raises(StorageUnavailableError):
        import_jsonl(solution, lines, clock=clock)
    assert [entry.id.key for entry in solution.storer.scan(scope="user")] == ["k0"]


def test_progress_is_told(solution: StandardSolution, clock: FakeClock) -> None:
    told: list[tuple[int, int | None]] = []
    lines = [to_json(make_entry(f"k{n}", "x")).encode() for n in range(60)]
    import_jsonl(solution, lines, clock=clock, progress=lambda done, total: told.append((done, total)), expected=60)
    assert told == [(50, 60), (60, 60)]
    told.clear()
    export_jsonl(solution.storer, io.BytesIO(), progress=lambda done, total: told.append((done, total)))
    assert told == [(50, None), (60, 60)]


def test_export_of_one_user_and_one_scope(solution: StandardSolution) -> None:
    for user in ("user", "user2"):
        for scope in ("user", "workspace"):
            solution.storer.put(make_entry("k", "x", user=user, scope=scope))
    sink = io.BytesIO()
    assert export_jsonl(solution.storer, sink, user_id="user", scope="workspace").written == 1
    assert b'"user":"user","key"' in sink.getvalue()


def test_many_problems_are_counted_and_the_list_is_bounded(solution: StandardSolution, clock: FakeClock) -> None:
    report = import_jsonl(solution, [b"x"] * 1_500, clock=clock)
    assert (report.skipped, len(report.problems)) == (1_500, 1_000)
