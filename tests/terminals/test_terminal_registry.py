"""Terminals with real programs on real PTYs: watching, typing, sizes, exits."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.model.agents import Exit
from fairlead.model.errors import AgentMissing, AgentNotRunning, BadRequest, Busy, TooMany
from fairlead.system.clock import SystemClock
from fairlead.system.process import StopTimeouts
from fairlead.system.proctable import is_alive, start_mark
from fairlead.terminals.api import Program, Screen, Size, Terminal, TerminalOutput
from fairlead.terminals.pty_session import MOST
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.screen.emulator import Emulator
from fairlead.terminals.subscriber import WAITING_BYTES
from patience import PATIENCE

pytestmark = pytest.mark.process

ENV = {"PATH": os.environ.get("PATH", os.defpath), "PS1": "$ ", "TERM": "xterm-256color"}
SMALL = Size(40, 5)


@pytest.fixture
async def terminals() -> AsyncIterator[TerminalRegistry]:
    registry = TerminalRegistry(SystemClock(), 3, StopTimeouts(close=1, terminate=1))
    yield registry
    await registry.close()


def shell(script: str = "", size: Size = SMALL) -> Program:
    return Program(argv=["/bin/sh", *(["-c", script] if script else ["-i"])], env=ENV, cwd="/", size=size)


def python(code: str) -> Program:
    return Program(argv=[sys.executable, "-I", "-c", code], env=ENV, cwd="/", size=SMALL)


async def until(terminal: Terminal, holds: Callable[[Screen], bool]) -> Screen:
    async def wait() -> Screen:
        screen = terminal.screen
        while not holds(screen):
            assert terminal.running, screen
            screen = await terminal.changed(screen.version)
        return screen

    return await asyncio.wait_for(wait(), PATIENCE)


async def seen(terminal: Terminal, text: str) -> Screen:
    return await until(terminal, lambda screen: any(text in line for line in screen.lines))


async def eventually(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.01)


class Watching:
    """A watcher that reads its output at once and shows it on its own terminal."""

    def __init__(self, terminal: Terminal, who: str = "watcher") -> None:
        self.outputs: list[TerminalOutput] = []
        self.shows = Emulator(SMALL.columns, SMALL.rows)
        self._task = asyncio.create_task(self._watch(terminal, who))

    async def _watch(self, terminal: Terminal, who: str) -> None:
        async for output in terminal.watch(who):
            self.outputs.append(output)
            if output.size is not None:
                self.shows.resize(output.size.columns, output.size.rows)
            self.shows.feed(output.data)

    async def end(self) -> None:
        await asyncio.wait_for(self._task, PATIENCE)

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})


async def test_typed_commands_are_echoed_and_executed(terminals: TerminalRegistry) -> None:
    terminal = await terminals.open("one", shell())
    await seen(terminal, "$")
    await terminal.write(b"echo $((6 * 7))\r")
    screen = await seen(terminal, "42")
    assert screen.lines[0] == "$ echo $((6 * 7))"
    assert screen.size == SMALL


async def test_program_sees_the_size_of_the_terminal(terminals: TerminalRegistry) -> None:
    terminal = await terminals.open("one", shell())
    await seen(terminal, "$")
    await terminal.write(b"stty size\r")
    await seen(terminal, "5 40")
    terminal.resize(Size(30, 7), "me")
    await terminal.write(b"stty size\r")
    screen = await seen(terminal, "7 30")
    assert screen.size == Size(30, 7) and len(screen.lines) == 7


async def test_program_is_notified_of_its_new_size(terminals: TerminalRegistry) -> None:
    tells = "import os, signal, time\ndef tell(*_): os.write(1, b'%d x %d' % os.get_terminal_size(0))\n"
    tells += "signal.signal(signal.SIGWINCH, tell)\nos.write(1, b'ready ')\nwhile True: time.sleep(0.05)"
    terminal = await terminals.open("one", python(tells))
    await seen(terminal, "ready")
    terminal.resize(Size(20, 4), "me")
    await seen(terminal, "20 x 4")


async def test_terminal_has_the_smallest_size_of_its_watchers(terminals: TerminalRegistry) -> None:
    terminal = await terminals.open("one", shell())
    first, second = Watching(terminal, "first"), Watching(terminal, "second")
    await eventually(lambda: first.outputs and second.outputs)
    terminal.resize(Size(30, 10), "first")
    terminal.resize(Size(60, 4), "second")
    assert terminal.screen.size == Size(30, 4)
    await second.leave()
    assert terminal.screen.size == Size(30, 10)
    await eventually(lambda: first.outputs[-1].size == Size(30, 10))
    await first.leave()
    assert terminal.screen.size == SMALL


async def test_unusual_sizes_are_accepted(terminals: TerminalRegistry) -> None:
    terminal = await terminals.open("one", shell())
    for size in (Size(10**6, 10**6), Size(0, -5), Size(1, 1)):
        terminal.resize(size, "me")
        assert 1 < terminal.screen.size.columns <= MOST.columns
        assert 0 < terminal.screen.size.rows <= MOST.rows


async def test_device_query_is_answered_without_the_watchers(terminals: TerminalRegistry) -> None:
    asks = "import sys, tty; tty.setraw(0); print('ab\\x1b[6n', end='', flush=True); print(ascii(sys.stdin.read(6)))"
    terminal = await terminals.open("one", python(asks))
    watching = Watching(terminal)
    await seen(terminal, "'\\x1b[1;3R'")
    assert all(b"\x1b[6n" not in output.data for output in watching.outputs if not output.redraw)
    await terminal.stop()
    await watching.end()


async def test_late_watcher_sees_the_same_screen(terminals: TerminalRegistry) -> None:
    terminal = await terminals.open(
        "one", shell("printf '\\033[?1049h\\033[2;3H\\033[1;31mred'; read x; printf X; read x")
    )
    early = Watching(terminal, "early")
    await seen(terminal, "red")
    late = Watching(terminal, "late")
    await eventually(lambda: late.outputs)
    await terminal.write(b"\r")
    await seen(terminal, "X")
    await terminal.write(b"\r")
    await early.end()
    await late.end()
    assert late.outputs[0].redraw and late.outputs[0].size == SMALL
    assert late.shows.lines() == early.shows.lines() == terminal.screen.lines
    assert late.shows.alternate
    assert b"\x1b[38;5;1m" in late.outputs[0].data


async def test_program_continues_without_watchers(terminals: TerminalRegistry) -> None:
    terminal = await terminals.open("one", shell("read x; echo first; read x; echo second; read x"))
    watching = Watching(terminal)
    await terminal.write(b"\r")
    await seen(terminal, "first")
    await watching.leave()
    await terminal.write(b"\r")
    await seen(terminal, "second")


async def test_terminal_is_watched_while_it_has_a_watcher(terminals: TerminalRegistry) -> None:
    terminal = await terminals.open("one", shell())
    assert not terminal.watched
    watching = Watching(terminal)
    await eventually(lambda: terminal.watched)
    await watching.leave()
    assert not terminal.watched


async def test_slow_watcher_delays_no_other_and_gets_a_redraw(terminals: TerminalRegistry) -> None:
    lines = 3 * WAITING_BYTES // 40
    terminal = await terminals.open(
        "one", python(f"for n in range({lines}): print(f'{{n:038}}')\nprint('done'); input()")
    )
    slow = terminal.watch("slow")
    assert (await anext(slow)).redraw
    quick = Watching(terminal, "quick")
    await seen(terminal, "done")
    await eventually(lambda: "done" in quick.shows.lines())
    # The slow watcher has read nothing since: its waiting output was dropped, and it gets a redraw of the screen.
    shows = Emulator(SMALL.columns, SMALL.rows)
    output = await anext(slow)
    assert output.redraw and len(output.data) < WAITING_BYTES
    shows.feed(output.data)
    assert shows.lines() == terminal.screen.lines
    await slow.aclose()


async def test_flood_of_output_does_not_block_the_event_loop(terminals: TerminalRegistry) -> None:
    terminal = await terminals.open("one", shell("yes"))
    other = await terminals.open("two", shell())
    await seen(other, "$")
    await other.write(b"echo still $((1 + 1))\r")
    await seen(other, "still 2")
    version = terminal.screen.version
    await terminal.changed(version)
    await asyncio.wait_for(terminal.stop(), PATIENCE)


async def test_exit_status_is_sent_to_all_watchers(terminals: TerminalRegistry) -> None:
    terminal = await terminals.open("one", shell("read x; echo last words; exit 7"))
    first, second = Watching(terminal, "first"), Watching(terminal, "second")
    await eventually(lambda: first.outputs and second.outputs)
    await terminal.write(b"\r")
    await first.end()
    await second.end()
    assert await terminal.wait() == terminal.exit == Exit(code=7)
    assert not terminal.running
    assert "last words" in first.shows.lines()
    assert terminals.find("one") is terminal and terminals.names() == ()
    assert (await terminal.changed(10**9)).lines == terminal.screen.lines
    with pytest.raises(AgentNotRunning):
        await terminal.write(b"x")
    late = Watching(terminal)
    await late.end()
    assert "last words" in late.shows.lines()


async def test_stop_ends_the_program_and_its_jobs(terminals: TerminalRegistry, tmp_path: Path) -> None:
    script = f"trap '' HUP; set -m; sleep 600 & echo $! >{tmp_path}/job; echo ready; wait; read x"
    terminal = await terminals.open("one", shell(script))
    await seen(terminal, "ready")
    job = int((tmp_path / "job").read_text())
    assert start_mark(job)
    exit = await asyncio.wait_for(terminal.stop(), PATIENCE)
    assert exit.signal is not None
    await eventually(lambda: start_mark(job) == "")
    assert not is_alive(terminal.pid, terminal.started)


async def test_jobs_end_with_the_shell_that_started_them(terminals: TerminalRegistry, tmp_path: Path) -> None:
    terminal = await terminals.open("one", shell(f"set -m; nohup sleep 600 & echo $! >{tmp_path}/job; exit 0"))
    assert await asyncio.wait_for(terminal.wait(), PATIENCE) == Exit(code=0)
    job = int((tmp_path / "job").read_text())
    await eventually(lambda: start_mark(job) == "")


async def test_closing_ends_all_terminals_and_leaves_nothing_open() -> None:
    registry = TerminalRegistry(SystemClock(), 3, StopTimeouts(close=5, terminate=1))
    before = sorted(os.listdir("/proc/self/fd"))
    opened = [await registry.open(str(n), shell()) for n in range(3)]
    watching = [Watching(terminal, terminal.name) for terminal in opened]
    for terminal in opened:
        await seen(terminal, "$")
    await registry.close()
    for watcher in watching:
        await watcher.end()
    assert all(not is_alive(terminal.pid, terminal.started) for terminal in opened)
    assert sorted(os.listdir("/proc/self/fd")) == before


async def test_name_is_in_use_while_its_program_runs(terminals: TerminalRegistry) -> None:
    first = await terminals.open("one", shell())
    with pytest.raises(Busy):
        await terminals.open("one", shell())
    await first.stop()
    again = await terminals.open("one", shell())
    assert terminals.find("one") is again


async def test_number_of_terminals_is_bounded(terminals: TerminalRegistry) -> None:
    results = await asyncio.gather(*(terminals.open(str(n), shell()) for n in range(5)), return_exceptions=True)
    assert [type(result) for result in results[3:]] == [TooMany, TooMany]
    assert sorted(terminals.names()) == ["0", "1", "2"]


async def test_ended_terminals_make_room_and_are_dropped_after_a_while(terminals: TerminalRegistry) -> None:
    for n in range(8):
        await (await terminals.open(str(n), shell("exit 0"))).wait()
    assert [n for n in range(8) if terminals.find(str(n)) is not None] == [5, 6, 7]


async def test_failed_start_gives_the_reason(terminals: TerminalRegistry) -> None:
    with pytest.raises(AgentMissing, match="No such file"):
        await terminals.open("one", Program(argv=["/nowhere/program"], env=ENV, cwd="/"))
    with pytest.raises(BadRequest, match="/nowhere"):
        await terminals.open("one", Program(argv=["/bin/sh"], env=ENV, cwd="/nowhere"))
    assert terminals.names() == () and terminals.find("one") is None


async def test_keys_wait_for_a_program_that_does_not_read(terminals: TerminalRegistry) -> None:
    # Blocked before the program prints that it is ready, so that the signal cannot arrive too early.
    waits = "import os, tty, signal; tty.setraw(0); signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
    waits += "print('ready', flush=True); signal.sigwait([signal.SIGUSR1]); n = 0\n"
    waits += "while n < 500000: n += len(os.read(0, 65536))\nprint('all', n, flush=True)\nos.read(0, 1)"
    terminal = await terminals.open("one", python(waits))
    await seen(terminal, "ready")
    writing = asyncio.create_task(terminal.write(b"k" * 500_000))
    done, _ = await asyncio.wait({writing}, timeout=0.05)
    assert not done
    os.kill(terminal.pid, signal.SIGUSR1)
    await asyncio.wait_for(writing, PATIENCE)
    await seen(terminal, "all 500000")


async def test_waiting_keys_are_dropped_when_the_program_ends(terminals: TerminalRegistry) -> None:
    stuck = await terminals.open("one", shell("stty raw; echo ready; sleep 600"))
    await seen(stuck, "ready")
    writing = asyncio.create_task(stuck.write(b"k" * 500_000))
    await asyncio.sleep(0)
    await stuck.stop()
    with pytest.raises(AgentNotRunning):
        await asyncio.wait_for(writing, PATIENCE)
