"""Fairlead's sessions on claudecodeui's terminal: handed over to it and back, never with a second writer."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clients.claudecodeui.shell_harness import ShellClient, ShellHarness, open_shell
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.errors import AgentMissing, AgentNotRunning, BadRequest, Busy, NotAllowed
from fairlead.system.clock import SystemClock
from fairlead.terminals.api import session_terminal
from fairlead.terminals.launcher.service import LINKS, ProgramLauncher
from fairlead.terminals.shells import ShellSettings, UserShells
from server.fakes import OTHER, SESSION, until

pytestmark = pytest.mark.process


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ShellHarness]:
    async with open_shell(tmp_path) as harness:
        yield harness


async def claude(client: ShellClient, folder: Path, session: str | None = SESSION, **more: Any) -> None:
    fields = {"sessionId": session, "hasSession": session is not None, "provider": "claude", "isPlainShell": False}
    await client.begin(folder, **(fields | more))


@pytest.mark.rules("S003-098", "S003-106")
async def test_a_session_is_handed_over_to_the_terminal_and_back(harness: ShellHarness, tmp_path: Path) -> None:
    async with harness.open_client() as client:
        await claude(client, tmp_path)
        await client.wait_for_text(f"agent of {SESSION}")
        assert client.outputs[0] == f"\x1b[36mResuming Claude session {SESSION} in: /home/somebody\x1b[0m\r\n"
        (asked,) = harness.gateway.commands_of(cmd.StartHandover)
        # The handover waits for the end of a turn.
        assert (asked.link, asked.when, asked.wait) == ("terminal", "turn_end", False)
        await client.type("hello\r")
        await client.wait_for_text("agent got hello")
        await client.type("\x04")
        await client.until(lambda: client.exit_codes)
        assert client.exit_codes == [0]
    await until(lambda: harness.gateway.links[SESSION] == "stdio")
    await until(lambda: harness.gateway.documents.spaces == {LINKS: {}})


async def test_a_session_whose_terminal_ended_with_its_gateway_is_handed_back_too(
    harness: ShellHarness, tmp_path: Path
) -> None:
    async with harness.open_client() as client:
        await claude(client, tmp_path)
        await client.wait_for_text("agent of")
    documents = harness.gateway.documents
    assert await documents.list(LINKS) == {SESSION: "stdio"}
    # The next gateway on the same data has none of these terminals.
    await documents.put(LINKS, OTHER, "dial-in")
    await documents.put(LINKS, "a session that was deleted", "stdio")
    harness.gateway.links[OTHER] = "terminal"
    await harness.terminals.close()
    clock = SystemClock()
    shells = UserShells(harness.terminals, clock, ShellSettings(program="/bin/sh", env={}), lambda path: path)
    launcher = ProgramLauncher(harness.terminals, shells, harness.gateway, documents, clock, lambda path: path)
    await launcher.start()
    await until(lambda: documents.spaces == {LINKS: {}})
    assert (harness.gateway.links[SESSION], harness.gateway.links[OTHER]) == ("stdio", "dial-in")
    await launcher.close()
    await shells.close()


async def test_a_sessions_terminal_is_attached_again_and_shared(harness: ShellHarness, tmp_path: Path) -> None:
    async with harness.open_client() as second:
        async with harness.open_client() as first:
            await claude(first, tmp_path)
            await first.wait_for_text("agent of")
            await claude(second, tmp_path)
            await second.until(lambda: second.reconnects)
            await second.type("from the second\r")
            await first.wait_for_text("agent got from the second")
        await second.type("more\r")
        await second.wait_for_text("agent got more")
    async with harness.open_client() as third:
        await claude(third, tmp_path)
        await third.until(lambda: third.reconnects)
        await third.wait_for_text("agent got more")
        assert len(harness.gateway.commands_of(cmd.StartHandover)) == 1


async def test_a_session_that_is_already_on_a_terminal_stays_there(harness: ShellHarness, tmp_path: Path) -> None:
    """Another client put it there: the new client joins it, and it stays there."""
    await harness.gateway.command(_who(), cmd.StartHandover(session=SESSION, link="terminal"))
    terminal = harness.program()
    async with harness.open_client() as client:
        await claude(client, tmp_path)
        await client.until(lambda: client.reconnects)
        await client.wait_for_text("agent of")
        assert harness.program() is terminal
        await client.type("\x04")
        await client.until(lambda: client.exit_codes)
    await client.socket.wait_closed()
    assert harness.gateway.commands_of(cmd.Configure) == []


async def test_a_handover_during_a_turn_is_refused(harness: ShellHarness, tmp_path: Path) -> None:
    message = "It cannot be handed over now, there is a running turn."
    harness.gateway.errors[cmd.StartHandover] = Busy(message)
    async with harness.open_client() as client:
        await claude(client, tmp_path)
        await client.until(lambda: client.errors)
        await client.settled()
        assert client.errors == [message] and f"\r\n\x1b[31mError: {message}\x1b[0m\r\n" in client.outputs
        assert harness.terminals.names() == () and harness.gateway.commands_of(cmd.Create) == []
        del harness.gateway.errors[cmd.StartHandover]
        await claude(client, tmp_path)
        await client.wait_for_text("agent of")


@pytest.mark.parametrize(
    "error", [NotAllowed("This needs the scope chat."), BadRequest("The agent demo has no terminals.")]
)
async def test_a_refused_handover_does_not_create_another_session(
    harness: ShellHarness, tmp_path: Path, error: Exception
) -> None:
    harness.gateway.errors[cmd.StartHandover] = error
    async with harness.open_client() as client:
        await claude(client, tmp_path)
        await client.until(lambda: client.errors)
        assert client.errors == [str(error)] and harness.gateway.commands_of(cmd.Create) == []


@pytest.mark.rules("S003-106")
@pytest.mark.parametrize("session", ["33333333-3333-4333-8333-333333333333", "no-uuid", "a:b"])
async def test_an_unknown_session_becomes_a_new_one(harness: ShellHarness, tmp_path: Path, session: str) -> None:
    async with harness.open_client() as client:
        await claude(client, tmp_path, session)
        await client.wait_for_text("agent of")
        assert f"could not be resumed: There is no session {session}" in client.text
        assert "\x1b[36mStarting new Claude session in:" in client.text
        (made,) = harness.gateway.commands_of(cmd.Create)
        assert (made.cwd, made.agent, made.resume) == (str(tmp_path), "claude", "")
        async with harness.open_client() as again:
            await claude(again, tmp_path, session)
            await again.until(lambda: again.reconnects)


@pytest.mark.rules("S003-106")
async def test_a_resume_that_fails_on_the_terminal_becomes_a_new_session(harness: ShellHarness, tmp_path: Path) -> None:
    harness.gateway.failing[SESSION] = AgentNotRunning("No conversation found with that id.")
    harness.gateway.script = (
        f'[ "$1" = {SESSION} ] && {{ echo no such conversation; exit 1; }}; echo "a new one: $1"; cat'
    )
    async with harness.open_client() as client:
        await claude(client, tmp_path)
        await client.wait_for_text("a new one:")
        # The exit of the first program is not reported as the exit of the requested one.
        assert client.exit_codes == [] and "could not be resumed: No conversation found" in client.text
        (made,) = harness.gateway.commands_of(cmd.Create)
        assert harness.program().name == session_terminal(made.session)


@pytest.mark.rules("S003-100")
async def test_without_a_session_id_a_new_session_starts(harness: ShellHarness, tmp_path: Path) -> None:
    async with harness.open_client() as client, harness.open_client() as other:
        await claude(client, tmp_path, None)
        await client.wait_for_text("agent of")
        (made,) = harness.gateway.commands_of(cmd.Create)
        await claude(other, tmp_path, SESSION, hasSession=False)
        await other.wait_for_text("agent of")
        assert harness.gateway.commands_of(cmd.StartHandover)[0].session == made.session
        assert SESSION not in [one.session for one in harness.gateway.commands_of(cmd.StartHandover)]
        assert len(harness.gateway.commands_of(cmd.Create)) == 2
        # A shell in the same folder is not a session.
        await other.begin(tmp_path)
        await other.type("echo a shell $((1 + 1))\r")
        await other.wait_for_line("a shell 2")


async def test_a_new_session_that_cannot_start_is_deleted(harness: ShellHarness, tmp_path: Path) -> None:
    harness.gateway.errors[cmd.StartHandover] = AgentMissing("Claude Code is not installed.")
    async with harness.open_client() as client:
        await claude(client, tmp_path, None)
        await client.until(lambda: client.errors)
        assert client.errors == ["Claude Code is not installed."]
        (made,), (gone,) = harness.gateway.commands_of(cmd.Create), harness.gateway.commands_of(cmd.Delete)
        assert made.session == gone.session


async def test_a_forced_restart_ends_the_process_through_the_core(harness: ShellHarness, tmp_path: Path) -> None:
    async with harness.open_client() as client:
        await claude(client, tmp_path)
        await client.wait_for_text("agent of")
        old = harness.program()
        await claude(client, tmp_path, forceRestart=True)
        await client.until(lambda: client.text.count("Resuming Claude session") == 2)
        await until(lambda: not old.running)
        await client.wait_for_text("agent of")
        assert harness.program() is not old
        assert [one.session for one in harness.gateway.commands_of(cmd.Close)] == [SESSION]
        await client.type("\x04")
        await client.until(lambda: client.exit_codes)
    await until(lambda: harness.gateway.documents.spaces == {LINKS: {}})
    assert harness.gateway.links[SESSION] == "stdio"


async def test_leaving_during_a_handover_does_not_stop_it(harness: ShellHarness, tmp_path: Path) -> None:
    harness.gateway.hold.add(cmd.StartHandover)
    async with harness.open_client() as client:
        await claude(client, tmp_path)
        await until(lambda: bool(harness.gateway.commands_of(cmd.StartHandover)))
        await client.begin(tmp_path)
        await client.type("echo a shell $((1 + 1))\r")
        await client.wait_for_line("a shell 2")
        harness.gateway.release.set()
        await until(lambda: harness.terminals.find(session_terminal(SESSION)) is not None)
        await claude(client, tmp_path)
        await client.until(lambda: client.reconnects)
        terminal = harness.terminals.find(session_terminal(SESSION))
        assert terminal is not None
        await client.type("\x04")
        await client.until(lambda: client.exit_codes)
    # The session is handed back although no client waited for it.
    await until(lambda: harness.gateway.links[SESSION] == "stdio")


async def test_the_path_is_checked_for_sessions_too(harness: ShellHarness) -> None:
    async with harness.open_client() as client:
        await claude(client, Path("/etc"))
        await client.until(lambda: client.errors)
        assert client.errors == ["Invalid project path"]
        assert harness.gateway.commands == [] and harness.gateway.queries == []


async def test_a_session_that_cannot_be_handed_back_is_only_logged(harness: ShellHarness, tmp_path: Path) -> None:
    async with harness.open_client() as client:
        await claude(client, tmp_path)
        await client.wait_for_text("agent of")
        harness.gateway.errors[q.GetSession] = NotAllowed("No.")
        await client.type("\x04")
        await client.until(lambda: client.exit_codes)
        await asyncio.sleep(0)
        assert harness.gateway.commands_of(cmd.Configure) == []


def _who() -> Any:
    return None
