"""The real clock. Tests use `memory_core.testing.FakeClock`."""

from datetime import UTC, datetime


class SystemClock:
    """A `Clock` that reads the system's time."""

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""
        return datetime.now(UTC)
