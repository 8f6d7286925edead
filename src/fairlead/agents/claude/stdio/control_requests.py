"""The control requests of the CLI: the policy hook before a tool, a permission, an MCP message; others are rejected.

A separate task serves each request, so that we keep reading the CLI's output while a person decides. A request that
the CLI cancels gets no answer, but work that was started for it runs to its end: a half-written log is worse.

CLIs before 2.1.120 treat a hook's `ask` as "apply your own rules" and let a project's allow rules or a mode decide
(measured). For those versions and tools that none of our ask rules covers (see launch.py), we hold the hook itself
open while the person is asked, and answer it with the person's decision.
"""

import asyncio
import hashlib
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
from fairlead.agents.links.framing import encode_line
from fairlead.agents.links.kept_output import KeptOutput, reply_key
from fairlead.model.agents import AgentSink, Decision, PermissionRequest, RequestState, ToolCheck
from fairlead.model.decisions import decision_of, hook_request, verdict_of
from fairlead.model.errors import FairleadError
from fairlead.model.events import PermissionResolved
from fairlead.model.formats.bounded_tables import put
from fairlead.model.ids import CallId, RequestId
from fairlead.model.policy import Behavior, Verdict
from fairlead.system.clock import Clock, ends_within

logger = logging.getLogger("fairlead.agents.claude")

MOST_OPEN: Final = 1000
"""How many of the CLI's requests may be open at once; the CLI runs a handful of tools at a time."""

CLOSING_SECONDS: Final = 10.0
"""How long tasks started for a CLI that has exited may take to finish."""

Send = Callable[[bytes, str], Coroutine[Any, Any, None]]
"""Sends a line with its key: a kept agent gets a line with the same key only once."""


class AllowedCall(msgspec.Struct, frozen=True, tag_field="type", tag="fairlead_allowed"):
    """A call that the hook has allowed, as a line that a restarted gateway recalls; `digest` is that of the input."""

    call: str
    digest: str


