"""Locks over a fork: free in the child, whoever held them, and as before in the parent."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import pytest

from memory_core import forking
from memory_core.forking import ForkLock
from memory_core.testing.forks import CAN_FORK, outcome_in_child

from .fakes import Parts, down, keys

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="this system does not fork")


def test_a_child_does_not_wait_for_a_thread_that_was_following(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    solution, storer, _ = parts
    solution.remember("k", "apples")
    inside, go_on = Event(), Event()

    def wait(operation: str, id: object) -> None:
        if operation == "changes":
            inside.set()
            assert go_on.wait(60)

    def use() -> None:
        storer.fails = down()
        assert keys(solution.search("apples")) == ["k"]
        assert solution.reindex() == 1

    monkeypatch.setattr(forking, "_WAIT_S", 0.1)
    storer.fails = wait
    follower = Thread(target=solution.sync)
    follower.start()
    assert inside.wait(10)
    try:
        assert outcome_in_child(use) == "done"
    finally:
        go_on.set()
        follower.join()
    assert keys(solution.search("apples")) == ["k"]


def take(*locks: ForkLock) -> None:
    for lock in locks:
        with lock, lock:
            pass


def test_a_fork_takes_locks_from_the_outer_to_the_inner_and_gives_all_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the inner one taken first, the two threads would wait for each other until the fork gives up."""
    monkeypatch.setattr(forking, "_WAIT_S", 20.0)
    inner, outer = ForkLock(forking.INNER), ForkLock(forking.OUTER)
    entered = Event()

    def hold() -> None:
        with outer:
            entered.set()
            time.sleep(0.3)
            take(inner)

    holder = Thread(target=hold)
    holder.start()
    assert entered.wait(10)
    start = time.monotonic()
    assert outcome_in_child(lambda: take(outer, inner)) == "done"
    assert time.monotonic() - start < 15
    holder.join()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(take, outer, inner).result(10)  # from another thread: nothing is still held


def test_a_fork_by_the_thread_that_holds_a_lock_keeps_it_on_both_sides() -> None:
    lock = ForkLock(forking.MIDDLE)

    def held_here() -> None:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lock.lock.acquire, timeout=0.05).result(10) is False

    with lock:
        assert outcome_in_child(held_here) == "done"
        held_here()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(take, lock).result(10)


def test_what_fails_around_a_fork_leaves_no_lock_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("cannot close")

    lock = ForkLock(forking.MIDDLE)
    monkeypatch.setattr(forking, "_inner", [(fail, fail)])
    with pytest.raises(OSError, match="cannot close"):
        ForkLock.before_fork()
    with pytest.raises(OSError, match="cannot close"):
        ForkLock.after_fork_in_parent()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(take, lock, ForkLock(forking.INNER)).result(10)
