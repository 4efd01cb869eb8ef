"""`EmbedderContract`: what every embedder must do. Subclass it and give the fixture `embedder`."""

from typing import ClassVar

import numpy as np
import pytest

from memory_core.contracts import Embedder

NASTY_TEXTS = (
    "plain words",
    "用户喜欢使用Solon框架写代码",
    "\ud800 lone surrogate",
    "nul \0 inside",
    "👩‍👩‍👧 e\u0301 \u2028 line",
    '"; DROP TABLE memories; --',
    "word " * 50_000,
    "字" * 20_000,
)


class EmbedderContract:
    """Shapes, types, unit length, determinism, and text that nobody expects."""

    related: ClassVar[tuple[str, str]] = ("The cat sleeps on the sofa.", "A kitten is napping on the couch.")
    unrelated: ClassVar[str] = "Quarterly revenue of the steel company fell."

    @pytest.fixture
    def embedder(self) -> Embedder:
        """Return the embedder under test."""
        raise NotImplementedError

    def test_says_who_it_is(self, embedder: Embedder) -> None:
        """`model_id` is not blank, `dim` is positive, both stay."""
        assert embedder.model_id.strip()
        assert embedder.dim > 0
        assert (embedder.model_id, embedder.dim) == (embedder.model_id, embedder.dim)

    def test_documents_give_unit_rows(self, embedder: Embedder) -> None:
        """One float32 row of length 1 per text, in the order of the texts."""
        texts = [*self.related, self.unrelated]
        rows = embedder.embed_documents(texts)
        assert rows.shape == (3, embedder.dim)
        assert rows.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-4)
        turned = embedder.embed_documents(texts[::-1])
        np.testing.assert_allclose(turned[::-1], rows, atol=2e-3)

    def test_query_is_one_unit_vector(self, embedder: Embedder) -> None:
        """`embed_query` gives shape `(dim,)`, float32, length 1."""
        vector = embedder.embed_query(self.related[0])
        assert vector.shape == (embedder.dim,)
        assert vector.dtype == np.float32
        assert abs(float(np.linalg.norm(vector)) - 1.0) < 1e-4

    def test_same_text_same_vector(self, embedder: Embedder) -> None:
        """A text's vector does not depend on what else is in the call."""
        alone = embedder.embed_documents([self.related[0]])[0]
        among = embedder.embed_documents(["short", self.related[0], "x " * 300])[1]
        assert float(alone @ among) > 0.999

    def test_likeness_has_meaning(self, embedder: Embedder) -> None:
        """Related texts are nearer than unrelated ones."""
        query = embedder.embed_query(self.related[0])
        near, far = embedder.embed_documents([self.related[1], self.unrelated])
        assert float(query @ near) > float(query @ far)

    def test_no_texts_give_no_rows(self, embedder: Embedder) -> None:
        """An empty list has a result of shape `(0, dim)`."""
        assert embedder.embed_documents([]).shape == (0, embedder.dim)

    def test_blank_text_is_finite(self, embedder: Embedder) -> None:
        """Blank text gives a zero or unit row, never NaN."""
        rows = embedder.embed_documents(["", " \n\t", self.related[0]])
        lengths = np.linalg.norm(rows, axis=1)
        assert np.isfinite(rows).all()
        assert all(length < 1e-6 or abs(length - 1) < 1e-4 for length in lengths)
        assert np.isfinite(embedder.embed_query("")).all()

    @pytest.mark.parametrize("text", NASTY_TEXTS, ids=range(len(NASTY_TEXTS)))
    def test_any_text_has_a_vector(self, embedder: Embedder, text: str) -> None:
        """No text raises, as document or query."""
        for row in (embedder.embed_documents([text])[0], embedder.embed_query(text)):
            length = float(np.linalg.norm(row))
            assert length < 1e-6 or abs(length - 1) < 1e-4

    def test_duplicates_and_many(self, embedder: Embedder) -> None:
        """More texts than a batch, with repeats: each place gets its own text's row."""
        texts = [f"memory number {n % 7}" for n in range(150)]
        rows = embedder.embed_documents(texts)
        assert rows.shape == (150, embedder.dim)
        for place in (0, 64, 149):
            assert float(rows[place] @ rows[place % 7]) > 0.999

    def test_closing_twice_is_harmless(self, embedder: Embedder) -> None:
        """`close` may be called again."""
        embedder.close()
        embedder.close()
