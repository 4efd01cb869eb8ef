"""Runs the checks over every live memory of a store."""

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from memory_core.audit.duplicates import exact_groups, near_groups
from memory_core.audit.loops import own_words
from memory_core.audit.model import CHECKS, AuditReport, Check, Finding
from memory_core.audit.secrets import EXTRA, detectors_installed, find_secrets, sensitive_field
from memory_core.clock import SystemClock
from memory_core.contracts import Clock, MemorySolution, Progress
from memory_core.model import MemoryEntry
from memory_core.policy import DAY_S, FRAGMENT_BELOW, FRAGMENT_LIMIT
from memory_core.text import estimate_tokens
from memory_core.transfer.report import no_progress

DEFAULT_SOON_DAYS = 7
DEFAULT_SIMILARITY = 0.8
DEFAULT_OVERSIZED_TOKENS = 2_000
PROGRESS_STEP = 200
SHOWN_KEYS = 5


@dataclass(frozen=True, slots=True)
class AuditLimits:
    """What counts as soon, alike and large."""

    soon_days: int = DEFAULT_SOON_DAYS
    similarity: float = DEFAULT_SIMILARITY
    oversized_tokens: int = DEFAULT_OVERSIZED_TOKENS


def run_audit(
    solution: MemorySolution,
    *,
    user_id: str | None = None,
    scope: str | None = None,
    checks: Collection[Check] = CHECKS,
    limits: AuditLimits | None = None,
    clock: Clock | None = None,
    progress: Progress = no_progress,
) -> AuditReport:
    """Look at every live memory (of one user, of one scope); nothing is changed.

    Memories of different users are never compared with each other.

    Raises:
        StorageUnavailableError: The store could not be read.

    """
    limits = limits or AuditLimits()
    now = (clock or SystemClock()).now()
    entries: list[MemoryEntry] = []
    single: list[Finding] = []
    for entry in solution.storer.scan(user_id, scope):
        entries.append(entry)
        single.extend(_single(entry, checks, limits, now))
        if len(entries) % PROGRESS_STEP == 0:
            progress(len(entries), None)
    entries.sort(key=lambda entry: entry.id)
    findings = [*single, *_together(entries, checks, limits, solution.scopes)]
    findings.sort(key=lambda finding: (CHECKS.index(finding.check), finding.ids))
    notes: list[str] = []
    if "secrets" in checks and not detectors_installed():
        notes.append(
            "The package detect-secrets is not installed, so only our own patterns looked for secrets: "
            f"pip install 'memory-talent[{EXTRA}]' adds its detectors."
        )
    done: tuple[Check, ...] = tuple(check for check in CHECKS if check in checks)
    return AuditReport(len(entries), done, tuple(findings), tuple(notes))


def _single(entry: MemoryEntry, checks: Collection[Check], limits: AuditLimits, now: datetime) -> Iterator[Finding]:
    """Yield what is to be said about one memory alone."""
    place = f"{entry.id.key!r} ({entry.id.scope}, user {entry.id.user_id!r})"
    if "secrets" in checks and (kinds := _secret_kinds(entry)):
        yield Finding(
            "secrets",
            (entry.id,),
            f"{place} holds what looks like a secret: {', '.join(kinds)}.",
            'Forget it and store where the secret is kept instead; `filter = ["redact"]` keeps new ones out.',
            {"kinds": kinds},
        )
    if "loops" in checks and (marker := own_words(entry.content)):
        yield Finding(
            "loops",
            (entry.id,),
            f"{place} is text that we injected ourselves, stored as a memory ({marker}).",
            "Forget it: it repeats memories that are there already.",
            {"marker": marker},
        )
    if "oversized" in checks and (size := estimate_tokens(entry.content)) > limits.oversized_tokens:
        yield Finding(
            "oversized",
            (entry.id,),
            f"{place} has about {size:,} tokens; whatever injects it fills the context with it.",
            "Keep the text in a file, and its gist and path in the memory.",
            {"tokens": size},
        )
    if "expiring" in checks and entry.expires_at is not None:
        left = entry.expires_at - now
        if left <= timedelta(days=limits.soon_days):
            yield Finding(
                "expiring",
                (entry.id,),
                f"{place} expires on {entry.expires_at:%Y-%m-%d %H:%M} UTC, in {_span(left)}.",
                "Store it again, with a higher importance to keep it longer.",
                {"expires": entry.expires_at.isoformat(), "seconds": int(left.total_seconds())},
            )


