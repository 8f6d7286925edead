"""Child processes, tested with real ones: their input and output, what they leave behind, and how they end."""

import asyncio
import gc
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.model.agents import Exit
from fairlead.system.clock import SystemClock
from fairlead.system.pipes import PipeClosed
from fairlead.system.process import STDERR_TAIL, ChildProcess, StopTimeouts, spawn
from fairlead.system.process_list import HAS_PROC
from fairlead.system.proctable import Process, descendants, is_alive, kill, start_mark
from patience import PATIENCE

pytestmark = pytest.mark.process

LONG = StopTimeouts(close=60, terminate=60, kill=60)
SHORT = StopTimeouts(close=0.05, terminate=0.05, kill=60)


def start(code: str, *, env: dict[str, str] | None = None, cwd: str = "/") -> ChildProcess:
    return spawn([sys.executable, "-I", "-c", code], env=env or {}, cwd=cwd, clock=SystemClock())


async def output_of(child: ChildProcess) -> bytes:
    parts: list[bytes] = []

    async def take(data: bytes) -> None:
        parts.append(data)

    await child.read(take)
    return b"".join(parts)


async def first_line(child: ChildProcess) -> tuple[bytes, "asyncio.Task[bytes]"]:
    """The child's first line, and a task that continues to read."""
    line: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    seen = bytearray()

    async def take(data: bytes) -> None:
        seen.extend(data)
        if b"\n" in seen and not line.done():
            line.set_result(bytes(seen).split(b"\n")[0])

    async def whole() -> bytes:
        await child.read(take)
        return bytes(seen)

    reading = asyncio.create_task(whole())
    return await asyncio.wait_for(line, PATIENCE), reading


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.01)


def is_known(pid: int) -> bool:
    """Whether the system has such a process, zombies included."""
    return Path(f"/proc/{pid}").exists()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_bytes_go_both_ways_and_closing_stdin_ends_the_child() -> None:
    child = spawn(["/bin/cat"], env={}, cwd="/", clock=SystemClock())
    reading = asyncio.create_task(output_of(child))
    await child.write(b"one\n")
    await child.write(b"two\n")
    assert await child.end(LONG) == Exit(code=0)
    assert await reading == b"one\ntwo\n"
    assert not child.running


async def test_child_gets_exactly_the_given_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_TOKEN", "secret")
    child = start("import os; print(sorted(os.environ))", env={"ONE": "1"})
    output = await output_of(child)
    assert b"FAIRLEAD_TOKEN" not in output
    assert b"'ONE'" in output
    await child.wait()


async def test_no_descriptor_of_ours_reaches_the_child() -> None:
    listening = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    held, other = os.pipe()
    try:
        child = start("import os; print(len(os.listdir('/proc/self/fd')))")
        # Three pipes, and the folder that is being listed.
        assert await output_of(child) == b"4\n"
        await child.wait()
    finally:
        os.close(held)
        os.close(other)
        listening.close()
        await listening.wait_closed()


async def test_child_leads_its_own_group_and_session() -> None:
    child = start("import os; print(os.getpid(), os.getpgrp(), os.getsid(0))")
    output = (await output_of(child)).split()
    assert [int(number) for number in output] == [child.pid] * 3
    assert child.group == child.pid
    await child.wait()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(7)", Exit(code=7)),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", Exit(signal=signal.SIGSEGV)),
    ],
)
async def test_exit_status_is_reported_and_no_zombie_stays(code: str, expected: Exit) -> None:
    child = start(code)
    await output_of(child)
    assert await child.wait() == expected
    assert not is_known(child.pid)


async def test_missing_program_is_an_error_and_leaves_no_descriptor() -> None:
    before = open_files()
    with pytest.raises(FileNotFoundError):
        spawn(["/nonexistent/agent"], env={}, cwd="/", clock=SystemClock())
    with pytest.raises(FileNotFoundError):
        spawn(["/bin/cat"], env={}, cwd="/nonexistent/folder", clock=SystemClock())
    assert open_files() == before


async def test_no_descriptor_is_left_open_whether_output_was_read_or_not() -> None:
    gc.collect()
    before = open_files()
    read = start("print('x')")
    await output_of(read)
    await read.wait()
    unread = start("print('x')")
    await unread.end(LONG)
    assert open_files() == before


