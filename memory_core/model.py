"""The data that moves between agents, stores and indexes.

`MemoryId`, `SearchQuery`, `SearchHit` and `ChangeBatch` are slotted frozen dataclasses because they are made in
loops; `MemoryEntry` is a frozen pydantic model because it is the boundary with files, servers and people.
"""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Self, cast

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, JsonValue, ValidationError

from memory_core.errors import InvalidEntryError, InvalidKeyError

SHARED_USER_ID = "shared"
"""The user id of memories that belong to everyone who uses the solution."""

MAX_NAME_CHARS = 512
MAX_METADATA_DEPTH = 32
MIN_IMPORTANCE, MAX_IMPORTANCE = 1, 10
HOT_IMPORTANCE = 5
"""From this importance on an entry is *hot*: injected even when it is not relevant."""


def clean_name(text: object, what: str = "key") -> str:
    """Return `text` as a storable name: NFC, stripped.

    Legal is everything but blank text, more than 512 characters, control characters and lone surrogates.

    Raises:
        InvalidKeyError: It is not; the message names `what` and the reason.
    """
    if not isinstance(text, str):
        raise InvalidKeyError(f"The {what} must be text, not {type(text).__name__}.")
    if text.isascii() and text.isprintable() and 0 < len(text) <= MAX_NAME_CHARS:
        name = text.strip()
    else:
        name = unicodedata.normalize("NFC", text).strip()
        for char in name:
            if unicodedata.category(char) in ("Cc", "Cs"):
                raise InvalidKeyError(f"The {what} holds the character U+{ord(char):04X}, which cannot be stored.")
    if not name:
        raise InvalidKeyError(f"The {what} is blank; give it at least one visible character.")
    if len(name) > MAX_NAME_CHARS:
        raise InvalidKeyError(f"The {what} has {len(name)} characters; at most {MAX_NAME_CHARS} can be stored.")
    return name


@dataclass(frozen=True, slots=True, order=True)
class MemoryId:
    """Which memory: scope, owner and key, always three fields, never one joined string.

    All three are normalised by `clean_name`; equal ids are the same memory in every store.

    Raises:
        InvalidKeyError: One of the three cannot be stored.
    """

    scope: str
    user_id: str
    key: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "scope", clean_name(self.scope, "scope"))
        object.__setattr__(self, "user_id", clean_name(self.user_id, "user id"))
        object.__setattr__(self, "key", clean_name(self.key, "key"))


def _utc(moment: datetime) -> datetime:
    try:
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("the time lies outside the years 1 to 9999 in UTC") from error


def _no_surrogates(text: str) -> str:
    # Python's text may hold half a character; nothing can write it down. Some releases of pydantic let it pass.
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError("the text holds a lone surrogate, which cannot be stored") from error
    return text


def _not_blank(content: str) -> str:
    if not content.strip():
        raise ValueError("the content is blank")
    return _no_surrogates(content)


def _whole_importance(value: int) -> int:
    if not MIN_IMPORTANCE <= value <= MAX_IMPORTANCE:
        raise ValueError(f"the importance is {value}; it goes from {MIN_IMPORTANCE} to {MAX_IMPORTANCE}")
    return value


def _depth(value: object, level: int = 1) -> int:
    if level > MAX_METADATA_DEPTH or not isinstance(value, dict | list):
        return level
    children = cast("list[object]", list(value.values()) if isinstance(value, dict) else value)  # pyright: ignore[reportUnknownArgumentType]
    return max((_depth(child, level + 1) for child in children), default=level)


