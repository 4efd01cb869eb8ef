# `just` runs the checks of a change; `.ci/run` runs them from nothing.
default: lint test

lint:
    ruff format --check .
    ruff check .
    mypy
    mypy tests benchmarks
    pyright

test *args:
    pytest {{args}}

format:
    ruff format .
    ruff check --fix .

bench:
    python benchmarks/core.py
    python benchmarks/stores.py
