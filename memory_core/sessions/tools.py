"""Three tools over earlier conversations: `session_search`, `session_list` and `session_history`."""

from collections.abc import Callable, Mapping
from typing import Any

from memory_core.errors import MemoryCoreError
from memory_core.model import SHARED_USER_ID
from memory_core.policy import MAX_LISTED, MAX_TOP_K
from memory_core.sessions.messages import Message, TextPart, ToolCallPart, ToolResultPart
from memory_core.sessions.search import DEFAULT_MAX_RESULTS, TranscriptHit, TranscriptSearch
from memory_core.sessions.transcript import SessionInfo
from memory_core.sessions.wording import session_wording
from memory_core.talent.fence import fenced, one_line, shorten
from memory_core.talent.specs import ToolContext, ToolResult, ToolSpec, check_arguments, parse_whole
from memory_core.text import normalise, unique_tokens

DEFAULT_LAST_N = 20
MAX_LAST_N = 200
SNIPPET_CHARS = 300
TEXT_CHARS = 2_000
ARGUMENT_CHARS = 500
RESULT_CHARS = 1_000

UserOf = Callable[[ToolContext], str]


def everyone(context: ToolContext) -> str:  # noqa: ARG001 - a `UserOf`'s form
    """Return the user id that all share."""
    return SHARED_USER_ID


