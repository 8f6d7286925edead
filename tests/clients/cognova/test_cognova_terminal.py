"""Cognova's terminal with real shells: input, output, sharing, scopes, start and exit."""

import asyncio
import contextlib
import errno
import os
import pty
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from clients.cognova.terminal_harness import ShellClient, ShellHarness, open_shell
from fairlead.clients.cognova.terminal import MESSAGE_LIMIT
from fairlead.system.proctable import is_alive
from fairlead.terminals.api import Size
from fairlead.terminals.pty_session import MOST
from fairlead.terminals.shells import WARNING
from fairlead_testing.clock import ManualClock
from patience import PATIENCE
from server.fakes import until
from terminals.socket_client import CLEAN

pytestmark = pytest.mark.process


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ShellHarness]:
    async with open_shell(tmp_path) as harness:
        yield harness


@pytest.mark.rules("S002-001", "S002-056", "S002-057", "S002-068", "S002-074", "S002-082")
@pytest.mark.parametrize("path", ["/terminal", "/_ws/terminal"])
async def test_a_first_connection_gets_a_new_shell_on_a_real_terminal(harness: ShellHarness, path: str) -> None:
    async with harness.join(path=path) as client:
        await client.type("tty; stty size\r")
        await client.wait_for_line("24 80")
        await client.wait_for_text("/dev/pts/")
        assert {frame["type"] for frame in client.frames} == {"output"}
        # A new shell has no output to replay.
        assert CLEAN not in client.text
        assert harness.terminals.names() == ("user/owner/default",)


@pytest.mark.rules("S002-060", "S002-061", "S002-062")
async def test_keys_are_passed_unchanged(harness: ShellHarness) -> None:
    async with harness.join() as client:
        await client.wait_for_text("$")
        await client.type("stty -echo; cat -v\r")
        await client.type("\x01\x1b[A\té ~\r")
        await client.until(lambda: "^A^[[A\tM-CM-) ~\r\n" in client.text)
        await client.type("\x04")
        await client.type("stty echo; echo on $((40 + 2))\r")
        await client.wait_for_line("on 42")


@pytest.mark.rules("S002-063", "S002-064", "S002-065")
async def test_a_resize_may_be_the_first_frame(harness: ShellHarness) -> None:
    async with harness.join() as client:
        await client.fit(120, 40)
        await client.type("stty size\r")
        await client.wait_for_line("40 120")


@pytest.mark.rules("S002-064")
async def test_a_strange_size_does_no_harm(harness: ShellHarness) -> None:
    async with harness.join() as client:
        for cols, rows in ((0, 24), (80, 0), (-5, 24), ("80", "24"), (80.5, 24), (None, None), (True, True)):
            await client.say(type="resize", cols=cols, rows=rows)
        await client.say(type="resize", cols=100)
        await client.type("stty size\r")
        await client.wait_for_line("24 80")
        await client.say(type="resize", cols=10**9, rows=10**9)
        await client.settled()
        assert harness.shell().screen.size == MOST
        client.screen.resize(MOST.columns, MOST.rows)
        await client.type("echo still $((1 + 1))\r")
        await client.wait_for_line("still 2")


@pytest.mark.rules("S002-066", "S002-067")
async def test_a_ping_is_answered_and_the_shell_does_not_see_it(harness: ShellHarness) -> None:
    async with harness.join() as client:
        await client.wait_for_text("$")
        screen = harness.shell().screen
        await client.say(type="ping")
        assert await client.next_frame() == {"type": "pong"}
        assert harness.shell().screen == screen


@pytest.mark.parametrize(
    "frame",
    ["what?", b"\xff\xfe", "[1]", "7", "{}", '{"type":"paste"}', '{"type":"input"}', '{"type":"input","data":7}',
     '{"type":"input","data":""}', '{"type":["input"]}', '{"type":"input","data":"\\ud800"}', "[" * 100_000],
)  # fmt: skip
async def test_invalid_frames_are_ignored(harness: ShellHarness, frame: str | bytes) -> None:
    async with harness.join() as client:
        await client.socket.send(frame)
        await client.settled()
        await client.type("echo on $((40 + 2))\r")
        await client.wait_for_line("on 42")
        assert {frame["type"] for frame in client.frames} == {"output", "pong"}


@pytest.mark.rules("S002-075")
async def test_all_browsers_of_a_user_share_one_shell(harness: ShellHarness) -> None:
    async with harness.join() as first, harness.join() as second:
        await first.type("pid=$$; echo pid is $pid\r")
        await second.wait_for_text("pid is")
        await second.wait_for_line(f"pid is {harness.shell().pid}")
        await second.type("echo mine is $((pid))\r")
        await first.wait_for_line(f"mine is {harness.shell().pid}")
        await second.wait_for_line(f"mine is {harness.shell().pid}")
        assert first.screen.lines() == second.screen.lines()
        assert len(harness.terminals.names()) == 1


