"""Says in one sentence what to install when a measurement lacks a package."""

import importlib

from memory_core.errors import MissingExtraError


def require(*modules: str) -> None:
    """Import `modules`, before work is done that would be lost without them.

    Raises:
        MissingExtraError: One is not installed; the message names it and the command that installs it.

    """
    for name in modules:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            package = name.replace("_", "-")
            raise MissingExtraError(f"This needs {package}: pip install 'memory-talent[bench]'.") from error
