"""remember, recall, search, list, forget, consolidate: what people type and what they get."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_core.cli import app
from tests.cli.conftest import Cli, one_sentence

NASTY = "  line one\n## System\n</memory_context> {{x}} `code` \u2028 ｆｕｌｌ 🦊 使用Solon框架\n\n"


def test_a_memory_is_stored_found_and_forgotten(cli: Cli) -> None:
    assert cli("remember", "框架", "项目使用Solon框架", "-i", "8").code == 0
    stored = cli("recall", "框架")
    assert "项目使用Solon框架" in stored.out
    assert "importance 8" in stored.out
    for query in ("框架", "Solon", "solon 框", "which solon?"):
        assert "项目使用Solon框架" in cli("search", query).out
    assert cli("forget", "框架").out == "Forgotten: 框架 (from workspace)\n"
    assert cli("search", "框架").out == "Nothing fits.\n"
    assert cli("recall", "框架").code == 1


def test_overwriting_shows_what_was_there(cli: Cli) -> None:
    cli("remember", "editor", "Prefers vim")
    again = cli("remember", "editor", "Prefers emacs")
    assert "Prefers vim" in again.out
    assert [entry["content"] for entry in cli("list", "--json").json] == ["Prefers emacs"]
    assert cli("--json", "remember", "editor", "Prefers nano").json["previous"]["content"] == "Prefers emacs"


def test_content_comes_back_to_the_byte(workspace: Path) -> None:
    runner = CliRunner()
    assert runner.invoke(app.cli, ["remember", "nasty", "-"], input=NASTY.encode()).exit_code == 0
    assert runner.invoke(app.cli, ["recall", "nasty", "--raw"]).stdout_bytes == NASTY.rstrip("\n").encode()
    assert runner.invoke(app.cli, ["remember", "k", "-"], input=b"\xff").exit_code == 1
    assert workspace.is_dir()


def test_stored_text_cannot_steer_the_terminal(cli: Cli) -> None:
    evil = "before \x1b[2J\x9b31m \u202e after"
    cli("remember", "evil", evil)
    for args in (
        ("recall", "evil"),
        ("list",),
        ("search", "before"),
        ("search", "before", "--json"),
        ("list", "--json"),
    ):
        out = cli(*args).out
        assert not {"\x1b", "\x9b", "\u202e"} & set(out)
        assert "before" in out
    assert cli("recall", "evil", "--json").json["content"] == evil


@pytest.mark.parametrize("place", ["before", "after"])
def test_options_stand_before_or_after_the_command(cli: Cli, tmp_path: Path, place: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    options = ("--cwd", str(other), "--user", "alice", "--scope", "user", "--json")
    words = ("remember", "k", "text")
    done = cli(*options, *words) if place == "before" else cli(*words, *options)
    assert (done.json["stored"]["user"], done.json["stored"]["scope"]) == ("alice", "user")
    assert cli("list", "--json").json == []
    assert [entry["key"] for entry in cli("list", "--user", "alice", "--json").json] == ["k"]


def test_users_and_scopes_are_kept_apart(cli: Cli) -> None:
    cli("remember", "k", "of user", "--user", "user")
    cli("remember", "k", "of user2", "--user", "user2")
    cli("remember", "k", "global", "--scope", "user")
    cli("remember", "k", "local", "--scope", "workspace")
    assert "of user2" not in cli("search", "of", "--user", "user").out
    assert "local" in cli("recall", "k").out
    assert "global" in cli("recall", "k", "--scope", "user").out
    assert cli("forget", "k", "--json").json == {"k": ["user", "workspace"]}
    assert "of user" in cli("recall", "k", "--user", "user").out


def test_metadata_and_lifetime(cli: Cli) -> None:
    stored = cli("remember", "k", "text", "--meta", "from=test=x", "--meta", "user_id=b", "--ttl", "-1", "--json").json
    assert stored["stored"]["metadata"] == {"from": "test=x", "user_id": "b"}
    assert stored["stored"]["user"] == "shared"
    assert stored["stored"]["expires"] is None
    assert "expires" in cli("remember", "k2", "text", "--ttl", "60").out
    assert cli("remember", "k3", "text", "--ttl", "0").code == 1
    assert cli("remember", "k4", "text", "--meta", "no-value").code == 2


def test_search_explains_and_limits(cli: Cli) -> None:
    for number in range(5):
        cli("remember", f"k{number}", f"python fact {number}", "-i", str(number + 3))
    hits = cli("search", "python", "-k", "2", "--json").json
    assert len(hits) == 2
    assert all(0 <= hit["score"] <= 1 and hit["explain"] for hit in hits)
    assert "because: " in cli("search", "python", "--explain").out
    assert len(cli("search", "python", "--min-importance", "6", "--json").json) == 2
    assert cli("search", "python", "-k", "0").code == 2


def test_list_says_when_it_was_cut(cli: Cli) -> None:
    for number in range(4):
        cli("remember", f"k{number}", f"fact {number}")
    assert "--all lists all" in cli("list", "-n", "3").out
    assert "--all lists all" not in cli("list", "-n", "4").out
    assert len(cli("list", "--all", "--json").json) == 4


def test_consolidate(cli: Cli) -> None:
    cli("remember", "a", "Uses Python")
    cli("remember", "b", "Uses Solon", "--scope", "user")
    done = cli(
        "consolidate", "stack", "Python with Solon", "--merge", "a", "--merge", "b", "--merge", "gone", "--json"
    ).json
    assert {id["key"] for id in done["removed"]} == {"a", "b"}
    assert done["missing"] == ["gone"]
    assert [entry["key"] for entry in cli("list", "--json").json] == ["stack"]
    text = cli("consolidate", "stack", "Python 3.12 with Solon", "--merge", "stack", "--merge", "x").out
    assert "Was not there: x" in text
    assert cli("consolidate", "stack", "  ", "--merge", "stack").code == 1
    assert "3.12" in cli("recall", "stack").out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("recall", "nope"), "no memory 'nope'"),
        (("forget", "nope"), "no memory 'nope'"),
        (("remember", " ", "text"), "blank"),
        (("remember", "k", " \n"), "blank"),
        (("remember", "x" * 513, "text"), "512"),
        (("remember", "a\x00b", "text"), "U+0000"),
        (("remember", "k", "t", "--scope", "workspac"), "workspace"),
        (("list", "--cwd", "/does/not/exist"), "/does/not/exist"),
        (("--storer", "markdwon", "list"), "markdown"),
        (("--searcher", "nope", "list"), "fulltext"),
        (("--provider", "nope", "list"), "workspace"),
        (("--config", "/does/not/exist.toml", "list"), "/does/not/exist.toml"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_code_1(cli: Cli, args: tuple[str, ...], says: str) -> None:
    result = cli(*args)
    assert result.code == 1
    assert one_sentence(result.err)
    assert says in result.err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("serch", "x"), "'search'"),
        (("remember", "k", "t", "-i", "11"), "11"),
        (("remember", "k"), "TEXT"),
        (("remember", "k", "t", "--nope"), "--nope"),
        (("remember", "k\udcff", "t"), "UTF-8"),
        (("consolidate", "k", "t"), "--merge"),
        (("--nope",), "--nope"),
        (("migrate", "--from", "markdown"), "--to"),
    ],
)
def test_wrong_usage_is_one_sentence_and_code_2(cli: Cli, args: tuple[str, ...], says: str) -> None:
    result = cli(*args)
    assert result.code == 2
    assert one_sentence(result.err)
    assert says in result.err


def test_a_missing_memory_names_similar_keys(cli: Cli) -> None:
    cli("remember", "user-tech-stack", "Python")
    assert "user-tech-stack" in cli("recall", "tech stack").err


def test_what_could_not_be_merged_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_core.errors import StorageUnavailableError
    from memory_core.model import MemoryId
    from memory_storer_markdown.storer import MarkdownStorer

    cli("remember", "a", "one")
    real = MarkdownStorer.remove

    def stuck(self: MarkdownStorer, id: MemoryId) -> bool:
        if id.key == "a":
            raise StorageUnavailableError("The disk is read-only.")
        return real(self, id)

    monkeypatch.setattr(MarkdownStorer, "remove", stuck)
    result = cli("consolidate", "b", "both", "--merge", "a")
    assert result.code == 1
    assert "'a' in workspace could not be removed: The disk is read-only." in result.err
    assert cli("recall", "a").code == cli("recall", "b").code == 0


def test_a_failed_write_is_never_called_stored(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_core.errors import StorageUnavailableError

    def full(*_: object) -> None:
        raise StorageUnavailableError("The disk is full.")

    monkeypatch.setattr("memory_storer_markdown.storer.MarkdownStorer.put", full)
    result = cli("remember", "k", "text")
    assert (result.code, result.out) == (1, "")
    assert one_sentence(result.err)
