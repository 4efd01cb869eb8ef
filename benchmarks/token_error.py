"""How far the token estimate is off: `python benchmarks/token_error.py [--data DIR] [--json FILE]`.

The measure is the vocabulary o200k; a tokenizer that has it is needed: `pip install bpe-openai`, whose wheel contains
it, or tiktoken, which downloads it. English and Chinese are samples of the evaluation data in DIR (default
`../shared/data`; skipped when it is not there), code is Python's own standard library, JSON are records of both
languages and a package lock as tools return them. For each kind: tokens a character, the error over the whole, and the
5th, 50th and 95th percentile of the error of single texts. Positive means that the estimate is too high.
"""

import argparse
import gzip
import json
import random
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memory_core.text import estimate_tokens

SAMPLE = 150
MOST_CHARS = 8_000


@dataclass
class Row:
    """The error for one kind of text, as shares of the true count."""

    kind: str
    texts: int
    chars: int
    tokens_per_char: float
    total: float
    p5: float
    p50: float
    p95: float


def o200k() -> Callable[[str], int]:
    """Return a counter over the o200k vocabulary.

    Raises:
        SystemExit: No tokenizer that has it is installed.
    """
    for package in ("bpe_openai", "tiktoken"):
        try:
            codec: Any = __import__(package).get_encoding("o200k_base")
            codec.encode("ready")
        except Exception as error:  # noqa: BLE001 - not installed, or its vocabulary cannot be downloaded
            print(f"{package}: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
            continue
        print(f"vocabulary: o200k_base from {package}")
        return lambda text: len(codec.encode(text, disallowed_special=()))
    raise SystemExit("No tokenizer with the o200k vocabulary is installed: pip install bpe-openai")


def corpus(folder: Path) -> list[str]:
    """Return a fixed sample of a data set's texts."""
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [text for line in lines if (text := json.loads(line).get("text"))]
    random.Random(0).shuffle(texts)
    return [text[:MOST_CHARS] for text in texts[:SAMPLE]]


def pages(rows: list[dict[str, Any]]) -> list[str]:
    """Return the rows as JSON, ten to a text, as tools print them."""
    return [json.dumps(rows[i : i + 10], ensure_ascii=False, indent=2) for i in range(0, len(rows), 10)]


def kinds(data: Path) -> dict[str, list[str]]:
    """Return the samples by kind; what is not there is named and left out."""
    samples: dict[str, list[str]] = {}
    for kind, name in (
        ("English prose (scifact)", "scifact"),
        ("English chat (locomo)", "locomo"),
        ("English chat (longmemeval)", "longmemeval_turns"),
        ("Chinese prose (cmrc2018)", "cmrc2018"),
        ("Chinese sentences (cmrc_sent)", "cmrc_sent"),
    ):
        if (data / name).is_dir():
            samples[kind] = corpus(data / name)
        else:
            print(f"skipped: {kind}: {data / name} is not there", file=sys.stderr)
    sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    random.Random(0).shuffle(sources)
    samples["Python code (standard library)"] = [
        place.read_text("utf-8", "replace")[:MOST_CHARS] for place in sources[:60]
    ]
    for kind in [name for name in samples if "prose" in name]:
        rows = [
            {"id": f"doc-{i:06d}", "score": round(1 / (i + 1), 4), "text": text[:200], "tags": ["a", "b"]}
            for i, text in enumerate(samples[kind])
        ]
        samples[f"JSON records, {kind.split()[0]} text"] = pages(rows)
    source = random.Random(0)
    lock = [
        {"name": f"package-{i}", "version": f"{source.randrange(9)}.{source.randrange(40)}.{source.randrange(20)}",
         "hash": f"sha256:{source.getrandbits(256):064x}", "size": source.randrange(10**6)}
        for i in range(200)
    ]  # fmt: skip
    samples["JSON lock file, hashes"] = pages(lock)
    return samples


def error(kind: str, texts: list[str], count: Callable[[str], int]) -> Row:
    """Compare the estimate with the true counts."""
    true = [count(text) for text in texts]
    estimated = [estimate_tokens(text) for text in texts]
    shares = sorted(guess / real - 1 for guess, real in zip(estimated, true, strict=True) if real)
    chars = sum(map(len, texts))
    at = [shares[min(len(shares) - 1, int(len(shares) * share))] for share in (0.05, 0.5, 0.95)]
    return Row(kind, len(texts), chars, sum(true) / chars, sum(estimated) / sum(true) - 1, *at)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where the data sets are")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    count = o200k()
    rows = [error(kind, texts, count) for kind, texts in kinds(arguments.data).items()]
    print(f"{'kind':32} {'texts':>5} {'chars':>8} {'tok/char':>8} {'total':>7} {'p5':>5} {'p50':>5} {'p95':>5}")
    for row in rows:
        print(
            f"{row.kind:32} {row.texts:5} {row.chars:8} {row.tokens_per_char:8.3f} {row.total:+7.1%} "
            f"{row.p5:+5.0%} {row.p50:+5.0%} {row.p95:+5.0%}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
