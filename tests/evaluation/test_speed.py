"""Measuring speed: that everything is measured, and that what cannot be is said and never invented."""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_core.errors import ConfigError, UnknownBackendError
from memory_core.evaluation.bench_pair import BenchPair
from memory_core.evaluation.bench_stores import GIVEN_SERVER, OWN_SERVER, Ground, prepared
from memory_core.evaluation.datasets import load_dataset
from memory_core.evaluation.speed import Cell, Plan, cells, csv_text, html_report, report_json, run_cells, start, table
from memory_core.evaluation.speed.child import run
from memory_core.evaluation.speed.plan import FIGURES, QUICK
from memory_core.evaluation.speed.sources import open_texts

NAMES = {figure.name for figure in FIGURES}
FEW = {"search_ms_p99"}
"""Not measured with fewer than a hundred searches."""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("speed")
    with prepared(folder, ["markdown", "kv", "redis"], ["fulltext"], "static", None) as ground:
        yield ground


def giving(value: object) -> Callable[..., object]:
    """Return a function that takes anything and gives `value`."""

    def give(*_: object, **__: object) -> object:
        return value

    return give


def plan(*storers: str, searchers: tuple[str, ...] = ("fulltext",), **more: Any) -> Plan:
    settings: dict[str, Any] = {"sizes": (30,), "repeats": QUICK, "budget_s": 100.0, **more}
    return Plan(storers, searchers, **settings)


@pytest.mark.parametrize("storer", ["markdown", "kv", "redis"])
def test_every_figure_of_a_cell_is_measured(ground: Ground, storer: str) -> None:
    if reason := ground.lacking.get(storer):
        pytest.skip(reason)
    told: list[Cell] = []
    (cell,) = run_cells(ground, plan(storer), told.append)
    assert told == [cell]
    assert cell.not_measured is None
    assert set(cell.figures) == NAMES - FEW
    positive = {name for name in NAMES - FEW if "index" not in name and "cache" not in name and "grown" not in name}
    files = {"store_files"} if storer == "redis" else set[str]()
    assert not {name for name in positive - files if cell.figures[name] <= 0}
    assert cell.figures["write_ms_p95"] >= cell.figures["write_ms_p50"]
    assert cell.figures["upserts"] == QUICK.upserts
    assert 5 < cell.figures["memory_mb"] < 500
    assert 0.05 < cell.figures["warm_start_s"] < 60
    assert not list(ground.folder.glob(f"{storer}-fulltext-*")), "nothing is left"


def test_a_persistent_index_shows_its_files_and_p99_needs_a_hundred_searches(ground: Ground) -> None:
    repeats = replace(QUICK, searches=100, stage_s=60.0)
    (cell,) = run_cells(ground, plan("kv", searchers=("whoosh",), repeats=repeats))
    assert cell.not_measured is None
    assert set(cell.figures) == NAMES
    assert cell.figures["index_files"] > 0
    assert cell.figures["index_bytes"] > 1_000
    assert cell.figures["search_ms_p99"] >= cell.figures["search_ms_p95"]


SLOW_CHILD = """
import sys, time
print('{"stage": "search"}\\n{"figure": ["search_ms_p50", 1.5]}\\n{"stage": "growth"}', flush=True)
time.sleep(600)
"""


