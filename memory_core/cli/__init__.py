"""The command `memory-core`."""


def main() -> None:
    """Run the command line and exit; never ends in a traceback unless `--debug` asks for one."""
    try:
        from memory_core.cli.run import run
    except KeyboardInterrupt:  # while modules are still being loaded
        raise SystemExit(130) from None

    raise SystemExit(run())
