"""What the ledger remembers about itself, on disk: throttles, the watermark, how the last runs went.

`memory/.ledger_state` holds the throttles and the health; `memory/.consolidation_state` the watermark. Both are JSON;
one that cannot be read counts as absent, which only makes the next round do more.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from memory_core.errors import StorerError
from memory_core.ledger.disk import Places, locked, read_text, replace

log = logging.getLogger(__name__)

MAX_THROTTLE_KEYS = 10_000
_VERSION = 1


def _load(places: Places, path: Path) -> dict[str, Any] | None:
    try:
        text = read_text(places, path)
        value = json.loads(text) if text is not None else None
    except (StorerError, ValueError, RecursionError) as error:
        log.warning("The ledger's state %s cannot be read and counts as absent: %s", path.name, error)
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType] - checked by users


def _moment(value: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def _save(places: Places, path: Path, value: Mapping[str, Any]) -> None:
    replace(places, path, (json.dumps({"version": _VERSION, **value}, indent=1) + "\n").encode())


# --- throttles and health ----------------------------------------------------------------------------------------


class LedgerState:
    """Throttles by name, and the outcome of the last run of each job. All writes happen under the ledger's lock."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._path = places.folder / ".ledger_state"

    def claim(self, name: str, now: datetime, gap: timedelta) -> "Claim | None":
        """Take the turn of `name` when the last one is at least `gap` ago, else return None.

        A last turn that lies in the future (a clock that was set back) does not count.

        Raises:
            StorageUnavailableError: The state cannot be written.
        """
        with locked(self._places):
            state = _load(self._places, self._path) or {}
            turns = _mapping(state.get("turns"))
            before = _moment(turns.get(name))
            if before is not None and timedelta(0) <= now - before < gap:
                return None
            turns.pop(name, None)
            turns[name] = now.isoformat()
            while len(turns) > MAX_THROTTLE_KEYS:
                turns.pop(next(iter(turns)))
            _save(self._places, self._path, {**state, "turns": turns})
        return Claim(self, name, now, before)

    def give_back(self, claim: "Claim") -> None:
        """Undo a claim after a failure, unless somebody has claimed since; a failure to do so is only logged."""

        def undo(state: dict[str, Any]) -> None:
            turns = _mapping(state.get("turns"))
            if turns.get(claim.name) == claim.at.isoformat():
                turns.pop(claim.name)
                if claim.before is not None:
                    turns[claim.name] = claim.before.isoformat()
            state["turns"] = turns

        self._update(undo)

    def record(self, job: str, now: datetime, status: str, error: str = "") -> None:
        """Note how a run ended, for `doctor`; a failure to do so is only logged."""

        def note(state: dict[str, Any]) -> None:
            health = _mapping(state.get("health"))
            health[job] = {"at": now.isoformat(), "status": status, "error": error}
            state["health"] = health

        self._update(note)

    def health(self) -> dict[str, dict[str, str]]:
        """Return job → `at`, `status`, `error` of its last run."""
        jobs = _mapping((_load(self._places, self._path) or {}).get("health"))
        return {job: {str(k): str(v) for k, v in _mapping(run).items()} for job, run in jobs.items()}

    def _update(self, change: Callable[[dict[str, Any]], None]) -> None:
        try:
            with locked(self._places):
                state = _load(self._places, self._path) or {}
                change(state)
                _save(self._places, self._path, state)
        except StorerError as error:
            log.warning("The ledger's state could not be written: %s", error)


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn that was taken, and the one before it."""

    state: LedgerState
    name: str
    at: datetime
    before: datetime | None

    def give_back(self) -> None:
        """Undo the claim."""
        self.state.give_back(self)


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownArgumentType] - JSON


# --- the watermark -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Watermark:
    """What `MEMORY.md` contains already: daily file name → hash of its content when it was merged.

    Hashes, not times: an edit within the same tick, a restored copy or a clock that jumps cannot hide a change.
    `memory` is the hash of `MEMORY.md` after the last good consolidation.
    """

    files: Mapping[str, str] = field(default_factory=dict[str, str])
    memory: str | None = None
    at: str = ""

    def fields(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"at": self.at, "memory": self.memory, "files": dict(self.files)}

    @classmethod
    def from_fields(cls, value: object) -> "Watermark | None":
        """Build a watermark from its JSON form; None for anything else."""
        state = _mapping(value)
        files, memory = state.get("files"), state.get("memory")
        if not isinstance(files, dict) or not isinstance(memory, str | None):
            return None
        pairs = _mapping(state["files"])
        return cls({name: str(digest) for name, digest in pairs.items()}, memory, str(state.get("at", "")))


def load_watermark(places: Places) -> Watermark | None:
    """Return the watermark; None when there was no consolidation yet or its state cannot be read."""
    return Watermark.from_fields(_load(places, places.folder / ".consolidation_state"))


def save_watermark(places: Places, mark: Watermark | None) -> None:
    """Write the watermark, or remove it. Call it under the lock, after a good write of `MEMORY.md`.

    Raises:
        StorageUnavailableError: It could not be written.
    """
    path = places.folder / ".consolidation_state"
    if mark is None:
        places.checked(path).unlink(missing_ok=True)
    else:
        _save(places, path, mark.fields())
