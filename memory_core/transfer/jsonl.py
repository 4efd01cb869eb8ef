"""JSON Lines: one memory a line, in the form of `memory_core.serial`; what is exported can be imported to the byte."""

from collections.abc import Iterable
from typing import Protocol

from memory_core.clock import SystemClock
from memory_core.contracts import Clock, MemorySolution, MemoryStorer, Progress
from memory_core.errors import CorruptEntryError
from memory_core.serial import from_json, to_json
from memory_core.transfer.intake import PROGRESS_STEP, Intake
from memory_core.transfer.report import ConflictRule, ExportReport, ImportReport, no_progress


class ByteSink(Protocol):
    """What an export writes to: a file opened in binary mode."""

    def write(self, data: bytes, /) -> object: ...  # noqa: D102 - the class says it


def export_jsonl(
    storer: MemoryStorer,
    sink: ByteSink,
    *,
    user_id: str | None = None,
    scope: str | None = None,
    progress: Progress = no_progress,
) -> ExportReport:
    """Write every live memory of a store (of one user, of one scope) as UTF-8 lines; the order is not defined.

    Raises:
        StorageUnavailableError: The store could not be read.
        OSError: The sink could not be written.

    """
    written = 0
    for entry in storer.scan(user_id, scope):
        sink.write(to_json(entry).encode() + b"\n")
        written += 1
        if written % PROGRESS_STEP == 0:
            progress(written, None)
    progress(written, written)
    return ExportReport(written)


def import_jsonl(
    solution: MemorySolution,
    lines: Iterable[bytes],
    *,
    conflict: ConflictRule = "newer",
    dry_run: bool = False,
    scope: str | None = None,
    user_id: str | None = None,
    clock: Clock | None = None,
    progress: Progress = no_progress,
    expected: int | None = None,
) -> ImportReport:
    """Store one memory per line, with its own times, expiry, source and metadata; blank lines do not count.

    A line that is not a memory, names a scope that the solution lacks, or is refused by a filter is reported by its
    number, and the others go on.

    Args:
        solution: Where the memories go; its filters see each of them.
        lines: The file's lines as bytes, for example a file opened in binary mode.
        conflict: What happens to a memory that is already there.
        dry_run: Only say what would happen.
        scope: Put everything into this scope, whatever the lines say.
        user_id: Give everything to this user, whatever the lines say.
        clock: Decides what has expired.
        progress: Told how many lines are done.
        expected: How many lines there are, when the caller knows.

    Raises:
        StorageUnavailableError: The store failed; what was taken over before stays, and the import can be repeated.

    """
    intake = Intake(solution, clock or SystemClock(), conflict, dry_run, scope, user_id, progress, expected)
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if not text.strip():
            continue
        try:
            entry = from_json(text)
        except CorruptEntryError as error:
            intake.skip(f"line {number}", str(error))
            continue
        intake.take(entry, f"line {number}")
    return intake.finish()
