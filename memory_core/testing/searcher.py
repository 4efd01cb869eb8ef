"""What every searcher must do."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.contracts import MemorySearcher
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, SearchHit, SearchQuery
from memory_core.testing.clock import START
from memory_core.testing.samples import NASTY_CONTENTS, NASTY_KEYS, RELAXED, contents, make_entry

OpenSearcher = Callable[[], MemorySearcher]

PLAIN_QUERIES: tuple[str, ...] = (
    "it's", "a-b", "user:alice", "GB/s", "20.04", "AND", "OR NOT", "NEAR(a b)", "*", "a*", '"x', '"', "'", "C++", "(", "^x", "key:",
    "{a}", "\\", "%", "_", "x\x00y", "\ud800", "🎉", "\u2028", "---", "<b>", "a AND", "-a", "+a", "~a", "[a TO b]", "a^2", "?", "//",
)  # fmt: skip
"""Text that is syntax somewhere; here it is only text."""

TEXTS: tuple[tuple[str, str], ...] = (
    ("stack", "用户喜欢使用Solon框架写代码"),
    ("cat", "家里有一只猫，名字叫小黑"),
    ("kana", "私はPythonで書きます"),
    ("cpp", "Writes C++ and C# for work, .NET at times"),
    ("r", "Does statistics in R"),
    ("version", "Runs Python 3.11 on Ubuntu 20.04"),
    ("speed", "The disk does 3 GB/s"),
    ("full", "ＡＢＣ株式会社で働く"),
    ("coffee", "It's the user's habit to drink coffee each morning"),
    ("korean", "사용자는 파이썬을 좋아합니다"),
)

LEXICAL: tuple[tuple[str, str], ...] = (
    ("框架", "stack"), ("Solon", "stack"), ("solon框架", "stack"), ("使用Solon框架", "stack"), ("猫", "cat"), ("小黑", "cat"),
    ("python 私", "kana"), ("C++", "cpp"), ("c#", "cpp"), (".NET", "cpp"), ("R", "r"), ("3.11", "version"), ("20.04", "version"),
    ("GB/s", "speed"), ("ABC", "full"), ("it's coffee", "coffee"), ("drinking coffees", "coffee"), ("파이썬", "korean"),
)  # fmt: skip

MIXED_TEXTS: tuple[tuple[str, str], ...] = (
    ("k1", "我们的后端使用.NET框架"),
    ("k2", "サーバーは.envで設定します"),
    ("k3", "데이터는.csv파일에"),
    ("k4", "ใช้.yaml ทุกวัน"),
    ("k5", "请看架构图.png和第3章.Next"),
    ("k6", "用C++写引擎，用C#写界面，Python3.11版"),
    ("k7", "后端是．ＧＩＴ和ｃ＋＋２０"),
    ("k8", "联系@alice谢谢，R&D部门，速度GB/s左右，node.js服务"),
    ("k9", "https://docs.example.com/products/database/reference/manual/configuration/postgresql/tuning"),
    ("k10", "五星好评⭐ ⏰ 7:30"),
    ("k11", "⌚ ⌘K ⬛"),
)

MIXED: tuple[tuple[str, str], ...] = (
    (".NET", "k1"), ("使用.NET", "k1"), ("．ＮＥＴ", "k1"), ("net", "k1"), (".env", "k2"), ("env", "k2"), (".csv", "k3"),
    (".yaml", "k4"), ("png", "k5"), (".png", "k5"), ("next", "k5"), ("C++", "k6"), ("c#", "k6"), ("Ｃ＃", "k6"), ("3.11", "k6"),
    (".git", "k7"), ("Ｃ＋＋", "k6"), ("20", "k7"), ("alice", "k8"), ("@alice", "k8"), ("R&D", "k8"), ("gb/s", "k8"),
    ("node.js", "k8"), ("node", "k8"), ("postgresql", "k9"), ("tuning", "k9"), ("docs.example.com", "k9"),
    ("⭐", "k10"), ("⏰", "k10"), ("⌚", "k11"), ("⌘", "k11"), ("⬛", "k11"),
)  # fmt: skip
"""Names with signs beside scripts that are written without spaces, parts of long compounds, signs that mean something."""

MANY_USERS = 70
"""More than are held in memory at once, unless it was said."""


def search(
    searcher: MemorySearcher, text: str, top_k: int = 5, user: str = "shared", **more: object
) -> list[SearchHit]:
    """Search with the usual settings."""
    return searcher.search(replace(SearchQuery(user, text, top_k, START), **more))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def keys(hits: Sequence[SearchHit]) -> list[str]:
    """Return the keys in their order."""
    return [hit.entry.id.key for hit in hits]


class SearcherContract:
    """Subclass it and give the fixture `open_searcher`, which opens the same index anew with each call.

    Capabilities: `lexical` finds words as they are written; `persistent` still knows its entries when it is opened
    again.
    """

    lexical: ClassVar[bool] = True
    persistent: ClassVar[bool] = False

    @pytest.fixture
    def open_searcher(self) -> OpenSearcher:
        """Return how to open the index under test."""
        raise NotImplementedError("give your test class a fixture `open_searcher`")

    @pytest.fixture
    def searcher(self, open_searcher: OpenSearcher) -> Iterator[MemorySearcher]:
        """The index under test, empty."""
        searcher = open_searcher()
        yield searcher
        searcher.close()

    @staticmethod
    def feed(searcher: MemorySearcher, entries: Sequence[MemoryEntry] = (), removals: Sequence[MemoryId] = (), cursor: str = "1", *, complete: bool = False, user: str = "shared") -> None:  # fmt: skip
        """Feed the index as a solution does."""
        searcher.apply(ChangeBatch(list(entries), list(removals), cursor, complete=complete), user)

    # --- finding ---------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(("text", "key"), LEXICAL)
    def test_words_of_every_script_are_found(self, searcher: MemorySearcher, text: str, key: str) -> None:
        if not self.lexical:
            pytest.skip("not a lexical searcher (declared by `lexical = False`)")
        self.feed(searcher, [make_entry(name, content) for name, content in TEXTS])
        assert keys(search(searcher, text, 3))[:1] == [key]

    @pytest.mark.parametrize(("text", "key"), MIXED)
    def test_names_beside_every_script_are_found(self, searcher: MemorySearcher, text: str, key: str) -> None:
        if not self.lexical:
            pytest.skip("not a lexical searcher (declared by `lexical = False`)")
        self.feed(searcher, [make_entry(name, content) for name, content in MIXED_TEXTS])
        assert key in keys(search(searcher, text, 3))

    def test_a_question_in_full_finds_the_entry(self, searcher: MemorySearcher) -> None:
        noise = [make_entry(f"n{n}", f"The user talked about topic {n} and what they like to do") for n in range(30)]
        self.feed(searcher, [*noise, make_entry("web", "The user's favourite web framework is Django")])
        assert "web" in keys(search(searcher, "what web framework does the user like?"))

    def test_a_huge_query_answers(self, searcher: MemorySearcher) -> None:
        self.feed(searcher, [make_entry(f"k{n}", f"topic number{n} zebra{n}") for n in range(50)])
        prompt = " ".join(f"filler{n % 997}" for n in range(50_000)) + " zebra7"
        hits = search(searcher, prompt, 3)
        assert not self.lexical or keys(hits)[:1] == ["k7"]

    @pytest.mark.parametrize("text", PLAIN_QUERIES, ids=ascii)
    def test_a_query_is_plain_text(self, searcher: MemorySearcher, text: str) -> None:
        self.feed(searcher, [make_entry("k", "nothing in particular"), make_entry("other", "some more words")])
        for hit in search(searcher, text, 10):
            assert 0.0 <= hit.score <= 1.0
        if self.lexical:
            assert search(searcher, text, 10) == []

    @settings(max_examples=40, deadline=None, suppress_health_check=RELAXED)
    @given(text=st.text(max_size=200))
    def test_no_query_raises(self, searcher: MemorySearcher, text: str) -> None:
        self.feed(searcher, [make_entry("k", "some words 猫 c++")])
        for hit in search(searcher, text):
            assert 0.0 <= hit.score <= 1.0

    @settings(max_examples=25, deadline=None, suppress_health_check=RELAXED)
    @given(content=contents)
    def test_any_content_can_be_indexed_replaced_and_removed(self, searcher: MemorySearcher, content: str) -> None:
        entry = make_entry("k", content)
        self.feed(searcher, [entry])
        assert searcher.list_all("shared", 10) == [entry]
        self.feed(searcher, [make_entry("k", "something else")])
        self.feed(searcher, removals=[entry.id])
        assert searcher.list_all("shared", 10) == []
        assert search(searcher, content) == []

    @pytest.mark.parametrize("text", ["", " ", "\n\t", "\u3000"])
    def test_blank_text_finds_nothing(self, searcher: MemorySearcher, text: str) -> None:
        self.feed(searcher, [make_entry()])
        assert search(searcher, text) == []

    @pytest.mark.parametrize("top_k", [0, -1])
    def test_no_room_finds_nothing(self, searcher: MemorySearcher, top_k: int) -> None:
        self.feed(searcher, [make_entry()])
        assert search(searcher, "content", top_k) == []

    def test_an_empty_index_finds_nothing(self, searcher: MemorySearcher) -> None:
        assert search(searcher, "anything") == []
        assert searcher.list_all("shared", 10) == []
        assert searcher.hot("shared", 10) == []
        assert searcher.scores(SearchQuery("shared", "x", 5, START), []) == {}

    def test_an_index_of_one_finds_it(self, searcher: MemorySearcher) -> None:
        self.feed(searcher, [make_entry("k", "drinks coffee")])
        assert keys(search(searcher, "coffee")) == ["k"]

    def test_an_entry_without_words_is_no_harm(self, searcher: MemorySearcher) -> None:
        self.feed(searcher, [make_entry("…", "—… !!"), make_entry("k", "drinks coffee")])
        assert keys(search(searcher, "coffee"))[:1] == ["k"]
        assert len(searcher.list_all("shared", 10)) == 2

    def test_top_k_bounds_the_hits(self, searcher: MemorySearcher) -> None:
        self.feed(searcher, [make_entry(f"k{n}", f"coffee number {n}") for n in range(30)])
        assert len(search(searcher, "coffee", 7)) == 7
        assert len(search(searcher, "coffee", 1000)) == 30

    # --- order and filters -----------------------------------------------------------------------------------------

    def test_scores_fall_and_lie_in_0_to_1(self, searcher: MemorySearcher) -> None:
        self.feed(searcher, [make_entry(f"k{n}", "coffee " * (n + 1) + "tea " * (10 - n)) for n in range(10)])
        scores = [hit.score for hit in search(searcher, "coffee tea", 10)]
        assert len(scores) == 10
        assert scores == sorted(scores, reverse=True)
        assert all(0.0 <= score <= 1.0 for score in scores)

    def test_ties_go_by_importance_then_newest_then_key(self, searcher: MemorySearcher) -> None:
        same = "drinks coffee"
        old, new = START - timedelta(days=2), START - timedelta(days=1)
        self.feed(
            searcher,
            [
                make_entry("c", same, importance=5, at=new),
                make_entry("b", same, importance=5, at=new),
                make_entry("d", same, importance=5, at=old),
                make_entry("a", same, importance=2, at=new),
                make_entry("e", same, importance=9, at=old),
            ],
        )
        expected = ["e", "b", "c", "d", "a"]
        assert [entry.id.key for entry in searcher.list_all("shared", 10)] == expected
        if self.lexical:
            assert sorted(keys(search(searcher, "coffee", 5))) == sorted(expected)

    def test_large_ties_are_cut_in_order(self, searcher: MemorySearcher) -> None:
        entries = [make_entry(f"k{n:03}", "drinks coffee", importance=n % 10 + 1) for n in range(200)]
        self.feed(searcher, entries)
        if self.lexical:  # keys differ, so their own words must not decide
            hits = search(searcher, "coffee", 20)
            assert [hit.entry.importance for hit in hits] == [10] * 20

    def test_hot_and_listing(self, searcher: MemorySearcher) -> None:
        self.feed(searcher, [make_entry(f"k{n}", f"text {n}", importance=n) for n in range(1, 11)])
        assert [entry.importance for entry in searcher.hot("shared", 20)] == [10, 9, 8, 7, 6, 5]
        assert [entry.importance for entry in searcher.hot("shared", 2)] == [10, 9]
        assert [entry.importance for entry in searcher.list_all("shared", 20)] == list(range(10, 0, -1))
        assert searcher.count("shared") == 10
        assert searcher.count("shared", below=5) == 4
        assert searcher.hot("shared", 0) == []
        assert searcher.list_all("shared", 0) == []

    def test_filters_count_before_top_k(self, searcher: MemorySearcher) -> None:
        best = [make_entry(f"k{n}", "coffee coffee coffee", importance=2, scope="user") for n in range(50)]
        wanted = make_entry("w", "coffee with a good deal of other words around it", importance=9)
        self.feed(searcher, [*best, wanted])
        assert keys(search(searcher, "coffee", 1, scopes=("workspace",))) == ["w"]
        assert keys(search(searcher, "coffee", 1, min_importance=9)) == ["w"]
        assert search(searcher, "coffee", 1, scopes=()) == []
        assert [entry.id.key for entry in searcher.list_all("shared", 5, scopes=["workspace"])] == ["w"]
        assert searcher.list_all("shared", 5, scopes=[]) == []

    def test_expired_entries_are_never_returned(self, searcher: MemorySearcher) -> None:
        later = START + timedelta(seconds=60)
        gone = [make_entry(f"g{n}", "coffee coffee", importance=9, expires=later) for n in range(30)]
        self.feed(searcher, [*gone, make_entry("stays", "coffee and much else besides", importance=5)])
        before = later - timedelta(microseconds=1)
        assert len(search(searcher, "coffee", 40, now=before)) == 31
        assert keys(search(searcher, "coffee", 2, now=later)) == ["stays"]
        assert [entry.id.key for entry in searcher.hot("shared", 2, now=later)] == ["stays"]
        assert [entry.id.key for entry in searcher.list_all("shared", 2, now=later)] == ["stays"]
        assert len(searcher.list_all("shared", 40, now=before)) == 31

    # --- tenants and scopes ----------------------------------------------------------------------------------------

    def test_no_tenant_sees_another_s(self, searcher: MemorySearcher) -> None:
        for user in ("user", "user2", "user%", "*", "User"):
            self.feed(
                searcher, [make_entry("k", f"coffee of {user}", user=user, metadata={"user_id": "user"})], user=user
            )
        for user in ("user", "user2", "user%", "*", "User"):
            assert [hit.entry.id.user_id for hit in search(searcher, "coffee", 10, user)] == [user]
            assert [entry.id.user_id for entry in searcher.list_all(user, 10)] == [user]
        assert search(searcher, "coffee", 10, "use") == []
        searcher.clear("user")
        assert search(searcher, "coffee", 10, "user") == []
        assert len(search(searcher, "coffee", 10, "user2")) == 1

    def test_the_same_key_in_two_scopes_is_two_entries(self, searcher: MemorySearcher) -> None:
        low, high = make_entry("k", "coffee low", scope="user"), make_entry("k", "coffee high")
        self.feed(searcher, [low, high])
        assert {hit.entry.id.scope for hit in search(searcher, "coffee")} == {"user", "workspace"}
        self.feed(searcher, removals=[high.id], cursor="2")
        assert [hit.entry for hit in search(searcher, "coffee")] == [low]

    def test_nasty_keys_are_indexed_and_removed(self, searcher: MemorySearcher) -> None:
        entries = [make_entry(key, f"coffee {place}") for place, key in enumerate(NASTY_KEYS)]
        self.feed(searcher, entries)
        assert len(searcher.list_all("shared", 1000)) == len(entries)
        self.feed(searcher, removals=[entry.id for entry in entries[::2]], cursor="2")
        assert {entry.id for entry in searcher.list_all("shared", 1000)} == {entry.id for entry in entries[1::2]}

    # --- following -------------------------------------------------------------------------------------------------

    def test_an_update_replaces_the_old_text(self, searcher: MemorySearcher) -> None:
        self.feed(searcher, [make_entry("k", "drinks coffee")])
        self.feed(searcher, [make_entry("k", "drinks tea")], cursor="2")
        assert [hit.entry.content for hit in search(searcher, "drinks")] == ["drinks tea"]
        if self.lexical:
            assert search(searcher, "coffee") == []
        assert len(searcher.list_all("shared", 10)) == 1

    def test_applying_twice_changes_nothing(self, searcher: MemorySearcher) -> None:
        entries = [make_entry(f"k{n}", f"coffee {n}") for n in range(5)]
        for _ in range(3):
            self.feed(searcher, entries)
        assert len(search(searcher, "coffee", 10)) == 5

    def test_a_complete_batch_forgets_the_rest_of_that_user(self, searcher: MemorySearcher) -> None:
        self.feed(searcher, [make_entry("old", "coffee")])
        self.feed(searcher, [make_entry("theirs", "coffee", user="other")], user="other")
        self.feed(searcher, [make_entry("new", "coffee")], cursor="2", complete=True)
        assert keys(search(searcher, "coffee")) == ["new"]
        assert keys(search(searcher, "coffee", user="other")) == ["theirs"]

    def test_the_cursor_is_kept_for_each_user(self, searcher: MemorySearcher) -> None:
        assert searcher.cursor("shared") is None
        self.feed(searcher, [make_entry()], cursor="7")
        assert searcher.cursor("shared") == "7"
        assert searcher.cursor("other") is None
        self.feed(searcher, cursor="8")
        assert searcher.cursor("shared") == "8"
        searcher.clear("shared")
        assert searcher.cursor("shared") is None
        self.feed(searcher, [make_entry()], cursor="9")
        searcher.clear()
        assert searcher.cursor("shared") is None
        assert searcher.list_all("shared", 10) == []

    def test_single_updates_and_removals(self, searcher: MemorySearcher) -> None:
        searcher.update_index(make_entry("k", "coffee"))
        assert keys(search(searcher, "coffee")) == ["k"]
        searcher.remove_index(MemoryId("workspace", "shared", "unknown"))
        searcher.remove_index(MemoryId("workspace", "shared", "k"))
        assert search(searcher, "coffee") == []

    def test_scores_of_given_entries_are_those_of_the_search(self, searcher: MemorySearcher) -> None:
        entries = [make_entry(f"k{n}", "coffee " * (n + 1) + "tea " * (6 - n) + NASTY_CONTENTS[14]) for n in range(6)]
        self.feed(searcher, entries)
        query = SearchQuery("shared", "coffee", 10, START)
        given = searcher.scores(query, [entry.id for entry in entries])
        for hit in searcher.search(query):
            if given:
                assert given[hit.entry.id] == pytest.approx(hit.score, abs=1e-4)
        assert searcher.scores(query, [MemoryId("workspace", "other", "k1")]) == {}

    @pytest.mark.parametrize("text", ["coffee", "coffee 框架", "nothing like it", "  "])
    def test_candidates_are_the_hits(self, searcher: MemorySearcher, text: str) -> None:
        """As ids and scores, in the same order, each entry to be had until it is gone."""
        entries = [make_entry(f"k{n:02}", f"coffee {n} 使用Solon框架 " + "tea " * (n % 4)) for n in range(12)]
        expired = make_entry("gone", "coffee 框架", expires=START - timedelta(days=1))
        self.feed(searcher, [*entries, make_entry("low", "coffee", importance=1), expired])
        whole = SearchQuery("shared", text, 5, START)
        for query in (whole, replace(whole, min_importance=5), replace(whole, scopes=("user",))):
            hits, found = searcher.search(query), searcher.candidates(query)
            assert [key for key, _ in found.ranked] == [hit.entry.id for hit in hits]
            assert [score for _, score in found.ranked] == pytest.approx([hit.score for hit in hits], abs=1e-6)
            ids = [key for key, _ in found.ranked]
            assert found.entries(ids) == {hit.entry.id: hit.entry for hit in hits}
            assert found.entries([*ids[:1], MemoryId("workspace", "shared", "nobody")]).keys() == set(ids[:1])

    def test_opened_again(self, searcher: MemorySearcher, open_searcher: OpenSearcher) -> None:
        self.feed(searcher, [make_entry("k", "coffee")], cursor="5")
        searcher.close()
        again = open_searcher()
        try:
            if self.persistent:
                assert again.cursor("shared") == "5"
                assert keys(search(again, "coffee")) == ["k"]
            else:
                assert again.cursor("shared") is None
        finally:
            again.close()

    def test_threads_search_while_one_writes(self, searcher: MemorySearcher) -> None:
        self.feed(searcher, [make_entry(f"k{n}", f"coffee {n}") for n in range(20)])

        def read(_: int) -> int:
            return min(len(search(searcher, "coffee", 10)) for _ in range(10))

        with ThreadPoolExecutor(4) as pool:
            readers = [pool.submit(read, n) for n in range(3)]
            for number in range(10):
                self.feed(searcher, [make_entry(f"n{number}", f"coffee and tea {number}")], cursor=f"c{number}")
            assert [reader.result() for reader in readers] == [10, 10, 10]

    def test_other_users_push_nothing_out_in_the_midst(self, searcher: MemorySearcher) -> None:
        """Not between the cursor and what came after it, and not between following the store and reading."""
        entries = [make_entry(f"k{n}", f"coffee number {n}") for n in range(5)]

        def others() -> None:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(lambda: [searcher.list_all(f"u{n}", 1) for n in range(MANY_USERS)]).result()

        def changes(since: str | None, user_id: str) -> ChangeBatch:
            assert user_id == "shared"
            known = int(since or 0)
            others()
            return ChangeBatch(entries[known:], (), str(len(entries)), complete=since is None)

        searcher.follow(changes, "shared")
        for number in range(3):
            entries.append(make_entry(f"new{number}", f"coffee of day {number}"))
            searcher.follow(changes, "shared")
            others()
            assert len(searcher.list_all("shared", 99)) == searcher.count("shared") == len(entries)
            assert len(search(searcher, "coffee", 99)) == len(entries)

    def test_closing_twice_is_harmless(self, open_searcher: OpenSearcher) -> None:
        searcher = open_searcher()
        self.feed(searcher, [make_entry()])
        assert searcher.problems() == []
        searcher.close()
        searcher.close()
