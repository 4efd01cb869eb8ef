"""The command group: global options, and commands that are imported when they are needed."""

import importlib
import logging
from pathlib import Path
from typing import Any

import click

from memory_core.cli.output import one_line
from memory_core.cli.state import State, apply_option

COMMANDS = {
    "remember": "memory_core.cli.memories:remember",
    "recall": "memory_core.cli.memories:recall",
    "search": "memory_core.cli.memories:search",
    "list": "memory_core.cli.memories:list_memories",
    "forget": "memory_core.cli.memories:forget",
    "consolidate": "memory_core.cli.memories:consolidate",
    "inject": "memory_core.cli.memories:inject",
    "export": "memory_core.cli.transfer:export",
    "import": "memory_core.cli.transfer:import_memories",
    "migrate": "memory_core.cli.transfer:migrate",
    "reindex": "memory_core.cli.transfer:reindex",
    "embed": "memory_core.cli.embed:embed",
    "ledger": "memory_core.cli.ledger:ledger",
    "mcp": "memory_core.cli.mcp:mcp",
    "chat": "memory_core.cli.chat:chat",
    "doctor": "memory_core.cli.doctor:doctor",
    "bench": "memory_core.cli.bench:bench",
    "plugins": "memory_core.cli.plugins:plugins",
    "config": "memory_core.cli.config:config",
    "quickstart": "memory_core.cli.quickstart:quickstart",
}


class LazyGroup(click.Group):
    """Imports a command's module when the command is asked for; plugins' commands come last and only on demand."""

    plugins_asked = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return our commands in the order of `COMMANDS`, then those of plugins."""
        self._ask_plugins()
        return [*COMMANDS, *sorted(name for name in super().list_commands(ctx) if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of ours, or one that a plugin adds."""
        target = COMMANDS.get(cmd_name)
        if target is None:
            self._ask_plugins()
            return super().get_command(ctx, cmd_name)
        module, _, name = target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a misspelt one is answered with the nearest name."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            from memory_core.errors import did_you_mean

            raise click.UsageError(f"There is no command {name!r}.{did_you_mean(name, self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)

    def _ask_plugins(self) -> None:
        """Let each plugin add commands; one that fails is named and breaks nothing."""
        if self.plugins_asked:
            return
        self.plugins_asked = True
        from memory_core.plugins import get_registry

        for plugin, hook in get_registry().hooks("register_commands"):
            before = dict(self.commands)
            try:
                hook(cli=self)
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything
                self.commands = before
                click.echo(one_line(f"The plugin {plugin!r} could not add its commands: {error}"), err=True)
                continue
            for name in self.commands.keys() & COMMANDS.keys():
                del self.commands[name]
                click.echo(f"The plugin {plugin!r} may not replace the command {name!r}.", err=True)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--cwd", type=click.Path(path_type=Path), help="The workspace whose memories are meant; by default here.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Use this configuration file.")
@click.option("--user", metavar="ID", help="Whose memories are meant; by default everybody's (`shared`).")
@click.option("--scope", metavar="NAME", help="Only this scope, such as `workspace` or `user`.")
@click.option("--provider", metavar="NAME", help="Use this provider instead of the configured one.")
@click.option("--storer", metavar="NAME", help="Use this store instead of the configured one.")
@click.option("--searcher", metavar="NAME", help="Use this searcher instead of the configured one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--verbose", is_flag=True, help="Print what the library logs.")
@click.option("--debug", is_flag=True, help="Print the traceback of an error too.")
@click.version_option(None, "-V", "--version", package_name="memory-talent", message="memory-core %(version)s")
@click.pass_context
def cli(ctx: click.Context, /, verbose: bool, debug: bool, **options: Any) -> None:
    """Long-term memory for agents and people.

    \b
    memory-core quickstart                      a tour in a temporary directory
    memory-core remember editor "Prefers vim"   store a memory
    memory-core search "which editor?"          find it
    memory-core doctor                          is everything well?

    Options such as --cwd, --user, --scope and --json may stand before or after the command.
    """
    del debug  # looked at in `run`, before there is a context
    state = ctx.ensure_object(State)
    for name, value in options.items():
        apply_option(state, name, value)
    logging.basicConfig(level=logging.INFO if verbose else logging.ERROR, format="%(name)s: %(message)s", force=verbose)
    ctx.call_on_close(state.close)
