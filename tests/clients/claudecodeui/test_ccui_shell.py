"""claudecodeui's terminal with real shells: what is wanted, what is typed and seen, who shares it, how it ends."""

import asyncio
import contextlib
import os
import pty
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from clients.claudecodeui.desking import SECRETS, DeskHouse, open_desk_house
from fairlead.clients.claudecodeui.shell import MESSAGE_LIMIT
from fairlead.model.terminals import Size
from fairlead.system.proctable import is_alive
from fairlead.terminals import Provider
from fairlead.terminals.shells import left_warning
from fairlead.testing.claudecodeui_shell_client import RECONNECTED
from fairlead.testing.clock import ManualClock
from server.fakes import until
from terminals.on_socket import CLEAN, PATIENCE


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[DeskHouse]:
    async with open_desk_house(tmp_path) as house:
        yield house


def folders(root: Path, *names: str) -> list[Path]:
    made = [root / name for name in names]
    for folder in made:
        folder.mkdir()
    return made


def _any(found: list[Any]) -> Callable[[], bool]:
    return lambda: bool(found)


# --- the beginning


@pytest.mark.rules("S003-002", "S003-020", "S003-079", "S003-080", "S003-086", "S003-089", "S003-097")
async def test_an_init_starts_a_shell_in_the_folder(house: DeskHouse, tmp_path: Path) -> None:
    (inner,) = folders(tmp_path, "inner")
    async with house.sit() as client:
        await client.begin(inner)
        await client.type("tty; pwd; stty size\r")
        await client.said(str(inner))
        await client.said("24 80")
        await client.seen("/dev/pts/")
        assert client.outputs[0] == f"\x1b[36mStarting terminal in: {inner}\x1b[0m\r\n"
        assert {frame["type"] for frame in client.frames} == {"output"}
        assert CLEAN not in client.text and not client.reconnects


@pytest.mark.rules("S003-075")
async def test_nothing_happens_before_an_init(house: DeskHouse, tmp_path: Path) -> None:
    async with house.sit() as client:
        await client.type("touch made\r")
        await client.fit(100, 30)
        await client.say(type="paste", data="x")
        await client.settled()
        assert [frame["type"] for frame in client.frames] == ["output"]
        assert house.terminals.names() == ()
        await client.begin(tmp_path)
        await client.type("echo on $((40 + 2))\r")
        await client.said("on 42")
        assert not (tmp_path / "made").exists()


@pytest.mark.rules("S003-081")
@pytest.mark.parametrize("frame", ["what?", b"\xff\xfe", "[1]", "7", "", '"init"', "{}", '{"type":7}', "[" * 100_000])
async def test_what_is_no_frame_is_told_in_red(house: DeskHouse, tmp_path: Path, frame: str | bytes) -> None:
    async with house.sit() as client:
        await client.socket.send(frame)
        told = await client.hear()
        assert told == {"type": "output", "data": "\r\n\x1b[31mError: Invalid websocket payload\x1b[0m\r\n"}
        await client.begin(tmp_path)
        await client.type("echo on $((40 + 2))\r")
        await client.said("on 42")


@pytest.mark.rules("S003-082", "S003-083", "S003-084", "S003-085", "S003-138")
async def test_an_error_is_told_twice_and_the_next_init_works(house: DeskHouse, tmp_path: Path) -> None:
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
    async with house.sit() as client:
        for fields, told in bad:
            await client.begin(tmp_path, **fields)
            assert await client.hear() == {"type": "error", "message": told}
            assert await client.hear() == {"type": "output", "data": f"\r\n\x1b[31mError: {told}\x1b[0m\r\n"}
        assert house.terminals.names() == ()
        await client.begin(tmp_path)
        await client.type("echo on $((40 + 2))\r")
        await client.said("on 42")


