"""Processes on a PTY at a real keeper: their terminal, its size, their jobs, with gateways that come and go."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from fairlead.keeper import children
from fairlead.keeper.children import STATUS, Child
from fairlead.keeper.client import Keeper, KeptProcess
from fairlead.keeper.effects import Command
from fairlead.keeper.loop import KeeperLoop
from fairlead.model.agents import Exit
from fairlead.system.process_group import StopTimeouts
from fairlead.system.process_list import HAS_PROC
from fairlead.system.proctable import session_members, start_mark
from keeper.loops import reraise
from keeper.running import (
    LONG,
    SHORT,
    Reader,
    connected,
    end_keepers,
    eventually,
    is_known,
    keeper_of,
    keepers,
    output_of,
    spawn,
)
from patience import PATIENCE

pytestmark = pytest.mark.process

ENV = {"PATH": "/usr/bin:/bin", "PS1": "> "}


async def on_pty(keeper: Keeper, *argv: str, **more: Any) -> KeptProcess:
    return await spawn(keeper, *argv, **{"size": (81, 23), "env": ENV} | more)


async def python(keeper: Keeper, code: str) -> KeptProcess:
    return await on_pty(keeper, sys.executable, "-I", "-c", code)


async def test_process_leads_a_session_with_a_controlling_terminal(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await python(
        keeper,
        "import os\nprint(os.getpid() == os.getsid(0) == os.getpgrp() == os.tcgetpgrp(os.open('/dev/tty', os.O_RDWR)))"
        "\nprint(os.get_terminal_size(0), os.isatty(0), os.isatty(1), os.isatty(2))",
    )
    assert process.pid == process.group and process.on_terminal and process.size == (81, 23)
    assert process.started or not HAS_PROC, "ps may be slower than the process"
    output = (await output_of(process)).decode().split("\r\n")
    assert output == ["True", "os.terminal_size(columns=81, lines=23) True True True", ""]
    assert await process.wait() == Exit(code=0) and process.stderr == ""


async def test_process_inherits_nothing(data: Path) -> None:
    keeper = await keeper_of(data)
    shows = "env; ls -1 /proc/self/fd; grep SigIgn /proc/self/status"
    output = (await output_of(await on_pty(keeper, "/bin/sh", "-c", shows, env={"A": "b"}))).decode().split("\r\n")
    assert [line for line in output if "=" in line] == ["A=b", "PWD=/"]
    assert [line for line in output if line.isdigit()] == ["0", "1", "2", "3"]
    ours = sum(1 << (number - 1) for number in signal.valid_signals())
    assert int(output[-2].split()[1], 16) & ours == 0


@pytest.mark.parametrize(("argv", "cwd"), [("/nowhere/program", "/"), ("/etc/passwd", "/"), ("/bin/sh", "/nowhere")])
async def test_failed_start_leaves_nothing_behind(argv: str, cwd: str, data: Path) -> None:
    keeper = await keeper_of(data)
    (pid,) = keepers(data)
    before = sorted(os.listdir(f"/proc/{pid}/fd"))
    with pytest.raises(OSError) as error:
        await on_pty(keeper, argv, cwd=cwd)
    assert error.value.filename == (cwd if cwd != "/" else argv)
    assert sorted(os.listdir(f"/proc/{pid}/fd")) == before


class NotStarted:
    """A keeper that knows nothing of a process, since it is not started yet."""

    def reports(self, number: int, data: bytes = b"") -> None:
        raise AssertionError("a process that was not started reports something")

    has_output = has_stderr = output_has_ended = input_is_ready = reports


def test_what_a_launcher_prints_before_it_fails_is_dropped() -> None:
    launch = ("/bin/sh", "-c", "echo cannot start; printf 2 > /proc/self/fd/$0", STATUS)
    loop = KeeperLoop(reraise)
    command = Command(launch, ("program",), ENV, "/", (80, 24), (1024, 4096))
    child = Child(1, children.spawn(command), loop, NotStarted())
    found: list[OSError | None] = []

    def started(child: Child, error: OSError | None) -> None:
        found.append(error)
        loop.stop()

    child.await_start("program", started)
    loop.run()
    loop.close()
    (error,) = found
    assert isinstance(error, FileNotFoundError) and error.filename == "program"


async def test_shell_survives_the_gateway(data: Path) -> None:
    keeper = await keeper_of(data)
    shell = await on_pty(keeper, "/bin/sh", "-i")
    reader = Reader(shell)
    await shell.write(b"X=kept; echo $((6 * 7))\n")
    await reader.until(b"42\r\n")
    place = len(reader.output)
    shell.ack(place)
    await keeper.close()
    keeper = await connected(data)
    (found,) = keeper.found
    assert found.on_terminal and found.size == (81, 23) and found.base == place
    reader = Reader(found, place)
    await found.write(b"echo $X-$((2 * 21))\n")
    await reader.until(b"kept-42\r\n")
    await found.write(b"exit 5\n")
    assert await asyncio.wait_for(found.wait(), PATIENCE) == Exit(code=5)
    await reader.end()


async def test_size_is_set_and_the_program_is_signalled(data: Path) -> None:
    keeper = await keeper_of(data)
    code = (
        "import os, signal\nchanged = {signal.SIGWINCH}\nsignal.pthread_sigmask(signal.SIG_BLOCK, changed)\n"
        "print('ready', flush=True)\n"
        "while signal.sigwait(changed): print(*os.get_terminal_size(0), flush=True)"
    )
    process = await python(keeper, code)
    reader = Reader(process)
    await reader.until(b"ready")
    process.resize(100, 40)
    await reader.until(b"100 40")
    with pytest.raises(ValueError):
        process.resize(1 << 16, 40)
    await keeper.close()
    keeper = await connected(data)
    assert keeper.found[0].size == (100, 40)
    assert (await keeper.found[0].end(LONG)).signal == signal.SIGHUP


async def test_last_output_of_a_dead_process_is_kept(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await python(keeper, "import sys\nsys.stdout.write('x' * 3000 + 'end')")
    await process.wait()
    assert await output_of(process) == b"x" * 3000 + b"end"


async def test_ctrl_c_is_turned_into_sigint_by_the_terminal(data: Path) -> None:
    keeper = await keeper_of(data)
    code = (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nprint('ready', flush=True)\ntime.sleep(600)"
    )
    process = await python(keeper, code)
    await Reader(process).until(b"ready")
    process.offer(b"\x03")
    assert await asyncio.wait_for(process.wait(), PATIENCE) == Exit(signal=signal.SIGINT)


async def test_jobs_of_a_shell_end_with_it_also_stopped_ones(data: Path) -> None:
    keeper = await keeper_of(data)
    shell = await on_pty(keeper, "/bin/bash", "--norc", "-i")
    reader = Reader(shell)
    await shell.write(b"sleep 601 & echo job=$!.\n")
    await reader.until(b".\r\n")
    await shell.write(b"sleep 602\n")
    await eventually(lambda: any(map(is_in_foreground, children_of(shell.pid))))
    await shell.write(b"\x1a")
    await reader.until(b"Stopped")
    jobs = children_of(shell.pid)
    await keeper.close()
    keeper = await connected(data)
    await keeper.found[0].end(StopTimeouts(close=0.2, terminate=0.2))
    await eventually(lambda: not any(map(start_mark, jobs)))
    assert not is_known(shell.pid)


def is_in_foreground(pid: int) -> bool:
    """Whether the program runs, and the keys of its terminal are for it: before that, Ctrl-Z would be for the shell."""
    _, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    _, _, group, _, _, foreground, *_ = rest.split()
    return group == foreground and Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep")


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_jobs_end_when_the_shell_exits_by_itself(data: Path) -> None:
    keeper = await keeper_of(data)
    shell = await on_pty(keeper, "/bin/bash", "--norc", "-i")
    reader = Reader(shell)
    await shell.write(b"(trap '' HUP; sleep 603) & sleep 0.01; exit 4\n")
    assert await asyncio.wait_for(shell.wait(), PATIENCE) == Exit(code=4)
    await reader.end()
    await eventually(lambda: not any(job.started for job in session_members(shell.pid)))


async def test_program_that_ignores_signals_is_killed(data: Path) -> None:
    keeper = await keeper_of(data)
    code = "import signal, time\nfor n in (1, 15): signal.signal(n, signal.SIG_IGN)\nprint('ready', flush=True)\n"
    process = await python(keeper, code + "time.sleep(600)")
    await Reader(process).until(b"ready")
    assert await asyncio.wait_for(process.end(SHORT), PATIENCE) == Exit(signal=signal.SIGKILL)


async def test_stopped_program_receives_the_hangup(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await on_pty(keeper, "/bin/sh", "-c", "echo ready; kill -STOP $$; exit 3")
    await Reader(process).until(b"ready")
    assert (await asyncio.wait_for(process.end(LONG), PATIENCE)).signal == signal.SIGHUP


async def test_no_descriptor_is_left_open(data: Path) -> None:
    keeper = await keeper_of(data)
    (pid,) = keepers(data)
    before = len(os.listdir(f"/proc/{pid}/fd"))
    for _ in range(3):
        await (await on_pty(keeper, "/bin/true")).wait()
    await (await on_pty(keeper, "/bin/cat")).end(LONG)
    await eventually(lambda: len(os.listdir(f"/proc/{pid}/fd")) == before)


async def test_death_of_the_keeper_hangs_the_terminal_up(data: Path) -> None:
    keeper = await keeper_of(data)
    process = await on_pty(keeper, "/bin/cat")
    (pid,) = keepers(data)
    os.kill(pid, signal.SIGKILL)
    await asyncio.wait_for(keeper.lost.wait(), PATIENCE)
    await eventually(lambda: not start_mark(process.pid))
    end_keepers(data)
