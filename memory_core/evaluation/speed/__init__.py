"""How fast each store is with each searcher, over the number of memories: measured in processes of their own."""

from memory_core.evaluation.speed.cells import run_cells
from memory_core.evaluation.speed.growth import Limit, exponents, limits
from memory_core.evaluation.speed.plan import Cell, Plan, Repeats
from memory_core.evaluation.speed.report import csv_text, html_report, report_json, table

__all__ = [
    "Cell",
    "Limit",
    "Plan",
    "Repeats",
    "csv_text",
    "exponents",
    "html_report",
    "limits",
    "report_json",
    "run_cells",
    "table",
]