@pytest.mark.rules("S003-138")
async def test_a_program_that_cannot_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> Any:
        raise OSError(28, os.strerror(28))

    async with open_desk_house(tmp_path, program="/nowhere/bash") as house, house.sit() as client:
        await client.begin(tmp_path)
        await client.type("echo lost\r")
        await client.until(lambda: client.errors)
        await client.settled()
        assert client.errors == ["/nowhere/bash cannot be started in a terminal: No such file or directory."]
        assert f"\r\n\x1b[31mError: {client.errors[0]}\x1b[0m\r\n" in client.outputs
    async with open_desk_house(tmp_path) as house, house.sit() as client:
        with monkeypatch.context() as broken:
            broken.setattr(pty, "openpty", none_left)
            await client.begin(tmp_path)
            await client.until(lambda: client.errors)
        await client.begin(tmp_path)
        await client.type("echo on $((40 + 2))\r")
        await client.said("on 42")


async def test_without_a_path_it_is_the_first_root(house: DeskHouse, tmp_path: Path) -> None:
    async with house.sit() as client:
        await client.say(type="init", isPlainShell=True)
        await client.type("pwd\r")
        await client.said(str(tmp_path))


# --- who finds what


@pytest.mark.rules("S003-071", "S003-073", "S003-076", "S003-077", "S003-078", "S003-088", "S003-092")
async def test_who_comes_back_finds_it_all_as_it_was_left(house: DeskHouse, tmp_path: Path) -> None:
    (tmp_path / "gate").touch()
    async with house.sit() as client:
        await client.begin(tmp_path)
        await client.type("kept=here; echo before; (while [ -e gate ]; do sleep 0.02; done; echo aft''er) &\r")
        await client.said("before")
        shell = house.program()
    await until(lambda: not shell.watched)
    (tmp_path / "gate").unlink()
    await until(lambda: any("after" in line for line in shell.screen.lines))
    async with house.sit() as back:
        await back.begin(f"{tmp_path}/.")
        await back.hear()
        replay = (await back.hear())["data"]
        assert back.outputs[0] == RECONNECTED
        # All of it in one piece, as it was printed: the size is the same.
        assert CLEAN not in replay and "before\r\n" in replay and "after\r\n" in replay
        await back.type("echo $kept is kept\r")
        await back.said("here is kept")
        assert house.program() is shell
    await until(lambda: not shell.watched)
    async with house.sit() as narrow:
        narrow.screen.resize(60, 20)
        await narrow.begin(tmp_path)
        await narrow.hear()
        # Drawn, for a screen of another size.
        assert (await narrow.hear())["data"].startswith(CLEAN)
        await narrow.type("echo still $kept\r")
        await narrow.said("still here")


@pytest.mark.rules("S003-072", "S003-074")
async def test_folder_session_command_and_user_make_the_key(house: DeskHouse, tmp_path: Path) -> None:
    """Fault 17: commands with the same beginning are two commands."""
    (inner,) = folders(tmp_path, "inner")
    long = "read answer; : 0123456789"
    wishes: list[tuple[Path, dict[str, Any]]] = [
        (tmp_path, {}),
        (inner, {}),
        (tmp_path, {"sessionId": "one"}),
        (tmp_path, {"sessionId": "two"}),
        (tmp_path, {"initialCommand": f"{long} first"}),
        (tmp_path, {"initialCommand": f"{long} second"}),
        # Joined by underscores these would be the same as others.
        (tmp_path, {"sessionId": "default"}),
    ]
    async with contextlib.AsyncExitStack() as stack:
        for number, (folder, fields) in enumerate(wishes, start=1):
            client = await stack.enter_async_context(house.sit())
            await client.begin(folder, **fields)
            await client.until(_any(client.outputs))
            assert len(house.terminals.names()) == number, fields
            assert not client.reconnects
        again = await stack.enter_async_context(house.sit())
        await again.begin(tmp_path, initialCommand=f"{long} second")
        await again.until(lambda: again.reconnects)
        other = await stack.enter_async_context(house.sit(token=await house.token_of("ann")))
        await other.begin(tmp_path)
        await other.until(lambda: other.outputs)
        assert not other.reconnects and len(house.terminals.names()) == len(wishes) + 1


