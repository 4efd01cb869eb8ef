"""The audit over a whole store: each check finds its kind, and only that."""

import itertools
import json
import random
from datetime import timedelta
from pathlib import Path

import pytest

from memory_core.audit import CHECKS, AuditLimits, AuditReport, Check, run_audit
from memory_core.audit.duplicates import near_groups
from memory_core.audit.loops import own_words
from memory_core.model import MemoryEntry
from memory_core.solution import StandardSolution
from memory_core.talent.fence import fenced, quoted
from memory_core.talent.wording import wording
from memory_core.testing import NASTY_CONTENTS, FakeClock, make_entry
from memory_core.text import similarity, unique_tokens
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_storer_markdown.storer import MarkdownStorer
from tests.audit.test_secrets import CARD, GITHUB


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def solution(tmp_path: Path, clock: FakeClock) -> StandardSolution:
    storer = MarkdownStorer({"user": tmp_path / "user", "workspace": tmp_path / "workspace"}, clock=clock)
    return StandardSolution(storer, FulltextSearcher(), ("user", "workspace"), clock=clock)


def audit(
    solution: StandardSolution, clock: FakeClock, *entries: MemoryEntry, checks: tuple[Check, ...] = CHECKS
) -> AuditReport:
    solution.storer.put_many(entries)
    report = run_audit(solution, clock=clock, checks=checks)
    assert json.loads(json.dumps(report.to_json()))["entries"] == len(entries)
    return report


def keys(report: AuditReport, check: Check) -> list[tuple[str, ...]]:
    return [tuple(id.key for id in finding.ids) for finding in report.by_check().get(check, [])]


def test_a_clean_store_has_no_findings(solution: StandardSolution, clock: FakeClock) -> None:
    entries = [
        make_entry(f"k{place}", content)
        for place, content in enumerate(NASTY_CONTENTS)
        if "memory_context" not in content
    ]
    report = audit(solution, clock, *entries)
    assert [finding for finding in report.findings if finding.check not in ("duplicates", "oversized")] == []


def test_exact_duplicates(solution: StandardSolution, clock: FakeClock) -> None:
    report = audit(
        solution,
        clock,
        make_entry("a", "Prefers  ＶＩＭ\n"),
        make_entry("b", "prefers vim", scope="user"),
        make_entry("c", "prefers vim", user="other"),
        make_entry("d", "prefers emacs"),
        make_entry("d", "prefers emacs", scope="user"),
    )
    assert [set(group) for group in keys(report, "duplicates")] == [{"a", "b"}]
    assert keys(report, "shadowed") == [("d", "d")]
    assert "in workspace hides the one in user" in report.by_check()["shadowed"][0].message


def test_near_duplicates(solution: StandardSolution, clock: FakeClock) -> None:
    report = audit(
        solution,
        clock,
        make_entry("a", "The user likes to write Python code with the Solon web framework every day"),
        make_entry("b", "The user likes to write Python code with the Solon web framework each day"),
        make_entry("zh1", "用户喜欢在上午开会，下午专心写代码"),
        make_entry("zh2", "用户喜欢在上午开会，下午专心写代码。是的"),
        make_entry("short", "hi there"),
        make_entry("short2", "hi there!"),
        make_entry("other", "The user likes to write Python code with the Solon web framework every day", user="bob"),
    )
    assert sorted(tuple(sorted(pair)) for pair in keys(report, "near-duplicates")) == [("a", "b"), ("zh1", "zh2")]
    finding = report.by_check()["near-duplicates"][0]
    assert 0.8 <= finding.data["similarity"] < 1
    assert "memory-core consolidate" in finding.advice


@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.95])
def test_the_join_finds_what_comparing_all_finds(threshold: float) -> None:
    rng = random.Random(7)
    words = [f"w{n}" for n in range(40)]
    texts = [" ".join(rng.choices(words, k=rng.randint(4, 14))) for _ in range(120)]
    texts += [f"{text} extra" for text in texts[:30]]
    entries = [make_entry(f"k{n}", text) for n, text in enumerate(texts)]
    pairs = {
        (one.id.key, other.id.key): similarity(one.content, other.content)
        for one, other in itertools.combinations(entries, 2)
        if min(len(unique_tokens(one.content)), len(unique_tokens(other.content))) >= 4
        and one.content != other.content
        and similarity(one.content, other.content) >= threshold
    }
    expected = {entry.id.key: {entry.id.key} for entry in entries}
    for one, other in pairs:
        merged = expected[one] | expected[other]
        expected.update(dict.fromkeys(merged, merged))
    found = near_groups(entries, threshold)
    assert {frozenset(entry.id.key for entry in group.entries) for group in found} == {
        frozenset(group) for group in expected.values() if len(group) > 1
    }
    assert all(threshold <= group.similarity < 1 for group in found)
    assert pairs or threshold > 0.9


def test_many_that_are_alike_are_one_finding(solution: StandardSolution, clock: FakeClock) -> None:
    entries = [
        make_entry(f"k{n:03}", f"memory number n{n} about the same words of a template, over and over")
        for n in range(60)
    ]
    report = audit(solution, clock, *entries)
    (finding,) = report.by_check()["near-duplicates"]
    assert len(finding.ids) == 60
    assert "'k004' and 55 more" in finding.message
    assert finding.advice.count("--merge") == 5


