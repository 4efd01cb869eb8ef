"""A day in the life of every store with every searcher: nothing fails, nothing is lost, nothing comes back."""

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from memory_core.contracts import MemoryStorer
from memory_core.errors import MissingExtraError, StorageUnavailableError
from memory_core.evaluation import redis_server as server
from memory_core.evaluation.bench_pair import BenchPair
from memory_core.evaluation.bench_stores import SEARCHERS, STORERS, Ground, prepared
from memory_core.evaluation.long_run import LongRun, Outcome, report_json, run_pair, table
from memory_core.evaluation.long_run import run as running
from memory_core.evaluation.long_run.day import run_all
from memory_core.evaluation.long_run.history import History, Seen, Write, read_line
from memory_core.evaluation.long_run.journal import Journal, journal_path, lines
from memory_core.evaluation.long_run.player import WEIGHTS, Player
from memory_core.evaluation.long_run.stories import Stories
from memory_core.evaluation.long_run.verify import Verification, verify
from memory_core.evaluation.long_run.worker import work
from memory_core.model import ChangeBatch, MemoryEntry, SearchHit, SearchQuery
from memory_core.solution import StandardSolution
from memory_core.testing import make_entry
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_storer_kv.storer import KvStorer

SOAK = os.environ.get("MEMORY_CORE_SOAK") == "1"
PAIRS = [(storer, searcher) for storer in STORERS for searcher in SEARCHERS]
SHORT = [(storer, searcher) for storer, searcher in PAIRS if storer == "kv" or searcher == "fulltext"]
SCOPES = ("user", "workspace")


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with prepared(tmp_path_factory.mktemp("long-run"), STORERS, SEARCHERS, "static", None) as ground:
        yield ground


@pytest.mark.soak
@pytest.mark.parametrize(("storer", "searcher"), PAIRS if SOAK else SHORT)
def test_a_day_in_the_life(ground: Ground, storer: str, searcher: str) -> None:
    if reason := ground.reason_against(storer, searcher):
        pytest.skip(reason)
    plan = LongRun(10_000, 4, budget_s=1_800) if SOAK else LongRun(240, 2, budget_s=120)
    (outcome,) = run_all(ground, [storer], [searcher], plan)
    assert outcome.faults == ()
    assert (outcome.errors, outcome.lost, outcome.ghosts) == (0, 0, 0)
    assert outcome.operations == plan.operations
    assert outcome.entries > plan.operations / 20
    assert outcome.checked > plan.operations
    assert set(outcome.op_ms) == set(WEIGHTS)


def giving(value: object) -> Callable[..., object]:
    """Return a function that takes anything and gives `value`."""

    def give(*_: object, **__: object) -> object:
        return value

    return give


class Forgetful(KvStorer):
    """Says that it has stored, and has not, every now and then."""

    count = 0

    def put(self, entry: MemoryEntry) -> None:
        self.count += 1
        if self.count % 7:
            super().put(entry)


class Failing(KvStorer):
    """Cannot write every now and then, and says so."""

    count = 0

    def put(self, entry: MemoryEntry) -> None:
        self.count += 1
        if self.count % 7 == 0:
            raise StorageUnavailableError("the disk is full")
        super().put(entry)


class Haunted(FulltextSearcher):
    """Keeps what was removed."""

    def apply(self, batch: ChangeBatch, user_id: str) -> None:
        super().apply(replace(batch, removals=()), user_id)


class Stuttering(FulltextSearcher):
    """Finds everything twice."""

    def search(self, query: SearchQuery) -> list[SearchHit]:
        return [hit for hit in super().search(query) for _ in (1, 2)]


class Blurred(FulltextSearcher):
    """Shows another text than the store has."""

    def search(self, query: SearchQuery) -> list[SearchHit]:
        hits = super().search(query)
        return [replace(hit, entry=hit.entry.model_copy(update={"content": "something else"})) for hit in hits]


class Blind(FulltextSearcher):
    """Never finds the best one."""

    def search(self, query: SearchQuery) -> list[SearchHit]:
        return super().search(query)[1:]


def played(root: Path, storer: type[KvStorer], searcher: type[FulltextSearcher], operations: int = 150) -> Outcome:
    """Play alone in this process, and return the judgement without the final check by another one."""
    root.mkdir(exist_ok=True)
    store: MemoryStorer = storer({scope: root / scope for scope in SCOPES}, durability="normal")
    solution = StandardSolution(store, searcher(), SCOPES)
    journal = Journal(journal_path(root, 0))
    Player(solution, journal, Stories(0), 0, 1, Random(1)).play(operations)
    journal.close()
    solution.close()
    return running.judged(BenchPair("kv", "fulltext", str(root)), LongRun(operations, 1), [])


