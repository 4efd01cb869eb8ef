"""`python -m memory_core.cli`: the command line without its script."""

from memory_core.cli import main

main()
