"""The provider in the hands of Hermes's own discovery, memory manager and model client."""

import importlib
import json
import logging
import threading
from collections.abc import Generator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_core.adapters import hermes as hermes_module
from memory_core.adapters.hermes import HermesMemory
from memory_core.adapters.hermes_flush import MAX_KEPT, FlushWorker
from memory_core.adapters.hermes_messages import MAX_SEEN, Seen, readable, turn_of
from memory_core.adapters.hermes_options import HermesOptions, load_options, options_file, save_options
from memory_core.adapters.hermes_plugin import install, main
from memory_core.adapters.hermes_serving import Serving, identity
from memory_core.errors import ConfigError
from memory_core.ledger import FlushTrigger, Ledger, MemoryConfig
from memory_core.sessions import user_message
from memory_core.testing import FakeModel
from tests.harness.chat_server import ChatServer, Request, Say
from tests.support.hermes_package import hermes_folder, importable

TOOLS = {
    "memory_extract",
    "memory_recall",
    "memory_search",
    "memory_consolidate",
    "memory_prune",
    "memory_get",
    "memory_save",
}
HOURLY = MemoryConfig(flush_trigger=FlushTrigger.throttled(timedelta(hours=1)))
TURN: list[dict[str, Any]] = [
    {"role": "user", "content": "I moved to Ulm.", "timestamp": 1.0},
    {
        "role": "assistant",
        "content": "",
        "reasoning": "hm",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "rain in Ulm"},
    {"role": "assistant", "content": "It rains there."},
]


@pytest.fixture(scope="module")
def package() -> Iterator[None]:
    with importable(hermes_folder()):
        yield


@pytest.fixture(scope="module")
def one_server() -> Iterator[ChatServer]:
    """Hermes keeps its client, and with it the address, for the whole process."""

    def script(request: Request) -> Say:
        return Say("- Lives in Ulm")

    server = ChatServer(script)
    yield server
    server.close()


@pytest.fixture
def server(one_server: ChatServer) -> ChatServer:
    one_server.requests.clear()
    return one_server


