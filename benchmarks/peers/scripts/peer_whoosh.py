"""Bare Whoosh as its quick start shows it: a directory, `TEXT` with its own analyzer, a writer and a commit an add."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.serving import Item, Peer, serve

fields: Any = import_module("whoosh.fields")
index: Any = import_module("whoosh.index")
qparser: Any = import_module("whoosh.qparser")


class WhooshPeer(Peer):
    """Any word of the query may match; the query parser reads the text as it is."""

    packages = ("whoosh3",)

    def open(self, folder: Path, dim: int, options: dict[str, Any]) -> None:
        del dim, options
        if index.exists_in(str(folder)):
            self._index = index.open_dir(str(folder))
        else:
            schema = fields.Schema(key=fields.ID(stored=True, unique=True), text=fields.TEXT(stored=True))
            self._index = index.create_in(str(folder), schema)
        self._parser = qparser.QueryParser("text", self._index.schema, group=qparser.OrGroup)
        self._searcher: Any = None

    def add(self, item: Item) -> None:
        self.fill([item])

    def fill(self, items: Sequence[Item]) -> None:
        writer = self._index.writer()
        for item in items:
            writer.update_document(key=item.key, text=item.text)
        writer.commit()

    def search(self, query: Item, k: int) -> list[str]:
        with self._index.searcher() as searcher:
            return [hit["key"] for hit in searcher.search(self._parser.parse(query.text), limit=k)]

    def keys(self) -> list[str]:
        with self._index.searcher() as searcher:
            return [stored["key"] for stored in searcher.all_stored_fields()]

    def close(self) -> None:
        self._index.close()


if __name__ == "__main__":
    serve(WhooshPeer())
