"""A keeper in memory: a test prints for its programs, and gateways come and go."""

import asyncio
from collections.abc import Sequence

import msgspec

from fairlead.keeper.client import KeeperLost, ProcessSpec
from fairlead.model.agents import Exit
from fairlead.system.pipes import PipeClosed, Take
from fairlead.system.process import StopTimeouts


class FakeProgram:
    """A program on a terminal. `typed`: what was written to it."""

    def __init__(self, number: int, spec: ProcessSpec) -> None:
        self.number = number
        self.spec = spec
        self.size = spec.size
        self.base = 0
        self.data = b""
        self.memo = b""
        self.memos = 0
        self.keys: set[str] = set()
        self.typed: list[bytes] = []
        self.exit: Exit | None = None
        self.forgotten = False
        self.changed = asyncio.Event()

    def print(self, data: bytes) -> None:
        self.data += data
        self._change()

    def end(self, exit: Exit) -> None:
        self.exit = exit
        self._change()

    def _change(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class FakeKept:
    """A program as one gateway sees it. Implements `terminals.children.KeptProgram`."""

    def __init__(self, program: FakeProgram) -> None:
        self.program = program
        self.pid = self.group = 100_000 + program.number
        self.started = "mark"
        self.tag = dict(program.spec.tag)
        self.base = program.base
        self.memo = program.memo
        self._lost = asyncio.Event()

    @property
    def running(self) -> bool:
        return self.program.exit is None and not self._lost.is_set()

    def lose(self) -> None:
        self._lost.set()
        self.program._change()

    async def read(self, take: Take, offset: int | None = None) -> None:
        position = self.base if offset is None else offset
        assert self.program.base <= position
        while True:
            if self._lost.is_set():
                raise KeeperLost("lost")
            if batch := self.program.data[position - self.program.base :]:
                await take(batch)
                position += len(batch)
            elif self.program.exit is not None:
                return
            else:
                await self.program.changed.wait()

    async def write(self, data: bytes, key: str = "") -> None:
        await asyncio.sleep(0)
        if not self.running:
            raise PipeClosed("closed")
        if not key or key not in self.program.keys:
            self.program.typed.append(data)
            self.program.keys |= {key} - {""}

    def ack(self, offset: int, memo: bytes | None = None) -> None:
        if not self._lost.is_set() and memo is not None:
            self.program.data = self.program.data[offset - self.program.base :]
            self.program.base = offset
            self.program.memo = memo
            self.program.memos += 1

    def resize(self, columns: int, rows: int) -> None:
        if self.running:
            self.program.size = columns, rows

    async def wait(self) -> Exit:
        while self.program.exit is None:
            if self._lost.is_set():
                raise KeeperLost("lost")
            await self.program.changed.wait()
        return self.program.exit

    async def end(self, patience: StopTimeouts) -> Exit:
        if self.running:
            self.program.end(Exit(signal=1))
        return await self.wait()

    def forget(self) -> None:
        if not self._lost.is_set():
            assert self.program.exit is not None
            self.program.forgotten = True


class FakeKeeper:
    """`connect` is a gateway that connects: an earlier one is disconnected."""

    def __init__(self) -> None:
        self.programs: list[FakeProgram] = []
        self._handed_out: list[FakeKept] = []

    def connect(self) -> Sequence[FakeKept]:
        for kept in self._handed_out:
            kept.lose()
        self._handed_out = [FakeKept(program) for program in self.programs if not program.forgotten]
        return tuple(self._handed_out)

    async def spawn(self, spec: ProcessSpec) -> FakeKept:
        # As the keeper gets it: as JSON.
        spec = msgspec.structs.replace(spec, tag=msgspec.json.decode(msgspec.json.encode(spec.tag)))
        program = FakeProgram(len(self.programs) + 1, spec)
        self.programs.append(program)
        self._handed_out.append(FakeKept(program))
        return self._handed_out[-1]

    async def get(self) -> "FakeKeeper":
        return self