async def test_slow_reader_slows_the_child_and_memory_stays_small() -> None:
    """100 MB through a pipe: after the first batch nothing more is read until that batch was consumed."""
    child = start(
        "import os, sys\n"
        "block = b'x' * (1 << 20)\n"
        "for number in range(100):\n"
        "    sys.stdout.buffer.write(block)\n"
        "    sys.stdout.buffer.flush()\n"
        "    os.write(2, b'.')\n"
    )
    release = asyncio.Event()
    total = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async def take(data: bytes) -> None:
        nonlocal total
        total += len(data)
        await release.wait()

    reading = asyncio.create_task(child.read(take))
    await eventually(lambda: total > 0)
    # The child is blocked in its write: it sleeps, and has not got past the first block.
    await eventually(lambda: Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S")
    assert len(child.stderr) <= 1
    assert total < 1 << 20
    release.set()
    await reading
    assert await child.wait() == Exit(code=0)
    assert total == 100 << 20
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 20 * 1024, f"{grown} KiB more at the peak"


async def test_output_is_read_completely_after_a_crash() -> None:
    child = start(
        "import os, sys, signal\n"
        "sys.stdout.write('y' * 60000); sys.stdout.flush()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    await eventually(lambda: not child.running)
    assert await output_of(child) == b"y" * 60000
    assert await child.wait() == Exit(signal=signal.SIGKILL)


async def test_grandchild_that_holds_the_pipe_open_does_not_block_the_reader() -> None:
    """The grandchild left the group, so it survives; our end of the pipe is closed anyway."""
    child = start(
        "import subprocess, sys\n"
        "left = subprocess.Popen(['/bin/sleep', '300'], start_new_session=True)\n"
        "print(left.pid, flush=True)\n"
    )
    output = await asyncio.wait_for(output_of(child), PATIENCE)
    assert await asyncio.wait_for(child.wait(), PATIENCE) == Exit(code=0)
    left = int(output)
    os.kill(left, signal.SIGKILL)


async def test_other_processes_of_its_group_die_with_the_child() -> None:
    child = start("import subprocess\nprint(subprocess.Popen(['/bin/sleep', '300']).pid, flush=True)\n")
    left = int(await output_of(child))
    await child.wait()
    await eventually(lambda: start_mark(left) == "")


async def test_only_the_end_of_stderr_is_kept() -> None:
    child = start(f"import sys; sys.stderr.write('a' * {3 * STDERR_TAIL} + 'the last words')")
    await output_of(child)
    await child.wait()
    assert child.stderr.endswith("aaathe last words")
    assert len(child.stderr) == STDERR_TAIL


async def test_invalid_utf8_on_stderr_is_replaced() -> None:
    child = start("import os; os.write(2, b'bad \\xff byte')")
    await output_of(child)
    await child.wait()
    assert child.stderr == "bad � byte"


STUBBORN = (
    "import signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('ready', flush=True)\n"
    "while True: time.sleep(60)\n"
)


async def test_child_that_ignores_closed_input_is_ended_by_sigterm() -> None:
    child = start("import time\nprint('ready', flush=True)\nwhile True: time.sleep(60)\n")
    _, reading = await first_line(child)
    assert await child.end(StopTimeouts(close=0.05, terminate=60, kill=60)) == Exit(signal=signal.SIGTERM)
    await reading


async def test_child_that_ignores_sigterm_is_ended_by_sigkill() -> None:
    child = start(STUBBORN)
    _, reading = await first_line(child)
    assert await child.end(SHORT) == Exit(signal=signal.SIGKILL)
    await reading
    assert not is_known(child.pid)


async def test_descendants_in_other_sessions_of_a_killed_child_are_ended() -> None:
    child = start(
        "import signal, subprocess, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "tool = subprocess.Popen(['/bin/sleep', '300'], start_new_session=True)\n"
        "print(tool.pid, flush=True)\n"
        "while True: time.sleep(60)\n"
    )
    line, reading = await first_line(child)
    assert [found.pid for found in descendants(child.pid)] == [int(line)]
    await child.end(SHORT)
    await reading
    await eventually(lambda: start_mark(int(line)) == "")


async def test_concurrent_end_calls_share_one_stop_sequence_and_a_cancelled_call_does_not_stop_it() -> None:
    child = start(STUBBORN)
    _, reading = await first_line(child)
    gone = asyncio.create_task(child.end(SHORT))
    other = asyncio.create_task(child.end(LONG))
    await asyncio.sleep(0)
    gone.cancel()
    assert await other == Exit(signal=signal.SIGKILL)
    await reading


async def test_a_write_to_a_child_that_does_not_read_waits_and_fails_when_it_dies() -> None:
    child = start("import time\nprint('ready', flush=True)\ntime.sleep(300)\n")
    _, reading = await first_line(child)
    writing = asyncio.create_task(child.write(b"z" * (4 << 20)))
    second = asyncio.create_task(child.write(b"more\n"))
    await asyncio.sleep(0)
    assert not writing.done()
    os.kill(child.pid, signal.SIGKILL)
    for task in (writing, second):
        with pytest.raises(PipeClosed):
            await asyncio.wait_for(task, PATIENCE)
    with pytest.raises(PipeClosed):
        await child.write(b"late\n")
    await child.wait()
    await reading


async def test_cancelled_write_is_still_sent_completely() -> None:
    child = start(
        "import sys\nprint('ready', flush=True)\nsys.stdin.readline()\nprint(len(sys.stdin.readline()), flush=True)\n"
    )
    _, reading = await first_line(child)
    big = asyncio.create_task(child.write(b"a" * 500_000 + b"\n"))
    await asyncio.sleep(0)
    big.cancel()
    await child.write(b"b" * 9 + b"\n")
    assert await reading == b"ready\n10\n"
    await child.wait()


async def test_without_pidfd_a_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    child = start("raise SystemExit(3)")
    await output_of(child)
    assert await asyncio.wait_for(child.wait(), PATIENCE) == Exit(code=3)


async def test_reused_pid_is_not_the_same_process() -> None:
    child = start("import time\nprint('ready', flush=True)\ntime.sleep(300)\n")
    _, reading = await first_line(child)
    assert is_alive(child.pid, child.started)
    boot, _, ticks = child.started.rpartition("/")
    others = (f"{boot}/{int(ticks) + 1}", f"another-boot/{ticks}") if HAS_PROC else ("Mon Nov 16 00:00:00 2026",)
    for other in (*others, ""):
        assert not is_alive(child.pid, other)
        assert not kill(Process(child.pid, other), signal.SIGKILL)
    assert child.running
    assert kill(Process(child.pid, child.started), signal.SIGKILL)
    assert await child.wait() == Exit(signal=signal.SIGKILL)
    assert not is_alive(child.pid, child.started)
    assert not kill(Process(child.pid, child.started), signal.SIGKILL)
    await reading