def _span(left: timedelta) -> str:
    days, hours = divmod(int(left.total_seconds()) // 3600, DAY_S // 3600)
    if days > 1:
        return f"{days} days"
    hours += days * 24
    return f"{hours} hour" if hours == 1 else f"{hours} hours"


def _secret_kinds(entry: MemoryEntry) -> list[str]:
    """Return the kinds of secrets in key, content, source and metadata, each once."""
    kinds = [secret.kind for text in (entry.id.key, entry.content, entry.source) for secret in find_secrets(text)]
    kinds.extend(_metadata_kinds(entry.metadata))
    return list(dict.fromkeys(kinds))


def _metadata_kinds(value: object, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for inner, item in cast("dict[str, object]", value).items():
            yield from (secret.kind for secret in find_secrets(inner))
            yield from _metadata_kinds(item, inner)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _metadata_kinds(item, name)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        if sensitive_field(name, value):
            yield "secret field"
        yield from (secret.kind for secret in find_secrets(str(value)))


def _together(
    entries: Sequence[MemoryEntry], checks: Collection[Check], limits: AuditLimits, scopes: Sequence[str]
) -> Iterator[Finding]:
    """Yield what is to be said about several memories at once."""
    if "duplicates" in checks:
        for group in exact_groups(entries):
            yield Finding(
                "duplicates",
                tuple(entry.id for entry in group),
                f"{_keys(group)} of user {group[0].id.user_id!r} say the same.",
                "Keep one, forget the others.",
            )
    if "near-duplicates" in checks:
        for near in near_groups(entries, limits.similarity):
            merged = " ".join(f"--merge {shlex.quote(entry.id.key)}" for entry in near.entries[:SHOWN_KEYS])
            yield Finding(
                "near-duplicates",
                tuple(entry.id for entry in near.entries),
                f"{_keys(near.entries)} of user {near.entries[0].id.user_id!r} "
                f"are alike by {near.similarity:.0%} or more.",
                f"Merge them: memory-core consolidate NEW_KEY INSIGHT {merged}",
                {"similarity": round(near.similarity, 4)},
            )
    if "shadowed" in checks:
        yield from _shadowed(entries, scopes)
    if "fragments" in checks:
        by_user: defaultdict[str, list[MemoryEntry]] = defaultdict(list)
        for entry in entries:
            if entry.importance < FRAGMENT_BELOW:
                by_user[entry.id.user_id].append(entry)
        for user, fragments in by_user.items():
            if len(fragments) >= FRAGMENT_LIMIT:
                yield Finding(
                    "fragments",
                    tuple(entry.id for entry in fragments),
                    f"User {user!r} has {len(fragments)} fragments (importance below {FRAGMENT_BELOW}).",
                    "Consolidate those that belong together into one insight.",
                    {"count": len(fragments)},
                )


def _shadowed(entries: Sequence[MemoryEntry], scopes: Sequence[str]) -> Iterator[Finding]:
    copies: defaultdict[tuple[str, str], list[MemoryEntry]] = defaultdict(list)
    for entry in entries:
        copies[entry.id.user_id, entry.id.key].append(entry)
    rank = {name: place for place, name in enumerate(scopes)}
    for (user, key), group in copies.items():
        if len(group) > 1:
            group.sort(key=lambda entry: rank.get(entry.id.scope, -1))
            others = ", ".join(entry.id.scope for entry in group[:-1])
            yield Finding(
                "shadowed",
                tuple(entry.id for entry in group),
                f"{key!r} of user {user!r} in {group[-1].id.scope} hides the one in {others}.",
                "Nothing to do when that is meant; else forget one with --scope.",
            )


def _keys(entries: Sequence[MemoryEntry]) -> str:
    """Return the first keys for a sentence, and how many more there are."""
    names = [repr(entry.id.key) for entry in entries[:SHOWN_KEYS]]
    rest = len(entries) - len(names)
    last = f"{rest} more" if rest else names.pop()
    return f"{', '.join(names)} and {last}"