def _plain_json(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if metadata:
        if _depth(metadata) > MAX_METADATA_DEPTH:
            raise ValueError(f"the metadata is nested deeper than {MAX_METADATA_DEPTH} levels")
        try:
            json.dumps(metadata, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("the metadata holds a lone surrogate") from error
        except ValueError as error:
            raise ValueError("the metadata holds NaN, infinity or a number too long for JSON") from error
    return metadata


UtcDatetime = Annotated[AwareDatetime, AfterValidator(_utc)]


class MemoryEntry(BaseModel):
    """One memory.

    `content` is kept to the byte: only blank text and lone surrogates are refused. Times are aware UTC with
    microseconds. `importance` goes from 1 to 10 and is refused outside; the tools clamp before they come here.
    `expires_at` is the first moment at which the entry is gone; `None` means never. `source` says where it came
    from (`"tool"`, `"cli"`, `"import:…"`). `metadata` is plain JSON (no NaN, at most 32 levels) and never decides
    ownership.

    Raises:
        pydantic.ValidationError: A field is wrong. `MemoryEntry.checked` raises `InvalidEntryError` instead.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: MemoryId
    content: Annotated[str, AfterValidator(_not_blank)]
    importance: Annotated[int, AfterValidator(_whole_importance)] = HOT_IMPORTANCE
    created_at: UtcDatetime
    updated_at: UtcDatetime
    expires_at: UtcDatetime | None = None
    source: Annotated[str, AfterValidator(_no_surrogates)] = "tool"
    metadata: Annotated[dict[str, JsonValue], AfterValidator(_plain_json)] = {}

    @classmethod
    def checked(cls, **fields: Any) -> Self:
        """Build an entry from fields of any origin.

        Raises:
            InvalidEntryError: A field is wrong; the message names it in one sentence.
        """
        try:
            return cls(**fields)
        except ValidationError as error:
            raise InvalidEntryError(f"This memory cannot be stored: {first_reason(error)}.") from error

    def expired(self, now: datetime) -> bool:
        """Whether the entry is gone at `now`; the moment of `expires_at` itself counts as gone."""
        return self.expires_at is not None and self.expires_at <= now


def first_reason(error: ValidationError) -> str:
    """Say the first problem of a pydantic error in one line, without the input's text."""
    problem = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    what = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "string_unicode":
        what = "the text holds a lone surrogate, which cannot be stored"
    more = error.error_count() - 1
    return f"{where + ': ' if where else ''}{what}" + (f" (and {more} more)" if more else "")


def listing_order(entry: MemoryEntry) -> tuple[int, float, str, str]:
    """Sort key of every listing: importance, then newest, then key, then scope."""
    return (-entry.importance, -entry.updated_at.timestamp(), entry.id.key, entry.id.scope)


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What is looked for. `text` is plain text: no syntax is obeyed, no character raises.

    `scopes=None` means every scope. `now` decides what has expired.
    """

    user_id: str
    text: str
    top_k: int
    now: datetime
    scopes: tuple[str, ...] | None = None
    min_importance: int | None = None

    def admits(self, entry: MemoryEntry) -> bool:
        """Whether `entry` may be among the hits: owner, scope, importance and expiry, not relevance."""
        return (
            entry.id.user_id == self.user_id
            and (self.scopes is None or entry.id.scope in self.scopes)
            and (self.min_importance is None or entry.importance >= self.min_importance)
            and not entry.expired(self.now)
        )


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One found entry. `score` lies in 0..1, higher is better; `explain` says what each arm gave."""

    entry: MemoryEntry
    score: float
    explain: Mapping[str, float] = field(default_factory=dict[str, float])


def hit_order(hit: SearchHit) -> tuple[float, int, float, str, str]:
    """Sort key of every ranking: score, then `listing_order`."""
    return (-hit.score, *listing_order(hit.entry))


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """A step of a store's change feed.

    `complete=True` says: forget what you hold of this user, the store's whole content starts with this batch.
    `more=True` says: ask again at once from `cursor`, there is more. `cursor` is opaque to followers.
    """

    upserts: Sequence[MemoryEntry]
    removals: Sequence[MemoryId]
    cursor: str
    complete: bool = False
    more: bool = False

    def __bool__(self) -> bool:
        return bool(self.upserts or self.removals or self.complete or self.more)
