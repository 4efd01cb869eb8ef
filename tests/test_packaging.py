"""What is on disk, what the wheel holds and what the entry points name must be one list."""

import tomllib
from importlib.metadata import entry_points
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
FLOORS = ("storers", "searchers", "providers", "filters")


def rooms() -> set[str]:
    return {
        f"{floor}/{room.name}"
        for floor in FLOORS
        for room in (ROOT / floor).glob("memory_*")
        if (room / "__init__.py").exists()
    }


def test_every_room_is_in_the_wheel() -> None:
    packages = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert packages == {"memory_core", *rooms()}


def test_every_room_is_a_plugin() -> None:
    declared: dict[str, str] = PROJECT["project"]["entry-points"]["memory_core"]
    targets = {target.split(".")[0] for target in declared.values()}
    assert {room.split("/")[1] for room in rooms()} == targets - {"memory_core"}


def test_what_is_declared_is_installed() -> None:
    declared: dict[str, str] = PROJECT["project"]["entry-points"]["memory_core"]
    installed = {point.name: point.value for point in entry_points(group="memory_core")}
    assert declared.items() <= installed.items()


def test_entry_points_are_named_after_their_rooms() -> None:
    declared: dict[str, str] = PROJECT["project"]["entry-points"]["memory_core"]
    for name, target in declared.items():
        if not target.startswith("memory_core"):
            assert target.removeprefix("memory_").replace("_", "-") == name


def test_every_room_is_type_checked() -> None:
    checked = set(PROJECT["tool"]["mypy"]["packages"])
    assert checked == {"memory_core", *(room.split("/")[1] for room in rooms())}


def test_every_floor_is_installed_in_editable_mode() -> None:
    extra_paths = set(PROJECT["tool"]["pyright"]["extraPaths"])
    assert {room.split("/")[0] for room in rooms()} <= extra_paths


def test_no_top_level_package_takes_a_users_name() -> None:
    for package in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert package.split("/")[-1].startswith("memory_")


def test_the_torch_pin_is_in_the_constraints() -> None:
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text("utf-8")
