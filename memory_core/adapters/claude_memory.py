"""Claude's memory tool (`memory_20250818`) over a solution: six commands on files under `/memories`.

A file is a memory: its path below `/memories` is the key, its text the content. What other tools remembered is there
as a file too, and what Claude writes is found by every search. Directories are what the keys say: they come with their
first file and go with their last. Answers are worded as the tool's documentation has them.
"""

from collections.abc import Callable, Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

from memory_core.adapters.claude_paths import key_of, listing, numbered, path_of
from memory_core.contracts import MemorySolution
from memory_core.errors import MemoryCoreError, MissingExtraError
from memory_core.model import HOT_IMPORTANCE, SHARED_USER_ID, MemoryEntry, clean_name
from memory_core.policy import FOREVER
from memory_core.talent.specs import ToolResult

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaAbstractMemoryTool

TOOL: Mapping[str, str] = {"type": "memory_20250818", "name": "memory"}
"""What goes into the `tools=[…]` of a request."""
SOURCE = "claude"
MAX_LINES = 999_999
_CONTEXT_LINES = 2


class _RefusedError(Exception):
    """A command that cannot be done; the text is the answer."""


class ClaudeMemory:
    """Runs the memory tool's commands for one user. Safe for threads; never raises for what a model sends.

    Args:
        solution: Where the memories are.
        user_id: Whose they are; no command can name another.
        scope: Where new files go, and the only one that is read; None reads all and writes the default one.
        importance: The importance of new files. They are kept for ever; a file that exists keeps its own.
    """

    def __init__(
        self,
        solution: MemorySolution,
        *,
        user_id: str = SHARED_USER_ID,
        scope: str | None = None,
        importance: int = HOT_IMPORTANCE,
    ) -> None:
        self._solution = solution
        self._user_id = user_id
        self._scope = scope
        self._importance = importance
        self._lock = RLock()
        self._commands: dict[str, Callable[[Mapping[str, Any]], str]] = {
            "view": self._view,
            "create": self._create,
            "str_replace": self._str_replace,
            "insert": self._insert,
            "delete": self._delete,
            "rename": self._rename,
        }

    def run(self, command: Any) -> ToolResult:
        """Run the `input` of a `tool_use` block; a failure is `ok=False` with its reason as the text."""
        fields = cast("Mapping[str, Any]", command if isinstance(command, Mapping) else {})
        name = fields.get("command")
        run = self._commands.get(name) if isinstance(name, str) else None
        try:
            if run is None:
                raise _RefusedError(f"Unknown command: {name}. There are: {', '.join(self._commands)}.")
            with self._lock:
                return ToolResult(run(fields))
        except (_RefusedError, MemoryCoreError) as error:
            return ToolResult(f"Error: {error}", {"error": str(error)}, ok=False)

    def answer(self, block: Any) -> dict[str, Any]:
        """Return the `tool_result` block for a `tool_use` block of the memory tool (an object or a dictionary)."""
        fields: Any = block if isinstance(block, Mapping) else block.model_dump()  # pyright: ignore[reportUnknownVariableType]
        result = self.run(fields.get("input"))
        answer = {"type": "tool_result", "tool_use_id": fields.get("id"), "content": result.text}
        return answer if result.ok else {**answer, "is_error": True}

    # --- commands --------------------------------------------------------------------------------------------------

    def _view(self, command: Mapping[str, Any]) -> str:
        path, key = command.get("path"), key_of(command.get("path"))
        entry = self._file(key)
        if entry is None:
            files = self._files()
            if key and not any(name.startswith(f"{key}/") for name in files):
                raise _RefusedError(f"The path {path} does not exist. Please provide a valid path.")
            return listing(str(path), key, {name: len(found.content.encode()) for name, found in files.items()})
        lines = entry.content.split("\n")
        if len(lines) > MAX_LINES:
            raise _RefusedError(f"File {path} exceeds maximum line limit of 999,999 lines.")
        first, last = _view_range(command.get("view_range"), len(lines))
        return f"Here's the content of {path} with line numbers:\n{numbered(lines[first - 1 : last], first)}"

    def _create(self, command: Mapping[str, Any]) -> str:
        path, key = command.get("path"), key_of(command.get("path"))
        text = _text(command, "file_text")
        if not key or self._file(key) is not None or self._below(key):
            raise _RefusedError(f"File {path} already exists")
        self._check_parents(key)
        self._write(key, text, None)
        return f"File created successfully at: {path}"

    def _str_replace(self, command: Mapping[str, Any]) -> str:
        path, entry = command.get("path"), self._existing(command)
        old, new = _text(command, "old_str"), _text(command, "new_str", "")
        if not old:
            raise _RefusedError("No replacement was performed, old_str is empty.")
        places = _places(entry.content, old)
        if not places:
            raise _RefusedError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
        at = [entry.content.count("\n", 0, place) + 1 for place in places]
        if entry.content.count(old) > 1:
            raise _RefusedError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                f"{', '.join(map(str, at))}. Please ensure it is unique"
            )
        content = entry.content.replace(old, new)
        self._write(entry.id.key, content, entry)
        first = max(1, at[0] - _CONTEXT_LINES)
        shown = content.split("\n")[first - 1 : at[0] + _CONTEXT_LINES]
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + numbered(shown, first)
        )

    def _insert(self, command: Mapping[str, Any]) -> str:
        path, entry = command.get("path"), self._existing(command)
        number, text = command.get("insert_line"), _text(command, "insert_text")
        lines = entry.content.removesuffix("\n").split("\n")
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= len(lines):
            raise _RefusedError(
                f"Invalid `insert_line` parameter: {number}. It should be within the range [0, {len(lines)}]."
            )
        lines.insert(number, text.rstrip("\n"))
        self._write(entry.id.key, "\n".join(lines).removesuffix("\n") + "\n", entry)
        return f"The file {path} has been edited."

    def _delete(self, command: Mapping[str, Any]) -> str:
        path, key = command.get("path"), key_of(command.get("path"))
        if not key:
            raise _RefusedError("Cannot delete the /memories directory itself")
        gone = [key] if self._file(key) is not None else list(self._below(key))
        if not gone:
            raise _RefusedError(f"The path {path} does not exist")
        for name in gone:
            self._solution.forget(name, user_id=self._user_id, scope=self._scope)
        return f"Successfully deleted {path}"

    def _rename(self, command: Mapping[str, Any]) -> str:
        old_path, new_path = command.get("old_path"), command.get("new_path")
        old, new = key_of(old_path), key_of(new_path)
        if not old:
            raise _RefusedError("Cannot rename the /memories directory itself")
        entry = self._file(old)
        moved = {old: entry} if entry is not None else self._below(old)
        if not new or self._file(new) is not None or self._below(new):
            raise _RefusedError(f"The destination {new_path} already exists")
        if not moved:
            raise _RefusedError(f"The path {old_path} does not exist")
        if new.startswith(f"{old}/"):
            raise _RefusedError(f"The destination {new_path} lies inside {old_path}")
        self._check_parents(new)
        for name in moved:
            clean_name(new + name.removeprefix(old), "path")  # none is too long before the first is written
        for name, found in moved.items():  # all copies are durable before the first original goes
            self._write(new + name.removeprefix(old), found.content, found)
        for name, found in moved.items():
            self._solution.forget(name, user_id=self._user_id, scope=found.id.scope)
        still = "" if not any(self._file(name) for name in moved) else f" Another scope has files at {old_path} too."
        return f"Successfully renamed {old_path} to {new_path}{still}"

    # --- files -----------------------------------------------------------------------------------------------------

    def _file(self, key: str) -> MemoryEntry | None:
        return self._solution.recall(key, user_id=self._user_id, scope=self._scope) if key else None

    def _existing(self, command: Mapping[str, Any]) -> MemoryEntry:
        path, key = command.get("path"), key_of(command.get("path"))
        entry = self._file(key)
        if entry is None:
            if not key or self._below(key):
                raise _RefusedError(f"The path {path} is not a file.")
            raise _RefusedError(f"The path {path} does not exist. Please provide a valid path.")
        return entry

    def _files(self) -> dict[str, MemoryEntry]:
        scopes = None if self._scope is None else (self._scope,)
        limit = max(1, self._solution.count(user_id=self._user_id))
        found = self._solution.list_all(user_id=self._user_id, limit=limit, scopes=scopes)
        return {entry.id.key: entry for entry in found if path_of(entry.id.key) is not None}

    def _below(self, key: str) -> dict[str, MemoryEntry]:
        return {name: entry for name, entry in self._files().items() if name.startswith(f"{key}/")}

    def _check_parents(self, key: str) -> None:
        parts = key.split("/")
        for depth in range(1, len(parts)):
            parent = "/".join(parts[:depth])
            if self._file(parent) is not None:
                raise _RefusedError(f"The path /memories/{parent} is a file, not a directory.")

    def _write(self, key: str, text: str, old: MemoryEntry | None) -> None:
        if not text.strip():
            raise _RefusedError("A memory file cannot be empty. Delete it, or give it some text.")
        self._solution.remember(
            key,
            text,
            self._importance if old is None else old.importance,
            user_id=self._user_id,
            scope=self._scope if old is None else old.id.scope,
            source=SOURCE,
            metadata=None if old is None else old.metadata,
            ttl_s=None if old is not None and old.expires_at is not None else FOREVER,
        )


