"""Small labelled sets for the tests."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
"""The labelled sets beside the repository, where there are some."""

Rows = Sequence[dict[str, Any]]

DOCUMENTS: Rows = [
    {"id": "a1", "text": "likes coffee", "meta": {"scope": "a"}},
    {"id": "a2", "text": "plays chess", "meta": {"scope": "a"}},
    {"id": "b1", "text": "coffee coffee coffee", "meta": {"scope": "b"}},
    {"id": "b2", "text": " ", "meta": {"scope": "b"}},
]
QUESTIONS: Rows = [
    {"id": "q1", "text": "who likes coffee?", "meta": {"scope": "a", "type": "taste"}},
    {"id": "q2", "text": "chess", "meta": {"scope": "a", "category": 4}},
    {"id": "unlabelled", "text": "nothing", "meta": {"scope": "a"}},
]
LABELS = "q1\ta1\t1\nq1\ta2\t0\nq2\ta2\t1\n"


def write_set(
    folder: Path, documents: Rows = DOCUMENTS, questions: Rows = QUESTIONS, labels: str = LABELS, *, packed: bool = True
) -> Path:
    folder.mkdir()
    for name, rows in (("corpus", documents), ("queries", questions)):
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path = folder / (f"{name}.jsonl.gz" if packed else f"{name}.jsonl")
        path.write_bytes(gzip.compress(text) if packed else text)
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + labels)
    return folder
