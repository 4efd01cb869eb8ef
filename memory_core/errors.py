"""Everything this library raises on purpose.

```
MemoryCoreError
├── PluginError                 a plugin misbehaved
│   ├── UnknownBackendError     (LookupError)     no backend of that name
│   ├── MissingExtraError       (ImportError)     the backend's packages are not installed
│   └── DuplicateBackendError                     two plugins claim one name
├── ConfigError                 (ValueError)      a setting is unknown or has a wrong value
│   └── UnknownScopeError                         a scope that this solution does not have
├── InvalidKeyError             (ValueError)      a key, user id or scope that cannot be stored
├── InvalidEntryError           (ValueError)      content, importance, time or metadata that cannot be stored
├── BudgetError                 (ValueError)      a count, length or token budget out of range
├── VetoedError                                   a `before_store` hook refused the entry
├── StorerError                 the store failed
│   ├── StorageUnavailableError (ConnectionError) the disk or server cannot be reached or written
│   └── CorruptEntryError                         a stored entry cannot be read
└── SearcherError               the index failed
    ├── IndexUnavailableError                     the index cannot be opened or written
    └── EmbeddingMismatchError                    the index was built with another embedding model
```

A message says what happened, what is there, and what to do next. A driver's own error is translated
where it enters (`raise … from error`), so that callers need to know only this file.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class MemoryCoreError(Exception):
    """Base of every error that this library raises on purpose."""


class PluginError(MemoryCoreError):
    """A plugin could not be loaded, or broke the rules of a hook."""


class UnknownBackendError(PluginError, LookupError):
    """No plugin registered a backend of that name."""


class MissingExtraError(PluginError, ImportError):
    """The backend exists, its third-party packages do not."""


class DuplicateBackendError(PluginError):
    """Two plugins registered the same backend name; the first one keeps it."""


class ConfigError(MemoryCoreError, ValueError):
    """A setting is unknown, has a wrong type, or may not be set from that place."""


class UnknownScopeError(ConfigError):
    """The scope is none of those that this solution has."""


class InvalidKeyError(MemoryCoreError, ValueError):
    """A key, user id or scope name is blank, too long, or holds characters that cannot be stored."""


class InvalidEntryError(MemoryCoreError, ValueError):
    """An entry's content, importance, time or metadata cannot be stored."""


class BudgetError(MemoryCoreError, ValueError):
    """A count, length or token budget is out of its range."""


class VetoedError(MemoryCoreError):
    """A `before_store` hook or a configured filter refused to store the entry."""


class StorerError(MemoryCoreError):
    """The store failed; nothing is known to have been written."""


class StorageUnavailableError(StorerError, ConnectionError):
    """The disk or server behind a store cannot be reached, read or written."""


class CorruptEntryError(StorerError):
    """A stored entry exists but cannot be read."""


class SearcherError(MemoryCoreError):
    """The index failed; the store is not affected."""


class IndexUnavailableError(SearcherError):
    """The index cannot be opened, read or written."""


class EmbeddingMismatchError(SearcherError):
    """The index was built with another embedding model or dimension."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the known name nearest to `wrong`, or an empty string."""
    near = get_close_matches(wrong, list(known), n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else ""