class _OpenRequest:
    def __init__(self, record: ControlRequest) -> None:
        self.record = record
        self.ask: PermissionRequest | None = None
        self.held = False
        self.withdrawn = False
        self.again = False
        """An earlier gateway has received it, and may have handled a part of it."""
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
        output: KeptOutput | None = None,
    ) -> None:
        """`observes`: the CLI has a caller of its own, which decides. The policy denies what a rule or the fence
        denies, and nothing else; requests wait for a person, here or at the caller. `output`: where open requests are
        noted for a restarted gateway."""
        self._sink = sink
        self._send = send
        self._deliver = deliver
        self._clock = clock
        self._version = version
        self._observes = observes
        self._output = output
        self._open: dict[str, _OpenRequest] = {}
        self._allowed: dict[str, str] = {}
        """Calls that the hook has allowed, each with the digest of its input."""
        self._tasks = background_tasks("a request of the agent failed")
        self._interruptible: set[asyncio.Task[None]] = set()

    def answer_if_duplicate(self, record: ControlRequest) -> bool:
        """Return whether this request repeats a call that the hook has just allowed; if so, answer it here.

        The policy or, for a held hook, a person has allowed the call already, so the core never sees the request.
        Versions that are launched with ask rules (see launch.py) ask even though the hook has allowed the call."""
        asked = control.parse_request(record)
        if not isinstance(asked, control.CanUseTool) or self._allowed.get(asked.tool_use_id) != _digest(asked.input):
            return False
        self._tasks.spawn(self._answer_duplicate(record.request_id, asked))
        return True

    async def _answer_duplicate(self, request: str, asked: control.CanUseTool) -> None:
        allow = control.AllowTool(updatedInput=asked.input, toolUseID=asked.tool_use_id)
        await self._send(control.answer_line(request, allow), reply_key(request))
        # Not earlier: a restarted gateway must find the call and the request that repeats it.
        self._allowed.pop(asked.tool_use_id, None)
        self._forget(f"allowed:{asked.tool_use_id}")
        self._forget(f"request:{request}")

    def _allow(self, call: str, given: dict[str, Any]) -> None:
        """Remember that the hook has allowed a call with this input."""
        allowed = AllowedCall(call, _digest(given))
        put(self._allowed, call, allowed.digest, MOST_OPEN)
        if self._output is not None:
            self._output.remember(f"allowed:{call}", encode_line(allowed)[:-1])

    def forget_allowed(self) -> None:
        """Forget the allowed calls: the turn is over, so none of them is asked again."""
        self._allowed.clear()
        if self._output is not None:
            self._output.forget_all("allowed:")

    def note(self, record: ControlRequest, raw: bytes) -> None:
        """Note a request for a restarted gateway, before its record is delivered."""
        if self._output is not None:
            self._output.remember(f"request:{record.request_id}", raw)

    def recall(self, record: ControlRequest | AllowedCall, raw: bytes) -> None:
        """Handle a line of an earlier gateway again."""
        if isinstance(record, AllowedCall):
            put(self._allowed, record.call, record.digest, MOST_OPEN)
            if self._output is not None:
                self._output.remember(f"allowed:{record.call}", raw)
            return
        self.note(record, raw)
        if not self.answer_if_duplicate(record):
            self._handle(record, again=True)

    def _forget(self, name: str) -> None:
        if self._output is not None:
            self._output.forget(name)

    def handle(self, record: ControlRequest) -> None:
        """Start serving a request. Returns at once."""
        self._handle(record, again=False)

    def _handle(self, record: ControlRequest, *, again: bool) -> None:
        if record.request_id in self._open:
            return  # repeated in an error answer; it is already being served
        asked = control.parse_request(record)
        if len(self._open) >= MOST_OPEN:
            problem = f"More than {MOST_OPEN} requests are open."
            if isinstance(asked, control.HookCallback):
                line = control.answer_line(record.request_id, tool_hooks.deny(problem))
            else:
                line = control.error_line(record.request_id, problem)
            self._tasks.spawn(self._send(line, reply_key(record.request_id)))
            return
        opened = self._open[record.request_id] = _OpenRequest(record)
        opened.again = again
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
        self._forget(f"request:{request_id}")
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
            self._allow(opened.ask.call, opened.ask.input if decision.updated_input is None else decision.updated_input)
        await self._reply(opened, control.answer_line, tool_hooks.from_decision(decision))

    def settle(self, request: RequestId) -> None:
        """Forget a request: the caller of the CLI has answered it."""
        self._open.pop(request, None)
        self._forget(f"request:{request}")

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
        if opened.again:
            await self._repeat_answer(opened, await self._sink.request_state(opened.ask.request))
        elif not self._observes:
            await self._sink.permission_requested(opened.ask)

    async def _repeat_answer(self, opened: _OpenRequest, known: RequestState) -> None:
        """Answer a request that was resolved before a restart of the gateway; the agent may not have the answer."""
        if isinstance(known, PermissionResolved):
            await self.answer(known.request, decision_of(known))
        elif known == "settled":
            self._open.pop(opened.record.request_id, None)
            self._forget(f"request:{opened.record.request_id}")

    async def _hook(self, opened: _OpenRequest, asked: control.HookCallback) -> None:
        if asked.callback_id != POLICY_HOOK:
            await self._reply(opened, control.error_line, f"No hook {asked.callback_id[:80]!r} was registered.")
            return
        check = tool_hooks.parse_call(asked.input, asked.tool_use_id or "")
        if isinstance(check, control.HookAnswer):
            await self._reply(opened, control.answer_line, check)
            return
        verdict = await self._verdict(opened, msgspec.structs.replace(check, observed=self._observes))
        if self._observes:
            answer = tool_hooks.deny(verdict.reason) if verdict.behavior is Behavior.DENY else control.HookAnswer()
            await self._reply(opened, control.answer_line, answer)
            return
        if verdict.behavior is Behavior.ASK and must_hold(check.tool, self._version):
            await self._hold(opened, check, verdict)
            return
        if verdict.behavior is Behavior.ALLOW and self._version < BLOCKS_SINCE:
            self._allow(check.call, check.input)
        await self._reply(opened, control.answer_line, tool_hooks.from_verdict(verdict, self._version))

    async def _verdict(self, opened: _OpenRequest, check: ToolCheck) -> Verdict:
        if opened.again:
            known = await self._sink.request_state(hook_request(check.call))
            if isinstance(known, PermissionResolved):
                return verdict_of(known)
        return await tool_hooks.check_policy(self._sink, check)

    async def _hold(self, opened: _OpenRequest, check: ToolCheck, verdict: Verdict) -> None:
        """Hold the hook open and ask the person now."""
        if opened.withdrawn:
            return
        opened.held = True
        opened.ask, record = tool_hooks.permission_request(opened.record.request_id, check, verdict)
        known = await self._sink.request_state(opened.ask.request) if opened.again else "unknown"
        if known != "unknown":
            await self._repeat_answer(opened, known)
            return
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
        request = opened.record.request_id
        self._open.pop(request, None)
        await self._send(line(request, content), reply_key(request))
        self._forget(f"request:{request}")

    async def _cancel(self, opened: _OpenRequest) -> None:
        if opened.task is not None:
            await asyncio.wait({opened.task})  # the sink must receive the request before its cancellation
        if opened.ask is not None:
            await self._sink.permission_cancelled(opened.ask.request)


def _digest(given: dict[str, Any]) -> str:
    return hashlib.sha256(encode_line(given)).hexdigest()


def _permission_answer(decision: Decision, ask: PermissionRequest) -> control.AllowTool | control.DenyTool:
    call = decision.call or ask.call
    if decision.behavior == "deny":
        message = decision.message or tool_hooks.NOT_WANTED
        return control.DenyTool(message=message, interrupt=decision.interrupt, toolUseID=call)
    given = ask.input if decision.updated_input is None else decision.updated_input
    return control.AllowTool(updatedInput=given, toolUseID=call)


def _json_rpc_error(message_id: Any, problem: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message_id, "error": {"code": -32603, "message": problem}}