@pytest.mark.rules("S003-077")
async def test_all_viewers_see_and_a_stale_close_detaches_nobody(house: DeskHouse, tmp_path: Path) -> None:
    """Fault 4, for terminals: a second browser silences none."""
    async with house.sit() as second:
        async with house.sit() as first:
            await first.begin(tmp_path)
            await first.seen("$")
            await second.begin(tmp_path)
            await second.until(lambda: second.reconnects)
            await second.type("echo from the second\r")
            await first.said("from the second")
            await first.type("echo from the first\r")
            await second.said("from the first")
            await first.said("from the first")
            shown = ["$ echo from the second", "from the second", "$ echo from the first", "from the first"]
            for viewer in (first, second):
                assert [line for line in viewer.screen.lines() if "from" in line] == shown
        await second.type("echo still $((1 + 1))\r")
        await second.said("still 2")
        assert house.program().watched


async def test_many_that_come_at_once_start_one_shell(house: DeskHouse, tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(house.sit()) for _ in range(8)]
        await asyncio.gather(*(client.begin(tmp_path) for client in clients))
        await clients[0].type("echo $((6 * 7))\r")
        for client in clients:
            await client.said("42")
        assert len(house.terminals.names()) == 1
        assert sum(client.reconnects for client in clients) == 7


@pytest.mark.rules("S003-087")
async def test_sizes(house: DeskHouse, tmp_path: Path) -> None:
    """Fault 17: the size in an init that reconnects counts."""
    async with house.sit() as client:
        await client.begin(tmp_path, cols=90, rows=20)
        await client.type("stty size\r")
        await client.seen("20 90")
        await client.fit(100, 30)
        await client.type("stty size\r")
        await client.seen("30 100")
        await client.say(type="resize", cols="wide")
        await until(lambda: house.program().screen.size == Size(80, 24))
        for cols, rows in ((0, -1), (10**9, 10**9)):
            await client.say(type="resize", cols=cols, rows=rows)
    await until(lambda: not house.program().watched)
    async with house.sit() as back:
        back.screen.resize(70, 15)
        await back.begin(tmp_path)
        await back.type("stty size\r")
        await back.seen("15 70")
        async with house.sit() as small:
            small.screen.resize(60, 10)
            await small.begin(tmp_path)
            await small.until(lambda: small.reconnects)
            await until(lambda: house.program().screen.size == Size(60, 10))
        await until(lambda: house.program().screen.size == Size(70, 15))


# --- two inits on one socket


@pytest.mark.rules("S003-091")
async def test_two_inits_on_one_socket_do_not_mix(house: DeskHouse, tmp_path: Path) -> None:
    """Fault 15: the end of the first takes nothing from the second, and neither is left without an owner."""
    first, second = folders(tmp_path, "first", "second")
    async with house.sit() as client:
        await client.begin(first)
        await client.type("while [ ! -e go ]; do sleep 0.02; done; exit 3\r")
        await client.seen("sleep")
        one = house.program()
        await client.begin(second)
        await client.type("pwd\r")
        await client.said(str(second))
        (first / "go").touch()
        await until(lambda: not one.running)
        await client.type("echo on $((40 + 2))\r")
        await client.said("on 42")
        assert client.exit_codes == []
        await client.begin(first)
        await client.type("echo new $((1 + 1))\r")
        await client.said("new 2")
        assert len(house.programs()) == 2
        await client.begin(second)
        await client.until(lambda: client.reconnects)
        await client.type("exit 4\r")
        await client.until(lambda: client.exit_codes)
        assert client.exit_codes == [4]


