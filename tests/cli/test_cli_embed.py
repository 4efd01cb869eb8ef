from pathlib import Path

from .conftest import Cli


def configure(home: Path, searcher: str) -> None:
    folder = home / ".config" / "memory-core"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.toml").write_text(f'searcher = "{searcher}"\nembedder = "static"\n')


def test_status_counts_what_is_embedded_and_what_waits(cli: Cli, home: Path) -> None:
    configure(home, "numpy")
    for n in range(3):
        assert cli("remember", f"k{n}", f"text {n % 2}").code == 0
    before = cli("embed", "status", "--json").json
    assert [(found["texts"], found["embedded"], found["waiting"]) for found in before] == [(2, 0, 2)]
    assert "2 wait for the next search" in cli("embed", "status").out
    assert cli("search", "text").code == 0
    after = cli("embed", "status", "--json").json
    assert [(found["texts"], found["embedded"], found["waiting"]) for found in after] == [(2, 2, 0)]
    assert after[0]["cache"]["models"][0]["vectors"] == 2
    shown = cli("embed", "status").out
    assert "wordllama" in shown
    assert "2 of 2" in shown
    assert "wait" not in shown


def test_two_arms_of_one_model_are_one_line(cli: Cli, home: Path) -> None:
    configure(home, "hybrid")
    cli("remember", "k", "text")
    cli("search", "text")
    assert len(cli("embed", "status", "--json").json) == 1


def test_a_searcher_without_a_model_says_so(cli: Cli) -> None:
    assert "no embedding model" in cli("embed", "status").out
    assert cli("embed", "status", "--json").json == []