async def test_simultaneous_clients_start_one_shell(harness: ShellHarness) -> None:
    async with contextlib.AsyncExitStack() as stack:
        joining = (stack.enter_async_context(harness.join()) for _ in range(8))
        clients = await asyncio.gather(*joining)
        await clients[0].type("echo $((6 * 7))\r")
        for client in clients:
            await client.wait_for_line("42")
        assert len(harness.terminals.names()) == 1


@pytest.mark.rules("S002-058", "S002-059", "S002-069", "S002-076", "S002-080")
async def test_a_returning_client_finds_its_shell_unchanged(harness: ShellHarness, tmp_path: Path) -> None:
    (tmp_path / "gate").touch()
    async with harness.join() as client:
        await client.type("echo before; (while [ -e gate ]; do sleep 0.02; done; echo aft''er) &\r")
        await client.wait_for_line("before")
        pid = harness.shell().pid
    await until(lambda: not harness.shell().watched)
    (tmp_path / "gate").unlink()
    await until(lambda: any("after" in line for line in harness.shell().screen.lines))
    async with harness.join() as back:
        first = await back.next_frame()
        assert first["type"] == "output" and first["data"].startswith(CLEAN)
        assert "before" in first["data"] and "after" in first["data"]
        await back.settled()
        assert [frame["type"] for frame in back.frames] == ["output", "pong"]
        assert harness.shell().pid == pid
        assert back.screen.lines() == harness.shell().screen.lines
    async with harness.join("?replay=raw") as raw:
        first = await raw.next_frame()
        assert CLEAN not in first["data"] and "before\r\n" in first["data"] and "after\r\n" in first["data"]


async def test_the_size_stays_when_the_last_client_leaves(harness: ShellHarness) -> None:
    """Otherwise a reload of the page would cut a long line."""
    line = "0123456789" * 11
    async with harness.join() as client:
        await client.fit(120, 30)
        await client.type(f"echo {line}\r")
        await client.wait_for_line(line)
    await until(lambda: not harness.shell().watched)
    assert harness.shell().screen.size == Size(120, 30)
    async with harness.join() as back:
        back.screen.resize(120, 30)
        await back.wait_for_line(line)


@pytest.mark.rules("S002-077", "S002-078")
async def test_a_replay_and_the_following_output_have_no_gap_and_no_overlap(harness: ShellHarness) -> None:
    async with harness.join() as client:
        await client.type("i=0; while :; do i=$((i + 1)); echo n$i; done\r")
        await client.until(lambda: "n500\r" in client.text)
    async with harness.join("?replay=raw") as back:
        await back.next_frame()
        replayed = len(back.text)
        await back.until(lambda: back.text.count("\n", replayed) > 2000)
        numbers = [int(found) for found in re.findall(r"n(\d+)\r\n", back.text)]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert CLEAN not in back.text


def at_prompt(viewer: ShellClient) -> bool:
    return [*filter(None, viewer.screen.lines())][-1] == "$"


@pytest.mark.rules("S002-077")
async def test_a_redraw_in_the_middle_of_yes_ends_at_the_same_screen(harness: ShellHarness) -> None:
    async with harness.join() as client:
        await client.type("yes\r")
        await client.until(lambda: client.text.count("y\r\n") > 200)
        async with harness.join() as late:
            await late.until(lambda: late.text.count("y\r\n") > 200)
            await late.type("\x03")
            await late.until(lambda: "$" in late.screen.lines())
            await late.type("echo done $((1 + 1))\r")
            for viewer in (late, client):
                await viewer.wait_for_line("done 2")
                await viewer.until(partial(at_prompt, viewer))
            assert late.screen.lines() == client.screen.lines() == harness.shell().screen.lines


@pytest.mark.rules("S002-078")
async def test_ten_megabytes_of_output_arrive_completely(harness: ShellHarness, tmp_path: Path) -> None:
    lines = [f"{number:08d} {'é' if number % 100 == 0 else '.' * 110}" for number in range(85_000)]
    (tmp_path / "long").write_text("\n".join(lines) + "\n")
    async with harness.join() as client:
        await client.type("stty -echo; PS1=; echo be''gin; cat long; echo e''nd\r")
        await client.until(lambda: "\nend\r\n" in "".join(client.outputs[-3:]))
    text = client.text
    assert text[text.index("begin\r\n") + 7 : text.index("end\r\n")] == "".join(f"{line}\r\n" for line in lines)


