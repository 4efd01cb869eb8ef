"""Memories in and out: JSON Lines files, other systems' exports, and moving from one store to another.

Everything here streams, reports what it left out and why, and never deletes a source.
"""

from memory_core.contracts import Progress
from memory_core.transfer.jsonl import export_jsonl, import_jsonl
from memory_core.transfer.mem0 import import_mem0
from memory_core.transfer.migrate import migrate
from memory_core.transfer.report import (
    ConflictRule,
    ExportReport,
    ImportReport,
    MigrationReport,
    SkippedRecord,
)
from memory_core.transfer.solon import import_solon

__all__ = [
    "ConflictRule",
    "ExportReport",
    "ImportReport",
    "MigrationReport",
    "Progress",
    "SkippedRecord",
    "export_jsonl",
    "import_jsonl",
    "import_mem0",
    "import_solon",
    "migrate",
]
