"""A progress bar on stderr for what takes longer than two seconds; silent where nobody watches."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import click

from memory_core.contracts import Progress

WAIT_S = 2.0


class _Bar:
    """Shows itself when the work has lasted `WAIT_S` seconds; starts anew when the total changes."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._started = time.monotonic()
        self._bar: Any = None
        self._total: int | None = None
        self._shown = 0

    def __call__(self, done: int, total: int | None) -> None:
        if time.monotonic() - self._started < WAIT_S or not sys.stderr.isatty():
            return
        if self._bar is None or total != self._total or done < self._shown:
            self.close()
            self._total, self._shown = total, 0
            unknown = (
                (n for n in range(0)) if total is None else None
            )  # a generator has no length: click then only counts
            self._bar = click.progressbar(unknown, total, self._label, file=sys.stderr, show_pos=True)
            self._bar.__enter__()
        self._bar.update(done - self._shown)
        self._shown = done

    def close(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None


@contextmanager
def progress_bar(label: str) -> Generator[Progress]:
    """Give a function to report progress to, and clean the line up afterwards."""
    bar = _Bar(label)
    try:
        yield bar
    finally:
        bar.close()
