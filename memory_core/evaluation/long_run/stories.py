"""The texts of a long run: every version has a stamp, and its text follows from the stamp alone."""

import re
from dataclasses import dataclass

from memory_core.evaluation.bench_texts import Texts
from memory_core.model import MemoryEntry
from memory_core.solution import INSIGHT_PREFIX

SHARED_KEYS = 8
_STAMP = re.compile(r"w(\d+)x(\d+)z")
_EACH = 10_000_000


@dataclass(frozen=True, slots=True)
class Stories:
    """Stamps and texts of one seed."""

    seed: int

    @staticmethod
    def stamp(process: int, number: int) -> str:
        """Return the stamp of one version: one word for every tokenizer."""
        return f"w{process}x{number}z"

    def text(self, stamp: str) -> str:
        """Return the text of a version."""
        match = _STAMP.fullmatch(stamp)
        if match is None:
            raise ValueError(f"{stamp!r} is no stamp")
        process, number = map(int, match.groups())
        return f"{Texts(self.seed).text(process * _EACH + number)} {stamp}"

    def read(self, entry: MemoryEntry) -> str:
        """Return the stamp of an entry, or a word that no version has when its text is not that version's."""
        stamp = entry.content.rsplit(" ", 1)[-1]
        if _STAMP.fullmatch(stamp) and entry.content.removeprefix(INSIGHT_PREFIX) == self.text(stamp):
            return stamp
        return f"(a text that nobody wrote: {entry.content[:80]!r})"


def own_key(process: int, number: int) -> str:
    """Return a key that only one process writes."""
    return f"p{process}-{number}"


def shared_key(number: int) -> str:
    """Return a key that all processes write."""
    return f"common-{number % SHARED_KEYS}"


def scope_of(key: str) -> str:
    """Return the scope in which a key lives: one in five holds everywhere."""
    return "user" if key.endswith(("0", "5")) else "workspace"
