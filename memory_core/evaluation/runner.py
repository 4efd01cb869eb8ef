"""Fills a searcher, or a store with a searcher that follows it, and asks it every question of a set."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from memory_core.contracts import FEED_PAGE, MemorySearcher, MemorySolution
from memory_core.errors import IndexUnavailableError
from memory_core.evaluation.datasets import Dataset, Document, Question
from memory_core.evaluation.metrics import MEASURES, Each, Scores, mean, measure_each
from memory_core.evaluation.opening import SCOPE
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, SearchHit, SearchQuery

DEPTH = 10
"""How many hits are asked for; no measure looks further."""
CATCH_UP_S = 600.0
"""How long an index may follow a store in the background before the first question."""

Advance = Callable[[int], object]
"""Called with the number of documents or questions that are done since it was called last."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one searcher reached on one set; times depend on the machine and only compare within one run.

    `scores` are means over the questions, `each` the same measures of every question (by its id), `kinds` the
    questions' types where the set has some. `store` is the store that the entries went through, empty when the searcher
    was filled directly. `index_s` is the time until everything could be found, `query_ms` the median of one search.
    `notes` say what was not as it should be, such as an arm of a hybrid that failed.
    """

    dataset: str
    searcher: str
    questions: int
    scores: Scores
    index_s: float
    query_ms: float
    store: str = ""
    each: Each = field(default_factory=dict[str, Scores])
    kinds: dict[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()


def evaluate(
    searcher: MemorySearcher,
    dataset: Dataset,
    name: str = "",
    measures: Sequence[str] = MEASURES,
    advance: Advance = lambda _: None,
) -> Result:
    """Fill `searcher`, which must be empty, with the set's documents, and measure its answers to all questions.

    Each scope of the set is a user of its own, so that a question cannot find another scope's documents. Keys say
    nothing about the text, unless the documents are memories: only what is stored counts.

    Raises:
        MissingExtraError: ir-measures is not installed.
        SearcherError: The searcher failed, or is not empty.

    """
    filled = _Filled(dataset)
    for user in filled.entries:
        if searcher.cursor(user) is not None or searcher.list_all(user, 1):
            raise IndexUnavailableError(f"The index of {name or type(searcher).__name__} is not empty.")
    start = time.perf_counter()
    for user, entries in filled.entries.items():
        for first in range(0, len(entries), FEED_PAGE):
            page = entries[first : first + FEED_PAGE]
            searcher.apply(ChangeBatch(page, (), f"{first + len(page)}", complete=first == 0), user)
            advance(len(page))
    index_s = time.perf_counter() - start

    def ask(user: str, text: str) -> list[SearchHit]:
        return searcher.search(SearchQuery(user, text, DEPTH, dataset.moment))

    name = name or type(searcher).__name__
    return _measured(dataset, filled, ask, name=name, index_s=index_s, measures=measures, advance=advance)


def evaluate_solution(
    solution: MemorySolution,
    dataset: Dataset,
    name: str = "",
    measures: Sequence[str] = MEASURES,
    advance: Advance = lambda _: None,
    *,
    store: str = "",
) -> Result:
    """Store the set's documents in `solution`, which must be empty, and measure what its search finds.

    So entries go the whole way: written durably, read back through the change feed, found by `solution.search`, which
    puts a memory whose key is exactly the question first. Arguments, users and errors as `evaluate`.

    Raises:
        StorerError: The store failed.
        IndexUnavailableError: The index did not catch up with the store in time.

    """
    filled = _Filled(dataset)
    start = time.perf_counter()
    for user, entries in filled.entries.items():
        for first in range(0, len(entries), FEED_PAGE):
            page = entries[first : first + FEED_PAGE]
            solution.storer.put_many(page)
            advance(len(page))
        solution.sync(user)
    drain = getattr(solution.searcher, "drain", None)  # an index that follows in the background has it
    if drain is not None and not drain(CATCH_UP_S):
        raise IndexUnavailableError(f"The searcher {name} did not catch up with the store within {CATCH_UP_S:.0f} s.")
    index_s = time.perf_counter() - start

    def ask(user: str, text: str) -> list[SearchHit]:
        return solution.search(text, user_id=user, top_k=DEPTH)

    name = name or type(solution.searcher).__name__
    return _measured(dataset, filled, ask, name=name, store=store, index_s=index_s, measures=measures, advance=advance)


class _Filled:
    """A set as entries: whose they are, which document each is, and who asks."""

    def __init__(self, dataset: Dataset) -> None:
        self.users: dict[str, str] = {}
        self.documents: dict[MemoryId, str] = {}
        self.entries: dict[str, list[MemoryEntry]] = {}
        scopes = sorted({document.scope for document in dataset.documents})
        for place, scope in enumerate(scopes):
            self.users[scope] = f"user-{place}"
        for place, document in enumerate(dataset.documents):
            if document.text.strip():
                entry = document.entry or _entry(document, self.users[document.scope], place, dataset)
                self.users[document.scope] = entry.id.user_id
                self.documents[entry.id] = document.id
                self.entries.setdefault(entry.id.user_id, []).append(entry)

    def asker(self, question: Question) -> str:
        return self.users.get(question.scope, "nobody")


def _entry(document: Document, user: str, place: int, dataset: Dataset) -> MemoryEntry:
    return MemoryEntry.checked(
        id=MemoryId(SCOPE, user, f"m{place:06d}"),
        content=document.text,
        created_at=dataset.moment,
        updated_at=dataset.moment,
        source="evaluation",
    )


def _measured(
    dataset: Dataset,
    filled: _Filled,
    ask: Callable[[str, str], list[SearchHit]],
    *,
    name: str,
    store: str = "",
    index_s: float,
    measures: Sequence[str],
    advance: Advance,
) -> Result:
    rankings: dict[str, list[str]] = {}
    times: list[float] = []
    failed: Counter[str] = Counter()
    for question in dataset.questions:
        start = time.perf_counter()
        hits = ask(filled.asker(question), question.text)
        times.append(time.perf_counter() - start)
        rankings[question.id] = [filled.documents[hit.entry.id] for hit in hits]
        failed.update(_incomplete(hits))
        advance(1)
    each = measure_each(dataset.grades, rankings, measures)
    return Result(
        dataset.name,
        name,
        len(rankings),
        mean(each, measures),
        index_s,
        median(times) * 1_000 if times else 0.0,
        store,
        each,
        {question.id: question.kind for question in dataset.questions if question.kind},
        tuple(f"{name}: {arm} in {count} of {len(rankings)} answers" for arm, count in sorted(failed.items())),
    )


def _incomplete(hits: Sequence[SearchHit]) -> Iterator[str]:
    """Yield which arms of a hybrid gave nothing to this answer although they should have."""
    for what in hits[0].explain if hits else ():
        arm, _, state = what.rpartition(".")
        if state == "failed":
            yield f"the arm {arm} failed"
        elif state == "pending":
            yield f"the arm {arm} was behind the store"
