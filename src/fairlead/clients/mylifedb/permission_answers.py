"""Permission answers in this protocol's form, and the meaning of `always_allow`. Pure and stateless.

The client names only the request, so the tool and the rules to remember are queried first. An answer decides that one
request; the session settles other pending requests if the remembered rules allow them.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.errors import FairleadError, RequestRejected, Stale
from fairlead.model.ids import RequestId, SessionId
from fairlead.model.web.sockets import Do, Perform

LANE = "answers"
_TOOLS = {"question.asked": "AskUserQuestion", "plan.proposed": "ExitPlanMode"}


class PermissionAnswer(msgspec.Struct, frozen=True):
    """A client's answer. `broad`: remember a rule for the whole tool, not only for calls like this one."""

    request: str
    behavior: Literal["allow", "deny"]
    message: str = ""
    updated_input: dict[str, Any] | None = None
    always: bool = False
    tool: str = ""
    suggestions: tuple[str, ...] = ()
    broad: bool = True


class PermissionAnswers:
    def __init__(self, session: SessionId) -> None:
        self._session = session

    def received(self, message: dict[str, Any]) -> Sequence[Do]:
        given = read(message)
        if given is None:
            return ()
        return (Perform(("pending", given), q.ListPermissions(self._session), LANE),)

    def answer_pending(self, given: PermissionAnswer, waiting: Sequence[q.PendingView]) -> Sequence[Do]:
        """Answer the request if it is among the pending ones. Otherwise ignore the answer, as the original does: every
        client has received the outcome."""
        pending = [msgspec.json.decode(view.event) for view in waiting]
        own = next((event for event in pending if event["request"] == given.request), None)
        if own is None:
            return ()
        given = msgspec.structs.replace(given, tool=_tool(own), suggestions=tuple(own.get("suggestions", ())))
        return self._answer(given)

    def retry_narrower(self, given: PermissionAnswer, error: FairleadError) -> Sequence[Do]:
        """Retry with the suggested rules: this user may not be allowed to save a rule for the whole tool."""
        if not given.always or not given.broad or not isinstance(error, RequestRejected) or isinstance(error, Stale):
            return ()
        return self._answer(msgspec.structs.replace(given, broad=False))

    def _answer(self, given: PermissionAnswer) -> Sequence[Do]:
        denied = given.behavior == "deny"
        rules = (given.tool,) if given.broad else given.suggestions
        step = cmd.AnswerPermission(
            session=self._session,
            request=RequestId(given.request),
            behavior=given.behavior,
            message=given.message or (f"Permission denied by user for tool: {given.tool}" if denied else ""),
            updated_input=given.updated_input,
            remember=rules if given.always and given.tool else (),
            interrupt=denied,
        )
        return (Perform(("answer", given), step, LANE),)


def read(message: dict[str, Any]) -> PermissionAnswer | None:
    """Decode an answer; None for a malformed frame, which is ignored like every malformed frame."""
    request, outer = message.get("request_id"), message.get("response")
    inner = outer.get("response") if isinstance(outer, dict) else None
    if not isinstance(request, str) or not isinstance(inner, dict):
        return None
    behavior = inner.get("behavior")
    if behavior not in ("allow", "deny"):
        return None
    text, tool = inner.get("message"), message.get("tool_name")
    updated = inner.get("updated_input", inner.get("updatedInput"))
    return PermissionAnswer(
        request=request,
        behavior=behavior,
        message=text if isinstance(text, str) else "",
        updated_input=updated if isinstance(updated, dict) and behavior == "allow" else None,
        always=message.get("always_allow") is True and behavior == "allow",
        tool=tool if isinstance(tool, str) else "",
    )


def _tool(event: dict[str, Any]) -> str:
    return _TOOLS.get(event["type"]) or str(event.get("tool", ""))
