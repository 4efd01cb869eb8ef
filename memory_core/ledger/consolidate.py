"""The consolidation: ledgers that changed since the watermark are merged into `MEMORY.md` by the model.

The order is what makes it safe: take the lock, take a snapshot of the inputs, ask, validate, look whether `MEMORY.md`
is still what was read, back it up, replace it, move the watermark. Whatever fails leaves all as it was, and a crash
between the last two steps only makes the next round merge the same ledgers again.
"""

import asyncio
import codecs
import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from memory_core.errors import MemoryCoreError, StorerError
from memory_core.ledger.asking import ModelFailedError, ask
from memory_core.ledger.backups import save_backup
from memory_core.ledger.disk import BusyError, Places, content_hash, decode, locked, read_bytes
from memory_core.ledger.disk import replace as replace_file
from memory_core.ledger.fencing import fence
from memory_core.ledger.job import Job
from memory_core.ledger.results import ConsolidationResult, ConsolidationStatus
from memory_core.ledger.state import Watermark, load_watermark, save_watermark
from memory_core.ledger.validate import validate
from memory_core.text import estimate_tokens

log = logging.getLogger(__name__)

BATCH_TOKENS = 48_000
"""How much of the ledgers one call merges; a longer history (a rebuild) is folded in, batch after batch."""

_LOCK = ".consolidation.lock"


@dataclass(frozen=True, slots=True)
class Source:
    """One daily file as it was when the round began."""

    name: str
    text: str
    digest: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The inputs of a round. `memory` is None when there is no `MEMORY.md`."""

    memory: bytes | None
    old: str
    mark: Watermark | None
    changed: tuple[Source, ...]
    rebuilt: bool
    skipped: tuple[str, ...]


class ConflictError(MemoryCoreError):
    """`MEMORY.md` is not what was read any more."""


async def consolidate(job: Job, *, allow_shrink: bool = False) -> ConsolidationResult:
    """Merge what is new into `MEMORY.md`; see `Ledger.consolidate`."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(job.places, _LOCK, timeout_s=0))
        except BusyError:
            return ConsolidationResult("busy")
        except StorerError as error:
            result = ConsolidationResult("failed", error=str(error))
        else:
            result = await _tried(job, allow_shrink=allow_shrink)
    if result.error:
        log.warning("Consolidation, %s: %s", result.status, result.error)
    await asyncio.to_thread(job.state.record, "consolidation", job.clock.now(), result.status, result.error)
    return result


async def _tried(job: Job, *, allow_shrink: bool) -> ConsolidationResult:
    try:
        return await _round(job, allow_shrink=allow_shrink)
    except ConflictError as error:
        return ConsolidationResult("conflict", error=str(error))
    except (ModelFailedError, StorerError) as error:
        return ConsolidationResult("failed", error=str(error))


async def _round(job: Job, *, allow_shrink: bool) -> ConsolidationResult:
    snapshot = await asyncio.to_thread(take_snapshot, job.places)
    merged: list[str] = []
    backup: Path | None = None
    state = snapshot
    for batch in batches(snapshot.changed):
        text = await _merge(job, state.old, batch, allow_shrink=allow_shrink)
        # One backup a round: what stood there before the first batch is what an undo brings back.
        state, path = await asyncio.to_thread(_commit, job, state, batch, text, keep=backup is None)
        backup = backup or path
        merged.extend(source.name for source in batch)
    status: ConsolidationStatus = "written" if backup else "unchanged" if merged else "nothing"
    if snapshot.skipped and not merged:
        status = "failed"
    return ConsolidationResult(status, tuple(merged), backup, "; ".join(snapshot.skipped), snapshot.rebuilt)


