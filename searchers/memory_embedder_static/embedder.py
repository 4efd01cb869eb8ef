"""Averaged token vectors: a table, a tokenizer and a mean."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from memory_core.errors import ConfigError
from memory_core.vectors import TextEmbedder, folder_fingerprint, unknown_share

WORDLLAMA_DIM = 256


class StaticEmbedder(TextEmbedder):
    """Turns text into vectors by a function of a whole batch; see `open_wordllama`, `open_model2vec`."""

    batch_size = 1024

    def __init__(self, model_id: str, dim: int, encode: Callable[[list[str]], Any], tokenizer: Any) -> None:
        self._model_id = model_id
        self._dim = dim
        self._encode = encode
        self._tokenizer = tokenizer

    @property
    def model_id(self) -> str:  # noqa: D102 - the contract says it
        return self._model_id

    @property
    def dim(self) -> int:  # noqa: D102 - the contract says it
        return self._dim

    def encode(self, texts: list[str], *, query: bool) -> Any:  # noqa: D102 - the contract says it
        del query
        return self._encode(texts)

    def unknown_share(self, text: str) -> float:  # noqa: D102 - the contract says it
        return unknown_share(self._tokenizer, text)


def open_wordllama(dim: int | None = None) -> StaticEmbedder:
    """Open the model inside the package `wordllama`; nothing is downloaded.

    Raises:
        ConfigError: There is no such dimension, or the weights are not in the package.
    """
    model = _load_wordllama(dim or WORDLLAMA_DIM)
    tokenizer, table = model.tokenizer, model.embedding
    tokenizer.no_padding()  # its own pooling pads a batch to its longest text: gigabytes beside one long memory
    last = table.shape[0] - 1

    def encode(texts: list[str]) -> Any:
        rows = np.zeros((len(texts), table.shape[1]), dtype=np.float32)
        for place, encoded in enumerate(tokenizer.encode_batch(texts, add_special_tokens=False)):
            if encoded.ids:
                rows[place] = table[np.minimum(encoded.ids, last)].mean(axis=0)
        return rows

    return StaticEmbedder(f"wordllama/l2_supercat@{table.shape[1]}", table.shape[1], encode, tokenizer)


def _load_wordllama(dim: int) -> Any:
    root = logging.getLogger()
    # The package calls logging.basicConfig when imported; a root logger with a handler is left alone by that.
    guard = logging.NullHandler()
    root.addHandler(guard)
    try:
        import wordllama  # type: ignore[import-untyped]  # the package has no type marks
    finally:
        root.removeHandler(guard)
    folder = Path(wordllama.__file__).parent
    try:
        return wordllama.WordLlama.load(
            cache_dir=folder, trunc_dim=dim if dim != WORDLLAMA_DIM else None, disable_download=True
        )
    except (ValueError, OSError) as error:
        raise ConfigError(f"[embedders.static]: wordllama cannot be used with dim = {dim}: {error}.") from error


def open_model2vec(model: str, dim: int | None = None) -> StaticEmbedder:
    """Open a model2vec model from a local directory or, if it is not there, by its name on the Hugging Face hub.

    Raises:
        ConfigError: It cannot be loaded.
    """
    from model2vec import StaticModel

    try:
        loaded = StaticModel.from_pretrained(model, dimensionality=dim, normalize=True, force_download=False)
    except Exception as error:
        raise ConfigError(
            f"[embedders.static]: the model2vec model {model!r} cannot be loaded "
            f"({type(error).__name__}: {' '.join(str(error).split())[:200]}). Give a local directory, or a name on the "
            "Hugging Face hub with the network reachable."
        ) from error
    size = int(loaded.dim)

    def encode(texts: list[str]) -> Any:
        return loaded.encode(texts, use_multiprocessing=False)

    local = Path(model)
    name = f"{local.name}#{folder_fingerprint(local)}" if local.is_dir() else model
    return StaticEmbedder(f"model2vec/{name}@{size}", size, encode, loaded.tokenizer)
