"""Runs the command line and turns whatever goes wrong into one sentence on stderr and an exit code.

Exit codes: 0 done, 1 it failed or was not found, 2 the command line itself is wrong, 130 interrupted. When the
reader of our output goes away (`memory-core list | head`), the command ends silently with 1.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from memory_core.cli.app import cli
from memory_core.cli.output import one_line
from memory_core.errors import MemoryCoreError

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
PROGRAM = "memory-core"
_ASKS_FOR_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""What a group without a command raises since click 8.2; its message is the whole help."""


def run(args: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        args: The arguments without the program's name; by default those of this process.

    """
    words = list(sys.argv[1:] if args is None else args)
    _tolerant_output()
    try:
        result = cli.main(words, prog_name=PROGRAM, standalone_mode=False)
        if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison] - closed before we started
            sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        if isinstance(error, _ASKS_FOR_HELP):
            error.show()
            return WRONG_USAGE
        _complain(_usage(error))
        return WRONG_USAGE
    except click.ClickException as error:
        _complain(error.format_message())
        return FAILED
    except (KeyboardInterrupt, click.Abort, EOFError):
        _complain("Interrupted; what was reported as stored is stored.")
        return INTERRUPTED
    except SystemExit:  # so click ends when the reader went away
        _silence_stdout()
        return FAILED
    except BrokenPipeError:
        _silence_stdout()
        return FAILED
    except MemoryCoreError as error:
        return _failed(str(error), words)
    except OSError as error:
        return _failed(_os_error(error), words)
    except RecursionError:
        return _failed("The input is nested too deeply.", words)
    except MemoryError:
        return _failed("There is not enough memory for this.", words)
    except Exception as error:  # noqa: BLE001 - the last line of defence: a sentence instead of a traceback
        return _failed(
            f"Unexpected {type(error).__name__}: {error}. Please report it, with the output of `{PROGRAM} --debug …`.",
            words,
        )
    return result if isinstance(result, int) else 0


def _failed(sentence: str, words: Sequence[str]) -> int:
    if "--debug" in words:
        import traceback

        traceback.print_exc()
    _complain(sentence)
    return FAILED


def _complain(sentence: str) -> None:
    try:
        click.echo(f"{PROGRAM}: {one_line(sentence)}", err=True)
    except OSError:
        return  # nobody reads stderr either; the exit code says it


def _usage(error: click.UsageError) -> str:
    where = error.ctx.command_path if error.ctx is not None else PROGRAM
    message = error.format_message()
    return f"{message if message.endswith(('.', '?', '!')) else f'{message}.'} See `{where} --help`."


def _os_error(error: OSError) -> str:
    what = error.strerror or str(error) or type(error).__name__
    return f"{what}: {os.fsdecode(error.filename)}" if error.filename is not None else f"The system says: {what}."


def _tolerant_output() -> None:
    """Let no character that the terminal's encoding lacks stop a command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _silence_stdout() -> None:
    """Keep the interpreter from complaining about the closed pipe once more when it exits."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return  # stdout is not a real file: nothing will be flushed into it
