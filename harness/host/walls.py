"""Walls around a phase: run a command in Linux namespaces of its own, as far as this host allows them.

`python -IS walls.py [--sockets] WRITABLE... [--but READABLE...] [--hide HIDDEN... --show SHOWN...] -- COMMAND...` runs
a command that sees no process but its own, has no network, may write to the first folders only (but not to those after
--but inside them), and sees neither the folders of the account's keys nor what lies in the hidden folders, but for the
shown ones. Without --sockets it cannot open UNIX sockets. CUDA needs them. `python -IS walls.py --try` exits with 0 if
the host allows that. It needs no privileges: a user namespace gives them, over nothing but these walls, and the command
gets none of them, not even as root.
"""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import signal
import struct
import sys
from contextlib import suppress
from pathlib import Path

NEW_NAMESPACES = 0x00020000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000  # mount, ipc, user, pid, net
MS_RDONLY, MS_BIND, MS_REC, MS_PRIVATE = 1, 4096, 16384, 1 << 18
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
SYS_MOUNT_SETATTR = 442
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 22, 24, 38
CAPABILITIES_V3 = 0x20080522
MOST_CAPABILITIES = 64
SECCOMP_FILTER = 2
#: By machine: the number of its ABI, and of the system calls socket, socketpair, and those that are refused:
#: io_uring_setup, add_key, request_key and keyctl.
CALLS = {
    "x86_64": (0xC000003E, 41, 53, 425, 248, 249, 250),
    "aarch64": (0xC00000B7, 198, 199, 425, 217, 218, 219),
}
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, SOCK_STREAM, SOCK_TYPE_MASK = 1, 2, 10, 16, 1, 0xF
#: The families of sockets that a command may open: the network namespace has no network for them.
FAMILIES = (AF_INET, AF_INET6, AF_NETLINK)
#: A system call of x86-64's other ABI, x32, has this bit.
X32 = 0x40000000
ALLOWED, KILLED, REFUSED = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EACCES
SHARED_MEMORY = "/dev/shm"
#: Folders of a home that may hold keys.
SECRETS = (".ssh", ".gnupg", ".aws", ".azure", ".config", ".docker", ".kube")
#: The option that leaves UNIX sockets to the command.
GPU_SOCKETS = "--sockets"
#: The exit code if the walls cannot be built.
NO_WALLS = 125

_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    """Run the command line that the module's docstring describes."""
    if arguments == ["--try"]:
        arguments = ["--", "/bin/true"]
    sockets = arguments[0] == GPU_SOCKETS
    arguments = arguments[sockets:]
    split = arguments.index("--")
    folders, command = _read_folders(arguments[:split]), arguments[split + 1 :]
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the command gets it too, and its end is this one's
    try:
        _leave()
    except OSError as error:
        print(f"no walls: {error.strerror}", file=sys.stderr)
        return NO_WALLS
    reading, writing = os.pipe()
    inside = os.fork()
    if inside == 0:
        os.close(reading)
        _be_init(folders, command, writing, sockets)
    os.close(writing)
    os.waitpid(inside, 0)
    said = os.read(reading, 8)
    if len(said) < 8:
        return NO_WALLS
    (status,) = struct.unpack("q", said)
    if os.WIFSIGNALED(status):
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    return os.waitstatus_to_exitcode(status)


def _read_folders(arguments: list[str]) -> dict[str, list[str]]:
    """Return the folders by the option before them; the writable ones have none ("")."""
    found: dict[str, list[str]] = {"": [], "--but": [], "--hide": [], "--show": []}
    option = ""
    for each in arguments:
        if each in found:
            option = each
        else:
            found[option].append(each)
    return found


def _leave() -> None:
    """Enter new namespaces, with the same user and group. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(NEW_NAMESPACES))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _be_init(folders: dict[str, list[str]], command: list[str], writing: int, sockets: bool) -> None:
    """Build the walls, run the command, and report its status. All that it left running ends with this process."""
    code = NO_WALLS
    try:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        _build(folders)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.close(writing)
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            _give_up_privileges()
            _refuse_calls(sockets)
            os.execvp(command[0], command)
        while True:
            ended, status = os.wait()
            if ended == child:
                os.write(writing, struct.pack("q", status))
                code = 0
                break
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
    finally:
        os._exit(code)


def _build(folders: dict[str, list[str]]) -> None:
    """Make every mount read-only but the writable folders, hide folders, and show only this namespace's processes."""
    here = os.getcwd()
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    for folder in (*folders[""], *folders["--but"]):
        _mount(folder, folder, None, MS_BIND | MS_REC)
    _hide(folders["--hide"], folders["--show"])
    _set_read_only("/", AT_RECURSIVE, True)
    for folder in folders[""]:
        _set_read_only(folder, 0, False)
    if os.path.isdir(SHARED_MEMORY):
        _mount("tmpfs", SHARED_MEMORY, "tmpfs", 0)
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    for name in SECRETS:
        if (home / name).is_dir():
            _mount("tmpfs", str(home / name), "tmpfs", MS_RDONLY)
    with suppress(OSError):  # a container may not allow it; other processes can then be seen, but not reached
        _mount("proc", "/proc", "proc", 0)
    os.chdir(here)  # the folder, as it is mounted now


