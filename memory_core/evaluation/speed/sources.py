"""Where the texts come from: made from a seed, or from a labelled set."""

from pathlib import Path

from memory_core.errors import ConfigError
from memory_core.evaluation.bench_texts import Texts


def open_texts(seed: int, data: str, size: int = 0) -> Texts:
    """Return made texts, or with `data` those of the labelled set in that directory.

    Raises:
        ConfigError: The set cannot be read, or has fewer than `size` texts: none is used twice.

    """
    if not data:
        return Texts(seed)
    from memory_core.evaluation.datasets import load_dataset

    found = load_dataset(Path(data))
    texts = [document.text for document in found.documents if document.text.strip()]
    if len(texts) < size:
        raise ConfigError(f"the set {found.name} has {len(texts):,} texts, fewer than {size:,}")
    return Texts(seed, tuple(texts), tuple(question.text for question in found.questions if question.text.strip()))