class SessionTools:
    """The tools of one transcript directory. They never raise for what a model sends or a disk does.

    Args:
        search: The search over the transcripts.
        user_of: Whose conversations a call may see; decided by the program, never by the model.
        locale: `en` or `zh`.

    Raises:
        ConfigError: There is no such locale.

    """

    def __init__(self, search: TranscriptSearch, *, user_of: UserOf = everyone, locale: str = "en") -> None:
        self._search = search
        self._user_of = user_of
        self._words = session_wording(locale)

    def tools(self) -> list[ToolSpec]:
        """Return the three tools with their JSON Schemas."""
        words = self._words
        agent = {"type": "string", "description": words.agent}
        return [
            self._spec(
                "session_search",
                words.search,
                {
                    "query": {"type": "string", "description": words.query},
                    "agent_id": agent,
                    "max_results": _whole(words.max_results, MAX_TOP_K, DEFAULT_MAX_RESULTS),
                },
                ("query",),
                self._run_search,
            ),
            self._spec("session_list", words.list_, {"agent_id": agent}, (), self._run_list),
            self._spec(
                "session_history",
                words.history,
                {
                    "session_id": {"type": "string", "description": words.session},
                    "last_n": _whole(words.last_n, MAX_LAST_N, DEFAULT_LAST_N),
                },
                ("session_id",),
                self._run_history,
            ),
        ]

    def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run the tool of that name with whatever arguments a model sent."""
        specs = {spec.name: spec for spec in self.tools()}
        if name not in specs:
            return self._failure(f"there is no tool {name!r}; there are: {', '.join(specs)}")
        return specs[name].run(arguments, context)

    def search(
        self,
        query: str,
        agent_id: str | None = None,
        max_results: int = DEFAULT_MAX_RESULTS,
        *,
        user_id: str = SHARED_USER_ID,
    ) -> ToolResult:
        """Find messages of that user's earlier conversations."""
        words, asked = self._words, shorten(query, 200)
        try:
            hits = self._search.search(query, user_id=user_id, agent_id=agent_id, top_k=max_results)
        except MemoryCoreError as error:
            return self._failure(str(error))
        if not hits:
            return ToolResult(words.no_hits.format(query=asked), {"hits": []})
        lines = [
            f"- [{hit.time:%Y-%m-%d %H:%M}] {one_line(hit.session_id)} ({hit.role}): {snippet(hit.text, query)}"
            for hit in hits
        ]
        text = words.hits.format(count=len(hits), query=asked) + "\n" + fenced(lines, words.label)
        return ToolResult(text, {"hits": [_hit_fields(hit) for hit in hits]})

    def list(self, agent_id: str | None = None, *, user_id: str = SHARED_USER_ID) -> ToolResult:
        """List that user's earlier conversations, the latest first; at most 100, and says when there are more."""
        words = self._words
        try:
            sessions = self._search.transcripts.sessions(user_id=user_id, agent_id=agent_id)
        except MemoryCoreError as error:
            return self._failure(str(error))
        if not sessions:
            return ToolResult(words.no_sessions, {"sessions": [], "cut": False})
        shown, cut = sessions[:MAX_LISTED], len(sessions) > MAX_LISTED
        lines = [
            f"- {one_line(info.session_id)} [{info.last:%Y-%m-%d %H:%M}] ({info.messages}): {one_line(info.title)}"
            for info in shown
        ]
        text = words.listed.format(count=len(shown)) + "\n" + fenced(lines, words.label)
        if cut:
            text += "\n" + words.cut.format(count=MAX_LISTED)
        return ToolResult(text, {"sessions": [_info_fields(info) for info in shown], "cut": cut})

    def history(self, session_id: str, last_n: int = DEFAULT_LAST_N, *, user_id: str = SHARED_USER_ID) -> ToolResult:
        """Read the last messages of one of that user's conversations."""
        words, name = self._words, one_line(shorten(session_id, 200))
        try:
            messages = self._search.transcripts.history(session_id, last_n, user_id=user_id)
        except MemoryCoreError as error:
            return self._failure(str(error))
        if not messages:
            return ToolResult(words.no_history.format(session=name), {"messages": []})
        lines = [line for message in messages for line in _message_lines(message)]
        text = words.shown.format(count=len(messages), session=name) + "\n" + fenced(lines, words.label)
        data = [{"id": m.id, "role": m.role, "time": m.time.isoformat(), "lines": _message_lines(m)} for m in messages]
        return ToolResult(text, {"messages": data})

    # --- parts -----------------------------------------------------------------------------------------------------

    def _spec(
        self,
        name: str,
        description: str,
        properties: dict[str, Any],
        required: tuple[str, ...],
        run: Callable[[dict[str, Any], ToolContext], ToolResult],
    ) -> ToolSpec:
        schema = {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}

        def checked(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
            reason = check_arguments(schema, arguments) or self._wrong_value(schema, arguments)
            if reason is not None:
                return ToolResult(self._words.bad_arguments.format(reason=reason), {"error": reason}, ok=False)
            given = {name: value for name, value in arguments.items() if value is not None}
            for key in ("max_results", "last_n"):
                if key in given:
                    given[key] = parse_whole(given[key], 1, properties[key]["maximum"])
            return run(given, context)

        return ToolSpec(name, description, schema, checked)

    def _wrong_value(self, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
        for name, value in arguments.items():
            needed = name in schema["required"]
            if value is None and not needed:
                continue
            if schema["properties"][name]["type"] == "string":
                if not isinstance(value, str) or not value.strip():
                    return self._words.blank.format(name=name)
            elif parse_whole(value, 1, MAX_LAST_N) is None:
                return f"{name}: {value!r}"
        return None

    def _run_search(self, given: dict[str, Any], context: ToolContext) -> ToolResult:
        return self.search(**given, user_id=self._user_of(context))

    def _run_list(self, given: dict[str, Any], context: ToolContext) -> ToolResult:
        return self.list(**given, user_id=self._user_of(context))

    def _run_history(self, given: dict[str, Any], context: ToolContext) -> ToolResult:
        return self.history(**given, user_id=self._user_of(context))

    def _failure(self, reason: str) -> ToolResult:
        return ToolResult(self._words.failed.format(reason=one_line(reason)), {"error": reason}, ok=False)


def snippet(text: str, query: str, limit: int = SNIPPET_CHARS) -> str:
    """Return one line of at most `limit` characters around the first word of `query` in `text`, else its beginning."""
    plain = normalise(text)
    if len(plain) == len(text) > limit:  # the same length: places in one are places in the other
        places = [plain.find(token) for token in unique_tokens(query, None)]
        first = min((place for place in places if place >= 0), default=0)
        start = max(0, first - limit // 3)
        if start:
            return "…" + shorten(text[start : start + 2 * limit], limit - 1)
    return shorten(text, limit)


def _message_lines(message: Message) -> list[str]:
    head = f"- [{message.time:%Y-%m-%d %H:%M}] {message.role}"
    lines: list[str] = []
    for part in message.parts:
        match part:
            case TextPart() if part.text.strip():
                lines.append(f"{head}: {_cut(part.text, TEXT_CHARS)}")
            case ToolCallPart():
                lines.append(f"{head} → {one_line(part.name)}({_cut(part.arguments, ARGUMENT_CHARS)})")
            case ToolResultPart():
                lines.append(f"{head} ← {one_line(part.name)}: {_cut(part.content, RESULT_CHARS)}")
            case _:
                continue
    return lines


def _cut(text: str, limit: int) -> str:
    line = one_line(text)
    return line if len(line) <= limit else f"{line[:limit]}… (+{len(line) - limit})"


def _whole(description: str, maximum: int, default: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": maximum, "default": default, "description": description}


def _hit_fields(hit: TranscriptHit) -> dict[str, Any]:
    return {
        "session_id": hit.session_id,
        "agent_id": hit.agent_id,
        "message_id": hit.message_id,
        "role": hit.role,
        "time": hit.time.isoformat(),
        "text": hit.text,
        "score": hit.score,
    }


def _info_fields(info: SessionInfo) -> dict[str, Any]:
    return {
        "session_id": info.session_id,
        "agent_ids": [*info.agent_ids],
        "messages": info.messages,
        "first": info.first.isoformat(),
        "last": info.last.isoformat(),
        "title": info.title,
    }
