"""The full-text index: exact ranking, caps that keep what is rare, ties, and many users in little memory."""

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from memory_core.errors import IndexUnavailableError
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, SearchQuery
from memory_core.testing import make_entry
from memory_core.testing.clock import START
from memory_core.text import tokens, unique_tokens
from memory_searcher_fulltext import index as index_module
from memory_searcher_fulltext.index import UserIndex
from memory_searcher_fulltext.searcher import FulltextSearcher

K1, B = 1.2, 0.75


def exact_scores(entries: Sequence[MemoryEntry], text: str) -> dict[MemoryId, float]:
    """BM25 as Robertson & Zaragoza (2009) give it, with the floor that FTS5 puts under the idf."""
    documents = {entry.id: [*tokens(entry.id.key), *tokens(entry.content)] for entry in entries}
    mean = sum(map(len, documents.values())) / len(documents)
    counts = {id: Counter(words) for id, words in documents.items()}
    scores: dict[MemoryId, float] = {}
    for term in unique_tokens(text):
        having = [id for id, count in counts.items() if term in count]
        idf = max(math.log((len(documents) - len(having) + 0.5) / (len(having) + 0.5)), 1e-6) if having else 0.0
        for id in having:
            frequency = counts[id][term]
            norm = K1 * (1 - B + B * len(documents[id]) / mean)
            scores[id] = scores.get(id, 0.0) + idf * frequency * (K1 + 1) / (frequency + norm)
    return scores


def corpus(count: int, seed: int = 3) -> list[MemoryEntry]:
    """Texts with words as people use them: a few in nearly all of them, most in few."""
    chance = random.Random(seed)
    words = [f"word{n}" for n in range(400)] + ["框架", "咖啡", "猫"]
    weights = [1 / (n + 1) for n in range(len(words))]
    return [
        make_entry(
            f"k{n}",
            "the user and " + " ".join(chance.choices(words, weights, k=chance.randint(3, 30))),
            importance=n % 10 + 1,
        )
        for n in range(count)
    ]


