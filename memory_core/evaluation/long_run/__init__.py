"""The long run: a day in the life of a store and an index, with several processes, checked against a model."""

from memory_core.evaluation.long_run.history import Fault, History, Seen, Write
from memory_core.evaluation.long_run.report import Outcome, report_json, table
from memory_core.evaluation.long_run.run import LongRun, run_pair

__all__ = ["Fault", "History", "LongRun", "Outcome", "Seen", "Write", "report_json", "run_pair", "table"]
