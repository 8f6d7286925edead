"""claudecodeui's terminal: commands, programs by name, and the URLs that they print."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clients.claudecodeui.shell_harness import ShellHarness, open_shell
from fairlead.system.proctable import is_alive
from fairlead.terminals.launcher.programs import Provider
from fairlead.terminals.launcher.service import PROMPT_SECONDS
from fairlead_testing.clock import ManualClock
from server.fakes import until

pytestmark = pytest.mark.process


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ShellHarness]:
    async with open_shell(tmp_path) as harness:
        yield harness


# --- commands


@pytest.mark.rules("S003-101", "S003-102")
async def test_a_command_is_typed_into_the_shell_and_its_exit_is_reported(
    harness: ShellHarness, tmp_path: Path
) -> None:
    async with harness.open_client() as client:
        command = "read name # a comment; 'with a quote'\necho hello $name\nfalse"
        await client.begin(tmp_path, initialCommand=command, provider="claude", isPlainShell=False)
        await client.wait_for_text("read name")
        # Keys typed now are input of the command, not a part of the typed command.
        await client.type("you\r")
        await client.until(lambda: "hello you\r\n" in client.text)
        await client.until(lambda: client.exit_codes)
        assert client.exit_codes == [1]
        assert harness.terminals.names() == ()


@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/dash"])
async def test_background_and_unfinished_commands_are_left_to_the_shell(tmp_path: Path, shell: str) -> None:
    async with open_shell(tmp_path, program=shell) as harness, harness.open_client() as client:
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
async def test_a_login_or_a_forced_restart_starts_a_new_program(
    harness: ShellHarness, tmp_path: Path, command: str
) -> None:
    fields: dict[str, Any] = {"initialCommand": f"{command}; cat"} if command else {}
    async with harness.open_client() as watching, harness.open_client() as client:
        await watching.begin(tmp_path, **fields)
        await watching.type("the old one\r")
        await watching.wait_for_text("the old one")
        old = harness.program()
        await client.begin(tmp_path, **fields, forceRestart=not command)
        await client.until(lambda: client.outputs)
        await watching.until(lambda: watching.exit_codes)
        assert not is_alive(old.pid, old.started) and harness.program() is not old
        await client.type("the new one\r")
        await client.wait_for_text("the new one")
        assert "the old one" not in client.text and not client.reconnects


@pytest.mark.rules("S003-076", "S003-101")
async def test_other_commands_are_attached_again(harness: ShellHarness, tmp_path: Path) -> None:
    command = "echo lo''gin; cat"
    async with harness.open_client() as first, harness.open_client() as second:
        await first.begin(tmp_path, initialCommand=command)
        await first.until(lambda: "login\r\n" in first.text)
        await second.begin(tmp_path, initialCommand=command)
        await second.until(lambda: second.reconnects)
        await second.type("go on\r")
        # Once from the echo of the typed command, once from the program.
        await first.until(lambda: first.text.count("go on") == 2)
        assert first.text.count(command) == 1, "what runs is not typed again"


async def test_a_command_is_typed_although_its_client_has_left(harness: ShellHarness, tmp_path: Path) -> None:
    async with harness.open_client() as client:
        await client.begin(tmp_path, initialCommand="touch made; cat")
        await until(lambda: bool(harness.terminals.names()))
        await client.begin(tmp_path)
        await client.wait_for_text("$")
    await until((tmp_path / "made").exists)


async def test_a_program_without_a_prompt_still_gets_its_command(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_shell(tmp_path, clock, program="/bin/cat") as harness, harness.open_client() as client:
        await client.begin(tmp_path, initialCommand="hello")
        # One timer watches the program, the other waits for its prompt.
        await until(lambda: clock.waiting == 2)
        await clock.advance(PROMPT_SECONDS)
        await client.wait_for_line("hello")


# --- programs by name


FAILS = "echo resumed $1; sleep 0.1; exit 7"


@pytest.mark.rules("S003-099", "S003-100")
async def test_a_configured_program_resumes_or_else_starts_fresh(tmp_path: Path) -> None:
    """The gateway implements the fallback, not a shell."""
    clock = ManualClock()
    works = Provider(
        command=("/bin/sh", "-c", "echo new; cat"), resume=("/bin/sh", "-c", "echo old $1; cat", "x", "{session}")
    )
    fails = Provider(command=("/bin/sh", "-c", "echo new; cat"), resume=("/bin/sh", "-c", FAILS, "x", "{session}"))
    late = Provider(command=("/bin/sh", "-c", "echo new; cat"), resume=("/bin/sh", "-c", "read x; exit 7"))
    providers = {"works": works, "fails": fails, "late": late}
    async with open_shell(tmp_path, clock, providers=providers) as harness, harness.open_client() as client:

        async def want(provider: str, **more: Any) -> None:
            await client.begin(tmp_path, provider=provider, isPlainShell=False, **more)

        await want("works", sessionId="s:1", hasSession=True)
        await client.wait_for_line("old s:1")
        assert "\x1b[36mResuming works session s:1 in:" in client.text
        await want("works", sessionId="s:2", hasSession=False)
        await client.wait_for_line("new")
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
async def test_urls_are_announced_once_and_again_to_a_returning_client(harness: ShellHarness, tmp_path: Path) -> None:
    """Fault 16: also a URL at the end of the output, a wrapped URL, and a URL that should be opened; never joined with
    the text that follows."""
    url = "https://example.com/login?x=1"
    wrapped = "https://example.com/" + "0123456789" * 9
    async with harness.open_client() as client:
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
    async with harness.open_client() as back:
        await back.begin(tmp_path)
        await back.until(lambda: len(back.urls) == 4)
        # The URL was opened when it was printed, and is not opened again.
        assert back.urls == [(url, False), (f"{url}a", False), (wrapped, False), ("https://example.com/other", False)]
    async with harness.open_client() as narrow:
        narrow.screen.resize(60, 20)
        await narrow.begin(tmp_path)
        # Redrawn, with the edge of the screen in the middle of a URL.
        await narrow.until(lambda: len(narrow.urls) == 4)
        assert narrow.urls == back.urls
