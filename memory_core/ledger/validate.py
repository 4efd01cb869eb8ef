"""Whether a model's reply may become `MEMORY.md`."""

import re
from dataclasses import dataclass

from memory_core.contracts import ModelReply
from memory_core.ledger.blocks import bullet_text, entries
from memory_core.ledger.render import script_of
from memory_core.ledger.replies import BAD_FINISH, answer, is_error, is_no_reply, is_refusal
from memory_core.text import estimate_tokens

SHRINK_LIMIT = 0.5
"""A new `MEMORY.md` below this share of the old one is refused …"""
SHRINK_FROM_TOKENS = 200
"""… when the old one had at least this many tokens."""

_CODE_SPAN = re.compile(r"`[^`\n]*`")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`text` is what may be written, or `failure` says why not; `repairable` when asking again may help."""

    text: str = ""
    failure: str = ""
    repairable: bool = False


def validate(reply: ModelReply, old: str, sources: str, max_tokens: int, *, allow_shrink: bool = False) -> Verdict:
    """Judge a reply to the consolidation prompt.

    Args:
        reply: The model's answer.
        old: The present `MEMORY.md`.
        sources: The ledgers that were merged; with `old` they tell the language.
        max_tokens: The limit of `MEMORY.md`, by our estimate.
        allow_shrink: Accept that most of `old` is gone.
    """
    if reply.finish_reason in BAD_FINISH:
        return Verdict(failure=f"the model stopped with {reply.finish_reason!r}")
    text = answer(reply.text).strip("\n ")
    if not text:
        return Verdict(failure="the reply is empty")
    if reply.finish_reason == "length":
        return Verdict(failure="the reply was cut by length", repairable=True)
    if is_no_reply(text) or all(is_no_reply(line) for line in text.split("\n") if line.strip()):
        return Verdict(failure="the model answered NO_REPLY, which is no MEMORY.md")
    found = entries(text)
    facts = [entry for entry in found if not entry.heading]
    bullets = [entry for entry in facts if bullet_text(entry.text) is not None]
    if not bullets and (is_refusal(text) or is_error(text)):
        return Verdict(failure="the model refused" if is_refusal(text) else "the reply is an error message")
    if not bullets and not any(entry.heading for entry in found):
        return Verdict(failure="the reply is no Markdown list", repairable=True)
    if not facts:
        return Verdict(failure="the reply has headings and nothing below them", repairable=True)
    size = estimate_tokens(text)
    if size > max_tokens:
        return Verdict(failure=f"the reply has about {size} tokens; the limit is {max_tokens}", repairable=True)
    before = estimate_tokens(old.strip())
    if not allow_shrink and SHRINK_FROM_TOKENS <= before <= max_tokens and size < before * SHRINK_LIMIT:
        return Verdict(
            failure=f"the reply keeps about {size} of {before} tokens of MEMORY.md, which looks like a loss",
            repairable=True,
        )
    if _translated(text, f"{old}\n{sources}"):
        return Verdict(failure="the reply is in another language than the memory", repairable=True)
    return Verdict(text=text + "\n")


def _translated(text: str, sources: str) -> bool:
    """Whether sources in a script of their own came back as Latin text; code does not count."""
    script = script_of(_CODE_SPAN.sub("", sources))
    return script not in (None, "latin") and script_of(_CODE_SPAN.sub("", text)) == "latin"