@pytest.fixture
def hermes_home(package: None, home: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = home / ".hermes"
    install(folder)
    (folder / "config.yaml").write_text(
        f"memory:\n  provider: memory_core\n"
        f"model:\n  provider: custom\n  default: scripted\n  base_url: {server.base_url}\n  api_key: none\n"
    )
    monkeypatch.setenv("HERMES_HOME", str(folder))
    return folder


@pytest.fixture
def manager(hermes_home: Path) -> Iterator[Any]:
    manager = made()
    yield manager
    manager.shutdown_all()


def made(model: Any = None) -> Any:
    """Return Hermes's manager with the provider that Hermes found."""
    manager = importlib.import_module("agent.memory_manager").MemoryManager()
    provider = importlib.import_module("plugins.memory").load_memory_provider("memory_core")
    if model is not None:
        provider._model = model
    manager.add_provider(provider)
    return manager


def call(manager: Any, name: str, **arguments: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(manager.handle_tool_call(name, arguments))
    return answer


def written(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob("memory/*.md")))


class Gate:
    """A model that answers when it is let."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.asked = threading.Event()

    async def complete(self, system: str, user: str, max_output_tokens: int) -> Any:
        import asyncio

        from memory_core.contracts import ModelReply

        self.asked.set()
        await asyncio.to_thread(self.open.wait, 20)
        return ModelReply("- Lives in Ulm")


@pytest.fixture
def gate() -> Generator[Gate, None, None]:
    gate = Gate()
    yield gate
    gate.open.set()


def test_hermes_finds_the_folder_and_makes_one_of_its_providers(hermes_home: Path) -> None:
    plugins = importlib.import_module("plugins.memory")
    [found] = [row for row in plugins.discover_memory_providers() if row[0] == "memory_core"]
    assert "keyed memories" in found[1]
    assert found[2] is True
    first, second = (plugins.load_memory_provider("memory_core") for _ in range(2))
    assert isinstance(first, importlib.import_module("agent.memory_provider").MemoryProvider)
    assert isinstance(first, HermesMemory)
    assert first is not second  # each agent has its own


def test_every_hook_of_hermes_is_there_and_takes_what_hermes_gives(package: None) -> None:
    base = importlib.import_module("agent.memory_provider").MemoryProvider
    assert not {name for name in base.__abstractmethods__ if not hasattr(HermesMemory, name)}
    ours = {name for name in vars(HermesMemory) if not name.startswith("_")}
    theirs: set[str] = set(dir(base))
    assert ours <= theirs  # a hook that Hermes renames is noticed here


def test_a_fact_is_stored_by_a_tool_and_injected_before_the_next_turn(manager: Any, hermes_home: Path) -> None:
    manager.initialize_all("s1", platform="cli", agent_context="primary")
    assert manager.get_all_tool_names() == TOOLS
    assert {schema["name"] for schema in manager.get_all_tool_schemas()} == TOOLS  # none is reserved by Hermes
    assert "Saved" in call(manager, "memory_extract", key="drink", fact="Drinks black coffee", importance=8)["result"]
    assert "Saved" in call(manager, "memory_save", content="Ships on Fridays")["result"] or written(hermes_home)
    prompt = manager.build_system_prompt()
    assert "memory_extract" in prompt
    assert "Ships on Fridays" in prompt
    block = manager.prefetch_all("What do I drink?")
    assert "Drinks black coffee" in block
    wrap = importlib.import_module("agent.memory_manager").build_memory_context_block
    assert block in wrap(block)  # Hermes strips nothing from it
    found = call(manager, "memory_search", query="coffee Fridays")["result"]
    assert "Drinks black coffee" in found
    assert "Ships on Fridays" in found
    assert "error" in call(manager, "memory_extract", key="x")
    assert (hermes_home / "memory_core" / "MEMORY.md").exists()


def test_a_turn_is_flushed_by_hermes_own_model_and_is_there_after_shutdown(
    manager: Any, hermes_home: Path, server: ChatServer
) -> None:
    manager.initialize_all("s1", platform="cli")
    manager.sync_all("I moved to Ulm.", "It rains there.", session_id="s1", messages=TURN)
    manager.queue_prefetch_all("I moved to Ulm.", session_id="s1")
    manager.shutdown_all()
    assert "Lives in Ulm" in written(hermes_home / "memory_core")
    said = json.dumps(server.requests)
    assert "rain in Ulm" in said  # the tool's result too
    assert "hm" not in [message.get("reasoning") for request in server.requests for message in request["messages"]]
    again = made()
    again.initialize_all("s2", platform="cli")
    assert "Lives in Ulm" in call(again, "memory_search", query="Where do I live? Ulm")["result"]
    again.shutdown_all()


def test_handing_a_turn_over_does_not_wait_and_shutting_down_does(hermes_home: Path, gate: Gate) -> None:
    manager = made(gate)
    manager.initialize_all("s1", platform="cli")
    [provider] = manager.providers
    provider.sync_turn("I moved to Ulm.", "Noted.", session_id="s1")
    assert gate.asked.wait(20)
    assert not written(hermes_home / "memory_core")
    threading.Timer(0.2, gate.open.set).start()
    provider.shutdown()
    assert "Lives in Ulm" in written(hermes_home / "memory_core")


def test_a_compression_gets_the_facts_of_what_it_drops_once(
    manager: Any, hermes_home: Path, server: ChatServer
) -> None:
    manager.initialize_all("s1", platform="cli")
    assert manager.on_pre_compress(TURN) == "- Lives in Ulm"
    asked = len(server.requests)
    assert manager.on_pre_compress(TURN) == ""
    assert manager.on_pre_compress([]) == ""
    assert len(server.requests) == asked  # all of it was flushed already
    assert "Lives in Ulm" in written(hermes_home / "memory_core")


def test_a_compression_does_not_wait_for_a_slow_model(
    hermes_home: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hermes_module, "PRE_COMPRESS_WAIT_S", 0.05)
    manager = made(gate)
    manager.initialize_all("s1", platform="cli")
    assert manager.on_pre_compress(TURN) == ""
    gate.open.set()
    manager.shutdown_all()
    assert "Lives in Ulm" in written(hermes_home / "memory_core")  # it went on behind


def test_the_end_of_a_session_flushes_what_came_after_the_last_turn(manager: Any, server: ChatServer) -> None:
    manager.initialize_all("s1", platform="cli")
    manager.on_session_end(TURN)  # resumed and left: nothing was said here
    manager.sync_all("I moved to Ulm.", "It rains there.", session_id="s1", messages=TURN)
    assert manager.flush_pending(20)
    late = {"role": "user", "content": "I also keep bees."}
    manager.commit_session_boundary_async([*TURN, late], new_session_id="s2", parent_session_id="s1")
    manager.shutdown_all()
    flushed = [request for request in server.requests if "bees" in json.dumps(request)]
    assert len(flushed) == 1
    assert "rain in Ulm" not in json.dumps(flushed)


def test_users_of_a_platform_are_kept_apart_and_the_model_cannot_choose_one(hermes_home: Path) -> None:
    ann, bob, owner = made(), made(), made()
    ann.initialize_all("s1", platform="telegram", user_id="1")
    bob.initialize_all("s2", platform="telegram", user_id="2")
    owner.initialize_all("s3", platform="cli")
    call(ann, "memory_extract", key="drink", fact="Ann drinks tea", importance=9)
    call(ann, "memory_save", content="Ann keeps bees")
    for other in (bob, owner):
        assert "tea" not in other.prefetch_all("What does Ann drink?")
        assert "bees" not in other.build_system_prompt()
        assert "Ann" not in call(other, "memory_search", query="tea bees").get("result", "").split("\n", 1)[-1]
        assert "error" in call(other, "memory_search", query="tea", user_id="telegram:1")
    assert "Ann drinks tea" in ann.prefetch_all("What do I drink?")
    assert "Ann keeps bees" in ann.build_system_prompt()
    for manager in (ann, bob, owner):
        manager.shutdown_all()


@pytest.mark.parametrize(
    ("options", "given", "user"),
    [
        ({}, {"platform": "cli"}, None),
        ({}, {"platform": "telegram", "user_id": "7"}, "telegram:7"),
        ({}, {"platform": "discord", "user_id": "7"}, "discord:7"),
        ({}, {"platform": "slack", "chat_id": "C1"}, "slack:chat:C1"),
        ({}, {"platform": "sms", "gateway_session_key": "k"}, "sms:chat:k"),
        ({"user_id": "ann"}, {"platform": "telegram", "user_id": "7"}, "ann"),
    ],
)
def test_who_is_served(options: dict[str, Any], given: dict[str, Any], user: str | None) -> None:
    assert identity(HermesOptions(**options), given) == user


def test_a_user_id_that_cannot_be_stored_gets_nothing_of_anybody(hermes_home: Path) -> None:
    owner, stranger = made(), made()
    owner.initialize_all("s1", platform="cli")
    call(owner, "memory_extract", key="drink", fact="Drinks tea", importance=9)
    stranger.initialize_all("s2", platform="telegram", user_id="a\0b")
    assert stranger.prefetch_all("tea") == ""
    assert stranger.build_system_prompt() == ""
    assert "not available" in call(stranger, "memory_search", query="tea")["error"]
    owner.shutdown_all()


@pytest.mark.parametrize("given", [{"platform": "cron"}, {"agent_context": "subagent"}, {"agent_context": "flush"}])
def test_what_nobody_said_is_not_flushed(manager: Any, server: ChatServer, given: dict[str, str]) -> None:
    manager.initialize_all("s1", **{"platform": "cli", **given})
    manager.sync_all("Run the report.", "Done.", session_id="s1")
    assert manager.on_pre_compress(TURN) == ""
    manager.on_session_end(TURN)
    manager.shutdown_all()
    assert not server.requests


def test_options_are_set_up_by_hermes_and_used(manager: Any, hermes_home: Path, tmp_path: Path) -> None:
    [provider] = manager.providers
    assert {field["key"] for field in provider.get_config_schema()} == set(HermesOptions.model_fields)
    assert provider.backup_paths() == [str(tmp_path / "home" / "core")]
    provider.save_config({"workspace": str(tmp_path / "elsewhere"), "ledger": "false"}, str(hermes_home))
    assert load_options(hermes_home) == HermesOptions(workspace=str(tmp_path / "elsewhere"), ledger=False)
    assert provider.backup_paths() == [str(tmp_path / "elsewhere"), str(tmp_path / "home" / "core")]
    manager.initialize_all("s1", platform="cli")
    assert {schema["name"] for schema in provider.get_tool_schemas()} == TOOLS - {"memory_get", "memory_save"}
    assert "Saved" in call(manager, "memory_extract", key="a", fact="b", importance=5)["result"]
    assert (tmp_path / "elsewhere").is_dir()
    provider.save_config({"user_id": "ann"}, str(hermes_home))
    assert load_options(hermes_home).ledger is False  # kept
    with pytest.raises(ConfigError, match="no_such"):
        provider.save_config({"no_such": "x"}, str(hermes_home))


@pytest.mark.parametrize("text", ["{", "[]", '{"lager": true}', '{"ledger": "perhaps"}', "\xff"])
def test_a_wrong_file_of_options_leaves_hermes_without_memory_and_says_why(
    text: str, hermes_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider: Any = importlib.import_module("plugins.memory").load_memory_provider("memory_core")
    options_file(hermes_home).write_bytes(text.encode("latin-1"))
    with caplog.at_level(logging.WARNING):
        assert provider.is_available() is False
    assert "memory_core.json" in caplog.text
    provider.initialize("s1", hermes_home=str(hermes_home))
    assert provider.get_tool_schemas() == []
    assert provider.backup_paths() == []
    every_hook_is_harmless(provider)


def every_hook_is_harmless(provider: Any) -> None:
    assert isinstance(provider.system_prompt_block(), str)
    assert isinstance(provider.prefetch("x", session_id="s"), str)
    provider.queue_prefetch("x")
    provider.sync_turn("a", "b", session_id="s", messages=[{"role": "user"}, {"strange": 1}])
    provider.on_turn_start(1, "x")
    provider.on_session_switch("t", parent_session_id="s", reset=True, reason="new")
    provider.on_session_switch("t", rewound=True)
    provider.on_delegation("task", "result")
    provider.on_memory_write("add", "memory", "x", {})
    assert isinstance(provider.on_pre_compress([{"role": 3, "content": object()}]), str)
    odd: list[Any] = [[None], "text", [[]], None, 7]
    for messages in odd:
        assert isinstance(provider.on_pre_compress(messages), str)
        provider.sync_turn("a", "b", messages=messages)
        provider.on_session_end(messages)
    provider.handle_tool_call("memory_search", {"query": "\ud800"}).encode()
    provider.on_session_end([{"role": "user", "content": None}])
    assert set(json.loads(provider.handle_tool_call("memory_search", {"query": "x"}))) <= {"result", "error"}
    assert "error" in json.loads(provider.handle_tool_call("no_such_tool", {}))
    assert "error" in json.loads(provider.handle_tool_call("memory_search", None))
    provider.shutdown()
    provider.shutdown()


def test_no_hook_raises_before_it_is_opened_while_it_is_open_and_afterwards(manager: Any) -> None:
    [provider] = manager.providers
    every_hook_is_harmless(provider)
    provider.initialize("s1", platform="cli")
    every_hook_is_harmless(provider)
    every_hook_is_harmless(provider)


def test_no_hook_raises_when_everything_beneath_it_does(manager: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    [provider] = manager.providers

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")

    provider.initialize("s1", platform="cli")
    for name in ("guidance", "recall", "close"):
        monkeypatch.setattr(Serving, name, broken)
    monkeypatch.setattr(FlushWorker, "submit", broken)
    monkeypatch.setattr("memory_core.adapters.toolbox.Toolbox.call", broken)
    every_hook_is_harmless(provider)


async def test_a_flush_that_was_throttled_or_failed_is_made_up_for(tmp_path: Path) -> None:
    model = FakeModel("NO_REPLY", "NO_REPLY", RuntimeError("down"), "- Lives in Ulm")
    worker = FlushWorker(Ledger(tmp_path, model, HOURLY))
    for key in ("k", "other"):
        assert worker.submit([user_message("zero")], key).result(20).status == "nothing"
    assert worker.submit([user_message("one")], "k").result(20).status == "throttled"
    assert worker.submit([user_message("gone")], "other").result(20).status == "throttled"
    worker.forget("other")
    assert len(model.calls) == 2
    assert worker.submit([user_message("two")], "k", "manual").result(20).status == "failed"
    assert worker.close(20) == 0
    assert "one" in model.calls[3].user
    assert "two" in model.calls[3].user
    assert "gone" not in model.calls[3].user
    assert "Lives in Ulm" in written(tmp_path)
    assert worker.submit([user_message("late")], "k").result(1).status == "off"
    assert worker.close(1) == 0


def test_what_no_model_takes_is_counted_and_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    worker = FlushWorker(Ledger(tmp_path, FakeModel(RuntimeError("down"))))
    many = [user_message(f"m{number}") for number in range(MAX_KEPT + 10)]
    with caplog.at_level(logging.WARNING):
        assert worker.submit(many, "k").result(20).status == "failed"
    assert "10 messages were dropped" in caplog.text
    assert worker.close(20) == MAX_KEPT
    assert "m1" not in caplog.text.replace("messages", "")


def test_the_worker_survives_an_error_of_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path, FakeModel("- Lives in Ulm"))
    worker = FlushWorker(ledger)
    good = ledger.flush

    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(ledger, "flush", broken)
    assert worker.submit([user_message("one")], "k").result(20).status == "failed"
    monkeypatch.setattr(ledger, "flush", good)
    assert worker.submit([user_message("two")], "k").result(20).status == "written"
    worker.close(20)


def test_messages_that_nobody_knows_are_left_out_and_the_rest_is_read() -> None:
    strange: list[dict[str, Any]] = [{"role": "narrator", "content": "x"}, {}, {"role": "user", "content": [{"a": 1}]}]
    said = readable([*TURN, *strange])
    assert [message.role for message in said] == ["user", "assistant", "tool", "assistant"]
    assert turn_of([*strange, *TURN], "I moved to Ulm.", "It rains there.") == TURN
    assert [fields["content"] for fields in turn_of(strange, "a", "b")] == ["a", "b"]


def test_what_was_seen_is_bounded() -> None:
    seen = Seen()
    seen.add({"role": "user", "content": str(number)} for number in range(MAX_SEEN + 1))
    first: dict[str, Any] = {"role": "user", "content": "0"}
    assert seen.without([first, {"role": "user", "content": "1"}]) == [first]
    seen.clear()
    assert seen.after([first]) == []


def test_the_plugin_is_installed_by_hand_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "HERMES_HOME" in capsys.readouterr().out
    main([str(tmp_path / "h")])
    main([str(tmp_path / "h")])
    assert "hermes config set memory.provider memory_core" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "h" / "plugins" / "memory_core").iterdir()} == {
        "__init__.py",
        "plugin.yaml",
    }
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="could not be written"):
        install(tmp_path / "file")
    (tmp_path / "closed" / "memory_core.json").mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be read"):
        save_options({"user_id": "a"}, tmp_path / "closed")
