"""Contract suites and test doubles, for this library's tests and for those of every plugin.

A backend's whole test file is one class with one fixture:

```python
from memory_core.testing import StorerContract

class TestMyStorer(StorerContract):
    @pytest.fixture
    def open_storer(self, tmp_path):
        return lambda clock: MyStorer(tmp_path, clock=clock)
```

Needs pytest and hypothesis.
"""

import pytest

for _module in ("bulk", "embedder", "follower", "provider", "searcher", "session", "storer"):
    pytest.register_assert_rewrite(f"memory_core.testing.{_module}")

from memory_core.testing.clock import FakeClock  # noqa: E402 - the assertions of these modules are rewritten first
from memory_core.testing.model import FakeModel  # noqa: E402 - see above
from memory_core.testing.provider import ProviderContract  # noqa: E402 - see above
from memory_core.testing.samples import NASTY_CONTENTS, NASTY_KEYS, make_entry  # noqa: E402 - see above
from memory_core.testing.searcher import SearcherContract  # noqa: E402 - see above
from memory_core.testing.session import SessionContract  # noqa: E402 - see above
from memory_core.testing.storer import StorerContract  # noqa: E402 - see above

__all__ = [
    "NASTY_CONTENTS",
    "NASTY_KEYS",
    "FakeClock",
    "FakeModel",
    "ProviderContract",
    "SearcherContract",
    "SessionContract",
    "StorerContract",
    "make_entry",
]
