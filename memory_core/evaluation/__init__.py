"""Measures how well searchers find: labelled sets, the usual measures, and a runner. Needs the extra `bench`."""

from memory_core.evaluation.datasets import Dataset, Document, Question, find_sets, load_dataset
from memory_core.evaluation.metrics import MEASURES, Scores, measure, measure_each
from memory_core.evaluation.opening import open_searcher, open_solution
from memory_core.evaluation.runner import Result, evaluate, evaluate_solution

__all__ = [
    "MEASURES",
    "Dataset",
    "Document",
    "Question",
    "Result",
    "Scores",
    "evaluate",
    "evaluate_solution",
    "find_sets",
    "load_dataset",
    "measure",
    "measure_each",
    "open_searcher",
    "open_solution",
]
