"""`bench quality`: how well the searchers find, on labelled sets."""

import tempfile
from pathlib import Path

import click

from memory_core.cli.output import say


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, help="A labelled set, or a directory of sets.")
@click.option("--searchers", default="fulltext,whoosh,lancedb,hybrid", show_default=True, help="Which to compare.")
def quality(data: Path, searchers: str) -> None:
    """Measure how well searchers find what a labelled set says is right.

    \b
    memory-core bench quality --data sets/locomo --searchers fulltext,hybrid
    """
    from memory_core.evaluation import evaluate, load_dataset, open_searcher

    for name in searchers.split(","):
        with tempfile.TemporaryDirectory() as folder:
            searcher = open_searcher(name, Path(folder), {"embedder": "static"})
            try:
                result = evaluate(searcher, load_dataset(data), name)
            finally:
                searcher.close()
        say(f"{name:10} {result.scores['nDCG@10']:.4f}")
