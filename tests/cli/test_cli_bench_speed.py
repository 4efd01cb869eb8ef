"""`bench speed` and `bench long-run` from the command line."""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_core.cli import bench_speed
from memory_core.evaluation import bench_stores
from memory_core.evaluation.long_run import Fault, Outcome, day
from memory_core.evaluation.speed import Cell, Plan

from .conftest import Cli, one_sentence

QUICK = ("bench", "speed", "--quick", "--stores", "kv", "--searchers", "fulltext", "--sizes", "20,40")


def giving(value: object) -> Callable[..., object]:
    """Return a function that takes anything and gives `value`."""

    def give(*_: object, **__: object) -> object:
        return value

    return give


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing depend on what else the machine does."""
    monkeypatch.setattr(bench_stores, "load_average", giving(0.0))


def test_a_busy_machine_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_stores, "load_average", giving(99.0))
    monkeypatch.setattr(day, "run_pair", giving(Outcome("kv", "fulltext", 60, 1.0)))
    monkeypatch.setattr("memory_core.evaluation.long_run.day.shutil.rmtree", giving(None))
    result = cli("bench", "long-run", "--stores", "kv", "--searchers", "fulltext")
    assert result.code == 0
    assert result.err.startswith("The machine was busy at the start (load 99 on ")
    result = cli("bench", "speed", "--quick", "--stores", "kv", "--searchers", "fulltext", "--sizes", "20")
    assert "busy" in result.err
    assert bench_stores.busy(None, 2) is None
    assert bench_stores.busy(1.0, 2) is None


def test_speed_prints_a_table_and_writes_its_reports(cli: Cli, workspace: Path) -> None:
    result = cli(*QUICK, "--json", "speed.json", "--csv", "speed.csv", "--html", "speed.html")
    assert result.code == 0
    assert result.err == "", "nobody watches"
    lines = [line for line in result.out.splitlines() if line.startswith("kv ")]
    assert [line.split()[2] for line in lines[:2]] == ["20", "40"]
    assert "Criterion: usable while" in result.out
    assert [row["size"] for row in csv.DictReader((workspace / "speed.csv").read_text("utf-8").splitlines())] == [
        "20",
        "40",
    ]
    assert "<svg" in (workspace / "speed.html").read_text("utf-8")
    assert '"kind": "speed"' in (workspace / "speed.json").read_text("utf-8")
    assert sorted(path.name for path in workspace.iterdir()) == ["speed.csv", "speed.html", "speed.json"]


def test_an_interruption_keeps_what_was_measured(cli: Cli, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(ground: object, plan: Plan, told: Callable[[Cell], None]) -> list[Cell]:
        told(Cell("kv", "fulltext", 20, {"search_ms_p50": 1.5}, seconds=1.0))
        raise KeyboardInterrupt

    monkeypatch.setattr("memory_core.evaluation.speed.run_cells", interrupted)
    assert cli(*QUICK, "--json", "speed.json").code != 0
    report = json.loads((workspace / "speed.json").read_text("utf-8"))
    assert [(cell["size"], cell["figures"]) for cell in report["cells"]] == [(20, {"search_ms_p50": 1.5})]


def test_speed_as_json_names_machine_parameters_and_every_cell(cli: Cli) -> None:
    report = cli(
        "--json", "bench", "speed", "--quick", "--stores", "kv", "--sizes", "20", "--searchers", "fulltext"
    ).json
    assert report["schema"] == 1
    assert report["machine"]["cores"] >= 1
    assert report["parameters"]["storers"] == ["kv"]
    assert report["parameters"]["repeats"]["writes"] == 5
    assert [(cell["searcher"], cell["size"]) for cell in report["cells"]] == [("fulltext", 20)]
    assert report["cells"][0]["not_measured"] is None


def test_long_run_succeeds_on_sound_backends(cli: Cli, workspace: Path) -> None:
    sound = ("--stores", "kv", "--searchers", "fulltext", "--operations", "60", "--processes", "2")
    result = cli("bench", "long-run", *sound, "--json", "run.json")
    assert result.code == 0
    assert result.err == ""
    assert result.out.splitlines()[1].split()[:3] == ["kv", "fulltext", "60"]
    assert [path.name for path in workspace.iterdir()] == ["run.json"], "nothing is left"
    assert '"kind": "long-run"' in (workspace / "run.json").read_text("utf-8")


def test_long_run_fails_with_the_first_faults_named_and_keeps_the_files(
    cli: Cli, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = (Fault("lost", "recall: p0-1 is not there\x1b[2J"), Fault("ghost", "search: p0-2 shows w0x1z"))
    bad = Outcome("kv", "fulltext", 60, 1.0, lost=1, ghosts=1, faults=faults)
    monkeypatch.setattr(day, "run_pair", giving(bad))
    result = cli("bench", "long-run", "--stores", "kv", "--searchers", "fulltext")
    assert result.code == 1
    assert "lost: recall: p0-1 is not there" in result.out
    assert "\x1b" not in result.out
    assert "ghost: search: p0-2 shows w0x1z" in result.out
    assert "kept in" in result.err
    assert len(list(workspace.glob(".bench-*"))) == 1
    report = cli("--json", "bench", "long-run", "--stores", "kv", "--searchers", "fulltext").json
    assert report["outcomes"][0]["holds"] is False
    assert report["outcomes"][0]["faults"][0]["kind"] == "lost"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("speed", "--sizes", "10,many"), "many"),
        (("speed", "--sizes", "0"), "at least 1"),
        (("speed", "--sizes", ","), "at least 1"),
        (("speed", "--stores", ","), "at least one name"),
        (("speed", "--stores", "kvv"), "'kv'"),
        (("speed", "--searchers", "fulltex"), "'fulltext'"),
        (("speed", "--embedder", "statik"), "'static'"),
        (("speed", "--data", "nowhere"), "nowhere"),
        (("speed", "--budget", "0"), "0"),
        (("speed", "--stores", "redis", "--redis-url", "redis://127.0.0.1:1/0"), "Redis"),
        (("long-run", "--operations", "2"), "2"),
        (("long-run", "--processes", "0"), "0"),
        (("long-run", "--searchers", "numpi"), "'numpy'"),
        (("long-run", "--folder", "nowhere"), "nowhere"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_sentence(
    cli: Cli, workspace: Path, arguments: tuple[str, ...], word: str
) -> None:
    result = cli("bench", *arguments)
    assert result.code != 0
    assert one_sentence(result.err)
    assert word in result.err
    assert list(workspace.iterdir()) == []


def test_progress_is_said_only_when_somebody_watches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched = bench_speed.Watched(Plan(("kv",), ("fulltext",), (10, 20)))
    watched(Cell("kv", "fulltext", 10, seconds=3.2))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    watched(Cell("kv", "fulltext", 20, not_measured="it crashed", seconds=4.0))
    assert capsys.readouterr().err == "[2/2] kv × fulltext at 20: 4 s, not measured: it crashed\n"


def test_the_outcomes_of_a_long_run_are_said_when_somebody_watches(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(day, "run_pair", giving(Outcome("kv", "fulltext", 60, 1.0)))
    monkeypatch.setattr("memory_core.evaluation.long_run.day.shutil.rmtree", giving(None))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    result = cli("bench", "long-run", "--stores", "kv", "--searchers", "fulltext")
    assert result.code == 0
