"""claudecodeui's terminal: exits, timeouts, needed scopes, and errors."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from clients.claudecodeui.shell_harness import SECRETS, ShellHarness, folders, open_shell
from fairlead.clients.claudecodeui.shell import MESSAGE_LIMIT, ShellCodec
from fairlead.model.auth import Identity
from fairlead.system.proctable import is_alive
from fairlead.terminals.api import OpenLauncher, TerminalOutput
from fairlead.terminals.attachment import UNSENT_BYTES
from fairlead.terminals.pty_session import PtySession
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.shells import LEFT_WARNING
from fairlead_testing.clock import ManualClock
from patience import PATIENCE
from server.fakes import until
from terminals.socket_client import CLEAN

pytestmark = pytest.mark.process


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ShellHarness]:
    async with open_shell(tmp_path) as harness:
        yield harness


# --- exits and timeouts


@pytest.mark.rules("S003-080", "S003-091")
async def test_the_exit_is_reported_and_the_socket_stays_open(harness: ShellHarness, tmp_path: Path) -> None:
    async with harness.open_client() as client, harness.open_client() as other:
        await client.begin(tmp_path)
        await client.wait_for_text("$")
        await other.begin(tmp_path)
        await other.until(lambda: other.reconnects)
        await client.type("exit 3\r")
        for viewer in (client, other):
            await viewer.ended()
            assert viewer.outputs[-1] == "\r\n\x1b[33mProcess exited with code 3 (0)\x1b[0m\r\n"
        await client.type("echo lost\r")
        await client.begin(tmp_path)
        await client.type("echo new; kill -KILL $$\r")
        await client.until(lambda: len(client.exit_codes) == 2)
        assert client.outputs[-1] == "\r\n\x1b[33mProcess exited with code 137 (9)\x1b[0m\r\n"
        assert not client.reconnects and "lost" not in client.text


@pytest.mark.rules("S003-093", "S003-094", "S003-095", "S003-096")
async def test_an_unwatched_shell_is_stopped_after_half_an_hour(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_shell(tmp_path, clock) as harness:
        async with harness.open_client() as client:
            await client.begin(tmp_path)
            await client.type("echo old words\r")
            await client.wait_for_line("old words")
            # An attached client keeps the shell alive, however long it is idle.
            await clock.advance(3 * 60 * 60)
            shell = harness.program()
        await until(lambda: not shell.watched)
        await clock.advance(29 * 60)
        assert shell.running and LEFT_WARNING.format(60).strip() in shell.screen.lines
        async with harness.open_client() as back:
            await back.begin(tmp_path)
            await back.wait_for_text(LEFT_WARNING.format(60).strip())
            await clock.advance(3 * 60 * 60)
            assert harness.program() is shell
            await back.type("echo more words; (sleep 1000; echo never) &\r")
            await back.wait_for_line("more words")
        await until(lambda: not shell.watched)
        await clock.advance(29 * 60 + 59)
        assert shell.running
        await clock.advance(1)
        async with asyncio.timeout(PATIENCE):
            await shell.wait()
        assert not is_alive(shell.pid, shell.started)
        async with harness.open_client() as new:
            await new.begin(tmp_path)
            await new.wait_for_text("$")
            assert "words" not in new.text and not new.reconnects


@pytest.mark.rules("S003-107")
async def test_a_long_replay_is_one_bounded_frame(harness: ShellHarness, tmp_path: Path) -> None:
    async with harness.open_client() as client:
        await client.begin(tmp_path)
        await client.type("i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); echo line $i; done; echo do''ne\r")
        await client.wait_for_line("done")
    async with harness.open_client() as back:
        await back.begin(tmp_path)
        await back.next_frame()
        replay = (await back.next_frame())["data"]
        assert [int(found) for found in re.findall(r"line (\d+)", replay)] == list(range(1, 5001))
        await back.type("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo fini''shed\r")
        await back.wait_for_line("finished")
    async with harness.open_client() as last:
        await last.begin(tmp_path)
        await last.next_frame()
        replay = (await last.next_frame())["data"]
        assert len(replay) < 512 * 1024
        assert "line 1\r" not in replay and "finished" in replay, "the oldest went, the newest is there"


# --- scopes, limits and errors


@pytest.mark.rules("S003-016")
async def test_the_scope_terminal_is_needed(harness: ShellHarness) -> None:
    chatting = await harness.served.token("view", "chat", "approve")
    for token, status in ((chatting, 403), ("fl_wrong", 401)):
        with pytest.raises(InvalidStatus) as refused:
            async with harness.open_client(token=token):
                pass
        assert refused.value.response.status_code == status
    assert harness.terminals.names() == ()


async def test_the_environment_holds_no_secret(harness: ShellHarness, tmp_path: Path) -> None:
    """Fault 13: it contains neither keys of the gateway nor folders outside the roots."""
    async with harness.open_client() as client:
        await client.begin(tmp_path)
        await client.type("env > found; echo wr''itten\r")
        await client.wait_for_line("written")
    found = (tmp_path / "found").read_text()
    assert "TERM=xterm-256color" in found and "COLORTERM=truecolor" in found
    assert not [word for word in (*SECRETS, "secret") if word in found]


async def test_a_too_large_frame_closes_only_its_socket(harness: ShellHarness, tmp_path: Path) -> None:
    async with harness.open_client() as client, harness.open_client() as other:
        await other.begin(tmp_path)
        await other.wait_for_text("$")
        with contextlib.suppress(ConnectionClosed):
            await client.socket.send('{"type":"input","data":"' + "x" * (MESSAGE_LIMIT + 1) + '"}')
        with pytest.raises(ConnectionClosed) as closed:
            await client.next_frame()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
        await other.type("echo on $((40 + 2))\r")
        await other.wait_for_line("on 42")


async def test_keys_typed_during_the_start_are_kept_in_order(harness: ShellHarness, tmp_path: Path) -> None:
    async with harness.open_client() as client:
        await client.begin(tmp_path)
        for number in range(200):
            await client.type(f"echo {number} >> typed\r")
        await client.type("echo all''typed\r")
        await client.until(lambda: "alltyped" in client.text)
    # Not from the screen: the terminal's echo of later lines may appear within the output of a command.
    assert [int(line) for line in (tmp_path / "typed").read_text().split()] == list(range(200))


class FullWire:
    """The socket of a client that does not read: sent data stays in its backlog."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.full = True
        self.ended = False

    def send(self, frames: bytes) -> None:
        self.sent.append(frames)

    def backlog(self) -> int:
        return UNSENT_BYTES + 1 if self.full else 0

    def probe(self, answered: Callable[[], None]) -> None:
        answered()

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self, code: int, reason: str) -> None:
        self.ended = True


