"""A child process made by a fork, while threads of the parent are at work."""

import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable

CAN_FORK = hasattr(os, "fork")


def outcome_in_child(act: Callable[[], None], timeout_s: float = 30.0) -> str:
    """Fork, let the child `act`, and return `"done"`, `"failed"` (what it raised is on stderr) or `"hung"`."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # newer Pythons warn of forks beside threads: it is the case
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            act()
            status = 0
        except BaseException:  # noqa: BLE001 - a child of a test must end here
            traceback.print_exc()
        finally:
            os._exit(status)
    give_up = time.monotonic() + timeout_s
    while time.monotonic() < give_up:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return "done" if status == 0 else "failed"
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hung"
