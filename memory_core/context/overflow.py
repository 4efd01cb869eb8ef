"""Tells a context overflow from every other error of a model's API.

Providers agree on no code and no type; they word it, each in its own way. The table below was collected from their
documentation, from issue threads that quote the raw responses, and from what pydantic-ai and others match on; the test
beside it holds the full wordings. A rate limit on tokens is not an overflow, and neither is an output limit: compacting
would not help, so those are told apart first.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

_MAX_DEPTH = 6

TYPE_NAMES = frozenset(
    (
        "ModelContextWindowExceededError",  # pydantic-ai
        "ContextWindowExceededError",  # litellm
        "ContextOverflowError",  # langchain
        "ContextLengthExceededError",
        "ContextWindowExceeded",
    )
)
"""Exception types that mean nothing else, known by name so that none of their packages is imported."""

CODES = frozenset(
    (
        "context_length_exceeded",  # OpenAI, Azure, Groq, OpenRouter
        "context_window_exceeded",
        "model_context_window_exceeded",  # Anthropic and z.ai, as a stop reason
        "exceed_context_size_error",  # llama.cpp, as a type
        "model_max_prompt_tokens_exceeded",  # GitHub Copilot
        "request_too_large",  # Anthropic: the body has too many bytes
        "3051",  # Mistral
        "1261",  # Zhipu
    )
)
"""Error codes, types and stop reasons that mean nothing else."""


@dataclass(frozen=True, slots=True)
class Wording:
    """How one family of providers words it. The pattern is searched in lower-case text."""

    providers: str
    pattern: re.Pattern[str]


def _wording(providers: str, pattern: str) -> Wording:
    return Wording(providers, re.compile(pattern, re.DOTALL))


WORDINGS: tuple[Wording, ...] = (
    _wording("OpenAI, Azure, DeepSeek, Mistral, OpenRouter, vLLM, SGLang, Bedrock (Llama)", r"maximum context length"),
    _wording("OpenAI (Responses)", r"exceeds? (?:the|this model'?s) context window"),
    _wording("OpenAI, Azure (GPT-5)", r"input tokens exceed the configured limit"),
    _wording("OpenAI (one message too long)", r"'(?:messages|input)\b[^']*': string too long"),
    _wording("Groq, DeepSeek, vLLM", r"reduce the length of (?:the|your) (?:messages|prompt|input)"),
    _wording("Anthropic, Vertex, Bedrock, Fireworks", r"prompt (?:is )?too long"),
    _wording("Anthropic", r"input length and `?max_tokens`? exceed context limit"),
    _wording("Anthropic (bytes)", r"request exceeds the maximum (?:size|allowed number of bytes)"),
    _wording("Bedrock", r"input is too long(?: for requested model)?"),
    _wording("Bedrock (Titan)", r"too many input tokens\. max input tokens"),
    _wording("Bedrock (Nova)", r"number of input tokens exceeds maximum length"),
    _wording("Google, Vertex", r"input token count.*?exceeds the maximum number of tokens allowed"),
    _wording("Google (files)", r"exceeds the maximum number of tokens allowed"),
    _wording("Vertex", r"input token count is \d+ but (?:the )?model only supports up to"),
    _wording("Mistral", r"too large for model with \d+ maximum context"),
    _wording("Qwen, DashScope", r"range of input length should be"),
    _wording("Zhipu", r"prompt\s*超长"),
    _wording("Moonshot", r"exceeded model token limit|input token length too long"),
    _wording("Volcengine", r"tokens of image and text exceed max message tokens"),
    _wording("MiniMax", r"context window exceeds limit"),
    _wording("Cohere", r"too many tokens: (?:size limit exceeded|total number of tokens in|minimal context)"),
    _wording("xAI", r"maximum prompt length is \d+"),
    _wording("Together, SGLang", r"input \([\d,]+ tokens\) is longer than the model'?s context length"),
    _wording("Together, TGI", r"`inputs` tokens \+ `max_new_tokens` must be <="),
    _wording("TGI", r"`inputs` must have less than \d+ tokens"),
    _wording("OpenRouter, Baseten", r"exceeds the maximum allowed input length of"),
    _wording("SiliconFlow", r"_tokens \(\d+\) must be less than (?:or equal to )?max_seq_len"),
    _wording("vLLM", r"(?:prompt|input).{0,40}is longer than the maximum model length"),
    _wording("SGLang", r"input length \([\d,]+(?: tokens)?\) exceeds (?:the maximum allowed length|model'?s maximum)"),
    _wording("llama.cpp", r"exceeds the available context size|context size has been exceeded"),
    _wording("llama-cpp-python", r"requested tokens (?:\(\d+\) )?exceed context window of"),
    _wording("Ollama", r"exceeded max context length|input length exceeds (?:the )?(?:maximum )?context length"),
    _wording("LM Studio", r"greater than the context length"),
    _wording("LM Studio", r"trying to keep the first \d+ tokens when (?:the )?context"),
    _wording("LM Studio", r"model is loaded with context length of only"),
    _wording("DS4", r"prompt has [\d,]+ tokens, but the configured context size is"),
    _wording("GitHub Copilot", r"prompt token count of \d+ exceeds the limit of"),
    _wording("gateways", r"context[ _](?:length|window|size)[ _](?:limit )?exceed"),
)  # fmt: skip
"""Every known wording; `docs/context.md` lists the providers."""

_NOT_OVERFLOW = re.compile(
    r"rate.?limit|tokens?[ _-]?per[ _-]?(?:min|hour|day|second)|\b[tr]p[md]\b|quota|throttl|too many requests"
    r"|please wait|insufficient balance|maximum output|completion tokens, whereas"
)
"""Limits on time, money or output: shortening the context changes nothing about them."""


def is_overflow(error: object) -> bool:
    """Whether `error` says that the input is longer than the model's context window.

    `error` may be an exception of any library, a response body, or a text. Of an exception its type, its code, its
    message and body, its causes and the members of a group are looked at. Silent overflows (Ollama and z.ai may cut the
    input without a word) cannot be seen here.
    """
    return any(map(_says_overflow, _with_causes(error, _MAX_DEPTH)))


def _with_causes(error: object, depth: int) -> Iterator[object]:
    yield error
    if depth and isinstance(error, BaseException):
        nearest = (error.__cause__ or (None if error.__suppress_context__ else error.__context__),)
        members = cast("tuple[BaseException, ...]", getattr(error, "exceptions", ()))  # of an ExceptionGroup
        for other in (*nearest, *members):
            if other is not None:
                yield from _with_causes(other, depth - 1)


def _says_overflow(error: object) -> bool:
    if any(kind.__name__ in TYPE_NAMES for kind in type(error).__mro__):
        return True
    if any(code in CODES for code in _codes(error, _MAX_DEPTH)):
        return True
    text = _text(error).lower()
    if any(code in text for code in CODES if not code.isdigit()):
        return True
    return not _NOT_OVERFLOW.search(text) and any(wording.pattern.search(text) for wording in WORDINGS)


def _codes(error: object, depth: int) -> Iterator[str]:
    """Yield codes and types, as attributes and in bodies at any level; whole numbers count as their digits."""
    if depth == 0:
        return
    if isinstance(error, Mapping):
        fields = cast("Mapping[str, Any]", error)
        yield from _named(fields.get(name) for name in ("code", "type", "error_type", "finish_reason", "stop_reason"))
        for value in fields.values():
            if isinstance(value, Mapping):
                yield from _codes(cast("object", value), depth - 1)
    elif isinstance(error, BaseException):
        names = ("code", "type", "provider_error_code", "provider_error_type", "error_code")
        yield from _named(getattr(error, name, None) for name in names)
        yield from _codes(getattr(error, "body", None), depth - 1)


def _named(values: Iterator[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str | int) and not isinstance(value, bool):
            yield str(value)


def _text(error: object) -> str:
    if isinstance(error, BaseException):
        seen = [str(error), str(getattr(error, "message", "") or ""), str(getattr(error, "body", "") or "")]
        return "\n".join(dict.fromkeys(filter(None, seen)))
    return "" if error is None else str(error)
