"""The control requests of the CLI: the policy hook before a tool, a permission, an MCP message; others are rejected.

A separate task serves each request, so that we keep reading the CLI's output while a person decides. A request that
the CLI cancels gets no answer, but work that was started for it runs to its end: a half-written log is worse.

CLIs before 2.1.120 treat a hook's `ask` as "apply your own rules" and let a project's allow rules or a mode decide
(measured). For those versions and tools that none of our ask rules covers (see launch.py), we hold the hook itself
open while the person is asked, and answer it with the person's decision.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from fairlead.agents.claude.launch import BLOCKS_SINCE, POLICY_HOOK, must_hold
from fairlead.agents.claude.stdio import tool_hooks
from fairlead.agents.claude.versions import Version
from fairlead.agents.claude.wire import control
from fairlead.agents.claude.wire.records import ControlRequest
from fairlead.agents.driver import Deliver, background_tasks
from fairlead.model.agents import AgentSink, Decision, PermissionRequest, ToolCheck
from fairlead.model.errors import FairleadError
from fairlead.model.formats.bounded_tables import put
from fairlead.model.ids import CallId, RequestId
from fairlead.model.policy import Behavior, Verdict
from fairlead.system.clock import Clock, ends_within

logger = logging.getLogger("fairlead.agents.claude")

MOST_OPEN: Final = 1000
"""How many of the CLI's requests may be open at once; the CLI runs a handful of tools at a time."""

CLOSING_SECONDS: Final = 10.0
"""How long tasks started for a CLI that has exited may take to finish."""

Send = Callable[[bytes], Coroutine[Any, Any, None]]


class _OpenRequest:
    def __init__(self, record: ControlRequest) -> None:
        self.record = record
        self.ask: PermissionRequest | None = None
        self.held = False
        self.withdrawn = False
        self.task: asyncio.Task[None] | None = None


