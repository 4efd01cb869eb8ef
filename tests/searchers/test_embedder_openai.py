import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest

from memory_core.contracts import Embedder
from memory_core.errors import IndexUnavailableError
from memory_core.testing.embedder import EmbedderContract
from memory_core.text import estimate_tokens
from memory_embedder_openai import OpenAIOptions, build
from memory_embedder_openai.embedder import OpenAIEmbedder

from ._vectors import HashEmbedder

SECRET = "sk-very-secret"


class Server(ThreadingHTTPServer):
    """Answers as an embeddings endpoint does; `script` holds answers that come first: (status, headers, body)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.script: list[tuple[int, dict[str, str], bytes]] = []
        self.model = HashEmbedder(32)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = cast("Server", self.server)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server.requests.append({"path": self.path, **body})
        server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if server.script:
            status, headers, answer = server.script.pop(0)
        else:
            dim = body.get("dimensions", 32)
            rows = [row[:dim].tolist() for row in server.model.embed_documents(body["input"])]
            data = [{"index": place, "embedding": row} for place, row in enumerate(rows)]
            status, headers, answer = 200, {}, json.dumps({"data": data[::-1]}).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def server(running: Server) -> Server:
    running.requests.clear()
    running.headers.clear()
    running.script.clear()
    return running


def connect(server: Server, **options: Any) -> OpenAIEmbedder:
    options = {"base_url": server.url, "api_key": SECRET, "backoff_s": 0.001, "model": "any"} | options
    built: OpenAIEmbedder = build(OpenAIOptions(**options), None)
    return built


class TestOpenAI(EmbedderContract):
    related = ("The cat sleeps", "A cat eats")
    unrelated = "Quarterly revenue fell"

    @pytest.fixture
    def embedder(self, server: Server) -> Iterator[Embedder]:
        embedder = connect(server, batch_size=32)
        yield embedder
        embedder.close()


def test_texts_go_in_batches_with_key_and_dimension(server: Server) -> None:
    embedder = connect(server, dim=16, batch_size=10)
    assert embedder.embed_documents([f"text {n}" for n in range(25)]).shape == (25, 16)
    assert [len(request["input"]) for request in server.requests] == [10, 10, 5]
    assert {(r["path"], r["model"], r["dimensions"], r["encoding_format"]) for r in server.requests} == {
        ("/v1/embeddings", "any", 16, "float")
    }
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {SECRET}"}
    embedder.close()


def test_the_key_may_come_from_the_environment_or_be_absent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "from-env")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for options in ({"api_key": None, "api_key_env": "MY_KEY"}, {"api_key": None}):
        embedder = connect(server, **options)
        embedder.embed_query("cat")
        embedder.close()
    assert server.headers[0]["authorization"] == "Bearer from-env"
    assert "authorization" not in server.headers[-1]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
def test_failures_of_the_moment_are_repeated(server: Server, status: int) -> None:
    server.script = [(status, {}, b"busy"), (status, {"retry-after": "0"}, b'{"error": {"message": "later"}}')]
    embedder = connect(server, dim=32)
    assert embedder.embed_query("cat").shape == (32,)
    assert len(server.requests) == 3
    embedder.close()


def test_the_server_s_wish_is_kept(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("memory_embedder_openai.embedder.time.sleep", waited.append)
    server.script = [
        (429, {"retry-after": "7"}, b""),
        (429, {"retry-after": "99999"}, b""),
        (500, {"retry-after": "soon"}, b""),
        (500, {}, b""),
    ]
    embedder = connect(server, dim=32, backoff_s=1.0)
    embedder.embed_query("cat")
    assert waited[:2] == [7.0, 60.0]
    assert 3 <= waited[2] <= 5
    assert 6 <= waited[3] <= 10
    embedder.close()


REFUSALS: list[tuple[tuple[int, dict[str, str], bytes], str]] = [
    ((401, {}, b'{"error": {"message": "bad key"}}'), "status 401: bad key"),
    ((400, {}, b'{"error": "too long"}'), "status 400: too long"),
    ((404, {}, b"<html>"), "status 404"),
    ((302, {"location": "http://127.0.0.1:1/"}, b""), "status 302"),
    ((200, {}, b"<html>"), "without embeddings"),
    ((200, {}, b"[]"), "without embeddings"),
    ((200, {}, b'{"data": [{"embedding": ["x"]}]}'), "without embeddings"),
    ((200, {}, b'{"data": []}'), "0 embeddings for 1 texts"),
    ((200, {}, b'{"data": [{"embedding": [1, 2, 3]}]}'), "shape"),
]


@pytest.mark.parametrize(("answer", "reason"), REFUSALS)
def test_failures_that_stay_are_said_at_once(server: Server, answer: Any, reason: str) -> None:
    server.script = [answer]
    embedder = connect(server, dim=32)
    with pytest.raises(IndexUnavailableError, match=reason) as caught:
        embedder.embed_query("private memory")
    assert len(server.requests) == 1
    assert SECRET not in str(caught.value)
    assert "private memory" not in str(caught.value)
    embedder.close()


def test_a_server_that_stays_away_is_given_up(server: Server) -> None:
    server.script = [(503, {}, b"")] * 3
    embedder = connect(server, dim=32, retries=2)
    with pytest.raises(IndexUnavailableError, match="after 3 attempts"):
        embedder.embed_query("cat")
    embedder.close()
    nobody = connect(server, dim=32, retries=1, base_url="http://user:pw@127.0.0.1:9/v1")
    with pytest.raises(IndexUnavailableError, match="Connect") as caught:
        nobody.embed_query("cat")
    assert "pw" not in str(caught.value) + nobody.model_id
    nobody.close()


def test_long_texts_are_cut_to_what_the_server_takes(server: Server) -> None:
    embedder = connect(server, dim=32, max_tokens=100, document_prompt="passage: ")
    embedder.embed_documents(["字" * 5_000, "word " * 5_000, "short"])
    sent = [text for request in server.requests for text in request["input"]]
    assert all(text.startswith("passage: ") for text in sent)
    assert all(estimate_tokens(text) <= 100 for text in sent)
    assert "passage: short" in sent
    embedder.close()


def test_the_identity_names_server_model_dimension_and_prompt(server: Server) -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"model": "b"},
        {"dim": 8},
        {"document_prompt": "x"},
        {"base_url": "http://other/v1"},
    ]
    assert len({connect(server, **options).model_id for options in variants}) == len(variants)


def test_the_dimension_is_known_or_asked_once(server: Server) -> None:
    openai: OpenAIEmbedder = build(OpenAIOptions(), None)
    assert openai.dim == 1536
    asked = connect(server)
    assert (asked.dim, asked.dim) == (32, 32)
    assert len(server.requests) == 1
    asked.close()


def test_the_key_is_masked() -> None:
    assert SECRET not in repr(OpenAIOptions(api_key=SECRET))  # pyright: ignore[reportArgumentType]  # pydantic makes it a SecretStr


def test_a_project_s_file_cannot_send_memories_elsewhere(tmp_path: Any) -> None:
    for name in ("base_url", "api_key", "api_key_env", "model"):
        assert not OpenAIOptions.allowed_in_project(name, "http://evil/v1", tmp_path)
    assert OpenAIOptions.allowed_in_project("batch_size", 8, tmp_path)
