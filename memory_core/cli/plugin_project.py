"""Writes a plugin project: the example plugin of this repository under another name.

There is one source: `examples/plugin`, which CI installs and tests as it stands; the wheel carries it as
`memory_core/cli/plugin_template`.
"""

import re
from pathlib import Path

from memory_core.errors import ConfigError

_PACKAGED = Path(__file__).parent / "plugin_template"
_IN_REPOSITORY = Path(__file__).parents[2] / "examples" / "plugin"
_EXAMPLES = {"storer": "logfile", "searcher": "overlap"}
_FILES = (".toml", ".py", ".md")
_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")


def template_root() -> Path:
    """Return where the example plugin lies.

    Raises:
        ConfigError: It is not there.

    """
    for root in (_PACKAGED, _IN_REPOSITORY):
        if (root / "pyproject.toml").is_file():
            return root
    raise ConfigError("The plugin template is missing from this installation: install memory-talent again.")


def write_project(kind: str, name: str, directory: Path | None = None) -> tuple[Path, list[Path]]:
    """Write a project with one backend of that kind and return its directory and its files.

    Args:
        kind: `storer` or `searcher`.
        name: The backend's name: lower-case letters, digits, and single `-` or `_` between them.
        directory: Where; by default `./memory-KIND-NAME`. It must be empty or new.

    Raises:
        ConfigError: The name is not possible, is taken, or the directory is not empty.
        OSError: It cannot be written.

    """
    if not _NAME.fullmatch(name) or len(name) > 40:
        raise ConfigError(
            f"A plugin cannot be called {name!r}: use lower-case letters, digits and - , such as `my-store`."
        )
    if name in _taken(kind):
        raise ConfigError(f"There is a {kind} {name!r} already; choose another name.")
    root = directory if directory is not None else Path(f"memory-{kind}-{name}")
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ConfigError(f"{root} exists and is not empty: give another one with --directory.")
    source = template_root()
    written: list[Path] = []
    for path in sorted(path for path in source.rglob("*") if path.suffix in _FILES):
        relative = path.relative_to(source).as_posix()
        if _hidden(relative) or _of_another(kind, relative):
            continue
        target = Path(_renamed(kind, name, relative))
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        (root / target).write_text(_renamed(kind, name, _own_lines(kind, path.read_text("utf-8"))), "utf-8")
        written.append(target)
    return root, written


def _taken(kind: str) -> set[str]:
    from memory_core.plugins import get_registry

    return {backend.name for backend in get_registry().backends() if backend.kind == kind}


def _hidden(relative: str) -> bool:
    """Whether a file belongs to a tool's cache or to a build, not to the example."""
    return any(part.startswith((".", "_")) or part in ("build", "dist") for part in Path(relative).parts[:-1])


def _of_another(kind: str, text: str) -> bool:
    """Whether a path or line speaks of the example's backend of the other kind."""
    return any(example in text for other, example in _EXAMPLES.items() if other != kind)


def _own_lines(kind: str, text: str) -> str:
    """Return a file without the lines that speak of the other kind's backend."""
    return "".join(line for line in text.splitlines(keepends=True) if not _of_another(kind, line))


def _renamed(kind: str, name: str, text: str) -> str:
    """Return `text` with the example's names replaced: package, class, backend and distribution."""
    example = _EXAMPLES[kind]
    identifier = name.replace("-", "_")
    camel = "".join(part.capitalize() for part in identifier.split("_"))
    described = "store" if kind == "storer" else "searcher"
    text = text.replace("memory-talent-example", f"memory-{kind}-{name}")
    text = text.replace(
        "A third-party store and a third-party searcher for memory-core", f"The {described} {name} for memory-core"
    )
    text = text.replace(f"memory_{kind}_{example}", f"memory_{kind}_{identifier}")
    text = text.replace(f"{kind}-{example}", f"{kind}-{name}")
    text = text.replace(f"test_{example}", f"test_{identifier}")
    text = text.replace(example.capitalize(), camel)
    return re.sub(rf"\b{example}\b", name, text)
