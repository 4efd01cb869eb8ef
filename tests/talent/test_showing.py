"""What a model is shown stays within a budget, and what is left out or hidden is said."""

from collections.abc import Mapping
from typing import Any

import pytest

from memory_core.talent import showing
from memory_core.talent.wording import EN, ZH
from memory_core.testing import make_entry
from memory_core.text import estimate_tokens

from .conftest import Bench

HUGE = "z" * 1_200_000
TEXTS = {"latin": "word " * 1_500, "han": "记忆" * 1_500, "mixed": "使用Solon框架 " * 400}


def test_one_huge_memory_takes_no_prompt_over() -> None:
    entries = [make_entry(f"k{number}", HUGE if number == 1 else f"fact {number}") for number in range(3)]
    for words in (EN, ZH):
        *shown, notice = showing.lines(words, entries)
        assert [line.rpartition("fact ")[2] for line in shown] == ["0", "2"]
        assert notice == words.left_out.format(count=1, keys="k1")


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_memories_are_whole_or_left_out_and_never_over_the_budget(text: str) -> None:
    entries = [make_entry(f"k{number}", text) for number in range(20)]
    *shown, notice = showing.lines(EN, entries)
    assert 0 < len(shown) < 20
    assert all(line.endswith(text.strip()) for line in shown)
    assert f"{20 - len(shown)} left out" in notice
    assert sum(map(estimate_tokens, shown)) <= showing.BUDGET_TOKENS
    assert estimate_tokens("\n".join([*shown, shown[0]])) > showing.BUDGET_TOKENS


def test_short_memories_are_all_shown() -> None:
    entries = [make_entry(f"k{number}", "记" * 30) for number in range(100)]
    assert len(showing.lines(ZH, entries)) == 100


def test_the_instruction_and_every_answer_stay_small(bench: Bench) -> None:
    bench.storer.put(make_entry("big", HUGE, importance=10))
    bench.storer.put(make_entry("tea", "The user likes tea", importance=9))
    instruction = bench.talent.instruction("zzz tea")
    assert "The user likes tea" in instruction
    assert "1 left out for their length: big" in instruction
    calls: list[tuple[str, Mapping[str, Any]]] = [
        ("memory_search", {"query": "big tea"}),
        ("memory_search", {"query": "*"}),
        ("memory_search", {"query": HUGE}),
        ("memory_search", {"query": "tea", "top_k": HUGE}),
        ("memory_recall", {"key": "big"}),
        ("memory_recall", {"key": HUGE}),
        ("memory_extract", {"key": "big", "fact": "new", "importance": 10}),
        ("memory_extract", {"key": "k", "fact": "f", "importance": HUGE}),
        ("memory_extract", {"key": "k", "fact": "f", "importance": [1] * 100_000}),
        ("memory_extract", {"key": "k", "fact": "f", "importance": 1, "scope": HUGE}),
        ("memory_extract", {"key": HUGE, "fact": "f", "importance": 1}),
        ("memory_extract", {HUGE: 1}),
        ("memory_prune", {"key": HUGE}),
        ("memory_consolidate", {"keys_to_merge": [HUGE], "new_key": "n", "evolved_insight": "i"}),
        (HUGE, {}),
    ]
    for name, arguments in calls:
        assert len(bench.call(name, **arguments).text) < 40_000, (name[:20], *arguments)


def test_a_long_memory_is_cut_with_a_word_when_it_is_read(bench: Bench) -> None:
    bench.storer.put(make_entry("long", "a" * 32_001))
    bench.storer.put(make_entry("fits", "a" * 32_000))
    assert bench.call("memory_recall", key="long").text.endswith("[Cut after 32000 of 32001 characters.]")
    assert "Cut" not in bench.call("memory_recall", key="fits").text


def test_a_memory_below_another_of_its_key_is_announced(bench: Bench) -> None:
    bench.call("memory_extract", key="x", fact="here", importance=5)
    below = bench.call("memory_extract", key="x", fact="everywhere", importance=5, scope="user")
    assert below.ok
    assert EN.shadowed.format(scope="workspace") in below.text
    assert "another memory" not in bench.call("memory_extract", key="x", fact="here too", importance=5).text
    merged = bench.call("memory_consolidate", keys_to_merge=["y"], new_key="x", evolved_insight="all", scope="user")
    assert EN.shadowed.format(scope="workspace") in merged.text
    alone = bench.call("memory_extract", key="only", fact="everywhere", importance=5, scope="user")
    assert "another memory" not in alone.text
