"""Writes docs/benchmarks.md from the JSON of the benchmarks; `python benchmarks/report.py` is the command."""
