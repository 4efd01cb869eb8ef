"""Reads labelled retrieval sets from a directory.

A set is a directory with `corpus.jsonl.gz` (`{"id", "text", "meta"}`), `queries.jsonl.gz` (the same fields) and
`qrels.tsv` (a heading, then query id, corpus id and grade, separated by tabs); the two `.jsonl.gz` may also lie there
unpacked, as `.jsonl`. Where documents carry `meta.scope`, a query searches only the documents of its own scope.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from memory_core.errors import ConfigError, did_you_mean
from memory_core.model import MemoryEntry

TITLED = frozenset({"scifact"})
"""Sets whose documents are indexed with their title before the text, as published figures for them are."""

CORPUS, QUERIES, LABELS = "corpus.jsonl", "queries.jsonl", "qrels.tsv"
MOMENT = datetime(2025, 1, 1, tzinfo=UTC)
"""When the documents of a labelled set were stored and are asked for: no ranking depends on today."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text that may be found; `scope` is empty where the set is one pool.

    `entry` is the memory itself where the document is one: it is indexed as it is, with its key, importance and times.
    """

    id: str
    text: str
    scope: str
    entry: MemoryEntry | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the documents of one scope; `kind` is the type that the set gives it, often none (`""`)."""

    id: str
    text: str
    scope: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A labelled set. `grades` are query id → document id → grade; only grades above 0 are kept.

    `note` is what a reader must know to judge figures on it. `moment` is when the questions are asked.
    """

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    grades: dict[str, dict[str, int]]
    note: str = ""
    moment: datetime = MOMENT

    def head(self, questions: int) -> "Dataset":
        """Return the set with every n-th question, so that about that many are left."""
        step = max(1, -(-len(self.questions) // questions))
        return replace(self, questions=self.questions[::step])


def find_sets(directory: Path, names: Sequence[str] | None = None) -> list[Path]:
    """Return the directories of the labelled sets: `directory` itself when it is one, else those right below it.

    Args:
        directory: A set, or what holds sets.
        names: Only these, in this order.

    Raises:
        ConfigError: There is no such directory, no set in it, or none of a given name.

    """
    if not directory.is_dir():
        raise ConfigError(f"There is no directory {directory}.")
    inside = [directory] if _is_set(directory) else sorted(path for path in directory.iterdir() if _is_set(path))
    if not inside:
        raise ConfigError(f"There is no labelled set in {directory}: a set has {CORPUS}.gz, {QUERIES}.gz and {LABELS}.")
    if names is None:
        return inside
    known = {path.absolute().name: path for path in inside}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f" There are: {', '.join(known)}."
            raise ConfigError(f"There is no set {name!r} in {directory}.{hint}")
    return [known[name] for name in dict.fromkeys(names)]


def load_dataset(directory: Path) -> Dataset:
    """Read the set in `directory`; its name is the directory's. Questions without a relevant document are left out.

    A question's kind is `meta.type`, else `meta.category`.

    Raises:
        ConfigError: A file is missing or not in the form above, or nothing is left to ask; the message names it.

    """
    name = directory.absolute().name
    documents: list[Document] = []
    for row in _rows(directory, CORPUS):
        meta: dict[str, Any] = row.get("meta") or {}
        title = str(meta.get("title", "")) if name in TITLED else ""
        documents.append(Document(str(row["id"]), f"{title} {row['text']}".strip(), str(meta.get("scope", ""))))
    grades = _grades(directory / LABELS)
    scoped = any(document.scope for document in documents)
    questions: list[Question] = []
    for row in _rows(directory, QUERIES):
        meta = row.get("meta") or {}
        if str(row["id"]) in grades:
            scope = str(meta.get("scope", "")) if scoped else ""
            questions.append(Question(str(row["id"]), str(row["text"]), scope, _kind(meta)))
    if not documents or not questions:
        there = f"{len(documents)} documents and {len(questions)} questions with a label"
        raise ConfigError(f"The set {directory} is empty: it has {there}.")
    return Dataset(name, tuple(documents), tuple(questions), grades)


def _kind(meta: dict[str, Any]) -> str:
    found = next((meta[name] for name in ("type", "category") if meta.get(name) is not None), "")
    return str(found) if isinstance(found, str | int) else ""


def _is_set(directory: Path) -> bool:
    return any((directory / name).is_file() for name in (f"{CORPUS}.gz", CORPUS))


def _rows(directory: Path, name: str) -> Iterator[dict[str, Any]]:
    path = directory / name
    if not path.is_file():
        path = directory / f"{name}.gz"
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for line in lines:
                if not line.strip():
                    continue
                found: Any = json.loads(line)
                if not isinstance(found, dict) or "id" not in found or "text" not in found:
                    raise ValueError("a line lacks `id` or `text`")
                row = cast("dict[str, Any]", found)
                if not isinstance(row.get("meta") or {}, dict):
                    raise ValueError("`meta` is no object")
                yield row
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read as a labelled set: {error}.") from error


def _grades(path: Path) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    try:
        for line in path.read_text("utf-8").split("\n")[1:]:
            if line.strip():
                query, document, grade = line.rstrip("\r").split("\t")
                if int(grade) > 0:
                    grades.setdefault(query, {})[document] = int(grade)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as relevance labels: {error}.") from error
    return grades
