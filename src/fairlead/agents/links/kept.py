"""The link to an agent that the keeper holds: it outlives a gateway that is killed, stopped or upgraded."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fairlead.agents.links.kept_output import KeptOutput
from fairlead.agents.links.stdio import WRITE_SECONDS, StdioLink, explain_spawn, start_child
from fairlead.keeper.access import KeeperAccess
from fairlead.keeper.client import KeeperLost, KeptProcess, ProcessSpec
from fairlead.model.agents import Exit, ProcessInfo
from fairlead.model.errors import AgentNotRunning, AgentTimeout, NotFound
from fairlead.model.store import StoredOutput
from fairlead.system.clock import Clock, within
from fairlead.system.pipes import PipeClosed, Take
from fairlead.system.process import StopTimeouts
from fairlead.system.sandbox import Sandbox

AGENT = "agent"
"""The value of `kind` in the tag of an agent's process."""


class KeptLink:
    """Implements `Link` for a process at the keeper. `stored`: what an earlier gateway has stored of its output."""

    def __init__(
        self, process: KeptProcess, clock: Clock, patience: StopTimeouts, stored: StoredOutput | None = None
    ) -> None:
        self.pid, self.group, self.started = process.pid, process.group, process.started
        self.output = KeptOutput(process.ack, stored)
        self._process = process
        self._clock = clock
        self._patience = patience
        self._taking = asyncio.Lock()
        self._released = asyncio.Event()
        self.lost = False
        """The keeper has ended: the agent is about to end, and nothing reaches it any more."""

    @property
    def running(self) -> bool:
        return self._process.running and not self._released.is_set()

    async def receive(self, take: Take) -> None:
        """Also returns when the link is released, or the keeper has ended."""

        async def take_whole(data: bytes) -> None:
            async with self._taking:
                await take(data)

        reading = asyncio.create_task(self._process.read(take_whole, self.output.offset))
        released = asyncio.create_task(self._released.wait())
        try:
            await asyncio.wait({reading, released}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
        except KeeperLost:
            self.lost = True
        finally:
            released.cancel()
            # A batch that is being stored is stored to its end.
            async with self._taking:
                reading.cancel()
            await asyncio.wait({reading, released})

    async def send(self, data: bytes, key: str = "") -> None:
        if not self.running:
            raise AgentNotRunning("The agent does not read its input any more: it has exited or is about to.")
        try:
            await within(self._clock, WRITE_SECONDS, self._process.write(data, key))
        except (PipeClosed, KeeperLost):
            raise AgentNotRunning("The agent does not read its input any more: it has exited or is about to.") from None
        except TimeoutError:
            raise AgentTimeout("The agent does not read its input: interrupt or close the session.") from None

    def release(self) -> None:
        """Close the connection; the agent goes on without us."""
        self._released.set()

    async def stop(self) -> Exit:
        if self.lost or self._released.is_set():
            return Exit()
        try:
            return await self._process.end(self._patience)
        except KeeperLost:
            self.lost = True
            return Exit()

    def forget(self) -> None:
        """The exit is stored."""
        if not (self.lost or self._released.is_set()):
            self._process.forget()


async def start_link(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str,
    clock: Clock,
    patience: StopTimeouts,
    sandbox: Sandbox | None,
    keeper: KeeperAccess | None,
    session: str,
) -> StdioLink | KeptLink:
    """Start an agent: at the keeper, if there is one, else as our child. Raises AgentMissing, BadRequest."""
    if keeper is None:
        return StdioLink(start_child(argv, env=env, cwd=cwd, clock=clock, sandbox=sandbox), clock, patience)
    tag: dict[str, Any] = {"kind": AGENT, "session": session}
    spec = ProcessSpec(argv=argv, env=env, cwd=cwd, tag=tag, sandbox=sandbox)
    with explain_spawn(argv[0], cwd):
        return KeptLink(await keeper.spawn(spec), clock, patience)


def adopt_link(
    keeper: KeeperAccess | None, child: ProcessInfo, stored: StoredOutput, clock: Clock, patience: StopTimeouts
) -> KeptLink:
    """Connect again to a process that an earlier gateway started. Raises NotFound."""
    process = None if keeper is None else keeper.find(child.pid, child.started)
    if process is None:
        raise NotFound("process", str(child.pid))
    if process.base > stored.offset:  # a part of a line above the limit was dropped
        stored = msgspec.structs.replace(stored, offset=process.base)
    return KeptLink(process, clock, patience, stored)
