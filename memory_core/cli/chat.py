"""`chat`: talk to an agent with a memory in the terminal."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from memory_core.cli.output import headline, indented, say
from memory_core.cli.state import State, pass_state, shared_options

if TYPE_CHECKING:
    from memory_core.harness import HarnessEngine

SCRIPTED = "scripted"
_HELP = """/memories        what is remembered
/forget KEY      forget one of them
/inject [TEXT]   what the prompt gets when you say TEXT
/help            this list
/quit            the end (so does the end of the input)"""


@click.command()
@click.option(
    "--model",
    metavar="NAME",
    help="`openai:gpt-4.1-mini` or another `provider:model`; a plain name with --base-url; or `scripted`.",
)
@click.option("--base-url", metavar="URL", help="A server that speaks OpenAI's chat API, up to and including /v1.")
@click.option("--session", "session_id", default="chat", show_default=True, help="The session to go on with.")
@click.option("--no-ledger", is_flag=True, help="Without the ledger: no flush after a reply.")
@shared_options("cwd", "user")
@pass_state
def chat(state: State, *, model: str | None, base_url: str | None, session_id: str, no_ledger: bool) -> None:
    """Talk to an agent that remembers.

    Without a key, `--model scripted` is a built-in demonstration that needs no network: tell it
    `remember: I prefer vim`, start again, and ask `which editor do I prefer?`.

    \b
    memory-core chat --model scripted
    memory-core chat --model openai:gpt-4.1-mini
    memory-core chat --model qwen3 --base-url http://localhost:11434/v1
    """
    from memory_core.harness import HarnessEngine  # says what is missing when pydantic-ai is not installed

    chosen = _model(model, base_url)
    overrides = state.overrides()
    # The demonstration model extracts nothing, so that a ledger would only hold its failures.
    ledger = not no_ledger and model != SCRIPTED
    engine = HarnessEngine(state.workspace, model=chosen, user_id=state.user, ledger=ledger, overrides=overrides)
    with engine:
        say(f"Session {session_id!r}. /help lists the commands.")
        while (line := _read()) is not None:
            if line.startswith("/"):
                if not _command(engine, state, line):
                    break
            elif line:
                _ask(engine, session_id, line)
    for failure in engine.background.failures:
        say(f"After a reply: {failure.job}: {failure.reason}")


def _read() -> str | None:
    try:
        return str(click.prompt(">", prompt_suffix=" ", default="", show_default=False)).strip()
    except click.Abort:
        say()
        return None


def _ask(engine: "HarnessEngine", session_id: str, line: str) -> None:
    from pydantic_ai.exceptions import AgentRunError

    try:
        say(str(engine.prompt_sync(line, session=session_id)))
    except AgentRunError as error:
        say(f"The model did not answer: {error}")


def _command(engine: "HarnessEngine", state: State, line: str) -> bool:
    name, _, rest = line.partition(" ")
    commands: dict[str, Callable[[HarnessEngine, State, str], None]] = {
        "/memories": _memories,
        "/forget": _forget,
        "/inject": _inject,
    }
    if name in ("/quit", "/exit"):
        return False
    if name in commands:
        commands[name](engine, state, rest.strip())
    else:
        say(_HELP if name == "/help" else f"There is no command {name}.\n{_HELP}")
    return True


def _memories(engine: "HarnessEngine", state: State, rest: str) -> None:
    del rest
    entries = engine.memory_talent.provider.get(engine.workspace).list_all(user_id=state.user_id)
    for entry in entries:
        say(headline(entry))
    if not entries:
        say("Nothing is remembered yet.")


def _forget(engine: "HarnessEngine", state: State, rest: str) -> None:
    if not rest:
        say("Say which: /forget KEY")
        return
    scopes = engine.memory_talent.provider.get(engine.workspace).forget(rest, user_id=state.user_id)
    say(f"Forgotten: {rest} ({', '.join(scopes)})" if scopes else f"There is no memory with the key {rest}.")


def _inject(engine: "HarnessEngine", state: State, rest: str) -> None:
    from memory_core.harness import RunScope
    from memory_core.harness.capabilities import session_of, talent_for

    scope = RunScope(str(engine.workspace), None, state.user)
    talent = talent_for(engine.memory_talent, scope)
    say(indented(talent.instruction(rest, cwd=engine.workspace, session_id=session_of(scope))))


def _model(name: str | None, base_url: str | None) -> Any:
    from memory_core.errors import ConfigError, MissingExtraError

    if name is None:
        raise ConfigError(
            "Which model? --model openai:gpt-4.1-mini needs OPENAI_API_KEY; --model NAME --base-url URL talks to any "
            "server with OpenAI's chat API; --model scripted is a demonstration that needs neither."
        )
    if name == SCRIPTED:
        from memory_core.harness.scripted import scripted_model

        return scripted_model()
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    try:
        if base_url is not None:
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.providers.openai import OpenAIProvider

            key = os.environ.get("OPENAI_API_KEY") or "none"  # servers on one's own machine often need none
            return OpenAIChatModel(name, provider=OpenAIProvider(base_url=base_url, api_key=key))
        return infer_model(name)
    except ImportError as error:
        raise MissingExtraError(
            f"The model {name!r} needs a package that is not installed ({error}): pip install 'memory-talent[harness]'."
        ) from error
    except (UserError, ValueError) as error:
        raise ConfigError(f"{error} Or try --model scripted, which needs neither key nor network.") from error
