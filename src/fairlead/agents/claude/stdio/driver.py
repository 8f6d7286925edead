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

import msgspec

from fairlead.agents.claude.base_driver import ClaudeDriver
from fairlead.agents.claude.launch import initialize, needs_restart
from fairlead.agents.claude.stdio.control_requests import AllowedCall, ControlRequestHandler
from fairlead.agents.claude.stdio.pending import PendingRequests, default_timeout
from fairlead.agents.claude.stdio.subagent_files import SubagentFiles, SubagentPlaces
from fairlead.agents.claude.versions import Abilities, Version
from fairlead.agents.claude.wire import records as wire
from fairlead.agents.claude.wire.control import cancel_line, environment_line, request_line
from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.driver import explain_start
from fairlead.agents.links import Link
from fairlead.agents.links.framing import LineSplitter, Oversize, OversizeSpill, encode_line, oversize_placeholder
from fairlead.agents.links.kept_output import prompt_key
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
_RESULT = b'"type":"result"'


class StartAnswered(msgspec.Struct, frozen=True, tag_field="type", tag="fairlead_answered"):
    """The CLI has answered this request of the start, as a line that a restarted gateway recalls."""

    request: str


class Started(msgspec.Struct, frozen=True, tag_field="type", tag="fairlead_started"):
    """The start is done, as a line that a restarted gateway recalls."""


_recalled = msgspec.json.Decoder(StartAnswered | Started | AllowedCall | SubagentPlaces)


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
        self._output = link.output
        self._splitter = LineSplitter(spill=spill, offset=0 if self._output is None else self._output.offset)
        self._pending = PendingRequests()
        self._permissions = self._serving = ControlRequestHandler(
            sink, link.send, self._deliver, clock, version, output=self._output
        )
        self._subagent_files: SubagentFiles | None = None
        if transcript is not None and not Abilities(version).forwards_background:
            self._subagent_files = SubagentFiles(transcript, version, clock, self._deliver, self._output)
        self._ready = False
        self._start_requests: list[str] = []
        self._start_answered: set[str] = set()
        self._complaints: tuple[str, ...] = ()

    # --- lifecycle ---------------------------------------------------------------------------------------

    async def start(self, launch: Launch) -> None:
        """Start reading, and wait until the agent accepts prompts.

        Raises AgentNotRunning, with the agent's own error text, if it does not get that far."""
        self._recall()
        await self._begin(self._initialize(launch))
        if not self._ready and self._output is not None:
            self._output.forget_all("start:")
            self._output.remember("started", encode_line(Started())[:-1])
            await self._store_recalled()
        self._ready = True

    async def _initialize(self, launch: Launch) -> None:
        if self._ready:  # an earlier gateway has started it
            return
        await self._ask_at_start("initialize", initialize(launch))
        if launch.mcp_servers:
            await self._ask_at_start("mcp_set_servers", {"servers": launch.mcp_servers})
        if launch.settings.thinking is not None:
            await self._ask_at_start("set_max_thinking_tokens", {"max_thinking_tokens": launch.settings.thinking})

    async def _ask_at_start(self, subtype: str, fields: Mapping[str, Any]) -> None:
        """Send a request under an id that a restarted gateway would give it too: a request that the CLI has got is not
        sent again, and its answer is recognised."""
        request_id = f"start-{subtype}"
        self._start_requests.append(request_id)
        if request_id not in self._start_answered:
            await self._ask(subtype, fields, None, request_id)

    def _recall(self) -> None:
        """Handle the lines again that an earlier gateway has stored for us: how far the start was, open requests."""
        for line in () if self._output is None else self._output.recalled:
            match _decode_recalled(line):
                case Started():
                    self._ready = True
                    if self._output is not None:
                        self._output.remember("started", line)
                case StartAnswered() as answered:
                    self._note_answered(answered.request)
                case SubagentPlaces() as places if self._subagent_files is not None:
                    self._subagent_files.restore(places)
                case AllowedCall() | wire.ControlRequest() as record:
                    self._serving.recall(record, line)
                case _:
                    pass

    def _note_answered(self, request_id: str) -> None:
        self._start_answered.add(request_id)
        if self._output is not None:
            self._output.remember(f"start:{request_id}", encode_line(StartAnswered(request_id))[:-1])

    async def _read_records(self) -> None:
        try:
            await self._link.receive(self._feed)
            await self._handle_lines(self._splitter.end(), ())
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
        await self._handle_lines(self._splitter.feed(data), self._splitter.ends)
        if self._output is not None and self._splitter.spilling:
            self._output.skip_oversize(self._splitter.offset)

    async def _handle_lines(self, lines: Sequence[bytes | Oversize], ends: Sequence[int]) -> None:
        """`ends`: where each line ends in the agent's output; empty for a last line without a newline."""
        if not lines:
            return
        batch: list[Record] = []
        todo: list[wire.WireRecord] = []
        end = None
        for number, line in enumerate(lines):
            record = Record(oversize_placeholder(line) if isinstance(line, Oversize) else line)
            if _CONTROL in record.raw or not self._ready:
                message = decode(record.raw)
                self._note(message, record.raw)
                if isinstance(message, wire.ControlRequest) and self._serving.answer_if_duplicate(message):
                    end = ends[number] if ends else None
                    continue
                todo.append(message)
            elif self._output is not None and _RESULT in record.raw:
                self._serving.forget_allowed()
            if self._subagent_files is not None and self._subagent_files.concerns(record.raw):
                # Deliver the earlier records first: they need not wait for a subagent's file.
                await self._deliver_and_act(batch, todo, end)
                batch, todo = [*await self._before(record)], []
            batch.append(record)
            end = ends[number] if ends else None
        await self._deliver_and_act(batch, todo, end)

    def _note(self, message: wire.WireRecord, raw: bytes) -> None:
        """Note what a restarted gateway needs, before the record is delivered."""
        match message:
            case wire.ControlRequest():
                self._serving.note(message, raw)
            case wire.ControlResponse(response=answer) if not self._ready and answer.subtype != "error":
                if answer.request_id in self._start_requests:
                    self._note_answered(answer.request_id)
            case _:
                pass

    async def _before(self, record: Record) -> Sequence[Record]:
        """Return the subagent's records before this one that the wire leaves out."""
        if self._subagent_files is None or not self._subagent_files.concerns(record.raw):
            return ()
        return await self._subagent_files.before(record.raw)

    async def _deliver_and_act(
        self, batch: list[Record], todo: Sequence[wire.WireRecord], end: int | None = None
    ) -> None:
        if batch:
            await self._deliver(batch, end)
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

    async def write(self, record: Record, *, again: bool = False) -> None:
        # A blank line, a second line or an unknown type would end 2.1.37.
        if b"\n" in record.raw or not isinstance(decode(record.raw), wire.UserRecord):
            raise BadRequest("Only a prompt, on one line, is written to the agent.")
        await self._link.send(record.raw + b"\n", prompt_key(record.raw))

    @property
    def attended(self) -> bool:
        return False

    async def interrupt(self, key: str = "") -> None:
        await self._ask("interrupt", {}, None, key)

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

    async def _ask(self, subtype: str, fields: Mapping[str, Any], timeout: float | None, request_id: str = "") -> Any:
        request_id = request_id or str(uuid.uuid4())
        seconds = default_timeout(subtype) if timeout is None else timeout
        answered = self._pending.add(request_id, subtype)
        try:
            await self._link.send(request_line(request_id, subtype, fields), f"request:{request_id}")
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


def _decode_recalled(line: bytes) -> Any:
    try:
        return _recalled.decode(line)
    except msgspec.DecodeError:
        return decode(line)