def _hide(hidden: list[str], shown: list[str]) -> None:
    """Empty the hidden folders, but for the shown ones. Folders that are not there are left out."""
    handles = {folder: os.open(folder, os.O_PATH | os.O_DIRECTORY) for folder in shown if os.path.isdir(folder)}
    for folder in filter(os.path.isdir, hidden):
        _mount("tmpfs", folder, "tmpfs", 0)
    for folder, handle in handles.items():
        os.makedirs(folder, exist_ok=True)
        _mount(f"/proc/self/fd/{handle}", folder, None, MS_BIND | MS_REC)
        os.close(handle)


def _give_up_privileges() -> None:
    """Drop every capability for good: with one, a command that runs as root could make its mounts writable again."""
    for number in range(MOST_CAPABILITIES):
        _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # fails for numbers that this kernel does not have
    header, none = struct.pack("Ii", CAPABILITIES_V3, 0), bytes(24)
    _check(_libc.capset(header, none))
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _refuse_calls(sockets: bool) -> None:
    """Refuse system calls that reach beyond the walls: of keyrings, of io_uring, and of sockets not in FAMILIES.

    A read-only mount does not stop a connection to a socket file, such as that of a key agent or a terminal
    multiplexer, nor does a network namespace stop one to a virtual machine's host (AF_VSOCK). Pairs of connected stream
    sockets stay allowed. sockets: UNIX sockets are allowed too.
    """
    if os.uname().machine not in CALLS:
        return
    abi, socket, socketpair, *refused = CALLS[os.uname().machine]
    load, equal, bits, end, masked = 0x20, 0x15, 0x45, 0x06, 0x54
    number, architecture, first, second = 0, 4, 16, 24  # offsets in struct seccomp_data
    families = (*FAMILIES, *(AF_UNIX,) * sockets)
    pairs = [
        (load, 0, 0, second),
        (masked, 0, 0, SOCK_TYPE_MASK),
        (equal, 0, 3, SOCK_STREAM),
        (load, 0, 0, first),
        (equal, 0, 1, AF_UNIX),
        (end, 0, 0, ALLOWED),
        (end, 0, 0, REFUSED),
    ]
    of_socket = [
        (load, 0, 0, first),
        *((equal, len(families) - at, 0, family) for at, family in enumerate(families)),
        (end, 0, 0, REFUSED),
        (end, 0, 0, ALLOWED),
    ]
    program = [
        (load, 0, 0, architecture),
        (equal, 1, 0, abi),
        (end, 0, 0, KILLED),
        (load, 0, 0, number),
        (bits, len(refused) + 3, 0, X32),
        *((equal, len(refused) + 2 - at, 0, call) for at, call in enumerate(refused)),
        (equal, 3, 0, socket),
        (equal, 2 + len(of_socket), 0, socketpair),
        (end, 0, 0, ALLOWED),
        (end, 0, 0, REFUSED),
        *of_socket,
        *pairs,
    ]
    rows = b"".join(struct.pack("HBBI", *row) for row in program)
    code = ctypes.create_string_buffer(rows, len(rows))
    filtering = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
    _check(_libc.prctl(PR_SET_SECCOMP, SECCOMP_FILTER, ctypes.c_char_p(filtering), 0, 0))


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    names = [None if each is None else os.fsencode(each) for each in (source, target, kind)]
    _check(_libc.mount(*names, ctypes.c_ulong(flags), None))


def _set_read_only(target: str, flags: int, on: bool) -> None:
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY if on else 0, 0 if on else MOUNT_ATTR_RDONLY, 0, 0)
    size = ctypes.c_size_t(len(attributes))
    _check(_libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, os.fsencode(target), flags, attributes, size))


def _check(code: int) -> None:
    if code:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
