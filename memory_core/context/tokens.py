"""How many model tokens messages cost: an estimate by default, exact where a tokenizer is at hand.

The default counts characters by script (`memory_core.text.estimate_tokens`); its error against the o200k vocabulary is
measured in `docs/context.md`. Nothing here reads or downloads anything unless `tiktoken_counter` is called.
"""

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

from memory_core.context.graphemes import head
from memory_core.errors import MissingExtraError
from memory_core.sessions.messages import Message, OtherPart, TextPart, ToolCallPart, ToolResultPart
from memory_core.text import estimate_tokens

TokenCounter: TypeAlias = Callable[[str], int]
"""Anything that says how many tokens a text costs; never negative."""

MESSAGE_TOKENS = 4
"""What a message costs beside its text: role and delimiters (OpenAI's cookbook counts 3 to 4)."""
PART_TOKENS = 8
"""What a tool call or result costs beside name, arguments and content: ids and JSON around them."""
MEDIA_TOKENS = 1_600
"""What an image, sound or file counts: the most that Anthropic charges for one image (width × height / 750)."""
_MEDIA = ("image", "audio", "video", "file", "document", "binary", "media")
_CACHED_MESSAGES = 20_000


def tiktoken_counter(encoding: str = "o200k_base") -> TokenCounter:
    """Return a counter that uses tiktoken; exact for OpenAI's models, near for others.

    tiktoken downloads the vocabulary when it is first used, unless its cache directory (`TIKTOKEN_CACHE_DIR`) has it.

    Raises:
        MissingExtraError: tiktoken is not installed.
        Exception: Whatever tiktoken raises when the vocabulary cannot be had.
    """
    try:
        import tiktoken  # type: ignore[import-not-found, unused-ignore]  # pyright: ignore[reportMissingImports] - optional
    except ImportError as error:
        raise MissingExtraError(
            "Counting with tiktoken needs the package tiktoken: pip install 'memory-talent[tiktoken]'."
        ) from error
    codec = tiktoken.get_encoding(encoding)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def count(text: str) -> int:
        return len(codec.encode_ordinary(text))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]

    return count


class MessageSizer:
    """Counts messages and remembers what each cost, for callers that plan the same history again and again.

    Safe to share between threads: at worst a message is counted twice.
    """

    def __init__(self, count: TokenCounter | None = None) -> None:
        self.count: TokenCounter = count or estimate_tokens
        self._known: dict[int, tuple[Message, int]] = {}

    def __call__(self, message: Message) -> int:
        """Return about how many tokens `message` costs, at least `MESSAGE_TOKENS`."""
        known = self._known.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        tokens = self._measure(message)
        if len(self._known) >= _CACHED_MESSAGES:
            self._known.clear()
        self._known[id(message)] = (message, tokens)
        return tokens

    def total(self, messages: Sequence[Message]) -> int:
        """Return the sum over `messages`."""
        return sum(map(self, messages))

    def _measure(self, message: Message) -> int:
        texts: list[str] = []
        tokens = MESSAGE_TOKENS
        for part in message.parts:
            if isinstance(part, TextPart):
                texts.append(part.text)
            elif isinstance(part, ToolResultPart):
                texts += (part.name, part.content)
                tokens += PART_TOKENS
            elif isinstance(part, ToolCallPart):
                texts += (part.name, part.arguments)
                tokens += PART_TOKENS
            elif any(word in part.kind for word in _MEDIA):
                tokens += MEDIA_TOKENS
            else:
                texts.append(_written(part))
        return tokens + self.count(texts[0] if len(texts) == 1 else "".join(texts))


def _written(part: OtherPart) -> str:
    if isinstance(part.data, str):
        return part.data
    return json.dumps(part.data, ensure_ascii=False, default=str)


def cut_to_tokens(text: str, max_tokens: int, count: TokenCounter) -> str:
    """Return the longest start of `text`, to within a few characters, that costs at most `max_tokens`."""
    if count(text) <= max_tokens:
        return text
    low, high = 0, len(text)
    while high - low > 8:
        middle = (low + high) // 2
        if count(text[:middle]) <= max_tokens:
            low = middle
        else:
            high = middle
    return head(text, low)
