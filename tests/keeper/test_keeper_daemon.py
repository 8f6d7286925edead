"""The keeper's own process: how it is started and found, whom it answers, what it survives, and how it ends."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.keeper import address, log
from fairlead.keeper import messages as say
from fairlead.keeper.children import unprotect
from fairlead.keeper.client import KeeperLost
from fairlead.keeper.frames import HEADER, encode
from fairlead.keeper.log import KeeperLog
from fairlead.system.pipes import PipeClosed
from fairlead.system.proctable import start_mark
from keeper.running import (
    LONG,
    SHORT,
    Reader,
    answered,
    connected,
    end_keepers,
    eventually,
    keeper_of,
    keepers,
    kept_at,
    output_of,
    spawn,
    spawn_python,
)
from patience import PATIENCE

pytestmark = pytest.mark.process


async def test_no_keeper_is_an_error_and_none_is_started(data: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await connected(data)
    assert keepers(data) == []


async def test_keeper_that_cannot_be_started_is_an_error(data: Path) -> None:
    with pytest.raises(OSError, match="the keeper cannot be started: No such file"):
        await keeper_of(data / "nowhere")


async def test_keeper_has_nothing_of_the_gateway(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_TOKEN", "secret")
    held = [os.open("/dev/null", os.O_RDONLY), *os.pipe()]
    for fd in held:
        os.set_inheritable(fd, True)
    await keeper_of(data)
    (pid,) = keepers(data)
    for fd in held:
        os.close(fd)
    proc = f"/proc/{pid}"
    links = sorted(os.readlink(f"{proc}/fd/{fd}") for fd in os.listdir(f"{proc}/fd"))
    assert links.count("/dev/null") == 3 and not [link for link in links if link.startswith("pipe:")]
    assert [link for link in links if link.startswith("/") and link != "/dev/null"] == [str(data), f"{data}/keeper.log"]
    assert b"secret" not in content(f"{proc}/environ")
    assert os.readlink(f"{proc}/cwd") == "/"
    assert os.getsid(pid) == pid != os.getsid(0)
    for name in (address.NAME, log.NAME, address.LOCK):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600


async def test_keeper_is_not_a_child_of_the_gateway(data: Path) -> None:
    """Else it would stay as a zombie when it ends."""
    await keeper_of(data)
    (pid,) = keepers(data)
    assert int(content(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1]) != os.getpid()


def content(path: str) -> bytes:
    return Path(path).read_bytes()


@pytest.mark.parametrize(("before", "after"), [("-500\n", 0), ("0\n", 0), ("300\n", 300)])
def test_what_protects_the_keeper_does_not_protect_a_program(before: str, after: int, tmp_path: Path) -> None:
    score = tmp_path / "oom_score_adj"
    score.write_text(before)
    unprotect(str(score))
    # The kernel reads the number that was written; in a file the rest of the old one stays.
    assert int(score.read_text()[: len(str(after))]) == after
    unprotect(str(tmp_path / "gone"))


def protect(pid: int) -> None:
    with contextlib.suppress(PermissionError):  # not every root may do this
        Path(f"/proc/{pid}/oom_score_adj").write_text("-500")


@pytest.mark.parametrize("size", [None, (80, 24)])
async def test_programs_are_not_protected_with_the_keeper(size: tuple[int, int] | None, data: Path) -> None:
    keeper = await keeper_of(data)
    (pid,) = keepers(data)
    protect(pid)
    process = await spawn(keeper, "/bin/cat", size=size)
    assert int(content(f"/proc/{process.pid}/oom_score_adj")) == 0
    await process.end(SHORT)
    process.forget()


async def test_two_starts_at_once_give_one_keeper(data: Path) -> None:
    results = await asyncio.gather(*(keeper_of(data) for _ in range(5)), return_exceptions=True)
    assert len(keepers(data)) == 1
    # A later one replaces an earlier one, perhaps before that was ready.
    assert [result for result in results if not isinstance(result, BaseException)]
    await (await keeper_of(data)).close()


async def test_socket_of_a_dead_keeper_is_replaced(data: Path) -> None:
    keeper = await keeper_of(data)
    (first,) = keepers(data)
    os.kill(first, signal.SIGKILL)
    await asyncio.wait_for(keeper.lost.wait(), PATIENCE)
    assert (data / address.NAME).exists()
    await keeper_of(data)
    (second,) = keepers(data)
    assert first != second


async def test_folder_may_have_a_long_path(tmp_path: Path) -> None:
    data = tmp_path.joinpath(*("long" * 20 for _ in range(3)))
    data.mkdir(parents=True)
    try:
        keeper = await keeper_of(data)
        process = await spawn(keeper, "/bin/cat")
        await keeper.close()
        assert await kept_at(data) == [process.pid]
        keeper = await connected(data)
        await keeper.found[0].end(LONG)
        await keeper.close()
    finally:
        end_keepers(data)


async def test_keeper_without_a_process_ends_when_asked(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn(keeper, "/bin/cat")
    await keeper.close(quit=True)
    keeper = await connected(data)
    assert keeper.found[0].pid == process.pid
    await keeper.found[0].end(LONG)
    keeper.found[0].forget()
    await keeper.close(quit=True)
    await eventually(lambda: keepers(data) == [])
    assert not (data / address.NAME).exists() and not keeper.lost.is_set()


async def test_death_of_the_keeper_is_noticed_by_gateway_and_processes(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn(keeper, "/bin/cat")
    reader = Reader(process)
    await process.write(b"one\n")
    await reader.until(b"one\n")
    (pid,) = keepers(data)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(KeeperLost):
        await reader.end()
    assert keeper.lost.is_set() and not process.running
    for work in (process.write(b"x"), process.wait(), process.end(LONG), spawn(keeper, "/bin/cat")):
        with pytest.raises(KeeperLost):
            await work
    process.ack(4)
    process.offer(b"x")
    process.close_input()
    await eventually(lambda: not start_mark(process.pid))


# --- whom it answers


CONNECTS = """
import os, socket, sys
os.chdir(sys.argv[1])
os.setresuid(*[int(sys.argv[2])] * 3)
made = socket.socket(socket.AF_UNIX)
made.connect("keeper-1.sock")
try:
    made.sendall(bytes.fromhex(sys.argv[3]))
    print(made.recv(1))
