"""Spans: there when somebody records, without text, and nothing at all otherwise."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_core import load_provider
from memory_core.talent import MemoryTalent
from memory_core.tracing import span

sdk = pytest.importorskip(
    "opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed: spans are not recorded"
)


def test_store_search_and_injection_leave_spans_without_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    recording = sdk.TracerProvider()
    recording.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", recording.get_tracer)
    provider = load_provider(tmp_path, overrides={"home": str(tmp_path / "home")})
    talent = MemoryTalent(provider)
    talent.extract("secret-key", "a secret fact", 8, cwd=tmp_path)
    talent.instruction("which secret question?", cwd=tmp_path)
    with pytest.raises(ValueError, match="secret"), span("memory.test"):
        raise ValueError("a secret reason")
    provider.close()
    found: dict[str, dict[str, Any]] = {one.name: dict(one.attributes or {}) for one in exporter.get_finished_spans()}
    assert set(found) == {"memory.store", "memory.search", "memory.instruction", "memory.test"}
    assert found["memory.store"]["memory.importance"] == 8
    assert found["memory.search"]["memory.hits"] == 1
    assert found["memory.instruction"]["memory.entries"] == 1
    assert found["memory.test"]["memory.error"] == "ValueError"
    assert all(attributes["memory.ms"] >= 0 for attributes in found.values())
    assert "secret" not in str([one.to_json() for one in exporter.get_finished_spans()])


def test_without_opentelemetry_nothing_is_imported_or_recorded() -> None:
    code = (
        "import sys\n"
        "from memory_core.tracing import span\n"
        "with span('memory.test', count=1) as one: one.set('memory.hits', 2)\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True).returncode == 0