def anthropic_tool(memory: ClaudeMemory) -> "BetaAbstractMemoryTool":
    """Return the tool for `client.beta.messages.run_tools(tools=[…])` of Anthropic's SDK.

    Raises:
        MissingExtraError: The package `anthropic` is not installed.
    """
    try:
        from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "Claude's memory tool needs the package 'anthropic': pip install 'memory-talent[anthropic]'."
        ) from error

    class MemoryTool(BetaAbstractMemoryTool):
        def execute(self, command: Any) -> str:
            result = memory.run(command if isinstance(command, Mapping) else command.model_dump())
            if not result.ok:
                raise ToolError(result.text)
            return result.text

        view = create = str_replace = insert = delete = rename = execute

    return MemoryTool()


def _text(command: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = command.get(name, default)
    if not isinstance(value, str):
        raise _RefusedError(f"The parameter `{name}` must be text.")
    return value


def _view_range(given: object, total: int) -> tuple[int, int]:
    if given is None:
        return 1, total
    match given:
        case [int() as first, int() as last] if last == -1 or last >= first:
            return max(1, first), total if last == -1 else last
        case _:
            raise _RefusedError(f"Invalid `view_range` parameter: {given}. Give two line numbers, or -1 for the end.")


def _places(text: str, part: str) -> list[int]:
    found: list[int] = []
    place = text.find(part)
    while place >= 0:
        found.append(place)
        place = text.find(part, place + 1)
    return found