def test_sound_backends_are_not_blamed(tmp_path: Path) -> None:
    outcome = played(tmp_path, KvStorer, FulltextSearcher)
    assert outcome.faults == ()
    assert outcome.holds
    assert outcome.operations == 150
    assert outcome.per_second > 1


@pytest.mark.parametrize(
    ("storer", "searcher", "kind"),
    [
        (Forgetful, FulltextSearcher, "lost"),
        (Failing, FulltextSearcher, "errors"),
        (KvStorer, Haunted, "ghosts"),
        (KvStorer, Stuttering, "errors"),
        (KvStorer, Blurred, "ghosts"),
        (KvStorer, Blind, "lost"),
    ],
)
def test_each_kind_of_fault_is_found_and_named(
    tmp_path: Path, storer: type[KvStorer], searcher: type[FulltextSearcher], kind: str
) -> None:
    outcome = played(tmp_path, storer, searcher)
    assert getattr(outcome, kind) > 0
    assert not outcome.holds
    assert 1 <= len(outcome.faults) <= 5
    assert any(kind.startswith(fault.kind) for fault in outcome.faults)
    assert any(fault.what in line for fault in outcome.faults for line in table([outcome]))


def test_a_failed_write_is_not_called_lost(tmp_path: Path) -> None:
    outcome = played(tmp_path, Failing, FulltextSearcher)
    assert outcome.errors
    assert (outcome.lost, outcome.ghosts) == (0, 0)
    assert "the disk is full" in outcome.faults[0].what


def pair_of(root: Path, storer: str = "kv") -> BenchPair:
    return BenchPair(storer, "fulltext", str(root))


def worked(pair: BenchPair, monkeypatch: pytest.MonkeyPatch, operations: int = 60) -> None:
    Path(pair.root).mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("go\n"))
    work({"pair": pair.to_json(), "seed": 0, "processes": 1, "process": 0, "operations": operations})


def test_a_process_that_comes_back_knows_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = pair_of(tmp_path / "pair")
    worked(pair, monkeypatch)
    worked(pair, monkeypatch)
    assert capsys.readouterr().out == "ready\nready\n"
    work({"pair": pair.to_json(), "seed": 0, "processes": 1, "verify": True})
    outcome = running.judged(pair, LongRun(120, 1), [])
    assert outcome.faults == ()
    assert outcome.operations == 120
    assert outcome.entries > 5
    written = [line["write"][1] for line in lines(journal_path(tmp_path / "pair", 0)) if "write" in line]
    stamps = [stamp for stamp in written if stamp is not None]
    assert len(stamps) == len(set(stamps)), "no version was used twice"


def tampered(pair: BenchPair, change: str) -> Outcome:
    """Change the store behind the run's back, check it in the end, and return the judgement."""
    provider = pair.open()
    solution = provider.get(pair.work)
    victim = next(entry for entry in solution.storer.scan() if entry.id.key.startswith("p0-"))
    if change == "removed":
        solution.storer.remove(victim.id)
    else:
        solution.store(victim.model_copy(update={"content": victim.content[:10]}))
    provider.close()
    work({"pair": pair.to_json(), "seed": 0, "processes": 1, "verify": True})
    return running.judged(pair, LongRun(60, 1), [])


@pytest.mark.parametrize(("change", "kind"), [("removed", "lost"), ("cut", "ghosts")])
def test_the_final_check_finds_what_changed_behind_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, kind: str
) -> None:
    pair = pair_of(tmp_path / "pair")
    worked(pair, monkeypatch)
    outcome = tampered(pair, change)
    assert getattr(outcome, kind) > 0
    assert any("in the end" in fault.what for fault in outcome.faults)


def test_what_expires_while_the_final_check_reads_is_no_ghost(tmp_path: Path) -> None:
    """A read shows what had not expired when it began, and a large store takes its time."""
    stories, journal = Stories(0), Journal(tmp_path / "verify")
    stamp = stories.stamp(0, 1)
    history = History([Write("p0-1", stamp, 0.0, 1.0, time.time() + 0.05)])

    def read() -> list[MemoryEntry]:
        time.sleep(0.1)
        return [make_entry("p0-1", stories.text(stamp))]

    nothing: Any = None
    Verification(nothing, history, stories, journal, Random(0)).everything("the store in the end", read)
    journal.close()
    (seen,) = [seen for line in lines(tmp_path / "verify") if isinstance(seen := read_line(line), Seen)]
    assert seen.stamp == stamp
    assert history.judge(seen) is None


