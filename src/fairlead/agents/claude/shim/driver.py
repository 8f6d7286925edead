"""The driver of a CLI that a shim lends us. The CLI's own caller prompts it, answers it and ends it, and so do we."""

import asyncio
import uuid
from pathlib import Path
from typing import Any, Literal

import msgspec

from fairlead.agents.claude.launch import initialize
from fairlead.agents.claude.shim.link import ShimLink
from fairlead.agents.claude.stdio.control_requests import ControlRequestHandler
from fairlead.agents.claude.stdio.driver import ClaudeAgent
from fairlead.agents.claude.transcripts.recovery import rows_after
from fairlead.agents.claude.versions import Version
from fairlead.agents.claude.wire import records as wire
from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.claude.wire.markers import ConnectionMarker, encode_marker
from fairlead.agents.links.framing import OversizeSpill
from fairlead.model.agents import AgentSink, Decision, Exit, Launch, Record
from fairlead.model.commands import Settings
from fairlead.model.ids import RequestId
from fairlead.system.clock import Clock


class _CallerAnswer(msgspec.Struct):
    """The caller's answer to a permission request; other fields reach the CLI with the caller's own line."""

    behavior: Literal["allow", "deny"] = "deny"
    message: str = ""
    updatedInput: dict[str, Any] | None = None
    interrupt: bool = False


class ShimAgent(ClaudeAgent):
    """A lent CLI. `by` is the person who runs the shim; `observes`: see ControlRequestHandler."""

    def __init__(
        self,
        link: ShimLink,
        sink: AgentSink,
        clock: Clock,
        version: Version,
        *,
        by: str,
        observes: bool,
        spill: OversizeSpill | None = None,
        transcript: Path | None = None,
    ) -> None:
        super().__init__(link, sink, clock, version, spill, transcript)
        self._shim = link
        self._by = by
        self._permissions = self._serving = ControlRequestHandler(
            sink, link.send, self._deliver, clock, version, observes=observes
        )
        self._transcript = transcript
        link.on_caller_line = self._take_caller_line
        link.on_lines_lost = self._fill_gap

    @property
    def attended(self) -> bool:
        return True

    @property
    def lent(self) -> bool:
        return True

    def needs_restart(self, old: Settings, new: Settings) -> bool:
        """Never: the process belongs to its caller. The next process of the session gets the new settings."""
        return False

    async def stop(self, reason: str) -> Exit:
        await self._shim.end_cli(reason)
        return await super().stop(reason)

    async def release(self) -> None:
        await self._shim.stop()

    async def _initialize(self, launch: Launch) -> None:
        # The shim has initialized the CLI, with the policy hook and with the caller's own fields, and answers this.
        await self._ask("initialize", initialize(launch), None)

    async def _end(self) -> Exit:
        # Open hooks are not denied: the shim answers them once the connection is closed.
        return await self._link.stop()

    async def _fill_gap(self) -> None:
        """Read what the shim had to drop from the CLI's transcript; rows that are known already have no effect."""
        marker = ConnectionMarker(cause=str(uuid.uuid4()), gap=True)
        await self._deliver([Record(encode_marker(marker), "gateway")])
        if self._transcript is not None:
            rows = rows_after(self._transcript, None)
            while batch := await asyncio.to_thread(next, rows, None):
                await self.deliver(batch)

    async def _take_caller_line(self, line: bytes) -> None:
        match decode(line):
            case wire.UserRecord():
                await self._deliver([Record(line, "gateway", by=self._by)])
            case wire.ControlRequest(subtype="interrupt"):
                await self._sink.interrupted(self._by)
            case wire.ControlResponse(response=answer):
                await self._take_answer(RequestId(answer.request_id), answer)
            case _:
                pass

    async def _take_answer(self, request: RequestId, answer: wire.ControlAnswer) -> None:
        given = _decision(answer)
        if await self._sink.permission_answered(request, given, self._by):
            self._serving.settle(request)
            await self._shim.accept_answer(request)


def _decision(answer: wire.ControlAnswer) -> Decision:
    """An error, or an answer that we do not understand, lets the CLI deny the call."""
    try:
        given = msgspec.convert(answer.response or {}, _CallerAnswer)
    except msgspec.ValidationError:
        given = _CallerAnswer()
    return Decision(
        behavior=given.behavior,
        message=given.message or (answer.error or "" if given.behavior == "deny" else ""),
        updated_input=given.updatedInput,
        interrupt=given.interrupt,
    )