def test_a_cell_over_its_budget_is_reported_with_what_it_had_and_the_rest_goes_on(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, too = run_cells(ground, plan("kv", sizes=(400_000, 500_000), budget_s=1.0))
    for cell in (over, too):
        assert cell.not_measured is not None
        assert cell.not_measured.endswith(": the budget was used up")
        assert cell.figures == {}
    (tmp_path / "slow_child.py").write_text(SLOW_CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(cells, "_CHILD", "slow_child")
    figures: dict[str, float] = {}
    with pytest.raises(cells.NotMeasuredError, match=r"^growth: the budget was used up$"):
        cells.run_child({"do": "measure"}, 4.0, tmp_path, figures)
    assert figures == {"search_ms_p50": 1.5}
    lines = table([Cell("kv", "fulltext", 30, figures, "growth: the budget was used up")])
    assert len([line for line in lines if line.startswith("kv")]) == 2, "the figures, and the reason"


def test_a_process_that_crashes_is_reported_and_the_rest_goes_on(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "_CHILD", "memory_core.no_such_module")
    found = run_cells(ground, plan("kv", "markdown"))
    assert len(found) == 2
    for cell in found:
        assert cell.not_measured is not None
        assert "ended with 1" in cell.not_measured
        assert "no_such_module" in cell.not_measured
        assert cell.figures == {}


def test_a_start_that_fails_or_finds_nothing_is_no_figure(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "_START_QUERIES", 0)
    (cell,) = run_cells(ground, plan("kv"))
    assert cell.not_measured is not None
    assert cell.not_measured.startswith("cold start: the process ended with 1")
    assert "after_ms_p50" in cell.figures
    assert "cold_start_s" not in cell.figures

    def nothing_found(_command: list[str], _budget_s: float, output: Path) -> None:
        output.write_text('{"hits": 0}')

    monkeypatch.setattr(cells, "_run", nothing_found)
    pair = BenchPair("kv", "fulltext", str(ground.folder))
    with pytest.raises(cells.NotMeasuredError, match="no query found anything"):
        cells.timed_start({}, 1e12, pair, "warm start")


def spec_of(pair: BenchPair, do: str, size: int = 30, **more: Any) -> dict[str, Any]:
    repeats = {name: getattr(QUICK, name) for name in QUICK.__slots__}
    return {"do": do, "pair": pair.to_json(), "size": size, "seed": 0, "data": "", "repeats": repeats, **more}


def told_by(spec: dict[str, Any]) -> tuple[int, list[dict[str, Any]]]:
    out = io.StringIO()
    code = run(spec, out)
    return code, [json.loads(line) for line in out.getvalue().splitlines()]


def test_what_a_child_tells(tmp_path: Path) -> None:
    pair = BenchPair("kv", "fulltext", str(tmp_path / "pair"))
    code, lines = told_by(spec_of(pair, "fill"))
    assert code == 0
    assert lines[0] == {"stage": "filling"}
    assert lines[1]["figure"][0] == "fill_s"
    code, lines = told_by(spec_of(pair, "measure"))
    assert code == 0
    stages = [line["stage"] for line in lines if "stage" in line]
    assert stages == ["index", "write", "visible", "search", "hot", "injection", "growth"]
    provider = pair.open()
    stored = sum(1 for _ in provider.get(pair.work).storer.scan())
    provider.close()
    assert stored == 30 + QUICK.writes + QUICK.visible


def test_a_child_says_why_it_failed(tmp_path: Path) -> None:
    pair = BenchPair("kv", "no-such-searcher", str(tmp_path / "pair"))
    code, lines = told_by(spec_of(pair, "fill"))
    assert code == 1
    assert "no-such-searcher" in lines[-1]["failed"]
    assert "\n" not in lines[-1]["failed"]


def test_what_is_not_found_after_a_write_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_core.evaluation.speed import measure as measuring
    from memory_searcher_fulltext.searcher import FulltextSearcher

    pair = BenchPair("kv", "fulltext", str(tmp_path / "pair"))
    assert told_by(spec_of(pair, "fill"))[0] == 0
    monkeypatch.setattr(measuring, "_VISIBLE_S", 0.05)
    monkeypatch.setattr(FulltextSearcher, "search", giving([]))
    code, lines = told_by(spec_of(pair, "measure"))
    assert code == 1
    assert lines[-1]["failed"] == "a written memory was not found within 0.05 s"


def test_a_start_counts_from_the_bare_interpreter(tmp_path: Path) -> None:
    pair = BenchPair("kv", "fulltext", str(tmp_path / "pair"))
    assert told_by(spec_of(pair, "fill"))[0] == 0
    queries = [open_texts(0, "").query(number, 30) for number in range(5)]
    spec = {"work": str(pair.work), "config": str(pair.config_file), "overrides": pair.overrides(), "queries": queries}
    result = start.start(spec)
    assert result["hits"] > 0
    assert result["start_s"] > 0
    assert start.resident_bytes() > 10_000_000


def test_memory_is_told_where_the_system_has_no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: Path, _encoding: str) -> str:
        raise OSError("no such file")

    now = start.resident_bytes()
    monkeypatch.setattr(Path, "read_text", refuse)
    assert start.resident_bytes() >= now // 2
    linux = start.resident_bytes()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert start.resident_bytes() == linux // 1024, "there it is in bytes already"


def test_redis_is_given_started_or_lacking_with_a_reason(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ground.lacking:
        assert ground.redis_server == OWN_SERVER
        with prepared(tmp_path / "given", ["redis"], ["fulltext"], "static", ground.redis_url) as given:
            assert given.redis_server == GIVEN_SERVER
            assert given.redis_url == ground.redis_url
    monkeypatch.setattr("memory_core.evaluation.redis_server.shutil.which", giving(None))
    with prepared(tmp_path / "none", ["kv", "redis"], ["fulltext"], "static", None) as without:
        found = run_cells(without, plan("redis"))
    assert found[0].not_measured is not None
    assert "redis-server is not installed" in found[0].not_measured


def test_unknown_names_are_refused_before_anything_is_done(tmp_path: Path) -> None:
    for names in (("kw", "fulltext", "static"), ("kv", "fulltex", "static"), ("kv", "fulltext", "statik")):
        with pytest.raises(UnknownBackendError), prepared(tmp_path, [names[0]], [names[1]], names[2], None):
            pass
    assert list(tmp_path.iterdir()) == []


def labelled_set(folder: Path, count: int) -> Path:
    import gzip

    folder.mkdir()
    with gzip.open(folder / "corpus.jsonl.gz", "wt", encoding="utf-8") as file:
        for number in range(count):
            file.write(json.dumps({"id": f"d{number}", "text": f"豆浆 and noodles number {number}"}) + "\n")
    with gzip.open(folder / "queries.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps({"id": "q1", "text": "noodles number 7"}) + "\n")
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td7\t1\n")
    return folder


def test_texts_may_come_from_a_labelled_set_and_none_is_used_twice(ground: Ground, tmp_path: Path) -> None:
    data = str(labelled_set(tmp_path / "set", 40))
    assert len(load_dataset(Path(data)).documents) == 40
    enough, too_few = run_cells(ground, plan("kv", data=data, sizes=(40, 41)))
    assert enough.not_measured is None
    assert too_few.not_measured == "start: the set set has 40 texts, fewer than 41"
    texts = open_texts(0, data)
    assert texts.text(3) == "豆浆 and noodles number 3"
    assert texts.query(5, 40) == "noodles number 7"
    with pytest.raises(ConfigError):
        open_texts(0, str(tmp_path))


def test_the_reports_agree_and_hide_nothing() -> None:
    good = Cell("kv", "fulltext", 1_000, {"search_ms_p50": 1.0, "search_ms_p95": 2.0, "write_ms_p95": 3.0})
    larger = Cell("kv", "fulltext", 10_000, {"search_ms_p50": 10.0, "search_ms_p95": 200.0, "write_ms_p95": 3.0})
    failed = Cell("kv", "<b>odd</b>", 1_000, {}, 'it <crashed>, and said "no"')
    found = [good, larger, failed]
    report = report_json(found, {"seed": 0, "sizes": (1_000, 10_000)}, {"cores": 2, "packages": {"numpy": "2"}})
    again = json.loads(json.dumps(report))
    assert again["schema"] == 1
    assert again["kind"] == "speed"
    assert again["cells"][2]["not_measured"] == failed.not_measured
    assert again["exponents"][0]["search_ms_p50"] == 1.0
    assert again["limits"][0]["measured"] == 10_000
    assert set(again["figures"]) == NAMES
    rows = list(csv.DictReader(io.StringIO(csv_text(found))))
    assert [row["search_ms_p50"] for row in rows] == ["1.0", "10.0", ""]
    assert rows[2]["not_measured"] == failed.not_measured
    page = html_report(report, found)
    assert "<svg" in page
    assert "<b>odd" not in page
    assert "&lt;crashed&gt;" in page
    assert "<script" not in page
    lines = "\n".join(table(found))
    assert "not measured: it <crashed>" in lines
    assert "not usable from 10,000 on: search_ms_p95 is 200 ms there" in lines
    assert "search_ms_p50 1.00" in lines
