"""Decides whether a call may run: the gateway's policy allows or denies it, or a person is asked."""

import os.path
import uuid
from typing import TYPE_CHECKING, Any

from fairlead.agents.demo import wire
from fairlead.agents.demo.host import HostFailed, HostGone
from fairlead.agents.demo.tools import PLAN, QUESTION, Record, ToolFailed
from fairlead.model import events as ev
from fairlead.model.ids import CallId, RequestId

if TYPE_CHECKING:
    from fairlead.agents.demo.session import DemoSession, ToolRun


class Stopped(Exception):
    """A person denies the call and ends the turn."""


async def pass_or_refuse(session: "DemoSession", run: "ToolRun", arguments: Record) -> Record:
    """Return the input to run the call with. Raises ToolFailed or Stopped if it may not run."""
    about = {"call": run.call, "tool": run.name, "input": arguments, "mode": session.mode}
    try:
        verdict: Record = await session.host.ask(wire.CheckCall, **about)
    except HostGone:
        raise ToolFailed("The gateway went away before it decided about this call.") from None
    except HostFailed:
        verdict = {"behavior": "deny", "reason": "the gateway failed to decide"}
    if verdict["behavior"] == "deny":
        raise ToolFailed(f"The policy denies {run.name}: {verdict['reason']}")
    if verdict["behavior"] == "allow" and run.name not in (QUESTION, PLAN):
        return arguments
    return await _ask(session, run, arguments, verdict["reason"])


async def _ask(session: "DemoSession", run: "ToolRun", arguments: Record, reason: str) -> Record:
    request = RequestId(str(uuid.uuid4()))
    fields: dict[str, Any] = {"request": request, "call": CallId(run.call), "tool": run.name, "input": arguments}
    kind: type[Any] = ev.PermissionRequested
    if run.name == QUESTION:
        kind = ev.QuestionAsked
        fields["questions"] = tuple(arguments.get("questions") or ())
    elif run.name == PLAN:
        kind = ev.PlanProposed
        fields["plan"] = str(arguments.get("plan") or "")
    else:
        title = arguments.get("description") or os.path.basename(str(arguments.get("file_path", "")))
        fields |= {"title": str(title), "reason": reason}
    try:
        answer: wire.DecideRequest = await session.host.answer_to(
            request, lambda: session.host.emit(kind, subagent=run.subagent, **fields)
        )
    except HostFailed as error:
        raise ToolFailed(f"Permission cannot be requested: {error}") from None
    except BaseException:
        session.host.send(wire.WithdrawRequest(request=request))
        raise
    if not answer.allow:
        if answer.interrupt:
            raise Stopped
        raise ToolFailed(answer.message or "Permission was denied.")
    return arguments if answer.input is None else answer.input
