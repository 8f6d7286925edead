"""claudecodeui's terminal with real shells: init, input and output, sharing, sizes, several inits."""

import asyncio
import contextlib
import os
import pty
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clients.claudecodeui.shell_harness import ShellHarness, folders, open_shell
from fairlead.terminals.api import Size
from fairlead_testing.claudecodeui_shell_client import RECONNECTED
from server.fakes import until
from terminals.socket_client import CLEAN

pytestmark = pytest.mark.process


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ShellHarness]:
    async with open_shell(tmp_path) as harness:
        yield harness


# --- init


@pytest.mark.rules("S003-002", "S003-020", "S003-079", "S003-080", "S003-086", "S003-089", "S003-097", "S003-105")
async def test_an_init_starts_a_shell_in_the_folder(harness: ShellHarness, tmp_path: Path) -> None:
    (inner,) = folders(tmp_path, "inner")
    async with harness.open_client() as client:
        await client.begin(inner)
        await client.type("tty; pwd; stty size\r")
        await client.wait_for_line(str(inner))
        await client.wait_for_line("24 80")
        await client.wait_for_text("/dev/pts/")
        assert client.outputs[0] == f"\x1b[36mStarting terminal in: {inner}\x1b[0m\r\n"
        assert {frame["type"] for frame in client.frames} == {"output"}
        assert CLEAN not in client.text and not client.reconnects


@pytest.mark.rules("S003-075")
async def test_nothing_happens_before_an_init(harness: ShellHarness, tmp_path: Path) -> None:
    async with harness.open_client() as client:
        await client.type("touch made\r")
        await client.fit(100, 30)
        await client.say(type="paste", data="x")
        await client.settled()
        assert [frame["type"] for frame in client.frames] == ["output"]
        assert harness.terminals.names() == ()
        await client.begin(tmp_path)
        await client.type("echo on $((40 + 2))\r")
        await client.wait_for_line("on 42")
        assert not (tmp_path / "made").exists()


@pytest.mark.rules("S003-081")
@pytest.mark.parametrize("frame", ["what?", b"\xff\xfe", "[1]", "7", "", '"init"', "{}", '{"type":7}', "[" * 100_000])
async def test_an_invalid_frame_is_reported_in_red(harness: ShellHarness, tmp_path: Path, frame: str | bytes) -> None:
    async with harness.open_client() as client:
        await client.socket.send(frame)
        answer = await client.next_frame()
        assert answer == {"type": "output", "data": "\r\n\x1b[31mError: Invalid websocket payload\x1b[0m\r\n"}
        assert harness.terminals.names() == ()
        await client.begin(tmp_path)
        await client.type("echo on $((40 + 2))\r")
        await client.wait_for_line("on 42")


@pytest.mark.rules("S003-081", "S003-082", "S003-083", "S003-084", "S003-085", "S003-138")
async def test_an_error_is_sent_as_error_and_as_output_and_the_next_init_works(
    harness: ShellHarness, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "away").symlink_to("/etc")
    path, session = "Invalid project path", "Invalid session ID"
    bad: list[tuple[dict[str, Any], str]] = [
        ({"projectPath": str(tmp_path / "nowhere")}, path),
        ({"projectPath": str(tmp_path / "file")}, path),
        ({"projectPath": "/etc"}, path),
        ({"projectPath": str(tmp_path / "away")}, path),
        ({"projectPath": f"{tmp_path}/../.."}, path),
        ({"projectPath": "relative"}, path),
        ({"projectPath": f"{tmp_path}\0"}, path),
        *(
            ({"sessionId": text}, session)
            for text in ("a b", "$(touch X)", "`x`", "a;b", "a\n", "é", "a/../b", "x" * 500)
        ),
        ({"projectPath": 7}, "Invalid init: Expected `str | null`, got `int` - at `$.projectPath`"),
        ({"hasSession": "yes"}, "Invalid init: Expected `bool | null`, got `str` - at `$.hasSession`"),
        ({"cols": "80"}, "Invalid init: Expected `int | null`, got `str` - at `$.cols`"),
        ({"provider": "nobody", "isPlainShell": False}, "There is no configured program nobody."),
    ]
    async with harness.open_client() as client:
        for fields, message in bad:
            await client.begin(tmp_path, **fields)
            assert await client.next_frame() == {"type": "error", "message": message}
            assert await client.next_frame() == {"type": "output", "data": f"\r\n\x1b[31mError: {message}\x1b[0m\r\n"}
        assert harness.terminals.names() == ()
        await client.begin(tmp_path)
        await client.type("echo on $((40 + 2))\r")
        await client.wait_for_line("on 42")


