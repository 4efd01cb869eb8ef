"""What every embedder and every vector index shares: clean text in, unit rows out.

numpy is imported here; so this module is imported only by rooms whose extra brings it.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_core.contracts import Embedder
from memory_core.errors import IndexUnavailableError
from memory_core.model import MemoryEntry

Vectors = NDArray[np.float32]

MAX_EMBEDDED_CHARS = 32_768
"""Longer texts are cut before they are embedded: no model reads further, and a huge one would cost memory."""
_ENDS = 65_536
_SORTED, _FEW_TIMES = 128, 8  # so many places are sorted first, where there are so many times more
_UNKNOWN = frozenset(("[UNK]", "<unk>", "<UNK>", "UNK"))
_BYTE = re.compile("<0x[0-9A-F]{2}>")


def embedding_text(entry: MemoryEntry) -> str:
    """Return the text that stands for an entry in vector space: its content, as stored."""
    return entry.content


def clean_text(text: str) -> str:
    """Return `text` as a model may be given it: no lone surrogates, no NUL, no white space around, bounded."""
    text = text[:MAX_EMBEDDED_CHARS]
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text.replace("\0", " ").strip()


def folder_fingerprint(folder: Path) -> str:
    """Return 16 hexadecimal digits that change when a model's files do: names, sizes, and 64 KiB of both ends of each.

    A directory's name says nothing about which weights lie in it.
    """
    digest = blake2b(digest_size=8)
    endings = (".json", ".safetensors", ".onnx", ".txt", ".model", ".bin")
    for path in sorted(path for path in folder.rglob("*") if path.suffix in endings and path.is_file()):
        size = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()}\0{size}\0".encode())
        with path.open("rb") as file:
            digest.update(file.read(_ENDS))
            file.seek(max(0, size - _ENDS))
            digest.update(file.read(_ENDS))
    return digest.hexdigest()


def unit_rows(rows: Any) -> Vectors:
    """Return `rows` (n × dim) as float32 of unit length; rows of zero length, NaN or infinity become zero rows."""
    array: Vectors = np.array(rows, dtype=np.float32, order="C", ndmin=2)
    array[~np.isfinite(array).all(axis=1)] = 0.0
    peak = np.abs(array).max(axis=1, keepdims=True, initial=0.0)
    array /= np.where(peak > 0, peak, 1.0)  # squares of huge or tiny numbers leave the range of float32
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    array /= np.where(norms > 0, norms, 1.0)
    return array


def broken_rows(rows: Vectors) -> list[int]:
    """Return the places of the rows that hold NaN or infinity."""
    places: list[int] = np.flatnonzero(~np.isfinite(rows).all(axis=1)).tolist()
    return places


def descending(scores: Vectors) -> Iterator[int]:
    """Yield the places of `scores`, highest first, equals by place; all are sorted only when the first few are used."""
    rest = np.arange(len(scores))
    if len(scores) > _SORTED * _FEW_TIMES:
        least = np.partition(scores, len(scores) - _SORTED)[len(scores) - _SORTED]
        first = np.flatnonzero(scores >= least)
        yield from first[np.argsort(-scores[first], kind="stable")].tolist()
        rest = np.flatnonzero(scores < least)
    yield from rest[np.argsort(-scores[rest], kind="stable")].tolist()


def unknown_share(tokenizer: Any, text: str) -> float:
    """Return which share of the text's tokens a Hugging Face tokenizer does not know: unknown marks and lone bytes.

    Models with a byte fallback have no unknown mark; there a character that is spelt in bytes is one that was not
    learnt. At most the first 2,000 characters decide.
    """
    encoded = tokenizer.encode(clean_text(text)[:2_000], add_special_tokens=False)
    found = [token for token, counts in zip(encoded.tokens, encoded.attention_mask, strict=True) if counts]
    if not found:
        return 0.0
    return sum(token in _UNKNOWN or _BYTE.fullmatch(token) is not None for token in found) / len(found)


class TextEmbedder(Embedder):
    """Base of our embedders: implement `encode`; blank, damaged and endless texts never reach it.

    Duplicates in one call are encoded once.
    """

    batch_size = 64

    @abstractmethod
    def encode(self, texts: list[str], *, query: bool) -> Any:
        """Return one row of `dim` numbers per text, of any length; `texts` are clean, not blank, at least one.

        Raises:
            IndexUnavailableError: The model cannot answer now.
        """

    def embed_documents(self, texts: Sequence[str]) -> Vectors:  # noqa: D102 - the contract says it
        cleaned = [clean_text(text) for text in texts]
        # By length, so that a batch is padded little.
        wanted = sorted({text for text in cleaned if text}, key=lambda text: (len(text), text))
        known: dict[str, Vectors] = {}
        for start in range(0, len(wanted), self.batch_size):
            batch = wanted[start : start + self.batch_size]
            known.update(zip(batch, self._rows(batch, query=False), strict=True))
        result = np.zeros((len(cleaned), self.dim), dtype=np.float32)
        for place, text in enumerate(cleaned):
            if text:
                result[place] = known[text]
        return result

    def embed_query(self, text: str) -> Vectors:  # noqa: D102 - the contract says it
        cleaned = clean_text(text)
        vector: Vectors = self._rows([cleaned], query=True)[0] if cleaned else np.zeros(self.dim, dtype=np.float32)
        return vector

    def _rows(self, texts: list[str], *, query: bool) -> Vectors:
        rows = unit_rows(self.encode(texts, query=query))
        if rows.shape != (len(texts), self.dim):
            raise IndexUnavailableError(
                f"The embedding model {self.model_id!r} gave an array of shape {rows.shape} for {len(texts)} texts "
                f"of dimension {self.dim}; check its settings."
            )
        return rows
