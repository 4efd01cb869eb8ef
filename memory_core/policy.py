"""How long memories live, and how the injected block is shared out: pure functions and their defaults."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from memory_core.errors import BudgetError, ConfigError

FOREVER = -1
DAY_S = 86_400
DEFAULT_TTL: Mapping[int, int] = {10: FOREVER, 5: 30 * DAY_S, 1: 7 * DAY_S}
"""Importance from N on → seconds; −1 means for ever."""

DEFAULT_RELEVANCE_COUNT = 6
DEFAULT_PRIORITY_COUNT = 5
DEFAULT_SUMMARY_CHARS = 80
MIN_SUMMARY_CHARS = 10
DEFAULT_TOP_K = 5
MAX_TOP_K = 100
MAX_LISTED = 100
FRAGMENT_BELOW = 5
"""Entries below this importance are fragments."""
FRAGMENT_LIMIT = 5
"""From this many fragments on, consolidation is suggested."""


def ttl_by_importance(importance: int, table: Mapping[int, int] = DEFAULT_TTL) -> int:
    """Return the lifetime in seconds of a memory of that importance; −1 means for ever.

    The row with the highest threshold that `importance` reaches decides; below every threshold, the lowest row.
    """
    reached = [threshold for threshold in table if threshold <= importance]
    return table[max(reached) if reached else min(table)]


def expiry(start: datetime, ttl_s: int | None) -> datetime | None:
    """Return the moment at which a memory stored at `start` is gone, or None for never.

    One rule: a positive number of seconds counts from `start`; −1 and None mean for ever; a moment beyond the year
    9999 is never reached and so means for ever too.

    Raises:
        ConfigError: `ttl_s` is 0 or below −1. Storing what is already gone is always a mistake.
    """
    if ttl_s is None or ttl_s == FOREVER:
        return None
    if ttl_s < 1:
        raise ConfigError(f"A TTL of {ttl_s} seconds is not possible: give a positive number, or -1 for ever.")
    try:
        return start.astimezone(UTC) + timedelta(seconds=ttl_s)
    except OverflowError:
        return None


def check_ttl_table(table: Mapping[int, int]) -> Mapping[int, int]:
    """Return `table` unchanged when it can serve as TTL by importance.

    Raises:
        ConfigError: It is empty, has a threshold outside 1..10, or a lifetime that `expiry` refuses.
    """
    if not table:
        raise ConfigError("The [ttl] table is empty: give at least one line such as `1 = 604800`.")
    for threshold, ttl_s in table.items():
        if not 1 <= threshold <= 10:
            raise ConfigError(f"[ttl] {threshold} = {ttl_s}: the importance on the left goes from 1 to 10.")
        expiry(datetime(2000, 1, 1, tzinfo=UTC), ttl_s)
    return table


def check_count(value: int, name: str, at_least: int = 0) -> int:
    """Return `value` unchanged when it is a whole number of at least `at_least`.

    Raises:
        BudgetError: It is not; the message names `name`.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BudgetError(f"{name} is {value!r}; it must be a whole number of at least {at_least}.")
    return value
