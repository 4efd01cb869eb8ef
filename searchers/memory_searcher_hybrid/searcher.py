"""The searcher: asks its arms side by side, fuses what they say, and reports the arm that cannot."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from memory_core.contracts import BackendContext, Candidates, ChangeFeed, Embedder, MemorySearcher, Problem
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, SearchHit, SearchQuery
from memory_searcher_hybrid import HybridOptions
from memory_searcher_hybrid.arms import RETRY_S, Arms
from memory_searcher_hybrid.background import Background, Follower
from memory_searcher_hybrid.fusion import Answer, confirmed, fuse, sight
from memory_searcher_hybrid.stages import Diversity, Recency, Rerank, Stage

_FAST_S = 0.005
_HEAD_START_S = 0.003
T = TypeVar("T")


class HybridSearcher(MemorySearcher):
    """Several searchers as one. Lexical arms follow the store at once, dense ones in the background.

    An entry is therefore found by its words as soon as it is stored, and by its meaning a little later. An arm that
    fails is named in `problems()` and in each hit's `explain` (`"NAME.failed": 1`), and the others answer; so is one
    that has not caught up (`"NAME.pending": 1`), and one that cannot read the query (`"NAME.sight"` below 1). Until it
    has caught up an arm, also a lexical one, only ranks what the others found, because it may hold what was removed or
    replaced. Only when all arms fail does a call raise.

    Args:
        arms: Searchers by name; closed with the hybrid.
        options: See `HybridOptions`.
        stages: What follows the fusion.

    """

    def __init__(
        self, arms: Mapping[str, MemorySearcher], options: HybridOptions | None = None, stages: Sequence[Stage] = ()
    ) -> None:
        super().__init__()
        self._options = options or HybridOptions()
        self._stages = tuple(stages)
        self._depth = max([self._options.depth, *(stage.depth for stage in stages if isinstance(stage, Rerank))])
        self._arms = Arms(arms)
        lexical = [name for name, arm in arms.items() if arm.kind == "lexical"]
        # Without a lexical arm nothing could be found at once: then all are brought up before a search.
        self._prompt = lexical or list(arms)
        self._slow = {name: Follower(name, arm) for name, arm in arms.items() if name not in self._prompt}
        self._took_s: dict[str, float] = {}
        self._background = Background(self._followed)
        self._pool = ThreadPoolExecutor(max_workers=2 * len(arms), thread_name_prefix="memory-core-arm")

    # --- following -------------------------------------------------------------------------------------------------

    def follow(self, changes: ChangeFeed, user_id: str) -> int:
        """Bring the lexical arms up to the store; let the dense ones follow, and wait for them shortly.

        Each arm reads the store by its own cursor, so that one that is behind catches up alone.
        """
        totals = self._arms.each(self._prompt, "follow", lambda arm: arm.follow(changes, user_id))
        place = self._cursor(next(iter(totals)), user_id)
        late = [
            follower
            for name, follower in self._slow.items()
            if not self._arms.resting(name, "follow") and self._cursor(name, user_id) != place
        ]
        for follower in late:
            self._background.enqueue(follower, changes, user_id)
        if late and self._options.wait_ms:
            self._background.wait(self._options.wait_ms / 1000, user_id)
        return max(totals.values())

    def _followed(self, name: str, error: Exception | None) -> None:
        self._arms.report(name, "follow", error, RETRY_S)

    def _cursor(self, name: str, user_id: str) -> str | None:
        try:
            return self._arms.by_name[name].cursor(user_id)
        except Exception:  # noqa: BLE001 - an arm may raise anything; following it says what is wrong
            return None

    def cursor(self, user_id: str) -> str | None:
        """Return where all arms stand; None when they differ: `follow` then brings up each by its own cursor."""
        cursors = {self._cursor(name, user_id) for name in self._arms.by_name}
        return cursors.pop() if len(cursors) == 1 else None

    def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until the dense arms have caught up with what they were told of; return whether they did in time."""
        return self._background.wait(timeout_s)

    def apply(self, batch: ChangeBatch, user_id: str) -> None:  # noqa: D102 - the contract says it
        self._change(lambda arm: arm.apply(batch, user_id))

    def update_index(self, entry: MemoryEntry) -> None:  # noqa: D102 - the contract says it
        self._change(lambda arm: arm.update_index(entry))

    def remove_index(self, id: MemoryId) -> None:  # noqa: D102 - the contract says it
        self._change(lambda arm: arm.remove_index(id))

    def clear(self, user_id: str | None = None) -> None:  # noqa: D102 - the contract says it
        self._change(lambda arm: arm.clear(user_id))

    def _change(self, change: Callable[[MemorySearcher], None]) -> None:
        """Change every arm; an arm that cannot does not keep the others from it, and its error is raised at the end."""
        first: Exception | None = None
        for name, arm in self._arms.by_name.items():
            follower = self._slow.get(name)
            try:
                if follower is None:
                    change(arm)
                else:
                    with follower.lock:
                        change(arm)
            except Exception as error:  # noqa: BLE001 - raised below
                first = first or error
        if first is not None:
            raise first

    # --- reading ---------------------------------------------------------------------------------------------------

    def search(self, query: SearchQuery) -> list[SearchHit]:  # noqa: D102 - the contract says it
        if query.top_k < 1 or not query.text.strip():
            return []
        wide = replace(query, top_k=max(self._depth, 2 * query.top_k))
        # Before they answer: who catches up meanwhile may have answered before.
        behind = self._behind(query.user_id, [*self._prompt, *self._slow])
        given = confirmed(self._answers(wide), behind)
        if self._options.fusion == "union":
            self._complete(given, wide)
        wanted = wide.top_k if self._stages else query.top_k
        hits = fuse(given, self._options.fusion, self._options.dense_weight, wanted)
        for stage in self._stages:
            hits = stage(query, hits)
        hits = hits[: query.top_k]
        notes = self._notes(given, query.user_id)
        return [SearchHit(hit.entry, hit.score, {**hit.explain, **notes}) for hit in hits] if notes else hits

    def _behind(self, user_id: str, names: Sequence[str]) -> set[str]:
        """Return those of `names` that stand elsewhere in the store's feed than the first lexical arm that follows it.

        So does every lexical arm that could not follow it lately. Where none did, nobody knows who is behind.
        """
        failing = self._arms.failures("follow")
        first = next((name for name in self._prompt if name not in failing), None)
        others = [name for name in names if name != first]
        if first is None or not others or (place := self._cursor(first, user_id)) is None:
            return set()
        return {
            name
            for name in others
            if (name in failing and name not in self._slow) or self._cursor(name, user_id) != place
        }

    def _answers(self, query: SearchQuery) -> list[Answer]:
        """Ask all arms side by side; one that is late is left out, and alone for a while.

        Raises:
            IndexUnavailableError: None answers.

        """
        asked = [name for name in (*self._prompt, *self._slow) if not self._arms.resting(name, "search")]
        # The first arm runs in this thread, and so does a fast one: handing it over costs more than it takes.
        here = [name for name in asked if name == asked[0] or self._took_s.get(name, 1.0) < _FAST_S]
        running: list[tuple[str, Future[Answer | None]]] = [
            (name, self._pool.submit(self._ask, name, query)) for name in asked if name not in here
        ]
        end = time.monotonic() + self._options.arm_timeout_s
        # Most of a slow arm's time passes outside of Python once it has got there; an arm that computes in Python
        # beside it would keep it from starting.
        wait([future for _, future in running], _HEAD_START_S, FIRST_COMPLETED)
        answers = [self._ask(name, query) for name in here]
        # While a slow arm still looks for its own candidates, it is asked for its scores of what is already found.
        found = list(dict.fromkeys(key for answer in answers if answer for key, _ in answer.candidates.ranked))
        ahead = {
            name: self._pool.submit(self._missing, name, query, found)
            for name, _ in running
            if found and self._options.fusion == "union"
        }
        for name, future in running:
            try:
                answer = future.result(max(0.001, end - time.monotonic()))
                if answer is not None and answer.sight > 0 and name in ahead:
                    for key, score in ahead[name].result(max(0.001, end - time.monotonic())).items():
                        answer.scores.setdefault(key, score)
                answers.append(answer)
            except TimeoutError:
                future.cancel()
                late = TimeoutError(f"no answer within {self._options.arm_timeout_s:g} seconds")
                self._arms.report(name, "search", late, RETRY_S)
        given = [answer for answer in answers if answer is not None]
        if not given:
            raise self._arms.nobody(self._arms.by_name)
        return given

    def _ask(self, name: str, query: SearchQuery) -> Answer | None:
        def run(arm: MemorySearcher) -> Answer:
            if arm.kind == "lexical":
                found = arm.candidates(query)
                return Answer(name, False, found, dict(found.ranked))
            trust = sight(arm.unknown_share(query.text))
            if trust <= 0:
                return Answer(name, True, Candidates.of([]), sight=0.0)
            found = arm.candidates(query)
            return Answer(name, True, found, dict(found.ranked), arm.score_stats(query), trust)

        start = time.monotonic()
        answer = self._arms.attempt(name, "search", run, None)
        self._took_s[name] = (self._took_s.get(name, 0.0) + time.monotonic() - start) / 2
        return answer

    def _complete(self, answers: Sequence[Answer], query: SearchQuery) -> None:
        """Ask each arm for its true scores of what only others found."""
        candidates = {key for answer in answers for key, _ in answer.candidates.ranked}
        for answer in answers:
            missing = [key for key in candidates if key not in answer.scores] if answer.sight > 0 else []
            if missing:
                answer.scores.update(self._missing(answer.name, query, missing))

    def _missing(self, name: str, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:
        nothing: dict[MemoryId, float] = {}
        return self._arms.attempt(name, "search", lambda arm: arm.scores(query, ids), nothing)

    def _notes(self, given: Sequence[Answer], user_id: str) -> dict[str, float]:
        notes = {f"{name}.failed": 1.0 for name in self._arms.failures()}
        if self._slow:
            notes.update({f"{name}.pending": 1.0 for name, _ in self._background.pending(user_id)})
        notes.update({f"{a.name}.sight": round(a.sight, 3) for a in given if a.dense and a.sight < 1})
        return notes

    def scores(self, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:
        """Return the scores of those of the given entries that are among the candidates."""
        wanted = set(ids)
        hits = self.search(replace(query, top_k=max(self._depth, len(wanted))))
        return {hit.entry.id: hit.score for hit in hits if hit.entry.id in wanted}

    def list_all(  # noqa: D102 - the contract says it
        self, user_id: str, limit: int, *, now: datetime | None = None, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        return self._first(user_id, lambda arm: arm.list_all(user_id, limit, now=now, scopes=scopes))

    def hot(  # noqa: D102 - the contract says it
        self, user_id: str, limit: int, *, now: datetime | None = None, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        return self._first(user_id, lambda arm: arm.hot(user_id, limit, now=now, scopes=scopes))

    def count(self, user_id: str, *, now: datetime | None = None, below: int | None = None) -> int:  # noqa: D102
        return self._first(user_id, lambda arm: arm.count(user_id, now=now, below=below))

    def _first(self, user_id: str, run: Callable[[MemorySearcher], T]) -> T:
        """Return the answer of the first arm that can give one; those that are up to date come first."""
        behind = self._behind(user_id, self._prompt)
        names = sorted((*self._prompt, *self._slow), key=behind.__contains__)
        for name in names:
            answers: list[T] = self._arms.attempt(name, "list", lambda arm: [run(arm)], [])
            if answers:
                return answers[0]
        raise self._arms.nobody(names)

    # --- state -----------------------------------------------------------------------------------------------------

    def problems(self) -> list[Problem]:
        """Name the arms that fail or are behind, and what they say themselves."""
        found = [
            Problem(
                "error",
                "arm-down",
                f"The arm {name!r} of the hybrid search does not answer: {reason}",
                name,
                f"The other arms answer meanwhile. Repair it, then `memory-core reindex --searcher {name}`.",
            )
            for name, reason in self._arms.failures().items()
        ]
        found.extend(
            Problem("info", "arm-behind", f"The arm {name!r} is still embedding.", name, "It catches up by itself.")
            for name in _different(name for name, _ in self._background.pending())
        )
        for arm in self._arms.by_name.values():
            found.extend(arm.problems())
        return found

    def embedders(self) -> Sequence[Embedder]:
        """Return those of all arms."""
        return [embedder for arm in self._arms.by_name.values() for embedder in arm.embedders()]

    def close(self) -> None:
        """Finish embedding (for at most `drain_timeout_s`) and close the arms."""
        self._background.close(self._options.drain_timeout_s)
        self._pool.shutdown(wait=False, cancel_futures=True)
        for arm in self._arms.by_name.values():
            arm.close()


def _different(names: Iterable[str]) -> list[str]:
    return sorted(set(names))


def build_hybrid(options: HybridOptions, context: BackendContext) -> HybridSearcher:
    """Build the arms by name, and the hybrid over them.

    Raises:
        PluginError, ConfigError: An arm is unknown, incomplete or wrongly configured.

    """
    arms: dict[str, MemorySearcher] = {}
    try:
        for name in options.arms:
            arms[name] = context.build_searcher(name)
    except BaseException:
        for arm in arms.values():
            arm.close()
        raise
    stages: list[Stage] = []
    if options.rerank_model is not None:
        stages.append(Rerank(options.rerank_model, options.rerank_depth))
    if options.half_life_days is not None:
        stages.append(Recency(options.half_life_days, options.recency_weight))
    if options.diversity > 0:
        stages.append(Diversity(options.diversity, context.stemmer))
    return HybridSearcher(arms, options, stages)
