"""The driver: delivers the program's messages to the core, and the core's requests to the program."""

from collections.abc import Sequence
from typing import Final

from fairlead.agents.line_driver import LineDriver, OpenRequests
from fairlead.agents.links import Link
from fairlead.agents.links.framing import OversizeSpill
from fairlead.agents.links.kept_output import prompt_key, reply_key
from fairlead.model.agents import AgentSink, Decision, Launch, PermissionRequest, Record
from fairlead.model.decisions import decision_of
from fairlead.model.events import PermissionResolved
from fairlead.model.ids import CallId, RequestId
from fairlead.system.clock import Clock
from runbook import wire
from runbook.interpreter import TOOL

START_SECONDS: Final = 30.0
HELLO: Final = "hello"


class RunbookAgent(LineDriver):
    """Implements `model.agents.Agent`."""

    def __init__(self, link: Link, sink: AgentSink, clock: Clock, name: str, spill: OversizeSpill | None) -> None:
        super().__init__(link, sink, clock, name, spill)
        self._permissions = self._open = OpenRequests(self._decide)
        self.version = ""

    async def start(self, launch: Launch) -> None:
        await self._begin(self._greet(launch.resume))

    async def _greet(self, session: str) -> None:
        line = wire.encode(wire.Open(session=session)) + b"\n"
        self.version = await self._await_answer(HELLO, line, START_SECONDS, HELLO)

    async def _handle(self, lines: Sequence[bytes], end: int | None) -> None:
        messages = [(line, wire.decode(line)) for line in lines]
        for line, message in messages:
            # What a restarted gateway needs again is stored together with the messages.
            if isinstance(message, wire.Hello):
                self._remember_answer(HELLO, line)
            elif isinstance(message, wire.Command):
                self._remember(message.id, line)
        # A message is stored before the driver acts on it.
        await self._deliver([Record(line) for line in lines], end)
        for _, message in messages:
            if isinstance(message, wire.Hello) and HELLO in self._waiting:
                self._settle(HELLO, message.version)
            elif isinstance(message, wire.Command):
                self._open.add(message.id)
                request, given = RequestId(message.id), {"command": message.command}
                ask = PermissionRequest(request, CallId(message.id), TOOL, given)
                self._tasks.spawn(self._sink.permission_requested(ask))

    async def _recall(self, line: bytes) -> None:
        message = wire.decode(line)
        if isinstance(message, wire.Hello):
            self._answered[HELLO] = message.version
            self._remember_answer(HELLO, line)
        elif isinstance(message, wire.Command):
            known = await self._sink.request_state(RequestId(message.id))
            if isinstance(known, PermissionResolved):
                await self._decide(known.request, decision_of(known))
            elif known == "pending":
                self._remember(message.id, line)
                self._open.add(message.id)

    async def _decide(self, request: RequestId, decision: Decision) -> None:
        permit = wire.Permit(id=request, allow=decision.behavior == "allow", reason=decision.message)
        line = wire.encode(wire.Cancel() if decision.interrupt else permit) + b"\n"
        await self._link.send(line, reply_key(request))
        self._forget(request)

    async def write(self, record: Record, *, again: bool = False) -> None:
        await self._link.send(record.raw + b"\n", prompt_key(record.raw))

    async def interrupt(self, key: str = "") -> None:
        self._open.clear()
        await self._link.send(wire.encode(wire.Cancel()) + b"\n", key)