async def test_a_stalled_client_does_not_slow_the_others_and_costs_little_memory(
    harness: ShellHarness, tmp_path: Path
) -> None:
    """Fault 7, for terminals: its queued data is bounded, and its screen is redrawn when it reads again."""
    async with harness.open_client() as client:
        await client.begin(tmp_path)
        await client.wait_for_text("$")
        owner = Identity("c", harness.program().name.split("/")[1], "n", frozenset({"terminal"}))
        switch = await harness.launcher.open(owner, OpenLauncher(codec=ShellCodec()))
        wire = FullWire()
        switch.attached(wire)
        switch.received(json.dumps(client.init(str(tmp_path))).encode(), True)
        await until(lambda: len(wire.sent) == 2)
        await client.type("i=0; while [ $i -lt 9000 ]; do i=$((i + 1)); echo a line that is as long as one $i; done\r")
        await client.until(lambda: "as one 9000\r\n" in "".join(client.outputs[-3:]))
        # The marker and the first output: nothing more, however much was printed.
        assert len(wire.sent) == 2
        wire.full = False
        switch.drained()
        await until(lambda: b"as one 9000" in b"".join(wire.sent))
        assert CLEAN.encode() in b"".join(wire.sent).replace(b"\\u001b", b"\x1b") and len(b"".join(wire.sent)) < 600_000
        switch.detached(1000, "")
        await client.type("echo on $((40 + 2))\r")
        await client.wait_for_line("on 42")


async def test_the_number_of_terminals_is_limited(tmp_path: Path) -> None:
    async with open_shell(tmp_path, most=1) as harness, harness.open_client() as one, harness.open_client() as two:
        await one.begin(tmp_path)
        await one.wait_for_text("$")
        await two.begin(tmp_path, sessionId="another")
        await two.until(lambda: two.errors)
        assert "1 terminals are open" in two.errors[0]
        await one.begin(tmp_path)
        await one.until(lambda: one.reconnects)


