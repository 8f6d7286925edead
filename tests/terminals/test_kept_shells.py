"""People's shells and claudecodeui's programs after a restart of the gateway. The keeper is one in memory."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clients.claudecodeui.shell_harness import ShellGateway
from fairlead.model import commands as cmd
from fairlead.model.agents import Exit
from fairlead.model.auth import Identity
from fairlead.model.errors import NotFound
from fairlead.terminals.api import EndShell, JoinShell, ListShells, ProgramRequest, ShareShell, session_terminal
from fairlead.terminals.launcher.attachment_switch import AttachTarget
from fairlead.terminals.launcher.service import LINKS, PROMPT_SECONDS, ProgramLauncher
from fairlead.terminals.pty_session import PtySession
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.shells import WARNING_SECONDS, ShellSettings, UserShells
from server.fakes import SESSION, until
from terminals.restarts import Gateways, printed, shows_all

ANN = Identity("a", "ann", "Ann", frozenset({"terminal"}))
BOB = Identity("b", "bob", "Bob", frozenset({"terminal"}))
IDLE = 30 * 60.0
AGENTS = frozenset({"claude"})


def codec() -> Any:
    return None


class ShellGateways(Gateways):
    """Each gateway has its shells and its launcher; sessions, their settings and the store survive."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.users |= {"bob"}
        self.root = root
        self.core = ShellGateway(self.terminals, root)
        self._serve()

    def _serve(self) -> None:
        settings = ShellSettings(program="/bin/sh", env={}, idle_s=IDLE)
        self.core.terminals = self.terminals
        self.shells = UserShells(self.terminals, self.clock, settings, lambda path: path or "/")
        documents = self.core.documents
        self.launcher = ProgramLauncher(self.terminals, self.shells, self.core, documents, self.clock, lambda path: "/")

    async def stop(self) -> None:
        await self.launcher.close()
        await self.shells.close()

    async def restart(self, away_s: float = 0) -> TerminalRegistry:
        await self.stop()
        terminals = await super().restart(away_s)
        self._serve()
        if terminals.find(session_terminal(SESSION)) is not None:
            terminals.adopted(session_terminal(SESSION))  # the core continues its session
        await self.shells.begin()
        await self.launcher.start()
        await terminals.end_unadopted()
        return terminals

    async def join(self, who: Identity = ANN, **more: Any) -> PtySession:
        await self.shells.join(who, JoinShell(name="x", codec=codec(), **more))
        found = self.shells.find(f"user/{more.get('owner') or who.user}/x")
        assert found is not None
        return found

    async def enter(self, **wanted: Any) -> AttachTarget:
        return await self.launcher._enter(ANN, ProgramRequest(folder=str(self.root), **wanted), "", AGENTS)


@pytest.fixture
async def gateways(tmp_path: Path) -> AsyncIterator[ShellGateways]:
    made = ShellGateways(tmp_path)
    yield made
    await made.stop()
    await made.terminals.close()


async def test_shell_is_joined_again_after_a_restart(gateways: ShellGateways) -> None:
    first = await gateways.join()
    await printed(first, gateways.program, b"$ make\r\nhalf")
    await gateways.restart(away_s=5)
    gateways.program.print(b" done\r\n")
    again = await gateways.join()
    await shows_all(again, gateways.program)
    assert again.pid == first.pid and len(gateways.keeper.programs) == 1
    assert again.screen.lines[:2] == ("$ make", "half done")
    assert [view.owner for view in await gateways.shells.list(ANN, ListShells())] == ["ann"]


async def test_sharing_survives_a_restart(gateways: ShellGateways) -> None:
    await gateways.join()
    await gateways.shells.share(ANN, ShareShell("x", True))
    await gateways.restart()
    assert [view.shared for view in await gateways.shells.list(BOB, ListShells())] == [True]
    await gateways.join(BOB, owner="ann")
    await gateways.shells.share(ANN, ShareShell("x", False))
    await gateways.restart()
    assert await gateways.shells.list(BOB, ListShells()) == ()
    with pytest.raises(NotFound):
        await gateways.join(BOB, owner="ann")


async def test_next_shell_of_that_name_is_not_shared(gateways: ShellGateways) -> None:
    await gateways.join()
    await gateways.shells.share(ANN, ShareShell("x", True))
    await gateways.shells.end(ANN, EndShell("x"))
    await gateways.join()
    assert await gateways.shells.list(BOB, ListShells()) == ()


async def test_idle_time_goes_on_over_a_restart(gateways: ShellGateways) -> None:
    await gateways.join()
    await gateways.clock.advance(IDLE / 2)
    await gateways.restart(away_s=IDLE / 4)
    await gateways.clock.advance(IDLE / 4 - 1)
    assert gateways.program.exit is None
    await gateways.clock.advance(1)
    await until(lambda: gateways.program.forgotten)


async def test_used_shell_is_not_idle(gateways: ShellGateways) -> None:
    await gateways.join()
    await gateways.clock.advance(IDLE / 2)
    await gateways.restart()
    gateways.program.print(b"still here")
    again = await gateways.join()
    await shows_all(again, gateways.program)
    await gateways.clock.advance(IDLE - 1)
    assert gateways.program.exit is None


