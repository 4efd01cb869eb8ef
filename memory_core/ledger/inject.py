"""`MEMORY.md` in the prompt: fenced, as data, whole entries within a budget, and never cut without saying so."""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_core.errors import BudgetError
from memory_core.ledger.blocks import Entry, clean_text, entries
from memory_core.ledger.fencing import MEMORY_TAG, escape_tags
from memory_core.ledger.wording import Wording
from memory_core.policy import check_count
from memory_core.text import estimate_tokens

DEFAULT_BUDGET_TOKENS = 8_000
MIN_BUDGET_TOKENS = 120
"""Below this not even the block's frame and notice fit."""


@dataclass(frozen=True, slots=True)
class Block:
    """The block and what it holds: `shown` of `total` entries."""

    text: str
    shown: int = 0
    total: int = 0


def check_budget(budget_tokens: int) -> int:
    """Return the budget unchanged when it can hold a block, or is 0 for none.

    Raises:
        BudgetError: It is negative, no whole number, or between 1 and the least that a block takes.
    """
    check_count(budget_tokens, "budget_tokens")
    if 0 < budget_tokens < MIN_BUDGET_TOKENS:
        raise BudgetError(
            f"budget_tokens is {budget_tokens}; a block needs at least {MIN_BUDGET_TOKENS} (0 means no block)."
        )
    return budget_tokens


def block(memory: str, budget_tokens: int, wording: Wording, *, searchable: bool) -> Block:
    """Return the block for a prompt; an empty text for a blank memory or a budget of 0.

    Entries that do not fit are left out whole, the first ones first served, and a last line says how many and what to
    do: it names `memory_search` when the agent has it.

    Raises:
        BudgetError: As `check_budget`.
    """
    check_budget(budget_tokens)
    found = entries(clean_text(memory))
    facts = [entry for entry in found if not entry.heading]
    if not facts or not budget_tokens:
        return Block("")
    texts = [escape_tags(entry.text.rstrip()) for entry in found]
    whole = _frame("\n".join(_spaced(found, texts, range(len(found)))), wording)
    if estimate_tokens(whole) <= budget_tokens:
        return Block(whole, len(facts), len(facts))
    notice = wording.cut_notice if searchable else wording.cut_notice_without_tool
    room = (
        budget_tokens
        - estimate_tokens(_frame("", wording))
        - estimate_tokens(notice.format(left=99_999, total=99_999))
        - 1
    )
    chosen: list[int] = []
    pending: list[int] = []  # headings that still wait for an entry below them
    for index, entry in enumerate(found):
        if entry.heading:
            pending = [above for above in pending if _level(found[above]) < _level(entry)]
            pending.append(index)
            continue
        cost = sum(estimate_tokens(texts[n]) + 1 for n in (*pending, index))
        if cost <= room:
            room -= cost
            chosen.extend((*pending, index))
            pending = []
    shown = sum(not found[index].heading for index in chosen)
    lines = _spaced(found, texts, chosen)
    lines.append(notice.format(left=len(facts) - shown, total=len(facts)))
    return Block(_frame("\n".join(lines), wording), shown, len(facts))


def _spaced(found: Sequence[Entry], texts: Sequence[str], chosen: Sequence[int]) -> list[str]:
    """Return the chosen texts with the blank lines that keep paragraphs and headings apart."""
    lines: list[str] = []
    for index in chosen:
        if lines and found[index].heading:
            lines.append("")
        lines.append(texts[index])
    return lines


def _level(heading: Entry) -> int:
    return len(heading.text) - len(heading.text.lstrip("#"))


def _frame(inner: str, wording: Wording) -> str:
    return f'<{MEMORY_TAG} source="MEMORY.md">\n{wording.block_label}\n{inner}\n</{MEMORY_TAG}>'
