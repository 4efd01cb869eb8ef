"""The vectors of all texts, made once, so that no figure contains embedding and all peers get the same ones."""

from array import array
from collections.abc import Iterable

from benchmarks.peers.serving import Item
from memory_core.contracts import Embedder


class Vectors:
    """Turns texts into items; a text is embedded once.

    Args:
        embedder: Whose vectors everybody gets.

    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, array[float]] = {}

    @property
    def dim(self) -> int:
        return self._embedder.dim

    @property
    def model_id(self) -> str:
        return self._embedder.model_id

    def items(self, pairs: Iterable[tuple[str, str]], *, asked: bool = False) -> list[Item]:
        """Return an item for each (key, text); for queries (`asked`) with the share of tokens the model cannot read."""
        wanted = list(pairs)
        missing = list(dict.fromkeys(text for _, text in wanted if text not in self._known))
        if missing:
            for text, row in zip(missing, self._embedder.embed_documents(missing), strict=True):
                self._known[text] = array("f", row.tobytes())
        return [
            Item(key, text, self._known[text], self._embedder.unknown_share(text) if asked else 0.0)
            for key, text in wanted
        ]


def open_static() -> Vectors:
    """Return the vectors of the small model inside the package wordllama; nothing is downloaded.

    Raises:
        MissingExtraError: The package is not installed.

    """
    from memory_core.plugins import get_registry

    backend = get_registry().backend("embedder", "static")
    return Vectors(backend.build(backend.options(), None))
