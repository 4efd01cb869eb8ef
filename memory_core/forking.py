"""Locks that a fork finds free, so that a child process never waits for a thread that it does not have.

A fork copies memory with every lock as it is, but only the thread that forks. Therefore all `ForkLock`s are taken just
before it, from the outer to the inner, and given back on both sides: no other thread is then in the middle of what they
guard. One that another thread keeps for too long is new in the child.
"""

import os
import time
from collections.abc import Callable
from itertools import count
from threading import Lock, RLock, local
from types import TracebackType
from weakref import WeakSet

OUTER, MIDDLE, INNER = range(3)
"""Ranks, in the order in which a thread takes locks of several: providers, solutions, stores."""

_WAIT_S = 2.0
"""How long a fork waits for all of them together."""

_numbers = count()


class ForkLock:
    """An `RLock` for `with`, free in every child process.

    Args:
        rank: `OUTER`, `MIDDLE` or `INNER`. Those of one rank are taken in the order of their making, before a fork as
            everywhere where a thread takes several.
    """

    __slots__ = ("__weakref__", "lock", "place")

    def __init__(self, rank: int) -> None:
        self.lock = RLock()
        self.place = (rank, next(_numbers))
        with _registering:
            _all.add(self)

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lock.release()

    @staticmethod
    def before_fork() -> None:
        """Take all of them, as long as it does not take too long."""
        with _registering:
            waiting = sorted(_all, key=lambda lock: lock.place)
        give_up = time.monotonic() + _WAIT_S
        _forking.taken = [lock for lock in waiting if lock.lock.acquire(timeout=max(0.0, give_up - time.monotonic()))]
        try:
            for before, _ in _inner:
                before()
        finally:
            _registering.acquire()

    @staticmethod
    def after_fork_in_parent() -> None:
        """Give back what was taken."""
        _registering.release()
        try:
            for _, after in _inner:
                after()
        finally:
            for lock in _forking.taken:
                lock.lock.release()
            _forking.taken = []

    @staticmethod
    def after_fork_in_child() -> None:
        """Give back what was taken, and make anew what a thread holds that is not here."""
        _registering.release()
        taken = set(_forking.taken)
        for lock in list(_all):
            if lock in taken:
                lock.lock.release()
            else:
                lock.lock = RLock()
        _forking.taken = []


_all: WeakSet[ForkLock] = WeakSet()
_registering = Lock()
_forking = local()
_inner: list[tuple[Callable[[], None], Callable[[], None]]] = []


def around_fork(before: Callable[[], None], after_in_parent: Callable[[], None]) -> None:
    """Have `before` called before each fork, when every `ForkLock` is taken, and the other after it in the parent.

    For a store with its own way to be left alone: called earlier, it would keep out those who hold a `ForkLock`.
    """
    _inner.append((before, after_in_parent))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=ForkLock.before_fork,
        after_in_parent=ForkLock.after_fork_in_parent,
        after_in_child=ForkLock.after_fork_in_child,
    )
