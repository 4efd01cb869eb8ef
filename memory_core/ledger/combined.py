"""MemoryTalent and LedgerTalent for one agent: every tool once, and one `memory_search` over both."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from memory_core.errors import MemoryCoreError
from memory_core.ledger.blocks import normalised
from memory_core.ledger.index import MAX_HITS
from memory_core.ledger.talent import LedgerTalent, hit_fields, hit_line
from memory_core.policy import MAX_TOP_K
from memory_core.serial import to_fields
from memory_core.talent import showing
from memory_core.talent.fence import one_line, shorten
from memory_core.talent.specs import ToolContext, ToolResult, ToolSpec, check_arguments, parse_whole
from memory_core.talent.talent import MemoryTalent
from memory_core.talent.wording import wording

DEFAULT_COUNT = 10
"""How many hits of the two together; each alone would give 5 and 30."""


class CombinedTalent:
    """Both talents as one: the same methods, no name twice.

    `memory_search` ranks keyed memories and ledger lines in one answer, best first, each with its source; of the same
    text only the keyed memory is shown. `*` lists the keyed memories. One that fails is named, the other answers.
    """

    def __init__(self, memory: MemoryTalent, ledger: LedgerTalent) -> None:
        self.memory = memory
        self.ledger = ledger

    def tools(self, cwd: Path | str = ".") -> list[ToolSpec]:
        """Return the tools of both; when one of them is off, those of the other."""
        keyed, lines = self.memory.tools(), self.ledger.tools(cwd)
        if not keyed or not lines:
            return [*keyed, *lines]
        merged: list[ToolSpec] = []
        for spec in keyed:
            if spec.name == "memory_search":
                description = f"{spec.description} {lines[0].description}"
                properties = spec.parameters["properties"]
                top_k = {**properties["top_k"], "default": DEFAULT_COUNT}
                schema = {**spec.parameters, "properties": {**properties, "top_k": top_k}}
                merged.append(ToolSpec(spec.name, description, schema, partial(self._search, spec)))
            else:
                merged.append(spec)
        names = {spec.name for spec in merged}
        return [*merged, *(spec for spec in lines if spec.name not in names)]

    def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run the tool of that name with whatever arguments a model sent."""
        specs = {spec.name: spec for spec in self.tools(context.cwd)}
        if name not in specs:
            reason = f"there is no tool {name!r}; there are: {', '.join(specs) or 'none'}"
            return ToolResult(
                wording(self.memory.locale).failed.format(reason=one_line(reason)), {"error": reason}, ok=False
            )
        return specs[name].run(arguments, context)

    def instruction(self, user_input: str = "", *, cwd: Path | str = ".", session_id: str | None = None) -> str:
        """Return both instructions, the ledger's first."""
        parts = (
            talent.instruction(user_input, cwd=cwd, session_id=session_id) for talent in (self.ledger, self.memory)
        )
        return "\n\n".join(filter(None, parts))

    def _search(self, spec: ToolSpec, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        words = wording(self.memory.locale)
        query = arguments.get("query") if check_arguments(spec.parameters, arguments) is None else None
        wanted = arguments.get("top_k")
        count = parse_whole(DEFAULT_COUNT if wanted is None else wanted, 1, MAX_TOP_K) if query else None
        if not isinstance(query, str) or not query.strip() or query.strip() == "*" or count is None:
            return spec.run(arguments, context)  # a listing, or a call that is wrong and is told so
        found: list[tuple[float, int, str, dict[str, Any]]] = []
        problems: list[str] = []
        try:
            hits = self.memory.found(query, count, cwd=context.cwd, session_id=context.session_id)
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the ledger answers and the model is told
            problems.append(self.memory.failure(error).text)
        else:
            for rank, hit in enumerate(hits):
                fields = {**to_fields(hit.entry), "score": hit.score, "source": hit.entry.id.key}
                found.append((-hit.score, rank, showing.line(words, hit.entry), fields))
        known = {normalised(fields["content"]) for _, _, _, fields in found}
        try:
            for rank, row in enumerate(self.ledger.ledger(context.cwd).search(query, min(count, MAX_HITS))):
                if normalised(row.text) not in known:
                    # Of equal scores the keyed memory comes first: it was stored on purpose.
                    found.append((-row.score, MAX_TOP_K + rank, hit_line(row), hit_fields(row)))
        except MemoryCoreError as error:
            problems.append(words.failed.format(reason=one_line(str(error))))
        found.sort(key=lambda row: row[:2])
        chosen = found[:count]
        asked = one_line(shorten(query, 200))
        head = words.hits.format(count=len(chosen), query=asked) if chosen else words.no_hits.format(query=asked)
        if len(problems) == 2:
            return ToolResult("\n".join(problems), {"error": "; ".join(problems), "hits": []}, ok=False)
        data = {"hits": [fields for _, _, _, fields in chosen], "problems": problems}
        lines = showing.fitting(words, [(fields["source"], text) for _, _, text, fields in chosen])
        return ToolResult("\n".join([head, *lines, *problems]), data)