@pytest.mark.rules("S002-079")
async def test_output_arrives_while_its_program_still_runs(harness: ShellHarness) -> None:
    async with harness.join() as client:
        await client.type("echo fi''rst; read answer; echo got $answer\r")
        await client.wait_for_line("first")
        for typed in ("o", "on", "one"):
            await client.type(typed[-1])
            # The terminal echoes each key separately, before the line ends.
            await client.wait_for_line(typed)
        await client.type("\r")
        await client.wait_for_line("got one")


@pytest.mark.rules("S002-057")
async def test_one_client_edits_in_vim_and_another_sees_it(harness: ShellHarness, tmp_path: Path) -> None:
    async with harness.join() as client:
        await client.fit(60, 12)
        await client.type("vim -u NONE -n words\r")
        await client.wait_for_text("~")
        await client.type("ihello from vim")
        await client.wait_for_text("hello from vim")
        assert client.screen.alternate
        async with harness.join() as late:
            late.screen.resize(60, 12)
            await late.wait_for_text("hello from vim")
            assert late.screen.alternate
            await late.type(", and goodbye\x1b")
            await client.wait_for_text("and goodbye")
            await client.type(":wq\r")
            await client.until(lambda: not client.screen.alternate)
            await late.until(lambda: not late.screen.alternate)
    assert (tmp_path / "words").read_text() == "hello from vim, and goodbye\n"


# --- users and scopes


async def test_each_user_has_separate_shells_and_may_have_several(harness: ShellHarness) -> None:
    ann, bob = await harness.token_of("ann"), await harness.token_of("bob")
    async with (
        harness.join(token=ann) as first,
        harness.join(token=bob) as other,
        harness.join("?name=build", token=ann) as second,
    ):
        for client in (first, other, second):
            await client.wait_for_text("$")
        names = {"user/ann/default", "user/bob/default", "user/ann/build"}
        assert set(harness.terminals.names()) == names
        await first.type("echo secret\r")
        await first.wait_for_line("secret")
        for client in (other, second):
            await client.settled()
            assert "secret" not in client.text
    async with harness.join("?name=../ann/default", token=bob) as thief:
        await thief.until(lambda: thief.errors)
        assert "letters, digits" in thief.errors[0]


async def test_the_scope_terminal_is_needed(harness: ShellHarness) -> None:
    chatting = await harness.served.token("view", "chat", "approve")
    for token, status in ((chatting, 403), ("fl_wrong", 401)):
        with pytest.raises(InvalidStatus) as refused:
            async with harness.join(token=token):
                pass
        assert refused.value.response.status_code == status
    assert harness.terminals.names() == ()


async def test_a_read_only_viewer_changes_nothing(harness: ShellHarness) -> None:
    async with harness.join("?readonly=1") as early:
        await early.until(lambda: early.errors)
        assert early.errors == ["Failed to start terminal: There is no terminal default.\r\n"]
        assert harness.terminals.names() == ()
    async with harness.join() as writer, harness.join("?readonly=1&size=1") as viewer:
        await viewer.wait_for_text("$")
        await viewer.type("echo from the viewer\r")
        await viewer.say(type="resize", cols=10, rows=3)
        await viewer.settled()
        await writer.type("echo from the writer; stty size\r")
        await viewer.wait_for_line("24 80")
        assert "the viewer" not in viewer.text
        await writer.fit(70, 20)
        await viewer.until(lambda: viewer.size == (70, 20))


async def test_the_environment_holds_no_secret_and_the_folder_is_the_root(
    harness: ShellHarness, tmp_path: Path
) -> None:
    (tmp_path / "inner").mkdir()
    async with harness.join() as client:
        await client.type("env > found; pwd >> found; echo wr''itten\r")
        await client.wait_for_line("written")
    found = (tmp_path / "found").read_text().splitlines()
    assert found[-1] == str(tmp_path)
    names = {line.partition("=")[0] for line in found[:-1]}
    assert {"TERM=xterm-256color", "COLORTERM=truecolor", f"HOME={tmp_path}"} <= set(found)
    assert names <= {"HOME", "PATH", "LC_ALL", "TERM", "COLORTERM", "PS1", "PWD", "OLDPWD", "_", "SHLVL"}
    async with harness.join(f"?name=in&cwd={tmp_path}/inner") as inner:
        await inner.type("pwd > here; echo wr''itten\r")
        await inner.wait_for_line("written")
    assert (tmp_path / "inner" / "here").read_text() == f"{tmp_path}/inner\n"
    async with harness.join("?name=out&cwd=/etc") as outside:
        await outside.until(lambda: outside.errors)
        assert outside.errors[0].startswith("Failed to start terminal: ") and "/etc" in outside.errors[0]


# --- exits, failed starts and limits


