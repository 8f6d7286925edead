"""The PreToolUse hook: check the policy, ask a person where it says ask, and encode the outcome as a hook answer.

One implementation for hooks that come over the control protocol (control_requests.py) and for command hooks
(tui/hook_server.py). Work started for the log always runs to its end; a call that cannot be decided is denied, never
left to the CLI's own rules. A command hook that was open when its gateway ended comes back to the next one, which does
not decide again what the log has.
"""

import asyncio
import hashlib
import logging
import uuid
from collections.abc import Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Final, Literal

import msgspec

from fairlead.agents.claude.launch import ASK_BINDS_SINCE
from fairlead.agents.claude.tui.stored_state import OpenHook
from fairlead.agents.claude.versions import Version
from fairlead.agents.claude.wire import control
from fairlead.agents.driver import Deliver, background_tasks
from fairlead.agents.links.framing import encode_line
from fairlead.agents.links.kept_output import KeptOutput
from fairlead.model.agents import AgentSink, Decision, PermissionRequest, Record, ToolCheck
from fairlead.model.decisions import decision_of, hook_request, verdict_of
from fairlead.model.errors import Stale
from fairlead.model.events import PermissionResolved
from fairlead.model.ids import CallId, RequestId
from fairlead.model.policy import Behavior, Verdict
from fairlead.system.clock import Clock, Timer

logger = logging.getLogger("fairlead.agents.claude")

NOT_WANTED: Final = "The user does not want this tool to be used."
RETURN_SECONDS: Final = 20.0
"""How long a hook that was open when its gateway ended may take to come back; it tries every two seconds."""


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
    """The permissions of an agent without a control protocol: we hold its PreToolUse hook while a person is asked.

    `output`: where the open hooks are stored for the next gateway, if the agent can outlive this one."""

    def __init__(
        self, sink: AgentSink, deliver: Deliver, version: Version, clock: Clock, output: KeptOutput | None = None
    ) -> None:
        self._sink = sink
        self._deliver = deliver
        self._version = version
        self._clock = clock
        self._output = output
        self._held: dict[RequestId, asyncio.Future[control.HookAnswer]] = {}
        self._expected: dict[RequestId, Timer] = {}
        self._early: dict[RequestId, Decision] = {}
        self._released = False
        self._tasks = background_tasks("a hook of the agent failed")

    async def expect(self, hooks: Iterable[OpenHook]) -> None:
        """Expect hooks back that an earlier gateway held. The request of one that does not come is cancelled: the CLI
        has ended it meanwhile."""
        for hook in hooks:
            if await self._sink.request_state(hook.request) == "pending" and hook.request not in self._held:
                self._remember(hook.request)
                give_up = partial(self._give_up, hook.request)
                self._expected[hook.request] = self._clock.call_later(RETURN_SECONDS, give_up)

    def _give_up(self, request: RequestId) -> None:
        self._arrived(request)
        self._early.pop(request, None)
        self._forget(request)
        self._tasks.spawn(self._sink.permission_cancelled(request))

    def _arrived(self, request: RequestId) -> None:
        timer = self._expected.pop(request, None)
        if timer is not None:
            timer.cancel()

    async def verdict(self, check: ToolCheck) -> Verdict:
        """Return the policy's verdict: the one in the log, if there is one."""
        known = await self._sink.request_state(hook_request(check.call))
        if isinstance(known, PermissionResolved) and (known.tool, known.input) == (check.tool, check.input):
            return verdict_of(known)
        return await check_policy(self._sink, check)

    async def pre_tool_use(self, check: ToolCheck) -> control.HookAnswer:
        """Return the hook's answer once it is decided. If the caller is cancelled, cancel the permission request."""
        request = _request_of(check)
        known = await self._sink.request_state(request)
        if isinstance(known, PermissionResolved):
            return from_decision(decision_of(known))
        self._arrived(request)
        if request in self._early:
            self._forget(request)
            return from_decision(self._early.pop(request))
        if known == "pending" and request not in self._held:
            return await self._hold(request, None)
        verdict = await self._finish(self.verdict(check))
        if verdict.behavior is not Behavior.ASK:
            return from_verdict(verdict, self._version)
        if known != "unknown" or request in self._held:
            request = RequestId(f"hook-{uuid.uuid4()}")  # the same call again, after its request was settled
        return await self._hold(request, permission_request(request, check, verdict))

    async def _hold(self, request: RequestId, new: tuple[PermissionRequest, Record] | None) -> control.HookAnswer:
        """Hold the hook until its request is decided. `new`: the request, if it is not in the log yet."""
        answer: asyncio.Future[control.HookAnswer] = asyncio.get_running_loop().create_future()
        self._held[request] = answer
        self._remember(request)
        try:
            if new is not None:
                await self._finish(self._put(*new))
            return await answer
        except asyncio.CancelledError:
            if not self._released:
                self._tasks.spawn(self._sink.permission_cancelled(request))
            raise
        finally:
            del self._held[request]
            if not self._released:
                self._forget(request)

    def _remember(self, request: RequestId) -> None:
        if self._output is not None:
            self._output.remember(f"hook:{request}", msgspec.json.encode(OpenHook(request)))

    def _forget(self, request: RequestId) -> None:
        if self._output is not None:
            self._output.forget(f"hook:{request}")

    def release(self) -> None:
        """Leave the open requests to the next gateway: hooks that are cancelled from now on do not cancel them."""
        self._released = True
        for timer in self._expected.values():
            timer.cancel()

    async def answer(self, request: RequestId, decision: Decision) -> None:
        """Answer a held hook with the decision of a person or the policy. Raises Stale if it is not open (any more)."""
        if request in self._expected:
            self._early[request] = decision
            return
        answer = self._held.get(request)
        if answer is None or answer.done():
            raise not_open(request)
        answer.set_result(from_decision(decision))

    async def wait_finished(self) -> None:
        """Return when all started tasks have ended; await it before reporting the agent's exit."""
        for timer in self._expected.values():
            timer.cancel()
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


def _request_of(check: ToolCheck) -> RequestId:
    """The name of the permission request of a call. It is the same when its hook comes back after a restart."""
    content = msgspec.json.encode((check.tool, check.input))
    return RequestId(f"hook-{check.call or uuid.uuid4()}-{hashlib.sha256(content).hexdigest()[:12]}")
