import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_core.contracts import Embedder
from memory_core.errors import ConfigError
from memory_core.testing.embedder import EmbedderContract
from memory_embedder_static import StaticOptions, build
from memory_embedder_static.embedder import StaticEmbedder, open_wordllama

from ._models import context

HERE = context(Path.cwd())


@pytest.fixture(scope="module")
def wordllama() -> StaticEmbedder:
    return open_wordllama()


@pytest.fixture(scope="module")
def model2vec_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model2vec model made of wordllama's table: real weights without a download."""
    import wordllama  # type: ignore[import-untyped]  # the package has no type marks
    from model2vec import StaticModel

    open_wordllama()
    inner: Any = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    inner.tokenizer.no_padding()
    folder = tmp_path_factory.mktemp("model2vec") / "small"
    StaticModel(inner.embedding, inner.tokenizer).save_pretrained(folder)
    return folder


class TestWordllama(EmbedderContract):
    @pytest.fixture
    def embedder(self, wordllama: StaticEmbedder) -> Embedder:
        return wordllama


class TestModel2Vec(EmbedderContract):
    @pytest.fixture
    def embedder(self, model2vec_dir: Path) -> Embedder:
        built: Embedder = build(StaticOptions(model=str(model2vec_dir)), HERE)
        return built


def test_dim_cuts_and_is_part_of_the_identity(wordllama: StaticEmbedder) -> None:
    small = build(StaticOptions(dim=64), HERE)
    assert (small.dim, wordllama.dim) == (64, 256)
    assert small.model_id != wordllama.model_id


def test_the_table_has_no_other_sizes() -> None:
    with pytest.raises(ConfigError, match="dim = 100"):
        open_wordllama(100)


def test_pooling_equals_the_package_s_own(wordllama: StaticEmbedder) -> None:
    import wordllama as package

    inner: Any = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)
    texts = ["The cat sat.", "用户喜欢使用Solon框架写代码", "a", "C++ and 3.11"]
    np.testing.assert_allclose(wordllama.embed_documents(texts), inner.embed(texts, norm=True), atol=1e-5)


def test_loading_leaves_the_root_logger_alone() -> None:
    assert not any(type(handler) is logging.StreamHandler for handler in logging.getLogger().handlers)


def test_a_replaced_model_is_another_model(model2vec_dir: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / model2vec_dir.name
    shutil.copytree(model2vec_dir, copy)
    same = build(StaticOptions(model=str(copy)), HERE).model_id
    config = copy / "config.json"
    config.write_text(config.read_text().replace("{", '{"revision": 2,', 1))
    changed = build(StaticOptions(model=str(copy)), HERE).model_id
    assert same == build(StaticOptions(model=str(model2vec_dir)), HERE).model_id != changed


def test_a_model_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        build(StaticOptions(model=str(tmp_path / "absent")), HERE)


def test_a_relative_path_starts_in_the_workspace(model2vec_dir: Path, tmp_path: Path) -> None:
    from memory_core.options import placed, placed_model

    built: Embedder = build(StaticOptions(model=model2vec_dir.name), context(model2vec_dir.parent))
    assert built.model_id == build(StaticOptions(model=str(model2vec_dir)), HERE).model_id
    assert placed_model("org/model", tmp_path) == "org/model"
    assert placed("s3://bucket/x", tmp_path) == "s3://bucket/x"
    assert placed("x", tmp_path) == str(tmp_path / "x")
    assert placed("~/x", tmp_path) == str(Path.home() / "x")
