"""Sandbox for child processes. Bubblewrap (`bwrap`) gives them separate mount and PID namespaces.

`SandboxView` is a description and `arguments` turns it into bwrap's arguments: both pure. Only `Sandbox` inspects the
machine and wraps a command. Stronger confinement (for example no network) would be further fields of `SandboxView`.
"""

import errno
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from fairlead.model.errors import BadRequest, Unavailable
from fairlead.system.platform import PORTABLE
from fairlead.system.proctable import PROGRAM

PROBE_SECONDS: Final = 20.0

KEPT_CAPABILITIES: Final = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_FOWNER": 3,
    "CAP_FSETID": 4,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SETPCAP": 8,
    "CAP_NET_BIND_SERVICE": 10,
    "CAP_NET_RAW": 13,
    "CAP_IPC_LOCK": 14,
    "CAP_SYS_CHROOT": 18,
    "CAP_SYS_NICE": 23,
    "CAP_SYS_RESOURCE": 24,
    "CAP_AUDIT_WRITE": 29,
    "CAP_SETFCAP": 31,
}
"""The capabilities that root keeps in a sandbox, with the kernel's numbers: enough to install packages and change
owners. With CAP_SYS_ADMIN it could unmount the cover of a hidden folder, with CAP_DAC_READ_SEARCH open a hidden file by
its handle, with CAP_MKNOD create the disk's device."""

READ_ONLY_FOR_ROOT: Final = ("/sys", "/proc/sys", "/proc/sysrq-trigger")
"""Kernel settings: a file there names a program that the kernel runs outside of every sandbox."""

_DISK_DEVICES: Final = re.compile(r"sg\d+|nvme\d+|ng\d+n\d+|mem|kmem|port")
"""Character devices that give access to a disk or to memory."""

SERVICE_MANAGERS: Final = (
    "/run/user/{uid}/bus",
    "/run/user/{uid}/systemd",
    "/run/systemd/private",
    "/run/dbus/system_bus_socket",
)
"""Sockets that can be used to start a program outside of the sandbox (`systemd-run`)."""


@dataclass(frozen=True, slots=True)
class SandboxView:
    """What a child can see. All paths are real paths. `readable` and `writable` matter only below a hidden folder:
    everything else is visible anyway."""

    hidden: tuple[str, ...] = ()
    """Folders that appear empty; each child gets its own empty folder."""
    masked: tuple[str, ...] = ()
    """Files and devices that cannot be opened."""
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    """Paths that are read-only, also outside of hidden folders."""
    capabilities: tuple[str, ...] | None = None
    """The capabilities that root keeps; None for another user, who has no capabilities."""


def arguments(view: SandboxView, cwd: str) -> list[str]:
    """Return bwrap's arguments up to the command. Pure."""
    made = ["--dev-bind", "/", "/"]
    steps: list[tuple[str, list[str]]] = [(folder, ["--tmpfs", folder]) for folder in view.hidden]
    steps += [(path, ["--ro-bind-try", "/dev/null", path]) for path in view.masked]
    for option, paths in (("--ro-bind-try", view.readable), ("--bind-try", view.writable)):
        steps += [(path, [option, path, path]) for path in paths if is_below(path, view.hidden)]
    # A folder before its contents: a bind shows its whole tree again, so hidden paths inside it must come later.
    for _, step in sorted(dict(steps).items(), key=lambda item: Path(item[0]).parts):
        made += step
    made += ["--unshare-pid", "--proc", "/proc"]
    for path in view.fixed:
        made += ["--ro-bind-try", path, path]
    if view.capabilities is not None:
        made += ["--cap-drop", "ALL"]
        for name in view.capabilities:
            made += ["--cap-add", name]
    return [*made, "--chdir", cwd]


def is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path != folder and Path(path).is_relative_to(folder) for folder in folders)


def is_shown(path: str, view: SandboxView) -> bool:
    """Return whether a real path is visible inside. The innermost listed folder that contains it decides."""
    ways = [(folder, False) for folder in view.hidden]
    ways += [(folder, True) for folder in (*view.readable, *view.writable) if is_below(folder, view.hidden)]
    about = [(Path(folder).parts, shown) for folder, shown in ways if Path(path).is_relative_to(folder)]
    return max(about, default=((), True))[1]