async def test_keys_go_to_the_program_that_was_wanted_last(house: DeskHouse, tmp_path: Path) -> None:
    first, second = folders(tmp_path, "first", "second")
    async with house.sit() as client:
        await client.begin(first)
        await client.type("touch lost\r")
        await client.begin(second)
        await client.fit(66, 11)
        await client.type("stty size; basename $(pwd)\r")
        await client.said("second")
        await client.seen("11 66")
        assert not (first / "lost").exists()


# --- commands


@pytest.mark.rules("S003-101", "S003-102")
async def test_a_command_is_typed_into_the_shell_and_its_end_is_told(house: DeskHouse, tmp_path: Path) -> None:
    async with house.sit() as client:
        command = "read name # a comment; 'with a quote'\necho hello $name\nfalse"
        await client.begin(tmp_path, initialCommand=command, provider="claude", isPlainShell=False)
        await client.seen("read name")
        # What is typed now is for the command, and no word of ours.
        await client.type("you\r")
        await client.until(lambda: "hello you\r\n" in client.text)
        await client.until(lambda: client.exit_codes)
        assert client.exit_codes == [1]
        assert house.terminals.names() == ()


@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/dash"])
async def test_a_command_in_the_background_or_unfinished_is_the_shells_affair(tmp_path: Path, shell: str) -> None:
    async with open_desk_house(tmp_path, program=shell) as house, house.sit() as client:
        await client.begin(tmp_path, initialCommand="while [ ! -e go ]; do sleep 0.02; done &")
        await client.until(lambda: client.exit_codes)
        assert client.exit_codes == [0]
        await client.begin(tmp_path, initialCommand="echo 'no end")
        await client.until(lambda: client.text.count("no end"))
        assert len(client.exit_codes) == 1
        await client.type("here'\r}; exit 5\r")
        await client.until(lambda: len(client.exit_codes) == 2)
        assert client.exit_codes == [0, 5]


@pytest.mark.rules("S003-103", "S003-104")
@pytest.mark.parametrize("command", ["true setup-token", "true cursor-agent login", "true auth login --now", ""])
async def test_a_login_or_a_forced_restart_begins_anew(house: DeskHouse, tmp_path: Path, command: str) -> None:
    fields: dict[str, Any] = {"initialCommand": f"{command}; cat"} if command else {}
    async with house.sit() as watching, house.sit() as client:
        await watching.begin(tmp_path, **fields)
        await watching.type("the old one\r")
        await watching.seen("the old one")
        old = house.program()
        await client.begin(tmp_path, **fields, forceRestart=not command)
        await client.until(lambda: client.outputs)
        await watching.until(lambda: watching.exit_codes)
        assert not is_alive(old.pid, old.started) and house.program() is not old
        await client.type("the new one\r")
        await client.seen("the new one")
        assert "the old one" not in client.text and not client.reconnects


@pytest.mark.rules("S003-076")
async def test_other_commands_are_found_again(house: DeskHouse, tmp_path: Path) -> None:
    async with house.sit() as first, house.sit() as second:
        await first.begin(tmp_path, initialCommand="echo login; cat")
        await first.seen("login")
        await second.begin(tmp_path, initialCommand="echo login; cat")
        await second.until(lambda: second.reconnects)


# --- programs by name


FAILS = "echo resumed $1; sleep 0.1; exit 7"