async def test_an_internal_error_is_reported_without_its_text(
    harness: ShellHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with harness.open_client() as client:
        with monkeypatch.context() as broken:
            broken.setattr(TerminalRegistry, "open", lambda *_: 1 // 0)
            await client.begin(tmp_path)
            await client.until(lambda: client.errors)
        assert client.errors == ["The gateway failed: see its log."]
        assert "ZeroDivisionError" in caplog.text
        await client.begin(tmp_path)
        await client.type("echo on $((40 + 2))\r")
        await client.wait_for_line("on 42")


async def test_a_shell_whose_folder_was_removed_can_still_be_attached(harness: ShellHarness, tmp_path: Path) -> None:
    (inner,) = folders(tmp_path, "inner")
    async with harness.open_client() as client:
        await client.begin(inner)
        await client.type("rmdir ../inner; echo go''ne\r")
        await client.wait_for_line("gone")
        await client.begin(inner)
        await client.until(lambda: client.reconnects)


async def test_switching_programs_works_after_unread_keys(harness: ShellHarness, tmp_path: Path) -> None:
    """A socket that was paused because its program did not read is resumed for the next program."""
    first, second = folders(tmp_path, "first", "second")
    async with harness.open_client() as client:
        await client.begin(first)
        await client.type("stty raw -echo; echo re''ady; sleep 1000\r")
        await client.wait_for_text("ready")
        for _ in range(4):
            await client.type("k" * (MESSAGE_LIMIT // 2))
        async with harness.open_client() as other:
            await other.begin(first, forceRestart=True)
            await client.until(lambda: client.exit_codes)
        await client.begin(second)
        await client.type("echo on $((40 + 2))\r")
        await client.wait_for_line("on 42")


async def test_a_client_whose_terminal_cannot_be_shown_is_closed_with_1011(
    harness: ShellHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(terminal: PtySession, who: str, raw: bool) -> AsyncIterator[TerminalOutput]:
        if terminal.running:
            raise ValueError("no")
        yield TerminalOutput(b"")

    async with harness.open_client() as client, harness.open_client() as other:
        await other.begin(tmp_path)
        await other.wait_for_text("$")
        with monkeypatch.context() as patched:
            patched.setattr(PtySession, "watch", broken)
            await client.begin(tmp_path)
            with pytest.raises(ConnectionClosed) as closed:
                await client.until(lambda: False)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1011
        await other.type("echo on $((40 + 2))\r")
        await other.wait_for_line("on 42")


async def test_a_start_whose_client_has_left_is_shared_with_the_next_client(
    harness: ShellHarness, tmp_path: Path
) -> None:
    """A second start of the same terminal would fail, since the terminal exists already."""
    program = harness.launcher._shells.program("ann", "name", str(tmp_path))
    start = partial(harness.launcher._started, "desk/ann/name", program)
    first = harness.launcher._begin("desk/ann/name", start)
    second = harness.launcher._begin("desk/ann/name", start)
    assert await first is await second
    assert harness.launcher._beginning == {}


async def test_a_client_that_leaves_at_any_moment_leaves_nothing_behind(harness: ShellHarness, tmp_path: Path) -> None:
    who = Identity("c", "ann", "n", frozenset({"terminal"}))
    wish = json.dumps({"type": "init", "projectPath": str(tmp_path), "isPlainShell": True, "cols": 30}).encode()
    for rounds in range(12):
        switch = await harness.launcher.open(who, OpenLauncher(codec=ShellCodec()))
        wire = FullWire()
        # The first frame may arrive before the socket is attached.
        switch.received(wish, True)
        switch.attached(wire)
        for _ in range(rounds):
            await asyncio.sleep(0)
        switch.detached(1000, "")
        count = len(wire.sent)
        switch.received(b'{"type":"input","data":"x"}', True)
        switch.drained()
        await asyncio.sleep(0)
        assert len(wire.sent) == count
    await until(lambda: not any(program.watched for program in harness.programs()))
    async with harness.open_client(token=await harness.token_of("ann")) as client:
        await client.begin(tmp_path)
        await client.type("stty size\r")
        # The sizes of the clients that left no longer count.
        await client.wait_for_text("24 80")
