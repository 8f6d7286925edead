"""Permission answers in this protocol's form, and the meaning of `always_allow`. Pure and stateless.

An answer decides one request; the session settles other pending requests if the remembered rules allow them. The client
names only the request, so the tool and the rules to remember are queried where the answer needs them.
"""

from typing import Any, Final

import msgspec

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.errors import RequestRejected, Stale
from fairlead.model.ids import RequestId, SessionId
from fairlead.model.web.requests import do
from fairlead.model.web.sockets import Flow

_requests: Final = msgspec.json.Decoder(ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed)


def answer(session: SessionId, request: str, given: dict[str, Any], always: bool) -> Flow:
    """Answer the request as the client's response `given` says; `always`: remember a rule for this tool. An answer to a
    request that is not pending is ignored, as the original does: every client has received the outcome."""
    waiting = yield from do(q.ListPermissions(session))
    events = [_requests.decode(view.event) for view in waiting]
    own = next((event for event in events if event.request == request), None)
    if own is None:
        return
    allowed, text = given["behavior"] == "allow", given.get("message")
    updated = given.get("updated_input", given.get("updatedInput"))
    denial = "" if allowed else f"Permission denied by user for tool: {own.tool}"
    command = cmd.AnswerPermission(
        session=session,
        request=RequestId(request),
        behavior="allow" if allowed else "deny",
        message=text if isinstance(text, str) and text else denial,
        updated_input=updated if allowed and isinstance(updated, dict) else None,
        remember=(own.tool,) if allowed and always and own.tool else (),
        interrupt=not allowed,
    )
    try:
        try:
            yield command
        except RequestRejected as error:
            if not (allowed and always) or isinstance(error, Stale):
                raise
            # This user may not be allowed to save a rule for the whole tool: remember the suggested rules.
            suggestions = own.suggestions if isinstance(own, ev.PermissionRequested) else ()
            yield msgspec.structs.replace(command, remember=suggestions)
    except Stale:
        return  # settled meanwhile: every client has received the outcome
