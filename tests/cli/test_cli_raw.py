"""`fairlead terminal` on a real terminal: the terminal of a program inside the terminal of a user who types."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from cli.conftest import Fairlead
from fairlead.system.clock import SystemClock
from fairlead.system.process import StopTimeouts
from fairlead.system.proctable import descendants, kill
from fairlead.terminals.api import Program, Screen, Size, Terminal, session_terminal
from fairlead.terminals.attachment import TerminalActions
from fairlead.terminals.pty_session import PtySession
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.screen.emulator import Emulator
from fairlead.terminals.screen.modes import DEFAULTS, PASTE
from fairlead.terminals.screen.snapshot import take_snapshot
from patience import PATIENCE
from server.fakes import OTHER, SESSION, Served, serving

CTRL_C, CTRL_BRACKET = b"\x03", b"\x1d"
MAIN = "from fairlead.cli.main import main; main()"
INNER, PERSON = Size(60, 12), Size(50, 10)
PATH = os.environ.get("PATH", os.defpath)


class Setup:
    """A gateway with one terminal, and a user at another terminal."""

    def __init__(self, served: Served, terminals: TerminalRegistry, folder: Path) -> None:
        self._served = served
        self._terminals = terminals
        self.folder = folder

    async def inner(self, script: str, size: Size = INNER) -> Terminal:
        program = Program(argv=["/bin/sh", "-c", script], env={"PATH": PATH, "PS1": "$ "}, cwd="/", size=size)
        return await self._terminals.open(session_terminal(SESSION), program)

    async def person(self, *options: str, session: str = SESSION, size: Size = PERSON) -> Terminal:
        """Run the command in a shell that records the terminal's settings before and after, and its exit code."""
        command = shlex.join([sys.executable, "-c", MAIN, "terminal", session, *options])
        script = f"stty -g >before; {command}; echo ended $?; stty -g >after; echo =over=; read x"
        env = {
            "PATH": PATH,
            "HOME": str(self.folder),
            "TERM": "xterm-256color",
            "FAIRLEAD_URL": self._served.url,
            "FAIRLEAD_TOKEN": self._served.admin,
        }
        program = Program(argv=["/bin/sh", "-c", script], env=env, cwd=str(self.folder), size=size)
        return await self._terminals.open("person", program)

    def restored(self) -> bool:
        return (self.folder / "before").read_text() == (self.folder / "after").read_text()


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[Setup]:
    terminals = TerminalRegistry(SystemClock(), 4, StopTimeouts(close=1, terminate=1))
    async with serving(performers=TerminalActions(terminals).handlers()) as served:
        yield Setup(served, terminals, tmp_path)
        await terminals.close()


async def until(terminal: Terminal, holds: Callable[[Screen], bool]) -> Screen:
    async with asyncio.timeout(PATIENCE):
        screen = terminal.screen
        while not holds(screen):
            assert terminal.running, screen
            screen = await terminal.changed(screen.version)
        return screen


async def seen(terminal: Terminal, text: str) -> None:
    await until(terminal, lambda screen: any(text in line for line in screen.lines))


async def test_user_types_sees_the_output_and_detaches(setup: Setup) -> None:
    inner = await setup.inner("echo hello; read x; echo got $x; read x")
    person = await setup.person()
    await seen(person, "hello")
    await person.write("wörd\r".encode())
    await seen(person, "got wörd")
    await person.write(CTRL_BRACKET)
    await seen(person, "ended 0")
    await seen(person, "=over=")
    assert setup.restored()
    assert inner.running


async def test_terminal_has_the_size_of_the_users_terminal(setup: Setup) -> None:
    inner = await setup.inner("read x; stty size; read x; stty size; read x")
    person = await setup.person()
    await until(inner, lambda screen: screen.size == PERSON)
    await person.write(b"\r")
    await seen(person, "10 50")
    person.resize(Size(44, 9), "window")
    await until(inner, lambda screen: screen.size == Size(44, 9))
    await person.write(b"\r")
    await seen(person, "9 44")
    await person.write(CTRL_BRACKET)
    await seen(person, "=over=")
    await until(inner, lambda screen: screen.size == INNER)


async def test_every_mode_of_the_program_is_undone(setup: Setup) -> None:
    await setup.inner("printf '\\033[?1049h\\033[?25l\\033[?2004h\\033[?1003h\\033[?1h\\033[>5u\\033[3;5rhere'; read x")
    person = await setup.person()
    shows = Emulator(50, 10)

    async def watch() -> None:
        async for output in person.watch("test"):
            shows.feed(output.data)

    watching = asyncio.create_task(watch())
    assert isinstance(person, PtySession)
    emulator = person._state.emulator
    await until(person, lambda screen: emulator.vt.mode(PASTE) and any("here" in line for line in screen.lines))
    # Ctrl-] as a terminal encodes it after a program enabled the extended keyboard protocol.
    await person.write(b"\x1b[93;5u")
    await seen(person, "=over=")
    assert setup.restored()
    await person.stop()
    await watching
    left = take_snapshot(shows.vt)
    assert left.modes == DEFAULTS
    assert (left.alternate, left.region, left.main.keys) == (None, b"", ())


async def test_scrollback_of_the_user_is_not_erased(setup: Setup) -> None:
    await setup.inner("echo hello; read x")
    person = await setup.person()
    written = b""
    async for output in person.watch("test"):
        written += b"" if output.redraw else output.data
        if b"hello" in written:
            break
    assert b"\x1b[2J" in written
    assert b"\x1b[3J" not in written


async def test_exit_of_the_program_is_printed(setup: Setup) -> None:
    inner = await setup.inner("read x; exit 3")
    person = await setup.person()
    await until(inner, lambda screen: screen.size == PERSON)
    await person.write(b"\r")
    await seen(person, "The program has ended with 3.")
    await seen(person, "ended 0")
    await seen(person, "=over=")
    assert setup.restored()


async def test_view_only_client_changes_nothing(setup: Setup) -> None:
    inner = await setup.inner("echo hello; read x; echo got $x", Size(40, 8))
    person = await setup.person("--view")
    await seen(person, "hello")
    await person.write(b"word\r")
    await person.write(CTRL_C)
    await seen(person, "ended 0")
    await seen(person, "=over=")
    assert setup.restored()
    assert inner.running and inner.screen.size == Size(40, 8)
    assert not any("word" in line for line in inner.screen.lines)


async def test_view_only_client_needs_a_large_enough_window(setup: Setup) -> None:
    await setup.inner("read x", INNER)
    person = await setup.person("--view")
    await seen(person, "make the window larger")
    await seen(person, "ended 2")
    await seen(person, "=over=")
    assert setup.restored()


async def test_a_session_without_a_terminal(setup: Setup) -> None:
    person = await setup.person(session=OTHER, size=Size(100, 10))
    await seen(person, f"fairlead hand-over {OTHER} terminal")
    await seen(person, "ended 5")


async def test_terminated_command_restores_the_terminal(setup: Setup) -> None:
    inner = await setup.inner("echo hello; read x")
    person = await setup.person()
    await until(inner, lambda screen: screen.size == PERSON)
    await seen(person, "hello")
    (command,) = descendants(person.pid)
    assert kill(command, signal.SIGTERM)
    await seen(person, "ended 0")
    await seen(person, "=over=")
    assert setup.restored()


def test_command_without_a_terminal_prints_an_error(fairlead: Fairlead) -> None:
    ran = fairlead("terminal", SESSION, "--url", "http://127.0.0.1:1", "--token", "x")
    assert ran.code == 2
    assert "needs a terminal" in ran.err
