"""The same real model on torch and on onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_core.contracts import Embedder
from memory_core.errors import ConfigError, IndexUnavailableError
from memory_core.plugins import get_registry
from memory_core.testing.embedder import EmbedderContract
from memory_embedder_onnx import OnnxOptions
from memory_embedder_onnx import build as build_onnx
from memory_embedder_onnx.embedder import OnnxEmbedder
from memory_embedder_sentence_transformers import DEFAULT_MODEL, SentenceTransformersOptions
from memory_embedder_sentence_transformers import build as build_torch
from memory_embedder_sentence_transformers.embedder import SentenceTransformersEmbedder

from ._models import context, export_onnx, minilm_dir

HERE = context(Path.cwd())

TEXTS = ["The cat sat on the mat.", "User likes coffee in the morning.", "C++ and 3.11", "word " * 600]


@pytest.fixture(scope="module")
def onnx_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_onnx(tmp_path_factory.mktemp("onnx") / "minilm")


@pytest.fixture(scope="module")
def on_torch() -> SentenceTransformersEmbedder:
    built: SentenceTransformersEmbedder = build_torch(SentenceTransformersOptions(model=str(minilm_dir())), HERE)
    return built


@pytest.fixture(scope="module")
def on_onnx(onnx_dir: Path) -> OnnxEmbedder:
    built: OnnxEmbedder = build_onnx(OnnxOptions(model=str(onnx_dir)), HERE)
    return built


class TestSentenceTransformers(EmbedderContract):
    @pytest.fixture
    def embedder(self, on_torch: SentenceTransformersEmbedder) -> Embedder:
        return on_torch


class TestOnnx(EmbedderContract):
    @pytest.fixture
    def embedder(self, on_onnx: OnnxEmbedder) -> Embedder:
        return on_onnx


def test_both_give_the_same_vectors(on_torch: SentenceTransformersEmbedder, on_onnx: OnnxEmbedder) -> None:
    np.testing.assert_allclose(on_torch.embed_documents(TEXTS), on_onnx.embed_documents(TEXTS), atol=1e-4)


def test_they_know_what_they_cannot_read(on_torch: SentenceTransformersEmbedder, on_onnx: OnnxEmbedder) -> None:
    for embedder in (on_torch, on_onnx):
        assert embedder.unknown_share("the user likes cats") == 0.0
        assert embedder.unknown_share("用户喜欢猫框架") > 0.3
        assert embedder.unknown_share("") == 0.0


def test_the_identity_is_known_without_loading_and_names_what_changes_vectors() -> None:
    model = str(minilm_dir())
    plain = SentenceTransformersEmbedder(SentenceTransformersOptions(model=model))
    prompted = SentenceTransformersEmbedder(SentenceTransformersOptions(model=model, document_prompt="doc: "))
    cut = SentenceTransformersEmbedder(SentenceTransformersOptions(model=model, dim=128))
    query = SentenceTransformersEmbedder(SentenceTransformersOptions(model=model, query_prompt="q: "))
    assert len({plain.model_id, prompted.model_id, cut.model_id}) == 3
    assert query.model_id == plain.model_id  # documents stay comparable
    assert plain._model is None
    assert cut.dim == 128


def test_prompts_change_what_is_embedded(onnx_dir: Path, on_onnx: OnnxEmbedder) -> None:
    prompted: OnnxEmbedder = build_onnx(
        OnnxOptions(model=str(onnx_dir), query_prompt="find: ", document_prompt="keep: "), HERE
    )
    assert prompted.model_id != on_onnx.model_id
    np.testing.assert_allclose(prompted.embed_query("cats"), on_onnx.embed_query("find: cats"), atol=1e-5)
    np.testing.assert_allclose(prompted.embed_documents(["cats"])[0], on_onnx.embed_query("keep: cats"), atol=1e-5)
    torch_prompted = SentenceTransformersEmbedder(
        SentenceTransformersOptions(model=str(minilm_dir()), query_prompt="find: ")
    )
    np.testing.assert_allclose(torch_prompted.embed_query("cats"), on_onnx.embed_query("find: cats"), atol=1e-4)


def test_the_e5_family_gets_its_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    default = SentenceTransformersEmbedder(SentenceTransformersOptions())
    assert (default._query_prompt, default._document_prompt) == ("query: ", "passage: ")
    instruct = SentenceTransformersEmbedder(SentenceTransformersOptions(model="intfloat/e5-mistral-7b-instruct"))
    assert instruct._query_prompt is None


@pytest.mark.parametrize("pooling", ["cls", "last"])
def test_other_poolings(onnx_dir: Path, on_onnx: OnnxEmbedder, pooling: Any) -> None:
    other: OnnxEmbedder = build_onnx(OnnxOptions(model=str(onnx_dir), pooling=pooling), HERE)
    states = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    mask = np.array([[1, 1, 0], [1, 1, 1]])
    expected = states[:, 0] if pooling == "cls" else states[[0, 1], [1, 2]]
    np.testing.assert_array_equal(other._pooled(states, mask), expected)
    assert other.model_id != on_onnx.model_id


def test_models_that_are_not_there(tmp_path: Path, onnx_dir: Path) -> None:
    with pytest.raises(ConfigError, match=r"no model\.onnx"):
        build_onnx(OnnxOptions(model=str(tmp_path)), HERE)
    with pytest.raises(ConfigError, match=r"other\.onnx"):
        build_onnx(OnnxOptions(model=str(onnx_dir), file="other.onnx"), HERE)
    (tmp_path / "model.onnx").write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        build_onnx(OnnxOptions(model=str(tmp_path)), HERE)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        _ = SentenceTransformersEmbedder(SentenceTransformersOptions(model=str(tmp_path / "absent"))).dim


def test_a_model_that_fails_while_running(on_onnx: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_onnx, "_pad", 10**9)  # no such token: the run fails as a broken model's would
    with pytest.raises(IndexUnavailableError, match="failed"):
        on_onnx.embed_documents(["short", "a longer text than the other"])


def test_backends_are_registered_with_their_extras() -> None:
    registry = get_registry()
    extras = {backend.name: backend.extra for backend in registry.backends() if backend.kind == "embedder"}
    assert (
        extras
        | {
            "onnx": "onnx",
            "openai": "openai-embeddings",
            "sentence-transformers": "sentence-transformers",
            "static": "static",
        }
        == extras
    )
    assert registry.backend("embedder", "sentence-transformers").options().model_dump()["model"] == DEFAULT_MODEL
