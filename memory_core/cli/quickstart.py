"""`quickstart`: a tour on real text in a temporary directory."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from memory_core.cli.output import headline, indented, padded, say, shorten
from memory_core.cli.state import State, pass_state

MEMORIES: tuple[tuple[str, str, int, str], ...] = (
    (
        "user-tech-stack",
        "The user writes Python 3.12 and likes FastAPI as web framework; deploys with Docker.",
        8,
        "user",
    ),
    ("user-identity", "The user is called Lin Wei and speaks English and 中文.", 10, "user"),
    ("项目框架", "本项目使用Solon框架，数据库是PostgreSQL 16。", 8, "workspace"),
    ("code-style", "Review comments must be short; every public function needs a docstring.", 7, "workspace"),
    ("release-day", "Releases go out on Thursdays, never on Fridays.", 6, "workspace"),
    ("会议习惯", "用户喜欢在上午开会，下午专心写代码。", 5, "user"),
    ("coffee", "Had an oat flat white today.", 2, "workspace"),
)
QUESTIONS = ("which web framework does the user like?", "框架", "什么时候开会", "C++")
USER_INPUT = "Which framework do I use in this project?"


@click.command()
@click.option("--keep", is_flag=True, help="Keep the directory, to look around in it.")
@click.option(
    "--locale", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Language of the tools."
)
@pass_state
def quickstart(state: State, keep: bool, locale: str) -> None:
    """Take a tour in a temporary directory.

    Store English and Chinese memories, search, inject, look at the files. Nothing outside that directory is touched.
    """
    root = Path(tempfile.mkdtemp(prefix="memory-core-"))
    try:
        _tour(state, root, locale)
    finally:
        if keep:
            say(f"\nKept in {root}")
        else:
            shutil.rmtree(root, ignore_errors=True)


def _tour(state: State, root: Path, locale: str) -> None:
    from memory_core.loading import load_provider
    from memory_core.talent import MemoryTalent

    workspace = root / "project"
    workspace.mkdir()
    config = root / "memory.toml"
    config.write_text("", "utf-8")  # the tour runs on defaults, whatever is configured here
    overrides: dict[str, Any] = {**state.overrides(), "home": str(root / "home")}
    provider = load_provider(workspace, config_file=config, overrides=overrides)
    try:
        talent = MemoryTalent(provider, locale=locale)
        _title("1. Store", "what an agent does with its tool memory_extract")
        for key, fact, importance, scope in MEMORIES:
            talent.extract(key=key, fact=fact, importance=importance, scope=scope, cwd=workspace)
            say(f"  {padded(key, 16)} importance {importance:<2} {scope:<10} {shorten(fact, 60)}")

        solution = provider.get(workspace)
        _title("2. Search", "words, whole questions, Chinese without spaces; best first, scores from 0 to 1")
        for question in QUESTIONS:
            say(f"  > {question}")
            hits = solution.search(question, top_k=2)
            for hit in hits:
                say(f"    {hit.score:.2f}  {headline(hit.entry)}")
            if not hits:
                say("    nothing fits")

        _title("3. Inject", f"what the agent's prompt gets when the user asks: {USER_INPUT}")
        say(indented(talent.instruction(USER_INPUT, cwd=workspace), "  "))

        _title("4. Files", "each memory is a Markdown file that you can read, edit and delete")
        files = [path for path in _files(root) if path.suffix == ".md"]
        for path in files:
            say(f"  {path.relative_to(root).as_posix()}")
        if files:
            say(f"\n  {files[-1].name}:")
            say(indented(files[-1].read_text("utf-8").rstrip("\n"), "    "))
    finally:
        provider.close()
    _title("Next", "your own memories, in the directory where you are")
    say('  memory-core remember editor "Prefers vim" -i 6')
    say('  memory-core search "which editor?"')
    say("  memory-core --help")


def _title(name: str, what: str) -> None:
    say(f"\n{name}: {what}\n")


def _files(root: Path) -> Iterator[Path]:
    return iter(sorted(path for path in root.rglob("*") if path.is_file()))
