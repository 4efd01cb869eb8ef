"""What a model's reply to the flush is worth: a list of facts, nothing, or a failure. Never an empty success."""

import re
from dataclasses import dataclass

from memory_core.contracts import ModelReply
from memory_core.ledger.blocks import bullet_text, clean_text
from memory_core.ledger.fencing import strip_own_blocks, strip_tag_lines
from memory_core.text import normalise
from memory_core.thoughts import without_thoughts

MAX_FACTS = 100
MAX_FACT_CHARS = 2_000
BAD_FINISH = frozenset(("content_filter", "error", "refusal", "safety"))

_OPENING_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*(?:markdown|md|text|txt|plaintext)?[ \t]*", re.IGNORECASE)
_NOT_LETTERS = re.compile(r"[\W_]+")
_REFUSAL = re.compile(
    r"\W*(?:i['’]?m sorry|i am sorry|sorry[,.! ]|i can(?:no|['’])t |i(?: am|['’]m) (?:unable|not able)|as an ai\b|"
    r"i won['’]t |unfortunately, i|很?抱歉|对不起|不好意思，我|作为(?:一个|一名)?(?:ai|人工智能|语言模型)|"
    r"我(?:无法|不能|没办法)(?:协助|帮助|完成|处理|提供|满足))",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"\W*(?:(?:\w*error|exception|traceback|failed|failure)\s*[:(]|http(?:/\d\S*)? ?\d{3}|"
    r"\d{3} (?:internal|bad|too many|service)|internal server error|rate limit|"
    r"\w*[ _]?summari[sz]ation failed|错误[:：]|请求失败)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Extracted:
    """Facts in order; `nothing` when the model said that there is nothing; `failure` says why the reply is unusable.

    `notices` name what was left out of a usable reply.
    """

    facts: tuple[str, ...] = ()
    nothing: bool = False
    failure: str = ""
    notices: tuple[str, ...] = ()


def is_no_reply(line: str) -> bool:
    """Whether a line says NO_REPLY, however it is dressed: `` `NO_REPLY`. ``, `- **no reply**`, `No-Reply!`."""
    return _NOT_LETTERS.sub("", normalise(line)) == "noreply"


def is_refusal(text: str) -> bool:
    """Whether a text begins as models begin when they refuse."""
    return _REFUSAL.match(text) is not None


def is_error(text: str) -> bool:
    """Whether a text begins as the error text of a server or a library, or is a JSON object."""
    return _ERROR.match(text) is not None or text.lstrip().startswith('{"')


def unfenced(text: str) -> str:
    """Return what stands inside the code fence that wraps the whole reply; any other reply as it is.

    At most one short paragraph before and one after it are taken for talk about the answer and dropped. Code blocks
    within the answer stay.
    """
    lines = text.strip().split("\n")
    first = next((n for n, line in enumerate(lines) if line.lstrip().startswith(("```", "~~~"))), None)
    if first is None or not _OPENING_FENCE.fullmatch(lines[first].strip()):
        return text
    mark = lines[first].strip()[:3]
    last = next((n for n in range(len(lines) - 1, first, -1) if set(lines[n].strip()) == {mark[0]}), None)
    if last is None:  # cut before its end
        last = len(lines)
    before, after = "\n".join(lines[:first]), "\n".join(lines[last + 1 :])
    talk = [part for part in (before, after) if len(part) > 300 or bullet_text(part.lstrip()) or part.startswith("#")]
    return text if talk else "\n".join(lines[first + 1 : last])


def answer(text: str) -> str:
    """Return what a model says: without its thoughts, a fence around the whole, and our own blocks and tags."""
    return strip_tag_lines(strip_own_blocks(unfenced(without_thoughts(clean_text(text)))))


def extract(reply: ModelReply) -> Extracted:
    """Judge a reply to the flush prompt.

    Bullets and numbered lines are facts, with their continuation lines; other lines are talk. Of a reply that was cut
    by length the last fact is dropped, because it is the one that is cut.
    """
    if reply.finish_reason in BAD_FINISH:
        return Extracted(failure=f"the model stopped with {reply.finish_reason!r}")
    text = answer(reply.text).strip()
    if not text:
        return Extracted(failure="the reply is empty")
    said_nothing = False
    facts: list[str] = []
    open_fact = False
    for line in text.split("\n"):
        if is_no_reply(line):
            said_nothing, open_fact = True, False
            continue
        body = bullet_text(line)
        if body is not None:
            open_fact = bool(body) and not set(body) <= set("-*_ ")
            if open_fact:
                facts.append(body)
        elif not line.strip():
            open_fact = False
        elif open_fact and line[0] in " \t":
            facts[-1] = f"{facts[-1]}\n{line.strip()}"
        else:
            open_fact = False
    notices: list[str] = []
    if reply.finish_reason == "length":
        if len(facts) < 2:
            return Extracted(failure="the reply was cut by length before its first fact was complete")
        facts.pop()
        notices.append("the reply was cut by length: its last, incomplete fact was dropped")
    if not facts:
        return Extracted(nothing=True) if said_nothing or _leads_with_no_reply(text) else Extracted(failure=_why(text))
    if len(facts) == 1 and (is_refusal(facts[0]) or is_error(facts[0])):
        return Extracted(failure=_why(facts[0]))
    short = [fact for fact in facts if len(fact) <= MAX_FACT_CHARS]
    if len(short) < len(facts):
        notices.append(f"{len(facts) - len(short)} facts of more than {MAX_FACT_CHARS} characters were dropped")
    if len(short) > MAX_FACTS:
        notices.append(f"{len(short) - MAX_FACTS} facts beyond the first {MAX_FACTS} were dropped")
    if not short:
        return Extracted(failure=f"every fact has more than {MAX_FACT_CHARS} characters")
    return Extracted(tuple(short[:MAX_FACTS]), notices=tuple(notices))


def _leads_with_no_reply(text: str) -> bool:
    """Whether a reply without facts begins with the word and then explains itself."""
    return re.match(r"[\W_]*no[_ -]reply\b", text, re.IGNORECASE) is not None


def _why(text: str) -> str:
    if is_refusal(text):
        return "the model refused"
    return "the reply is an error message" if is_error(text) else "the reply is no list of facts"
