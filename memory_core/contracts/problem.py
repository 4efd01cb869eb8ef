"""What `doctor` is told."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that `doctor` reports: what, where, and what to do about it."""

    severity: Literal["info", "warning", "error"]
    code: str
    message: str
    where: str = ""
    advice: str = ""
