import pytest

from memory_core.contracts import ModelReply
from memory_core.ledger.replies import MAX_FACT_CHARS, MAX_FACTS, extract, is_no_reply, unfenced
from memory_core.ledger.validate import validate

GOOD = "# Memory\n\n## User\n- The user likes tea.\n- The user lives in Basel.\n"


@pytest.mark.parametrize(
    "text",
    [
        "NO_REPLY",
        "NO_REPLY.",
        " no_reply \n",
        "`NO_REPLY`",
        "**NO_REPLY**",
        "- NO_REPLY",
        "```\nNO_REPLY\n```",
        "```markdown\nNO_REPLY\n```",
        "No reply",
        "NO-REPLY!",
        '"NO_REPLY"',
        "NO_REPLY\n\n(Nothing new was said.)",
        "NO_REPLY: nothing to record",
        "NO_REPLY。",
        "ＮＯ＿ＲＥＰＬＹ",
    ],
)
def test_nothing_to_record_is_understood_however_it_is_dressed(text: str) -> None:
    found = extract(ModelReply(text))
    assert found.nothing
    assert not found.facts
    assert not found.failure


THOUGHTS = [
    "<think>\nLet me see:\n- the user may be testing me\n</think>\n\n",
    "<thinking>- no</thinking>",
    "\n<THINK>\n</THINK>\n",
    "Let me see:\n- a bad idea\n</think>\n",
]


@pytest.mark.parametrize("thoughts", THOUGHTS)
def test_thoughts_are_no_answer(thoughts: str) -> None:
    assert extract(ModelReply(thoughts + "NO_REPLY")).nothing
    assert extract(ModelReply(thoughts + "- The user likes tea.")).facts == ("The user likes tea.",)
    assert extract(ModelReply(f"{thoughts}```markdown\n- The user likes tea.\n```")).facts == ("The user likes tea.",)
    assert validate(ModelReply(thoughts + GOOD), "", "", 1_000).text == GOOD


def test_an_answer_that_ends_within_its_thoughts_is_empty() -> None:
    reply = ModelReply("<think>\n- maybe drop the fact about tea\n- or", "length")
    assert extract(reply).failure == "the reply is empty"
    assert validate(reply, "", "", 1_000).failure == "the reply is empty"


def test_a_fact_about_thoughts_is_a_fact() -> None:
    assert extract(ModelReply("- Their model writes <think> and </think>")).facts == (
        "Their model writes <think> and </think>",
    )


def test_the_word_inside_a_fact_is_a_fact() -> None:
    assert extract(ModelReply("- The user asked what NO_REPLY means")).facts == ("The user asked what NO_REPLY means",)
    assert not is_no_reply("no reply from the server")


def test_facts_beside_the_word_are_kept() -> None:
    assert extract(ModelReply("- likes tea\n- NO_REPLY")).facts == ("likes tea",)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("- a\n- b", ("a", "b")),
        ("* a\n+ b\n• c", ("a", "b", "c")),
        ("1. a\n2) b", ("a", "b")),
        ("Here are the facts:\n\n- a\n\nLet me know!", ("a",)),
        ("```markdown\n- a\n- b\n```", ("a", "b")),
        ("~~~\n- a\n~~~", ("a",)),
        ("Sure!\n```\n- a\n```\nDone.", ("a",)),
        ("- a\n  more of a\n- b", ("a\nmore of a", "b")),
        ("- a\r\n- b\r\n", ("a", "b")),
        ("- 用户喜欢茶\n- 住在巴塞尔", ("用户喜欢茶", "住在巴塞尔")),
        ("- a\x00b", ("ab",)),
        ("---\n- a\n---", ("a",)),
        ("-\n- a", ("a",)),
        ("<conversation>\n- a\n</conversation>", ("a",)),
        ('<memory_context source="MEMORY.md">\n- old\n</memory_context>\n- new', ("new",)),
        ("- line\u2028separator", ("line\u2028separator",)),
    ],
)
def test_lists_are_read(text: str, facts: tuple[str, ...]) -> None:
    assert extract(ModelReply(text)).facts == facts


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (ModelReply(""), "empty"),
        (ModelReply(" \n\t"), "empty"),
        (ModelReply("```\n```"), "empty"),
        (ModelReply("I'm sorry, but I can't help with that."), "refused"),
        (ModelReply("- I'm sorry, but I cannot do that."), "refused"),
        (ModelReply("很抱歉，我无法处理这个请求。"), "refused"),
        (ModelReply("作为一个人工智能，我不能这样做"), "refused"),
        (ModelReply("Error: rate limit exceeded"), "error message"),
        (ModelReply("- Error: upstream"), "error message"),
        (ModelReply('{"error": {"message": "overloaded"}}'), "error message"),
        (ModelReply("HTTP 500 Internal Server Error"), "error message"),
        (ModelReply("Traceback (most recent call last):"), "error message"),
        (ModelReply("(Summarization failed: timeout)"), "error message"),
        (ModelReply("The user is nice and we talked a lot."), "no list"),
        (ModelReply("- a", "content_filter"), "content_filter"),
        (ModelReply("- a", "refusal"), "refusal"),
        (ModelReply("- only half a fa", "length"), "cut by length"),
        (ModelReply("- " + "x" * (MAX_FACT_CHARS + 1)), "more than"),
    ],
)
def test_an_unusable_reply_is_a_failure_never_an_empty_success(reply: ModelReply, why: str) -> None:
    found = extract(reply)
    assert why in found.failure
    assert not found.facts
    assert not found.nothing


