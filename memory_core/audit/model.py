"""What an audit found: typed, and ready for JSON. A finding never repeats a secret."""

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from memory_core.model import MemoryId

Check = Literal["secrets", "loops", "duplicates", "near-duplicates", "shadowed", "oversized", "fragments", "expiring"]
CHECKS: tuple[Check, ...] = get_args(Check)
"""All checks, the gravest first; findings come in this order."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: which memories, what about them in one sentence, what to do, and figures for programs."""

    check: Check
    ids: tuple[MemoryId, ...]
    message: str
    advice: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON data."""
        return {
            "check": self.check,
            "memories": [{"scope": id.scope, "user": id.user_id, "key": id.key} for id in self.ids],
            "message": self.message,
            "advice": self.advice,
            "data": self.data,
        }


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The findings over `entries` live memories; `notes` say what could not be checked, and why."""

    entries: int
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    def by_check(self) -> dict[Check, list[Finding]]:
        """Return check → findings, in the order of `CHECKS`, without checks that found nothing."""
        found: dict[Check, list[Finding]] = {}
        for finding in self.findings:
            found.setdefault(finding.check, []).append(finding)
        return {check: found[check] for check in CHECKS if check in found}

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON data."""
        return {
            "entries": self.entries,
            "checks": list(self.checks),
            "findings": [finding.to_json() for finding in self.findings],
            "notes": list(self.notes),
        }
