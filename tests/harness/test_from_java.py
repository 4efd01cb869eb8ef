"""What `docs/from-java.md` says the engine's names are called here, they are called here."""

import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import memory_core.harness
from memory_core.context.config import CompactionConfig, ToolResultEvictionConfig, TruncateArgsConfig
from memory_core.harness import HarnessEngine
from memory_core.ledger import Ledger, MemoryConfig
from memory_core.sessions import AgentSession
from memory_core.talent import MemoryTalent

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "from-java.md").read_text("utf-8")
ROW = re.compile(r"^\| (?P<theirs>[^|]*) \| (?P<ours>[^|]*) \|$", re.MULTILINE)
TOOLS = {"memory_search", "session_search", "memory_get", "memory_save", "session_list", "session_history"}


def rows(heading: str) -> list[str]:
    """Return our side of the rows under a heading."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [row["ours"] for row in ROW.finditer(section) if row["theirs"] not in ("original", "---")]


def names_of(heading: str) -> list[str]:
    quoted = [text for row in rows(heading) for text in re.findall(r"`([^`]*)`", row)]
    quoted = [text for text in quoted if text not in ("harness", "memory_")]  # an extra, and a prefix
    return sorted({text for text in quoted if re.fullmatch(r"[a-z][\w.]*(?:\(.*\))?|\w+_\w+=…", text)})


def members(kind: type[Any]) -> set[str]:
    """Return what a class has: attributes, fields, and arguments of its constructor."""
    made = set(inspect.signature(kind).parameters)
    return (
        made
        | set(dir(kind))
        | set(getattr(kind, "model_fields", ()))
        | {field.name for field in (fields(kind) if hasattr(kind, "__dataclass_fields__") else ())}
    )


def is_there(name: str, kinds: list[type[Any]], engine: HarnessEngine | None = None) -> bool:
    plain = name.split("(", maxsplit=1)[0].removesuffix("=…")
    head, _, last = plain.rpartition(".")
    owners: dict[str, Callable[[], bool]] = {
        "": lambda: plain in TOOLS or any(plain in members(kind) for kind in kinds),
        "engine": lambda: hasattr(engine, last),
        "session": lambda: last in members(AgentSession),
        "memory_core.harness": lambda: hasattr(memory_core.harness, last),
    }
    if head in owners:
        return owners[head]()
    return plain.startswith("memory_core.")  # tests/docs imports these


ENGINE = names_of("Sessions and the engine")
LEDGER = names_of("Harness memory (ledger and context)")


def test_there_are_names_to_look_up() -> None:
    assert {"compression_model", "engine.memory_talent", "session.snapshot()"} <= set(ENGINE)
    assert {"flush_prompt", "keep_tokens", "disable_memory_hooks"} <= set(LEDGER)


@pytest.mark.parametrize("name", ENGINE)
def test_every_name_of_the_engine_is_there(name: str, tmp_path: Path) -> None:
    with HarnessEngine(tmp_path, tmp_path / "home", model="test") as engine:
        assert is_there(name, [HarnessEngine, MemoryTalent, AgentSession], engine)


@pytest.mark.parametrize("name", LEDGER)
def test_every_name_of_the_ledger_and_the_context_is_there(name: str) -> None:
    kinds = [MemoryConfig, CompactionConfig, TruncateArgsConfig, ToolResultEvictionConfig, Ledger]
    assert is_there(name, kinds)


def test_settings_that_change_while_the_engine_runs_can_be_set() -> None:
    for name in ("session_window_size", "memory_enabled", "memory_relevance_count", "memory_priority_count"):
        assert hasattr(getattr(HarnessEngine, name), "__set__")
