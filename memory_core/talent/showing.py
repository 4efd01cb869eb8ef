"""How a model is shown memories: a line each, within a budget, and never without a word on what was left out."""

from collections.abc import Iterable, Sequence

from memory_core.model import MemoryEntry
from memory_core.talent.fence import one_line, quoted, shorten
from memory_core.talent.wording import Wording
from memory_core.text import estimate_tokens

BUDGET_TOKENS = 8_000
"""What the memories in an instruction, or in one answer, may take together."""
MAX_CHARS = 32_000
"""Of one memory, when it is read by its key."""
_NAMED = 5
_NAME_CHARS = 100


def line(words: Wording, entry: MemoryEntry, content: str | None = None) -> str:
    """Return the line of one memory; `content`, already in one line, takes the place of its own."""
    # Not by `fields`: a prompt has many lines, and none of them says when its memory expires.
    return words.line.format(
        key=one_line(entry.id.key),
        scope=entry.id.scope,
        importance=entry.importance,
        time=moment(entry),
        content=content if content is not None else one_line(entry.content),
    )


def lines(words: Wording, entries: Sequence[MemoryEntry], budget_tokens: int = BUDGET_TOKENS) -> list[str]:
    """Return the lines of memories in their order, as `fitting` does."""
    return fitting(words, [(entry.id.key, line(words, entry)) for entry in entries], budget_tokens)


def fitting(words: Wording, named: Sequence[tuple[str, str]], budget_tokens: int = BUDGET_TOKENS) -> list[str]:
    """Return lines in their order, each whole or not at all, and one more that names those left out.

    Args:
        words: The language.
        named: The name and the line of each.
        budget_tokens: What they may take together, by our estimate.

    """
    if sum(len(text) for _, text in named) <= budget_tokens:
        return [text for _, text in named]  # no character counts more than a token
    shown: list[str] = []
    left: list[str] = []
    for name, text in named:
        cost = estimate_tokens(text)
        if cost <= budget_tokens:
            budget_tokens -= cost
            shown.append(text)
        else:
            left.append(name)
    if left:
        shown.append(words.left_out.format(count=len(left), keys=names(left[:_NAMED]) + ("…" if left[_NAMED:] else "")))
    return shown


def names(keys: Iterable[str]) -> str:
    """Return keys as a list in one line; long ones are shortened."""
    return ", ".join(shorten(key, _NAME_CHARS) for key in keys)


def whole(words: Wording, content: str) -> str:
    """Return the content of one memory in a fence; what is too long is cut, and says so below."""
    if len(content) <= MAX_CHARS:
        return quoted(content)
    return f"{quoted(content[:MAX_CHARS])}\n{words.cut_content.format(shown=MAX_CHARS, total=len(content))}"


def fields(words: Wording, entry: MemoryEntry) -> dict[str, object]:
    """Return what the sentences about one memory say of it."""
    expires = (
        words.forever if entry.expires_at is None else words.until.format(time=f"{entry.expires_at:%Y-%m-%d %H:%M} UTC")
    )
    return {
        "key": one_line(entry.id.key),
        "scope": entry.id.scope,
        "importance": entry.importance,
        "time": moment(entry),
        "expires": expires,
    }


def moment(entry: MemoryEntry) -> str:
    """Return when an entry was stored, to the minute."""
    return entry.updated_at.isoformat(" ", "minutes")[:16]  # a quarter of the time of `strftime`
