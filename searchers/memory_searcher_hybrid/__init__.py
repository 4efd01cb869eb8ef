"""The searcher `hybrid`: several searchers side by side, their rankings made into one."""

from typing import Any, Literal

from pydantic import Field, field_validator

from memory_core.options import USER_ONLY, Options
from memory_core.plugins import hookimpl

NAME = "hybrid"


class HybridOptions(Options):
    """`[searchers.hybrid]`.

    `arms` are searchers by name; `fusion` is `"union"` (scores; the default), `"minmax"` or `"rrf"` (ranks).
    `dense_weight` is the share of the dense arms in the score, `depth` how many candidates each arm gives: never fewer
    than twice what is asked for, nor than are reranked.

    Dense arms follow in the background: a search waits at most `wait_ms` for them, `close` at most `drain_timeout_s`.
    An arm that does not answer within `arm_timeout_s` is left out, and not asked again for a while.

    Optional stages, in this order: `rerank_model` (a cross-encoder of sentence-transformers, by name or local path)
    scores the best `rerank_depth` anew; `half_life_days` takes up to `recency_weight` off the score of what is old;
    `diversity` (0..1) moves what repeats a better hit further down.
    """

    arms: list[str] = Field(default=["fulltext", "numpy"], min_length=1, max_length=8)
    fusion: Literal["union", "minmax", "rrf"] = "union"
    dense_weight: float = Field(default=0.4, ge=0, le=1)
    depth: int = Field(default=20, ge=1, le=1000)
    wait_ms: int = Field(default=250, ge=0)
    drain_timeout_s: float = Field(default=60.0, ge=0)
    arm_timeout_s: float = Field(default=10.0, gt=0)
    rerank_model: str | None = Field(default=None, json_schema_extra=USER_ONLY)
    rerank_depth: int = Field(default=30, ge=1, le=200)
    half_life_days: float | None = Field(default=None, gt=0)
    recency_weight: float = Field(default=0.2, ge=0, le=1)
    diversity: float = Field(default=0.0, ge=0, lt=1)

    @field_validator("arms")
    @classmethod
    def _different(cls, value: list[str]) -> list[str]:
        if len(set(value)) < len(value):
            raise ValueError("an arm is named twice")
        return value


def build(options: HybridOptions, context: Any) -> Any:
    """Build the searcher; the implementation is imported only now."""
    from memory_searcher_hybrid.searcher import build_hybrid

    return build_hybrid(options, context)


@hookimpl
def register_backends(register: Any) -> None:
    """Register the searcher `hybrid`."""
    register.searcher(NAME, build, HybridOptions)


__all__ = ["NAME", "HybridOptions"]
