"""The PreToolUse hook: check the policy, ask a person where it says ask, and encode the outcome as a hook answer.

One implementation for hooks that come over the control protocol (control_requests.py) and for command hooks
(tui/hook_server.py). Work started for the log always runs to its end; a call that cannot be decided is denied, never
left to the CLI's own rules.
"""

import asyncio
import logging
import uuid
from collections.abc import Coroutine, Mapping
from typing import Any, Final, Literal

import msgspec

from fairlead.agents.claude.launch import ASK_BINDS_SINCE
from fairlead.agents.claude.versions import Version
from fairlead.agents.claude.wire import control
from fairlead.agents.driver import Deliver, background_tasks
from fairlead.agents.links.framing import encode_line
from fairlead.model.agents import AgentSink, Decision, PermissionRequest, Record, ToolCheck
from fairlead.model.errors import Stale
from fairlead.model.ids import CallId, RequestId
from fairlead.model.policy import Behavior, Verdict

logger = logging.getLogger("fairlead.agents.claude")

NOT_WANTED: Final = "The user does not want this tool to be used."


class _PreToolUse(msgspec.Struct):
    """The fields of the hook's input that we read."""

    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: str = ""
    permission_mode: str = ""
    cwd: str = ""


def parse_call(given: Mapping[str, Any], call: str = "") -> ToolCheck | control.HookAnswer:
    """Parse the hook's input into the call to check; `call` is its id where it came separately from the input. If the
    input is not understood, return the denial."""
    try:
        parsed = msgspec.convert(given, _PreToolUse)
    except msgspec.ValidationError as error:
        return deny(f"The gateway did not understand the call: {error}")
    return ToolCheck(
        call=CallId(call or parsed.tool_use_id),
        tool=parsed.tool_name,
        input=parsed.tool_input,
        mode=parsed.permission_mode,
        folder=parsed.cwd,
    )


async def check_policy(sink: AgentSink, check: ToolCheck) -> Verdict:
    """Return the policy's verdict. If the policy fails, deny: an error answer would let the CLI apply its own rules."""
    try:
        return await sink.check(check)
    except Exception:
        logger.exception("the policy failed", extra={"call": check.call, "tool": check.tool})
        return Verdict(Behavior.DENY, "The gateway could not decide about this call.")


def permission_request(request: str, check: ToolCheck, verdict: Verdict) -> tuple[PermissionRequest, Record]:
    """Build a permission request, and the record that the CLI would have sent for it, so that every projection shows
    the request."""
    body = {
        "subtype": "can_use_tool",
        "tool_name": check.tool,
        "input": check.input,
        "tool_use_id": check.call,
        "decision_reason": verdict.reason,
    }
    line = encode_line({"type": "control_request", "request_id": request, "request": body})
    ask = PermissionRequest(request=RequestId(request), call=check.call, tool=check.tool, input=check.input)
    return ask, Record(line[:-1])


def from_verdict(verdict: Verdict, version: Version) -> control.HookAnswer:
    if verdict.behavior is Behavior.ALLOW and version < ASK_BINDS_SINCE and verdict.by != "rule":
        # In these versions our allow would override the user's own deny rules: unless a rule allows, theirs decide.
        return control.HookAnswer()
    return _decided(verdict.behavior.value, verdict.reason)


def from_decision(decision: Decision) -> control.HookAnswer:
    if decision.behavior == "deny":
        denied = deny(decision.message or NOT_WANTED)
        if not decision.interrupt:
            return denied
        return msgspec.structs.replace(denied, continue_=False, stopReason="The user ended the run.")
    return _decided("allow", None, decision.updated_input)


def deny(reason: str) -> control.HookAnswer:
    return _decided("deny", reason)


def _decided(
    decision: Literal["allow", "deny", "ask"], reason: str | None, updated_input: dict[str, Any] | None = None
) -> control.HookAnswer:
    output = control.HookOutput(
        hookEventName="PreToolUse",
        permissionDecision=decision,
        permissionDecisionReason=reason,
        updatedInput=updated_input,
    )
    return control.HookAnswer(hookSpecificOutput=output)


def not_open(request: RequestId) -> Stale:
    return Stale(f"The permission request {request[:80]} is not open any more.", request=request[:80])


class HookPermissions:
    """The permissions of an agent without a control protocol: we hold its PreToolUse hook while a person is asked."""

    def __init__(self, sink: AgentSink, deliver: Deliver, version: Version) -> None:
        self._sink = sink
        self._deliver = deliver
        self._version = version
        self._held: dict[RequestId, asyncio.Future[control.HookAnswer]] = {}
        self._tasks = background_tasks("a hook of the agent failed")

    async def pre_tool_use(self, check: ToolCheck) -> control.HookAnswer:
        """Return the hook's answer once it is decided. If the caller is cancelled, cancel the permission request."""
        verdict = await self._finish(check_policy(self._sink, check))
        if verdict.behavior is not Behavior.ASK:
            return from_verdict(verdict, self._version)
        ask, record = permission_request(f"hook-{uuid.uuid4()}", check, verdict)
        answer: asyncio.Future[control.HookAnswer] = asyncio.get_running_loop().create_future()
        self._held[ask.request] = answer
        try:
            await self._finish(self._put(ask, record))
            return await answer
        except asyncio.CancelledError:
            self._tasks.spawn(self._sink.permission_cancelled(ask.request))
            raise
        finally:
            del self._held[ask.request]

    async def answer(self, request: RequestId, decision: Decision) -> None:
        """Answer a held hook with the decision of a person or the policy. Raises Stale if it is not open (any more)."""
        answer = self._held.get(request)
        if answer is None or answer.done():
            raise not_open(request)
        answer.set_result(from_decision(decision))

    async def wait_finished(self) -> None:
        """Return when all started tasks have ended; await it before reporting the agent's exit."""
        await self._tasks.wait()

    async def _put(self, ask: PermissionRequest, record: Record) -> None:
        await self._deliver([record])
        await self._sink.permission_requested(ask)

    async def _finish(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run `work` to its end even if the caller is cancelled; then raise the cancellation."""
        task = self._tasks.spawn(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            raise
