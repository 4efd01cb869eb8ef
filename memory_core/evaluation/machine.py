"""Says on what a measurement was made: the machine and the versions, nothing about its owner."""

import os
import platform
import re
import sqlite3
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "memory-talent",
    "numpy",
    "lancedb",
    "whoosh3",
    "redis",
    "sentence-transformers",
    "torch",
    "onnxruntime",
    "wordllama",
    "model2vec",
    "PyStemmer",
    "ir-measures",
)
"""Those whose version can change a figure."""
CPUINFO = Path("/proc/cpuinfo")  # only Linux has it


def heading(kind: str, schema: int, parameters: dict[str, Any], machine: dict[str, Any]) -> dict[str, Any]:
    """Return what every report starts with: which kind and version it is, when and on what it was made, and how."""
    return {
        "schema": schema,
        "kind": kind,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine,
        "parameters": parameters,
    }


def describe_machine() -> dict[str, Any]:
    """Return what a reader needs to judge figures, and nothing that names the machine, its user or its folders.

    Keys: `processor` (its name), `cores` (that this process may use), `memory_gib` (None where the system does not
    tell), `system`, `python`, `sqlite`, `packages` (name → version, those of `PACKAGES` that are installed), `date`
    (today, UTC).
    """
    return {
        "processor": _processor(),
        "cores": _cores(),
        "memory_gib": _memory_gib(),
        "system": _system(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: found for name in PACKAGES if (found := _version(name)) is not None},
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, AttributeError):
        name = platform.system()
    release = re.match(r"[\d.]*\d", platform.release())  # what follows the number may be a name that somebody chose
    return " ".join(filter(None, [name, release.group() if release else "", platform.machine()]))


def _processor() -> str:
    try:
        for line in CPUINFO.read_text("utf-8", "replace").splitlines():
            if line.lower().startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    except OSError:
        pass  # another system: `platform` knows at least the family
    return platform.processor() or platform.machine() or "unknown"


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux tells
        return os.cpu_count() or 1


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None
