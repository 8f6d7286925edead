"""A child process on a PTY, tested with real ones: its session and terminal, what it inherits, how it ends."""

import asyncio
import gc
import os
import signal
import sys

import pytest

from fairlead.model.agents import Exit
from fairlead.system.clock import SystemClock
from fairlead.system.process import StopTimeouts
from fairlead.system.process_list import HAS_PROC
from fairlead.system.proctable import start_mark
from fairlead.system.pty import PtyChild, spawn_on_pty
from patience import PATIENCE

pytestmark = pytest.mark.process

SHORT = StopTimeouts(close=0.05, terminate=0.05, kill=60)


async def start(*argv: str, env: dict[str, str] | None = None, cwd: str = "/") -> PtyChild:
    return await spawn_on_pty(argv, env=env or {}, cwd=cwd, columns=81, rows=23, clock=SystemClock())


async def python(code: str, env: dict[str, str] | None = None) -> PtyChild:
    return await start(sys.executable, "-I", "-c", code, env=env)


async def output_of(child: PtyChild) -> str:
    parts: list[bytes] = []

    async def take(data: bytes) -> None:
        parts.append(data)

    await asyncio.wait_for(child.read(take), PATIENCE)
    return b"".join(parts).decode()


class Reader:
    """Reads the child's output in the background while a test waits for a text."""

    def __init__(self, child: PtyChild) -> None:
        self.output = ""
        self._more = asyncio.Event()
        self._task = asyncio.create_task(child.read(self._take))

    async def _take(self, data: bytes) -> None:
        self.output += data.decode()
        self._more.set()

    async def until(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while text not in self.output:
                self._more.clear()
                await self._more.wait()

    async def end(self) -> str:
        await asyncio.wait_for(self._task, PATIENCE)
        return self.output


async def test_child_leads_a_session_with_a_controlling_terminal() -> None:
    child = await python(
        "import os\nprint(os.getpid() == os.getsid(0) == os.getpgrp() == os.tcgetpgrp(os.open('/dev/tty', os.O_RDWR)))"
        "\nprint(os.get_terminal_size(0), os.isatty(0), os.isatty(1), os.isatty(2))"
    )
    assert child.pid == child.group and (child.started or not HAS_PROC), "ps may be slower than the child"
    output = await output_of(child)
    assert output.split("\r\n") == ["True", "os.terminal_size(columns=81, lines=23) True True True", ""]
    assert await child.wait() == Exit(code=0)


async def test_child_inherits_nothing() -> None:
    # The Python interpreter would add a locale and ignore some signals, so another program is used.
    child = await start("/bin/sh", "-c", "env; ls -1 /proc/self/fd; grep SigIgn /proc/self/status", env={"A": "b"})
    output = (await output_of(child)).split("\r\n")
    assert [line for line in output if "=" in line] == ["A=b", "PWD=/"]
    assert [line for line in output if line.isdigit()] == ["0", "1", "2", "3"]
    name, ignored = output[-2].split()
    ours = sum(1 << (number - 1) for number in signal.valid_signals())
    assert (name, int(ignored, 16) & ours) == ("SigIgn:", 0)


async def test_given_locale_is_kept() -> None:
    assert "LC_CTYPE=C\r\n" in await output_of(await start("/usr/bin/env", env={"LC_CTYPE": "C"}))


async def test_a_program_is_found_by_the_path_of_its_own_environment() -> None:
    assert await output_of(await start("true", env={"PATH": "/usr/bin:/bin"})) == ""


@pytest.mark.parametrize(("argv", "cwd"), [("/nowhere/program", "/"), ("/etc/passwd", "/"), ("/bin/sh", "/nowhere")])
async def test_failed_start_leaves_nothing_behind(argv: str, cwd: str) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError) as error:
        await start(argv, cwd=cwd)
    assert error.value.filename == (cwd if cwd != "/" else argv)
    assert sorted(os.listdir("/proc/self/fd")) == before


async def test_last_output_of_a_dead_child_is_read_completely() -> None:
    child = await python("import sys\nsys.stdout.write('x' * 3000 + 'end')")
    await child.wait()
    assert (await output_of(child)) == "x" * 3000 + "end"


async def test_ctrl_c_is_turned_into_sigint_by_the_terminal() -> None:
    plain = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nprint('ready', flush=True)\n"
    child = await python(plain + "time.sleep(600)")
    reader = Reader(child)
    await reader.until("ready")
    await child.write(b"\x03")
    assert await asyncio.wait_for(child.wait(), PATIENCE) == Exit(signal=signal.SIGINT)
    await reader.end()


async def test_child_that_ignores_signals_is_killed() -> None:
    stubborn = "import signal, time\nfor n in (1, 15): signal.signal(n, signal.SIG_IGN)\nprint('ready', flush=True)\n"
    child = await python(stubborn + "time.sleep(600)")
    reader = Reader(child)
    await reader.until("ready")
    assert await asyncio.wait_for(child.end(SHORT), PATIENCE) == Exit(signal=signal.SIGKILL)
    await reader.end()
    assert start_mark(child.pid) == ""


async def test_stopped_child_receives_the_hangup() -> None:
    child = await start("/bin/sh", "-c", "echo ready; kill -STOP $$; exit 3")
    reader = Reader(child)
    await reader.until("ready")
    assert (await asyncio.wait_for(child.end(StopTimeouts(close=60, terminate=60)), PATIENCE)).signal == signal.SIGHUP
    await reader.end()


async def test_other_process_that_holds_the_terminal_does_not_block_the_reader() -> None:
    leaves = "import os, sys, time\nif os.fork() == 0:\n os.setsid(); print(os.getpid(), flush=True); time.sleep(600)\n"
    child = await python(leaves + "sys.stdin.readline()")
    reader = Reader(child)
    await reader.until("\r\n")
    stranger = int(reader.output)
    await child.write(b"\n")
    await child.wait()
    await reader.end()
    os.kill(stranger, signal.SIGKILL)


async def test_ending_a_child_without_a_reader_leaves_nothing_open() -> None:
    gc.collect()  # so that no garbage of earlier tests is closed in the meantime
    before = sorted(os.listdir("/proc/self/fd"))
    child = await start("/bin/sh", "-c", "read x")
    await child.end(StopTimeouts())
    child.resize(10, 10)
    assert sorted(os.listdir("/proc/self/fd")) == before
