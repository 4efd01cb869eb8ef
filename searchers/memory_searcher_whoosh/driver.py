"""What we use of Whoosh, as untyped objects: its annotations are partial, and some of them are wrong.

Two of its classes are changed: segments get names that cannot repeat, and files that it leaves open are closed.
"""

from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from whoosh import columns, fields, index, writing
from whoosh.codec import whoosh3
from whoosh.codec.whoosh3 import W3Codec, W3Segment
from whoosh.filedb.filestore import FileStorage
from whoosh.reading import SegmentReader, TermNotFound

Searcher = Any
Writer = Any
Segment = Any

_writing: Any = writing
_columns: Any = columns
_codec: Any = whoosh3
Index: Any = index.FileIndex
Toc: Any = index.TOC
open_segment: Any = SegmentReader
open_writer: Any = _writing.SegmentWriter
merge_small: Any = _writing.MERGE_SMALL
forget_all: Any = _writing.CLEAR

EmptyIndexError = index.EmptyIndexError
IndexError = index.IndexError
LockError = index.LockError


def schema() -> Any:
    """Return the fields: `terms` holds our own tokens, separated by spaces, so that Whoosh's analyzer only splits.

    All that filters and listings need is in one column (see `ranking.pack_facts`): each column is a file of its own in
    each segment, which costs at every commit and every opening.
    """
    return fields.Schema(
        id=fields.ID(unique=True),
        terms=fields.KEYWORD(scorable=False),
        facts=fields.COLUMN(_columns.VarBytesColumn()),
        entry=fields.STORED(),
        state=fields.STORED(),
    )


class Storage(FileStorage):
    """Whoosh's storage, but what it leaves open when a file turns out to be damaged can be closed."""

    def __init__(self, directory: Path) -> None:
        base: Any = super()
        base.__init__(str(directory))
        self._files: list[Any] = []

    def open_file(self, name: str, **options: Any) -> Any:
        """Open a file for reading and remember it."""
        base: Any = super()
        opened = base.open_file(name, **options)
        self._files.append(opened)
        return opened

    def release(self) -> None:
        """Close every file that was opened for reading."""
        for opened in self._files:
            with suppress(Exception):
                opened.file.close()
        self._files.clear()


class Codec(W3Codec):
    """Whoosh's codec, but for the names of new segments: its own come from `random`, which an application may seed.

    Two processes that started from one seed would then write over each other's files.
    """

    def new_segment(self, storage: Any, indexname: str) -> W3Segment:
        """Return a segment under a name that nobody else gives."""
        del storage
        segment: W3Segment = _codec.W3Segment(_codec.W3Codec(), indexname, segid=token_hex(8))
        return segment


def new_codec() -> Any:
    """Return the codec that writers are given."""
    codec: Any = Codec
    return codec()


__all__ = [
    "EmptyIndexError",
    "Index",
    "IndexError",
    "LockError",
    "Searcher",
    "Segment",
    "Storage",
    "TermNotFound",
    "Toc",
    "Writer",
    "forget_all",
    "merge_small",
    "new_codec",
    "open_segment",
    "open_writer",
    "schema",
]