class Mount(NamedTuple):
    device: str
    root: str
    point: str
    kind: str


def mounts_of(mountinfo: str) -> list[Mount]:
    """Parse the lines of /proc/self/mountinfo."""
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        found.append(Mount(fields[2], _plain(fields[3]), _plain(fields[4]), after.split()[0]))
    return found


def _plain(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def aliases(path: str, mounts: Sequence[Mount]) -> dict[str, str]:
    """Return the other paths of a folder or of a part of it, each with its path inside the folder: a file system may be
    mounted, or a part of it bound, in several places."""
    around = [mount for mount in mounts if Path(path).is_relative_to(mount.point)]
    if not around:
        return {}
    # The last of several mounts on one point covers the others.
    home = max(enumerate(around), key=lambda item: (len(Path(item[1].point).parts), item[0]))[1]
    place = Path(home.root, Path(path).relative_to(home.point))
    found = {}
    for mount in mounts:
        if mount.device != home.device:
            continue
        if place.is_relative_to(mount.root):
            found[str(Path(mount.point, place.relative_to(mount.root)))] = path
        elif Path(mount.root).is_relative_to(place):
            found[mount.point] = str(Path(path, Path(mount.root).relative_to(place)))
    return {alias: name for alias, name in found.items() if alias != path}


class _Folder(NamedTuple):
    path: str
    device: int
    inode: int


@dataclass(frozen=True)
class Sandbox:
    """Wraps commands, so that `folders` and `files` do not exist for them. Created by `sandbox_of`."""

    program: str
    folders: tuple[_Folder, ...]
    files: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()

    def showing(self, *, readable: Iterable[str] = (), writable: Iterable[str] = ()) -> "Sandbox":
        """Return the same sandbox with more visible paths; this matters only for paths in a hidden folder."""
        return replace(
            self,
            readable=(*self.readable, *map(os.path.realpath, readable)),
            writable=(*self.writable, *map(os.path.realpath, writable)),
        )

    def wrap(
        self, argv: Sequence[str], cwd: str, *, through: Sequence[str] = (), options: Sequence[str] = ()
    ) -> list[str]:
        """Return the command that runs `argv` inside, started by our program `through`; `options` are options of bwrap.

        Raises Unavailable, BadRequest, and OSError for a program whose path is not visible.
        """
        view = self.view()
        folder = os.path.realpath(cwd)
        if not is_shown(folder, view):
            raise BadRequest(f"The folder {cwd} belongs to the gateway: its programs cannot see it.", path=cwd)
        if "/" in argv[0] and not is_shown(os.path.realpath(os.path.join(cwd, argv[0])), view):
            raise OSError(errno.ENOENT, "it is in a folder of the gateway, which the sandbox hides", argv[0])
        return [self.program, *arguments(view, cwd), *options, "--", *through, *argv]

    def view(self) -> SandboxView:
        """Return the view for the current mounts and files of the machine."""
        mounts = mounts_of(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
        hidden: set[str] = set()
        for known in self.folders:
            if _identity(known.path) != known:
                raise Unavailable(
                    f"The folder {known.path} was moved or replaced since the gateway started: start the gateway again."
                )
            hidden.add(known.path)
            # Another mount may cover an alias: then the path leads to something else.
            hidden |= {alias for alias, name in aliases(known.path, mounts).items() if _is_same(alias, name)}
        hidden |= {mount.point for mount in mounts if mount.kind == "proc" and mount.point != "/proc"}
        root = os.geteuid() == 0
        managers = (path.format(uid=os.getuid()) for path in SERVICE_MANAGERS)
        masked = [path for path in (*self.files, *managers) if os.path.exists(path)]
        hidden |= {path for path in masked if os.path.isdir(path)}
        masked = [path for path in masked if path not in hidden]
        shown = {"readable": self.readable, "writable": self.writable}
        # A path inside another hidden folder does not exist inside, so it cannot be covered.
        hidden = {path for path in hidden if is_shown(path, SandboxView(hidden=tuple(hidden - {path}), **shown))}
        masked = [path for path in masked if is_shown(path, SandboxView(hidden=tuple(hidden), **shown))]
        return SandboxView(
            hidden=tuple(sorted(hidden)),
            masked=(*masked, *(_disks() if root else ())),
            readable=self.readable,
            writable=self.writable,
            fixed=READ_ONLY_FOR_ROOT if root else (),
            capabilities=_held(KEPT_CAPABILITIES) if root else None,
        )


def sandbox_of(program: str, folders: Iterable[str | Path], files: Iterable[str | Path] = ()) -> Sandbox:
    """Return a sandbox that hides the folders and files that exist. Our own Python and code stay visible."""
    own = (sys.prefix, sys.base_prefix, str(Path(__file__).parent.parent))
    known = tuple(_identity(os.path.realpath(folder)) for folder in folders if os.path.isdir(folder))
    return Sandbox(
        program,
        tuple(dict.fromkeys(known)),
        tuple(dict.fromkeys(os.path.realpath(file) for file in files if os.path.isfile(file))),
        readable=tuple(map(os.path.realpath, own)),
    )


def find_program() -> str:
    """Return the path of bwrap; empty if it is not installed. Only Linux has it."""
    return "" if PORTABLE else shutil.which(PROGRAM) or ""


def problem_of(sandbox: Sandbox) -> str:
    """Explain why a sandbox does not work here; empty if it does. Runs it and checks what is visible inside."""
    if not sandbox.program:
        return "bubblewrap (bwrap) is not installed" if sys.platform == "linux" else "bubblewrap needs Linux"
    try:
        view = sandbox.view()
        ran = subprocess.run(
            [sandbox.program, *arguments(view, "/"), "--", "/bin/cat", "/proc/self/status", "/proc/self/mountinfo"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
            env={},
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired, Unavailable) as error:
        return f"bwrap cannot be run: {error}"
    errors = ran.stderr.decode("utf-8", "replace").strip().splitlines()
    if ran.returncode:
        return f"bwrap does not work here: {errors[-1] if errors else f'exit code {ran.returncode}'}"
    return shortcoming(ran.stdout.decode("utf-8", "surrogateescape"), view)


def shortcoming(printed: str, view: SandboxView) -> str:
    """Explain what is wrong with a sandbox, from its printed status and mounts; empty if nothing is. Pure."""
    status = dict(re.findall(r"^(\w+):[ \t]*(.*)$", printed, re.MULTILINE))
    kept = 0
    for name in view.capabilities or ():
        kept |= 1 << KEPT_CAPABILITIES[name]
    if int(status.get("CapEff", "-1"), 16) & ~kept:
        return "bwrap leaves its programs too many capabilities"
    if not 1 < int(status.get("Pid", "0")) < 10:
        return "bwrap does not give its programs a separate PID namespace"
    lines = [line for line in printed.splitlines() if " - " in line]
    on = {mount.point: mount.kind for mount in mounts_of("\n".join(lines))}
    open_ones = [folder for folder in view.hidden if on.get(folder) != "tmpfs"]
    return f"bwrap does not hide {open_ones[0]}" if open_ones else ""


def _identity(path: str) -> _Folder:
    try:
        found = os.stat(path)
    except OSError:
        return _Folder(path, 0, 0)
    return _Folder(path, found.st_dev, found.st_ino)


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.isdir(one) and os.path.samefile(one, other)
    except OSError:
        return False


def _held(names: dict[str, int]) -> tuple[str, ...]:
    """Return the capabilities that this process has: if bwrap cannot keep a requested one, it drops none at all."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^CapPrm:\s*([0-9a-f]+)$", status, re.MULTILINE)
    mask = int(found[1], 16) if found else 0
    return tuple(name for name, bit in names.items() if mask >> bit & 1)


def _disks(folder: str = "/dev") -> Iterator[str]:
    """Yield the devices that expose the bytes of a disk, and so hidden files too."""
    with os.scandir(folder) as entries:
        for entry in entries:
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode) and entry.name not in ("pts", "shm"):
                yield from _disks(entry.path)
            elif stat.S_ISBLK(mode) or (
                stat.S_ISCHR(mode) and (_DISK_DEVICES.fullmatch(entry.name) or "/bsg/" in entry.path)
            ):
                yield entry.path
