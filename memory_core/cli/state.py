"""What the commands share: the global options, and the provider that is opened when a command needs it."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from memory_core.config import Loaded
    from memory_core.contracts import MemorySolution, MemorySolutionProvider


@dataclass(slots=True)
class State:
    """The options in force, and what was opened on their behalf; `close` closes it."""

    cwd: Path | None = None
    config_file: Path | None = None
    user: str | None = None
    scope: str | None = None
    provider: str | None = None
    storer: str | None = None
    searcher: str | None = None
    as_json: bool = False
    _opened: "list[MemorySolutionProvider]" = field(default_factory=list[Any])

    @property
    def user_id(self) -> str:
        """Whose memories are meant."""
        from memory_core.model import SHARED_USER_ID

        return SHARED_USER_ID if self.user is None else self.user

    @property
    def workspace(self) -> Path:
        """The working directory whose memories are meant."""
        from memory_core.errors import ConfigError

        path = self.cwd or Path()
        if not path.is_dir():
            raise ConfigError(f"There is no directory {path}: give an existing one to --cwd.")
        return path

    def overrides(self, **others: str | None) -> dict[str, Any]:
        """Return the settings that the command line sets."""
        given = {"provider": self.provider, "storer": self.storer, "searcher": self.searcher, **others}
        return {name: value for name, value in given.items() if value is not None}

    def load(self) -> "Loaded":
        """Read the configuration without opening anything."""
        from memory_core.config import load_settings

        return load_settings(self.workspace, self.config_file, self.overrides())

    def open_provider(self, **others: str | None) -> "MemorySolutionProvider":
        """Open the configured provider, with `others` set differently; `close` closes it."""
        from memory_core.loading import load_provider

        provider = load_provider(self.workspace, config_file=self.config_file, overrides=self.overrides(**others))
        self._opened.append(provider)
        return provider

    def open(self, **others: str | None) -> "MemorySolution":
        """Open the solution of the workspace."""
        return self.open_provider(**others).get(self.workspace)

    def open_following(self) -> "MemorySolution":
        """Open the solution with its index up to the store; a bar is shown while that takes long."""
        from memory_core.cli.progress import progress_bar

        solution = self.open()
        with progress_bar("Indexing") as progress:
            solution.sync(self.user_id, progress)
        return solution

    def close(self) -> None:
        """Close what was opened."""
        while self._opened:
            self._opened.pop().close()


pass_state = click.make_pass_decorator(State, ensure=True)


def apply_option(state: State, name: str, value: object) -> None:
    """Take an option over into the state, when it was given."""
    if value is not None and value is not False:
        setattr(state, name, value)


def _shared(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def take(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        apply_option(ctx.ensure_object(State), name, value)

    return take


_OPTIONS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "cwd": click.option(
        "--cwd", type=click.Path(path_type=Path), expose_value=False, callback=_shared("cwd"), help="The workspace."
    ),
    "user": click.option("--user", metavar="ID", expose_value=False, callback=_shared("user"), help="Whose memories."),
    "scope": click.option(
        "--scope", metavar="NAME", expose_value=False, callback=_shared("scope"), help="Only this scope."
    ),
    "storer": click.option(
        "--storer", metavar="NAME", expose_value=False, callback=_shared("storer"), help="Use this store."
    ),
    "searcher": click.option(
        "--searcher", metavar="NAME", expose_value=False, callback=_shared("searcher"), help="Use this searcher."
    ),
    "json": click.option("--json", is_flag=True, expose_value=False, callback=_shared("as_json"), help="Print JSON."),
}


def shared_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Accept these global options after the command too: `cwd`, `user`, `scope`, `storer`, `searcher`, `json`.

    A user or a scope that was given before a command that knows none is refused: whoever names one must not be shown,
    or change, what belongs to others.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any, **options: Any) -> Any:
            ctx = click.get_current_context()
            state = ctx.ensure_object(State)
            for name, value in (("user", state.user), ("scope", state.scope)):
                if value is not None and name not in names:
                    raise click.UsageError(f"`{ctx.command_path}` takes no --{name}.", ctx)
            return command(*args, **options)

        taken: Callable[..., Any] = update_wrapper(checked, command)
        for name in reversed(names):
            taken = _OPTIONS[name](taken)
        return taken

    return decorate


class TextType(click.ParamType[str]):
    """Text that can be stored: bytes that are not UTF-8 in the command line are refused with a sentence."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text unchanged."""
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail("it is not valid UTF-8", param, ctx)
        return text


TEXT = TextType()


def read_stdin() -> str:
    """Return the text on standard input.

    Raises:
        InvalidEntryError: It is not UTF-8.

    """
    from memory_core.errors import InvalidEntryError

    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidEntryError(f"Standard input is not UTF-8 text (byte {error.start}).") from error
