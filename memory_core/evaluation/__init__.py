"""Measures how well searchers find: labelled sets, the usual measures, and a runner. Needs the extra `bench`."""

from memory_core.evaluation.datasets import Dataset, Document, Question, load_dataset
from memory_core.evaluation.metrics import MEASURES, Scores, measure
from memory_core.evaluation.runner import Result, evaluate, open_searcher

__all__ = [
    "MEASURES",
    "Dataset",
    "Document",
    "Question",
    "Result",
    "Scores",
    "evaluate",
    "load_dataset",
    "measure",
    "open_searcher",
]