def query(text: str, top_k: int = 10, **more: object) -> SearchQuery:
    return SearchQuery("shared", text, top_k, START, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def filled(entries: Sequence[MemoryEntry], max_terms: int = 64) -> FulltextSearcher:
    searcher = FulltextSearcher(max_terms=max_terms)
    searcher.apply(ChangeBatch(list(entries), [], "1", complete=True), "shared")
    return searcher


QUERIES = (
    "the user word0 word37",
    "word0 and word1",
    "word250 word3 the",
    "框架 word2 user",
    "the user and",
    "word399",
    "咖啡 猫 word9 word120 the and",
)


@pytest.mark.parametrize("count", [30, 999, 1000, 1500])
@pytest.mark.parametrize("text", QUERIES)
def test_common_terms_are_left_out_without_changing_the_ranking(count: int, text: str) -> None:
    """The same entries in the same order as exact BM25, as far as their scores differ by more than a common term gives."""
    entries = corpus(count)
    expected = exact_scores(entries, text)
    hits = filled(entries).search(query(text, 20))
    best = sorted(expected.values(), reverse=True)[: len(hits)]
    for hit, score in zip(hits, best, strict=True):
        assert hit.explain["bm25"] == pytest.approx(expected[hit.entry.id], abs=1e-4)
        assert expected[hit.entry.id] == pytest.approx(score, abs=1e-4)
    telling = [score for score in expected.values() if score > 1e-4]
    assert len(hits) >= min(20, len(telling))


def test_scores_say_what_share_of_the_best_possible_an_entry_has() -> None:
    searcher = filled([make_entry(f"k{n}", f"coffee number{n}") for n in range(50)])
    whole = searcher.search(query("number7", 1))[0].score
    part = searcher.search(query("number7 zebra giraffe", 1))[0].score
    assert 0.0 < part < whole <= 1.0


def test_a_large_tie_is_cut_in_the_contract_s_order() -> None:
    entries = [make_entry(f"k{n:04}", "drinks coffee", importance=n % 10 + 1) for n in range(3000)]
    hits = filled(entries).search(query("coffee", 40))
    assert [(hit.entry.importance, hit.entry.id.key) for hit in hits] == [(10, f"k{n:04}") for n in range(9, 409, 10)]
    assert len({hit.score for hit in hits}) == 1
    assert len(filled(entries).search(query("coffee", 5000))) == 3000


def test_a_tie_is_cut_in_order_beside_filters_and_expired_ones() -> None:
    entries = [
        make_entry(f"k{n:03}", "coffee", importance=n % 10 + 1, expires=START if n % 2 else None) for n in range(600)
    ]
    hits = filled(entries).search(query("coffee", 30, min_importance=3))
    assert [hit.entry.importance for hit in hits] == [9] * 30
    assert [hit.entry.id.key for hit in hits] == [f"k{n:03}" for n in range(8, 308, 10)]


def test_a_long_query_keeps_its_rare_terms() -> None:
    entries = [make_entry(f"k{n}", f"the user and filler{n % 7} talked about subject{n}") for n in range(1200)]
    searcher = filled(entries, max_terms=8)
    prompt = " ".join(
        [
            "the user and talked about",
            *(f"filler{n}" for n in range(7)),
            *(f"unknown{n}" for n in range(6000)),
            "subject77",
        ]
    )
    assert [hit.entry.id.key for hit in searcher.search(query(prompt, 1))] == ["k77"]
    assert 0.0 < searcher.search(query(prompt, 1))[0].score <= 1.0


def test_a_query_of_only_common_terms_still_finds() -> None:
    entries = [make_entry(f"k{n}", "the user and more") for n in range(1200)]
    assert len(filled(entries).search(query("the user", 5))) == 5


def test_an_entry_of_one_and_an_index_of_equals_have_no_strange_scores() -> None:
    for entries in (
        [make_entry("k", "coffee")],
        [make_entry(f"k{n}", "coffee") for n in range(3)],
        [make_entry("…", "—")],
    ):
        for hit in filled(entries).search(query("coffee", 5)):
            assert math.isfinite(hit.score)
            assert 0.0 <= hit.score <= 1.0


def test_a_batch_that_fails_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    index = UserIndex("english", 64)
    index.apply(ChangeBatch([make_entry("k", "coffee")], [], "1"))

    def broken(text: str, stemmer: str | None) -> list[str]:
        return ["x"] if text in ("a", "tea") else [str(1 / 0)]

    monkeypatch.setattr(index_module, "tokens", broken)
    with pytest.raises(ZeroDivisionError):
        index.apply(ChangeBatch([make_entry("a", "tea"), make_entry("b", "tea")], [], "2"))
    monkeypatch.undo()
    index._db.execute("DROP TABLE meta")
    with pytest.raises(IndexUnavailableError, match="could not take a change over"):
        index.apply(ChangeBatch([make_entry("a", "tea")], [], "3"))
    assert (index.count, index.cursor) == (1, "1")
    assert [hit.entry.id.key for hit in index.search(query("coffee tea"))] == ["k"]


def test_replacing_and_removing_leaves_no_trace_in_the_statistics() -> None:
    chance = random.Random(5)
    entries = corpus(200)
    searcher = filled(entries)
    living = {entry.id: entry for entry in entries}
    for _ in range(400):
        id = chance.choice(list(living))
        if chance.random() < 0.4:
            searcher.remove_index(id)
            del living[id]
        else:
            living[id] = make_entry(id.key, f"the user word{chance.randint(0, 400)} 框架 {chance.random()}")
            searcher.update_index(living[id])
    fresh = filled(list(living.values()))
    for text in QUERIES:
        old, new = searcher.search(query(text, 50)), fresh.search(query(text, 50))
        assert [(hit.entry.id, round(hit.score, 9)) for hit in old] == [
            (hit.entry.id, round(hit.score, 9)) for hit in new
        ]


def test_many_common_words_may_outweigh_a_rare_one() -> None:
    """The entry without any rare word is the best by exact BM25, and must not be missed for the shortcut."""
    common = [f"common{n}" for n in range(8)]
    chance = random.Random(1)
    entries = [
        make_entry(f"k{n}", " ".join(word for word in common if chance.random() < 0.12) + f" filler{n} more words")
        for n in range(1500)
    ]
    entries += [
        make_entry(f"rare{n}", f"rarity{n % 2} and a long tail of words " + "other words " * 20) for n in range(150)
    ]
    entries.append(make_entry("best", " ".join(common)))
    text = " ".join([*common, "rarity0", "rarity1"])
    expected = exact_scores(entries, text)
    assert max(expected, key=lambda id: expected[id]).key == "best"
    hits = filled(entries).search(query(text, 10))
    assert hits[0].entry.id.key == "best"
    assert [round(hit.explain["bm25"], 4) for hit in hits] == [
        round(score, 4) for score in sorted(expected.values(), reverse=True)[:10]
    ]


def test_a_tie_beyond_the_candidates_is_cut_in_order() -> None:
    entries = [make_entry(f"k{n:04}", "rarity0 rarity1 the user", importance=n % 10 + 1) for n in range(130)]
    entries += [make_entry(f"n{n}", "the user and other words of more than one kind") for n in range(1500)]
    hits = filled(entries).search(query("the user rarity0 rarity1", 13))
    assert [hit.entry.importance for hit in hits] == [10] * 13
    assert [hit.entry.id.key for hit in hits] == [f"k{n:04}" for n in range(9, 130, 10)]


# --- many users ----------------------------------------------------------------------------------------------------


@pytest.fixture
def small() -> Iterator[FulltextSearcher]:
    searcher = FulltextSearcher(max_users=3)
    yield searcher
    searcher.close()


def test_only_so_many_users_are_held_and_the_others_start_over(small: FulltextSearcher) -> None:
    for number in range(10):
        user = f"u{number}"
        small.apply(ChangeBatch([make_entry("k", "coffee", user=user)], [], "1", complete=True), user)
        assert len(small._indexes) <= 3
    assert small.cursor("u9") == "1"
    assert small.cursor("u0") is None
    assert small.list_all("u0", 5) == []
    assert len(small._alive) <= 4


def test_the_least_recently_used_goes_first(small: FulltextSearcher) -> None:
    for user in ("a", "b", "c"):
        small.apply(ChangeBatch([make_entry("k", "coffee", user=user)], [], "1", complete=True), user)
    small.cursor("a")
    small.cursor("d")
    small.cursor("e")
    assert (small.cursor("a"), list(small._indexes)[-1]) == ("1", "a")
    assert small.cursor("b") is None


def test_words_of_one_user_do_not_weigh_for_another(small: FulltextSearcher) -> None:
    for user, texts in (("a", ["coffee", "tea", "milk"]), ("b", ["coffee"] * 50)):
        entries = [make_entry(f"k{n}", text, user=user) for n, text in enumerate(texts)]
        small.apply(ChangeBatch(entries, [], "1", complete=True), user)
    alone = FulltextSearcher()
    alone.apply(
        ChangeBatch([make_entry(f"k{n}", text, user="a") for n, text in enumerate(["coffee", "tea", "milk"])], [], "1"),
        "a",
    )
    ask = SearchQuery("a", "coffee", 5, START)
    assert [hit.score for hit in small.search(ask)] == [hit.score for hit in alone.search(ask)]
