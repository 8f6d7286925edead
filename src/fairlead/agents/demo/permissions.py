"""Decides whether a call may run: the gateway's policy allows or denies it, or a person is asked."""

import os.path
import uuid
from typing import Any

from fairlead.agents.demo.host import HostFailed
from fairlead.agents.demo.session import DemoSession
from fairlead.agents.demo.tools import PLAN, QUESTION, Record, ToolFailed, ToolRun
from fairlead.agents.demo.wire import DemoMessage
from fairlead.model import events as ev
from fairlead.model.agents import Decision
from fairlead.model.ids import CallId, RequestId


class Stopped(Exception):
    """A person denies the call and ends the turn."""


async def pass_or_refuse(session: DemoSession, run: ToolRun, arguments: Record) -> Record:
    """Return the input to run the call with. Raises ToolFailed or Stopped if it may not run."""
    check = {"call": run.call, "tool": run.name, "input": arguments, "mode": session.mode}
    try:
        verdict: Record = await session.host.ask("check", check)
    except HostFailed as error:
        raise ToolFailed(f"The policy could not be asked: {error}") from None
    if verdict["behavior"] == "deny":
        raise ToolFailed(f"The policy denies {run.name}: {verdict['reason']}")
    if verdict["behavior"] == "allow" and run.name not in (QUESTION, PLAN):
        return arguments
    return await _ask(session, run, arguments, verdict["reason"])


async def _ask(session: DemoSession, run: ToolRun, arguments: Record, reason: str) -> Record:
    host, request = session.host, RequestId(str(uuid.uuid4()))
    kind: type[Any] = ev.PermissionRequested
    title = arguments.get("description") or os.path.basename(str(arguments.get("file_path", "")))
    fields: dict[str, Any] = {"title": str(title), "reason": reason}
    if run.name == QUESTION:
        kind, fields = ev.QuestionAsked, {"questions": tuple(arguments.get("questions") or ())}
    elif run.name == PLAN:
        kind, fields = ev.PlanProposed, {"plan": str(arguments.get("plan") or "")}
    fields |= {"request": request, "call": CallId(run.call), "tool": run.name, "input": arguments}
    try:
        answer: Decision = await host.answer_to(request, lambda: host.emit(kind, subagent=run.subagent, **fields))
    except HostFailed as error:
        raise ToolFailed(f"Permission cannot be requested: {error}") from None
    except BaseException:
        host.send(DemoMessage("withdraw", request))
        raise
    if answer.behavior != "allow":
        if answer.interrupt:
            raise Stopped
        raise ToolFailed(answer.message or "Permission was denied.")
    return arguments if answer.updated_input is None else answer.updated_input
