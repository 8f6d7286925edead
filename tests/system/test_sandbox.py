"""The sandbox: bwrap's arguments for a view, and real programs, which see only that view and end as they do outside."""

import asyncio
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.agents import Exit
from fairlead.model.errors import BadRequest, Unavailable
from fairlead.system.clock import SystemClock
from fairlead.system.process import ChildProcess, StopTimeouts, spawn, stop_orphan, wait_orphan
from fairlead.system.proctable import Process, descendants, kill, program_inside, start_mark
from fairlead.system.pty import spawn_on_pty
from fairlead.system.sandbox import (
    KEPT_CAPABILITIES,
    Mount,
    Sandbox,
    SandboxView,
    aliases,
    arguments,
    find_program,
    is_shown,
    mounts_of,
    problem_of,
    sandbox_of,
    shortcoming,
)
from patience import PATIENCE

pytestmark = [pytest.mark.process, pytest.mark.linux]

LONG = StopTimeouts(close=60, terminate=60, kill=60)
SHORT = StopTimeouts(close=0.05, terminate=0.05, kill=60)

# --- the arguments


def test_hidden_folder_is_covered_and_the_pid_namespace_is_separate() -> None:
    made = arguments(SandboxView(hidden=("/data",)), "/work")
    assert made == ["--dev-bind", "/", "/", "--tmpfs", "/data", "--unshare-pid", "--proc", "/proc", "--chdir", "/work"]


def test_shown_paths_come_after_the_folder_that_hides_them() -> None:
    view = SandboxView(
        hidden=("/data/home/keys", "/data"), readable=("/data/uploads", "/usr"), writable=("/data/home",)
    )
    made = arguments(view, "/")
    assert made[3:-5] == [
        *("--tmpfs", "/data"),
        *("--bind-try", "/data/home", "/data/home"),
        *("--tmpfs", "/data/home/keys"),
        *("--ro-bind-try", "/data/uploads", "/data/uploads"),
    ]


def test_a_folder_around_a_hidden_one_is_not_bound_again() -> None:
    assert "/home" not in arguments(SandboxView(hidden=("/home/data",), writable=("/home", "/home/data")), "/")


def test_root_keeps_only_the_named_capabilities() -> None:
    made = arguments(SandboxView(capabilities=("CAP_CHOWN", "CAP_KILL")), "/")
    assert made[6:-2] == ["--cap-drop", "ALL", "--cap-add", "CAP_CHOWN", "--cap-add", "CAP_KILL"]
    assert "--cap-drop" not in arguments(SandboxView(), "/")


_NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))


@given(st.lists(_NAMES, max_size=4), st.lists(_NAMES, max_size=4), _NAMES)
def test_arguments_show_exactly_the_visible_paths(hidden: list[str], shown: list[str], path: str) -> None:
    view = SandboxView(hidden=tuple(hidden), writable=tuple(shown))
    seen = True
    words = arguments(view, "/")
    for number, word in enumerate(words):
        if word in ("--tmpfs", "--bind-try") and Path(path).is_relative_to(words[number + 1]):
            seen = word == "--bind-try"
    assert is_shown(path, view) is seen


def test_other_names_of_a_folder_are_found_in_the_mounts() -> None:
    mounts = [
        Mount("8:1", "/", "/", "ext4"),
        Mount("8:2", "/", "/home", "ext4"),
        Mount("8:2", "/anna", "/srv/anna", "ext4"),
        Mount("8:2", "/anna/data/deep", "/mnt/deep", "ext4"),
        Mount("8:2", "/other", "/mnt/other", "ext4"),
        Mount("8:3", "/anna", "/mnt/elsewhere", "ext4"),
    ]
    assert aliases("/home/anna/data", mounts) == {
        "/srv/anna/data": "/home/anna/data",
        "/mnt/deep": "/home/anna/data/deep",
    }
    assert aliases("/etc", mounts) == {}


def test_names_with_spaces_are_read_from_the_mounts() -> None:
    line = "36 35 98:0 /a\\040b /mnt/c\\040d rw,noatime master:1 - ext3 /dev/root rw\n"
    assert mounts_of(line) == [Mount("98:0", "/a b", "/mnt/c d", "ext3")]


