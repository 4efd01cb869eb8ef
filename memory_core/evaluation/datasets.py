"""Reads labelled retrieval sets from a directory.

A set is a directory with `corpus.jsonl.gz` (`{"id", "text", "meta"}`), `queries.jsonl.gz` (the same fields) and
`qrels.tsv` (a heading, then query id, corpus id and grade, separated by tabs). Where documents carry `meta.scope`, a
query searches only the documents of its own scope.
"""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_core.errors import ConfigError

TITLED = frozenset({"scifact"})
"""Sets whose documents are indexed with their title before the text, as published figures for them are."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text that may be found; `scope` is empty where the set is one pool."""

    id: str
    text: str
    scope: str


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the documents of one scope."""

    id: str
    text: str
    scope: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """A labelled set. `grades` are query id → document id → grade; only grades above 0 are kept."""

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    grades: dict[str, dict[str, int]]

    def head(self, questions: int) -> "Dataset":
        """Return the set with every n-th question, so that about that many are left."""
        step = max(1, -(-len(self.questions) // questions))
        return Dataset(self.name, self.documents, self.questions[::step], self.grades)


def load_dataset(directory: Path) -> Dataset:
    """Read the set in `directory`; its name is the directory's. Questions without a relevant document are left out.

    Raises:
        ConfigError: A file is missing or not in the form above; the message names it.

    """
    name = directory.name
    documents: list[Document] = []
    for row in _rows(directory / "corpus.jsonl.gz"):
        meta: dict[str, Any] = row.get("meta") or {}
        title = str(meta.get("title", "")) if name in TITLED else ""
        documents.append(Document(str(row["id"]), f"{title} {row['text']}".strip(), str(meta.get("scope", ""))))
    grades = _grades(directory / "qrels.tsv")
    scoped = any(document.scope for document in documents)
    questions: list[Question] = []
    for row in _rows(directory / "queries.jsonl.gz"):
        meta = row.get("meta") or {}
        if str(row["id"]) in grades:
            questions.append(Question(str(row["id"]), str(row["text"]), str(meta.get("scope", "")) if scoped else ""))
    return Dataset(name, tuple(documents), tuple(questions), grades)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                if "id" not in row or "text" not in row:
                    raise ValueError("a line lacks `id` or `text`")
                yield row
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read as a labelled set: {error}.") from error


def _grades(path: Path) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    try:
        for line in path.read_text("utf-8").splitlines()[1:]:
            query, document, grade = line.split("\t")
            if int(grade) > 0:
                grades.setdefault(query, {})[document] = int(grade)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as relevance labels: {error}.") from error
    return grades
