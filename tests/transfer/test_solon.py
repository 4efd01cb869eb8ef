"""Directories of the Java original."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from memory_core.errors import CorruptEntryError
from memory_core.model import MemoryId
from memory_core.solution import StandardSolution
from memory_core.testing import FakeClock
from memory_core.transfer import import_solon

CHINA = timezone(timedelta(hours=8))
STORED_MS = 1_772_366_400_000  # 2026-03-01 12:00 UTC


def write(root: Path, file: str, head: str, body: str = "使用Solon框架") -> Path:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(f"---\n{head}\n---\n\n{body}\n".encode())
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "java"
    root.mkdir()
    return root


def test_an_entry_of_the_original(root: Path, solution: StandardSolution, clock: FakeClock) -> None:
    write(
        root,
        "shared__user-tech-stack.md",
        f'name: "shared__user-tech-stack"\ndescription: stack\ntime: "2026-03-01 19:30:00"\nimportance: 8\n'
        f"ttl: 2592000\nstored_at: {STORED_MS}\nscope: user",
    )
    report = import_solon(solution, root, clock=clock, timezone=CHINA)
    assert (report.stored, report.total) == (1, 1)
    entry = solution.storer.get(MemoryId("user", "shared", "user-tech-stack"))
    assert entry is not None
    assert entry.content == "使用Solon框架"
    assert entry.importance == 8
    assert entry.created_at == datetime(2026, 3, 1, 11, 30, tzinfo=UTC)
    assert entry.updated_at == datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    assert entry.expires_at == entry.updated_at + timedelta(days=30)
    assert entry.source == "import:solon"
    assert entry.metadata == {"description": "stack"}
    assert import_solon(solution, root, clock=clock, timezone=CHINA).unchanged == 1


@pytest.mark.parametrize(
    ("name", "user", "key"),
    [
        ("shared__k", "shared", "k"),
        ("shared__py__init", "shared", "py__init"),
        ("session-1____dunder", "session-1", "__dunder"),
        ("plain", "shared", "plain"),
        ("__init", "shared", "__init"),
        ("shared__", "shared", "shared__"),
        ("用户__键", "用户", "键"),
        ("a__b:c/d", "a", "b:c/d"),
    ],
)
def test_the_user_ends_at_the_first_separator(
    root: Path, solution: StandardSolution, clock: FakeClock, name: str, user: str, key: str
) -> None:
    write(root, "x.md", f'name: "{name}"')
    assert import_solon(solution, root, clock=clock).stored == 1
    assert solution.storer.get(MemoryId("workspace", user, key)) is not None


@pytest.mark.parametrize(
    ("ttl", "lives"),
    [
        ("0", True),
        ("-1", True),
        ("-7", True),
        ("", True),
        ("null", True),
        ("604800", True),
        ("60", False),
        ("1e30", True),
    ],
)
def test_ttl(root: Path, solution: StandardSolution, clock: FakeClock, ttl: str, lives: bool) -> None:
    write(root, "x.md", f"name: shared__k\nttl: {ttl}\nstored_at: {STORED_MS - 3_600_000}")
    report = import_solon(solution, root, clock=clock)
    assert (report.stored, report.expired) == ((1, 0) if lives else (0, 1))
    if lives:
        entry = solution.recall("k")
        assert entry is not None
        assert (entry.expires_at is None) == (ttl != "604800")


@pytest.mark.parametrize(
    ("stored_at", "expected"),
    [
        (str(STORED_MS), datetime(2026, 3, 1, 12, tzinfo=UTC)),
        (str(STORED_MS // 1000), datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01T12:00:00", datetime(2026, 3, 1, 4, tzinfo=UTC)),
        ("2026-03-01T12:00:00Z", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026/03/01 12:00:00", datetime(2026, 3, 1, 4, tzinfo=UTC)),
    ],
)
def test_moments(root: Path, solution: StandardSolution, clock: FakeClock, stored_at: str, expected: datetime) -> None:
    write(root, "x.md", f"name: shared__k\nstored_at: {stored_at}")
    import_solon(solution, root, clock=clock, timezone=CHINA)
    entry = solution.recall("k")
    assert entry is not None
    assert (entry.created_at, entry.updated_at) == (expected, expected)


def test_scopes(root: Path, solution: StandardSolution, clock: FakeClock) -> None:
    write(root, "user/a.md", "name: shared__k\nscope: user", "low")
    write(root, "workspace/b.md", "name: shared__k", "high")
    write(root, "c.md", "name: shared__other\nscope: team")
    report = import_solon(solution, root, clock=clock)
    assert (report.stored, [problem.where for problem in report.problems]) == (2, ["c.md"])
    assert sorted(entry.content for entry in solution.storer.scan()) == ["high", "low"]
    assert import_solon(solution, root, clock=clock, scope="user", user_id="me").total == 3
    assert solution.recall("other", user_id="me") is not None


def test_what_cannot_be_read_is_named_and_the_others_go_on(
    root: Path, solution: StandardSolution, clock: FakeClock
) -> None:
    write(root, "a-good.md", "name: shared__good")
    (root / "b-gbk.md").write_bytes('---\nname: "shared__k"\n---\n中文'.encode("gbk"))
    (root / "c-none.md").write_text("no front matter")
    (root / "d-open.md").write_text("---\nname: x\nnever closed")
    write(root, "e-yaml.md", "name: [unclosed")
    write(root, "f-list.md", "- name")
    write(root, "g-alias.md", "a: &x [1]\nb: [*x, *x]\nname: k")
    write(root, "h-name.md", "time: now")
    write(root, "i-ttl.md", "name: shared__k\nttl: soon")
    write(root, "j-time.md", "name: shared__k\ntime: yesterday")
    write(root, "k-blank.md", "name: shared__k", "  ")
    write(root, "l-object.md", "name: !!python/object/apply:os.system ['true']")
    write(root, "m-moment.md", "name: shared__k\nstored_at: 999999999999999999")
    write(root, "n-nested.md", "name: {a: b}")
    (root / "o-big.md").write_bytes(b"---\nname: k\n---\n" + b"x" * (17 << 20))
    (root / "p-link.md").symlink_to("/etc/hostname")
    (root / "q-dir.md").mkdir()
    (root / "notes.txt").write_text("not Markdown")
    report = import_solon(solution, root, clock=clock)
    assert [entry.id.key for entry in solution.storer.scan()] == ["good"]
    assert [problem.where[0] for problem in report.problems] == list("bcdefghijklmno")
    assert all(len(problem.reason) > 10 for problem in report.problems)


def test_windows_files_and_a_rule_in_the_body(root: Path, solution: StandardSolution, clock: FakeClock) -> None:
    (root / "x.md").write_bytes(b"\xef\xbb\xbf---\r\nname: shared__k\r\n---\r\none\r\n---\r\ntwo\r\n")
    import_solon(solution, root, clock=clock)
    entry = solution.recall("k")
    assert entry is not None
    assert entry.content == "one\n---\ntwo"


def test_a_missing_directory_and_a_dry_run(root: Path, solution: StandardSolution, clock: FakeClock) -> None:
    with pytest.raises(CorruptEntryError, match="There is no directory"):
        import_solon(solution, root / "nope", clock=clock)
    write(root, "x.md", "name: shared__k")
    assert import_solon(solution, root, clock=clock, dry_run=True).stored == 1
    assert list(solution.storer.scan()) == []
    assert (root / "x.md").is_file()