@pytest.mark.parametrize(
    ("status", "mounts", "problem"),
    [
        ("Pid:\t2\nCapEff:\t0000000000000000", "1 2 0:1 / /data rw - tmpfs tmpfs rw", ""),
        ("Pid:\t2\nCapEff:\t0000000000200000", "1 2 0:1 / /data rw - tmpfs tmpfs rw", "capabilities"),
        ("Pid:\t4711\nCapEff:\t0000000000000000", "1 2 0:1 / /data rw - tmpfs tmpfs rw", "PID namespace"),
        ("Pid:\t2\nCapEff:\t0000000000000000", "1 2 0:1 / / rw - ext4 /dev/vda rw", "/data"),
    ],
)
def test_ineffective_sandbox_is_detected(status: str, mounts: str, problem: str) -> None:
    found = shortcoming(f"{status}\n{mounts}\n", SandboxView(hidden=("/data",)))
    assert problem in found and bool(problem) is bool(found)


# --- real programs


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "canary").write_text("sings")
    (folder / "own").mkdir()
    (folder / "own" / "here").write_text("mine")
    return folder


@pytest.fixture
def sandbox(data: Path) -> Sandbox:
    made = sandbox_of(find_program(), [data])
    assert problem_of(made) == ""
    return made


async def read(child: ChildProcess) -> str:
    output: list[bytes] = []

    async def take(data: bytes) -> None:
        output.append(data)

    await child.read(take)
    return b"".join(output).decode()


def run(sandbox: Sandbox, *argv: str, cwd: str = "/", env: dict[str, str] | None = None) -> ChildProcess:
    return spawn(
        argv, env=env or {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, cwd=cwd, clock=SystemClock(), sandbox=sandbox
    )


async def output_of(sandbox: Sandbox, script: str, cwd: str = "/") -> str:
    child = run(sandbox, "/bin/sh", "-c", f"exec 2>&1; {script}", cwd=cwd)
    output = await read(child)
    await child.wait()
    return output


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.01)


async def test_a_hidden_folder_is_empty_by_every_name(sandbox: Sandbox, data: Path) -> None:
    (data.parent / "link").symlink_to(data)
    names = f"{data} {data.parent}/link /proc/self/cwd/data /proc/1/root{data}"
    output = await output_of(sandbox, f"ls -A {names}; cat data/canary link/canary", cwd=str(data.parent))
    assert "canary: No such file" in output and "sings" not in output and "own" not in output.split()


async def test_shown_folder_can_be_read_or_written(sandbox: Sandbox, data: Path) -> None:
    shown = f"ls -A {data}; cat {data}/own/here; echo more > {data}/own/here || true"
    assert (await output_of(sandbox.showing(readable=[str(data / "own")]), shown)).startswith("own\nmine")
    assert (data / "own" / "here").read_text() == "mine"
    assert await output_of(sandbox.showing(writable=[str(data / "own")]), shown) == "own\nmine"
    assert (data / "own" / "here").read_text() == "more\n"


async def test_processes_outside_are_not_visible(sandbox: Sandbox) -> None:
    pids = [int(word) for word in (await output_of(sandbox, "ls /proc")).split() if word.isdigit()]
    assert max(pids) < 10 and os.getpid() not in pids


async def test_settings_file_can_be_neither_opened_nor_replaced(data: Path) -> None:
    settings = data.parent / "settings.toml"
    settings.write_text("port = 1")
    sandbox = sandbox_of(find_program(), [data], [settings])
    output = await output_of(
        sandbox, f"cat {settings}; rm -f {settings}; mv {data.parent}/x {settings}; echo port=2 > {settings}"
    )
    assert "port" not in output.replace(str(settings), "")
    assert settings.read_text() == "port = 1"


ESCAPES = """
try() { "$@" 2>&1; }
try cat DATA/canary
try umount DATA; try umount -l DATA
try unshare -m umount DATA
try unshare -Urm sh -c 'umount DATA; cat DATA/canary'
try unshare -Urm sh -c 'mkdir -p TMP/q; mount --bind / TMP/q; cat TMP/q/DATA/canary'
try unshare -Urm sh -c 'mkdir -p TMP/q; mount --rbind / TMP/q; cat TMP/q/DATA/canary'
try unshare -Urm sh -c 'mkdir -p TMP/q; mount --move DATA TMP/q; cat DATA/canary'
try unshare -Urmp --fork --mount-proc cat /proc/1/root/DATA/canary
try nsenter -t 1 -m cat DATA/canary
try cat /proc/1/root/DATA/canary /proc/*/cwd/canary /proc/*/fd/canary
try mv TMP TMP-moved; try cat TMP-moved/data/canary; try mv TMP-moved TMP
try chroot / cat DATA/canary
"""

