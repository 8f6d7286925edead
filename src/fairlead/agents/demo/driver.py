"""The driver of a running demo agent: delivers its events, answers its requests, passes on what the core wants."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.agents.demo import wire
from fairlead.agents.demo.session import VERSION
from fairlead.agents.line_driver import LineDriver
from fairlead.agents.links import Link
from fairlead.agents.links.framing import OversizeSpill
from fairlead.model import events as ev
from fairlead.model.agents import AgentSink, Decision, Exit, Launch, PermissionRequest, Record, ToolCheck
from fairlead.model.commands import Settings
from fairlead.model.errors import AgentRefused, BadMode, HistoryMissing, Stale
from fairlead.model.ids import CallId, MessageId, RequestId
from fairlead.system.clock import Clock

START_SECONDS: Final = 60.0
REQUEST_SECONDS: Final = 30.0


class _OpenRequests:
    """The requests that wait for a decision."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.open: set[str] = set()

    async def answer(self, request: RequestId, decision: Decision) -> None:
        if request not in self.open:
            raise Stale("The agent does not wait for this answer any more.", request=request)
        self.open.discard(request)
        allow, changed = decision.behavior == "allow", decision.updated_input
        message = wire.DecideRequest(
            request=request, allow=allow, message=decision.message, input=changed, interrupt=decision.interrupt
        )
        await self._link.send(wire.encode(message) + b"\n")


class DemoProcess(LineDriver):
    """Implements `model.agents.Agent`."""

    version = VERSION

    def __init__(self, link: Link, sink: AgentSink, clock: Clock, name: str, spill: OversizeSpill | None) -> None:
        super().__init__(link, sink, clock, name, spill)
        self._permissions = self._requests_open = _OpenRequests(link)

    async def start(self, launch: Launch) -> None:
        await self._begin(self._open(launch))

    async def _open(self, launch: Launch) -> None:
        settings = launch.settings
        fields: dict[str, Any] = {"session": launch.session, "resume": launch.resume, "fork": launch.fork}
        limits = {"max_turns": settings.max_turns, "max_budget_usd": settings.max_budget_usd}
        try:
            await self._request(
                wire.OpenSession,
                START_SECONDS,
                at=launch.resume_at,
                model=settings.model,
                mode=settings.mode,
                directories=settings.directories,
                mcp=launch.mcp,
                structured=settings.output_schema is not None,
                **fields,
                **limits,
            )
        except AgentRefused as refused:
            raise HistoryMissing(refused.message) from refused

    async def _request(self, kind: type[Any], seconds: float = REQUEST_SECONDS, **fields: Any) -> Any:
        number = self._next_request()
        line = wire.encode(kind(id=number, **fields)) + b"\n"
        return await self._await_answer(number, line, seconds, str(kind.__struct_config__.tag))

    # --- the agent's output

    async def _handle(self, lines: Sequence[bytes]) -> None:
        batch: list[Record] = []
        todo: list[ev.Event | wire.FromProcess] = []
        for line in lines:
            message = wire.decode(line)
            if not isinstance(message, wire.DemoMessage):
                batch.append(Record(line))
            if message is not None:
                todo.append(message)
        if batch:
            await self._deliver(batch)
        for message in todo:
            self._act(message)

    def _act(self, message: ev.Event | wire.FromProcess) -> None:
        match message:
            case wire.DemoAnswer() if message.id in self._waiting:
                refused = AgentRefused(f"The agent {self._name} refused: {message.error}") if message.error else None
                self._settle(message.id, refused or message.result)
            case wire.CheckCall():
                self._tasks.spawn(self._check(message))
            case wire.McpCall():
                self._tasks.spawn(self._mcp(message))
            case wire.WithdrawRequest() if message.request in self._requests_open.open:
                self._requests_open.open.discard(message.request)
                self._tasks.spawn(self._sink.permission_cancelled(RequestId(message.request)))
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                self._requests_open.open.add(message.request)
                ask = PermissionRequest(message.request, message.call, message.tool, message.input)
                self._tasks.spawn(self._sink.permission_requested(ask))
            case _:
                pass

    async def _check(self, check: wire.CheckCall) -> None:
        try:
            verdict = await self._sink.check(ToolCheck(CallId(check.call), check.tool, check.input, check.mode))
            answer = wire.DemoAnswer(id=check.id, result={"behavior": verdict.behavior, "reason": verdict.reason})
        except Exception:
            await self._reply(wire.DemoAnswer(id=check.id, error="the policy failed"))
            raise
        await self._reply(answer)

    async def _mcp(self, call: wire.McpCall) -> None:
        try:
            answer = wire.DemoAnswer(id=call.id, result=await self._sink.mcp(call.server, call.message))
        except Exception as error:
            answer = wire.DemoAnswer(id=call.id, error=str(error) or "the MCP server failed")
        await self._reply(answer)

    async def _reply(self, message: wire.DemoMessage) -> None:
        await self._link.send(wire.encode(message) + b"\n")

    # --- the agent's input

    async def write(self, record: Record) -> None:
        await self._link.send(record.raw + b"\n")

    async def interrupt(self) -> None:
        await self._reply(wire.InterruptTurn())

    async def control(self, subtype: str, fields: Mapping[str, Any], timeout: float | None = None) -> Any:
        if subtype == "stop_task":
            return await self._request(wire.StopTask, task=str(fields.get("task_id")))
        return await super().control(subtype, fields, timeout)

    async def set_mode(self, mode: str) -> None:
        if mode not in self.modes:
            raise BadMode(mode, self.modes)
        await self._request(wire.SetMode, mode=mode)

    async def set_model(self, model: str) -> None:
        await self._request(wire.SetModel, model=model)

    async def set_thinking(self, budget: int | None) -> None:
        """Without effect: the script determines the length of its thinking."""

    async def rewind(self, message: MessageId, *, dry_run: bool) -> dict[str, Any]:
        result: dict[str, Any] = await self._request(wire.RewindFiles, message=message, dry_run=dry_run)
        return result

    def needs_restart(self, old: Settings, new: Settings) -> bool:
        names = ("link", "directories", "mcp_servers", "max_turns", "max_budget_usd", "output_schema")
        return any(getattr(old, name) != getattr(new, name) for name in names)

    async def _finish(self, ended: Exit) -> Exit:
        self._requests_open.open.clear()
        return await super()._finish(ended)
