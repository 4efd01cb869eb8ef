"""What turns text into vectors."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(ABC):
    """Turns text into unit-length float32 vectors of one model."""

    @property
    @abstractmethod
    def model_id(self) -> str:
        """Names model and settings; vectors of two ids must never be compared."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """The length of each vector."""

    @abstractmethod
    def embed_documents(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Return one row per text, shape `(len(texts), dim)`; a text without content may give a zero row."""

    @abstractmethod
    def embed_query(self, text: str) -> "NDArray[np.float32]":
        """Return the query's vector, shape `(dim,)`."""

    def unknown_share(self, text: str) -> float:
        """Return the share of the text's tokens that the model does not know, 0..1.

        Optional; an embedder that cannot see its tokenizer says 0. An English model that is shown Chinese is the case
        that this is for: a hybrid takes weight away from what it cannot read.
        """
        del text
        return 0.0

    def close(self) -> None:
        """Release the model."""
        return
