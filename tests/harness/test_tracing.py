"""Spans: there when somebody records, without text, and nothing at all otherwise."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_core import load_provider
from memory_core.context import CompactionConfig, compact, compact_sync
from memory_core.contracts import ModelReply
from memory_core.ledger import Ledger
from memory_core.sessions import user_message
from memory_core.talent import MemoryTalent
from memory_core.testing import FakeModel
from memory_core.tracing import span

sdk = pytest.importorskip(
    "opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed: spans are not recorded"
)


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Any:
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    recording = sdk.TracerProvider()
    recording.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", recording.get_tracer)
    return exporter


def recorded(exporter: Any) -> dict[str, dict[str, Any]]:
    """Return the spans since the last call by name, and check that none has a text that somebody said."""
    spans = exporter.get_finished_spans()
    exporter.clear()
    found: dict[str, dict[str, Any]] = {one.name: dict(one.attributes or {}) for one in spans}
    assert all(attributes["memory.ms"] >= 0 for attributes in found.values())
    assert "secret" not in str([one.to_json() for one in spans]).lower()
    return found


def test_store_search_and_injection_leave_spans_without_text(tmp_path: Path, exporter: Any) -> None:
    provider = load_provider(tmp_path, overrides={"home": str(tmp_path / "home")})
    talent = MemoryTalent(provider)
    talent.extract("secret-key", "a secret fact", 8, cwd=tmp_path)
    talent.instruction("which secret question?", cwd=tmp_path)
    with pytest.raises(ValueError, match="secret"), span("memory.test"):
        raise ValueError("a secret reason")
    provider.close()
    found = recorded(exporter)
    assert set(found) == {"memory.store", "memory.search", "memory.instruction", "memory.test"}
    assert found["memory.store"]["memory.importance"] == 8
    assert found["memory.search"]["memory.hits"] == 1
    assert found["memory.instruction"]["memory.entries"] == 1
    assert found["memory.test"]["memory.error"] == "ValueError"


async def test_flush_and_consolidation_leave_spans_without_text(tmp_path: Path, exporter: Any) -> None:
    model = FakeModel("- A secret fact\n- Another secret fact", "# Secret\n\n- A secret fact", RuntimeError("secret"))
    ledger = Ledger(tmp_path, model)
    assert (await ledger.flush([user_message("a secret")])).status == "written"
    flushed = recorded(exporter)["memory.flush"]
    assert (flushed["memory.reason"], flushed["memory.status"], flushed["memory.facts"]) == ("call", "written", 2)
    assert (await ledger.consolidate()).status == "written"
    merged = recorded(exporter)["memory.consolidate"]
    assert (merged["memory.status"], merged["memory.files"]) == ("written", 1)
    assert (await ledger.flush([user_message("another secret")], reason="manual")).status == "failed"
    failed = recorded(exporter)["memory.flush"]
    assert (failed["memory.reason"], failed["memory.status"], failed["memory.facts"]) == ("manual", "failed", 0)
    ledger.close()


async def test_a_compaction_leaves_a_span_without_text(exporter: Any) -> None:
    def reply(system: str, user: str, max_output_tokens: int) -> ModelReply:
        return ModelReply("a secret summary")

    said = [user_message(f"secret {number}") for number in range(10)]
    config = CompactionConfig(trigger_messages=8, keep_messages=3)
    done = await compact(said, config, model=FakeModel("a secret summary"))
    found = recorded(exporter)["memory.compact"]
    assert found["memory.messages"] == len(done.plan.compacted) > 0
    assert found["memory.messages_left"] == len(done.messages) < len(said)
    assert found["memory.reason"] == done.plan.reason
    assert found["memory.tokens"] == done.plan.tokens
    assert "memory.failed" not in found
    assert compact_sync(said, config, complete=reply).compacted
    assert recorded(exporter)["memory.compact"]["memory.messages"] == found["memory.messages"]
    assert (await compact(said, config, model=FakeModel(RuntimeError("secret")))).failure
    assert recorded(exporter)["memory.compact"]["memory.failed"] is True


def test_without_opentelemetry_nothing_is_imported_or_recorded() -> None:
    code = (
        "import sys\n"
        "from memory_core.tracing import span\n"
        "with span('memory.test', count=1) as one: one.set('memory.hits', 2)\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True).returncode == 0
