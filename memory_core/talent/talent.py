"""The MemoryTalent: what an agent gets from a provider."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memory_core.contracts import MemorySolution, MemorySolutionProvider
from memory_core.errors import MemoryCoreError
from memory_core.model import MAX_IMPORTANCE, MIN_IMPORTANCE, SHARED_USER_ID, MemoryEntry, SearchHit
from memory_core.policy import (
    DEFAULT_PRIORITY_COUNT,
    DEFAULT_RELEVANCE_COUNT,
    DEFAULT_SUMMARY_CHARS,
    DEFAULT_TOP_K,
    FRAGMENT_BELOW,
    FRAGMENT_LIMIT,
    MAX_LISTED,
    MAX_TOP_K,
    MIN_SUMMARY_CHARS,
)
from memory_core.serial import to_fields
from memory_core.talent import showing
from memory_core.talent.fence import fenced, one_line, shorten, strip_blocks
from memory_core.talent.schemas import tool_specs
from memory_core.talent.settings import Count
from memory_core.talent.specs import ToolContext, ToolResult, ToolSpec, parse_whole
from memory_core.talent.wording import wording
from memory_core.text import similarity
from memory_core.tracing import Span, span

log = logging.getLogger(__name__)

NEAR_PROBE = 3
NEAR_THRESHOLD = 0.5
"""From this similarity (Jaccard index of token sets) on, another key is named as alike."""

_LIST_ALL = "*"
_REASON_CHARS = 1_000  # a model that sent a million characters does not want them back
_EXCERPT_CHARS = 4_000


class MemoryTalent:
    """Five memory tools and the instruction for an agent.

    Tools return text for the model and data for programs. They never raise for what a model sends or a store does: a
    failure reaches the model as a failure, and nothing is called saved that is not durable. Whose memory is used comes
    from the caller (`session_id`), never from the model.

    Args:
        provider: Gives the solution for a working directory.
        locale: `en` or `zh`.
        session_isolation: Keep the memories of each session apart instead of sharing them.
        relevance_injection: Inject what fits the user's input beside the hot memories; False: hot ones only.
        relevance_count: How many fitting memories are injected at most.
        priority_count: How many hot memories are injected beside them; what the search does not use flows here.
        summary_length: Characters of a summary in the `*` listing.
        enabled: Off means off: no call, nothing read, nothing written.

    Raises:
        BudgetError, ConfigError: A count is out of its range, or there is no such locale.
    """

    relevance_count = Count("How many memories that fit the input are injected at most.")
    priority_count = Count("How many hot memories are injected beside the fitting ones.")
    summary_length = Count("Characters of a summary in the `*` listing.", MIN_SUMMARY_CHARS)

    def __init__(
        self,
        provider: MemorySolutionProvider,
        *,
        locale: str = "en",
        session_isolation: bool = False,
        relevance_injection: bool = True,
        relevance_count: int = DEFAULT_RELEVANCE_COUNT,
        priority_count: int = DEFAULT_PRIORITY_COUNT,
        summary_length: int = DEFAULT_SUMMARY_CHARS,
        enabled: bool = True,
    ) -> None:
        self.provider = provider
        self.locale = locale
        self.session_isolation = session_isolation
        self.relevance_injection = relevance_injection
        self.relevance_count = relevance_count
        self.priority_count = priority_count
        self.summary_length = summary_length
        self.enabled = enabled
        self._words = wording(locale)

    # --- the five tools --------------------------------------------------------------------------------------------

    def extract(
        self,
        key: str,
        fact: str,
        importance: object,
        scope: str | None = None,
        *,
        cwd: Path | str = ".",
        session_id: str | None = None,
    ) -> ToolResult:
        """Store or overwrite a fact; say what it replaced, what is alike, and when fragments pile up."""
        words = self._words
        if not self.enabled:
            return self._off()
        number = parse_whole(importance, MIN_IMPORTANCE, MAX_IMPORTANCE)
        if number is None:
            return self.failure(words.bad_importance.format(value=repr(importance)[:_REASON_CHARS]))
        user_id = self.user_id(session_id)
        try:
            solution = self.provider.get(cwd)
            done = solution.remember(key, strip_blocks(fact), number, user_id=user_id, scope=scope or None)
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the model must be told
            return self.failure(error)
        entry, previous = done.entry, done.previous
        lines = [words.saved.format(**showing.fields(words, entry)), *self._shadow(solution, entry)]
        data: dict[str, Any] = {"entry": to_fields(entry), "previous": to_fields(previous) if previous else None}
        if previous is not None:
            lines.append(words.overwrote.format(time=showing.moment(previous), content=_excerpt(previous.content)))
        else:
            try:
                near, fragments = self._near(solution, entry), self._fragments(solution, user_id)
            except Exception as error:  # noqa: BLE001 - the fact is stored, whatever the index says
                near, fragments = [], 0
                lines.append(words.index_failed.format(reason=one_line(_reason(error))))
            if near:
                lines.append(words.near_keys.format(keys=", ".join(one_line(key) for key in near)))
            if fragments >= FRAGMENT_LIMIT and entry.importance < FRAGMENT_BELOW:
                lines.append(words.fragments.format(count=fragments))
            data |= {"near_keys": near, "fragments": fragments}
        return ToolResult("\n".join(lines), data)

    def recall(self, key: str, *, cwd: Path | str = ".", session_id: str | None = None) -> ToolResult:
        """Read one memory by its exact key; when there is none, name similar keys."""
        words = self._words
        if not self.enabled:
            return self._off()
        user_id = self.user_id(session_id)
        try:
            solution = self.provider.get(cwd)
            entry = solution.recall(key, user_id=user_id)
            if entry is not None:
                text = words.found.format(**showing.fields(words, entry), content=showing.whole(words, entry.content))
                return ToolResult(text, {"entry": to_fields(entry)})
            near = self._similar_names(solution, key, user_id)
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the model must be told
            return self.failure(error)
        lines = [words.not_found.format(key=one_line(key))]
        if near:
            lines.append(words.near_names.format(keys=", ".join(one_line(name) for name in near)))
        return ToolResult("\n".join(lines), {"entry": None, "near_keys": near})

    def search(
        self, query: str, top_k: object = DEFAULT_TOP_K, *, cwd: Path | str = ".", session_id: str | None = None
    ) -> ToolResult:
        """Find memories by words or meaning; `*` lists all by importance."""
        words = self._words
        if not self.enabled:
            return self._off()
        count = parse_whole(top_k, 1, MAX_TOP_K)
        if count is None:
            return self.failure(f"top_k: {top_k!r}")
        try:
            if query.strip() == _LIST_ALL:
                return self._list(self.provider.get(cwd), self.user_id(session_id))
            hits = self.found(query, count, cwd=cwd, session_id=session_id)
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the model must be told
            return self.failure(error)
        asked = one_line(shorten(query, 200))
        if not hits:
            return ToolResult(words.no_hits.format(query=asked), {"hits": []})
        lines = showing.lines(words, [hit.entry for hit in hits])
        data = [{**to_fields(hit.entry), "score": hit.score} for hit in hits]
        head = words.hits.format(count=len(hits), query=asked)
        return ToolResult("\n".join([head, *lines]), {"hits": data})

    def consolidate(
        self,
        keys_to_merge: Sequence[str],
        new_key: str,
        evolved_insight: str,
        scope: str | None = None,
        *,
        cwd: Path | str = ".",
        session_id: str | None = None,
    ) -> ToolResult:
        """Write an insight, verify it, and only then remove what it merges; name what is left."""
        words = self._words
        if not self.enabled:
            return self._off()
        try:
            solution = self.provider.get(cwd)
            done = solution.consolidate(
                keys_to_merge,
                new_key,
                strip_blocks(evolved_insight),
                user_id=self.user_id(session_id),
                scope=scope or None,
            )
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the model must be told
            return self.failure(error)
        removed = list(dict.fromkeys(id.key for id in done.removed))
        entry = done.entry
        lines = [
            words.consolidated.format(
                key=one_line(entry.id.key), scope=entry.id.scope, removed=", ".join(map(one_line, removed)) or "—"
            )
        ]
        if entry.id.key in keys_to_merge:
            lines.append(words.kept_new_key.format(key=one_line(entry.id.key)))
        lines += self._shadow(solution, entry)
        if done.missing:
            lines.append(words.were_missing.format(keys=", ".join(map(one_line, done.missing))))
        if done.left:
            left = ", ".join(f"{one_line(id.key)} [{id.scope}]: {one_line(reason)}" for id, reason in done.left)
            lines.append(words.not_removed.format(keys=left))
        data = {
            "entry": to_fields(entry),
            "removed": removed,
            "missing": list(done.missing),
            "left": list(dict.fromkeys(id.key for id, _ in done.left)),
        }
        return ToolResult("\n".join(lines), data, ok=not done.left)

    def prune(
        self, key: str, scope: str | None = None, *, cwd: Path | str = ".", session_id: str | None = None
    ) -> ToolResult:
        """Delete a memory from one scope or from all; say from which."""
        words = self._words
        if not self.enabled:
            return self._off()
        user_id = self.user_id(session_id)
        try:
            solution = self.provider.get(cwd)
            scopes = solution.forget(key, user_id=user_id, scope=scope or None)
            near = [] if scopes else self._similar_names(solution, key, user_id)
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the model must be told
            return self.failure(error)
        if scopes:
            text = words.pruned.format(key=one_line(key), scopes=", ".join(scopes))
            return ToolResult(text, {"scopes": list(scopes)})
        lines = [words.not_found.format(key=one_line(key))]
        if near:
            lines.append(words.near_names.format(keys=", ".join(map(one_line, near))))
        return ToolResult("\n".join(lines), {"scopes": [], "near_keys": near})

    # --- for agents ------------------------------------------------------------------------------------------------

    def tools(self) -> list[ToolSpec]:
        """Return the five tools with their JSON Schemas; none while memory is off."""
        return tool_specs(self, self._words) if self.enabled else []

    def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run the tool of that name with whatever arguments a model sent."""
        if not self.enabled:
            return self._off()
        specs = {spec.name: spec for spec in self.tools()}
        spec = specs.get(name)
        if spec is None:
            return self.failure(f"there is no tool {name!r}; there are: {', '.join(specs)}")
        return spec.run(arguments, context)

    def instruction(
        self, user_input: str = "", *, cwd: Path | str = ".", session_id: str | None = None, rules: bool = True
    ) -> str:
        """Return the block for the system prompt: the rules of upkeep, and relevant and important memories.

        Empty while memory is off. When the store or index cannot be read the rules stand alone, with the reason.
        Without `rules`, for an agent that has none of the tools, only the memories: empty when there are none.
        """
        if not self.enabled:
            return ""
        with span("memory.instruction") as recorded:
            return self._instruction(user_input, cwd, session_id, recorded, rules=rules)

    def _instruction(
        self, user_input: str, cwd: Path | str, session_id: str | None, recorded: Span, *, rules: bool
    ) -> str:
        words = self._words
        head: list[str] = []
        if rules:
            head = [words.heading, words.rules.format(scopes=self.provider.scopes_description(self.locale))]
        try:
            entries = self.memories_for(user_input, cwd=cwd, session_id=session_id)
        except Exception as error:  # noqa: BLE001 - an agent without its memories still answers
            reason = _reason(error)
            log.warning("No memories could be injected: %s", reason)
            return "\n\n".join([*head, one_line(words.failed.format(reason=reason))])
        recorded.set("memory.entries", len(entries))
        if not entries:
            asked = self.relevance_count + self.priority_count > 0
            return "\n\n".join([*head, words.none_yet] if asked else head) if rules else ""
        return "\n\n".join([*head, fenced(showing.lines(words, entries), words.label)])

    def memories_for(
        self, user_input: str = "", *, cwd: Path | str = ".", session_id: str | None = None
    ) -> list[MemoryEntry]:
        """Return what is injected for that input: fitting memories first, then hot ones, each key once.

        Raises:
            MemoryCoreError: Store or index could not be read.
        """
        budget = self.relevance_count + self.priority_count
        if not self.enabled or budget == 0:
            return []
        solution, user_id = self.provider.get(cwd), self.user_id(session_id)
        chosen: dict[str, MemoryEntry] = {}
        if self.relevance_injection and user_input.strip() and self.relevance_count:
            for hit in solution.search(user_input, user_id=user_id, top_k=self.relevance_count):
                chosen.setdefault(hit.entry.id.key, hit.entry)
        for entry in solution.hot(user_id=user_id, limit=budget):
            if len(chosen) >= budget:
                break
            chosen.setdefault(entry.id.key, entry)
        return list(chosen.values())

    def found(self, query: str, top_k: int, *, cwd: Path | str = ".", session_id: str | None = None) -> list[SearchHit]:
        """Return what `memory_search` finds, best first.

        Raises:
            MemoryCoreError: Store or index could not be read.
        """
        return self.provider.get(cwd).search(query, user_id=self.user_id(session_id), top_k=top_k)

    def failure(self, error: Exception | str) -> ToolResult:
        """Return the answer of a tool that failed for that reason."""
        reason = shorten(error if isinstance(error, str) else _reason(error), _REASON_CHARS)
        return ToolResult(self._words.failed.format(reason=one_line(reason)), {"error": reason}, ok=False)

    def user_id(self, session_id: str | None) -> str:
        """Return whose memories a session uses: everyone's, or its own under session isolation."""
        return (session_id or "tmp") if self.session_isolation else SHARED_USER_ID

    # --- parts -----------------------------------------------------------------------------------------------------

    def _near(self, solution: MemorySolution, entry: MemoryEntry) -> list[str]:
        """Return the keys of other memories that say nearly the same."""
        hits = solution.search(entry.content, user_id=entry.id.user_id, top_k=NEAR_PROBE)
        others = (hit.entry for hit in hits if hit.entry.id.key != entry.id.key)
        return [other.id.key for other in others if similarity(other.content, entry.content) >= NEAR_THRESHOLD]

    @staticmethod
    def _similar_names(solution: MemorySolution, key: str, user_id: str) -> list[str]:
        try:
            return [hit.entry.id.key for hit in solution.search(key, user_id=user_id, top_k=NEAR_PROBE)]
        except Exception as error:  # noqa: BLE001 - only a hint is lost
            log.info("No similar keys: %s", _reason(error))
            return []

    @staticmethod
    def _fragments(solution: MemorySolution, user_id: str) -> int:
        return solution.count(user_id=user_id, below=FRAGMENT_BELOW)

    def _list(self, solution: MemorySolution, user_id: str) -> ToolResult:
        words = self._words
        entries = solution.list_all(user_id=user_id, limit=MAX_LISTED + 1)
        if not entries:
            return ToolResult(words.nothing, {"entries": [], "cut": False})
        cut = len(entries) > MAX_LISTED
        shown = entries[:MAX_LISTED]
        lines = [showing.line(words, entry, shorten(entry.content, self.summary_length)) for entry in shown]
        lines.insert(0, words.listed.format(count=len(shown)))
        if cut:
            lines.append(words.cut.format(count=MAX_LISTED))
        return ToolResult("\n".join(lines), {"entries": [to_fields(entry) for entry in shown], "cut": cut})

    def _shadow(self, solution: MemorySolution, entry: MemoryEntry) -> list[str]:
        """Say when reads give another memory of this key, because a higher scope has one."""
        if entry.id.scope == solution.scopes[-1]:
            return []
        try:
            seen = solution.recall(entry.id.key, user_id=entry.id.user_id)
        except MemoryCoreError as error:
            log.info("Not known whether another scope has that key: %s", error)
            return []
        return [] if seen is None or seen.id == entry.id else [self._words.shadowed.format(scope=seen.id.scope)]

    def _off(self) -> ToolResult:
        return ToolResult(self._words.off, {"error": "off"}, ok=False)


def _reason(error: Exception) -> str:
    if not isinstance(error, MemoryCoreError):
        log.error("A backend raised an error of its own", exc_info=error)
        return f"{type(error).__name__}: {error}"
    return str(error)


def _excerpt(content: str) -> str:
    return one_line(content) if len(content) <= _EXCERPT_CHARS else shorten(content, _EXCERPT_CHARS)
