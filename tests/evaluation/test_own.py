import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.errors import ConfigError
from memory_core.evaluation import evaluate
from memory_core.evaluation.known_item import WORDS, known_item
from memory_core.evaluation.own import GivenQuery, own_dataset, read_queries
from memory_core.model import MemoryEntry, MemoryId
from memory_core.text import tokens
from memory_searcher_fulltext.searcher import FulltextSearcher

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SCOPES = ("user", "workspace")


def memory(key: str, content: str, scope: str = "workspace", importance: int = 5) -> MemoryEntry:
    id = MemoryId(scope, "alice", key)
    return MemoryEntry.checked(id=id, content=content, importance=importance, created_at=NOW, updated_at=NOW)


MEMORIES: Sequence[MemoryEntry] = [
    memory("editor", "Prefers vim for editing Python"),
    memory("框架", "用户喜欢使用Solon框架写代码", importance=8),
    memory("drink", "Drinks tea every morning", "user"),
    memory("drink", "Drinks coffee every morning"),
    memory("tiny", "yes"),
]


def test_memories_are_documents_and_the_higher_scope_wins() -> None:
    dataset = own_dataset(MEMORIES, SCOPES, NOW, [GivenQuery("coffee", {"drink": 1}, "taste", "Line 1")])
    assert [document.id for document in dataset.documents] == ["drink", "editor", "tiny", "框架"]
    assert dataset.documents[0].text == "Drinks coffee every morning"
    assert dataset.documents[3].entry is not None
    assert dataset.documents[3].entry.importance == 8
    assert (dataset.note, dataset.moment) == ("", NOW)
    assert [(question.text, question.kind) for question in dataset.questions] == [("coffee", "taste")]
    searcher = FulltextSearcher()
    assert evaluate(searcher, dataset).scores["Success@1"] == 1.0
    assert {entry.id.key for entry in searcher.list_all("alice", 9)} == {"drink", "editor", "tiny", "框架"}


def test_generated_questions_find_what_they_were_made_of_and_say_what_they_are() -> None:
    dataset = own_dataset(MEMORIES, SCOPES, NOW)
    assert [question.id for question in dataset.questions] == ["drink", "editor", "框架"], "`yes` has too few words"
    assert "generated" in dataset.note
    assert "optimistic" in dataset.note
    assert evaluate(FulltextSearcher(), dataset).scores["Success@1"] == 1.0
    assert own_dataset(reversed(MEMORIES), SCOPES, NOW) == dataset, "the order in which memories come says nothing"
    assert own_dataset(MEMORIES, SCOPES, NOW, seed=7).questions != dataset.questions


def test_memories_with_one_content_answer_the_same_question() -> None:
    twins = [memory("a", "one two three four"), memory("b", "one two three four"), memory("c", "five six seven")]
    dataset = own_dataset(twins, SCOPES, NOW)
    assert dataset.grades == {"a": {"a": 1, "b": 1}, "b": {"a": 1, "b": 1}, "c": {"c": 1}}


def test_what_cannot_be_asked_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="no memories"):
        own_dataset([], SCOPES, NOW)
    with pytest.raises(ConfigError, match="--queries"):
        own_dataset([memory("tiny", "yes")], SCOPES, NOW)
    with pytest.raises(ConfigError, match="no queries"):
        own_dataset(MEMORIES, SCOPES, NOW, [])
    with pytest.raises(ConfigError, match=r"Line 3 names 'editr'.*Did you mean 'editor'"):
        own_dataset(MEMORIES, SCOPES, NOW, [GivenQuery("x", {"editr": 1}, "", "Line 3")])


@settings(deadline=None)
@given(st.lists(st.text(max_size=60) | st.just("one two three four five 你好世界"), max_size=8), st.integers(0, 3))
def test_a_known_item_query_is_made_of_the_texts_own_words(texts: list[str], seed: int) -> None:
    named = [(f"t{place}", text) for place, text in enumerate(texts)]
    queries = known_item(named, seed)
    assert queries == known_item(named, seed)
    assert [id for id, _ in queries] == [
        id for id, text in named if len({t for t in tokens(text, None) if len(t) > 1}) >= WORDS
    ]
    for id, query in queries:
        words = query.split(" ")
        assert len(words) == WORDS == len(set(words))
        assert set(words) <= set(tokens(dict(named)[id], None))


def test_rare_words_are_drawn_more_often() -> None:
    texts = [(f"t{place}", f"the user said that rare{place} odd{place}") for place in range(200)]
    queries = [query for _, query in known_item(texts)]
    telling = sum(word.startswith(("rare", "odd")) for query in queries for word in query.split())
    assert telling / (WORDS * len(queries)) > 0.55, "two of six words, drawn evenly, would be a third"
    assert telling < 2 * len(queries), "but not always: people do not know what is rare"


def test_queries_may_be_json_or_tabs(tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    rows = [
        json.dumps({"query": "which editor?", "keys": ["editor"], "type": "preference"}),
        json.dumps({"query": "what to drink?", "key": "drink"}),
        json.dumps({"query": "graded", "keys": {"editor": 2, "drink": 1}}),
        "",
        "which framework?\t框架",
        " spaces stay inside \t editor\t drink \t",
    ]
    file.write_text("\ufeff" + "\r\n".join(rows), "utf-8")
    assert [(query.text, query.grades, query.kind) for query in read_queries(file)] == [
        ("which editor?", {"editor": 1}, "preference"),
        ("what to drink?", {"drink": 1}, ""),
        ("graded", {"editor": 2, "drink": 1}, ""),
        ("which framework?", {"框架": 1}, ""),
        ("spaces stay inside", {"editor": 1, "drink": 1}, ""),
    ]
    assert read_queries(file)[3].where == f"Line 5 of {file}"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("no tab", "needs the query, a tab"),
        ("query\t", "needs the query, a tab"),
        ("\tkey", "needs the query, a tab"),
        ("{", "is no JSON"),
        ('{"a":' * 100_000, "is no JSON"),
        ('{"query": "x"}', "is no query"),
        ('{"query": " ", "key": "a"}', "is no query"),
        ('{"query": 3, "key": "a"}', "is no query"),
        ('{"query": "x", "keys": []}', "is no query"),
        ('{"query": "x", "keys": [1]}', "is no query"),
        ('{"query": "x", "keys": 1}', "is no query"),
        ('{"query": "x", "key": "a", "type": 1}', "is no query"),
        ('{"query": "x", "keys": {"a": 0}}', "no whole number above 0"),
        ('{"query": "x", "keys": {"a": true}}', "no whole number above 0"),
        ('{"query": "x", "keys": {"a": "1"}}', "no whole number above 0"),
        ('{"query": "x", "key": "\\ud800"}', "no memory can have"),
        ("x\t" + "k" * 600, "no memory can have"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_query_is_named(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "queries.tsv"
    file.write_text(f"fine\tkey\n{line}\n")
    with pytest.raises(ConfigError, match=rf"Line 2 of .*queries\.tsv .*{why}"):
        read_queries(file)


def test_a_file_without_queries_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "queries.tsv"
    file.write_text("\n \n")
    with pytest.raises(ConfigError, match="holds no query"):
        read_queries(file)
    file.write_bytes("框架".encode("gbk"))
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_queries(file)
