"""A clock that stands still until it is told to move."""

from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class FakeClock:
    """A `Clock` for tests: `advance` moves it, nothing else does."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start.astimezone(UTC)

    def now(self) -> datetime:
        """Return the moment at which the clock stands."""
        return self._now

    def advance(self, seconds: float = 0, **more: float) -> datetime:
        """Move by seconds (and `days=…`, `hours=…`) and return the new moment."""
        self._now += timedelta(seconds=seconds, **more)
        return self._now
