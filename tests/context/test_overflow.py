"""Real wordings of real providers, and what resembles them but is something else."""

from pathlib import Path

import pytest

from memory_core.context.overflow import WORDINGS, is_overflow

ROWS = [
    tuple(line.split("\t"))
    for line in Path(__file__).with_name("wordings.tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
OVERFLOWS = [(provider, text) for overflow, provider, text in ROWS if overflow == "yes"]
OTHERS = [(provider, text) for overflow, provider, text in ROWS if overflow == "no"]


@pytest.mark.parametrize(("provider", "text"), OVERFLOWS)
def test_an_overflow_is_recognised_as_its_provider_words_it(provider: str, text: str) -> None:
    assert is_overflow(text), provider
    assert is_overflow(RuntimeError(text))
    assert is_overflow(text.upper()), "case does not matter"


@pytest.mark.parametrize(("provider", "text"), OTHERS)
def test_what_compaction_cannot_help_is_no_overflow(provider: str, text: str) -> None:
    assert not is_overflow(text), provider
    assert not is_overflow(RuntimeError(text))


def test_every_row_of_the_table_is_needed_and_tested() -> None:
    for wording in WORDINGS:
        assert any(wording.pattern.search(text.lower()) for _, text in OVERFLOWS), wording.providers


class ModelRequestRejectedError(Exception):
    """As pydantic-ai has it."""


class ModelContextWindowExceededError(ModelRequestRejectedError):
    """As pydantic-ai has it: known by its name, also in subclasses, without importing pydantic-ai."""


class HTTPError(Exception):
    def __init__(self, body: object = None, **attributes: object) -> None:
        super().__init__("status_code: 400")
        self.body = body
        for name, value in attributes.items():
            setattr(self, name, value)


def test_types_are_known_by_name() -> None:
    class _HTTPVariant(ModelContextWindowExceededError):
        pass

    assert is_overflow(ModelContextWindowExceededError("400"))
    assert is_overflow(_HTTPVariant("400"))
    assert not is_overflow(ModelRequestRejectedError("400"))


def test_pydantic_ais_own_error_is_known() -> None:
    exceptions = pytest.importorskip("pydantic_ai.exceptions", reason="pydantic-ai is not installed")
    assert is_overflow(exceptions.ModelContextWindowExceededError("some-model", "too long"))
    assert is_overflow(
        exceptions.ModelHTTPError(400, "m", {"error": {"message": "prompt is too long: 2 tokens > 1 maximum"}})
    )
    assert not is_overflow(
        exceptions.ModelHTTPError(429, "m", {"error": {"message": "Rate limit: too many tokens per minute"}})
    )


@pytest.mark.parametrize(
    "error",
    [
        HTTPError({"error": {"code": "context_length_exceeded"}}),
        HTTPError({"object": "error", "code": "3051"}),
        HTTPError({"error": {"code": 1261}}),
        HTTPError(code="context_length_exceeded"),
        HTTPError(provider_error_type="exceed_context_size_error"),
        HTTPError("prompt is too long: 5 tokens > 4 maximum"),
        {"choices": [], "error": {"type": "request_too_large"}},
        {"stop_reason": "model_context_window_exceeded"},
    ],
)
def test_codes_count_wherever_they_stand(error: object) -> None:
    assert is_overflow(error)


def test_causes_and_groups_are_looked_at() -> None:
    wrapped = RuntimeError("the agent failed")
    wrapped.__cause__ = ValueError("prompt is too long: 5 tokens > 4 maximum")
    assert is_overflow(wrapped)
    assert is_overflow(ExceptionGroup("several", [KeyError("x"), wrapped]))
    during = RuntimeError("while cleaning up")
    during.__context__ = wrapped
    assert is_overflow(during)
    during.__suppress_context__ = True
    assert not is_overflow(during)
    loop = RuntimeError("round and round")
    loop.__cause__ = loop
    assert not is_overflow(loop)
    assert not is_overflow(None)
    assert not is_overflow("")
    assert not is_overflow(HTTPError(code=True))
