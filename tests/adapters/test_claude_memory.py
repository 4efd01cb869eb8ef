"""Claude's memory tool: the documented commands and answers, the SDK's own file tool beside ours, and safe paths."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from anthropic.types.beta import BetaToolUseBlock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_core.adapters.claude_memory import TOOL, ClaudeMemory, anthropic_tool
from memory_core.adapters.claude_paths import human_size, key_of, listing, path_of
from memory_core.contracts import MemorySolution
from memory_core.errors import InvalidKeyError, StorageUnavailableError

Command = dict[str, Any]


@pytest.fixture
def memory(solution: MemorySolution) -> ClaudeMemory:
    return ClaudeMemory(solution)


def create(path: str, text: str = "Ann likes tea\n") -> Command:
    return {"command": "create", "path": path, "file_text": text}


def done(memory: ClaudeMemory, **command: Any) -> str:
    result = memory.run(command)
    assert result.ok, result.text
    return result.text


def refused(memory: ClaudeMemory, **command: Any) -> str:
    result = memory.run(command)
    assert not result.ok
    return result.text


# --- the documented answers ----------------------------------------------------------------------------------------


def test_the_documented_conversation(memory: ClaudeMemory) -> None:
    path = "/memories/preferences.txt"
    assert TOOL == {"type": "memory_20250818", "name": "memory"}
    assert done(memory, command="view", path="/memories") == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n"
        "0B\t/memories"
    )
    text = "Favorite color: blue\nDrinks: tea\n"
    assert done(memory, **create(path, text)) == f"File created successfully at: {path}"
    assert refused(memory, **create(path)) == f"Error: File {path} already exists"
    assert done(memory, command="view", path=path) == (
        f"Here's the content of {path} with line numbers:\n     1\tFavorite color: blue\n     2\tDrinks: tea\n     3\t"
    )
    assert done(memory, command="view", path=path, view_range=[2, 2]).endswith(":\n     2\tDrinks: tea")
    assert done(memory, command="str_replace", path=path, old_str="color: blue", new_str="color: green") == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\tFavorite color: green\n     2\tDrinks: tea\n     3\t"
    )
    assert done(memory, command="insert", path=path, insert_line=1, insert_text="Lives in Ulm\n") == (
        f"The file {path} has been edited."
    )
    assert done(memory, command="view", path=path, view_range=[1, -1]).splitlines()[2] == "     2\tLives in Ulm"
    moved = "/memories/people/ann.txt"
    assert done(memory, command="rename", old_path=path, new_path=moved) == f"Successfully renamed {path} to {moved}"
    assert done(memory, command="view", path="/memories").splitlines()[1:] == [
        "47B\t/memories",
        "47B\t/memories/people/",
        "47B\t/memories/people/ann.txt",
    ]
    assert done(memory, command="delete", path="/memories/people") == "Successfully deleted /memories/people"
    assert refused(memory, command="view", path=moved) == (
        f"Error: The path {moved} does not exist. Please provide a valid path."
    )


def test_edits_that_cannot_be_done_are_answered(memory: ClaudeMemory) -> None:
    path = "/memories/a"
    done(memory, **create(path, "tea\ntea\nlast"))
    assert refused(memory, command="str_replace", path=path, old_str="milk", new_str="x") == (
        f"Error: No replacement was performed, old_str `milk` did not appear verbatim in {path}."
    )
    assert refused(memory, command="str_replace", path=path, old_str="tea", new_str="x") == (
        "Error: No replacement was performed. Multiple occurrences of old_str `tea` in lines: 1, 2. "
        "Please ensure it is unique"
    )
    for line in (-1, 4, None, "1", True, 1.0):
        assert "It should be within the range [0, 3]." in refused(
            memory, command="insert", path=path, insert_line=line, insert_text="x"
        )
    assert refused(memory, command="delete", path="/memories/b") == "Error: The path /memories/b does not exist"
    assert refused(memory, command="rename", old_path="/memories/b", new_path="/memories/c").endswith("does not exist")
    done(memory, **create("/memories/d/e"))
    for destination in ("/memories/d", "/memories/d/e", "/memories"):
        text = refused(memory, command="rename", old_path=path, new_path=destination)
        assert text == f"Error: The destination {destination} already exists"
    assert "lies inside" in refused(memory, command="rename", old_path="/memories/d", new_path="/memories/d/x")
    assert "is a file" in refused(memory, **create("/memories/a/below"))
    assert "is not a file" in refused(memory, command="str_replace", path="/memories/d", old_str="a", new_str="b")
    for command in ("delete", "rename"):
        assert "directory itself" in refused(
            memory, command=command, path="/memories", old_path="/memories/", new_path="/memories/z"
        )
    assert done(memory, command="view", path=path) == (
        f"Here's the content of {path} with line numbers:\n     1\ttea\n     2\ttea\n     3\tlast"
    )


@pytest.mark.parametrize(
    "command",
    [
        None,
        [],
        {},
        {"command": "format"},
        {"command": ["view"]},
        {"command": "view"},
        {"command": "view", "path": 7},
        {"command": "create", "path": "/memories/x"},
        {"command": "create", "path": "/memories/x", "file_text": ["a"]},
        {"command": "create", "path": "/memories/x", "file_text": " \n"},
        {"command": "create", "path": "/memories/x", "file_text": "\ud800"},
        {"command": "create", "path": "/memories/" + "x" * 600, "file_text": "a"},
        {"command": "str_replace", "path": "/memories/kept", "old_str": "", "new_str": "b"},
        {"command": "str_replace", "path": "/memories/kept", "old_str": "Ann likes tea\n", "new_str": ""},
        {"command": "view", "path": "/memories/kept", "view_range": [5, 2]},
        {"command": "view", "path": "/memories/kept", "view_range": "all"},
        {"command": "rename", "old_path": "/memories/kept"},
    ],
)
def test_malformed_commands_change_nothing(memory: ClaudeMemory, solution: MemorySolution, command: Any) -> None:
    done(memory, **create("/memories/kept"))
    result = memory.run(command)
    assert not result.ok
    assert result.text.startswith("Error: ")
    assert [entry.id.key for entry in solution.list_all()] == ["kept"]
    assert solution.list_all()[0].content == "Ann likes tea\n"


def test_a_store_that_fails_is_answered(
    memory: ClaudeMemory, solution: MemorySolution, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: Any, **__: Any) -> Any:
        raise StorageUnavailableError("The store is down.")

    monkeypatch.setattr(solution, "remember", down)
    assert refused(memory, **create("/memories/a")) == "Error: The store is down."


# --- safe paths ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "",
        "memories/a",
        "/memoriesX/a",
        "/memories/../secret",
        "/memories/a/../../b",
        "/memories/./a",
        "/memories//a",
        "/memories/%2e%2e/a",
        "/memories/a%2f..%2fb",
        "/memories/..\\a",
        "/memories/a\\b",
        "/memories/a\x00b",
        "/memories/ /a",
        "/memories/a\nb",
    ],
)
def test_no_path_leads_out(memory: ClaudeMemory, solution: MemorySolution, path: str) -> None:
    with pytest.raises(InvalidKeyError):
        key_of(path)
    for command in ("view", "create", "str_replace", "insert", "delete"):
        assert not memory.run(
            {"command": command, "path": path, "file_text": "x", "old_str": "a", "new_str": "b", "insert_text": "c"}
        ).ok
    done(memory, **create("/memories/a"))
    assert not memory.run({"command": "rename", "old_path": "/memories/a", "new_path": path}).ok
    assert [entry.id.key for entry in solution.list_all()] == ["a"]


@given(st.text(max_size=30) | st.lists(st.sampled_from(["a", "..", ".", "", "%2e", "中", "b c"])).map("/".join))
def test_every_key_has_one_path_or_none(key: str) -> None:
    path = path_of(key)
    if path is not None:
        assert key_of(path) == key
        assert ".." not in path.split("/")


def test_each_user_has_their_own_files(solution: MemorySolution) -> None:
    alice, bob = ClaudeMemory(solution, user_id="alice"), ClaudeMemory(solution, user_id="bob")
    done(bob, **create("/memories/a", "Bob's"))
    assert "/memories/a" not in done(alice, command="view", path="/memories")
    assert "does not exist" in refused(alice, command="delete", path="/memories/a")
    assert "Bob's" in done(bob, command="view", path="/memories/a", user_id="alice")


# --- one store with the rest ---------------------------------------------------------------------------------------


def test_files_are_memories_and_memories_are_files(memory: ClaudeMemory, solution: MemorySolution) -> None:
    solution.remember("user-drink", "Drinks oolong", 9, metadata={"from": "chat"}, scope="user")
    assert "Drinks oolong" in done(memory, command="view", path="/memories/user-drink")
    done(memory, command="str_replace", path="/memories/user-drink", old_str="oolong", new_str="sencha")
    entry = solution.recall("user-drink")
    assert entry is not None
    assert (entry.content, entry.importance, entry.id.scope) == ("Drinks sencha", 9, "user")
    assert entry.metadata == {"from": "chat"}
    assert entry.expires_at is not None
    done(memory, **create("/memories/notes/deploy.md", "Deploy on Fridays is forbidden"))
    [hit, *_] = solution.search("deploy on fridays")
    assert hit.entry.id.key == "notes/deploy.md"
    assert hit.entry.expires_at is None
    solution.remember("a//b", "has no path", 5)
    assert "a//b" not in done(memory, command="view", path="/memories")


def test_a_shadowed_copy_does_not_come_back_after_a_deletion(memory: ClaudeMemory, solution: MemorySolution) -> None:
    solution.remember("k", "low", 5, scope="user")
    solution.remember("k", "high", 5, scope="workspace")
    done(memory, command="delete", path="/memories/k")
    assert refused(memory, command="view", path="/memories/k").endswith("Please provide a valid path.")


def test_a_directory_is_renamed_whole(memory: ClaudeMemory, solution: MemorySolution) -> None:
    for name in ("a", "b/c", "b/d"):
        done(memory, **create(f"/memories/old/{name}", name))
    done(memory, **create("/memories/older", "stays"))
    done(memory, command="rename", old_path="/memories/old", new_path="/memories/new/place")
    assert {entry.id.key: entry.content for entry in solution.list_all()} == {
        "new/place/a": "a",
        "new/place/b/c": "b/c",
        "new/place/b/d": "b/d",
        "older": "stays",
    }


def test_renaming_touches_no_other_scope_s_copy(memory: ClaudeMemory, solution: MemorySolution) -> None:
    solution.remember("notes", "everywhere", scope="user")
    solution.remember("notes", "here", scope="workspace")
    text = done(memory, command="rename", old_path="/memories/notes", new_path="/memories/old-notes")
    assert text.endswith("Another scope has files at /memories/notes too.")
    assert {(entry.id.scope, entry.id.key): entry.content for entry in solution.list_all()} == {
        ("user", "notes"): "everywhere",
        ("workspace", "old-notes"): "here",
    }


def test_a_listing_has_two_levels_no_hidden_names_and_an_end() -> None:
    sizes = {"a/b/c": 2048, "a/b/d": 1, ".git/x": 5, "a/.h": 1, "node_modules/x": 1, "z": 1536}
    assert listing("/memories/", "", sizes).splitlines()[1:] == [
        f"{human_size(3592)}\t/memories",
        "2.0K\t/memories/a/",
        "2.0K\t/memories/a/b/",
        "1.5K\t/memories/z",
    ]
    many = listing("/memories", "", {f"k{number:04}": 1 for number in range(1_200)})
    assert many.endswith("… and 200 more; view a directory below.")
    assert [human_size(size) for size in (0, 1, 1023, 1024, 1024**2, 5 * 1024**4)] == [
        "0B",
        "1B",
        "1023B",
        "1K",
        "1M",
        "5120G",
    ]


# --- Anthropic's SDK -----------------------------------------------------------------------------------------------


def test_the_sdks_runner_drives_it(memory: ClaudeMemory, solution: MemorySolution) -> None:
    tool = anthropic_tool(memory)
    assert tool.to_dict() == TOOL
    assert tool.call(create("/memories/a")) == "File created successfully at: /memories/a"
    assert solution.recall("a") is not None
    for command in (
        {"command": "view", "path": "/memories/a", "view_range": [1, 1]},
        {"command": "str_replace", "path": "/memories/a", "old_str": "tea", "new_str": "milk"},
        {"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x"},
        {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"},
        {"command": "delete", "path": "/memories/b"},
    ):
        assert tool.call(command)
    with pytest.raises(ToolError, match="does not exist"):
        tool.call({"command": "delete", "path": "/memories/b"})


def test_a_block_of_a_reply_gets_its_result_block(memory: ClaudeMemory) -> None:
    block = BetaToolUseBlock(id="toolu_1", name="memory", type="tool_use", input=create("/memories/a"))
    answer = memory.answer(block)
    assert answer == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": "File created successfully at: /memories/a",
    }
    again = memory.answer(block.model_dump())
    assert again["is_error"] is True
    assert again["content"] == "Error: File /memories/a already exists"


PATHS = st.sampled_from(["/memories/a", "/memories/b.md", "/memories/d/x", "/memories/d/y", "/memories/d", "/memories"])
TEXTS = st.sampled_from(["tea", "tea\nmilk\n", "milk\ntea\nmilk", "中文\n\nend\n", "a\r\nb\r\n", "x\n\n"])
COMMANDS = st.one_of(
    st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": TEXTS}),
    st.fixed_dictionaries({"command": st.just("delete"), "path": PATHS}),
    st.fixed_dictionaries({"command": st.just("rename"), "old_path": PATHS, "new_path": PATHS}),
    st.fixed_dictionaries(
        {
            "command": st.just("str_replace"),
            "path": PATHS,
            "old_str": st.sampled_from(["tea", "milk", "\n", "中"]),
            "new_str": st.sampled_from(["juice", "tea\ntea", "é"]),
        }
    ),
    st.fixed_dictionaries(
        {"command": st.just("insert"), "path": PATHS, "insert_line": st.integers(-1, 4), "insert_text": TEXTS}
    ),
    st.fixed_dictionaries({"command": st.just("view"), "path": PATHS.filter(lambda path: path[-1] not in "sd")}),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commands=st.lists(COMMANDS, min_size=1, max_size=12))
def test_it_answers_as_the_sdks_tool_over_files(
    tmp_path: Path, solution: MemorySolution, commands: list[Command]
) -> None:
    number = uuid4().hex  # a store of its own for each example
    ours = ClaudeMemory(solution, user_id=number)
    theirs = BetaLocalFilesystemMemoryTool(str(tmp_path / number))
    folder = tmp_path / number / "memories" / "d"
    for command in commands:
        try:
            expected = str(theirs.call(command))
        except ToolError as error:
            expected = f"Error: {error}"
        except OSError:  # a file where a directory is needed, or a directory into itself: theirs breaks, ours answers
            assert not ours.run(command).ok
            return
        result = ours.run(command)
        if folder.is_dir() and not any(folder.iterdir()):
            return  # theirs keeps, and even makes, empty directories; ours are made of their files
        assert result.text == expected, command
        assert result.ok == (not expected.startswith("Error: "))