def test_a_final_check_that_cannot_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of(tmp_path / "pair")
    worked(pair, monkeypatch)
    (file,) = (pair.work / ".memory-core").rglob("*.sqlite3")
    file.write_bytes(b"not a database at all, not even a little" * 200)
    verify(pair, 0, [journal_path(Path(pair.root), 0)], Path(pair.root) / "verify.jsonl")
    outcome = running.judged(pair, LongRun(60, 1), [])
    assert outcome.errors
    assert "final check" in outcome.faults[0].what


def test_processes_that_die_or_do_not_finish_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_MODULE", "memory_core.no_such_module")
    outcome = run_pair(pair_of(tmp_path / "dead"), LongRun(40, 2, budget_s=20))
    assert outcome.errors >= 3
    assert "ended with 1" in outcome.faults[0].what
    assert "no_such_module" in outcome.faults[0].what
    monkeypatch.undo()
    outcome = run_pair(pair_of(tmp_path / "slow"), LongRun(1_000_000, 2, budget_s=4))
    assert outcome.errors
    assert "did not finish in time" in outcome.faults[0].what


def test_missing_operations_are_an_error(tmp_path: Path) -> None:
    outcome = running.judged(pair_of(tmp_path), LongRun(10, 1), [])
    assert [fault.what for fault in outcome.faults] == ["only 0 of 10 operations were done"]


def test_a_torn_last_line_of_a_journal_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text('{"op": ["list", 1, 2]}\n{"wri')
    assert list(lines(path)) == [{"op": ["list", 1, 2]}]
    assert list(lines(tmp_path / "none")) == []


def test_stories_are_known_by_their_stamp() -> None:
    stories = Stories(3)
    stamp = stories.stamp(2, 17)
    text = stories.text(stamp)
    assert text == Stories(3).text(stamp)
    assert text != Stories(4).text(stamp)
    assert text.endswith(" " + stamp)
    with pytest.raises(ValueError, match="no stamp"):
        stories.text("w2x")


def test_without_redis_its_pairs_are_not_run_and_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_core.evaluation.redis_server.shutil.which", giving(None))
    with prepared(tmp_path, ["redis"], ["fulltext"], "static", None) as ground:
        told: list[Outcome] = []
        (outcome,) = run_all(ground, ["redis"], ["fulltext"], LongRun(8, 1), told.append)
    assert told == [outcome]
    assert outcome.not_run is not None
    assert "redis-server is not installed" in outcome.not_run
    assert outcome.holds
    assert "not run" in table([outcome])[1]


def test_a_redis_that_does_not_start_or_answer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "redis-server"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("memory_core.evaluation.redis_server.shutil.which", giving(str(broken)))
    with pytest.raises(StorageUnavailableError, match="did not start"), server.temporary_redis(tmp_path / "data"):
        pass
    with pytest.raises(StorageUnavailableError, match="cannot be asked"):
        server.used_bytes("redis://127.0.0.1:1/0")
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtraError, match="redis"):
        server.used_bytes("redis://127.0.0.1:1/0")


def test_a_run_s_keys_are_deleted_and_no_others(ground: Ground) -> None:
    if reason := ground.lacking.get("redis"):
        pytest.skip(reason)
    import redis

    client: Any = redis.Redis(port=urlsplit(ground.redis_url).port or 0)
    client.set("somebody-else", "stays")
    with ground.pair("redis", "fulltext", "keys") as pair:
        provider = pair.open()
        provider.get(pair.work).remember("key", "text")
        provider.close()
        assert server.used_bytes(ground.redis_url) > 0
        assert any(key.startswith(pair.redis_prefix.encode()) for key in client.scan_iter())
    assert list(client.scan_iter()) == [b"somebody-else"]
    client.delete("somebody-else")
    client.close()


def test_the_report_is_json_with_everything_that_a_reader_needs() -> None:
    outcomes: Sequence[Outcome] = [Outcome("kv", "fulltext", 100, 2.0, 10, 1, 300)]
    report = json.loads(json.dumps(report_json(outcomes, {"seed": 0}, {"cores": 2})))
    assert report["schema"] == 1
    assert report["kind"] == "long-run"
    assert report["parameters"] == {"seed": 0}
    assert report["machine"] == {"cores": 2}
    assert report["date"]
    (one,) = report["outcomes"]
    assert one["per_second"] == 50.0
    assert one["holds"] is True
    assert Outcome("kv", "fulltext").per_second == 0.0
