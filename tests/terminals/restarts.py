"""Gateways that follow each other at one keeper, which is in memory."""

from typing import Any

from fairlead.system.process import StopTimeouts
from fairlead.terminals.api import Program, Size
from fairlead.terminals.children import KeptChild
from fairlead.terminals.pty_session import PtySession
from fairlead.terminals.registry import TerminalRegistry
from fairlead_testing.clock import ManualClock
from server.fakes import until
from terminals.fake_keeper import FakeKeeper, FakeProgram

SMALL = Size(40, 5)


class Gateways:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.keeper = FakeKeeper()
        self.users = {"ann"}
        self.terminals = self._registry()

    def _registry(self) -> TerminalRegistry:
        return TerminalRegistry(self.clock, 3, StopTimeouts(close=1, terminate=1), keeper=self.keeper.get)

    async def restart(self, away_s: float = 0) -> TerminalRegistry:
        """Kill the gateway, and start the next one after a while."""
        left, self.terminals = self.terminals, self._registry()
        found = self.keeper.connect()
        await left.close()
        await self.clock.advance(away_s)
        self.terminals.restore(found, self.users.__contains__)
        return self.terminals

    @property
    def program(self) -> FakeProgram:
        return self.keeper.programs[-1]

    async def open(self, name: str = "one", shell: bool = True, **more: Any) -> PtySession:
        program = Program(argv=["sh"], env={}, cwd="/", size=SMALL, shell=shell, **more)
        return await self.terminals.open(name, program)

    async def restored(self, name: str = "one", away_s: float = 0) -> PtySession:
        found = (await self.restart(away_s)).adopted(name)
        assert found is not None
        await shows_all(found, self.program)
        return found


async def shows_all(terminal: PtySession, program: FakeProgram) -> None:
    """Wait until the terminal has processed everything that the program has printed."""
    child = terminal._child
    assert isinstance(child, KeptChild)
    await until(lambda: child._offset == program.base + len(program.data))


async def printed(terminal: PtySession, program: FakeProgram, data: bytes) -> None:
    program.print(data)
    await shows_all(terminal, program)