async def test_shell_is_not_ended_without_a_warning_after_a_long_absence(gateways: ShellGateways) -> None:
    await gateways.join()
    await gateways.restart(away_s=2 * IDLE)
    await gateways.clock.advance(WARNING_SECONDS - 1)
    again = gateways.shells.find("user/ann/x")
    assert again is not None and any("idle" in line for line in again.screen.lines)
    await again.write(b"x")
    await gateways.clock.advance(IDLE - 1)
    assert gateways.program.exit is None
    await gateways.restart(away_s=2 * IDLE)
    await gateways.clock.advance(WARNING_SECONDS)
    await until(lambda: gateways.program.forgotten)


async def test_removed_user_has_no_shell_after_a_restart(gateways: ShellGateways) -> None:
    await gateways.join()
    await gateways.join(BOB)
    gateways.users.remove("bob")
    await gateways.restart()
    assert gateways.terminals.names() == ("user/ann/x",)
    assert [program.forgotten for program in gateways.keeper.programs] == [False, True]


async def test_restored_shells_of_a_removed_user_end(gateways: ShellGateways) -> None:
    await gateways.join()
    await gateways.enter()
    await gateways.restart()
    await gateways.shells.forget("ann")
    assert [program.forgotten for program in gateways.keeper.programs] == [True, True]


# --- claudecodeui's programs


async def test_program_is_entered_again_after_a_restart(gateways: ShellGateways) -> None:
    first = await gateways.enter()
    await printed(first.terminal, gateways.program, b"hello\r\n")
    await gateways.restart()
    again = await gateways.enter()
    assert again.attached.again and again.terminal.pid == first.terminal.pid
    await shows_all(again.terminal, gateways.program)
    assert again.terminal.intact and again.terminal.screen.lines[0] == "hello"


async def test_program_is_ended_after_its_last_watcher_has_left_for_long(gateways: ShellGateways) -> None:
    watching = (await gateways.enter()).terminal.watch("me")
    await anext(watching)
    await gateways.clock.advance(2 * IDLE)
    await gateways.restart(away_s=60)
    await watching.aclose()
    await gateways.clock.advance(IDLE / 2)
    gateways.program.print(b"output is not a watcher")
    await gateways.clock.advance(IDLE / 2 - 1)
    assert gateways.program.exit is None
    await gateways.clock.advance(1)
    await until(lambda: gateways.program.forgotten)


async def test_command_is_typed_once(gateways: ShellGateways) -> None:
    await _command_entered(gateways)
    gateways.program.keys.clear()  # the keeper does not remember all of them for ever
    await gateways.restart()
    await gateways.clock.advance(PROMPT_SECONDS)
    assert gateways.program.typed == [b"{ make\r}; exit\r"]


async def test_command_is_typed_once_by_a_gateway_that_is_killed_at_once(
    gateways: ShellGateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(PtySession, "note", lambda *_, **__: None)
        await _command_entered(gateways)
    await gateways.restart()
    await gateways.clock.advance(PROMPT_SECONDS)
    assert gateways.program.typed == [b"{ make\r}; exit\r"]


async def test_command_that_a_killed_gateway_did_not_type_is_typed(gateways: ShellGateways) -> None:
    entering = gateways.launcher._tasks.spawn(gateways.enter(command="make"), awaited=True)
    await until(lambda: bool(gateways.keeper.programs))
    await gateways.restart()
    assert entering.cancelled() and gateways.program.typed == []
    gateways.program.print(b"$ ")
    await until(lambda: gateways.program.typed == [b"{ make\r}; exit\r"])
    await gateways.restart()
    await gateways.clock.advance(PROMPT_SECONDS)
    assert len(gateways.program.typed) == 1


async def _command_entered(gateways: ShellGateways) -> None:
    entering = gateways.launcher._tasks.spawn(gateways.enter(command="make"), awaited=True)
    await until(lambda: bool(gateways.keeper.programs))
    gateways.program.print(b"$ ")
    await entering


async def test_session_in_a_terminal_is_entered_again(gateways: ShellGateways) -> None:
    first = await gateways.enter(provider="claude", session=SESSION, resume=True)
    await gateways.restart()
    again = await gateways.enter(provider="claude", session=SESSION, resume=True)
    assert again.terminal.pid == first.terminal.pid and again.attached.again
    assert len(gateways.core.commands_of(cmd.StartHandover)) == 1


async def test_link_of_a_session_is_restored_when_its_program_ends_after_a_restart(gateways: ShellGateways) -> None:
    await gateways.enter(provider="claude", session=SESSION, resume=True)
    await gateways.restart()
    await gateways.clock.advance(1)
    assert gateways.core.links[SESSION] == "terminal"
    gateways.program.end(Exit(code=0))
    await until(lambda: gateways.core.links[SESSION] == "stdio")
    assert await gateways.core.documents.list(LINKS) == {}


async def test_link_of_a_session_is_restored_if_its_program_ended_while_away(gateways: ShellGateways) -> None:
    await gateways.enter(provider="claude", session=SESSION, resume=True)
    gateways.keeper.connect()
    gateways.program.end(Exit(code=0))
    await gateways.restart()
    await until(lambda: gateways.core.links[SESSION] == "stdio")