async def test_the_exit_is_reported_and_the_next_client_gets_a_new_shell(harness: ShellHarness) -> None:
    async with harness.join() as client, harness.join() as other:
        await other.wait_for_text("$")
        pid = harness.shell().pid
        await client.type("exit 3\r")
        assert await client.closed() == await other.closed() == 1000
        assert client.frames[-1] == other.frames[-1] == {"type": "exit", "code": 3}
    async with harness.join() as again:
        await again.wait_for_text("$")
        assert CLEAN not in again.text and harness.shell().pid != pid
        await again.type("kill -KILL $$\r")
        assert await again.closed() == 1000
        assert again.exit_code == 137


@pytest.mark.rules("S002-070", "S002-071", "S002-072", "S002-073")
async def test_a_missing_shell_program_is_reported_with_the_reason(tmp_path: Path) -> None:
    async with open_shell(tmp_path, program="/nowhere/bash") as harness, harness.join() as client:
        await client.type("echo lost\r")
        message = "Failed to start terminal: spawn /nowhere/bash ENOENT\r\n"
        assert await client.next_frame() == {"type": "error", "data": message}
        await client.settled()
        await client.type("echo lost\r")
        await client.settled()
        assert [frame["type"] for frame in client.frames] == ["error", "pong", "pong"]


@pytest.mark.rules("S002-071", "S002-073")
async def test_a_lack_of_ptys_does_not_end_running_shells(
    harness: ShellHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with harness.join() as client:
        await client.wait_for_text("$")
        with monkeypatch.context() as broken:
            broken.setattr(pty, "openpty", none_left)
            async with harness.join("?name=second") as second:
                await second.until(lambda: second.errors)
                assert second.errors == ["Failed to start terminal: spawn /bin/sh ENOSPC\r\n"]
        await client.type("echo on $((40 + 2))\r")
        await client.wait_for_line("on 42")
        async with harness.join("?name=second") as again:
            await again.wait_for_text("$")


async def test_the_number_of_terminals_is_limited(tmp_path: Path) -> None:
    async with open_shell(tmp_path, most=1) as harness, harness.join() as one, harness.join("?name=two") as two:
        await one.wait_for_text("$")
        await two.until(lambda: two.errors)
        assert "1 terminals are open" in two.errors[0]


async def test_a_frame_of_ten_megabytes_closes_only_its_socket(harness: ShellHarness) -> None:
    async with harness.join() as client, harness.join() as other:
        await other.wait_for_text("$")
        pieces = ('{"type":"input","data":"', *["x" * (1 << 20)] * 10, '"}')
        with contextlib.suppress(ConnectionClosed):
            await client.socket.send(pieces)
        assert await client.closed() == 1009
        await other.type("echo on $((40 + 2))\r")
        await other.wait_for_line("on 42")


async def test_ten_megabytes_of_keys_all_arrive(harness: ShellHarness) -> None:
    async with harness.join() as client:
        await client.type("stty raw -echo; echo re''ady; head -c 10485760 | wc -c; stty sane\r")
        await client.wait_for_text("ready")
        for _ in range(20):
            await client.type("k" * (MESSAGE_LIMIT // 2))
        await client.until(lambda: "10485760" in client.text.partition("ready")[2])


@pytest.mark.rules("S002-081")
async def test_an_idle_shell_is_stopped_after_a_warning(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_shell(tmp_path, clock) as harness, harness.join() as client:
        await client.wait_for_text("$")
        shell = harness.shell()
        await clock.advance(29 * 60)
        await client.until(lambda: WARNING.format(60) in client.text)
        await client.type("echo here $((1 + 1))\r")
        # Wait for the prompt too: output printed later would restart the idle timeout.
        await client.until(lambda: client.text.endswith("here 2\r\n$ "))
        await clock.advance(61)
        assert shell.running
        await clock.advance(27 * 60)
        assert client.text.count(WARNING.format(60)) == 1 and shell.running
        await clock.advance(60)
        await client.until(lambda: client.text.count(WARNING.format(60)) == 2)
        await clock.advance(60)
        assert await client.closed() == 1000
        assert client.ended and not is_alive(shell.pid, shell.started)


@pytest.mark.rules("S002-081")
async def test_an_abandoned_shell_is_stopped_too(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_shell(tmp_path, clock) as harness:
        async with harness.join() as client:
            await client.wait_for_text("$")
        await until(lambda: not harness.shell().watched)
        await clock.advance(30 * 60)
        async with asyncio.timeout(PATIENCE):
            await harness.shell().wait()


async def test_keys_typed_during_the_start_are_not_lost(harness: ShellHarness) -> None:
    async with harness.join() as client:
        # More frames than the limit for commands in a second: keys do not count as commands.
        for number in range(200):
            await client.type(f"echo {number} >> typed\r")
        await client.type("echo line $((1 + 1))\r")
        await client.until(lambda: "line 2" in client.text)
    # From a file: on the screen the kernel may insert the echo of keys into a line of output.
    assert [int(line) for line in (harness.root / "typed").read_text().split()] == list(range(200))
