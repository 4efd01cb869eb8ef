"""An embedder without a model, for tests of whatever uses one. Needs numpy."""

import zlib
from collections.abc import Callable, Sequence

import numpy as np

from memory_core.contracts import Embedder
from memory_core.text import tokens
from memory_core.vectors import Vectors, unit_rows


class FakeEmbedder(Embedder):
    """Hashed words: texts that share words are near, the same text always has the same vector.

    Counts what it embeds (`embedded`), and calls `before` first, with the texts: a test may wait or raise there.
    """

    def __init__(
        self, dim: int = 64, model_id: str = "fake", before: Callable[[Sequence[str]], None] | None = None
    ) -> None:
        self._dim = dim
        self._model_id = model_id
        self.before = before
        self.embedded: list[str] = []
        self.unknown: frozenset[str] = frozenset()
        self.closed = False

    @property
    def model_id(self) -> str:
        return self._model_id

    @property
    def dim(self) -> int:
        return self._dim

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        if self.before is not None:
            self.before(texts)
        self.embedded.extend(texts)
        return self._rows(texts)

    def embed_query(self, text: str) -> Vectors:
        if self.before is not None:
            self.before([text])
        row: Vectors = self._rows([text])[0]
        return row

    def unknown_share(self, text: str) -> float:
        """Return the share of the text's tokens that a test put into `unknown`."""
        found = tokens(text)
        return sum(token in self.unknown for token in found) / len(found) if found else 0.0

    def _rows(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self._dim), dtype=np.float32)
        for place, text in enumerate(texts):
            for token in tokens(text[:20_000]):
                code = zlib.crc32(token.encode("utf-8", "surrogatepass"))
                rows[place, code % self._dim] += 1.0 if code & 0x10000 else 0.5
        return unit_rows(rows) if len(texts) else rows

    def close(self) -> None:
        self.closed = True
