"""`bench`: how well and how fast the backends are here, on one's own data and machine."""

import importlib

import click

COMMANDS: dict[str, str] = {
    "quality": "memory_core.cli.bench_quality:quality",
    "speed": "memory_core.cli.bench_speed:speed",
    "long-run": "memory_core.cli.bench_long_run:long_run",
}


class BenchGroup(click.Group):
    """Imports a benchmark's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the benchmarks in the order of `COMMANDS`."""
        del ctx
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a benchmark's command, None for an unknown name."""
        del ctx
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, name = target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the benchmark; a misspelt one is answered with the nearest name."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            from memory_core.errors import did_you_mean

            raise click.UsageError(f"There is no benchmark {name!r}.{did_you_mean(name, list(COMMANDS))}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=BenchGroup)
def bench() -> None:
    """Measure the backends on your own data and machine.

    Needs more packages: pip install 'memory-talent[bench]'.

    \b
    memory-core bench quality --own
    memory-core bench quality --data sets/ --searchers fulltext,hybrid --html report.html
    """
