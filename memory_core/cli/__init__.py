"""The command `memory-core`."""


def main() -> None:
    """Run the command line and exit; never ends in a traceback unless `--debug` asks for one."""
    from memory_core.cli.run import run

    raise SystemExit(run())
