"""The flush: from a conversation to a block of facts at the end of today's ledger."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from memory_core.errors import MemoryCoreError, StorerError
from memory_core.ledger.asking import ModelFailedError, ask
from memory_core.ledger.blocks import block_hashes, entries, format_block
from memory_core.ledger.disk import Places, append, locked, read_text
from memory_core.ledger.fencing import fence
from memory_core.ledger.job import Job
from memory_core.ledger.render import chunks, language_hint, render, script_of, user_texts
from memory_core.ledger.replies import Extracted, extract
from memory_core.ledger.results import FlushReason, FlushResult
from memory_core.sessions.messages import Message
from memory_core.text import estimate_tokens

log = logging.getLogger(__name__)

MAX_OUTPUT_TOKENS = 4_000
CONTEXT_TOKENS = 8_000
"""How much of `MEMORY.md`, and how much of today's ledger, a flush is shown."""

_CONTEXT_NOTE = "(The rest is left out here.)"


async def flush(job: Job, messages: Iterable[Message], isolation_key: str, reason: FlushReason) -> FlushResult:
    """Extract what is worth keeping and append it to today's ledger; see `Ledger.flush`."""
    trigger = job.config.flush_trigger
    if reason == "call" and trigger.mode == "never":
        return FlushResult("off")
    messages = list(messages)
    pieces = render(messages)
    if not pieces:
        return FlushResult("nothing")
    gap = trigger.gap if reason == "call" else timedelta(0)
    now = job.clock.now()
    try:
        claim = await asyncio.to_thread(job.state.claim, f"flush:{isolation_key}", now, gap)
    except StorerError as error:
        log.warning("A flush failed: %s", error)
        return FlushResult("failed", error=str(error))
    if claim is None:
        return FlushResult("throttled")
    done = False
    try:
        result = await _flush_chunks(job, chunks(pieces), user_texts(messages))
        done = result.status != "failed"
    finally:
        if not done:  # also when the flush is cancelled: the next call tries again
            await asyncio.to_thread(claim.give_back)
    await asyncio.to_thread(job.state.record, "flush", now, result.status, result.error)
    if result.error:
        log.warning("A flush failed: %s", result.error)
    return result


async def _flush_chunks(job: Job, texts: Sequence[str], said: str) -> FlushResult:
    facts: list[str] = []
    notices: list[str] = []
    errors: list[str] = []
    status, path = "nothing", None
    for text in texts:
        moment = job.local_now()
        try:
            found = await _ask(job, text, said, moment)
            notices.extend(found.notices)
            if found.failure:
                errors.append(found.failure)
            elif found.facts:
                written = await asyncio.to_thread(write_block, job.places, found.facts, moment)
                if written is None:
                    status = "duplicate" if path is None else status
                else:
                    status, path = "written", written
                    facts.extend(found.facts)
        except MemoryCoreError as error:
            errors.append(str(error))
    if errors:
        return FlushResult("failed", path, tuple(facts), "; ".join(dict.fromkeys(errors)), tuple(notices))
    return FlushResult(status, path, tuple(facts), notices=tuple(notices))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - one of three literals


async def _ask(job: Job, conversation: str, said: str, moment: datetime) -> Extracted:
    user = await asyncio.to_thread(_prompt, job, conversation, said, moment)
    system = job.config.flush_system(job.locale)
    found = extract(await ask(job.model, system, user, MAX_OUTPUT_TOKENS, job.timeout_s))
    script = script_of(said)
    if found.facts and script not in (None, "latin") and script_of("\n".join(found.facts)) == "latin":
        # Facts in another language are still facts: ask once more, and keep the first answer if that does not help.
        try:
            again = extract(
                await ask(job.model, system, f"{user}\n\n{language_hint(said)}", MAX_OUTPUT_TOKENS, job.timeout_s)
            )
        except ModelFailedError:
            again = Extracted()
        if again.facts and script_of("\n".join(again.facts)) == script:
            return again
        notice = "the facts are not in the user's language, although the model was asked twice"
        return Extracted(found.facts, notices=(*found.notices, notice))
    return found


def _prompt(job: Job, conversation: str, said: str, moment: datetime) -> str:
    memory = _readable(job, job.places.memory_md)
    today = _readable(job, job.places.daily(moment.date()))
    parts = [
        f"Now: {moment:%Y-%m-%d %H:%M} ({moment:%A})",
        fence("memory_md", _first(memory, CONTEXT_TOKENS)) if memory else "",
        fence("todays_ledger", _last(today, CONTEXT_TOKENS), date=f"{moment:%Y-%m-%d}") if today else "",
        fence("conversation", conversation),
        language_hint(said),
    ]
    return "\n\n".join(filter(None, parts))


def _readable(job: Job, path: Path) -> str:
    """Return the file's text; one that cannot be read is context that the flush does without."""
    try:
        return (read_text(job.places, path) or "").strip()
    except StorerError as error:
        log.warning("A flush goes on without its context: %s", error)
        return ""


def _first(text: str, budget_tokens: int) -> str:
    if estimate_tokens(text) <= budget_tokens:
        return text
    return "\n".join([*_within([entry.text for entry in entries(text)], budget_tokens), _CONTEXT_NOTE])


def _last(text: str, budget_tokens: int) -> str:
    if estimate_tokens(text) <= budget_tokens:
        return text
    newest = _within([entry.text for entry in reversed(entries(text))], budget_tokens)
    return "\n".join([_CONTEXT_NOTE, *reversed(newest)])


def _within(texts: Sequence[str], budget_tokens: int) -> list[str]:
    kept: list[str] = []
    for text in texts:
        budget_tokens -= estimate_tokens(text) + 1
        if budget_tokens < 0:
            break
        kept.append(text)
    return kept


def write_block(places: Places, facts: Sequence[str], moment: datetime, label: str = "") -> Path | None:
    """Append a block to the ledger of `moment`'s day; return its path, or None when it is there already.

    The day before is looked at too: a flush that was repeated over midnight writes nothing twice.

    Raises:
        StorageUnavailableError: It could not be written; nothing of it is there.
        CorruptEntryError: The day's file is not UTF-8.
    """
    with locked(places):
        return append_block(places, facts, moment, label)


def append_block(places: Places, facts: Sequence[str], moment: datetime, label: str = "") -> Path | None:
    """Do what `write_block` does, for a caller that holds the lock. A labelled block is written in any case."""
    block = format_block(facts, moment, label)
    path = places.daily(moment.date())
    text = read_text(places, path) or ""
    if not label:
        known = block_hashes(text)
        try:
            known |= block_hashes(read_text(places, places.daily(moment.date() - timedelta(days=1))) or "")
        except StorerError as error:
            log.warning("A flush cannot compare with the day before: %s", error)
        if block_hashes(block) <= known:
            return None
    append(places, path, block, first_line=f"# {moment:%Y-%m-%d}")
    return path
