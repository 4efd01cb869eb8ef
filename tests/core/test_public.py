"""What the root offers, and what importing it costs."""

import json
import subprocess
import sys

import pytest

import memory_core

PUBLIC = {
    "SHARED_USER_ID", "AsyncMemorySolution", "BackendContext", "ChangeBatch", "ChatModel", "Clock", "ConfigError", "Embedder",
    "InvalidEntryError", "InvalidKeyError", "MemoryCoreError", "MemoryEntry", "MemoryId", "MemorySearcher", "MemorySolution",
    "MemorySolutionProvider", "MemoryStorer", "MemoryTalent", "ModelReply", "PluginError", "Problem", "SearchHit", "SearchQuery",
    "SearcherError", "StandardSolution", "StorerError", "ToolContext", "ToolResult", "ToolSpec", "load_provider",
}  # fmt: skip
HEAVY = (
    "numpy",
    "redis",
    "lancedb",
    "whoosh",
    "torch",
    "pydantic_ai",
    "mcp",
    "langchain_core",
    "sentence_transformers",
)
LATE = ("yaml", "Stemmer", "sqlite3", "pydantic_settings", "click", "filelock")


def loaded_by(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has after `code`."""
    script = code + "\nimport sys, json; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_public_names_are_these() -> None:
    assert set(memory_core.__all__) == PUBLIC
    assert len(memory_core.__all__) == len(set(memory_core.__all__)) < 40
    assert set(dir(memory_core)) >= PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(memory_core, name)
    assert name == "SHARED_USER_ID" or value.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = memory_core.Nonsense


def test_importing_loads_nothing_heavy() -> None:
    assert not loaded_by("import memory_core") & {*HEAVY, *LATE, "pydantic"}


def test_naming_everything_loads_nothing_heavy() -> None:
    loaded = loaded_by("from memory_core import *")
    assert not loaded & set(HEAVY)


def test_a_whole_round_trip_loads_nothing_heavy(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("round-trip")
    code = (
        "from memory_core import MemoryTalent, load_provider\n"
        f"provider = load_provider({str(root)!r}, overrides={{'home': {str(root / 'home')!r}, 'storer': 'markdown', 'searcher': 'fulltext', 'provider': 'workspace'}})\n"
        "talent = MemoryTalent(provider)\n"
        f"assert talent.extract(key='k', fact='Uses 框架', importance=8, cwd={str(root)!r}).ok\n"
        f"assert talent.search(query='框架', cwd={str(root)!r}).ok\n"
    )
    assert not loaded_by(code) & set(HEAVY)


def test_the_version_is_the_distribution_s() -> None:
    from importlib.metadata import version

    assert version("memory-talent") == memory_core.__version__


def test_the_package_is_typed() -> None:
    from importlib.resources import files

    assert files("memory_core").joinpath("py.typed").is_file()
