import csv
import json
import sys
from pathlib import Path

import pytest

from memory_core.cli import app, progress
from memory_core.cli.bench import COMMANDS
from tests.cli.conftest import Cli, one_sentence
from tests.evaluation.sets import write_set


@pytest.fixture
def small(workspace: Path) -> Path:
    return write_set(workspace / "small")


def bench(cli: Cli, *args: str) -> str:
    result = cli("bench", "quality", *args)
    assert result.code == 0, result.err
    return result.out


def remember(cli: Cli) -> None:
    for key, text in (
        ("editor", "Prefers vim for editing Python files"),
        ("drink", "Drinks coffee every morning at seven"),
        ("框架", "用户喜欢使用Solon框架写代码"),
    ):
        assert cli("remember", key, text).code == 0


def test_searchers_are_compared_on_a_set(cli: Cli, small: Path) -> None:
    out = bench(cli, "--data", str(small), "--searchers", "fulltext,whoosh,numpy,hybrid")
    assert "small: 4 documents, 2 questions" in out
    for searcher in ("fulltext", "whoosh", "numpy", "hybrid"):
        assert f"  {searcher} " in out
    assert "nDCG@10 [95 %]" in out
    assert "1.000 [1.000, 1.000]" in out
    assert "fulltext − whoosh" in out
    assert "taste" in out, "the figures by type of question"


def test_by_default_what_is_installed_is_compared(cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "whoosh", None)
    for name in [name for name in sys.modules if name.startswith(("whoosh.", "memory_searcher_whoosh."))]:
        monkeypatch.delitem(sys.modules, name)
    result = cli("bench", "quality", "--data", str(small), "--json", "figures.json")
    assert result.code == 0
    assert "Left out: " in result.err
    assert "memory-talent[whoosh]" in result.err
    data = json.loads(Path("figures.json").read_text("utf-8"))
    assert data["settings"]["searchers"] == ["fulltext", "lancedb", "hybrid"]
    assert any("memory-talent[whoosh]" in note for note in data["notes"])
    named = cli("bench", "quality", "--data", str(small), "--searchers", "fulltext,whoosh")
    assert (named.code, one_sentence(named.err)) == (1, True)
    assert "memory-talent[whoosh]" in named.err


