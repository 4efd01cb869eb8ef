"""A look at every memory: what is double, broken up, secret, too large, about to expire, or our own words come back."""

from memory_core.audit.model import CHECKS, AuditReport, Check, Finding
from memory_core.audit.run import AuditLimits, run_audit

__all__ = ["CHECKS", "AuditLimits", "AuditReport", "Check", "Finding", "run_audit"]