BY_HANDLE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
handle = Handle(*map(int, sys.argv[2].split(",")), (ctypes.c_ubyte * 128)(*bytes.fromhex(sys.argv[3])))
mount = os.open(sys.argv[1], os.O_RDONLY)
fd = libc.open_by_handle_at(mount, ctypes.byref(handle), os.O_RDONLY)
print(os.read(fd, 100) if fd >= 0 else os.strerror(ctypes.get_errno()))
"""

HANDLE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
handle, mount = Handle(128), ctypes.c_int()
if libc.name_to_handle_at(-100, sys.argv[1].encode(), ctypes.byref(handle), ctypes.byref(mount), 0):
    sys.exit(os.strerror(ctypes.get_errno()))
print(f"{handle.bytes},{handle.type}", bytes(handle.data).hex())
"""


async def test_no_known_escape_reveals_the_hidden_folder(sandbox: Sandbox, data: Path) -> None:
    output = await output_of(sandbox, ESCAPES.replace("DATA", str(data)).replace("TMP", str(data.parent)))
    assert "sings" not in output
    assert "No such file" in output
    assert (data / "canary").read_text() == "sings"


async def test_a_hidden_file_is_not_opened_by_its_handle(sandbox: Sandbox, data: Path) -> None:
    asking = spawn([sys.executable, "-c", HANDLE, str(data / "canary")], env={}, cwd="/", clock=SystemClock())
    named = (await read(asking)).split()
    await asking.wait()
    child = run(sandbox, sys.executable, "-c", BY_HANDLE, "/", *named)
    assert (await read(child)).strip() == os.strerror(1)
    await child.wait()


async def test_root_reaches_neither_disks_nor_kernel_settings_and_keeps_what_ordinary_work_needs(
    sandbox: Sandbox, data: Path
) -> None:
    disks = [f"/dev/{entry}" for entry in os.listdir("/dev") if stat.S_ISBLK(os.lstat(f"/dev/{entry}").st_mode)]
    (data.parent / "file").touch()
    output = await output_of(
        sandbox,
        f"head -c1 {disks[0] if disks else '/dev/mem'}; mknod {data.parent}/disk b 8 0;"
        " true > /proc/sys/kernel/core_pattern; true > /sys/x;"
        f" chown 12:34 {data.parent}/file; grep CapEff /proc/self/status",
    )
    held = int(output.split()[-1], 16)
    assert len(re.findall("denied|not permitted|Read-only", output)) >= 4, output
    if os.geteuid() != 0:
        assert held == 0
        return
    owner = (data.parent / "file").stat()
    assert (owner.st_uid, owner.st_gid) == (12, 34)
    assert held & ~sum(1 << bit for bit in KEPT_CAPABILITIES.values()) == 0


NOBODY = 65534
OF_ANOTHER = """
import subprocess, sys
from fairlead.system.sandbox import find_program, problem_of, sandbox_of
made = sandbox_of(find_program(), [sys.argv[1]])
print(repr(problem_of(made)), flush=True)
subprocess.run(made.wrap(["/bin/sh", "-c", sys.argv[2]], "/"), stderr=subprocess.STDOUT)
"""


def test_programs_of_an_ordinary_user_see_no_more() -> None:
    """For an ordinary user bwrap creates a user namespace. Run as root, this test switches to the user nobody."""
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]
    with tempfile.TemporaryDirectory() as folder:
        # Another user cannot read the folder of a test, and perhaps not our source tree.
        os.chmod(folder, 0o755)
        package = shutil.copytree(Path(__file__).parents[2] / "src" / "fairlead", Path(folder, "code", "fairlead"))
        data = Path(folder, "theirs", "data")
        data.mkdir(parents=True)
        (data / "canary").write_text("sings")
        if os.geteuid() == 0:
            for path in (data / "canary", data, data.parent):
                os.chown(path, NOBODY, NOBODY)
        script = ESCAPES.replace("DATA", str(data)).replace("TMP", str(data.parent))
        ran = subprocess.run(
            [*(become if os.geteuid() == 0 else ()), _python_for_all(), "-c", OF_ANOTHER, str(data), script],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(package.parent)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.startswith("''\n"), ran.stdout
        assert "sings" not in ran.stdout and "No such file" in ran.stdout


def _python_for_all() -> str:
    """A Python that another user can run: ours may be in a home folder."""
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        found = shutil.which(name, path="/usr/bin:/usr/local/bin")
        code = "import sys; sys.exit(sys.version_info < (3, 11))"
        if found and subprocess.run([found, "-c", code], check=False).returncode == 0:
            return found
    return sys.executable


# --- how programs end


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 7", Exit(code=7)),
        ("kill -SEGV $$", Exit(signal=signal.SIGSEGV)),
        ("kill -9 $$", Exit(signal=signal.SIGKILL)),
    ],
)
async def test_the_end_of_a_program_is_reported_as_without_a_sandbox(
    sandbox: Sandbox, script: str, expected: Exit
) -> None:
    child = run(sandbox, "/bin/sh", "-c", script)
    await read(child)
    assert await child.wait() == expected


