"""Links, damaged manifests, directories that cannot be written, full devices: refused or repaired, nothing lost."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_core.errors import InvalidEntryError, StorageUnavailableError, UnknownScopeError
from memory_core.model import MemoryId
from memory_core.testing import FakeClock, make_entry
from memory_core.testing.follower import Follower
from memory_storer_markdown import manifest
from memory_storer_markdown.manifest import STATE_DIR
from memory_storer_markdown.storer import MarkdownStorer

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions and links")


def open_storer(root: Path, **more: bool) -> MarkdownStorer:
    return MarkdownStorer({"workspace": root}, clock=FakeClock(), fsync=False, **more)


def run(code: str, *arguments: str, check: bool = True) -> str:
    """Run code in a fresh interpreter that can import the rooms."""
    prelude = (
        "import os, sys\nfrom memory_core.testing import make_entry\nfrom memory_core.errors import *\nfrom memory_core.model import MemoryId\n"
        "from memory_storer_markdown.storer import MarkdownStorer\nID = MemoryId('workspace', 'shared', 'k')\n"
        "import tempfile\nwith tempfile.TemporaryDirectory() as place:  # import everything before rights are dropped\n"
        "    warm = MarkdownStorer({'workspace': place})\n    warm.put(make_entry('k'))\n    warm.remove(ID)\n    warm.close()\n"
        "storer = MarkdownStorer({'workspace': sys.argv[1]})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


# --- links ---------------------------------------------------------------------------------------------------------


@posix
def test_links_are_never_followed(tmp_path: Path) -> None:
    secret = tmp_path / "outside"
    secret.mkdir()
    (secret / "secret.md").write_text("secret words")
    root = tmp_path / "scope"
    (root / "shared").mkdir(parents=True)
    (root / "shared" / "link.md").symlink_to(secret / "secret.md")
    (root / "shared" / "dead.md").symlink_to(secret / "nowhere.md")
    (root / "ann").symlink_to(secret)
    (root / "top.md").symlink_to(secret / "secret.md")
    storer = open_storer(root)
    for user in ("shared", "ann"):
        assert storer.get(MemoryId("workspace", user, "secret")) is None
        assert list(storer.scan(user)) == []
        assert storer.changes(None, user).upserts == []
    assert list(storer.scan()) == []
    with pytest.raises(StorageUnavailableError, match="real directories"):
        storer.put(make_entry("k", "x", user="ann"))
    storer.put(make_entry("link", "mine"))
    storer.put(make_entry("dead", "mine"))
    assert (secret / "secret.md").read_text() == "secret words"
    assert sorted(path.name for path in secret.iterdir()) == ["secret.md"]
    assert (root / "shared" / "link.md").is_symlink()
    assert {entry.id.key for entry in storer.scan()} == {"link", "dead"}
    storer.close()


@posix
def test_a_link_put_in_the_place_of_a_file_is_replaced_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim.md"
    victim.write_text("victim")
    storer = open_storer(tmp_path / "scope")
    storer.put(make_entry("k", "one"))
    path = tmp_path / "scope" / "shared" / "k.md"
    path.unlink()
    path.symlink_to(victim)
    storer.put(make_entry("k", "two"))
    assert storer.remove(MemoryId("workspace", "shared", "k"))
    assert victim.read_text() == "victim"
    storer.close()


@posix
@pytest.mark.parametrize("name", ["", "tmp", "manifest.sqlite3", "manifest.sqlite3-wal", ".gitignore"])
def test_links_in_the_place_of_derived_files_are_refused_and_nothing_behind_them_is_touched(
    tmp_path: Path, name: str
) -> None:
    """A manifest of another schema is dropped, old temporary files are deleted: never those of somebody else."""
    victim, root = tmp_path / "victim", tmp_path / "scope"
    victim.mkdir()
    for file in ("manifest.sqlite3", "letter.tmp"):
        (victim / file).write_text("precious", "utf-8")
        os.utime(victim / file, (0, 0))
    other = sqlite3.connect(victim / "other.sqlite3")
    other.execute("CREATE TABLE precious (x)")
    other.close()
    (root / "shared").mkdir(parents=True)
    (root / "shared" / "note.md").write_text("a note", "utf-8")
    link = root / STATE_DIR / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to({"": victim, "tmp": victim, ".gitignore": victim / "new"}.get(name, victim / "other.sqlite3"))
    before = {path: path.read_bytes() for path in victim.iterdir()}
    storer = open_storer(root)
    for call in (lambda: storer.put(make_entry("k")), lambda: list(storer.scan())):
        with pytest.raises(StorageUnavailableError, match=r"is a link.* Delete it"):
            call()
    assert {path: path.read_bytes() for path in victim.iterdir()} == before
    link.unlink()
    storer.put(make_entry("k", "x"))
    assert {entry.id.key for entry in storer.scan()} == {"k", "note"}
    storer.close()


@pytest.mark.parametrize("table", ["dirs", "files"])
@pytest.mark.parametrize("name", ["..", "../outside", "shared/../..", ".git"])
def test_a_forged_manifest_does_not_lead_out(tmp_path: Path, table: str, name: str) -> None:
    """It may come with a cloned repository."""
    root, outside = tmp_path / "scope", tmp_path / "outside"
    for folder in (outside, root / ".git"):
        folder.mkdir(parents=True)
        (folder / "diary.md").write_text("dear diary", "utf-8")
    (tmp_path / "diary.md").write_text("dear diary", "utf-8")
    storer = open_storer(root)
    storer.put(make_entry("k", "x"))
    storer.close()
    db = sqlite3.connect(root / STATE_DIR / "manifest.sqlite3")
    with db:
        if table == "dirs":
            db.execute("INSERT INTO dirs VALUES (?, 1)", (name,))
        else:
            row = (f"{name}/diary.md", name, "x", "shared", "diary", 1.0, 1, 1.0, "{}", "", None)
            db.execute(f"INSERT INTO files VALUES ({', '.join('?' * len(row))})", row)
            db.execute("INSERT INTO latest VALUES ('shared', 'diary', 1, ?)", (row[0],))
    db.close()
    storer = open_storer(root)
    assert [entry.id.key for entry in storer.scan()] == ["k"]
    storer.put(make_entry("diary", "mine"))
    storer.purge_expired(FakeClock().now())
    assert storer.remove(MemoryId("workspace", "shared", "diary"))
    storer.close()
    found = {path.read_text("utf-8") for path in tmp_path.rglob("diary.md")}
    assert (len(list(tmp_path.rglob("diary.md"))), found) == (3, {"dear diary"})


@posix
def test_special_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    os.mkfifo(tmp_path / "shared" / "pipe.md")
    storer = open_storer(tmp_path)
    assert list(storer.scan()) == []
    storer.close()


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    storer = open_storer(tmp_path / "link")
    storer.put(make_entry("k", "x"))
    assert (tmp_path / "real" / "shared" / "k.md").exists()
    assert storer.get(make_entry("k").id) is not None
    storer.close()


# --- the manifest --------------------------------------------------------------------------------------------------


def manifest_file(root: Path) -> Path:
    return root / STATE_DIR / "manifest.sqlite3"


def filled(root: Path, count: int = 30) -> MarkdownStorer:
    storer = open_storer(root)
    storer.put_many(make_entry(f"k{n}", f"c{n}") for n in range(count))
    return storer


def keys(storer: MarkdownStorer) -> set[str]:
    return {entry.id.key for entry in storer.scan()}


ALL = {f"k{n}" for n in range(30)}


@pytest.mark.parametrize("what", ["file", "folder", "file and logs"])
def test_a_manifest_deleted_while_open_is_rebuilt_and_followers_start_over(tmp_path: Path, what: str) -> None:
    storer = filled(tmp_path)
    follower = Follower(storer)
    follower.follow()
    storer.remove(MemoryId("workspace", "shared", "k0"))
    if what == "folder":
        shutil.rmtree(tmp_path / STATE_DIR)
    else:
        for path in (tmp_path / STATE_DIR).iterdir():
            if path.name == "manifest.sqlite3" or (what != "file" and path.is_file()):
                path.unlink()
    assert keys(storer) == ALL - {"k0"}
    follower.follow()
    assert {id.key for id in follower.entries} == ALL - {"k0"}
    assert follower.completes == 2
    storer.put(make_entry("new", "x"))
    storer.close()
    again = open_storer(tmp_path)
    assert keys(again) == ALL - {"k0"} | {"new"}
    again.close()


def damaged_manifests() -> dict[str, bytes | None]:
    return {
        "empty": b"", "garbage": b"not a database at all" * 500, "zeros": bytes(8192), "header only": b"SQLite format 3\x00" + bytes(84),
        "half": None, "first page": None, "middle overwritten": None, "other schema": None, "same version, no tables": None, "one table missing": None, "no rows in meta": None,
    }  # fmt: skip


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    made = damaged_manifests()[how]
    if made is not None:
        path.write_bytes(made)
    elif how == "half":
        path.write_bytes(data[: len(data) // 2 + 100])
    elif how == "first page":
        path.write_bytes(data[:4096])
    elif how == "middle overwritten":
        path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    else:
        if how not in ("one table missing", "no rows in meta"):
            path.unlink()
        db = sqlite3.connect(path)
        if how == "other schema":
            db.execute("CREATE TABLE latest (a)")
            db.execute("PRAGMA user_version = 999")
        elif how == "one table missing":
            db.execute("DROP TABLE files")
        elif how == "no rows in meta":
            db.execute("DELETE FROM meta")
        else:
            db.execute("PRAGMA user_version = 1")
        db.commit()
        db.close()


@pytest.mark.parametrize("how", damaged_manifests())
def test_a_damaged_manifest_is_rebuilt_from_the_files(tmp_path: Path, how: str) -> None:
    filled(tmp_path).close()
    for path in (tmp_path / STATE_DIR).glob("manifest.sqlite3-*"):
        path.unlink()
    damage(manifest_file(tmp_path), how)
    storer = open_storer(tmp_path)
    assert keys(storer) == ALL
    storer.put(make_entry("new", "x"))
    assert storer.remove(MemoryId("workspace", "shared", "k1"))
    assert storer.problems() == []
    storer.close()
    again = open_storer(tmp_path)
    assert keys(again) == ALL - {"k1"} | {"new"}
    again.close()


@pytest.mark.parametrize("how", ["garbage", "half", "empty", "middle overwritten"])
def test_a_manifest_damaged_while_open_is_an_error_that_says_what_to_do_or_works(tmp_path: Path, how: str) -> None:
    storer = filled(tmp_path, 300)
    storer.close()
    storer.get(MemoryId("workspace", "shared", "k1"))
    damage(manifest_file(tmp_path), how)
    for _ in range(3):
        try:
            assert {f"k{n}" for n in range(300)} == keys(storer)
        except StorageUnavailableError as error:
            assert STATE_DIR in str(error)  # noqa: PT017 - either outcome is legal
    shutil.rmtree(tmp_path / STATE_DIR)
    assert {f"k{n}" for n in range(300)} == keys(storer)
    storer.close()


def test_ten_thousand_tombstones_are_kept_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "TOMBSTONES_KEPT", 50)
    storer = filled(tmp_path, 120)
    late, early = Follower(storer), Follower(storer)
    late.follow()
    early.follow()
    for number in range(100):
        storer.remove(MemoryId("workspace", "shared", f"k{number}"))
        if number % 20 == 0:
            late.follow()
    with sqlite3.connect(manifest_file(tmp_path)) as db:
        assert db.execute("SELECT count(*) FROM latest WHERE path IS NULL").fetchone()[0] == 50
    db.close()
    for follower, completes in ((late, 1), (early, 2)):
        follower.follow()
        assert {id.key for id in follower.entries} == {f"k{n}" for n in range(100, 120)}
        assert follower.completes == completes
    assert manifest.TOMBSTONES_KEPT == 50
    storer.close()


def test_the_real_limit_is_ten_thousand() -> None:
    assert manifest.TOMBSTONES_KEPT == 10_000


def test_state_files_ignore_themselves(tmp_path: Path) -> None:
    filled(tmp_path, 1).close()
    assert (tmp_path / STATE_DIR / ".gitignore").read_text() == "*\n"


# --- places that cannot be written or read -------------------------------------------------------------------------

as_nobody = "os.setgid(65534); os.setuid(65534)\n" if os.name == "posix" and os.getuid() == 0 else ""


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that an unprivileged process can reach; pytest's own ones are private."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "scope").mkdir()
        yield Path(name) / "scope"


@posix
@pytest.mark.parametrize("with_manifest", [True, False])
def test_a_read_only_directory_is_read_and_every_write_says_so(open_place: Path, with_manifest: bool) -> None:
    storer = filled(open_place, 3)
    storer.put(make_entry("k", "before"))
    list(storer.scan())
    storer.close()
    if not with_manifest:
        shutil.rmtree(open_place / STATE_DIR)
    for path in (open_place, *open_place.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    code = as_nobody + (
        "assert storer.get(ID).content == 'before'\nassert len(list(storer.scan())) == 4\nassert len(storer.changes(None, 'shared').upserts) == 4\n"
        "assert storer.problems()[-1].code == 'read-only', storer.problems()\n"
        "for write in (lambda: storer.put(make_entry('k', 'after')), lambda: storer.put(make_entry('new')), lambda: storer.remove(ID), lambda: storer.put(make_entry('k', user='new'))):\n"
        "    try: write()\n    except StorageUnavailableError as error: print(error)\n    else: raise SystemExit('it was written')\n"
        "assert storer.get(ID).content == 'before'\nassert len(list(storer.scan())) == 4\n"
    )
    try:
        lines = run(code, str(open_place)).splitlines()
    finally:
        for path in (open_place, *open_place.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert len(lines) == 4
    assert all("Permission denied" in line and "can be written" in line for line in lines)
    assert (open_place / "shared" / "k.md").read_text().endswith("before\n")


@posix
def test_a_scope_that_cannot_be_made_says_so(open_place: Path) -> None:
    open_place.chmod(0o555)
    code = as_nobody + (
        "assert storer.get(ID) is None\nassert list(storer.scan()) == []\n"
        "try: storer.put(make_entry('k'))\nexcept StorageUnavailableError as error: print(error)\n"
    )
    assert "Permission denied" in run(code, str(open_place / "deep" / "er"))


@posix
def test_an_unreadable_directory_does_not_look_empty(open_place: Path) -> None:
    filled(open_place, 3).close()
    (open_place / "shared").chmod(0)
    for path in (open_place, *(open_place / STATE_DIR).rglob("*"), open_place / STATE_DIR):
        path.chmod(0o777)
    code = as_nobody + (
        "for read in (lambda: storer.get(ID), lambda: list(storer.scan()), lambda: storer.changes(None, 'shared'), lambda: storer.users()):\n"
        "    try: read()\n    except StorageUnavailableError as error: print(error)\n    else: raise SystemExit('it looked empty')\n"
    )
    try:
        lines = run(code, str(open_place)).splitlines()
    finally:
        (open_place / "shared").chmod(0o755)
    assert len(lines) == 4
    assert all("cannot be read: Permission denied" in line for line in lines)


@posix
def test_one_unreadable_file_is_reported_and_comes_back(open_place: Path) -> None:
    filled(open_place, 3).close()
    open_place.chmod(0o777)
    for path in open_place.rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0o666)
    shutil.rmtree(open_place / STATE_DIR)
    (open_place / "shared" / "k1.md").chmod(0)
    code = as_nobody + ("print(sorted(entry.id.key for entry in storer.scan()), storer.problems()[0].message)\n")
    assert "['k0', 'k2'] the file cannot be read: Permission denied" in run(code, str(open_place))
    (open_place / "shared" / "k1.md").chmod(0o644)
    storer = open_storer(open_place)
    assert keys(storer) == {"k0", "k1", "k2"}
    storer.close()


@posix
def test_a_full_device_loses_nothing(tmp_path: Path) -> None:
    """A limit on the size of files is what a full device looks like: writes stop in the middle."""
    storer = open_storer(tmp_path)
    storer.put(make_entry("k", "before"))
    storer.close()
    code = """
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    storer.get(ID)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    for key in ("k", "other"):
        try: storer.put(make_entry(key, "x" * 900_000))
        except StorageUnavailableError as error: print(error)
    assert storer.get(ID).content == "before"
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
    try: storer.put(make_entry("small", "some words"))
    except StorageUnavailableError as error: print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    storer.put(make_entry("k", "after"))
    """
    lines = run(code, str(tmp_path)).splitlines()
    assert len(lines) == 3
    assert all("was not written" in line or "cannot be used" in line or "nothing was written" in line for line in lines)
    assert "File too large" in lines[0]
    again = open_storer(tmp_path)
    assert {entry.id.key: entry.content for entry in again.scan()} == {"k": "after"}
    assert list((tmp_path / STATE_DIR / "tmp").iterdir()) == []
    again.close()


@posix
def test_running_out_of_file_handles_does_not_look_like_an_empty_store(tmp_path: Path) -> None:
    filled(tmp_path, 5).close()
    code = """
    import resource
    assert len(list(storer.scan())) == 5
    (storer._scopes["workspace"].root / "shared" / "k9.md").write_text("by hand")
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096))
    try:
        while True: held.append(open("/dev/null"))
    except OSError: pass
    try: print(len(list(storer.scan())))
    except StorageUnavailableError: print("error")
    for file in held: file.close()
    print(len(list(storer.scan())))
    """
    lines = run(code, str(tmp_path)).split()
    assert lines[0] in ("6", "error")
    assert lines[1] == "6"


def test_an_entry_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    storer = MarkdownStorer({"workspace": tmp_path}, max_file_bytes=1 << 20)
    for content in ("x" * (1 << 20), "框" * (1 << 19)):
        with pytest.raises(InvalidEntryError, match="max_file_mb"):
            storer.put(make_entry("k", content))
    assert list(storer.scan()) == []
    with pytest.raises(UnknownScopeError):
        storer.get(MemoryId("team", "shared", "k"))
    storer.close()