def test_a_reply_cut_by_length_loses_only_its_last_fact() -> None:
    found = extract(ModelReply("- a\n- b\n- c is not compl", "length"))
    assert found.facts == ("a", "b")
    assert "cut by length" in found.notices[0]


def test_a_huge_reply_is_bounded_and_says_so() -> None:
    found = extract(ModelReply("\n".join(f"- fact {n}" for n in range(5_000))))
    assert len(found.facts) == MAX_FACTS
    assert "4900 facts" in found.notices[0]
    found = extract(ModelReply("- short\n- " + "x" * 1_000_000))
    assert found.facts == ("short",)
    assert found.notices


def test_only_a_fence_around_everything_is_taken_off() -> None:
    inside = "# Memory\n- use this:\n```bash\nls\n```\n- end"
    assert unfenced(inside) == inside
    assert unfenced(f"```markdown\n{inside}\n```") == inside
    assert unfenced(f"Here it is:\n\n```md\n{inside}\n```\n\nAnything else?") == inside
    code = "```python\nprint()\n```"
    assert unfenced(code) == code
    assert unfenced("```\n- cut before its end") == "- cut before its end"


# --- consolidation -----------------------------------------------------------------------------------------------


def judge(
    text: str, finish: str = "stop", old: str = "", sources: str = "- tea", limit: int = 4_000, shrink: bool = False
) -> str:
    verdict = validate(ModelReply(text, finish), old, sources, limit, allow_shrink=shrink)
    assert bool(verdict.text) != bool(verdict.failure)
    return verdict.failure


def test_a_good_file_is_taken_to_the_letter() -> None:
    verdict = validate(ModelReply(GOOD), "", "", 4_000)
    assert verdict.text == GOOD
    assert validate(ModelReply(f"Here it is:\n```markdown\n{GOOD}```"), "", "", 4_000).text == GOOD
    with_code = GOOD + "- run:\n  ```\n  make\n  ```\n"
    assert validate(ModelReply(with_code), "", "", 4_000).text == with_code


@pytest.mark.parametrize(
    ("text", "finish", "why"),
    [
        ("", "stop", "empty"),
        ("```\n\n```", "stop", "empty"),
        (GOOD, "length", "cut by length"),
        (GOOD, "content_filter", "content_filter"),
        (GOOD, "error", "error"),
        ("NO_REPLY.", "stop", "NO_REPLY"),
        ("I'm sorry, I can't merge these.", "stop", "refused"),
        ("Error: model overloaded", "stop", "error message"),
        ("# Error: boom", "stop", "error message"),
        ("I merged everything as you wished.", "stop", "no Markdown list"),
        ("# Memory\n\n## User", "stop", "nothing below"),
        ("- " + "very long " * 9_000, "stop", "the limit is 4000"),
    ],
)
def test_a_bad_file_is_refused(text: str, finish: str, why: str) -> None:
    assert why in judge(text, finish)


def test_shrinking_needs_a_reason() -> None:
    old = "# Memory\n" + "\n".join(f"- The user told us fact number {n} about the project." for n in range(40))
    less = "# Memory\n- The user told us one fact about the project."
    assert "looks like a loss" in judge(less, old=old)
    assert not judge(less, old=old, shrink=True)
    assert not judge(less, old=old, limit=300)  # the old one was over the limit: that is the reason
    assert not judge(less, old="# Memory\n- a\n- b\n- c")  # too small to tell


def test_a_translated_file_is_refused() -> None:
    sources = "- 用户喜欢使用Solon框架写代码\n- 项目改用每周发布"
    assert "another language" in judge("# Memory\n- The user likes Solon.", sources=sources)
    assert not judge("# 记忆\n- 用户喜欢使用Solon框架写代码", sources=sources)
    assert not judge(GOOD, sources="- the user likes tea")


def test_our_own_tags_do_not_reach_the_file() -> None:
    verdict = validate(ModelReply(f"<memory_md>\n{GOOD}</memory_md>"), "", "", 4_000)
    assert verdict.text == GOOD
