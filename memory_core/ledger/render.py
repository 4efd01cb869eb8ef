"""What the flush is shown of a conversation, and what it is not.

Left out by structure: system messages, summaries of compactions, injected messages, our own memory blocks inside
other messages, and everything that our own memory tools asked and answered. Recalled text would otherwise be
extracted as new memory, again and again.
"""

from collections.abc import Iterable, Sequence

from memory_core.ledger.blocks import clean_text
from memory_core.ledger.fencing import escape_tags, strip_own_blocks
from memory_core.sessions.messages import Message, TextPart, ToolCallPart, ToolResultPart
from memory_core.text import HAN, HANGUL, KANA, estimate_tokens

MAX_ARGUMENT_CHARS = 500
MAX_RESULT_CHARS = 1_000
MAX_TEXT_CHARS = 40_000
"""A single text part is cut beyond this: its head and tail stay."""
CHUNK_TOKENS = 48_000
"""A longer conversation is read in several calls, so that nothing of it is lost and none is too long for the model."""

_OWN_TOOLS = ("memory_", "session_search", "session_list", "session_history")
_NAMES = {"han": "Chinese", "kana": "Japanese", "hangul": "Korean", "cyrillic": "a language in Cyrillic script"}


def own_tool(name: str) -> bool:
    """Whether a tool of that name is one of ours, whose answers are memory already."""
    return name.startswith(_OWN_TOOLS)


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters of `text`, cut in front of a mark that says how many are left out."""
    return text if len(text) <= limit else f"{text[:limit]} [… {len(text) - limit} characters left out]"


def _shorten_middle(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} [… {len(text) - 2 * half} characters left out …] {text[-half:]}"


def render(messages: Iterable[Message]) -> list[str]:
    """Return one text for each message that the flush sees, oldest first.

    The first line of each begins with `[role]`; all further lines are indented, so that no message can pose as another.
    """
    shown: list[str] = []
    for message in messages:
        if message.role == "system" or message.kind != "normal":
            continue
        pieces: list[str] = []
        for part in message.parts:
            match part:
                case TextPart():
                    text = strip_own_blocks(clean_text(part.text)).strip()
                    if text:
                        pieces.append(f"[{message.role}] {_shorten_middle(text, MAX_TEXT_CHARS)}")
                case ToolCallPart() if not own_tool(part.name):
                    arguments = shorten(clean_text(part.arguments), MAX_ARGUMENT_CHARS)
                    pieces.append(f"[{message.role} calls {_name(part.name)}] {arguments}")
                case ToolResultPart() if not own_tool(part.name):
                    content = shorten(strip_own_blocks(clean_text(part.content)).strip(), MAX_RESULT_CHARS)
                    failed = " failed" if part.is_error else ""
                    pieces.append(f"[tool {_name(part.name)}{failed}] {content}")
                case _:
                    continue
        shown.extend(escape_tags(piece.replace("\n", "\n    ")) for piece in pieces)
    return shown


def _name(name: str) -> str:
    return " ".join(clean_text(name).split())[:100].replace("]", ")")


def chunks(pieces: Sequence[str], limit_tokens: int = CHUNK_TOKENS) -> list[str]:
    """Join pieces to texts of at most about `limit_tokens`, in order, whole pieces."""
    found: list[list[str]] = []
    room = 0
    for piece in pieces:
        cost = estimate_tokens(piece) + 1
        if not found or cost > room:
            found.append([])
            room = limit_tokens
        found[-1].append(piece)
        room -= cost
    return ["\n".join(chunk) for chunk in found]


def user_texts(messages: Iterable[Message]) -> str:
    """Return what the users themselves wrote."""
    return "\n".join(
        strip_own_blocks(part.text)
        for message in messages
        if message.role == "user" and message.kind == "normal"
        for part in message.parts
        if isinstance(part, TextPart)
    )


def script_of(text: str) -> str | None:
    """Return the script that carries `text`: `han`, `kana`, `hangul`, `cyrillic` or `latin`; None without letters.

    A dense script counts from a fifth of the letters on, because Chinese text is full of Latin names and never the
    other way round; Kana decide for Japanese even among many Han characters.
    """
    counts = {"han": 0, "kana": 0, "hangul": 0, "cyrillic": 0, "latin": 0}
    for char in text[:20_000]:
        if char < "\u0250":
            counts["latin"] += char.isalpha()
        elif char in _HAN:
            counts["han"] += 1
        elif char in _KANA:
            counts["kana"] += 1
        elif char in _HANGUL:
            counts["hangul"] += 1
        elif "\u0400" <= char <= "\u052f":
            counts["cyrillic"] += 1
    total = sum(counts.values())
    if not total:
        return None
    if counts["kana"] * 10 >= total and counts["kana"] * 5 >= counts["han"]:
        return "kana"
    for script in ("han", "hangul", "cyrillic"):
        if counts[script] * 5 >= total:
            return script
    return "latin"


def language_hint(text: str) -> str:
    """Return a sentence that names the language to write in, or an empty text where the script does not tell it."""
    name = _NAMES.get(script_of(text) or "")
    return f"The user writes in {name}: write the facts in {name}." if name else ""


class _Ranges:
    """Membership in the character ranges of the tokenizer."""

    def __init__(self, ranges: str) -> None:
        self._bounds: list[tuple[str, str]] = []
        position = 0
        while position < len(ranges):
            ranged = ranges[position + 1 : position + 2] == "-"
            last = ranges[position + 2] if ranged else ranges[position]
            self._bounds.append((ranges[position], last))
            position += 3 if ranged else 1

    def __contains__(self, char: str) -> bool:
        return any(first <= char <= last for first, last in self._bounds)


_HAN, _KANA, _HANGUL = _Ranges(HAN), _Ranges(KANA), _Ranges(HANGUL)
