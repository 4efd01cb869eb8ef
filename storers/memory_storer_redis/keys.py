"""The names of keys on the server.

All keys of one scope and user carry the same hash tag, `{scope:namespace:user}`, and so share one slot of a cluster,
while users spread over it. The three parts are escaped, so that no name can end the tag or meet another one:

```
PREFIX:{SCOPE:NAMESPACE:USER}:e:KEY   one entry as JSON, with native expiry
PREFIX:{SCOPE:NAMESPACE:USER}:log     sorted set: key → number of its last change, for keys with an entry
PREFIX:{SCOPE:NAMESPACE:USER}:gone    sorted set: key → number of its removal
PREFIX:{SCOPE:NAMESPACE:USER}:due     sorted set: key → expiry in microseconds since 1970
PREFIX:{SCOPE:NAMESPACE:USER}:meta    hash: epoch, head, floor, run, lost_after, lost_before, idle, removed
PREFIX:users:SCOPE:NAMESPACE          sorted set: the users who ever wrote to this scope → when to look after them
```
"""

import re
from functools import lru_cache

_SPECIAL = re.compile(r"[%:{}]")


def escape(text: str) -> str:
    """Return `text` with `%`, `:`, `{` and `}` as `%XX`: readable, and unambiguous between colons."""
    return _SPECIAL.sub(lambda match: f"%{ord(match.group()):02X}", text)


class ScopeKeys:
    """The keys of one scope."""

    def __init__(self, prefix: str, scope: str, namespace: str) -> None:
        self.users = f"{prefix}:users:{escape(scope)}:{escape(namespace)}"
        self._start = f"{prefix}:{{{escape(scope)}:{escape(namespace)}:"
        self.of = lru_cache(maxsize=1024)(self._of)

    def _of(self, user_id: str) -> "UserKeys":
        return UserKeys(f"{self._start}{escape(user_id)}}}")


class UserKeys:
    """The keys of one user in one scope. `head` lists those that every script is given, in its order."""

    __slots__ = ("due", "entries", "gone", "head", "log", "meta")

    def __init__(self, base: str) -> None:
        self.entries = f"{base}:e:"
        self.log = f"{base}:log"
        self.gone = f"{base}:gone"
        self.due = f"{base}:due"
        self.meta = f"{base}:meta"
        self.head = (self.log, self.gone, self.due, self.meta, self.entries)

    def entry(self, key: str) -> str:
        """Return the key of one entry."""
        return self.entries + key
