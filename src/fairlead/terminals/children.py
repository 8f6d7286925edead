"""The program of a terminal, as a terminal uses it: a child of the gateway, or one of the keeper, which survives the
gateway. The second saves the state of its terminal at the keeper, together with how much output this state contains.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from fairlead.keeper.client import KeeperLost
from fairlead.model.agents import Exit
from fairlead.system.clock import Clock, Timer, ends_within
from fairlead.system.pipes import PipeClosed, Take
from fairlead.system.process import StopTimeouts
from fairlead.system.process_wait import wait_gone
from fairlead.system.proctable import Process
from fairlead.system.pty import PtyChild
from fairlead.system.tasks import TaskSet
from fairlead.terminals.memo import SavedTerminal, TerminalMemo, encode_memo

log = logging.getLogger("fairlead.terminals")

SAVE_BYTES: Final = 1 << 20
"""After this much output the state is saved at once. Saving takes some 0.5 ms, processing this output 20 ms or more."""
SAVE_SECONDS: Final = 1.0
"""The state is saved at the latest so long after it has changed."""
SAVE_ANSWERS: Final = 500
"""The keeper remembers the last 1,000 keys: the state is saved before an answer could be given twice."""
WAITING_ANSWERS: Final = 64
"""Answers that may wait for a program that does not read; more are dropped."""

LOST_SECONDS: Final = 10.0
"""How long a program may take to end after its keeper was killed."""

Save = Callable[[bool], SavedTerminal]


class TerminalChild(Protocol):
    """A running program on a PTY."""

    @property
    def pid(self) -> int: ...
    @property
    def group(self) -> int: ...
    @property
    def started(self) -> str: ...
    @property
    def running(self) -> bool: ...
    @property
    def survives(self) -> bool:
        """Whether the program continues when the gateway ends."""

    async def read(self, take: Take) -> None:
        """As `PtyChild.read`. Calls of `processed` count the output that was taken."""

    async def write(self, data: bytes, key: str = "") -> None:
        """As `PtyChild.write`. At a keeper, data with a key that it has accepted before is not written again."""

    def answer(self, data: bytes) -> None:
        """Write the answer to the program's next query, without waiting. It is dropped if too much input waits."""

    def resize(self, columns: int, rows: int) -> None: ...
    async def wait(self) -> Exit: ...
    async def end(self, patience: StopTimeouts) -> Exit: ...

    def begin(self, save: Save) -> None:
        """Set the function that returns the state to save; its argument: save it for any release of the gateway."""

    def processed(self, count: int) -> None:
        """Note that so much output is part of the state now. Its queries were answered before."""

    def changed(self) -> None:
        """Note that the state has changed in another way."""

    def save(self, *, portable: bool = False) -> None:
        """Save the state now."""

    def close(self) -> None:
        """Save no more. The program has ended, or continues without this gateway."""

    def forget(self) -> None:
        """Note that the end of the program is known to its terminal."""


class DirectChild:
    """A child of the gateway; there is nothing to save."""

    survives = False

    def __init__(self, child: PtyChild) -> None:
        self._child = child
        self.pid, self.group, self.started = child.pid, child.group, child.started
        self.answer = child.offer
        self.resize = child.resize
        self.read, self.wait, self.end = child.read, child.wait, child.end

    @property
    def running(self) -> bool:
        return self._child.running

    async def write(self, data: bytes, key: str = "") -> None:
        await self._child.write(data)

    def begin(self, save: Save) -> None: ...
    def processed(self, count: int) -> None: ...
    def changed(self) -> None: ...
    def save(self, *, portable: bool = False) -> None: ...
    def close(self) -> None: ...
    def forget(self) -> None: ...


class KeptProgram(Protocol):
    """A process on a PTY at the keeper (`keeper.client.KeptProcess`)."""

    @property
    def pid(self) -> int: ...
    @property
    def group(self) -> int: ...
    @property
    def started(self) -> str: ...
    @property
    def tag(self) -> Mapping[str, Any]: ...
    @property
    def base(self) -> int: ...
    @property
    def memo(self) -> bytes: ...
    @property
    def running(self) -> bool: ...
    async def read(self, take: Take, offset: int | None = None) -> None: ...
    async def write(self, data: bytes, key: str = "") -> None: ...
    def ack(self, offset: int, memo: bytes | None = None) -> None: ...
    def resize(self, columns: int, rows: int) -> None: ...
    async def wait(self) -> Exit: ...
    async def end(self, patience: StopTimeouts) -> Exit: ...
    def forget(self) -> None: ...


class KeptChild:
    """A child of the keeper. `memo`: what an earlier gateway saved of its terminal. If the keeper is lost, the system
    hangs the terminal up, and the program has some seconds to end; then it counts as ended."""

    survives = True

    def __init__(self, process: KeptProgram, clock: Clock, memo: TerminalMemo | None = None) -> None:
        self._process = process
        self._clock = clock
        self.pid, self.group, self.started = process.pid, process.group, process.started
        self.resize = process.resize
        self.write = process.write
        self.forget = process.forget
        self._offset = process.base if memo is None else memo.offset
        self._answers = 0 if memo is None else memo.answers
        self._saved_offset, self._saved_answers = self._offset, self._answers
        self._save: Save | None = None
        self._timer: Timer | None = None
        self._answering = TaskSet("answering a program failed", (PipeClosed,))

    @property
    def running(self) -> bool:
        return self._process.running

    async def read(self, take: Take) -> None:
        try:
            await self._process.read(take, self._offset)
        except KeeperLost:
            log.error("the keeper of a terminal is gone", extra={"pid": self.pid})

    async def wait(self) -> Exit:
        try:
            return await self._process.wait()
        except KeeperLost:
            # An agent writes the end of its transcript.
            await ends_within(self._clock, LOST_SECONDS, wait_gone(Process(self.pid, self.started), self._clock))
            return Exit()

    async def end(self, patience: StopTimeouts) -> Exit:
        try:
            return await self._process.end(patience)
        except KeeperLost:
            return Exit()

    def answer(self, data: bytes) -> None:
        """The key makes sure that an answer is given once, even if its query is processed again after a restart."""
        self._answers += 1
        if len(self._answering) < WAITING_ANSWERS:
            self._answering.spawn(self._process.write(data, f"answer:{self._answers}"))

    def begin(self, save: Save) -> None:
        self._save = save

    def processed(self, count: int) -> None:
        self._offset += count
        answers = self._answers - self._saved_answers
        if self._offset - self._saved_offset >= SAVE_BYTES or answers >= SAVE_ANSWERS:
            self.save()
        else:
            self.changed()

    def changed(self) -> None:
        if self._timer is None and self._save is not None:
            self._timer = self._clock.call_later(SAVE_SECONDS, self.save)

    def save(self, *, portable: bool = False) -> None:
        self._cancel_timer()
        if self._save is not None:
            memo = TerminalMemo(offset=self._offset, answers=self._answers, saved=self._save(portable))
            self._process.ack(self._offset, encode_memo(memo))
            self._saved_offset, self._saved_answers = self._offset, self._answers

    def close(self) -> None:
        self._save = None
        self._cancel_timer()
        self._answering.cancel()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