def test_fragments_are_counted_by_user(solution: StandardSolution, clock: FakeClock) -> None:
    mine = [make_entry(f"m{n}", f"note {n}", importance=4) for n in range(5)]
    others = [make_entry(f"o{n}", f"note {n}", importance=1, user="bob") for n in range(4)]
    report = audit(solution, clock, *mine, *others, make_entry("big", "x", importance=5))
    assert keys(report, "fragments") == [("m0", "m1", "m2", "m3", "m4")]


def test_what_expires_soon(solution: StandardSolution, clock: FakeClock) -> None:
    week = timedelta(days=7)
    report = audit(
        solution,
        clock,
        make_entry("in a week", "1", expires=clock.now() + week),
        make_entry("later", "2", expires=clock.now() + week + timedelta(seconds=1)),
        make_entry("in an hour", "3", expires=clock.now() + timedelta(minutes=119)),
        make_entry("never", "4"),
    )
    assert sorted(keys(report, "expiring")) == [("in a week",), ("in an hour",)]
    assert "in 1 hour." in report.by_check()["expiring"][1].message
    clock.advance(week.total_seconds())
    left = run_audit(solution, clock=clock, limits=AuditLimits(soon_days=0))
    assert left.entries == 2
    assert keys(left, "expiring") == []


def test_secrets_are_named_by_kind_and_never_shown(solution: StandardSolution, clock: FakeClock) -> None:
    report = audit(
        solution,
        clock,
        make_entry("content", f"凭证为{GITHUB}"),
        make_entry("meta", "x", metadata={"deep": [{"card": CARD}], "password": "hunter22", "token": 5}),
        make_entry("source", "y", source=f"import:{GITHUB}"),
        make_entry("fine", "z"),
    )
    assert sorted(keys(report, "secrets")) == [("content",), ("meta",), ("source",)]
    text = json.dumps(report.to_json(), ensure_ascii=False)
    for secret in (GITHUB, CARD, "hunter22"):
        assert secret not in text


def test_without_the_package_the_report_says_so(
    solution: StandardSolution, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_core.audit.run.detectors_installed", lambda: False)
    report = audit(solution, clock, make_entry("k", f"凭证为{GITHUB}"))
    assert len(report.notes) == 1
    assert "memory-talent[redact]" in report.notes[0]
    assert keys(report, "secrets") == [("k",)]
    only: tuple[Check, ...] = ("expiring",)
    assert run_audit(solution, clock=clock, checks=only).notes == ()


def test_oversized(solution: StandardSolution, clock: FakeClock) -> None:
    report = audit(
        solution,
        clock,
        make_entry("en", "word " * 1_600),
        make_entry("zh", "记" * 2_600),
        make_entry("ok", "word " * 1_500),
    )
    assert keys(report, "oversized") == [("zh",)]  # 8,000 Latin characters are 2,000 tokens: not over it
    assert run_audit(solution, clock=clock, limits=AuditLimits(oversized_tokens=1)).by_check()["oversized"]


@pytest.mark.parametrize("locale", ["en", "zh"])
def test_recall_loops_are_recognised_by_structure(solution: StandardSolution, clock: FakeClock, locale: str) -> None:
    words = wording(locale)
    line = words.line.format(time="2026-03-01 12:00", scope="user", key="k [x]", importance=8, content="likes vim")
    report = audit(
        solution,
        clock,
        make_entry("block", fenced([line], words.label)),
        make_entry("quote", f"The tool said: {quoted('text')}"),
        make_entry("line", f"I remember this: {line}"),
        make_entry("about", "The block with the memory context is fenced (importance 8): see the docs"),
        make_entry("note", "- [2026-03-01 12:00] [todo] write tests"),
    )
    assert sorted(keys(report, "loops")) == [("block",), ("line",), ("quote",)]


def test_nothing_but_our_blocks_is_taken_for_one() -> None:
    assert own_words("plain") is None
    assert own_words("a <div> and </memory> and memory_context") is None


def test_one_user_and_one_scope(solution: StandardSolution, clock: FakeClock) -> None:
    solution.storer.put_many(
        [make_entry("k", "x", user="a"), make_entry("k", "x", user="b"), make_entry("k", "x", user="a", scope="user")]
    )
    assert run_audit(solution, user_id="a", clock=clock).entries == 2
    assert run_audit(solution, user_id="a", scope="user", clock=clock).entries == 1


def test_findings_come_in_the_order_of_the_checks_and_progress_is_told(
    solution: StandardSolution, clock: FakeClock
) -> None:
    soon = clock.now() + timedelta(days=1)
    entries = [make_entry(f"k{n:03}", f"unlike number{n} zebra{n * 7}", expires=soon, importance=1) for n in range(201)]
    solution.storer.put_many(entries)
    told: list[int] = []
    report = run_audit(solution, clock=clock, progress=lambda done, _: told.append(done))
    order = [CHECKS.index(finding.check) for finding in report.findings]
    assert order == sorted(order)
    assert told == [200]
    assert report.checks == CHECKS