@pytest.mark.rules("S003-138")
async def test_a_program_that_cannot_start_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> Any:
        raise OSError(28, os.strerror(28))

    async with open_shell(tmp_path, program="/nowhere/bash") as harness, harness.open_client() as client:
        await client.begin(tmp_path)
        await client.type("echo lost\r")
        await client.until(lambda: client.errors)
        await client.settled()
        assert client.errors == ["/nowhere/bash cannot be started in a terminal: No such file or directory."]
        assert f"\r\n\x1b[31mError: {client.errors[0]}\x1b[0m\r\n" in client.outputs
    async with open_shell(tmp_path) as harness, harness.open_client() as client:
        with monkeypatch.context() as broken:
            broken.setattr(pty, "openpty", none_left)
            await client.begin(tmp_path)
            await client.until(lambda: client.errors)
        await client.begin(tmp_path)
        await client.type("echo on $((40 + 2))\r")
        await client.wait_for_line("on 42")


@pytest.mark.rules("S003-102")
async def test_without_a_path_the_shell_starts_in_the_first_root(harness: ShellHarness, tmp_path: Path) -> None:
    async with harness.open_client() as client:
        await client.say(type="init", isPlainShell=True)
        await client.type("pwd\r")
        await client.wait_for_line(str(tmp_path))


# --- returning and sharing


@pytest.mark.rules("S003-071", "S003-073", "S003-076", "S003-077", "S003-078", "S003-088", "S003-092")
async def test_a_returning_client_finds_its_shell_unchanged(harness: ShellHarness, tmp_path: Path) -> None:
    (tmp_path / "gate").touch()
    async with harness.open_client() as client:
        await client.begin(tmp_path)
        await client.type("kept=here; echo before; (while [ -e gate ]; do sleep 0.02; done; echo aft''er) &\r")
        await client.wait_for_line("before")
        shell = harness.program()
    await until(lambda: not shell.watched)
    (tmp_path / "gate").unlink()
    await until(lambda: any("after" in line for line in shell.screen.lines))
    async with harness.open_client() as back:
        await back.begin(f"{tmp_path}/.")
        await back.next_frame()
        replay = (await back.next_frame())["data"]
        assert back.outputs[0] == RECONNECTED
        # The whole output in one frame, as it was printed, because the size is the same.
        assert CLEAN not in replay and "before\r\n" in replay and "after\r\n" in replay
        await back.type("echo $kept is kept\r")
        await back.wait_for_line("here is kept")
        assert harness.program() is shell
    await until(lambda: not shell.watched)
    async with harness.open_client() as narrow:
        narrow.screen.resize(60, 20)
        await narrow.begin(tmp_path)
        await narrow.next_frame()
        # Redrawn, because the screen has another size.
        assert (await narrow.next_frame())["data"].startswith(CLEAN)
        await narrow.type("echo still $kept\r")
        await narrow.wait_for_line("still here")


@pytest.mark.rules("S003-072", "S003-074", "S003-098")
async def test_folder_session_command_and_user_make_the_key(harness: ShellHarness, tmp_path: Path) -> None:
    """Fault 17: commands with the same prefix are two commands."""
    (inner,) = folders(tmp_path, "inner")
    long = "read answer; : 0123456789"
    wishes: list[tuple[Path, dict[str, Any]]] = [
        (tmp_path, {}),
        (inner, {}),
        (tmp_path, {"sessionId": "one"}),
        (tmp_path, {"sessionId": "two"}),
        (tmp_path, {"initialCommand": f"{long} first"}),
        (tmp_path, {"initialCommand": f"{long} second"}),
        # With parts joined by underscores, this key would equal another one.
        (tmp_path, {"sessionId": "default"}),
    ]
    async with contextlib.AsyncExitStack() as stack:
        for number, (folder, fields) in enumerate(wishes, start=1):
            client = await stack.enter_async_context(harness.open_client())
            await client.begin(folder, **fields)
            await client.begun()
            assert len(harness.terminals.names()) == number, fields
            assert not client.reconnects
        again = await stack.enter_async_context(harness.open_client())
        await again.begin(tmp_path, initialCommand=f"{long} second")
        await again.until(lambda: again.reconnects)
        other = await stack.enter_async_context(harness.open_client(token=await harness.token_of("ann")))
        await other.begin(tmp_path)
        await other.until(lambda: other.outputs)
        assert not other.reconnects and len(harness.terminals.names()) == len(wishes) + 1


