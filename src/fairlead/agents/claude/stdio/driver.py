"""The driver of one Claude process: starts it, hands its records on, joins control requests with their answers.

It does no interpreting. The order that everybody may rely on: a record reaches the sink before anything is done
about it; `exited` comes once, after the last record, for every process that was recorded.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.agents.claude.launch import initialize, needs_restart
from fairlead.agents.claude.stdio.control_requests import ControlRequestHandler
from fairlead.agents.claude.stdio.subagent_files import SubagentFiles
from fairlead.agents.claude.versions import Version, abilities
from fairlead.agents.claude.wire.control import OtherRequest, request_line
from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.claude.wire.encode import cancel_line, environment_line
from fairlead.agents.claude.wire.framing import LineSplitter, Oversize, OversizeSpill, stand_in
from fairlead.agents.claude.wire.pending import PendingRequests, Settled, default_timeout
from fairlead.agents.claude.wire.records import (
    ControlCancel,
    ControlRequest,
    ControlResponse,
    ResultRecord,
    UserRecord,
    WireRecord,
)
from fairlead.agents.links import Link
from fairlead.model.agents import AgentSink, Decision, Exit, Launch, Record
from fairlead.model.commands import Settings
from fairlead.model.errors import (
    AgentFailed,
    AgentNotRunning,
    AgentRefused,
    AgentTimeout,
    BadMode,
    BadRequest,
    FairleadError,
)
from fairlead.model.ids import RequestId
from fairlead.system.clock import Clock, within

logger = logging.getLogger("fairlead.agents.claude")

REFUSING_SECONDS = 2.0
"""What an agent that is to be ended may take to read our last refusals."""

_CONTROL = b'"control_'
"""No control message lacks it; lines without it need no second reading here. Other lines with it are just read."""


class ClaudeAgent:
    """A running Claude. Implements `model.agents.Agent`."""

    def __init__(
        self,
        link: Link,
        sink: AgentSink,
        clock: Clock,
        version: Version,
        spill: OversizeSpill | None = None,
        transcript: Path | None = None,
    ) -> None:
        """`transcript`: where it writes its session down, its subagents' files beside it."""
        self._link = link
        self._sink = sink
        self._clock = clock
        self._version = version
        self._splitter = LineSplitter(spill=spill)
        self._in_order = asyncio.Lock()
        self._pending: PendingRequests[asyncio.Future[Any]] = PendingRequests()
        self._serving = ControlRequestHandler(sink, link.send, self._deliver, clock, version)
        self._beside: SubagentFiles | None = None
        if transcript is not None and not abilities(version).forwards_background:
            self._beside = SubagentFiles(transcript, version, clock, self._deliver)
        self._ready = False
        self._complaints: tuple[str, ...] = ()
        self._life: asyncio.Task[Exit] | None = None

    # --- its life ----------------------------------------------------------------------------------------

    async def start(self, launch: Launch) -> None:
        """Begin to listen, and wait until it takes prompts. AgentGone, with its own words, if it does not."""
        self._life = asyncio.create_task(self._live())
        try:
            asked = initialize(launch)
            await self._ask(asked.subtype, asked.fields, None)
            if launch.settings.thinking is not None:
                await self.set_thinking(launch.settings.thinking)
        except AgentFailed as error:
            await self._end()
            ended = await self._life
            raise AgentNotRunning(_why(error, ended, self._complaints), code=ended.code, signal=ended.signal) from error
        except BaseException:
            await self._end()
            raise
        self._ready = True

    async def _live(self) -> Exit:
        try:
            await self._link.receive(self._take)
            await self._hand_on(self._splitter.end())
        except Exception:
            # The store's side failed: what the agent says cannot be kept, so it must not go on.
            logger.exception("the agent's records could not be handed on", extra={"pid": self.pid})
        ended = await self._end()
        await self._last_words()
        self._settle(self._pending.close("The agent has exited."))
        await self._serving.close()
        try:
            await self._sink.exited(ended)
        except Exception:
            logger.exception("the end of the agent could not be told", extra={"pid": self.pid})
        return ended

    async def _last_words(self) -> None:
        """What its background subagents wrote that nobody was told of yet."""
        if self._beside is not None and (words := await self._beside.close()):
            with contextlib.suppress(FairleadError):
                await self._deliver(words)

    async def stop(self, reason: str) -> Exit:
        """The ladder. The sink is told by `exited`, which may come after this returns."""
        logger.info("the agent is ended", extra={"pid": self.pid, "reason": reason})
        return await self._end()

    async def _end(self) -> Exit:
        with contextlib.suppress(AgentFailed, TimeoutError):
            await within(self._clock, REFUSING_SECONDS, self._serving.refuse_hooks())
        return await self._link.stop()

    async def tell(self, records: list[Record]) -> None:
        """Records that the link found beside the wire, in order with what came over it."""
        await self._deliver([told for record in records for told in (*await self._before(record), record)])

    def asked(self) -> tuple[str, ...]:
        """The calls about which a person is being asked."""
        return self._serving.calls()

    # --- what it says ------------------------------------------------------------------------------------

    async def _take(self, data: bytes) -> None:
        await self._hand_on(self._splitter.feed(data))

    async def _hand_on(self, lines: Sequence[bytes | Oversize]) -> None:
        if not lines:
            return
        batch: list[Record] = []
        todo: list[WireRecord] = []
        for line in lines:
            record = Record(_stand_in(line) if isinstance(line, Oversize) else line)
            if _CONTROL in record.raw or not self._ready:
                message = decode(record.raw)
                if isinstance(message, ControlRequest) and self._serving.repeats(message):
                    continue
                todo.append(message)
            if self._beside is not None and self._beside.concerns(record.raw):
                # What came before it does not wait for a subagent's file.
                await self._pass_on(batch, todo)
                batch, todo = [*await self._before(record)], []
            batch.append(record)
        await self._pass_on(batch, todo)

    async def _before(self, record: Record) -> Sequence[Record]:
        """What a subagent said before this record, where the wire leaves it out."""
        if self._beside is None or not self._beside.concerns(record.raw):
            return ()
        return await self._beside.before(record.raw)

    async def _pass_on(self, batch: list[Record], todo: Sequence[WireRecord]) -> None:
        if batch:
            await self._deliver(batch)
        for message in todo:
            self._act(message)

    async def _deliver(self, batch: list[Record]) -> None:
        async with self._in_order:
            await self._sink.records(batch)

    def _act(self, record: WireRecord) -> None:
        match record:
            case ControlRequest():
                self._serving.take(record)
            case ControlResponse():
                settled = self._pending.settle(record.response)
                if settled is not None:
                    self._settle([settled])
            case ControlCancel():
                self._serving.withdraw(record.request_id)
            case ResultRecord() if not self._ready:
                self._complaints = tuple(record.errors or ())
            case _:
                pass

    # --- what we say -------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        return self._link.pid

    @property
    def version(self) -> str:
        return ".".join(map(str, self._version))

    @property
    def modes(self) -> tuple[str, ...]:
        return abilities(self._version).modes

    async def write(self, record: Record) -> None:
        # A blank line, a second line or an unknown type would end 2.1.37.
        if b"\n" in record.raw or not isinstance(decode(record.raw), UserRecord):
            raise BadRequest("Only a prompt, on one line, is written to the agent.")
        await self._link.send(record.raw + b"\n")

    @property
    def attended(self) -> bool:
        return False

    async def interrupt(self) -> None:
        await self._ask("interrupt", {}, None)

    async def control(self, subtype: str, fields: Mapping[str, Any], timeout: float | None = None) -> Any:
        if subtype == "initialize":
            raise BadRequest("The gateway alone initializes an agent: a second time would replace its policy hook.")
        return await self._ask(subtype, fields, timeout)

    async def set_mode(self, mode: str) -> None:
        if mode not in self.modes:
            raise BadMode(mode, self.modes)
        await self._ask("set_permission_mode", {"mode": mode}, None)

    async def set_model(self, model: str) -> None:
        await self._ask("set_model", {"model": model or "default"}, None)

    async def set_thinking(self, budget: int | None) -> None:
        await self._ask("set_max_thinking_tokens", {"max_thinking_tokens": budget}, None)

    async def answer(self, request: RequestId, decision: Decision) -> None:
        if not self._link.running:
            raise AgentNotRunning("The agent has exited: it hears no answer any more.", request=request)
        await self._serving.answer(request, decision)

    async def set_variables(self, variables: Mapping[str, str]) -> None:
        if not abilities(self._version).takes_environment:
            raise AgentRefused(f"Claude Code {self.version} takes no environment variables while it runs.")
        await self._link.send(environment_line(dict(variables)))

    def needs_restart(self, old: Settings, new: Settings) -> bool:
        return needs_restart(old, new, self._version)

    async def _ask(self, subtype: str, fields: Mapping[str, Any], timeout: float | None) -> Any:
        request_id = str(uuid.uuid4())
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        seconds = default_timeout(subtype) if timeout is None else timeout
        pending = self._pending.add(request_id, subtype, answered, self._clock.monotonic(), seconds)
        timer = self._clock.call_later(seconds, lambda: self._settle(self._pending.expire(pending.deadline)))
        try:
            await self._link.send(request_line(request_id, OtherRequest(subtype=subtype, fields=dict(fields))))
            try:
                return await answered
            except (AgentTimeout, asyncio.CancelledError):
                await self._withdraw(request_id)
                raise
        finally:
            timer.cancel()
            self._pending.give_up(request_id)
            if answered.done() and not answered.cancelled():
                answered.exception()  # seen, even where the sending failed first

    async def _withdraw(self, request_id: str) -> None:
        """Nobody waits for the answer any more: the agent need not work on it. An old version would exit over this."""
        if abilities(self._version).takes_cancel and self._link.running:
            with contextlib.suppress(AgentFailed):
                await self._link.send(cancel_line(request_id))

    def _settle(self, settled: Sequence[Settled[asyncio.Future[Any]]]) -> None:
        for one in settled:
            waiting = one.pending.token
            if waiting.done():
                continue
            if one.error is not None:
                waiting.set_exception(one.error)
            else:
                waiting.set_result(one.answer)
            for request in one.permissions:
                self._serving.take(request)


def _why(error: AgentFailed, ended: Exit, complaints: tuple[str, ...]) -> str:
    """Why it did not start: its own words where it has some, on stderr or in a result, else how it ended."""
    words = "; ".join(complaints) or ended.stderr.strip()[-2000:]
    if isinstance(error, AgentNotRunning):
        how = f"signal {ended.signal}" if ended.signal is not None else f"code {ended.code}"
        return f"The agent ended before it was ready ({how})" + (f": {words}" if words else ".")
    return error.message + (f" It said: {words}" if words else "")


def _stand_in(line: Oversize) -> bytes:
    """What stands in the log for a line that is too long to keep; its `subtype`, which the event has, is the file."""
    return stand_in(line.place, line.size, line.head, line.cut)
