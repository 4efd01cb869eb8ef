"""The settings of everything that keeps a context small, with the defaults of the two originals.

All are frozen and refuse unknown fields; a wrong value raises `pydantic.ValidationError` at construction.
"""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from memory_core.context.prompts import SUMMARY_PROMPT

DEFAULT_WINDOW_TOKENS = 128_000
"""The window that is assumed for a model whose window nobody knows."""
KEPT_ARG_CHARS = 20
READ_TOOL = "read_tool_result"
"""The name of the tool that pages evicted results; never evicted itself."""
NEVER_EVICTED = (
    "read_file",
    "write_file",
    "edit_file",
    "grep_files",
    "glob_files",
    "list_files",
    "memory_*",
    "session_search",
    READ_TOOL,
)
"""Tools whose results stay in the context: reading a file back must not evict it again. A shell is not among them."""

NotNegative = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class TruncateArgsConfig(_Config):
    """Cuts long arguments of old tool calls, without a model: nobody reads again what was written to a file.

    Due from `trigger_messages` messages or `trigger_tokens` tokens on (0 = that trigger is off). The last
    `keep_messages` messages stay as they are. An argument of more than `max_arg_length` characters becomes its first
    20 characters and `truncation_text`.
    """

    trigger_messages: NotNegative = 25
    trigger_tokens: NotNegative = 40_000
    keep_messages: NotNegative = 20
    max_arg_length: Positive = 2_000
    truncation_text: str = "... [truncated] ..."

    @model_validator(mode="after")
    def _shorter(self) -> Self:
        if self.max_arg_length < KEPT_ARG_CHARS + len(self.truncation_text):
            raise ValueError(
                f"max_arg_length is {self.max_arg_length}, but what is left of an argument has "
                f"{KEPT_ARG_CHARS + len(self.truncation_text)} characters: it would be cut again and again"
            )
        return self


class PruneConfig(_Config):
    """Cuts old tool results to head and tail, without a model.

    The newest `protect_tokens` tokens of tool results stay whole. Of the older ones `keep_chars` characters stay at
    each end; nothing is cut unless that saves at least `min_gain_tokens` altogether.
    """

    protect_tokens: NotNegative = 40_000
    min_gain_tokens: NotNegative = 20_000
    keep_chars: NotNegative = 2_000


class ToolResultEvictionConfig(_Config):
    """Moves a tool result of more than `max_chars` characters to a file; `preview_chars` of each end stay.

    `excluded` are tool names, `*` at the end matching the rest. `read_tool` is the tool that the notice names; None
    when the agent has none.
    """

    max_chars: Positive = 80_000
    preview_chars: NotNegative = 2_000
    directory: str = "large_tool_results"
    excluded: tuple[str, ...] = NEVER_EVICTED
    read_tool: str | None = READ_TOOL
    retention_days: Positive = 180

    @model_validator(mode="after")
    def _smaller(self) -> Self:
        if self.max_chars < 2 * self.preview_chars + 500:
            raise ValueError(
                f"max_chars is {self.max_chars}; the preview alone has up to {2 * self.preview_chars + 500} characters"
            )
        return self

    @field_validator("directory")
    @classmethod
    def _relative(cls, value: str) -> str:
        parts = value.split("/")
        if (
            not all(parts)
            or "\\" in value
            or "\0" in value
            or any(part in (".", "..") or ":" in part for part in parts)
        ):
            raise ValueError(f"{value!r} is not a plain relative directory")
        return value


class CompactionConfig(_Config):
    """When the older part of a conversation gives way to a summary, and what of it stays.

    Any trigger suffices (0 = that trigger is off): `trigger_messages` messages, system messages not counted;
    more than `trigger_tokens` tokens; more than `trigger_context_ratio` of the model's window. Afterwards the last
    `keep_messages` messages stay, or, when `keep_tokens` is not 0, the last ones of about that many tokens; the last
    user message always does. `keep_messages` that nobody set is at most half of `trigger_messages`.

    `flush_before_compact` and `offload_before_compact` are for the caller, who has the ledger and the transcript.
    `model` is a `ChatModel`, a name that the caller understands, or None for the agent's own.
    `compression_interceptor` replaces the summary: a `Strategy`, or a callable `SummaryJob -> str | None`, also async.
    `truncate_args` and `prune` are off when None.
    """

    trigger_messages: NotNegative = 50
    trigger_tokens: NotNegative = 80_000
    trigger_context_ratio: Annotated[float, Field(ge=0, le=1)] = 0.75
    keep_messages: Positive = 20
    keep_tokens: NotNegative = 0
    flush_before_compact: bool = True
    offload_before_compact: bool = True
    summary_prompt: str = SUMMARY_PROMPT
    summary_max_tokens: Annotated[int, Field(ge=200)] = 2_000
    model: Any = None
    compression_interceptor: Any = None
    truncate_args: TruncateArgsConfig | None = None
    prune: PruneConfig | None = None

    @field_validator("summary_prompt")
    @classmethod
    def _has_messages(cls, value: str) -> str:
        if "{messages}" not in value:
            raise ValueError("the summary prompt must contain {messages}, where the conversation goes")
        return value

    @model_validator(mode="after")
    def _keeps_less(self) -> Self:
        if 0 < self.trigger_messages <= self.keep_messages and "keep_messages" in self.model_fields_set:
            raise ValueError(
                f"keep_messages is {self.keep_messages}, but compaction starts at {self.trigger_messages} messages: "
                "nothing would ever be left to compact"
            )
        return self

    @property
    def kept_messages(self) -> int:
        """How many messages stay after a compaction."""
        if self.trigger_messages and "keep_messages" not in self.model_fields_set:
            return max(1, min(self.keep_messages, self.trigger_messages // 2))
        return self.keep_messages

    def limit_tokens(self, window_tokens: int | None) -> int:
        """Return how many tokens may stand in the context: the lowest token trigger, else the window itself."""
        window = window_tokens or DEFAULT_WINDOW_TOKENS
        limits = [window, self.trigger_tokens, int(window * self.trigger_context_ratio)]
        return min(limit for limit in limits if limit > 0)