def test_figures_are_written_as_json_csv_and_a_page(cli: Cli, small: Path, workspace: Path) -> None:
    write_set(workspace / "other")
    files = ["--json", "a.json", "--csv", "a.csv", "--html", "a.html"]
    bench(cli, "--data", str(workspace), "--searchers", "fulltext,whoosh", *files)
    data = json.loads(Path("a.json").read_text("utf-8"))
    assert [(row["dataset"], row["searcher"]) for row in data["results"]] == [
        ("other", "fulltext"), ("other", "whoosh"), ("small", "fulltext"), ("small", "whoosh"),
    ]  # fmt: skip
    first = data["results"][0]
    assert (first["documents"], first["questions"], first["store"]) == (4, 2, None)
    assert first["scores"]["nDCG@10"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert {kind: found["questions"] for kind, found in first["kinds"].items()} == {"4": 1, "taste": 1}
    assert data["settings"]["sets"] == ["other", "small"]
    assert data["machine"]["cores"] >= 1
    assert [(pair["dataset"], pair["one"], pair["p_holm"]) for pair in data["comparisons"]] == [
        ("other", "fulltext", 1.0), ("small", "fulltext", 1.0),
    ]  # fmt: skip
    rows = list(csv.DictReader(Path("a.csv").read_text("utf-8").splitlines()))
    assert len(rows) == 4 * (3 * 6 + 2)
    assert {(row["value"], row["low"]) for row in rows if row["measure"] == "nDCG@10"} == {("1.0", "1.0")}
    page = Path("a.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<svg ") == 2 + 2 * 2, "two for all sets, then all measures and types of question of each"
    assert "fulltext − whoosh" in page
    for file in ("a.json", "a.csv", "a.html"):
        assert str(workspace) not in Path(file).read_text("utf-8"), "a report can be passed on"


def test_names_of_a_set_cannot_become_markup_formulas_or_steer_the_terminal(cli: Cli, workspace: Path) -> None:
    nasty = ["=HYPERLINK(1)", "<script>alert(1)</script>", "\x1b[31mred", "中文 猫", "_x", "$x^{2}$"]
    questions = [
        {"id": f"q{n}", "text": "coffee", "meta": {"scope": "a", "type": kind}} for n, kind in enumerate(nasty)
    ]
    write_set(workspace / "s", questions=questions, labels="".join(f"q{n}\ta1\t1\n" for n in range(len(nasty))))
    out = bench(cli, "--data", "s", "--searchers", "fulltext", "--csv", "a.csv", "--html", "a.html")
    assert "\x1b" not in out
    assert "中文 猫" in out
    page = Path("a.html").read_text("utf-8")
    assert "<script" not in page
    assert "中文 猫" in page
    assert "\n's,fulltext" not in Path("a.csv").read_text("utf-8"), "a name that is no formula stays as it is"
    assert ",'=HYPERLINK(1)," in Path("a.csv").read_text("utf-8")


def test_json_may_be_printed_instead(cli: Cli, small: Path) -> None:
    result = cli("--json", "bench", "quality", "--data", str(small), "--searchers", "fulltext")
    assert result.json["results"][0]["searcher"] == "fulltext"


def test_the_same_seed_gives_the_same_figures(cli: Cli, workspace: Path) -> None:
    documents = [{"id": f"d{n}", "text": f"coffee {'cup ' * n}"} for n in range(30)]
    questions = [{"id": f"q{n}", "text": "coffee cup"} for n in range(30)]
    write_set(workspace / "s", documents, questions, "".join(f"q{n}\td{n}\t1\n" for n in range(30)))

    def scores(seed: str) -> object:
        bench(cli, "--data", "s", "--searchers", "fulltext", "--seed", seed, "--json", "a.json")
        return json.loads(Path("a.json").read_text("utf-8"))["results"][0]["scores"]

    assert scores("1") == scores("1")
    assert scores("1") != scores("2")


@pytest.mark.parametrize("store", ["markdown", "kv"])
def test_entries_may_pass_through_a_store(cli: Cli, small: Path, store: str) -> None:
    out = bench(cli, "--data", str(small), "--searchers", "fulltext,hybrid", "--store", store, "--json", "a.json")
    assert "1.000 [1.000, 1.000]" in out
    assert {row["store"] for row in json.loads(Path("a.json").read_text("utf-8"))["results"]} == {store}
    assert "no memories yet" in cli("list", "--all", "--storer", store).out, "the user's own store was not touched"


def test_own_memories_are_measured_with_generated_queries(cli: Cli) -> None:
    remember(cli)
    before = cli("list", "--all", "--json").out
    out = bench(cli, "--own", "--searchers", "fulltext,hybrid")
    assert "own: 3 documents, 3 questions" in out
    assert "The queries were generated" in out
    assert "optimistic" in out
    assert cli("list", "--all", "--json").out == before
    assert "own: 3 documents" in bench(cli, "--own", "--searchers", "fulltext", "--store", "kv")


def test_own_memories_are_measured_with_given_queries(cli: Cli, workspace: Path) -> None:
    remember(cli)
    assert cli("remember", "editor", "Prefers emacs", "--user", "bob").code == 0
    (workspace / "questions.tsv").write_text("which editor?\teditor\n什么框架\t框架\nvim\tdrink\n", "utf-8")
    out = bench(cli, "--own", "--queries", "questions.tsv", "--searchers", "fulltext", "--json", "a.json")
    assert "own: 3 documents, 3 questions" in out
    assert "generated" not in out
    scores = json.loads(Path("a.json").read_text("utf-8"))["results"][0]["scores"]
    assert scores["Success@1"]["mean"] == pytest.approx(2 / 3)
    wrong = cli("bench", "quality", "--own", "--queries", "questions.tsv", "--user", "bob")
    assert (wrong.code, one_sentence(wrong.err)) == (1, True)
    assert "Line 2 of questions.tsv names '框架'" in wrong.err
    elsewhere = cli("bench", "quality", "--own", "--scope", "user")
    assert (elsewhere.code, one_sentence(elsewhere.err)) == (1, True)


@pytest.mark.parametrize(
    ("args", "code", "why"),
    [
        ([], 2, "either --data DIR or --own"),
        (["--own", "--data", "small"], 2, "either --data DIR or --own"),
        (["--own"], 1, "no memories"),
        (["--own", "--scope", "nowhere"], 1, "no scope 'nowhere'"),
        (["--own", "--queries", "absent"], 1, "No such file"),
        (["--own", "--sets", "a"], 2, "--sets needs --data"),
        (["--data", "small", "--queries", "x"], 2, "--queries needs --own"),
        (["--data", "absent"], 1, "no directory absent"),
        (["--data", "empty"], 1, "no labelled set in empty"),
        (["--data", "broken"], 1, "cannot be read as"),
        (["--data", "small", "--sets", "smal"], 1, "Did you mean 'small'"),
        (["--data", "small", "--searchers", "fulltxt"], 1, "Did you mean 'fulltext'"),
        (["--data", "small", "--searchers", " , "], 2, "names nothing"),
        (["--data", "small", "--embedder", "statc"], 1, "Did you mean 'static'"),
        (["--data", "small", "--store", "kw"], 1, "kv"),
        (["--data", "small", "--store", "redis"], 1, "Redis"),
        (["--data", "small", "--questions", "0"], 2, "--questions"),
        (["--data", "small", "--html", "absent/a.html"], 2, "no folder"),
        (["--data", "small", "--json", "small"], 2, "directory"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_sentence(
    cli: Cli, small: Path, workspace: Path, args: list[str], code: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_CORE_STORERS__REDIS__URL", "redis://127.0.0.1:1/0")
    assert small.is_dir()
    (workspace / "empty").mkdir()
    broken = write_set(workspace / "broken" if "broken" in args else workspace / "other")
    (broken / "corpus.jsonl.gz").write_bytes(b"rubbish")
    result = cli("bench", "quality", *args)
    assert (result.code, one_sentence(result.err), result.out) == (code, True, "")
    assert why in result.err


@pytest.mark.parametrize("module", ["ir_measures", "matplotlib"])
def test_without_the_extra_there_is_an_instruction_before_any_work(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    result = cli("bench", "quality", "--data", str(small), "--html", "a.html")
    assert (result.code, one_sentence(result.err)) == (1, True)
    assert "pip install 'memory-talent[bench]'" in result.err


def test_without_an_embedders_packages_there_is_an_instruction(
    cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    result = cli("bench", "quality", "--data", str(small), "--searchers", "numpy", "--embedder", "static")
    assert (result.code, one_sentence(result.err)) == (1, True)
    assert "pip install" in result.err


def test_progress_is_shown_on_a_terminal_only(cli: Cli, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "WAIT_S", 0.0)
    assert cli("bench", "quality", "--data", str(small), "--searchers", "fulltext").err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert "Measuring" in cli("bench", "quality", "--data", str(small), "--searchers", "fulltext").err


def test_benchmarks_are_commands_of_a_group(cli: Cli) -> None:
    assert "quality" in COMMANDS
    assert "bench" in app.COMMANDS
    wrong = cli("bench", "qualty")
    assert (wrong.code, one_sentence(wrong.err)) == (2, True)
    assert "Did you mean 'quality'" in wrong.err
    assert "quality" in cli("bench", "--help").out
