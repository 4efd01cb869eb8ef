"""An environment of its own for each peer, made once and kept: a new enough interpreter and pinned packages."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers.catalog import REQUIREMENTS, Contender
from benchmarks.peers.client import ROOT
from benchmarks.peers.words import masked

CONSTRAINTS = (ROOT / "constraints.txt", REQUIREMENTS / "never.txt")
_STAMP = "installed.txt"
_NEWEST = 15


class UnavailableError(Exception):
    """Why a peer cannot be measured here, in one sentence."""


def command(contender: Contender, folder: Path, python: str | None, install_timeout_s: float = 1_200.0) -> list[str]:
    """Return how to start a contender, after making its environment in `folder` if it is not there.

    Args:
        contender: Ours run in this interpreter.
        folder: Where environments are kept.
        python: An interpreter to prefer for the peers.
        install_timeout_s: How long an installation may take.

    Raises:
        UnavailableError: No interpreter is new enough, or the packages cannot be installed.

    """
    if contender.requirements is None:
        return [sys.executable, "-P", "-m", contender.module]
    requirements = REQUIREMENTS / contender.requirements
    place = (folder / requirements.stem).absolute()
    interpreter = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    base = find_python(contender.minimum_python, python)
    wanted = "\n".join([_version_of(base) or "", *(path.read_text("utf-8") for path in (requirements, *CONSTRAINTS))])
    stamp = hashlib.sha256(wanted.encode()).hexdigest()
    noted = place / _STAMP
    if not noted.is_file() or noted.read_text("utf-8") != stamp:
        shutil.rmtree(place, ignore_errors=True)
        _install(base, place, interpreter, requirements, install_timeout_s)
        noted.write_text(stamp, "utf-8")
    return [str(interpreter), "-P", "-m", contender.module]


def find_python(minimum: tuple[int, int], preferred: str | None = None) -> str:
    """Return an interpreter of at least that version: the preferred one, this one, one on the path, one of pyenv's.

    Raises:
        UnavailableError: There is none.

    """
    for candidate in _candidates(minimum, preferred):
        found = _version_of(candidate)
        if found and tuple(map(int, found.split(".")[:2])) >= minimum:
            return candidate
    wanted = ".".join(map(str, minimum))
    raise UnavailableError(f"needs Python {wanted} or newer, and none was found; name one with --python")


def _candidates(minimum: tuple[int, int], preferred: str | None) -> Iterator[str]:
    if preferred:
        yield shutil.which(preferred) or preferred
    yield sys.executable
    for minor in range(_NEWEST, minimum[1] - 1, -1):
        if path := shutil.which(f"python3.{minor}"):
            yield path
    if pyenv := shutil.which("pyenv"):
        for name in reversed(_output([pyenv, "versions", "--bare"]).split()):
            if re.match(r"3\.\d", name) and (prefix := _output([pyenv, "prefix", name]).strip()):
                yield str(Path(prefix) / "bin" / "python")


def _version_of(python: str) -> str | None:
    """Return an interpreter's version; None if it does not run (a shim without a version behind it does not)."""
    return _output([python, "-c", "import platform; print(platform.python_version())"]).strip() or None


def _output(arguments: list[str]) -> str:
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _install(base: str, place: Path, interpreter: Path, requirements: Path, timeout_s: float) -> None:
    if Path(base).absolute() == Path(sys.executable).absolute():
        venv.create(place, with_pip=True)
    else:
        made = subprocess.run([base, "-m", "venv", str(place)], capture_output=True, text=True, check=False)
        if made.returncode:
            raise UnavailableError(f"no environment could be made: {reason(made.stderr)}")
    constraints = [part for path in CONSTRAINTS for part in ("-c", str(path))]
    pip = [str(interpreter), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input"]
    try:
        done = subprocess.run(
            [*pip, *constraints, "-r", str(requirements)],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        shutil.rmtree(place, ignore_errors=True)
        raise UnavailableError(f"its packages were not installed within {timeout_s:.0f} s") from None
    if done.returncode:
        shutil.rmtree(place, ignore_errors=True)
        raise UnavailableError(f"its packages cannot be installed: {reason(done.stderr)}")


def reason(stderr: str) -> str:
    """Return pip's own reason in one line, without addresses and paths of this machine."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:] or ["no reason was given"]
    return masked(errors[-1].removeprefix("ERROR: "))
