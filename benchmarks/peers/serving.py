"""The child's side of the protocol: JSON lines in, JSON lines out; only the standard library is imported.

One request a line, one reply a line, each an object. Requests have `op`; replies have `ok`, and `error` when it is
false. Vectors travel as base64 of little-endian float32.

| op | fields | reply |
| --- | --- | --- |
| `open` | `folder`, `dim`, `options` | `versions` of the packages |
| `add` | `items` | `seconds` of each; each is acknowledged, and durable as far as the peer is durable |
| `fill` | `items` | `seconds` in all, by the fastest public way |
| `learn` | `items` | nothing: vectors of texts that are stored already |
| `flush` | | `seconds`: what makes the peer ready to be searched, and saves what it saves only on request |
| `search` | `queries`, `k` | `found` (keys, best first) and `seconds` of each |
| `count` | | `keys` that are stored |
| `close` | | `blocked`: hosts that the peer tried to reach, and could not |

The clock runs inside the child around the peer's own call: neither the pipe, nor JSON, nor embedding is in a figure.
A child reaches nothing but this machine: connections to elsewhere are refused.
"""

import base64
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")


@dataclass(frozen=True, slots=True)
class Item:
    """A text to keep or to look for. `vector` is float32 and of unit length; `unknown` is the share of tokens that the
    embedding model does not know.
    """

    key: str
    text: str
    vector: "array[float]"
    unknown: float = 0.0

    @classmethod
    def read(cls, fields: dict[str, Any]) -> "Item":
        vector = array("f")
        vector.frombytes(base64.b64decode(fields.get("vector", "")))
        return cls(fields.get("key", ""), fields["text"], vector, fields.get("unknown", 0.0))

    def fields(self) -> dict[str, Any]:
        """Return what `read` understands."""
        encoded = base64.b64encode(self.vector.tobytes()).decode()
        return {"key": self.key, "text": self.text, "vector": encoded, "unknown": self.unknown}


class Peer(ABC):
    """What a script implements. `packages` are distributions whose versions are reported."""

    packages: tuple[str, ...] = ()

    @abstractmethod
    def open(self, folder: Path, dim: int, options: dict[str, Any]) -> None:
        """Open what is in `folder`, or make it; `folder` exists."""

    @abstractmethod
    def add(self, item: Item) -> None:
        """Store one text; what the peer calls stored."""

    @abstractmethod
    def search(self, query: Item, k: int) -> list[str]:
        """Return the keys of the best `k`, best first."""

    @abstractmethod
    def keys(self) -> list[str]:
        """Return the keys of all that is stored; a key stored twice stands twice."""

    def learn(self, items: Sequence[Item]) -> None:
        """Take note of vectors, before the clock runs."""
        del items

    def fill(self, items: Sequence[Item]) -> None:
        """Store many texts, the fastest public way."""
        for item in items:
            self.add(item)

    def flush(self) -> None:
        """Do what only happens on request."""
        return

    def close(self) -> None:
        """Close in an orderly way."""
        return


def serve(peer: Peer) -> None:
    """Answer requests until `close` or the end of the input."""
    # Whatever a package prints goes to stderr, so that the answers stay readable.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    blocked: set[str] = set()
    sys.addaudithook(_keep_inside(blocked))
    with answers:
        for line in sys.stdin:
            request = json.loads(line)
            if request["op"] == "close":
                _answer(answers, _attempt(lambda _: _closed(peer, blocked), request))
                return
            _answer(answers, _attempt(lambda request: _handle(peer, request), request))


def _attempt(handle: Callable[[dict[str, Any]], dict[str, Any]], request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"ok": True, **handle(request)}
    except Exception as error:  # noqa: BLE001 - whatever a peer raises is its answer
        return {"ok": False, "error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def _answer(answers: IO[str], reply: dict[str, Any]) -> None:
    answers.write(json.dumps(reply) + "\n")
    answers.flush()


def _closed(peer: Peer, blocked: set[str]) -> dict[str, Any]:
    peer.close()
    return {"blocked": sorted(blocked)}


def _handle(peer: Peer, request: dict[str, Any]) -> dict[str, Any]:
    match request["op"]:
        case "open":
            peer.open(Path(request["folder"]), request["dim"], request.get("options", {}))
            return {"versions": _versions(peer.packages), "python": sys.version.split()[0]}
        case "add":
            items = [Item.read(fields) for fields in request["items"]]
            peer.learn(items)
            return {"seconds": [_timed(partial(peer.add, item))[0] for item in items]}
        case "learn":
            peer.learn([Item.read(fields) for fields in request["items"]])
            return {}
        case "fill":
            items = [Item.read(fields) for fields in request["items"]]
            peer.learn(items)
            return {"seconds": _timed(lambda: peer.fill(items))[0]}
        case "flush":
            return {"seconds": _timed(peer.flush)[0]}
        case "search":
            queries = [Item.read(fields) for fields in request["queries"]]
            peer.learn(queries)
            k = request["k"]
            answers = [_timed(partial(peer.search, query, k)) for query in queries]
            return {"seconds": [seconds for seconds, _ in answers], "found": [found for _, found in answers]}
        case "count":
            return {"keys": peer.keys()}
        case other:
            raise ValueError(f"There is no operation {other!r}.")


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def _versions(packages: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _keep_inside(blocked: set[str]) -> Callable[[str, tuple[Any, ...]], None]:
    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            address: Any = arguments[1]
            host = "" if isinstance(address, str | bytes) else str(address[0])
        elif event == "socket.getaddrinfo":
            host = str(arguments[0] or "")
        else:
            return
        if host and not host.startswith(LOOPBACK):
            blocked.add(host)
            raise OSError(f"No network in a benchmark: {host} was not reached.")

    return hook
