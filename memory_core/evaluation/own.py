"""Makes a set of somebody's own memories: the memories are the documents, given or generated queries the questions."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from memory_core.errors import ConfigError, InvalidKeyError, did_you_mean
from memory_core.evaluation.datasets import Dataset, Document, Question
from memory_core.evaluation.known_item import GENERATED_NOTE, known_item
from memory_core.evaluation.opening import SCOPE
from memory_core.model import MemoryEntry, clean_name

NAME = "own"


@dataclass(frozen=True, slots=True)
class GivenQuery:
    """A query of a person, the keys of the memories that answer it, each with its grade, and where it stood."""

    text: str
    grades: dict[str, int]
    kind: str
    where: str


def own_dataset(
    entries: Iterable[MemoryEntry],
    scopes: Sequence[str],
    moment: datetime,
    queries: Sequence[GivenQuery] | None = None,
    *,
    seed: int = 0,
) -> Dataset:
    """Return the set of one user's memories, which is called `own`.

    Memories keep key, content, importance and times; of those with one key only the one of the highest scope is there,
    as in a search. Memories with equal content answer the same generated query.

    Args:
        entries: One user's live memories.
        scopes: Their scopes, low to high priority.
        moment: When it is.
        queries: What is asked; None generates a query for each memory, and the set's note says so.
        seed: Decides the generated queries.

    Raises:
        ConfigError: There is no memory, a query names a key that is not there, or nothing is left to ask.

    """
    visible: dict[str, MemoryEntry] = {}
    for entry in sorted(entries, key=lambda entry: scopes.index(entry.id.scope)):
        visible[entry.id.key] = entry
    if not visible:
        raise ConfigError("There are no memories to measure with: store some, or give a labelled set with --data.")
    documents = tuple(
        Document(key, entry.content, "", entry.model_copy(update={"id": replace(entry.id, scope=SCOPE)}))
        for key, entry in sorted(visible.items())
    )
    if queries is None:
        generated = known_item([(document.id, document.text) for document in documents], seed)
        if not generated:
            raise ConfigError(
                "No query could be generated: no memory has three different words. Give your own with --queries FILE."
            )
        questions = tuple(Question(key, text, "", "generated") for key, text in generated)
        same: dict[str, list[str]] = {}
        for document in documents:
            same.setdefault(document.text, []).append(document.id)
        grades = {key: dict.fromkeys(same[visible[key].content], 1) for key, _ in generated}
        return Dataset(NAME, documents, questions, grades, GENERATED_NOTE, moment)
    if not queries:
        raise ConfigError("There are no queries to ask.")
    for query in queries:
        for key in query.grades:
            if key not in visible:
                raise ConfigError(
                    f"{query.where} names {key!r}, which no memory has as key.{did_you_mean(key, visible)}"
                )
    questions = tuple(Question(f"q{place:06d}", query.text, "", query.kind) for place, query in enumerate(queries))
    grades = {question.id: query.grades for question, query in zip(questions, queries, strict=True)}
    return Dataset(NAME, documents, questions, grades, moment=moment)


def read_queries(path: Path) -> list[GivenQuery]:
    r"""Read queries and the keys that answer them.

    A line is either JSON, `{"query": "which editor?", "keys": ["editor"], "type": "preference"}` (`key` for one alone,
    `keys` also as an object of key → grade above 0, `type` optional), or plain: the query, a tab, and the keys,
    separated by tabs. Blank lines are passed over.

    Raises:
        ConfigError: A line is neither, or the file cannot be read or holds no query; the message names the line.

    """
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start}).") from error
    found: list[GivenQuery] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"Line {number} of {path}"
            try:
                found.append(_from_json(line, where) if line.lstrip().startswith("{") else _from_tabs(line, where))
            except InvalidKeyError as error:
                raise ConfigError(f"{where} has a key that no memory can have: {error}") from error
    if not found:
        raise ConfigError(f"{path} holds no query.")
    return found


def _from_tabs(line: str, where: str) -> GivenQuery:
    query, *keys = (part.strip() for part in line.split("\t"))
    keys = [key for key in keys if key]
    if not query or not keys:
        raise ConfigError(f"{where} is no query: it needs the query, a tab, and the key that answers it.")
    return GivenQuery(query, {clean_name(key): 1 for key in keys}, "", where)


def _from_json(line: str, where: str) -> GivenQuery:
    try:
        row: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} is no JSON: {error}.") from error
    query, keys, kind = row.get("query"), row.get("keys", row.get("key")), row.get("type", "")
    grades = cast("dict[str, Any]", keys) if isinstance(keys, dict) else dict[str, Any].fromkeys(_listed(keys), 1)
    if not isinstance(query, str) or not query.strip() or not grades or not isinstance(kind, str):
        raise ConfigError(f'{where} is no query: it needs "query" and "keys", such as {_EXAMPLE}.')
    if not all(isinstance(grade, int) and not isinstance(grade, bool) and grade > 0 for grade in grades.values()):
        raise ConfigError(f"{where} has a grade that is no whole number above 0.")
    return GivenQuery(query, {clean_name(key): grade for key, grade in grades.items()}, kind, where)


_EXAMPLE = '{"query": "which editor?", "keys": ["editor"]}'


def _listed(keys: Any) -> list[str]:
    if isinstance(keys, str):
        return [keys]
    found = cast("list[object]", keys) if isinstance(keys, list) else []
    names = [key for key in found if isinstance(key, str)]
    return names if len(names) == len(found) else []