@pytest.mark.rules("S003-077")
async def test_all_viewers_see_the_output_and_a_stale_close_detaches_no_other_viewer(
    harness: ShellHarness, tmp_path: Path
) -> None:
    """Fault 4, for terminals: a second browser does not cut off the first."""
    async with harness.open_client() as second:
        async with harness.open_client() as first:
            await first.begin(tmp_path)
            await first.wait_for_text("$")
            await second.begin(tmp_path)
            await second.until(lambda: second.reconnects)
            await second.type("echo from the second\r")
            await first.wait_for_line("from the second")
            await first.type("echo from the first\r")
            await second.wait_for_line("from the first")
            await first.wait_for_line("from the first")
            shown = ["$ echo from the second", "from the second", "$ echo from the first", "from the first"]
            for viewer in (first, second):
                assert [line for line in viewer.screen.lines() if "from" in line] == shown
        await second.type("echo still $((1 + 1))\r")
        await second.wait_for_line("still 2")
        assert harness.program().watched


async def test_simultaneous_clients_start_one_shell(harness: ShellHarness, tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(harness.open_client()) for _ in range(8)]
        await asyncio.gather(*(client.begin(tmp_path) for client in clients))
        await clients[0].type("echo $((6 * 7))\r")
        for client in clients:
            await client.wait_for_line("42")
        assert len(harness.terminals.names()) == 1
        assert sum(client.reconnects for client in clients) == 7


@pytest.mark.rules("S003-087")
async def test_sizes(harness: ShellHarness, tmp_path: Path) -> None:
    """Fault 17: the size in an init that reconnects is applied."""
    async with harness.open_client() as client:
        await client.begin(tmp_path, cols=90, rows=20)
        await client.type("stty size\r")
        await client.wait_for_text("20 90")
        await client.fit(100, 30)
        await client.type("stty size\r")
        await client.wait_for_text("30 100")
        await client.say(type="resize", cols="wide")
        await until(lambda: harness.program().screen.size == Size(80, 24))
        for cols, rows in ((0, -1), (10**9, 10**9)):
            await client.say(type="resize", cols=cols, rows=rows)
    await until(lambda: not harness.program().watched)
    async with harness.open_client() as back:
        back.screen.resize(70, 15)
        await back.begin(tmp_path)
        await back.type("stty size\r")
        await back.wait_for_text("15 70")
        async with harness.open_client() as small:
            small.screen.resize(60, 10)
            await small.begin(tmp_path)
            await small.until(lambda: small.reconnects)
            await until(lambda: harness.program().screen.size == Size(60, 10))
        await until(lambda: harness.program().screen.size == Size(70, 15))


# --- two inits on one socket


@pytest.mark.rules("S003-091")
async def test_two_inits_on_one_socket_do_not_mix(harness: ShellHarness, tmp_path: Path) -> None:
    """Fault 15: the exit of the first program does not affect the second, and neither is left without an owner."""
    first, second = folders(tmp_path, "first", "second")
    async with harness.open_client() as client:
        await client.begin(first)
        await client.type("while [ ! -e go ]; do sleep 0.02; done; exit 3\r")
        await client.wait_for_text("sleep")
        one = harness.program()
        await client.begin(second)
        # Only the last part of the path: the whole path may be wider than the screen.
        await client.type("echo in ${PWD##*/}\r")
        await client.wait_for_line("in second")
        (first / "go").touch()
        await until(lambda: not one.running)
        await client.type("echo on $((40 + 2))\r")
        await client.wait_for_line("on 42")
        assert client.exit_codes == []
        await client.begin(first)
        await client.type("echo new $((1 + 1))\r")
        await client.wait_for_line("new 2")
        assert len(harness.programs()) == 2
        await client.begin(second)
        await client.until(lambda: client.reconnects)
        await client.type("exit 4\r")
        await client.until(lambda: client.exit_codes)
        assert client.exit_codes == [4]


async def test_keys_go_to_the_last_requested_program(harness: ShellHarness, tmp_path: Path) -> None:
    first, second = folders(tmp_path, "first", "second")
    async with harness.open_client() as client:
        await client.begin(first)
        await client.type("touch lost\r")
        await client.begin(second)
        await client.fit(66, 11)
        await client.type("stty size; basename $(pwd)\r")
        await client.wait_for_line("second")
        await client.wait_for_text("11 66")
        assert not (first / "lost").exists()
