"""The driver of a running demo agent: delivers its events, answers its requests, passes on what the core wants."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.agents.demo.session import VERSION
from fairlead.agents.demo.wire import AgentEvent, DemoMessage, decode, encode
from fairlead.agents.line_driver import LineDriver, OpenRequests
from fairlead.agents.links import Link
from fairlead.agents.links.framing import OversizeSpill
from fairlead.agents.links.kept_output import prompt_key, reply_key
from fairlead.model import events as ev
from fairlead.model.agents import AgentSink, Decision, Launch, PermissionRequest, Record, ToolCheck
from fairlead.model.commands import Settings
from fairlead.model.decisions import decision_of, hook_request, verdict_of
from fairlead.model.errors import AgentRefused, HistoryMissing
from fairlead.model.ids import MessageId, RequestId
from fairlead.model.policy import Verdict
from fairlead.system.clock import Clock

START_SECONDS: Final = 60.0
REQUEST_SECONDS: Final = 30.0


class DemoProcess(LineDriver):
    """Implements `model.agents.Agent`."""

    version = VERSION

    def __init__(self, link: Link, sink: AgentSink, clock: Clock, name: str, spill: OversizeSpill | None) -> None:
        super().__init__(link, sink, clock, name, spill)
        self._permissions = self._open = OpenRequests(self._decide)

    async def start(self, launch: Launch) -> None:
        """Raises AgentNotRunning, HistoryMissing."""
        await self._begin(self._open_session(launch))

    async def _open_session(self, launch: Launch) -> None:
        try:
            await self._request("open", launch, START_SECONDS)
        except AgentRefused as refused:
            raise HistoryMissing(refused.message) from refused

    async def _decide(self, request: RequestId, decision: Decision) -> None:
        await self._send(DemoMessage("decide", request, decision), reply_key(request))
        self._forget(request)

    async def _send(self, message: DemoMessage, key: str = "") -> None:
        await self._link.send(encode(message) + b"\n", key)

    async def _request(self, do: str, data: Any, seconds: float = REQUEST_SECONDS) -> Any:
        number = self._next_request()
        return await self._await_answer(number, encode(DemoMessage(do, number, data)) + b"\n", seconds, do)

    async def _handle(self, lines: Sequence[bytes], end: int | None) -> None:
        found = [(line, decode(line)) for line in lines]
        for line, message in found:
            self._note(line, message)
        batch = [Record(line) for line, message in found if not isinstance(message, DemoMessage)]
        if batch:
            await self._deliver(batch, end)
        for _, message in found:
            match message:
                case DemoMessage(do="answer") if message.id in self._waiting:
                    self._settle(message.id, self._answer_of(message))
                case DemoMessage(do="withdraw") if message.id in self._open:
                    self._open.discard(message.id)
                    self._tasks.spawn(self._sink.permission_cancelled(RequestId(message.id)))
                case DemoMessage(do="check" | "mcp"):
                    self._tasks.spawn(self._serve(message))
                case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                    self._open.add(message.request)
                    ask = PermissionRequest(message.request, message.call, message.tool, message.input)
                    self._tasks.spawn(self._sink.permission_requested(ask))

    def _answer_of(self, message: DemoMessage) -> Any:
        return AgentRefused(f"The agent {self._name} refused: {message.error}") if message.error else message.data

    # --- after a restart of the gateway

    def _note(self, line: bytes, message: AgentEvent | DemoMessage | None) -> None:
        """Store the lines that a restarted gateway needs again: answers of the start, and open requests."""
        match message:
            case DemoMessage(do="answer"):
                self._remember_answer(message.id, line)
            case DemoMessage(do="withdraw"):
                self._forget(message.id)
            case DemoMessage(do="check" | "mcp"):
                self._remember(message.id, line)
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                self._remember(message.request, line)

    async def _recall(self, line: bytes) -> None:
        match message := decode(line):
            case DemoMessage(do="answer"):
                self._answered[message.id] = self._answer_of(message)
                self._remember_answer(message.id, line)
            case DemoMessage(do="check" | "mcp"):
                self._remember(message.id, line)
                self._tasks.spawn(self._serve(message))
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                known = await self._sink.request_state(message.request)
                if isinstance(known, ev.PermissionResolved):
                    self._tasks.spawn(self._decide(message.request, decision_of(known)))
                elif known == "pending":
                    self._remember(message.request, line)
                    self._open.add(message.request)

    async def _serve(self, asked: DemoMessage) -> None:
        """Answer a request of the agent. A call that the policy could not check does not run."""
        try:
            result: Any
            if asked.do == "check":
                result = await self._check(msgspec.convert(asked.data, ToolCheck))
            else:
                result = await self._sink.mcp(asked.data["server"], asked.data["message"])
        except Exception as error:
            await self._send(
                DemoMessage("answer", asked.id, error=str(error) or "the gateway failed"), reply_key(asked.id)
            )
            raise
        await self._send(DemoMessage("answer", asked.id, result), reply_key(asked.id))
        self._forget(asked.id)

    async def _check(self, check: ToolCheck) -> Verdict:
        if self._output is not None and self._output.adopted:
            known = await self._sink.request_state(hook_request(check.call))
            if isinstance(known, ev.PermissionResolved):
                return verdict_of(known)
        return await self._sink.check(check)

    # --- the agent's input

    async def write(self, record: Record, *, again: bool = False) -> None:
        await self._link.send(record.raw + b"\n", prompt_key(record.raw))

    async def interrupt(self, key: str = "") -> None:
        await self._send(DemoMessage("interrupt"), key)

    async def control(self, subtype: str, fields: Mapping[str, Any], timeout: float | None = None) -> Any:
        if subtype == "stop_task":
            return await self._request("stop_task", fields.get("task_id"))
        return await super().control(subtype, fields, timeout)

    async def set_mode(self, mode: str) -> None:
        await super().set_mode(mode)
        await self._request("set_mode", mode)

    async def set_model(self, model: str) -> None:
        await self._request("set_model", model)

    async def set_thinking(self, budget: int | None) -> None:
        """Without effect: the script determines the length of its thinking."""

    async def rewind(self, message: MessageId, *, dry_run: bool) -> dict[str, Any]:
        result: dict[str, Any] = await self._request("rewind", {"message": message, "dry_run": dry_run})
        return result

    def needs_restart(self, old: Settings, new: Settings) -> bool:
        kept = msgspec.structs.replace(old, model=new.model, mode=new.mode, thinking=new.thinking)
        return kept != new