@pytest.mark.rules("S003-099", "S003-100")
async def test_a_configured_program_resumes_and_else_begins_anew(tmp_path: Path) -> None:
    """The fall-back is ours, and no shell's."""
    clock = ManualClock()
    works = Provider(
        command=("/bin/sh", "-c", "echo new; cat"), resume=("/bin/sh", "-c", "echo old $1; cat", "x", "{session}")
    )
    fails = Provider(command=("/bin/sh", "-c", "echo new; cat"), resume=("/bin/sh", "-c", FAILS, "x", "{session}"))
    late = Provider(command=("/bin/sh", "-c", "echo new; cat"), resume=("/bin/sh", "-c", "read x; exit 7"))
    providers = {"works": works, "fails": fails, "late": late}
    async with open_desk_house(tmp_path, clock, providers=providers) as house, house.sit() as client:

        async def want(provider: str, **more: Any) -> None:
            await client.begin(tmp_path, provider=provider, isPlainShell=False, **more)

        await want("works", sessionId="s:1", hasSession=True)
        await client.said("old s:1")
        assert "\x1b[36mResuming works session s:1 in:" in client.text
        await want("works", sessionId="s:2", hasSession=False)
        await client.said("new")
        assert "\x1b[36mStarting new works session in:" in client.text
        await want("fails", sessionId="s:3", hasSession=True)
        await client.until(lambda: "could not be resumed: it ended at once with code 7" in client.text)
        await client.until(lambda: client.outputs[-1].startswith("new"))
        assert "resumed s:3" in client.text and client.exit_codes == []
        await want("works", sessionId="--version", hasSession=True)
        await client.until(lambda: client.errors)
        assert client.errors == ["Invalid session ID"]
        await want("late", sessionId="s:4", hasSession=True)
        await client.until(lambda: "session s:4" in client.text)
        await clock.advance(60)
        await client.type("\r")
        await client.until(lambda: client.exit_codes)
        assert client.exit_codes == [7]


# --- URLs


@pytest.mark.rules("S003-090", "S003-110", "S003-111", "S003-112")
async def test_urls_are_announced_once_and_again_to_who_comes_back(house: DeskHouse, tmp_path: Path) -> None:
    """Fault 16: also the last thing printed, also wrapped, also wanted; never glued to what follows."""
    url = "https://example.com/login?x=1"
    wrapped = "https://example.com/" + "0123456789" * 9
    async with house.sit() as client:
        (tmp_path / "tell").write_text(
            f"echo {url}; echo A_2; echo; echo Open this URL: {url}a; echo; printf {wrapped}; read x; echo {url}\n"
        )
        await client.begin(tmp_path)
        await client.type("sh tell\r")
        await client.until(lambda: len(client.urls) == 3)
        assert client.urls == [(url, False), (f"{url}a", True), (wrapped, False)]
        await client.type("\recho https://example.com/other\r")
        await client.until(lambda: len(client.urls) == 4)
        assert client.urls[3] == ("https://example.com/other", False)
    async with house.sit() as back:
        await back.begin(tmp_path)
        await back.until(lambda: len(back.urls) == 4)
        # It was opened when it was asked for, and is not again.
        assert back.urls == [(url, False), (f"{url}a", False), (wrapped, False), ("https://example.com/other", False)]
    async with house.sit() as narrow:
        narrow.screen.resize(60, 20)
        await narrow.begin(tmp_path)
        # Drawn, with the edge in the middle of one.
        await narrow.until(lambda: len(narrow.urls) == 4)
        assert narrow.urls == back.urls


# --- how it ends


@pytest.mark.rules("S003-091")
async def test_the_end_is_told_and_the_socket_stays(house: DeskHouse, tmp_path: Path) -> None:
    async with house.sit() as client, house.sit() as other:
        await client.begin(tmp_path)
        await client.seen("$")
        await other.begin(tmp_path)
        await other.until(lambda: other.reconnects)
        await client.type("exit 3\r")
        for viewer in (client, other):
            await viewer.until(_any(viewer.exit_codes))
            assert viewer.outputs[-1] == "\r\n\x1b[33mProcess exited with code 3 (0)\x1b[0m\r\n"
        await client.type("echo lost\r")
        await client.begin(tmp_path)
        await client.type("echo new; kill -KILL $$\r")
        await client.until(lambda: len(client.exit_codes) == 2)
        assert client.outputs[-1] == "\r\n\x1b[33mProcess exited with code 137 (9)\x1b[0m\r\n"
        assert not client.reconnects and "lost" not in client.text


