"""The real package `hermes-agent`, in a folder of its own: it pins its dependencies and has modules such as `utils`.

`pip install --no-deps --target DIR hermes-agent==0.19.0`, then `HERMES_AGENT_DIR=DIR`. Its memory modules need PyYAML,
jiter, httpx and the OpenAI client, which the extra `dev` installs.
"""

import gc
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from httpcore import ConnectionPool

VARIABLE = "HERMES_AGENT_DIR"


def hermes_folder() -> Path:
    """Return where the package is; without it, skip loudly, and fail where CI promises it."""
    folder = os.environ.get(VARIABLE)
    if folder and (Path(folder) / "agent" / "memory_provider.py").is_file():
        return Path(folder).absolute()
    message = (
        f"hermes-agent is not installed: nothing about Hermes is tested (pip install --no-deps --target DIR "
        f"-c constraints.txt hermes-agent; {VARIABLE}=DIR)"
    )
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@contextmanager
def importable(folder: Path) -> Generator[None, None, None]:
    """Make the package's modules importable, and forget them afterwards."""
    before = set(sys.modules)
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            origin = getattr(sys.modules[name], "__file__", None) or ""
            if origin.startswith(str(folder)) or name.startswith("_hermes_user_memory"):
                del sys.modules[name]
        _close_connections()


def _close_connections() -> None:
    """Close what the package's HTTP clients hold: it keeps them for the whole process, and nobody closes them."""
    gc.collect()
    for one in gc.get_objects():
        if isinstance(one, ConnectionPool):
            one.close()
