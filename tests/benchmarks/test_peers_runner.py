"""The whole command on small sizes: ours and installed bare libraries for real, fake peers for the rest."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import runner
from benchmarks.peers.catalog import CONTENDERS, Contender
from benchmarks.peers.chinese import PROBES
from benchmarks.peers.runner import main, parse, run, table
from benchmarks.peers.vectors import Vectors, open_static
from benchmarks.peers.venvs import UnavailableError, command, find_python, reason

SMALL = ["--sizes", "30,60", "--queries", "6", "--adds", "3", "--writes", "4", "--crash-adds", "4"]
PACKAGES = {"numpy": "numpy", "whoosh": "whoosh", "bm25s": "bm25s", "rank-bm25": "rank_bm25"}


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    return open_static()


def here(contender: Contender) -> list[str]:
    """Start a peer in this interpreter: nothing is installed by a test."""
    return [sys.executable, "-P", "-m", contender.module]


def report_of(
    tmp_path: Path, vectors: Vectors, *contenders: Contender, arguments: list[str] | None = None
) -> dict[str, Any]:
    return run(contenders, parse([*SMALL, *(arguments or [])]), vectors, tmp_path, here)


def named(name: str) -> Contender:
    return next(contender for contender in CONTENDERS if contender.name == name)


def test_ours_lose_nothing_and_find_every_chinese_query(tmp_path: Path, vectors: Vectors) -> None:
    report = report_of(tmp_path, vectors, named("markdown+fulltext"))
    (found,) = report["peers"]
    assert found["kind"] == "ours"
    assert "memory-talent" in found["versions"]
    for size in ("30", "60"):
        assert found["sizes"][size]["stored"] == int(size)
        assert found["sizes"][size]["found_at_k"] == found["sizes"][size]["found_at_once"] == 1.0
    assert found["crash"]["after_ack"] == {"acknowledged": 4, "lost": 0, "not_found": 0}
    assert found["crash"]["mid_write"] == {"acknowledged": 6, "lost": 0, "not_found": 0}
    assert found["writers"] == {"attempted": 8, "acknowledged": 8, "errors": 0, "lost": 0, "twice": 0}
    assert found["chinese"]["found_at_10"] == len(PROBES)
    assert found["chinese"]["missed"] == []
    assert found["reached_for"] == []
    assert report["machine"]["cores"] >= 1
    assert report["settings"]["dim"] == vectors.dim
    assert str(tmp_path) not in json.dumps(report)


def test_our_hybrid_gets_its_vectors_by_the_plugin_hook_and_reads_chinese(tmp_path: Path, vectors: Vectors) -> None:
    (found,) = report_of(tmp_path, vectors, named("kv+hybrid"), arguments=["--skip", "crash,writers"])["peers"]
    assert found["sizes"]["60"]["found_at_k"] == found["sizes"]["60"]["found_at_once"] == 1.0
    assert found["chinese"]["missed"] == []


@pytest.mark.parametrize("name", list(PACKAGES))
def test_the_bare_libraries_that_are_installed_run(tmp_path: Path, vectors: Vectors, name: str) -> None:
    if find_spec(PACKAGES[name]) is None:
        pytest.skip(f"the package {PACKAGES[name]} is not installed in this environment")
    skip = "" if name == "numpy" else "crash,writers"
    (found,) = report_of(tmp_path, vectors, named(name), arguments=["--skip", skip])["peers"]
    assert "skipped" not in found
    assert found["sizes"]["60"]["found_at_k"] > 0.5
    assert found["chinese"]["queries"] == len(PROBES)
    if name == "numpy":  # lives in memory only
        assert found["crash"]["after_ack"]["lost"] == found["crash"]["after_ack"]["acknowledged"] == 4
        assert found["writers"]["lost"] == 8


def test_who_cannot_run_is_skipped_with_the_reason_and_the_others_go_on(
    tmp_path: Path, vectors: Vectors, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = Contender("absent", "Absent", "peer_that_is_not_there", "memory", "words", "numpy.txt")
    refused = Contender("refused", "Refused", "peer_numpy", "memory", "words", "numpy.txt")

    def commander(contender: Contender) -> list[str]:
        if contender is refused:
            raise UnavailableError("needs Python 9.9 or newer, and none was found")
        return here(contender)

    options = parse([*SMALL, "--skip", "speed,crash,writers"])
    report = run([absent, refused, named("numpy")], options, vectors, tmp_path, commander)
    first, second, third = report["peers"]
    assert "No module named" in first["skipped"]
    assert second["skipped"] == "needs Python 9.9 or newer, and none was found"
    assert "skipped" not in third
    assert "sizes" not in third
    assert "crash" not in third
    assert third["chinese"]["queries"] == len(PROBES)
    shown = table(report)
    assert "skipped: needs Python 9.9" in shown
    assert "bare numpy" in shown
    assert "numpy: chinese" in capsys.readouterr().err


def test_a_peer_that_fails_in_one_part_is_measured_in_the_others(
    tmp_path: Path, vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Contender("fake", "Fake", "", "memory", "words", "numpy.txt", {"mode": "raises"})
    monkeypatch.setattr(Contender, "module", "tests.benchmarks.fake_peer")
    (found,) = report_of(tmp_path, vectors, failing)["peers"]
    assert "no room in" in found["sizes"]["30"]["error"]
    assert "no room in" in found["crash"]["error"]
    assert found["writers"]["errors"] == 2
    assert "no room in" in table({"peers": [found]})


def test_the_command_writes_json_and_prints_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "new" / "peers.json"
    assert main([*SMALL, "--peers", "kv+fulltext", "--skip", "crash,writers,chinese", "--json", str(target)]) == 0
    report = json.loads(target.read_text("utf-8"))
    assert report["kind"] == "peers"
    assert report["settings"]["sizes"] == [30, 60]
    assert "ours: kv+fulltext" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [tmp_path / "new"]


def test_an_unknown_peer_and_nobody_to_measure_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--peers", "nobody"]) == 2
    assert "There is no peer 'nobody'" in capsys.readouterr().err

    def unavailable(*_: object) -> list[str]:
        raise UnavailableError("its packages cannot be installed: no network")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "command", unavailable)
    assert main([*SMALL, "--peers", "numpy"]) == 2
    assert "skipped: its packages cannot be installed" in capsys.readouterr().out


# --- environments -------------------------------------------------------------------------------------------------


def test_ours_run_in_this_interpreter(tmp_path: Path) -> None:
    assert command(named("kv+fulltext"), tmp_path, None)[0] == sys.executable
    assert not list(tmp_path.iterdir())


def test_an_interpreter_is_found_or_its_lack_is_told() -> None:
    assert find_python((3, 11)) == sys.executable
    assert find_python((3, 11), "no-such-python") == sys.executable
    with pytest.raises(UnavailableError, match=r"needs Python 9\.9 or newer.*--python"):
        find_python((9, 9))


def test_an_installation_that_fails_is_told_in_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(UnavailableError, match="cannot be installed: No matching distribution found for numpy"):
        command(named("numpy"), tmp_path / "venvs", None)
    assert not (tmp_path / "venvs" / "numpy").exists()


def test_a_reason_is_the_last_error_without_places() -> None:
    said = "WARNING: see /opt/index/simple/x/ now\nERROR: first\nERROR: No network to https://example.org/simple/x\n"
    assert reason(said) == "No network to …"
    assert reason("something odd\n") == "something odd"
    assert reason("") == "no reason was given"
