"""The LedgerTalent: the ledger's three tools and its part of the instruction, for an agent."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memory_core.errors import MemoryCoreError
from memory_core.ledger.index import MAX_HITS, LedgerHit
from memory_core.ledger.inject import DEFAULT_BUDGET_TOKENS, check_budget
from memory_core.ledger.ledger import Ledger
from memory_core.ledger.wording import wording_for
from memory_core.locales import language
from memory_core.talent.fence import one_line, quoted, shorten
from memory_core.talent.specs import ToolContext, ToolResult, ToolSpec, check_arguments, parse_whole

log = logging.getLogger(__name__)

MAX_LINE_CHARS = 500
_MAX_LINE_NUMBER = 10_000_000


class LedgerTalent:
    """`memory_search`, `memory_get` and `memory_save`, and `MEMORY.md` with the guidance for the system prompt.

    Tools never raise for what a model sends or a disk does: a failure reaches the model as a failure.

    Args:
        ledger: The ledger, or a function that gives the ledger of a working directory.
        locale: `en` or `zh`; by default the ledger's.
        budget_tokens: How much of the prompt the workspace's memory may take.

    Raises:
        BudgetError: The budget is negative or too small to hold a block.
    """

    def __init__(
        self,
        ledger: Ledger | Callable[[str], Ledger],
        *,
        locale: str | None = None,
        budget_tokens: int = DEFAULT_BUDGET_TOKENS,
    ) -> None:
        self._ledger = ledger
        self._locale = None if locale is None else language(locale)
        self.budget_tokens = check_budget(budget_tokens)

    def ledger(self, cwd: Path | str = ".") -> Ledger:
        """Return the ledger that serves `cwd`."""
        return self._ledger if isinstance(self._ledger, Ledger) else self._ledger(str(cwd))

    def locale(self, cwd: Path | str = ".") -> str:
        """Return the locale of the texts."""
        return self._locale or self.ledger(cwd).locale

    def instruction(self, user_input: str = "", *, cwd: Path | str = ".", session_id: str | None = None) -> str:
        """Return the guidance and the block of `MEMORY.md`; empty where both are disabled.

        When `MEMORY.md` cannot be read the guidance stands alone, with the reason.
        """
        del user_input, session_id  # the whole of MEMORY.md is injected, whatever is asked
        ledger, words = self.ledger(cwd), wording_for(self.locale(cwd))
        parts = [] if ledger.disable_memory_tools else [words.guidance]
        try:
            parts.append(ledger.context_block(self.budget_tokens))
        except MemoryCoreError as error:
            log.warning("MEMORY.md could not be injected: %s", error)
            parts.append(words.failed.format(error=one_line(str(error))))
        return "\n\n".join(filter(None, parts))

    def tools(self, cwd: Path | str = ".") -> list[ToolSpec]:
        """Return the three tools with their JSON Schemas; none where they are disabled."""
        if self.ledger(cwd).disable_memory_tools:
            return []
        words = wording_for(self.locale(cwd))
        line = {"type": "integer", "minimum": 1}
        return [
            _spec("memory_search", words.search_description, {"query": _text(words.search_query)}, self._search),
            _spec(
                "memory_get",
                words.get_description,
                {
                    "path": _text(words.get_path),
                    "start_line": {**line, "description": words.get_start},
                    "end_line": {**line, "description": words.get_end},
                },
                self._get,
                required=("path",),
            ),
            _spec("memory_save", words.save_description, {"content": _text(words.save_content)}, self._save),
        ]

    def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run the tool of that name with whatever arguments a model sent."""
        specs = {spec.name: spec for spec in self.tools(context.cwd)}
        if name not in specs:
            return self._failure(f"there is no tool {name!r}; there are: {', '.join(specs) or 'none'}", context)
        return specs[name].run(arguments, context)

    def _search(self, given: Mapping[str, Any], context: ToolContext) -> ToolResult:
        words = wording_for(self.locale(context.cwd))
        query = given["query"]
        if not isinstance(query, str) or not query.strip():
            return ToolResult(words.blank_query, {"error": "blank", "hits": []}, ok=False)
        try:
            hits = self.ledger(context.cwd).search(query, MAX_HITS)
        except MemoryCoreError as error:
            return self._failure(str(error), context)
        if not hits:
            return ToolResult(words.found_none, {"hits": []})
        lines = [words.found.format(count=len(hits)), *map(hit_line, hits)]
        return ToolResult("\n".join(lines), {"hits": [hit_fields(hit) for hit in hits]})

    def _get(self, given: Mapping[str, Any], context: ToolContext) -> ToolResult:
        words = wording_for(self.locale(context.cwd))
        path = given["path"]
        numbers: list[int | None] = []
        for name in ("start_line", "end_line"):
            value = given.get(name)
            number = None if value is None else parse_whole(value, -1, _MAX_LINE_NUMBER)
            if value is not None and number is None:
                return self._failure(f"{name} is {value!r}; it must be a whole number from 1 on", context)
            numbers.append(number)
        if not isinstance(path, str):
            return self._failure(f"path is {path!r}; it must be text", context)
        try:
            found = self.ledger(context.cwd).get(path, *numbers)
        except MemoryCoreError as error:
            return self._failure(str(error), context)
        head = words.got.format(path=found.path, start=found.start, end=found.end, total=found.total)
        body = quoted("\n".join(f"{number}: {line}" for number, line in enumerate(found.lines, found.start)))
        more = f"\n{words.got_more.format(next=found.end + 1)}" if found.cut else ""
        data = {"path": found.path, "start": found.start, "end": found.end, "total": found.total, "lines": found.lines}
        return ToolResult(f"{head}\n{body}{more}", data)

    def _save(self, given: Mapping[str, Any], context: ToolContext) -> ToolResult:
        words = wording_for(self.locale(context.cwd))
        content = given["content"]
        if not isinstance(content, str):
            return self._failure(f"content is {type(content).__name__}; it must be text", context)
        ledger = self.ledger(context.cwd)
        try:
            done = ledger.save(content)
        except MemoryCoreError as error:
            return self._failure(str(error), context)
        if done.path is None:
            return ToolResult(words.saved_already, {"path": None})
        path = ledger.places.relative(done.path)
        return ToolResult(words.saved.format(path=path), {"path": path})

    def _failure(self, reason: str, context: ToolContext) -> ToolResult:
        words = wording_for(self.locale(context.cwd))
        return ToolResult(words.failed.format(error=one_line(reason)), {"error": reason}, ok=False)


def hit_line(hit: LedgerHit) -> str:
    """Return a hit as one line for the model: `path#line: text`."""
    return f"{one_line(hit.path)}#{hit.line}: {shorten(hit.text, MAX_LINE_CHARS)}"


def hit_fields(hit: LedgerHit) -> dict[str, Any]:
    """Return a hit for programs."""
    return {
        "source": f"{hit.path}#{hit.line}",
        "path": hit.path,
        "line": hit.line,
        "text": hit.text,
        "score": hit.score,
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


Run = Callable[[Mapping[str, Any], ToolContext], ToolResult]


def _spec(
    name: str, description: str, properties: dict[str, Any], run: Run, required: tuple[str, ...] | None = None
) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }

    def checked(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        reason = check_arguments(schema, arguments)
        if reason is not None:
            return ToolResult(f"Failed: {one_line(reason)}", {"error": reason}, ok=False)
        return run(arguments, context)

    return ToolSpec(name, description, schema, checked)