@pytest.mark.rules("S003-093", "S003-094", "S003-095", "S003-096")
async def test_one_that_nobody_watches_is_ended_after_half_an_hour(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_desk_house(tmp_path, clock) as house:
        async with house.sit() as client:
            await client.begin(tmp_path)
            await client.type("echo old words\r")
            await client.said("old words")
            # However long somebody is there who does nothing.
            await clock.advance(3 * 60 * 60)
            shell = house.program()
        await until(lambda: not shell.watched)
        await clock.advance(29 * 60)
        assert shell.running and left_warning(60).strip() in shell.screen.lines
        async with house.sit() as back:
            await back.begin(tmp_path)
            await back.seen(left_warning(60).strip())
            await clock.advance(3 * 60 * 60)
            assert house.program() is shell
            await back.type("echo more words; (sleep 1000; echo never) &\r")
            await back.said("more words")
        await until(lambda: not shell.watched)
        await clock.advance(29 * 60 + 59)
        assert shell.running
        await clock.advance(1)
        async with asyncio.timeout(PATIENCE):
            await shell.wait()
        assert not is_alive(shell.pid, shell.started)
        async with house.sit() as new:
            await new.begin(tmp_path)
            await new.seen("$")
            assert "words" not in new.text and not new.reconnects


@pytest.mark.rules("S003-107")
async def test_a_long_replay_is_one_bounded_piece(house: DeskHouse, tmp_path: Path) -> None:
    async with house.sit() as client:
        await client.begin(tmp_path)
        await client.type("i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); echo line $i; done; echo do''ne\r")
        await client.said("done")
    async with house.sit() as back:
        await back.begin(tmp_path)
        await back.hear()
        replay = (await back.hear())["data"]
        assert [int(found) for found in re.findall(r"line (\d+)", replay)] == list(range(1, 5001))
        await back.type("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo do''ne\r")
        await back.said("done")
    async with house.sit() as last:
        await last.begin(tmp_path)
        await last.hear()
        assert len((await last.hear())["data"]) < 512 * 1024


# --- who may


@pytest.mark.rules("S003-016")
async def test_the_scope_terminal_is_needed(house: DeskHouse) -> None:
    chatting = await house.served.token("view", "chat", "approve")
    for token, status in ((chatting, 403), ("fl_wrong", 401)):
        with pytest.raises(InvalidStatus) as refused:
            async with house.sit(token=token):
                pass
        assert refused.value.response.status_code == status
    assert house.terminals.names() == ()


async def test_the_environment_holds_no_secret(house: DeskHouse, tmp_path: Path) -> None:
    """Fault 13: neither keys of the gateway nor folders outside the roots."""
    async with house.sit() as client:
        await client.begin(tmp_path)
        await client.type("env > found; echo wr''itten\r")
        await client.said("written")
    found = (tmp_path / "found").read_text()
    assert "TERM=xterm-256color" in found and "COLORTERM=truecolor" in found
    assert not [word for word in (*SECRETS, "secret") if word in found]


async def test_a_frame_that_is_too_large_ends_that_socket_alone(house: DeskHouse, tmp_path: Path) -> None:
    async with house.sit() as client, house.sit() as other:
        await other.begin(tmp_path)
        await other.seen("$")
        with contextlib.suppress(ConnectionClosed):
            await client.socket.send('{"type":"input","data":"' + "x" * (MESSAGE_LIMIT + 1) + '"}')
        with pytest.raises(ConnectionClosed) as closed:
            await client.hear()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
        await other.type("echo on $((40 + 2))\r")
        await other.said("on 42")


async def test_what_is_typed_while_it_starts_is_kept_in_order(house: DeskHouse, tmp_path: Path) -> None:
    async with house.sit() as client:
        await client.begin(tmp_path)
        for number in range(200):
            await client.type(f"echo line $(({number} + 1))\r")
        await client.until(lambda: "line 200\r\n" in client.text)
        assert [int(found) for found in re.findall(r"line (\d+)\r\n", client.text)] == list(range(1, 201))
