"""From configuration to found memories, on real stores."""

from pathlib import Path
from typing import Any

import pytest

from memory_core import load_provider
from memory_core.contracts import MemorySolution
from memory_core.embedding_status import embedding_status
from memory_core.errors import ConfigError, EmbeddingMismatchError
from memory_core.testing import FakeClock
from memory_searcher_lancedb.searcher import LanceDBSearcher
from memory_searcher_lancedb.store import LanceTable

from ._vectors import HashEmbedder


def settings(tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {"home": str(tmp_path / "home"), "searcher": "lancedb", "embedder": "static", **more}


@pytest.fixture(params=["markdown", "kv"])
def storer(request: pytest.FixtureRequest) -> str:
    from memory_core.plugins import get_registry

    if request.param not in get_registry().names("storer"):
        pytest.skip(f"the storer {request.param!r} is not in this installation")
    return str(request.param)


def test_remember_search_forget_and_open_again(tmp_path: Path, storer: str) -> None:
    clock = FakeClock()
    work = tmp_path / "work"
    work.mkdir()
    for turn in (1, 2):
        provider = load_provider(work, overrides=settings(tmp_path, storer=storer), clock=clock)
        solution: MemorySolution = provider.get(work)
        if turn == 1:
            solution.remember("editor", "Prefers vim over every other text editor", 8)
            solution.remember("pet", "Has a dog that barks at the postman", 3)
            solution.remember("editor", "Prefers emacs everywhere", 5, scope="user")
            solution.remember("secret", "The alarm code is 1234")
            solution.forget("secret")
        hits = solution.search("which text editor?", top_k=2)
        assert [(hit.entry.id.key, hit.entry.id.scope) for hit in hits][:1] == [("editor", "workspace")]
        assert {hit.entry.id.key for hit in hits} == {"editor", "pet"}
        assert [entry.id.key for entry in solution.hot()] == ["editor"]
        assert all(hit.entry.id.key != "secret" for hit in solution.search("alarm code", top_k=9))
        assert [(found.texts, found.waiting) for found in embedding_status(solution)] == [(3, 0)]
        assert solution.problems() == []
        provider.close()
    clock.advance(days=8)
    provider = load_provider(work, overrides=settings(tmp_path, storer=storer), clock=clock)
    assert {hit.entry.id.key for hit in provider.get(work).search("dog", top_k=9)} == {"editor"}
    provider.close()


def test_a_changed_model_is_refused_until_reindexed(tmp_path: Path) -> None:
    provider = load_provider(tmp_path, overrides=settings(tmp_path))
    provider.get(tmp_path).remember("editor", "Prefers vim")
    provider.get(tmp_path).search("vim")
    provider.close()
    smaller = settings(tmp_path, embedders={"static": {"dim": 64}})
    provider = load_provider(tmp_path, overrides=smaller)
    solution = provider.get(tmp_path)
    with pytest.raises(EmbeddingMismatchError, match="memory-core reindex"):
        solution.search("vim")
    assert [problem.code for problem in solution.problems()] == ["embedding-mismatch"]
    assert solution.reindex() == 1
    assert [hit.entry.id.key for hit in solution.search("vim")] == ["editor"]
    assert solution.problems() == []
    provider.close()


@pytest.mark.parametrize("option", ['uri = "s3://elsewhere/x"', 'storage_options = {key = "x"}'])
def test_a_project_s_file_cannot_send_vectors_elsewhere(tmp_path: Path, option: str) -> None:
    (tmp_path / "memory.toml").write_text(f'searcher = "lancedb"\nembedder = "static"\n[searchers.lancedb]\n{option}\n')
    with pytest.raises(ConfigError, match="may not set"):
        load_provider(tmp_path)


def test_an_embedder_is_asked_for_when_none_is_configured(tmp_path: Path) -> None:
    provider = load_provider(tmp_path, overrides=settings(tmp_path, embedder=None))
    with pytest.raises(ConfigError, match="needs an embedder"):
        provider.get(tmp_path)


def test_an_own_directory_for_the_table(tmp_path: Path) -> None:
    own = settings(tmp_path, searchers={"lancedb": {"uri": "vectors", "buffer_rows": 1}})
    provider = load_provider(tmp_path, overrides=own)
    solution = provider.get(tmp_path)
    solution.remember("editor", "Prefers vim")
    assert [hit.entry.id.key for hit in solution.search("vim")] == ["editor"]
    assert (tmp_path / "vectors" / "entries.lance").is_dir()
    provider.close()


def test_housekeeping_that_fails_harms_no_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from ._vectors import entry, keys, query

    table = LanceTable(str(tmp_path / "table"), tmp_path / "write.lock", index_rows=1_000)
    index = LanceDBSearcher(table, HashEmbedder(), buffer_rows=1)

    def full() -> bool:
        raise RuntimeError("disk is full")

    monkeypatch.setattr(table, "_many_versions", full)
    index.update_index(entry("a", "apple"))
    assert "could not be compacted" in caplog.text
    monkeypatch.undo()
    assert keys(index.search(query("apple"))) == ["a"]
    index.close()
