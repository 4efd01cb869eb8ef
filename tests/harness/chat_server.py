"""A local HTTP server that speaks OpenAI's chat API: scripted, streaming, with tool calls, errors, delays and cuts."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Request = dict[str, Any]


@dataclass
class Say:
    """One answer. `calls` are (name, arguments); `cut` breaks the stream off after so many pieces."""

    text: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    status: int = 200
    error: dict[str, Any] | None = None
    delay_s: float = 0.0
    cut: int | None = None


def overflow() -> Say:
    return Say(
        status=400,
        error={
            "message": "This model's maximum context length is 128000 tokens. Your messages resulted in 140000.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
    )


Script = Callable[[Request], Say]


class ChatServer:
    """`script(request)` decides every answer; `requests` keeps what came."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []
        self._calls = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                return

            def do_POST(self) -> None:
                body: Request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.path.endswith("/chat/completions")
                outer.requests.append(body)
                say = outer.script(body)
                time.sleep(say.delay_s)
                try:
                    outer._answer(self, body, say)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True  # the client had given up

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler, body: Request, say: Say) -> None:
        if say.status != 200:
            self._json(
                handler, say.status, {"error": say.error or {"message": f"status {say.status}", "type": "server"}}
            )
            return
        calls: list[dict[str, Any]] = []
        for name, arguments in say.calls:
            self._calls += 1
            function = {"name": name, "arguments": json.dumps(arguments)}
            calls.append({"id": f"call_{self._calls}", "type": "function", "function": function})
        finish = "tool_calls" if calls else "stop"
        head = {"id": "c1", "created": 1, "model": body["model"]}
        if not body.get("stream"):
            message: dict[str, Any] = {"role": "assistant", "content": say.text or None}
            if calls:
                message["tool_calls"] = calls
            choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
            usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
            self._json(handler, 200, {**head, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": word} for word in _pieces(say.text)]
        deltas += [{"tool_calls": [{"index": index, **call}]} for index, call in enumerate(calls)]
        for number, delta in enumerate(deltas):
            if say.cut is not None and number > say.cut:
                handler.close_connection = True
                handler.connection.close()
                return
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            self._event(handler, json.dumps({**head, "object": "chat.completion.chunk", "choices": [choice]}))
        choice = {"index": 0, "delta": {}, "finish_reason": finish}
        self._event(handler, json.dumps({**head, "object": "chat.completion.chunk", "choices": [choice]}))
        self._event(handler, "[DONE]")
        handler.wfile.write(b"0\r\n\r\n")

    @staticmethod
    def _event(handler: BaseHTTPRequestHandler, data: str) -> None:
        line = f"data: {data}\n\n".encode()
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        handler.wfile.flush()

    @staticmethod
    def _json(handler: BaseHTTPRequestHandler, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), 6):
        yield text[start : start + 6]


def system_of(request: Request) -> str:
    return "\n".join(str(message["content"]) for message in request["messages"] if message["role"] == "system")


def last_of(request: Request) -> dict[str, Any]:
    last: dict[str, Any] = request["messages"][-1]
    return last


def is_flush(request: Request) -> bool:
    """Whether it is one of our own calls: without tools."""
    return not request.get("tools")


def check_pairs(request: Request) -> int:
    """Assert that every call has its result and every result its call; return how many pairs there are."""
    open_calls: set[str] = set()
    pairs = 0
    for message in request["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_calls, "a result without its call"
            open_calls.remove(message["tool_call_id"])
            pairs += 1
            continue
        assert not open_calls, "a call without its result"
        calls: list[dict[str, Any]] = message.get("tool_calls") or []
        open_calls |= {call["id"] for call in calls}
    assert not open_calls
    return pairs