except ConnectionError:
    print(b"")
"""


def says_hello(data: Path, uid: int) -> bytes:
    """What a process of this user gets from the keeper when it introduces itself."""
    words = [sys.executable, "-I", "-S", "-c", CONNECTS, str(data), str(uid), say.pack(say.Hello()).hex()]
    return subprocess.run(words, check=True, capture_output=True).stdout.strip()


async def test_another_user_is_refused(data: Path) -> None:
    """Another user can be tested only as root; the next test is for everybody."""
    if os.geteuid() != 0:
        return
    keeper = await keeper_of(data)
    # The permissions alone keep others out too.
    os.chmod(data, 0o711)
    os.chmod(data / address.NAME, 0o666)
    assert await asyncio.to_thread(says_hello, data, 65534) == b"b''"
    await answered(keeper)
    assert "another user" in (data / log.NAME).read_text()
    assert await asyncio.to_thread(says_hello, data, 0) == b"b'\\x02'"
    await asyncio.wait_for(keeper.lost.wait(), PATIENCE)


def test_user_at_the_other_end_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert address.is_own(one)
        monkeypatch.setattr(os, "getuid", lambda: 4711)
        assert not address.is_own(one)


async def test_gateway_refuses_the_keeper_of_another_user(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await (await keeper_of(data)).close()
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(PermissionError):
        await connected(data)


# --- what it survives


def talk(data: Path, words: bytes) -> None:
    """Send something to the keeper, and wait until it closes the connection."""
    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(PATIENCE)
        made.connect(str(data / address.NAME))
        with contextlib.suppress(ConnectionError):
            made.sendall(words)
            while made.recv(1 << 16):
                pass


async def test_nonsense_ends_the_connection_and_nothing_else(data: Path, rng: random.Random) -> None:
    keeper = await keeper_of(data)
    process = await spawn(keeper, "/bin/cat")
    hello = say.pack(say.Hello())
    for nonsense in (
        b"GET / HTTP/1.1\r\n\r\n",
        HEADER.pack(1 << 31, 1, 0),
        encode(1, 0, b"[]"),
        say.pack(say.Quit()),
        hello + hello,
        hello + encode(2, 0, b"{}"),
        hello + encode(3, 1, b'{"offset": "x"}'),
        hello + encode(10, 1, b'{"columns": 1e9, "rows": -1}'),
        hello + encode(11, 1, b'{"close": NaN, "terminate": 1, "kill": 1}'),
        hello + encode(6, 1, b""),
        hello + encode(7, 1, b"\0\0\0\0\xff\xff"),
        hello + encode(200, 1, rng.randbytes(50)),
        *(hello + encode(rng.randrange(256), 1, rng.randbytes(rng.randrange(40))) + b"\xff" * 9 for _ in range(30)),
    ):
        await asyncio.to_thread(talk, data, nonsense)
    keeper = await connected(data)
    (found,) = keeper.found
    assert found.pid == process.pid
    await found.write(b"alive\n")
    await Reader(found).until(b"alive\n")
    assert "Traceback" not in (data / log.NAME).read_text()


async def test_half_a_frame_is_not_written(data: Path) -> None:
    keeper = await keeper_of(data)
    await spawn(keeper, "/bin/cat")
    write = say.pack(say.WriteInput(1, 1, "key", b"whole\n"))
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(str(data / address.NAME))
        made.sendall(say.pack(say.Hello()) + write[:-1])
    keeper = await keeper_of(data)
    (found,) = keeper.found
    assert set(found.keys) == set()
    await found.write(b"whole\n", key="key")
    assert (await found.end(LONG)).code == 0
    assert await output_of(found) == b"whole\n"


async def test_stuck_gateway_is_replaced(data: Path) -> None:
    """A gateway that reads nothing gets a window of output, and does not keep the next one out."""
    keeper = await keeper_of(data)
    process = await spawn_python(keeper, "import sys\nfor i in range(100_000): print(i)\nprint(sys.stdin.readline())")
    with socket.socket(socket.AF_UNIX) as stuck:
        stuck.connect(str(data / address.NAME))
        stuck.sendall(say.pack(say.Hello()) + say.pack(say.Attach(process.number, 0)))
        await asyncio.wait_for(keeper.lost.wait(), PATIENCE)
        keeper = await keeper_of(data)
        (found,) = keeper.found
        await found.write(b"end\n")
        assert (await output_of(found)).endswith(b"99999\nend\n\n")


async def test_keeper_whose_folder_is_gone_serves_on(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn(keeper, "/bin/cat")
    shutil.rmtree(data)
    reader = Reader(process)
    await process.write(b"still here\n")
    await reader.until(b"still here\n")
    other = await spawn(keeper, "/bin/echo", "new")
    assert await output_of(other) == b"new\n"
    await process.end(LONG)
    for each in (process, other):
        await each.wait()
        each.forget()
    await keeper.close(quit=True)
    await eventually(lambda: keepers(data) == [])


async def test_keeper_that_ends_leaves_the_socket_of_its_successor(data: Path) -> None:
    first = await keeper_of(data)
    (data / address.NAME).unlink()
    second = await keeper_of(data)
    assert len(keepers(data)) == 2
    await first.close(quit=True)
    await eventually(lambda: len(keepers(data)) == 1)
    await second.close()
    await connected(data)


async def test_signals_for_a_gateway_do_not_end_the_keeper(data: Path) -> None:
    keeper = await keeper_of(data)
    (pid,) = keepers(data)
    for number in (signal.SIGHUP, signal.SIGINT):
        os.kill(pid, number)
    await answered(keeper)
    assert keepers(data) == [pid]


# --- its log


def test_log_is_private_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MAX_BYTES", 1000)
    folder = os.open(tmp_path, os.O_PATH)
    try:
        written = KeeperLog(folder)
        for number in range(200):
            written.write(f"line {number}\nof two")
        assert "line 199\n    of two\n" in (tmp_path / "keeper.log").read_text()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["keeper.log", "keeper.log.1"]
        assert all(path.stat().st_size < 1200 for path in tmp_path.iterdir())
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())
        shutil.rmtree(tmp_path)
        written.write("nowhere")
    finally:
        os.close(folder)


async def test_log_has_no_secrets(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await spawn(keeper, "/bin/sh", "-c", "cat; : secret-1", env={"TOKEN": "secret-2"}, tag={"x": "secret-3"})
    await process.write(b"secret-4\n", key="secret-5")
    await process.end(LONG)
    with pytest.raises(PipeClosed):
        await process.write(b"secret-6")
    assert "secret" not in (data / log.NAME).read_text()