class ControlRequestHandler:
    """The open requests of one CLI process."""

    def __init__(
        self,
        sink: AgentSink,
        send: Send,
        deliver: Deliver,
        clock: Clock,
        version: Version,
        *,
        observes: bool = False,
    ) -> None:
        """`observes`: the CLI has a caller of its own, which decides. The policy denies what a rule or the fence
        denies, and nothing else; requests wait for a person, here or at the caller."""
        self._sink = sink
        self._send = send
        self._deliver = deliver
        self._clock = clock
        self._version = version
        self._observes = observes
        self._open: dict[str, _OpenRequest] = {}
        self._allowed: dict[str, dict[str, Any]] = {}
        self._tasks = background_tasks("a request of the agent failed")
        self._interruptible: set[asyncio.Task[None]] = set()

    def answer_if_duplicate(self, record: ControlRequest) -> bool:
        """Return whether this request repeats a call that the hook has just allowed; if so, answer it here.

        The policy or, for a held hook, a person has allowed the call already, so the core never sees the request.
        Versions that are launched with ask rules (see launch.py) ask even though the hook has allowed the call."""
        asked = control.parse_request(record)
        if not isinstance(asked, control.CanUseTool) or self._allowed.get(asked.tool_use_id) != asked.input:
            return False
        del self._allowed[asked.tool_use_id]
        allow = control.AllowTool(updatedInput=asked.input, toolUseID=asked.tool_use_id)
        self._tasks.spawn(self._send(control.answer_line(record.request_id, allow)))
        return True

    def handle(self, record: ControlRequest) -> None:
        """Start serving a request. Returns at once."""
        if record.request_id in self._open:
            return  # repeated in an error answer; it is already being served
        asked = control.parse_request(record)
        if len(self._open) >= MOST_OPEN:
            problem = f"More than {MOST_OPEN} requests are open."
            if isinstance(asked, control.HookCallback):
                line = control.answer_line(record.request_id, tool_hooks.deny(problem))
            else:
                line = control.error_line(record.request_id, problem)
            self._tasks.spawn(self._send(line))
            return
        opened = self._open[record.request_id] = _OpenRequest(record)
        match asked:
            case control.CanUseTool():
                opened.task = self._tasks.spawn(self._permission(opened, asked))
            case control.HookCallback():
                opened.task = self._tasks.spawn(self._hook(opened, asked))
            case control.McpCall():
                opened.task = self._tasks.spawn(self._mcp(opened, asked))
                self._interruptible.add(opened.task)
                opened.task.add_done_callback(self._interruptible.discard)
            case control.RejectedRequest():
                opened.task = self._tasks.spawn(self._reply(opened, control.error_line, asked.problem))

    def cancel(self, request_id: str) -> None:
        """Cancel a request that the CLI has withdrawn. Returns at once."""
        opened = self._open.pop(request_id, None)
        if opened is not None:
            opened.withdrawn = True
            self._tasks.spawn(self._cancel(opened))

    async def answer(self, request: RequestId, decision: Decision) -> None:
        """Answer a request with the decision of a person or the policy. Raises Stale if it is not open (any more)."""
        opened = self._open.get(request)
        if opened is None or opened.ask is None:
            raise tool_hooks.not_open(request)
        if not opened.held:
            await self._reply(opened, control.answer_line, _permission_answer(decision, opened.ask))
            return
        if decision.behavior == "allow":
            given = opened.ask.input if decision.updated_input is None else decision.updated_input
            put(self._allowed, opened.ask.call, given, MOST_OPEN)
        await self._reply(opened, control.answer_line, tool_hooks.from_decision(decision))

    def settle(self, request: RequestId) -> None:
        """Forget a request: the caller of the CLI has answered it."""
        self._open.pop(request, None)

    def open_calls(self) -> tuple[str, ...]:
        """The calls with an undecided permission request."""
        return tuple(opened.ask.call for opened in self._open.values() if opened.ask is not None)

    async def deny_hooks(self) -> None:
        """Deny all open hooks before the CLI's input is closed: an unanswered hook would leave the tool to the CLI's
        own rules."""
        for opened in list(self._open.values()):
            if opened.record.subtype == "hook_callback":
                await self._reply(opened, control.answer_line, tool_hooks.deny("The gateway ends this agent."))
                opened.withdrawn = True

    async def close(self) -> None:
        """Drop all open requests after the CLI has exited; return when all started tasks have ended."""
        for opened in self._open.values():
            opened.withdrawn = True
        self._open.clear()
        for task in self._interruptible:
            task.cancel()
        if not await ends_within(self._clock, CLOSING_SECONDS, self._tasks.wait()):
            logger.error("requests of the agent did not finish in time", extra={"open": len(self._tasks)})
            self._tasks.cancel()

    # --- one request -----------------------------------------------------------------------------------

    async def _permission(self, opened: _OpenRequest, asked: control.CanUseTool) -> None:
        opened.ask = PermissionRequest(
            request=RequestId(opened.record.request_id),
            call=CallId(asked.tool_use_id),
            tool=asked.tool_name,
            input=asked.input,
            suggestions=tuple(asked.permission_suggestions or ()),
        )
        if not self._observes:
            await self._sink.permission_requested(opened.ask)

    async def _hook(self, opened: _OpenRequest, asked: control.HookCallback) -> None:
        if asked.callback_id != POLICY_HOOK:
            await self._reply(opened, control.error_line, f"No hook {asked.callback_id[:80]!r} was registered.")
            return
        check = tool_hooks.parse_call(asked.input, asked.tool_use_id or "")
        if isinstance(check, control.HookAnswer):
            await self._reply(opened, control.answer_line, check)
            return
        verdict = await tool_hooks.check_policy(self._sink, msgspec.structs.replace(check, observed=self._observes))
        if self._observes:
            answer = tool_hooks.deny(verdict.reason) if verdict.behavior is Behavior.DENY else control.HookAnswer()
            await self._reply(opened, control.answer_line, answer)
            return
        if verdict.behavior is Behavior.ASK and must_hold(check.tool, self._version):
            await self._hold(opened, check, verdict)
            return
        if verdict.behavior is Behavior.ALLOW and self._version < BLOCKS_SINCE:
            put(self._allowed, check.call, check.input, MOST_OPEN)
        await self._reply(opened, control.answer_line, tool_hooks.from_verdict(verdict, self._version))

    async def _hold(self, opened: _OpenRequest, check: ToolCheck, verdict: Verdict) -> None:
        """Hold the hook open and ask the person now."""
        if opened.withdrawn:
            return
        opened.held = True
        opened.ask, record = tool_hooks.permission_request(opened.record.request_id, check, verdict)
        await self._deliver([record])
        await self._sink.permission_requested(opened.ask)

    async def _mcp(self, opened: _OpenRequest, asked: control.McpCall) -> None:
        message_id = asked.message.get("id")
        try:
            answer = await self._sink.mcp(asked.server_name, asked.message)
        except FairleadError as error:
            answer = _json_rpc_error(message_id, error.message)
        except Exception:
            logger.exception("an MCP server failed", extra={"server": asked.server_name})
            answer = _json_rpc_error(message_id, f"The server {asked.server_name} failed.")
        # A notification has no answer, but the CLI waits for one all the same.
        answer = answer or {"jsonrpc": "2.0", "id": 0 if message_id is None else message_id, "result": {}}
        await self._reply(opened, control.mcp_answer_line, answer)

    async def _reply(self, opened: _OpenRequest, line: Callable[[str, Any], bytes], content: Any) -> None:
        if opened.withdrawn:
            return
        self._open.pop(opened.record.request_id, None)
        await self._send(line(opened.record.request_id, content))

    async def _cancel(self, opened: _OpenRequest) -> None:
        if opened.task is not None:
            await asyncio.wait({opened.task})  # the sink must receive the request before its cancellation
        if opened.ask is not None:
            await self._sink.permission_cancelled(opened.ask.request)


def _permission_answer(decision: Decision, ask: PermissionRequest) -> control.AllowTool | control.DenyTool:
    call = decision.call or ask.call
    if decision.behavior == "deny":
        message = decision.message or tool_hooks.NOT_WANTED
        return control.DenyTool(message=message, interrupt=decision.interrupt, toolUseID=call)
    given = ask.input if decision.updated_input is None else decision.updated_input
    return control.AllowTool(updatedInput=given, toolUseID=call)


def _json_rpc_error(message_id: Any, problem: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message_id, "error": {"code": -32603, "message": problem}}
