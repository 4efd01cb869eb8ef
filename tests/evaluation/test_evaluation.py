import gzip
import json
import math
import sys
from pathlib import Path

import pytest

from memory_core.errors import ConfigError, MissingExtraError, UnknownBackendError
from memory_core.evaluation import MEASURES, evaluate, load_dataset, measure, open_searcher
from memory_searcher_fulltext.searcher import FulltextSearcher

DOCUMENTS: list[dict[str, object]] = [
    {"id": "a1", "text": "likes coffee", "meta": {"scope": "a"}},
    {"id": "a2", "text": "plays chess", "meta": {"scope": "a"}},
    {"id": "b1", "text": "coffee coffee coffee", "meta": {"scope": "b"}},
    {"id": "b2", "text": " ", "meta": {"scope": "b"}},
]
QUESTIONS: list[dict[str, object]] = [
    {"id": "q1", "text": "who likes coffee?", "meta": {"scope": "a"}},
    {"id": "q2", "text": "chess", "meta": {"scope": "a"}},
    {"id": "unlabelled", "text": "nothing", "meta": {"scope": "a"}},
]


def write_set(
    folder: Path, documents: list[dict[str, object]], questions: list[dict[str, object]], labels: str
) -> Path:
    folder.mkdir()
    for name, rows in (("corpus", documents), ("queries", questions)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + labels)
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_set(tmp_path / "small", DOCUMENTS, QUESTIONS, "q1\ta1\t1\nq1\ta2\t0\nq2\ta2\t1\n")


def test_a_set_is_read_as_it_is_labelled(small: Path) -> None:
    dataset = load_dataset(small)
    assert dataset.name == "small"
    assert [document.scope for document in dataset.documents] == ["a", "a", "b", "b"]
    assert [question.id for question in dataset.questions] == ["q1", "q2"]
    assert dataset.grades == {"q1": {"a1": 1}, "q2": {"a2": 1}}
    assert len(dataset.head(1).questions) == 1


def test_titles_count_only_where_published_figures_have_them(tmp_path: Path) -> None:
    for name, text in (("scifact", "Title body"), ("other", "body")):
        row: dict[str, object] = {"id": "1", "text": "body", "meta": {"title": "Title"}}
        folder = write_set(tmp_path / name, [row], [{"id": "q", "text": "x"}], "q\t1\t1\n")
        assert load_dataset(folder).documents[0].text == text


def test_a_question_finds_only_its_own_scope_and_keys_say_nothing(small: Path) -> None:
    searcher = FulltextSearcher()
    result = evaluate(searcher, load_dataset(small), "fulltext")
    assert result.scores == dict.fromkeys(MEASURES, 1.0)
    assert (result.questions, result.dataset, result.searcher) == (2, "small", "fulltext")
    assert {entry.id.key for entry in searcher.list_all("user-0", 9)} == {"m000000", "m000001"}
    assert len(searcher.list_all("user-1", 9)) == 1


def test_measures_are_the_usual_ones() -> None:
    grades = {"q": {"right": 1, "other": 1}, "missed": {"right": 1}}
    scores = measure(grades, {"q": ["wrong", "right"], "missed": []})
    gain = (1 / math.log2(3)) / (1 + 1 / math.log2(3))
    assert scores["nDCG@10"] == pytest.approx(gain / 2)
    assert scores["R@5"] == pytest.approx(0.25)
    assert scores["RR@10"] == pytest.approx(0.25)
    assert measure(grades, {})["nDCG@10"] == 0.0


def test_the_ranking_decides_not_the_names() -> None:
    for order in (["a", "b"], ["b", "a"]):
        assert measure({"q": {order[0]: 1}}, {"q": order}, ["RR@10"]) == {"RR@10": 1.0}


def test_without_the_package_there_is_an_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtraError, match=r"memory-talent\[bench\]"):
        measure({}, {})


@pytest.mark.parametrize("harm", ["corpus.jsonl.gz", "queries.jsonl.gz", "qrels.tsv"])
def test_a_set_that_cannot_be_read_is_one_sentence(small: Path, harm: str) -> None:
    (small / harm).write_bytes(b"\x1f\x8b rubbish")
    with pytest.raises(ConfigError, match=harm):
        load_dataset(small)
    (small / harm).unlink()
    with pytest.raises(ConfigError, match=harm):
        load_dataset(small)


def test_a_line_without_text_is_refused(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "x", [{"id": "1"}], [], "")
    with pytest.raises(ConfigError, match="lacks `id` or `text`"):
        load_dataset(folder)


def test_searchers_are_built_as_a_solution_builds_them(tmp_path: Path, small: Path) -> None:
    searcher = open_searcher("hybrid", tmp_path, {"searchers": {"hybrid": {"arms": ["fulltext", "whoosh"]}}})
    assert evaluate(searcher, load_dataset(small)).scores["RR@10"] == 1.0
    searcher.close()
    assert any((tmp_path / "index").rglob("*.toc"))
    with pytest.raises(UnknownBackendError, match="fulltext"):
        open_searcher("fulltxt", tmp_path)
