"""What is counted and timed, on fake peers that keep, lose or refuse in known ways."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.catalog import Contender
from benchmarks.peers.chinese import PROBES
from benchmarks.peers.client import PeerError, PeerProcess
from benchmarks.peers.safety import Starter, after_a_crash, chinese, two_writers
from benchmarks.peers.serving import Item
from benchmarks.peers.speed import Running, Work, measure_size, quantiles
from benchmarks.peers.texts import queries, texts
from benchmarks.peers.vectors import Vectors
from memory_core.testing.fake_embedder import FakeEmbedder

FAKE = [sys.executable, "-P", "-m", "tests.benchmarks.fake_peer"]
VECTORS = Vectors(FakeEmbedder())


def some(count: int, prefix: str = "memory", seed: int = 7) -> list[Item]:
    return VECTORS.items((text.key, text.text) for text in texts(count, seed, prefix))


def starter(tmp_path: Path, mode: str = "") -> Starter:
    return Starter(partial(PeerProcess, FAKE, timeout_s=60), tmp_path, VECTORS.dim, {"mode": mode})


@pytest.mark.parametrize(("mode", "lost"), [("", 0), ("memory", 6), ("forgets", 6)])
def test_after_a_kill_what_was_acknowledged_is_counted(tmp_path: Path, mode: str, lost: int) -> None:
    found = after_a_crash(starter(tmp_path, mode), some(6), "crash")
    assert found == {"acknowledged": 6, "lost": lost, "not_found": 0}


def test_a_kill_in_the_next_add_leaves_what_was_acknowledged(tmp_path: Path) -> None:
    *items, more = some(6)
    found = after_a_crash(starter(tmp_path), items, "crash", in_flight=more)
    assert found == {"acknowledged": 5, "lost": 0, "not_found": 0}


def test_a_place_that_does_not_open_again_has_lost_everything(tmp_path: Path) -> None:
    found = after_a_crash(starter(tmp_path, "one at a time"), some(4), "crash")
    assert found["acknowledged"] == found["lost"] == 4
    assert "held by another instance" in found["error"]
    assert str(tmp_path) not in found["error"]


def test_a_peer_that_cannot_add_says_so(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="no room"):
        after_a_crash(starter(tmp_path, "raises"), some(6), "crash")


def test_two_writers_that_get_on(tmp_path: Path) -> None:
    found = two_writers(starter(tmp_path), some(8, "one", 1), some(8, "two", 2), 60)
    assert found == {"attempted": 16, "acknowledged": 16, "errors": 0, "lost": 0, "twice": 0}


def test_two_writers_of_which_one_is_refused(tmp_path: Path) -> None:
    found = two_writers(starter(tmp_path, "one at a time"), some(8, "one", 1), some(8, "two", 2), 60)
    assert (found["acknowledged"], found["errors"], found["lost"]) == (8, 8, 0)
    assert found["first_error"].startswith("could not open: RuntimeError")


def test_two_writers_whose_adds_fail_or_vanish(tmp_path: Path) -> None:
    failing = two_writers(starter(tmp_path / "a", "raises"), some(8, "one", 1), some(8, "two", 2), 60)
    assert (failing["acknowledged"], failing["errors"], failing["lost"]) == (14, 2, 0)
    vanishing = two_writers(starter(tmp_path / "b", "memory"), some(8, "one", 1), some(8, "two", 2), 60)
    assert (vanishing["acknowledged"], vanishing["errors"], vanishing["lost"]) == (16, 0, 16)


def test_two_writers_stop_when_their_time_is_over(tmp_path: Path) -> None:
    assert two_writers(starter(tmp_path), some(8, "one", 1), some(8, "two", 2), -1)["attempted"] == 0


def test_chinese_found_and_missed(tmp_path: Path) -> None:
    found = chinese(starter(tmp_path / "a"), VECTORS)
    assert found["queries"] == len(PROBES) >= 20
    wide = [probe.query for probe in PROBES if probe.query not in probe.text]
    assert set(found["missed"]) <= set(wide)  # it compares letter by letter: full-width letters are others
    assert found["found_at_10"] == len(PROBES) - len(found["missed"])
    blind = chinese(starter(tmp_path / "b", "reads no Chinese"), VECTORS)
    assert {probe.query for probe in PROBES if not probe.query.isascii()} <= set(blind["missed"])


def measured(tmp_path: Path, mode: str, budget_s: float = 60) -> dict[str, Any]:
    contender = Contender("fake", "fake", "", "bare", "words", batch=10)
    added, asked = some(4, "added", 9), VECTORS.items((q.key, q.text) for q in queries(4, 4, 9, "added"))
    by_key = {query.key: query for query in asked}
    questions = VECTORS.items((q.key, q.text) for q in queries(8, 30))
    work = Work(30, some(30), questions[:1], questions, added, [by_key[item.key] for item in added])
    said: list[str] = []
    with starter(tmp_path, mode).open("speed") as process:
        one = Running(contender, process)
        measure_size([one], work, 10, budget_s, said.append)
    assert said[0] == "fake: filling to 30"
    return one.sizes["30"]


def test_a_size_is_filled_searched_and_added_to(tmp_path: Path) -> None:
    found = measured(tmp_path, "")
    assert found["stored"] == found["wanted"] == 30
    assert found["search_ms"]["n"] == 8
    assert found["add_ms"]["n"] == found["add_and_search_ms"]["n"] == 4
    assert 0 < found["add_ms"]["p50"] <= found["add_and_search_ms"]["p50"]
    assert found["found_at_once"] == 1.0
    assert found["found_at_k"] > 0.5


def test_what_does_not_fit_into_the_budget_is_reported(tmp_path: Path) -> None:
    found = measured(tmp_path, "", budget_s=-1)
    assert found["stored"] == 0
    assert found["wanted"] == 30


def test_a_peer_that_breaks_is_left_out_with_its_words(tmp_path: Path) -> None:
    assert "out of memory" in measured(tmp_path, "dies")["error"]


def test_quantiles() -> None:
    assert quantiles([value / 1_000 for value in range(1, 101)]) == {"p50": 50.5, "p95": 96.0, "n": 100}
    assert quantiles([0.001]) == {"p50": 1.0, "p95": 1.0, "n": 1}
