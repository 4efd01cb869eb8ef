"""An arm that does not stand where the store stands, of whatever kind, shows nothing that was removed or replaced."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory_core.contracts import MemorySearcher
from memory_core.errors import IndexUnavailableError
from memory_core.model import ChangeBatch
from memory_core.solution import StandardSolution
from memory_core.testing import make_entry
from memory_core.testing.fake_embedder import FakeEmbedder
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_searcher_hybrid.searcher import HybridSearcher
from memory_searcher_numpy.searcher import NumpySearcher
from memory_searcher_whoosh.searcher import WhooshSearcher
from memory_storer_kv.storer import KvStorer

from ._hybrids import keys, query


class Stuck(FulltextSearcher):
    """A lexical arm that can be kept from following; counts how often its cursor is asked."""

    stuck = False
    asked = 0

    def apply(self, batch: ChangeBatch, user_id: str) -> None:
        if self.stuck:
            raise IndexUnavailableError("another process holds the lock")
        super().apply(batch, user_id)

    def cursor(self, user_id: str) -> str | None:
        self.asked += 1
        return super().cursor(user_id)


Open = Callable[[dict[str, MemorySearcher]], StandardSolution]


@pytest.fixture
def solution_of(tmp_path: Path) -> Iterator[Open]:
    opened: list[StandardSolution] = []

    def build(arms: dict[str, MemorySearcher]) -> StandardSolution:
        opened.append(StandardSolution(KvStorer({"workspace": tmp_path}), HybridSearcher(arms), ["workspace"]))
        return opened[-1]

    yield build
    for solution in opened:
        solution.close()


@pytest.mark.parametrize("stuck_first", [True, False])
def test_a_lexical_arm_that_cannot_follow_shows_nothing_old(stuck_first: bool, solution_of: Open) -> None:
    stuck = Stuck()
    arms: list[tuple[str, MemorySearcher]] = [("stuck", stuck), ("fulltext", FulltextSearcher())]
    solution = solution_of(dict(arms if stuck_first else arms[::-1]))
    for key, content in (("secret", "my bank password is hunter2"), ("x", "apples"), ("y", "apples and pears")):
        solution.remember(key, content)
    assert keys(solution.search("bank password")) == ["secret"]
    stuck.stuck = True
    solution.forget("secret")
    solution.remember("x", "plums")
    for _ in range(2):
        assert solution.search("bank password") == []
        hits = solution.search("apples")
        assert [(hit.entry.id.key, hit.explain["stuck.failed"]) for hit in hits] == [("y", 1.0)]
        assert [hit.entry.content for hit in solution.search("plums")] == ["plums"]
        assert sorted(entry.content for entry in solution.list_all()) == ["apples and pears", "plums"]
        assert sorted(entry.content for entry in solution.hot()) == ["apples and pears", "plums"]
        assert solution.count() == 2
    stuck.stuck = False
    assert solution.search("bank password") == []
    assert all("stuck.failed" not in hit.explain for hit in solution.search("apples"))


def test_a_lexical_arm_that_another_thread_has_not_brought_up_yet_shows_nothing_old() -> None:
    """Following one arm after another takes time, in which others search."""
    first, second = FulltextSearcher(), FulltextSearcher()
    hybrid = HybridSearcher({"first": first, "second": second})
    hybrid.apply(ChangeBatch([make_entry("secret", "bank password")], (), "1", complete=True), "shared")
    first.apply(ChangeBatch((), [make_entry("secret").id], "2"), "shared")
    assert hybrid.search(query("bank password")) == []
    second.apply(ChangeBatch((), [make_entry("secret").id], "2"), "shared")
    assert hybrid.search(query("bank password")) == []
    hybrid.close()


def test_whoosh_whose_lock_is_held_shows_nothing_old(tmp_path: Path, solution_of: Open) -> None:
    from filelock import FileLock

    solution = solution_of(
        {"fulltext": FulltextSearcher(), "whoosh": WhooshSearcher(tmp_path / "w", lock_timeout_s=0.05)}
    )
    solution.remember("secret", "my bank password is hunter2")
    assert keys(solution.search("bank password")) == ["secret"]
    locks = list((tmp_path / "w").rglob("*LOCK")) + list((tmp_path / "w").rglob("*.lock"))
    assert locks
    solution.forget("secret")
    held = [FileLock(path, timeout=1) for path in locks]
    for lock in held:
        lock.acquire()
    try:
        assert solution.search("bank password") == []
    finally:
        for lock in held:
            lock.release()
    assert solution.search("bank password") == []


def test_where_an_arm_stands_is_asked_only_to_compare_it() -> None:
    """A search over one lexical arm asks it for its cursor no more often than following needs."""
    counted: Counter[str] = Counter()
    for name, others in (("alone", {}), ("with numpy", {"numpy": NumpySearcher(FakeEmbedder())})):
        arm = Stuck()
        hybrid = HybridSearcher({"one": arm, **others})
        hybrid.apply(ChangeBatch([make_entry("k", "apples")], (), "1", complete=True), "shared")
        arm.asked = 0
        assert keys(hybrid.search(query("apples")))[:1] == ["k"]
        hybrid.list_all("shared", 5)
        counted[name] = arm.asked
        hybrid.close()
    assert counted == Counter({"alone": 0, "with numpy": 1})
