"""The page from small JSON: its sentences follow the figures, missing files are said, and `--check` sees what differs."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import ROOT, main
from benchmarks.reporting.bounds import verdicts
from benchmarks.reporting.page import written
from benchmarks.reporting.peers import Peers, lost, summary, wins
from benchmarks.reporting.results import Results, load
from benchmarks.reporting.writing import cell, number, size_of, table, times

MACHINE = {
    "processor": "A processor",
    "cores": 2,
    "memory_gib": 8.0,
    "system": "A system",
    "python": "CPython 3.11.7",
    "sqlite": "3.40.1",
    "packages": {"numpy": "2.4.6"},
    "date": "2026-01-02",
}


def at(search: float, add: float = 1.0, stored: int = 10_000, found: float = 1.0) -> dict[str, Any]:
    def both(value: float) -> dict[str, float]:
        return {"p50": value, "p95": value * 2, "n": 9}

    return {
        "wanted": 10_000,
        "stored": stored,
        "fill_s": 1.5,
        "search_ms": both(search),
        "add_ms": both(add),
        "add_and_search_ms": both(add + search),
        "found_at_k": found,
        "found_at_once": 1.0,
    }


def entry(name: str, kind: str, figures: dict[str, Any], *, lost: int = 0, chinese: int = 28) -> dict[str, Any]:
    whole = {"acknowledged": 50, "lost": lost, "not_found": 0}
    return {
        "name": name,
        "title": f"ours: {name}" if kind == "ours" else name.title(),
        "kind": kind,
        "finds_by": "words",
        "notes": ["a note | with a bar"],
        "versions": {"numpy": "2.4.6"},
        "python": "3.11.7",
        "sizes": {"10000": figures},
        "crash": {"after_ack": whole, "mid_write": whole},
        "writers": {"attempted": 50, "acknowledged": 50, "errors": 0, "lost": lost, "twice": 0},
        "chinese": {
            "queries": 28,
            "stored": 268,
            "found_at_5": chinese - 1,
            "found_at_10": chinese,
            "missed": ["框架"] * (28 - chinese),
        },
    }


def peers(*more: dict[str, Any], fulltext: float = 2.0) -> dict[str, Any]:
    return {
        "kind": "peers",
        "complete": True,
        "machine": MACHINE,
        "settings": {"sizes": [10_000], "top_k": 10, "embedder": "small/model", "dim": 256},
        "peers": [
            entry("markdown+fulltext", "ours", at(fulltext)),
            entry("kv+fulltext", "ours", at(fulltext)),
            entry("kv+lancedb", "ours", at(8.0), chinese=25),
            entry("mem0-qdrant", "memory", at(200.0), chinese=20),
            entry("langgraph", "memory", at(300.0), lost=50, chinese=19),
            *more,
        ],
    }


def found(**files: Any) -> Results:
    return Results(files)


def broken(results: Results) -> list[str]:
    return [f"{v.what}: {v.figure}" for _, some in verdicts(results) for v in some if v.holds is False]


# --- promises -------------------------------------------------------------------------------------------------------


def test_promises_that_hold_and_what_vectors_alone_miss_is_none_of_them() -> None:
    checked = {p.text: found for p, found in verdicts(found(peers=peers()))}
    faster = next(some for text, some in checked.items() if "20×" in text)
    assert [v.figure for v in faster] == ["100× (2.00 ms, 200 ms)", "150× (2.00 ms, 300 ms)"] * 2
    assert broken(found(peers=peers())) == []
    assert [some for text, some in checked.items() if "long run" in text] == [[]]


def test_a_ratio_below_its_bound_is_told() -> None:
    slow = broken(found(peers=peers(fulltext=12.0)))
    assert "markdown+fulltext against mem0-qdrant: 17× (12.0 ms, 200 ms)" in slow
    assert not any("langgraph" in sentence for sentence in slow)


def test_the_latest_run_that_measured_both_decides_and_is_named() -> None:
    slow, fast = peers(fulltext=50.0), peers(fulltext=2.0)
    fast["machine"] = {**MACHINE, "date": "2026-01-03"}
    assert broken(found(peers=slow))
    results = found(peers=slow, peers_again=fast)
    assert broken(results) == []
    text = written(results, "images").text()
    assert "A run of its own, with fewer contenders (`peers_again.json`):" in text
    fast["machine"] = {**MACHINE, "date": "2026-01-01"}  # now it is the earlier one
    assert broken(found(peers=slow, peers_again=fast))


def test_a_peer_that_did_not_reach_the_size_gives_the_least_that_a_factor_can_be() -> None:
    report = peers()
    report["peers"][3]["sizes"]["10000"] = at(50.0, stored=4_000)
    some = [v for _, found_ in verdicts(found(peers=report)) for v in found_ if "mem0" in v.what]
    assert [(v.holds, v.figure) for v in some] == [
        (True, "25× (2.00 ms, 50.0 ms), it with 4,000 only"),
        (True, "25× (2.00 ms, 50.0 ms), it with 4,000 only"),
        (None, "6.2× (8.00 ms, 50.0 ms), it with 4,000 only"),
    ]
    assert "(only 4,000 stored" in written(found(peers=report), "images").text()


def test_what_we_lose_refuse_or_do_not_find_is_told() -> None:
    report = peers()
    report["peers"][0]["crash"]["mid_write"] = {"acknowledged": 50, "lost": 2, "not_found": 1}
    report["peers"][1]["writers"] |= {"errors": 3}
    report["peers"][1]["chinese"] |= {"found_at_10": 27}
    report["peers"][2]["crash"] = {"error": "it broke"}
    assert broken(found(peers=report)) == [
        "markdown+fulltext, killed in the next add: lost 2, not found 1",
        "kv+fulltext, two writers: errors 3",
        "kv+fulltext: 27 of 28",
    ]
    assert any("it broke" in v.figure for _, some in verdicts(found(peers=report)) for v in some if v.holds is None)


def test_other_files_bring_their_own_bounds() -> None:
    row = {"name": "search", "value": 4.0, "unit": "×", "bound": 3.0, "holds": False, "detail": "slow"}
    high = {"name": "recall", "value": 0.5, "unit": "", "bound": 0.9, "holds": False, "at_least": True}
    free = {"name": "scan", "value": 9.0, "unit": "µs", "bound": None, "holds": True}
    outcome = {"storer": "kv", "searcher": "numpy", "operations": 10, "per_second": 5.0, "checked": 7}
    results = found(
        core={"rows": [row]},
        search=[high],
        stores={"rows": [free]},
        long_run={
            "parameters": {"operations": 10_000, "processes": 4},
            "outcomes": [
                {**outcome, "errors": 0, "lost": 1, "ghosts": 0, "faults": [{"kind": "lost", "what": "a memory"}]},
                {"storer": "redis", "searcher": "numpy", "not_run": "no server"},
            ],
        },
    )
    assert broken(results) == [
        "kv × numpy: errors 0, lost 1, ghosts 0",
        "search: 4.00 × (≤ 3.00)",
        "recall: 0.500 (≥ 0.900)",
    ]
    text = written(results, "images").text()
    assert "| search | 4.00 × (≤ 3.00) | **no** | slow |" in text
    assert "| scan | 9.00 µs |  |" in text
    assert "10,000 operations" in text
    assert "kv × numpy: lost: a memory" in text
    assert "| redis × numpy | not run | no server |" in text


# --- who wins ---------------------------------------------------------------------------------------------------------


def test_a_peer_that_is_faster_than_all_of_ours() -> None:
    bare = entry("numpy", "bare", at(0.5, add=0.02))
    sentences = wins(Peers(peers(bare)))
    start = "**Numpy** answers a search at 10,000 in 0.500 ms: faster than all of ours"
    assert f"{start}, 4.0× the speed of the fastest (kv+fulltext, 2.00 ms)." in sentences
    assert any("adds at 10,000 in 0.0200 ms: faster than all of ours" in sentence for sentence in sentences)
    assert not any("Mem0" in sentence or "Langgraph" in sentence for sentence in sentences)


def test_a_peer_that_is_faster_than_some_and_finds_more() -> None:
    between = entry("bm25s", "bare", at(5.0, add=900.0), chinese=26)
    report = peers(between)
    report["peers"][2]["sizes"]["10000"]["found_at_k"] = 0.8
    sentences = wins(Peers(report))
    assert (
        "**Bm25S** answers a search at 10,000 in 5.00 ms: faster than kv+lancedb (8.00 ms); "
        "not faster than kv+fulltext (2.00 ms), markdown+fulltext (2.00 ms)."
    ) in sentences
    assert "**Bm25S** finds what is asked for at 10,000 in 100% of questions: more than kv+lancedb (80%)." in sentences
    assert "**Bm25S** finds 26 of the Chinese queries: more than kv+lancedb (25)." in sentences


def test_nobody_wins_by_what_a_run_differs_from_the_next() -> None:
    assert wins(Peers(peers(entry("even", "bare", at(8.1, add=0.99), chinese=19)))) == []
    text = written(found(peers=peers(entry("slow", "bare", at(9.0, add=9.0), chinese=20))), "images").text()
    assert "Nowhere in what was measured." in text


def test_the_summary_says_how_the_default_stands() -> None:
    first, second, lose, *_ = summary(Peers(peers(entry("numpy", "bare", at(0.5)))))
    assert first == (
        "At 10,000 stored, markdown+fulltext (the default) searches in 2.00 ms; its speed is 150× that of Langgraph, "
        "100× that of Mem0-Qdrant."
    )
    assert second == "Faster than the default at 10,000: Numpy (4.0×)."
    assert lose == (
        "After a kill after the last add, acknowledged entries are missing in Langgraph (50 of 50): none of ours."
    )
    ours = peers()
    ours["peers"][0]["crash"]["after_ack"]["lost"] = 1
    assert any("1 of them ours" in sentence for sentence in summary(Peers(ours)))
    assert "by the others: ours: kv+lancedb 25, Mem0-Qdrant 20, Langgraph 19." in summary(Peers(peers()))[-1]
    assert summary(Peers({})) == []


# --- the page ---------------------------------------------------------------------------------------------------------


def test_missing_files_are_said_and_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "core.json").write_text("{not json", "utf-8")
    results = load(tmp_path)
    text = written(results, "images").text()
    assert results.unreadable == ("core.json cannot be read: JSONDecodeError",)
    for name in ("peers", "quality", "speed", "long_run", "core", "engine"):
        assert f"`{name}.json`" in text
    assert "Nothing was measured." in text
    assert "- core.json cannot be read" in text
    assert load(tmp_path / "absent").files == {}


def test_files_of_an_unexpected_shape_are_as_good_as_missing() -> None:
    text = written(found(peers=[1], speed={"cells": []}, core=3, quality={"results": []}, engine=[]), "images").text()
    assert "there is no `peers.json`" in text
    assert "there is no `speed.json`" in text


def quality_file() -> dict[str, Any]:
    def one(searcher: str, mean: float) -> dict[str, Any]:
        scores = {"nDCG@10": {"mean": mean, "low": mean - 0.02, "high": mean + 0.02}}
        base = {"dataset": "scifact", "searcher": searcher, "documents": 5_183, "questions": 300, "query_ms": 1.25}
        return {**base, "scores": {**scores, "R@5": {"mean": 0.7, "low": 0.6, "high": 0.8}}}

    pair = {"dataset": "scifact", "measure": "nDCG@10", "one": "hybrid", "p": 0.4}
    return {
        "settings": {"embedder": "static"},
        "machine": MACHINE,
        "method": "How it was done.",
        "notes": ["Left out: a thing"],
        "results": [one("fulltext", 0.6), one("hybrid", 0.71), one("numpy", 0.4)],
        "comparisons": [{**pair, "other": "fulltext", "p_holm": 0.3}, {**pair, "other": "numpy", "p_holm": 0.001}],
    }


def test_quality_shows_intervals_and_what_may_be_chance() -> None:
    results = found(**{"quality-static": quality_file()})
    text = written(results, "images").text()
    assert "| scifact | 5,183 | 300 | hybrid | 0.710 [0.690, 0.730] | 0.700 | 1.25 |" in text
    assert "On scifact, hybrid is best (0.710); the difference to fulltext may be chance." in text
    assert "![nDCG@10 with static](images/quality-static.svg)" in text
    checked = {promise.text: some for promise, some in verdicts(results)}
    assert [v.figure for text, some in checked.items() if "takes at most" in text for v in some] == ["1.12 s"]
    assert broken(results) == ["fulltext on scifact (static): 0.600, at least 0.685"]


def speed_file() -> dict[str, Any]:
    def one(size: int, search: float) -> dict[str, Any]:
        figures = {"search_ms_p50": search, "write_ms_p50": 1.0, "index_bytes": 2_500_000.0}
        return {"storer": "kv", "searcher": "fulltext", "size": size, "figures": figures, "not_measured": None}

    failed: dict[str, Any] = {
        "storer": "kv",
        "searcher": "lancedb",
        "size": 1_000,
        "figures": {},
        "not_measured": "over its budget",
    }
    return {
        "kind": "speed",
        "date": "2026-01-02T03:04:05+00:00",
        "machine": MACHINE,
        "parameters": {"note": "Measured on a busy machine."},
        "cells": [one(1_000, 0.5), one(10_000, 2.0), failed],
        "exponents": [{"storer": "kv", "searcher": "fulltext", "search_ms_p50": 0.6}],
        "criterion": "usable while it is quick",
        "limits": [{"storer": "kv", "searcher": "fulltext", "sentence": "usable up to 10,000"}],
    }


def test_speed_shows_tables_growth_and_limits() -> None:
    page = written(found(speed=speed_file()), "images")
    text = page.text()
    assert "| fulltext | 10,000 | 1.00 | – | 2.00 |" in text
    assert "2.5 MB" in text
    assert "lancedb at 1,000: not measured: over its budget" in text
    assert "**Measured on a busy machine.**" in text
    assert "kv × fulltext: usable up to 10,000." in text
    assert "| kv × fulltext | 0.60 |" in text
    assert {"speed-kv-search-ms-p50.svg", "speed-kv-write-ms-p50.svg"} == page.charts.keys()


def test_the_smaller_benchmarks_are_shown() -> None:
    text = written(
        found(
            engine={"overhead": {"added_p50_ms": 3.21}},
            ledger={"load": "0.1", "figures": {"search p50": {"wall_ms": 1.0, "own_ms": 0.9}}},
            token_error=[{"kind": "prose", "texts": 10, "total": 0.01, "p5": -0.05, "p50": 0.0, "p95": 0.06}],
        ),
        "images",
    ).text()
    assert "| overhead | added_p50_ms | 3.21 |" in text
    assert "| search p50 | 1.00 | 0.900 | 3.00 |" in text
    assert "| prose | 10 | +1.0% | -5.0% | +0.0% | +6.0% |" in text


def test_a_skipped_peer_and_a_failed_one_are_shown_with_their_words() -> None:
    report = peers(
        {"name": "gone", "title": "Gone", "kind": "memory", "finds_by": "words", "skipped": "no wheel | here"}
    )
    report["peers"][3]["sizes"]["10000"] = {"error": "ValueError: too much"}
    report["complete"] = False
    text = written(found(peers=report), "images").text()
    assert "skipped: no wheel \\| here" in text
    assert "ValueError: too much" in text
    assert "The run was stopped before its end" in text


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "peers.json").write_text(json.dumps(peers()), "utf-8")
    (folder / "quality.json").write_text(json.dumps(quality_file()), "utf-8")
    return ["--results", str(folder), "--write", str(tmp_path / "docs" / "benchmarks.md")]


def test_written_pages_pass_the_check_and_anything_else_does_not(
    tmp_path: Path, place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    page, pictures = tmp_path / "docs" / "benchmarks.md", tmp_path / "docs" / "images" / "benchmarks"
    assert main([*place, "--check"]) == 1
    assert main(place) == 0
    assert main([*place, "--check"]) == 0
    for picture in pictures.glob("*.svg"):
        assert f"(images/benchmarks/{picture.name})" in page.read_text("utf-8")
        assert "<svg" in picture.read_text("utf-8").splitlines()[1]
    capsys.readouterr()

    text = page.read_text("utf-8")
    page.write_text(text.replace("200", "201"), "utf-8")
    (pictures / "stray.svg").write_text("<svg/>", "utf-8")
    picture = pictures / "quality.svg"
    picture.write_text(picture.read_text("utf-8").replace("figures ", "figures 0"), "utf-8")
    assert main([*place, "--check"]) == 1
    said = capsys.readouterr().err
    assert "benchmarks.md is not what the JSON gives." in said
    assert "quality.svg does not show the figures of the JSON." in said
    assert "stray.svg belongs to no page." in said
    assert main(place) == 0
    assert page.read_text("utf-8") == text
    assert not (pictures / "stray.svg").exists()
    assert main([*place, "--check"]) == 0


def test_a_picture_with_the_same_figures_passes_whatever_drew_it(tmp_path: Path, place: list[str]) -> None:
    assert main(place) == 0
    picture = tmp_path / "docs" / "images" / "benchmarks" / "quality.svg"
    first, _, _ = picture.read_text("utf-8").partition("\n")
    picture.write_text(f"{first}\n<svg>drawn by another release</svg>\n", "utf-8")
    assert main([*place, "--check"]) == 0


def test_the_committed_page_is_what_the_committed_json_gives(capsys: pytest.CaptureFixture[str]) -> None:
    assert (ROOT / "docs" / "benchmarks.md").is_file()
    assert main(["--check"]) == 0, capsys.readouterr().err


# --- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0, "0"),
        (0.00421, "0.00421"),
        (0.05, "0.0500"),
        (3.14159, "3.14"),
        (21.46, "21.5"),
        (99.96, "100.0"),
        (214.4, "214"),
        (12_345.6, "12,346"),
        (-0.5, "-0.500"),
    ],
)
def test_numbers_have_three_digits_that_count(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_factors_and_sizes() -> None:
    assert (times(3.14), times(21.4), times(1_234)) == ("3.1×", "21×", "1,234×")
    assert [size_of(value) for value in (None, 12, 1_500, 2.5e6, 3e9)] == ["–", "12 B", "1.5 kB", "2.5 MB", "3.0 GB"]


def test_a_cell_cannot_leave_its_table() -> None:
    assert cell("a | b\n<script>") == "a \\| b &lt;script>"
    assert table(["x", "y"], [["a|", 1]]) == ["| x | y |", "| --- | ---: |", "| a\\| | 1 |", ""]
    assert lost({}) == "–"
