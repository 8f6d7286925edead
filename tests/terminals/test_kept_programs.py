"""Terminals with real programs at a real keeper: they survive gateways that are gone without a word."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead.keeper.client import Keeper, connect_or_start
from fairlead.model.agents import Exit
from fairlead.model.errors import AgentMissing, BadRequest
from fairlead.system.clock import SystemClock
from fairlead.system.process import StopTimeouts
from fairlead.system.proctable import is_alive, start_mark
from fairlead.terminals.api import Program, Size
from fairlead.terminals.pty_session import PtySession
from fairlead.terminals.registry import TerminalRegistry
from patience import PATIENCE
from terminals.test_terminal_registry import Watching, eventually, seen, until

pytestmark = pytest.mark.process

ENV = {"PATH": os.environ.get("PATH", os.defpath), "PS1": "$ ", "TERM": "xterm-256color", "HOME": "/"}
SMALL = Size(40, 5)


class Gateways:
    """Gateways that follow each other at one keeper."""

    keeper: Keeper
    terminals: TerminalRegistry

    def __init__(self, data: Path) -> None:
        self.data = data

    async def start(self) -> None:
        self.keeper = await connect_or_start(self.data, SystemClock())
        self.terminals = TerminalRegistry(SystemClock(), 8, StopTimeouts(close=1, terminate=1), keeper=self._get)
        self.terminals.restore(self.keeper.found, lambda user: True)

    async def _get(self) -> Keeper:
        return self.keeper

    async def kill(self) -> None:
        """The connection ends; nothing is saved or detached."""
        await self.keeper.close()

    async def restarted(self, name: str = "one") -> PtySession:
        await self.kill()
        await self.start()
        found = self.terminals.adopted(name)
        assert found is not None
        return found

    async def open(self, *argv: str, size: Size = SMALL, shell: bool = True, name: str = "one") -> PtySession:
        program = Program(argv=argv, env=ENV, cwd=str(self.data), size=size, shell=shell)
        return await self.terminals.open(name, program)


@pytest.fixture
async def gateways(tmp_path: Path) -> AsyncIterator[Gateways]:
    made = Gateways(tmp_path)
    await made.start()
    yield made
    await made.terminals.close()
    await made.keeper.close(quit=True)


async def test_shell_continues_with_its_variables_and_its_screen(gateways: Gateways) -> None:
    shell = await gateways.open("/bin/sh", "-i")
    await seen(shell, "$")
    await shell.write(b"x=1; cd /; echo number $((x + 1))\r")
    await seen(shell, "number 2")
    # With the next prompt: the shell prints it after the output.
    before = await until(shell, lambda screen: [line for line in screen.lines if line][-2:] == ["number 2", "$"])
    again = await gateways.restarted()
    assert (again.pid, again.started, again.survives) == (shell.pid, shell.started, True)
    await until(again, lambda screen: screen.lines == before.lines)
    await again.write(b"echo $x in $(pwd)\r")
    await seen(again, "1 in /")


async def test_running_command_goes_on_while_no_gateway_is_there(gateways: Gateways, tmp_path: Path) -> None:
    shell = await gateways.open("/bin/sh", "-i")
    await seen(shell, "$")
    await shell.write(f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; seq 200; touch {tmp_path}/done\r".encode())
    await gateways.kill()
    (tmp_path / "go").touch()
    await eventually((tmp_path / "done").exists)
    again = await gateways.restarted()
    await seen(again, "200")
    watching = Watching(again)
    await eventually(lambda: watching.outputs)
    drawn = watching.outputs[0].data
    assert all(b"\r\n%d\r\n" % number in drawn for number in range(1, 199))
    await watching.leave()


async def test_size_survives_and_a_new_one_reaches_the_program(gateways: Gateways) -> None:
    shell = await gateways.open("/bin/sh", "-i")
    await seen(shell, "$")
    shell.resize(Size(33, 9), "me")
    again = await gateways.restarted()
    assert again.screen.size == Size(33, 9)
    await again.write(b"stty size\r")
    await seen(again, "9 33")
    again.resize(Size(30, 7), "me")
    await again.write(b"stty size\r")
    await seen(again, "7 30")


async def test_scrollback_survives(gateways: Gateways) -> None:
    shell = await gateways.open("/bin/sh", "-c", "seq 300; exec cat", size=Size(40, 5))
    await seen(shell, "300")
    first = Watching(shell)
    await eventually(lambda: first.outputs)
    await first.leave()
    again = await gateways.restarted()
    await seen(again, "300")
    second = Watching(again)
    await eventually(lambda: second.outputs)
    assert second.outputs[0].redraw and second.outputs[0].data == first.outputs[0].data
    await second.leave()


EDITORS = [
    ("vim", ("-u", "NONE", "-N"), b":set ruler\r", b"\x1b:q!\r"),
    ("less", (), b"", b"q"),
]


@pytest.mark.parametrize(("editor", "options", "keys", "leave"), EDITORS, ids=[case[0] for case in EDITORS])
async def test_alternate_screen_of_an_editor_survives(
    gateways: Gateways, editor: str, options: tuple[str, ...], keys: bytes, leave: bytes
) -> None:
    if shutil.which(editor) is None:
        pytest.skip(f"{editor} is not installed")
    text = gateways.data / "text"
    text.write_text("".join(f"line {number}\n" for number in range(100)))
    shell = await gateways.open("/bin/sh", "-i")
    await seen(shell, "$")
    await shell.write(f"{editor} {' '.join(options)} {text}\r".encode())
    await seen(shell, "line 3")
    await shell.write(keys + b"\x06")  # a page forward
    before = await seen(shell, "line 6")
    assert shell._state.emulator.alternate
    again = await gateways.restarted()
    await until(again, lambda screen: screen.lines == before.lines)
    assert again._state.emulator.alternate and (again.screen.row, again.screen.column) == (before.row, before.column)
    await again.write(b"\x02")  # and back
    await seen(again, "line 0")
    await again.write(leave)
    await seen(again, f"$ {editor}")
    assert not again._state.emulator.alternate


async def test_job_control_survives(gateways: Gateways) -> None:
    shell = await gateways.open("/bin/bash", "--norc", "-i", size=Size(60, 20))
    await seen(shell, "$")
    await shell.write(b"sh -c 'echo ready; while read line; do echo got $line; done'\r")
    await until(shell, lambda screen: "ready" in screen.lines)
    await shell.write(b"one\r")
    await seen(shell, "got one")
    again = await gateways.restarted()
    await again.write(b"\x1a")  # Ctrl-Z
    await seen(again, "Stopped")
    await again.write(b"fg\r")
    # It shows the command again; keys that come earlier would be taken by the editor of the shell's line.
    await until(again, lambda screen: any(line.startswith("sh -c") for line in screen.lines))
    await again.write(b"two\r")
    await seen(again, "got two")
    third = await gateways.restarted()
    await third.write(b"\x03")  # Ctrl-C
    await until(third, lambda screen: [line for line in screen.lines if line][-1:] == ["$"])
    await third.write(b"echo status $?\r")
    await seen(third, "status 130")


async def test_answer_to_a_query_is_given_once(gateways: Gateways) -> None:
    asks = "import os, sys, tty; tty.setraw(0); os.write(1, b'ab\\x1b[6n')\n"
    asks += "while True: os.write(1, ascii(os.read(0, 100)).encode() + b' ')"
    program = await gateways.open(sys.executable, "-I", "-c", asks)
    await seen(program, "'\\x1b[1;3R'")
    # Its state was not saved since: the query is processed again.
    again = await gateways.restarted()
    await seen(again, "'\\x1b[1;3R'")
    await again.write(b"x")
    screen = await seen(again, "b'x'")
    assert "".join(screen.lines).count("1;3R") == 1


async def test_program_that_ended_meanwhile_shows_its_end(gateways: Gateways) -> None:
    shell = await gateways.open("/bin/sh", "-c", "read x; echo last words; exit 7")
    await shell.write(b"\r")
    await gateways.kill()
    again = await gateways.restarted()
    assert await asyncio.wait_for(again.wait(), PATIENCE) == Exit(code=7)
    assert "last words" in again.screen.lines
    await gateways.kill()
    await gateways.start()
    assert gateways.terminals.restored_names() == ()


async def test_stop_of_a_restored_terminal_ends_the_program_and_its_jobs(gateways: Gateways, tmp_path: Path) -> None:
    script = f"trap '' HUP; set -m; sleep 600 & echo $! >{tmp_path}/job; echo ready; wait; read x"
    shell = await gateways.open("/bin/sh", "-c", script)
    await seen(shell, "ready")
    job = int((tmp_path / "job").read_text())
    again = await gateways.restarted()
    exit = await asyncio.wait_for(again.stop(), PATIENCE)
    assert exit.signal is not None
    await eventually(lambda: start_mark(job) == "")
    assert not is_alive(again.pid, again.started)


async def test_detached_gateway_leaves_the_programs_running(gateways: Gateways) -> None:
    shell = await gateways.open("/bin/sh", "-i")
    await seen(shell, "$")
    await gateways.terminals.close(detach=True)
    assert is_alive(shell.pid, shell.started)
    again = await gateways.restarted()
    await again.write(b"echo on $((40 + 2))\r")
    await seen(again, "on 42")
    await gateways.terminals.close()
    assert not is_alive(shell.pid, shell.started)


async def test_flood_of_output_is_bounded_while_no_gateway_is_there(gateways: Gateways) -> None:
    shell = await gateways.open("/bin/sh", "-c", f"yes {'.' * 60} | head -c 20000000; echo; echo end; exec cat")
    await gateways.kill()
    again = await gateways.restarted()
    assert again.pid == shell.pid
    await seen(again, "end")


async def test_failed_start_gives_the_same_reason_as_without_a_keeper(gateways: Gateways) -> None:
    with pytest.raises(AgentMissing, match="No such file") as missing:
        await gateways.open("/nowhere/program")
    assert missing.value.data["errno"] == "ENOENT"
    gateways.data = Path("/nowhere")
    with pytest.raises(BadRequest, match="/nowhere"):
        await gateways.open("/bin/sh")
    assert gateways.terminals.names() == ()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("PPid:")[2].split()[0])


async def test_killed_keeper_ends_its_terminals(gateways: Gateways) -> None:
    shell = await gateways.open("/bin/sh", "-i")
    await seen(shell, "$")
    os.kill(parent(shell.pid), signal.SIGKILL)
    assert await asyncio.wait_for(shell.wait(), PATIENCE) == Exit()
    await eventually(lambda: not is_alive(shell.pid, shell.started))


async def test_program_of_a_killed_keeper_may_finish_its_work(gateways: Gateways, tmp_path: Path) -> None:
    """An agent writes the last rows of its transcript when its terminal is hung up: they are still read."""
    last = tmp_path / "last"
    ends = f"trap 'sleep 1; echo rows > {last}; exit' HUP; echo ready; while :; do sleep 0.1; done"
    shell = await gateways.open("/bin/sh", "-c", ends)
    await seen(shell, "ready")
    os.kill(parent(shell.pid), signal.SIGKILL)
    assert await asyncio.wait_for(shell.wait(), PATIENCE) == Exit()
    assert last.read_text() == "rows\n"