async def test_program_gets_exactly_the_given_environment_and_descriptors(sandbox: Sandbox) -> None:
    child = run(sandbox, "/bin/sh", "-c", "env; ls /proc/self/fd; grep SigIgn /proc/self/status", env={"A": "b"})
    output = (await read(child)).split("\n")
    assert output[:-3] == ["A=b", "PWD=/", "0", "1", "2"]
    name, ignored = output[-2].split()
    ours = sum(1 << (number - 1) for number in signal.valid_signals())
    assert (name, int(ignored, 16) & ours) == ("SigIgn:", 0)
    await child.wait()


async def test_stop_sequence_signals_the_program_and_not_its_monitor(sandbox: Sandbox) -> None:
    child = run(sandbox, "/bin/sh", "-c", "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
    output = asyncio.create_task(read(child))
    await eventually(lambda: program_inside(child.pid) is not None and _catches_term(child.pid))
    assert (await child.end(StopTimeouts(close=0.05, terminate=60, kill=60))).code == 5
    assert await output == "ready\nasked\n"


def _catches_term(monitor: int) -> bool:
    program = program_inside(monitor)
    status = Path(f"/proc/{program.pid}/status").read_text() if program else ""
    caught = re.search(r"SigCgt:\s*(\w+)", status)
    return bool(caught and int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


async def test_last_step_of_the_stop_sequence_kills_everything_inside(sandbox: Sandbox) -> None:
    child = run(sandbox, "/bin/sh", "-c", "trap '' TERM; setsid sleep 1000 & echo ready; while :; do sleep 1; done")
    output = asyncio.create_task(read(child))
    await eventually(lambda: len(descendants(child.pid)) >= 3)
    below = descendants(child.pid)
    assert (await child.end(SHORT)).signal == signal.SIGKILL
    await output
    await eventually(lambda: all(start_mark(process.pid) != process.started for process in below))


async def test_killing_the_monitor_kills_its_program(sandbox: Sandbox) -> None:
    child = run(sandbox, "/bin/sh", "-c", "echo ready; exec sleep 1000")
    output = asyncio.create_task(read(child))
    await eventually(lambda: program_inside(child.pid) is not None)
    program = program_inside(child.pid)
    assert program is not None
    os.kill(child.pid, signal.SIGKILL)
    assert await child.wait() == Exit(signal=signal.SIGKILL)
    await output
    await eventually(lambda: start_mark(program.pid) != program.started)


async def test_processes_outside_the_group_survive_and_those_inside_do_not(sandbox: Sandbox) -> None:
    child = run(sandbox, "/bin/sh", "-c", "sleep 1000 & setsid sleep 2000 & read line")
    output = asyncio.create_task(read(child))
    await eventually(lambda: len(descendants(child.pid)) == 4)
    first = descendants(child.pid)[0]  # the only child of the sandbox's monitor
    assert await child.end(LONG) == Exit(code=1)
    await output
    await eventually(lambda: len(descendants(first.pid)) == 1)
    (left,) = descendants(first.pid)
    assert "2000" in _command(left)
    kill(left, signal.SIGKILL)
    await eventually(lambda: start_mark(first.pid) != first.started)


def _command(process: Process) -> str:
    return Path(f"/proc/{process.pid}/cmdline").read_text()


async def test_closed_pipes_are_seen_at_the_other_end(sandbox: Sandbox) -> None:
    child = run(sandbox, "/bin/sh", "-c", "exec <&- >&-; while :; do sleep 1; done")
    assert await read(child) == ""
    assert child.running
    await child.end(SHORT)


async def test_process_of_an_earlier_run_is_watched_and_stopped(sandbox: Sandbox) -> None:
    for ending in (True, False):
        child = run(sandbox, "/bin/sh", "-c", "exec sleep 1000")
        output = asyncio.create_task(read(child))
        await eventually(lambda child=child: program_inside(child.pid) is not None)  # type: ignore[misc]
        left, program = Process(child.pid, child.started), program_inside(child.pid)
        assert program is not None
        following = asyncio.create_task(wait_orphan(left, SystemClock()))
        if ending:
            await stop_orphan(left, child.group, SystemClock(), LONG)
            assert await child.wait() == Exit(signal=signal.SIGTERM)
        else:
            kill(program, signal.SIGKILL)
        await following
        await output
        await child.wait()


# --- programs that cannot be run


async def test_a_program_or_folder_that_is_hidden_or_missing_is_an_error(sandbox: Sandbox, data: Path) -> None:
    shutil.copy("/bin/true", data / "program")
    with pytest.raises(OSError, match="hides"):
        run(sandbox, str(data / "program"))
    with pytest.raises(FileNotFoundError):
        run(sandbox, "/nowhere/program")
    with pytest.raises(PermissionError):
        run(sandbox, "/etc/passwd")
    with pytest.raises(FileNotFoundError):
        run(sandbox, "/bin/true", cwd="/nowhere")
    with pytest.raises(BadRequest, match="its programs cannot see it"):
        run(sandbox, "/bin/true", cwd=str(data))
    child = run(sandbox.showing(readable=[str(data / "program")]), str(data / "program"))
    await read(child)
    assert await child.wait() == Exit(code=0)


async def test_nothing_runs_when_the_folder_was_moved_away(sandbox: Sandbox, data: Path) -> None:
    os.rename(data, data.parent / "elsewhere")
    with pytest.raises(Unavailable, match="moved or replaced"):
        run(sandbox, "/bin/true")
    os.mkdir(data)
    with pytest.raises(Unavailable, match="moved or replaced"):
        run(sandbox, "/bin/true")


def test_missing_bwrap_is_reported(data: Path) -> None:
    assert "not installed" in problem_of(sandbox_of("", [data]))
    assert "cannot be run" in problem_of(sandbox_of("/nowhere/bwrap", [data]))
    assert "exit code 1" in problem_of(sandbox_of("/bin/false", [data]))


# --- on a terminal


async def test_a_terminal_s_program_leads_its_session_and_ctrl_c_reaches_it(sandbox: Sandbox) -> None:
    code = (
        "import os, signal, time\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "tty = os.open('/dev/tty', os.O_RDWR)\n"
        "print(os.getpid() == os.getsid(0) == os.getpgrp() == os.tcgetpgrp(tty), os.get_terminal_size(0))\n"
        "print('ready', flush=True)\ntime.sleep(1000)\n"
    )
    child = await spawn_on_pty(
        [sys.executable, "-I", "-c", code], env={}, cwd="/", columns=81, rows=23, clock=SystemClock(), sandbox=sandbox
    )
    output = bytearray()

    async def take(data: bytes) -> None:
        output.extend(data)

    reading = asyncio.create_task(child.read(take))
    await eventually(lambda: b"ready" in output)
    assert output.startswith(b"True os.terminal_size(columns=81, lines=23)")
    await child.write(b"\x03")
    assert await child.wait() == Exit(signal=signal.SIGINT)
    await reading


async def test_the_jobs_of_a_terminal_end_with_it(sandbox: Sandbox) -> None:
    script = "set -m; sleep 1000 & echo ready; read line"
    child = await spawn_on_pty(
        ["/bin/bash", "-c", script], env={}, cwd="/", columns=80, rows=24, clock=SystemClock(), sandbox=sandbox
    )
    output = bytearray()

    async def take(data: bytes) -> None:
        output.extend(data)

    reading = asyncio.create_task(child.read(take))
    await eventually(lambda: b"ready" in output and len(descendants(child.pid)) == 3)
    below = descendants(child.pid)
    await child.write(b"\n")
    assert await child.wait() == Exit(code=0)
    await reading
    await eventually(lambda: all(start_mark(process.pid) != process.started for process in below))
