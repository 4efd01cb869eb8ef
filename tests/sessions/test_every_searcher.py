"""Whatever searcher is configured, it follows the transcripts."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_core.config import load_settings
from memory_core.plugins import get_registry
from memory_core.sessions import TranscriptLog, TranscriptSearch, build_transcript_search, user_message

NEEDS = {
    "fulltext": (),
    "whoosh": ("whoosh",),
    "numpy": ("numpy", "wordllama"),
    "lancedb": ("lancedb", "wordllama"),
    "hybrid": ("numpy", "wordllama"),
}


@pytest.mark.parametrize("name", NEEDS)
def test_it_follows_the_transcripts(name: str, tmp_path: Path) -> None:
    for package in NEEDS[name]:
        pytest.importorskip(package, reason=f"the searcher {name} is not tested: {package} is not installed")
    overrides = {"home": str(tmp_path / "home"), "searcher": name, "embedder": "static"}
    log = TranscriptLog(tmp_path / "sessions", fsync=False)

    def opened() -> TranscriptSearch:
        return build_transcript_search(log, load_settings(tmp_path, overrides=overrides), get_registry())

    def sessions(search: TranscriptSearch, text: str, **how: Any) -> list[str]:
        return [hit.session_id for hit in search.search(text, **how)]

    search = opened()
    log.write("a", [user_message("我们使用Solon框架写代码")], agent_id="x")
    log.write("b", [user_message("the zebra is striped")], agent_id="y")
    log.write("c", [user_message("the zebra of somebody else")], agent_id="y", user_id="other")
    assert sessions(search, "zebra")[0] == "b"
    assert "c" not in sessions(search, "zebra")
    assert sessions(search, "框架", agent_id="x") == ["a"]
    assert sessions(search, "zebra", agent_id="x") in ([], ["a"])  # a vector is near to everything, but of this agent
    assert sessions(search, "zebra", user_id="other") == ["c"]
    search.close()

    log.write("b", [user_message("another zebra")], agent_id="y")
    again = opened()
    assert sessions(again, "zebra")[:2] == ["b", "b"]
    log.prune(1, now=datetime.now(UTC) + timedelta(days=3))
    assert sessions(again, "zebra") == []
    again.close()