def take_snapshot(places: Places) -> Snapshot:
    """Read `MEMORY.md`, the watermark and the ledgers that the watermark does not cover; archived ones too.

    A ledger that cannot be read is skipped and named; the others are merged, and the round says that it is incomplete.

    Raises:
        StorageUnavailableError, CorruptEntryError: `MEMORY.md` cannot be read: it must not be replaced then.
    """
    with locked(places):
        memory = read_bytes(places, places.memory_md)
        old = decode(memory, places.memory_md) if memory is not None else ""
        mark = load_watermark(places)
        rebuilt = memory is None and mark is not None and mark.memory is not None
        covered: Mapping[str, str] = {} if rebuilt or mark is None else mark.files
        skipped: list[str] = []
        found: dict[str, list[tuple[str, str]]] = {}
        for path in places.ledgers(archived=True):
            try:
                data = read_bytes(places, path)
                text = decode(data, path) if data is not None else ""
            except StorerError as error:
                skipped.append(str(error))
                continue
            if text.strip():
                found.setdefault(path.name, []).append((text, content_hash(data) or ""))
    changed: list[Source] = []
    for name, parts in found.items():  # a day may stand in the archive and beside it
        digest = "+".join(digest for _, digest in parts)
        if covered.get(name) != digest:
            changed.append(Source(name, "\n".join(text for text, _ in parts), digest))
    return Snapshot(memory, old, mark, tuple(changed), rebuilt, tuple(skipped))


def batches(sources: Sequence[Source], limit_tokens: int = BATCH_TOKENS) -> list[list[Source]]:
    """Group the ledgers, oldest first, such that each group has at most about `limit_tokens`, whole files."""
    found: list[list[Source]] = []
    room = 0
    for source in sources:
        cost = estimate_tokens(source.text)
        if not found or cost > room:
            found.append([])
            room = limit_tokens
        found[-1].append(source)
        room -= cost
    return found


async def _merge(job: Job, old: str, batch: Sequence[Source], *, allow_shrink: bool) -> str:
    limit = job.config.consolidation_max_tokens
    system = job.config.consolidation_system(job.locale)
    user = "\n\n".join(
        [
            fence("memory_md", old.strip() or "(empty)"),
            *(fence("ledger_file", source.text.strip(), date=source.name.removesuffix(".md")) for source in batch),
        ]
    )
    sources = "\n".join(source.text for source in batch)
    # Room beyond the limit, so that a reply that is a little too long is seen as such and not as cut.
    room = limit + limit // 2 + 200
    reply = await ask(job.model, system, user, room, job.timeout_s)
    verdict = validate(reply, old, sources, limit, allow_shrink=allow_shrink)
    if verdict.failure and verdict.repairable:
        log.info("A consolidation asks once more: %s", verdict.failure)
        again = f"{user}\n\n{fence('rejected_answer', reply.text[: 8 * limit])}\n\n{_advice(verdict.failure, limit)}"
        reply = await ask(job.model, system, again, room, job.timeout_s)
        verdict = validate(reply, old, sources, limit, allow_shrink=allow_shrink)
    if verdict.failure:
        raise ModelFailedError(f"the model's MEMORY.md was not taken: {verdict.failure}")
    return verdict.text


def _advice(failure: str, limit: int) -> str:
    return (
        f"That answer was not taken: {failure}. Answer with the complete MEMORY.md again, at most {limit} tokens: "
        "keep all that still holds, in the language in which it stands, as a Markdown list under headings."
    )


def _commit(
    job: Job, state: Snapshot, batch: Sequence[Source], text: str, *, keep: bool
) -> tuple[Snapshot, Path | None]:
    """Write `MEMORY.md` and move the watermark over `batch`; return the state for the next batch and the backup."""
    places, now = job.places, job.clock.now()
    data = _encoded(text, state.memory or b"")
    with locked(places):
        _unchanged(places, state.memory)
        # In a rebuild the old watermark says nothing any more; from the second batch on it is a new one.
        covered = dict(state.mark.files) if state.mark is not None and not state.rebuilt else {}
        covered.update({source.name: source.digest for source in batch})
        backup = None
        if data != state.memory:
            if keep:
                backup = save_backup(places, state.memory, state.mark, now)
            _unchanged(places, state.memory)
            replace_file(places, places.memory_md, data)
        mark = Watermark(covered, content_hash(data), now.isoformat())
        save_watermark(places, mark)
    return replace(state, memory=data, old=text, mark=mark, rebuilt=False), backup


def _encoded(text: str, before: bytes) -> bytes:
    """Return the bytes with the line ends and the byte order mark that the file had before."""
    data = text.replace("\n", "\r\n").encode() if b"\r\n" in before else text.encode()
    return codecs.BOM_UTF8 + data if before.startswith(codecs.BOM_UTF8) else data


def _unchanged(places: Places, expected: bytes | None) -> None:
    if content_hash(read_bytes(places, places.memory_md)) != content_hash(expected):
        raise ConflictError(
            "MEMORY.md was edited while the model was merging; the edit stays, the next round merges it"
        )
