"""Oversized tool results: to files, marked, never twice, read back by pages."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from memory_core.context.config import ToolResultEvictionConfig
from memory_core.context.evict import excluded, plan_eviction
from memory_core.context.files import LargeResults, read_tool_text
from memory_core.errors import BudgetError, InvalidKeyError, StorageUnavailableError
from memory_core.sessions.messages import Message, ToolResultPart, results_of, tool_message, user_message

SMALL = ToolResultEvictionConfig(max_chars=1_000, preview_chars=100)


def result(content: str, name: str = "shell", call_id: str = "call-1") -> Message:
    return tool_message(ToolResultPart(call_id, name, content))


def evicted(tmp_path: Path, content: str, config: ToolResultEvictionConfig = SMALL) -> tuple[LargeResults, str]:
    eviction = plan_eviction([result(content)], config)
    results = LargeResults(tmp_path, config)
    results.write(eviction.files)
    return results, eviction.files[0].path


def test_the_defaults_are_those_of_the_original() -> None:
    config = ToolResultEvictionConfig()
    exact, above = result("x" * 80_000), result("x" * 80_001)
    assert plan_eviction([exact]).messages[0] is exact
    part = results_of(plan_eviction([above]).messages[0])[0]
    assert part.mark == "evicted"
    assert part.content.count("x") == 4_000 + part.content.split("\n")[0].count("x")
    assert config.directory == "large_tool_results"


def test_the_notice_names_path_size_and_a_tool_that_exists() -> None:
    eviction = plan_eviction([result("line\n" * 1_000)], SMALL, agent_id="coder")
    part = results_of(eviction.messages[0])[0]
    notice = part.content.split("\n")[0]
    assert eviction.files[0].path.startswith("large_tool_results/coder/call-1-")
    assert eviction.files[0].path in notice
    assert "5000 characters, 1000 lines" in notice
    assert "read_tool_result" in notice
    without = plan_eviction(
        [result("y" * 2_000)], ToolResultEvictionConfig(max_chars=1_000, preview_chars=100, read_tool=None)
    )
    assert "Read it with" not in results_of(without.messages[0])[0].content


def test_nothing_is_evicted_twice_and_the_plan_is_pure() -> None:
    messages = [result("z" * 5_000), user_message("hello")]
    once = plan_eviction(messages, SMALL)
    again = plan_eviction(once.messages, SMALL)
    assert not again.files
    assert again.messages == once.messages
    assert plan_eviction(messages, SMALL) == once
    assert once.messages[1] is messages[1]


@pytest.mark.parametrize(
    ("tool", "stays"),
    [
        ("read_file", True), ("write_file", True), ("edit_file", True), ("grep_files", True), ("glob_files", True),
        ("list_files", True), ("memory_search", True), ("memory_get", True), ("session_search", True),
        ("read_tool_result", True), ("shell", False), ("memory", False), ("my_memory", False), ("read_file2", False),
    ],
)  # fmt: skip
def test_tools_that_read_back_are_excluded_and_a_shell_is_not(tool: str, stays: bool) -> None:
    assert excluded(tool, ToolResultEvictionConfig()) is stays
    assert bool(plan_eviction([result("x" * 90_000, tool)]).files) is not stays


def test_one_giant_line_and_graphemes_at_the_border() -> None:
    part = results_of(plan_eviction([result("x" * 100_000)]).messages[0])[0]
    assert len(part.content) < 5_000
    family = "👨\u200d👩\u200d👧\u200d👦"
    cut = results_of(plan_eviction([result(("a" + family) * 2_000)], SMALL).messages[0])[0].content.split("\n")
    assert set(cut[1].replace("a" + family, "")) <= {"a"}
    assert cut[3].replace(family, "").strip("a") == ""


@pytest.mark.parametrize(
    "call_id", ["", "../../etc/passwd", "a/b", "CON", "x" * 5_000, "号码", "\ud800", "a\0b", ".", ".."]
)
@pytest.mark.parametrize("agent", ["", "../evil", "代理", "nul", "\udcff"])
def test_any_id_gives_a_path_inside_that_can_be_written_and_read(tmp_path: Path, call_id: str, agent: str) -> None:
    eviction = plan_eviction([result("content\n" * 500, call_id=call_id)], SMALL, agent)
    results = LargeResults(tmp_path, SMALL)
    results.write(eviction.files)
    path = eviction.files[0].path
    assert (tmp_path / path).resolve().is_relative_to(tmp_path / "large_tool_results")
    page = results.read(path, 2, 3)
    assert page is not None
    assert page.text == "content\ncontent"


def test_content_that_utf8_cannot_carry_is_still_written(tmp_path: Path) -> None:
    results, path = evicted(tmp_path, "bad \ud800 char\n" * 200)
    page = results.read(path)
    assert page is not None
    assert page.total_lines == 200


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet="ab\n\r\u2028é框👍", min_size=1_001, max_size=1_500), st.integers(1, 60), st.integers(1, 9))
def test_paging_gives_back_every_character(content: str, max_bytes: int, step: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        results, path = evicted(Path(folder), content)
        line, offset, read = 1, 0, ""
        for _ in range(10_000):
            page = results.read(path, line, line + step, offset=offset, max_bytes=max_bytes)
            assert page is not None
            assert len(page.text.encode()) <= max(max_bytes, 4)
            read += page.text
            if page.next_line is None:
                break
            read += "" if page.next_offset else "\n"
            line, offset = page.next_line, page.next_offset
        assert read == content.removesuffix("\n")


def test_a_page_has_a_line_range_and_says_how_to_go_on(tmp_path: Path) -> None:
    results, path = evicted(tmp_path, "".join(f"line {i}\n" for i in range(1, 501)))
    page = results.read(path, 10, 12)
    assert page is not None
    assert (page.text, page.total_lines, page.next_line) == ("line 10\nline 11\nline 12", 500, 13)
    text = read_tool_text(results, path)
    assert text.startswith(f"{path}, lines 1-200 of 500:\nline 1\n")
    assert text.endswith("[continues: start_line=201]")
    assert read_tool_text(results, path, 401).endswith("line 500")
    assert "there is no line 501" in read_tool_text(results, path, 501)
    long, where = evicted(tmp_path, "word " * 20_000)
    assert read_tool_text(long, where).endswith("[continues: start_line=1, offset=32768]")
    assert "from character 32768 of line 1" in read_tool_text(long, where, offset=32_768)


UNSAFE = [
    "../secret.txt", "large_tool_results/../secret.txt", "large_tool_results/agent/../../secret.txt", "/etc/passwd",
    "large_tool_results//etc/passwd", "large_tool_results", "large_tool_results/", "", ".", "secret.txt",
    "large_tool_results/%2e%2e/secret.txt", "large_tool_results/agent/a\0.txt", "large_tool_results\\..\\secret.txt",
    "large_tool_results_backup/x.txt", "C:/large_tool_results/x", "large_tool_results/agent/. /x", "file:///etc/passwd",
    "large_tool_results/agent/x.txt:stream", "large_tool_results/…/../x", "~/large_tool_results/x",
    "large_tool_results/ ../x",
]  # fmt: skip


@pytest.mark.parametrize("path", UNSAFE)
def test_paths_that_lead_elsewhere_are_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    results = LargeResults(tmp_path, SMALL)
    with pytest.raises(InvalidKeyError):
        results.read(path)
    assert "secret\n" not in read_tool_text(results, path)
    assert read_tool_text(results, path).startswith("Nothing was read: ")


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    results, path = evicted(tmp_path, "x" * 2_000)
    folder = (tmp_path / path).parent
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "large_tool_results" / "other").symlink_to(tmp_path, target_is_directory=True)
    for way in (f"{Path(path).parent.as_posix()}/link.txt", "large_tool_results/other/secret.txt"):
        with pytest.raises(InvalidKeyError, match="symbolic link"):
            results.read(way)
    outside = LargeResults(tmp_path / "elsewhere", SMALL)
    outside.root.mkdir()
    (outside.root / "large_tool_results").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(StorageUnavailableError, match="symbolic link"):
        outside.write(plan_eviction([result("x" * 2_000)], SMALL).files)


def test_what_is_not_there_is_none_and_numbers_are_checked(tmp_path: Path) -> None:
    results, path = evicted(tmp_path, "x" * 2_000)
    assert results.read("large_tool_results/agent/none.txt") is None
    assert results.read("large_tool_results/agent") is None
    assert results.read(f"{path}/deeper") is None
    assert "may have been removed" in read_tool_text(results, "large_tool_results/agent/none.txt")
    for numbers in (
        {"start_line": 0},
        {"offset": -1},
        {"max_bytes": 0},
        {"max_bytes": 10**9},
        {"start_line": 5, "end_line": 4},
    ):
        with pytest.raises(BudgetError):
            results.read(path, **numbers)
    os.mkfifo(tmp_path / "large_tool_results" / "agent" / "pipe.txt")
    assert results.read("large_tool_results/agent/pipe.txt") is None


def test_a_failed_write_says_so_and_leaves_no_half_file(tmp_path: Path) -> None:
    (tmp_path / "large_tool_results").write_text("a file where the directory should be")
    with pytest.raises(StorageUnavailableError, match="stays in the context"):
        LargeResults(tmp_path, SMALL).write(plan_eviction([result("x" * 2_000)], SMALL).files)
    assert [place.name for place in tmp_path.iterdir()] == ["large_tool_results"]


def test_a_full_disk_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageUnavailableError, match="No space left"):
        evicted(tmp_path, "x" * 2_000)
    assert not list((tmp_path / "large_tool_results" / "agent").iterdir())


def test_old_files_are_pruned_and_used_ones_stay(tmp_path: Path) -> None:
    results, path = evicted(tmp_path, "old " * 2_000)
    other = plan_eviction([result("new " * 2_000)], SMALL, "second").files
    results.write(other)
    old = (tmp_path / path).stat().st_mtime - 181 * 86_400
    os.utime(tmp_path / path, (old, old))
    assert results.prune(now_s=old + 180 * 86_400) == 0, "the last moment of its days"
    assert results.prune() == 1
    assert not (tmp_path / path).parent.exists()
    assert results.read(other[0].path) is not None
    os.utime(tmp_path / other[0].path, (old, old))
    results.write(other)
    assert results.prune() == 0, "written again is used again"
    assert LargeResults(tmp_path / "nothing").prune() == 0


def test_an_unreadable_directory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, path = evicted(tmp_path, "x" * 2_000)

    def refuse(*_: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageUnavailableError, match="Permission denied"):
        results.read(path)
    monkeypatch.undo()
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(StorageUnavailableError, match="Permission denied"):
        results.prune()


@pytest.mark.parametrize(
    "wrong",
    [{"max_chars": 4_000}, {"directory": "../out"}, {"directory": "/abs"}, {"directory": "a\\b"}, {"unknown": 1}],
)
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ToolResultEvictionConfig.model_validate(wrong)
