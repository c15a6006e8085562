"""Attempts of a command behind the walls to get past them, also as root."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.host import walls
from harness.judge import kept

BUILD = [sys.executable, "-IS", walls.__file__]
needs_walls = pytest.mark.skipif(
    subprocess.run([*BUILD, "--try"], capture_output=True).returncode != 0,
    reason="this machine allows no user namespaces",
)

MOUNTS = """
import ctypes, struct
libc = ctypes.CDLL(None)
writable = struct.pack("QQQQ", 0, 1, 0, 0)
def undo():
    for flags in (0, 0x8000):
        libc.syscall(442, -100, b"/", flags, writable, 32)
    libc.mount(None, b"/", None, 32 | 4096, None)
    libc.umount2(FOLDER, 2)
"""


def behind(code: str, out: Path, *options: str) -> str:
    """Return what Python code prints behind walls that let it write to `out`, but not to `out`/logs."""
    (out / "logs").mkdir(parents=True, exist_ok=True)
    command = [*BUILD, *options, str(out), "--but", str(out / "logs"), "--", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    return done.stdout + done.stderr


@needs_walls
@pytest.mark.parametrize("undo", ["", "undo()", "libc.unshare(0x10020000); undo()"], ids=["", "mount", "namespace"])
def test_it_writes_to_its_folders_only(tmp_path: Path, undo: str) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    code = f"{MOUNTS.replace('FOLDER', repr(str(out).encode()))}\n{undo}\n"
    assert "Read-only file system" in behind(f"{code}open({str(other)!r}, 'w')", out)
    assert "Read-only file system" in behind(f"{code}open({str(out / 'logs/gate.log')!r}, 'w')", out)
    assert not other.exists()
    assert behind(f"open({str(out / 'record.json')!r}, 'w').write('x')", out) == ""
    assert (out / "record.json").read_text() == "x"


@needs_walls
def test_it_finds_kernels_of_accepted_runs(tmp_path: Path) -> None:
    entry = tmp_path / "kernels" / ("ab" * 32)
    entry.parent.mkdir()
    entry.write_bytes(kept._seal(entry.name, b"compiled") + b"compiled")
    code = f"from pathlib import Path; from harness.judge.kept import _sealed; print(_sealed(Path({str(entry)!r})))"
    assert behind(code, tmp_path / "out").strip() == "b'compiled'"


@needs_walls
def test_it_cannot_put_another_folder_in_place_of_the_logs(tmp_path: Path) -> None:
    said = behind(
        f"import os; os.rename({str(tmp_path / 'out/logs')!r}, {str(tmp_path / 'out/old')!r})", tmp_path / "out"
    )
    assert "busy" in said


@needs_walls
def test_it_sees_only_the_shown_folders_of_a_hidden_one(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name in ("other", "own/out", "own/logs"):
        (runs / name).mkdir(parents=True)
        (runs / name / "file").write_text(name)
    code = "import os; os.chdir('..'); print(os.listdir('.'), open('own/logs/file').read()); open('own/out/new', 'w')"
    folders = [runs / "own/out", "--hide", tmp_path, runs, tmp_path / "none", "--show", runs / "own", tmp_path / "none"]
    for more, wanted in (("", ""), ("; open('own/logs/new', 'w')", "Read-only"), ("; open('new', 'w')", "Read-only")):
        command = [*BUILD, *map(str, folders), "--", sys.executable, "-c", code + more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=runs / "own")
        assert done.stdout == "['own'] own/logs\n" and wanted in done.stderr, done.stderr
        assert bool(wanted) is bool(done.returncode), done.stderr
    assert (runs / "own/out/new").exists() and (runs / "other/file").read_text() == "other"


@needs_walls
def test_it_has_no_capability(tmp_path: Path) -> None:
    said = behind("print([row.split()[1] for row in open('/proc/self/status') if row.startswith('Cap')])", tmp_path)
    assert said.strip() == str(["0" * 16] * 5)


@needs_walls
def test_it_reaches_no_server_by_a_file_and_no_network(tmp_path: Path) -> None:
    """A read-only mount does not stop a connection to a key agent or a terminal multiplexer."""
    assert "Permission denied" in behind("import socket; socket.socket(socket.AF_UNIX)", tmp_path)
    pair = "import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_{})"
    assert "Permission denied" in behind(pair.format("DGRAM"), tmp_path)
    assert behind(pair.format("STREAM"), tmp_path) == ""
    assert behind("import socket; socket.socket(socket.AF_UNIX)", tmp_path, walls.GPU_SOCKETS) == ""
    for family in ("socket.AF_VSOCK", "socket.AF_ALG", "socket.AF_PACKET", "44"):
        for option in ([], [walls.GPU_SOCKETS]):
            assert "Permission denied" in behind(f"import socket; socket.socket({family}, 1)", tmp_path, *option)
    assert behind("import socket; socket.socket(); socket.socket(socket.AF_NETLINK, 3)", tmp_path) == ""
    out = behind("import socket; socket.create_connection(('127.0.0.1', 22), 1)", tmp_path)
    assert "unreachable" in out or "refused" in out


@needs_walls
@pytest.mark.parametrize("option", [[], [walls.GPU_SOCKETS]], ids=["", "GPU"])
def test_it_reaches_no_keyring(option: list[str], tmp_path: Path) -> None:
    """A process inherits the session keyring of its user: it could read keys there, and leave some."""
    code = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for number in {}:
    print(libc.syscall(number, 0, -3, 0, 0), ctypes.get_errno())
"""
    calls = walls.CALLS[os.uname().machine][3:]
    assert behind(code.format(calls), tmp_path, *option) == f"-1 {errno.EACCES}\n" * len(calls)


@needs_walls
def test_a_hidden_folder_inside_a_shown_one_stays_hidden(tmp_path: Path) -> None:
    """Two processes that record do not see each other's results."""
    run = tmp_path / "runs/own"
    for name in ("out", "home/own", "home/other"):
        (run / name).mkdir(parents=True)
        (run / name / "file").write_text(name)
    folders = [
        run / "home/own",
        "--hide",
        run / "home",
        run / "out",
        tmp_path / "runs",
        "--show",
        run,
        run / "home/own",
    ]
    code = "import os; print(os.listdir('out'), os.listdir('home'), os.listdir('home/own')); open('home/own/new', 'w')"
    command = [*BUILD, *map(str, folders), "--", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=run)
    assert (done.stdout, done.returncode) == ("[] ['own'] ['file']\n", 0), done.stderr
