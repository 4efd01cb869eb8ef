"""The protocol with real child processes: what a peer answers, raises, prints, and how its death is told."""

import sys
from array import array
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.client import PeerDiedError, PeerError, PeerProcess
from benchmarks.peers.serving import Item

FAKE = [sys.executable, "-P", "-m", "tests.benchmarks.fake_peer"]


def item(key: str, text: str = "") -> Item:
    return Item(key, text or f"text of {key} 框架", array("f", [0.6, 0.8]), 0.25)


def opened(tmp_path: Path, **options: Any) -> PeerProcess:
    process = PeerProcess(FAKE, tmp_path / "home", timeout_s=60)
    process.open(tmp_path / "data", 2, options)
    return process


def test_an_item_survives_the_wire() -> None:
    assert Item.read(item("k").fields()) == item("k")


def test_a_peer_answers_every_operation(tmp_path: Path) -> None:
    with opened(tmp_path) as process:
        assert process.versions.keys() == {"pytest"}
        assert process.python == sys.version.split()[0]
        assert len(process.add([item("a"), item("b")])) == 2
        assert process.fill([item("c", "only this has zebra")]) >= 0
        process.learn([item("d")])
        assert process.flush() >= 0
        seconds, found = process.search([item("", "zebra")], 1)
        assert len(seconds) == 1
        assert found == [["c"]]
        assert process.keys() == ["a", "b", "c"]
        assert process.close() == []


def test_what_a_package_prints_does_not_disturb_the_answers(tmp_path: Path) -> None:
    with opened(tmp_path, mode="prints") as process:
        process.add([item("a")])
        assert process.keys() == ["a"]


def test_what_a_peer_raises_reaches_the_runner_and_it_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path, mode="raises") as process:
        process.add([item("k1")])
        with pytest.raises(PeerError, match="ValueError: no room in"):
            process.add([item("k3")])
        with pytest.raises(PeerError, match="no operation 'dance'"):
            process.ask("dance")
        assert process.keys() == ["k1"]


def test_a_death_is_told_with_the_last_words(tmp_path: Path) -> None:
    with opened(tmp_path, mode="dies") as process:
        with pytest.raises(PeerDiedError, match="ended with code 7: out of memory"):
            process.add([item("k3")])
        with pytest.raises(PeerDiedError, match="ended"):
            process.keys()


def test_a_peer_that_does_not_start_is_told_with_its_reason(tmp_path: Path) -> None:
    with (
        PeerProcess([*FAKE, "does-not-start"], tmp_path / "home") as process,
        pytest.raises(PeerDiedError, match="the package is broken"),
    ):
        process.open(tmp_path / "data", 2, {})


def test_a_peer_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    with PeerProcess(FAKE, tmp_path / "home", timeout_s=60) as process:
        process.open(tmp_path / "data", 2, {"mode": "slow"})
        process._timeout_s = 0.5
        with pytest.raises(PeerDiedError, match="no answer to 'add' within"):
            process.add([item("a")])


def test_nothing_but_this_machine_is_reached(tmp_path: Path) -> None:
    with opened(tmp_path, mode="network") as process:
        with pytest.raises(PeerError, match=r"No network in a benchmark: 192\.0\.2\.1"):
            process.add([item("a")])
        assert process.close() == ["192.0.2.1"]
