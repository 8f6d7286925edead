"""The driver of one Claude process: starts it, delivers its records, matches control requests with their answers.

It does not interpret records. A record reaches the sink before the driver acts on it.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.agents.claude.base_driver import ClaudeDriver
from fairlead.agents.claude.launch import initialize, needs_restart
from fairlead.agents.claude.stdio.control_requests import ControlRequestHandler
from fairlead.agents.claude.stdio.pending import PendingRequests, default_timeout
from fairlead.agents.claude.stdio.subagent_files import SubagentFiles
from fairlead.agents.claude.versions import Abilities, Version
from fairlead.agents.claude.wire import records as wire
from fairlead.agents.claude.wire.control import cancel_line, environment_line, request_line
from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.driver import explain_start
from fairlead.agents.links import Link
from fairlead.agents.links.framing import LineSplitter, Oversize, OversizeSpill, oversize_placeholder
from fairlead.model.agents import AgentSink, Exit, Launch, Record
from fairlead.model.commands import Settings
from fairlead.model.errors import (
    AgentFailed,
    AgentRefused,
    AgentTimeout,
    BadMode,
    BadRequest,
    FairleadError,
)
from fairlead.model.ids import MessageId
from fairlead.system.clock import Clock, within

logger = logging.getLogger("fairlead.agents.claude")

REFUSING_SECONDS = 2.0
"""How long an agent that is being stopped may take to read our last denials."""

_CONTROL = b'"control_'
"""Every control message contains it, so lines without it need no decoding here. Other lines with it do no harm."""


class ClaudeAgent(ClaudeDriver):
    """A running Claude on a link that carries its control protocol."""

    def __init__(
        self,
        link: Link,
        sink: AgentSink,
        clock: Clock,
        version: Version,
        spill: OversizeSpill | None = None,
        transcript: Path | None = None,
    ) -> None:
        """`transcript` is the file to which the CLI writes its session; its subagents' files are next to it."""
        super().__init__(link, sink, clock, version)
        self._link = link
        self._splitter = LineSplitter(spill=spill)
        self._pending = PendingRequests()
        self._permissions = self._serving = ControlRequestHandler(sink, link.send, self._deliver, clock, version)
        self._subagent_files: SubagentFiles | None = None
        if transcript is not None and not Abilities(version).forwards_background:
            self._subagent_files = SubagentFiles(transcript, version, clock, self._deliver)
        self._ready = False
        self._complaints: tuple[str, ...] = ()

    # --- lifecycle ---------------------------------------------------------------------------------------

    async def start(self, launch: Launch) -> None:
        """Start reading, and wait until the agent accepts prompts.

        Raises AgentNotRunning, with the agent's own error text, if it does not get that far."""
        await self._begin(self._initialize(launch))
        self._ready = True

    async def _initialize(self, launch: Launch) -> None:
        await self._ask("initialize", initialize(launch), None)
        if launch.mcp_servers:
            await self._ask("mcp_set_servers", {"servers": launch.mcp_servers}, None)
        if launch.settings.thinking is not None:
            await self.set_thinking(launch.settings.thinking)

    async def _read_records(self) -> None:
        try:
            await self._link.receive(self._feed)
            await self._handle_lines(self._splitter.end())
        except Exception:
            # The store failed: the agent's output cannot be stored, so the agent must not continue.
            logger.exception("the agent's records could not be stored", extra={"pid": self.pid})

    async def _finish(self, ended: Exit) -> Exit:
        if self._subagent_files is not None and (records := await self._subagent_files.close()):
            with contextlib.suppress(FairleadError):
                await self._deliver(records)
        self._pending.close("The agent has exited.")
        await self._serving.close()
        return ended

    def _explain_failure(self, error: AgentFailed, ended: Exit) -> str:
        """Return the agent's own text from a result or stderr, if any, and how it ended."""
        return explain_start(error, ended, "; ".join(self._complaints))

    async def _end(self) -> Exit:
        with contextlib.suppress(AgentFailed, TimeoutError):
            await within(self._clock, REFUSING_SECONDS, self._serving.deny_hooks())
        return await self._link.stop()

    async def deliver(self, records: list[Record]) -> None:
        """Deliver records that the link found outside the wire, in order with the wire's records."""
        await self._deliver([item for record in records for item in (*await self._before(record), record)])

    def open_calls(self) -> tuple[str, ...]:
        return self._serving.open_calls()

    # --- the agent's output ------------------------------------------------------------------------------

    async def _feed(self, data: bytes) -> None:
        await self._handle_lines(self._splitter.feed(data))

    async def _handle_lines(self, lines: Sequence[bytes | Oversize]) -> None:
        if not lines:
            return
        batch: list[Record] = []
        todo: list[wire.WireRecord] = []
        for line in lines:
            record = Record(oversize_placeholder(line) if isinstance(line, Oversize) else line)
            if _CONTROL in record.raw or not self._ready:
                message = decode(record.raw)
                if isinstance(message, wire.ControlRequest) and self._serving.answer_if_duplicate(message):
                    continue
                todo.append(message)
            if self._subagent_files is not None and self._subagent_files.concerns(record.raw):
                # Deliver the earlier records first: they need not wait for a subagent's file.
                await self._deliver_and_act(batch, todo)
                batch, todo = [*await self._before(record)], []
            batch.append(record)
        await self._deliver_and_act(batch, todo)

    async def _before(self, record: Record) -> Sequence[Record]:
        """Return the subagent's records before this one that the wire leaves out."""
        if self._subagent_files is None or not self._subagent_files.concerns(record.raw):
            return ()
        return await self._subagent_files.before(record.raw)

    async def _deliver_and_act(self, batch: list[Record], todo: Sequence[wire.WireRecord]) -> None:
        if batch:
            await self._deliver(batch)
        for message in todo:
            self._act(message)

    def _act(self, record: wire.WireRecord) -> None:
        match record:
            case wire.ControlRequest():
                self._serving.handle(record)
            case wire.ControlResponse():
                for request in self._pending.settle(record.response):
                    self._serving.handle(request)
            case wire.ControlCancel():
                self._serving.cancel(record.request_id)
            case wire.ResultRecord() if not self._ready:
                self._complaints = tuple(record.errors or ())
            case _:
                pass

    # --- the agent's input -------------------------------------------------------------------------------

    async def write(self, record: Record) -> None:
        # A blank line, a second line or an unknown type would end 2.1.37.
        if b"\n" in record.raw or not isinstance(decode(record.raw), wire.UserRecord):
            raise BadRequest("Only a prompt, on one line, is written to the agent.")
        await self._link.send(record.raw + b"\n")

    @property
    def attended(self) -> bool:
        return False

    async def interrupt(self) -> None:
        await self._ask("interrupt", {}, None)

    async def control(self, subtype: str, fields: Mapping[str, Any], timeout: float | None = None) -> Any:
        if subtype == "initialize":
            raise BadRequest("Only the gateway initializes an agent: a second request would replace its policy hook.")
        return await self._ask(subtype, fields, timeout)

    async def set_mode(self, mode: str) -> None:
        if mode not in self.modes:
            raise BadMode(mode, self.modes)
        await self._ask("set_permission_mode", {"mode": mode}, None)

    async def set_model(self, model: str) -> None:
        await self._ask("set_model", {"model": model or "default"}, None)

    async def set_thinking(self, budget: int | None) -> None:
        await self._ask("set_max_thinking_tokens", {"max_thinking_tokens": budget}, None)

    async def rewind(self, message: MessageId, *, dry_run: bool) -> dict[str, Any]:
        return await self.control("rewind_files", {"user_message_id": message, "dry_run": dry_run}) or {}

    async def set_variables(self, variables: Mapping[str, str]) -> None:
        if not Abilities(self._version).takes_environment:
            raise AgentRefused(f"Claude Code {self.version} accepts no environment variables while it runs.")
        await self._link.send(environment_line(dict(variables)))

    def needs_restart(self, old: Settings, new: Settings) -> bool:
        return needs_restart(old, new, self._version)

    async def _ask(self, subtype: str, fields: Mapping[str, Any], timeout: float | None) -> Any:
        request_id = str(uuid.uuid4())
        seconds = default_timeout(subtype) if timeout is None else timeout
        answered = self._pending.add(request_id, subtype)
        try:
            await self._link.send(request_line(request_id, subtype, fields))
            try:
                return await within(self._clock, seconds, answered)
            except (TimeoutError, asyncio.CancelledError):
                await self._withdraw(request_id)
                raise
        except TimeoutError:
            raise AgentTimeout(f"The agent did not answer {subtype}.", subtype=subtype) from None
        finally:
            self._pending.drop(request_id)
            if answered.done() and not answered.cancelled():
                answered.exception()  # mark it as retrieved, even where sending failed first

    async def _withdraw(self, request_id: str) -> None:
        """Cancel our request at the agent, since its answer is not needed any more. An old version would exit on it."""
        if Abilities(self._version).takes_cancel and self._link.running:
            with contextlib.suppress(AgentFailed):
                await self._link.send(cancel_line(request_id))
