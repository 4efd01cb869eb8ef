"""`plugins`: what is installed, what is missing, what failed; and `plugins new`, which writes one."""

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memory_core.cli.output import one_line, print_json, say
from memory_core.cli.state import State, pass_state, shared_options

if TYPE_CHECKING:
    from memory_core.plugins.registry import Backend, PluginRegistry

_REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9._-]+).*?extra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]")


@click.group(invoke_without_command=True)
@shared_options("json")
@click.pass_context
def plugins(ctx: click.Context) -> int | None:
    """List what is installed and what failed; write new plugins.

    Exit code 1 when a plugin failed.

    \b
    memory-core plugins
    memory-core plugins new searcher my-search
    """
    if ctx.invoked_subcommand is not None:
        return None
    from memory_core.plugins import get_registry

    registry = get_registry()
    rows = _rows(registry)
    failures = [{"plugin": failure.plugin, "error": str(failure.error)} for failure in registry.failures]
    if ctx.ensure_object(State).as_json:
        print_json({"backends": rows, "failures": failures})
        return 1 if failures else None
    for kind in dict.fromkeys(row["kind"] for row in rows):
        say(f"{kind}s")
        for row in rows:
            if row["kind"] == kind:
                origin = "" if row["package"] in ("", "memory-talent") else f"  from {row['package']}"
                needs = f"  needs: {row['install']}" if row["install"] else ""
                say(f"  {row['name']:<22}{origin}{needs}")
    for failure in failures:
        say(one_line(f"FAILED {failure['plugin']}: {failure['error']}"))
    return 1 if failures else None


def _rows(registry: "PluginRegistry") -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for backend in registry.backends():
        package = registry.plugins.get(backend.plugin, "")
        rows.append(
            {
                "kind": backend.kind,
                "name": backend.name,
                "plugin": backend.plugin,
                "package": package,
                "install": _install(backend, package),
            }
        )
    return rows


def _install(backend: "Backend", package: str) -> str | None:
    """Return the command that installs what the backend lacks, or None when nothing is missing."""
    if backend.extra is None or not package:
        return None
    try:
        requirements = distribution(package).requires or []
    except PackageNotFoundError:
        return None
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match is None or match["extra"] != backend.extra:
            continue
        try:
            distribution(match["name"])
        except PackageNotFoundError:
            return f"pip install '{package}[{backend.extra}]'"
    return None


@plugins.command("new")
@click.argument("kind", type=click.Choice(["storer", "searcher"]))
@click.argument("name")
@click.option("--directory", type=click.Path(path_type=Path), help="Where to write it; by default ./memory-KIND-NAME.")
@shared_options("json")
@pass_state
def new(state: State, kind: str, name: str, directory: Path | None) -> None:
    """Write a complete plugin project.

    A backend that works, its entry point, and tests that use the contract suite.

    \b
    memory-core plugins new searcher overlap
    cd memory-searcher-overlap && pip install -e '.[test]' && pytest
    """
    from memory_core.cli.plugin_project import write_project

    root, files = write_project(kind, name, directory)
    if state.as_json:
        print_json({"directory": str(root), "files": [str(path) for path in files]})
        return
    say(f"Wrote {root}:")
    for path in files:
        say(f"  {path}")
    say(f"Next: cd {root} && pip install -e '.[test]' && pytest")
