"""Permission answers in this protocol's form, and the meaning of `always_allow`. Pure and stateless.

An answer decides one request; the session settles other pending requests if the remembered rules allow them. The client
names only the request, so the tool and the rules to remember are queried where the answer needs them.
"""

from typing import Any, Final, Literal

import msgspec

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.errors import RequestRejected, Stale
from fairlead.model.ids import RequestId, SessionId
from fairlead.model.web.requests import do
from fairlead.model.web.sockets import Flow

_requests: Final = msgspec.json.Decoder(ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed)


class PermissionAnswer(msgspec.Struct, frozen=True):
    """A client's answer. `always`: remember a rule for this tool."""

    request: str
    behavior: Literal["allow", "deny"]
    message: str = ""
    updated_input: dict[str, Any] | None = None
    always: bool = False


def answer(session: SessionId, given: PermissionAnswer) -> Flow:
    """Answer the request. An answer to a request that is not pending is ignored, as the original does: every client has
    received the outcome."""
    waiting = yield from do(q.ListPermissions(session))
    events = [_requests.decode(view.event) for view in waiting]
    own = next((event for event in events if event.request == given.request), None)
    if own is None:
        return
    tool, denied = own.tool, given.behavior == "deny"
    command = cmd.AnswerPermission(
        session=session,
        request=RequestId(given.request),
        behavior=given.behavior,
        message=given.message or (f"Permission denied by user for tool: {tool}" if denied else ""),
        updated_input=given.updated_input,
        remember=(tool,) if given.always and tool else (),
        interrupt=denied,
    )
    try:
        try:
            yield command
        except RequestRejected as error:
            if not given.always or isinstance(error, Stale):
                raise
            # This user may not be allowed to save a rule for the whole tool: remember the suggested rules.
            suggestions = own.suggestions if isinstance(own, ev.PermissionRequested) else ()
            yield msgspec.structs.replace(command, remember=suggestions)
    except Stale:
        return  # settled meanwhile: every client has received the outcome


def read(message: dict[str, Any]) -> PermissionAnswer | None:
    """Decode an answer; None for a malformed frame, which is ignored like every malformed frame."""
    request, outer = message.get("request_id"), message.get("response")
    inner = outer.get("response") if isinstance(outer, dict) else None
    if not isinstance(request, str) or not isinstance(inner, dict):
        return None
    behavior = inner.get("behavior")
    if behavior not in ("allow", "deny"):
        return None
    allowed = behavior == "allow"
    text = inner.get("message")
    updated = inner.get("updated_input", inner.get("updatedInput"))
    return PermissionAnswer(
        request=request,
        behavior=behavior,
        message=text if isinstance(text, str) else "",
        updated_input=updated if allowed and isinstance(updated, dict) else None,
        always=allowed and message.get("always_allow") is True,
    )
