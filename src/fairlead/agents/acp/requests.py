"""The requests of an ACP agent that wait for a decision: permissions, and forms with questions."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from fairlead.agents.acp import wire
from fairlead.agents.acp.interpreter.calls import merged_fields, request_id
from fairlead.agents.acp.questions import form_content
from fairlead.agents.acp.tools import map_call
from fairlead.agents.acp.wire import as_dict, as_dicts, as_text
from fairlead.agents.common_tools import QUESTION
from fairlead.agents.links.kept_output import reply_key
from fairlead.model.agents import AgentSink, Decision, PermissionRequest, ToolCheck
from fairlead.model.decisions import decision_of
from fairlead.model.errors import Stale
from fairlead.model.events import PermissionResolved
from fairlead.model.formats.bounded_tables import put
from fairlead.model.ids import CallId, RequestId

MOST_OPEN: Final = 1000
"""Requests of the agent, and calls, that may be open at once."""

Send = Callable[[bytes, str], Coroutine[Any, Any, None]]
"""Sends a line with its key: a kept agent gets a line with the same key only once."""


class _OpenRequest:
    def __init__(self, number: wire.RpcId, params: dict[str, Any], *, form: bool) -> None:
        self.number = number
        self.params = params
        self.form = form


class AcpRequests:
    """The open requests of one process, whose name is `process`. `answered` is called when a request has its answer."""

    def __init__(self, process: str, sink: AgentSink, send: Send, answered: Callable[[str], None]) -> None:
        self._process = process
        self._sink = sink
        self._send = send
        self._answered = answered
        self._open: dict[RequestId, _OpenRequest] = {}
        self._calls: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, None] = {}
        """Calls of this turn for which the agent requested permission."""
        self.cwd = ""
        self.trusts_titles = False

    def note_call(self, update: dict[str, Any]) -> None:
        """Remember the fields of a call: a permission request does not repeat all of them."""
        name = as_text(update.get("toolCallId"))
        if name:
            put(self._calls, name, merged_fields(self._calls.get(name, {}), update), MOST_OPEN)

    def forget_calls(self) -> None:
        self._calls.clear()
        self._asked.clear()

    def note_request(self, params: dict[str, Any]) -> None:
        put(self._asked, as_text(as_dict(params.get("toolCall")).get("toolCallId")), None, MOST_OPEN)

    def unasked_call(self, update: dict[str, Any]) -> ToolCheck | None:
        """The call that this update reports as completed, if the agent did not request permission for it."""
        call = as_text(update.get("toolCallId"))
        if update.get("status") != "completed" or call in self._asked:
            return None
        mapped = map_call(self._calls.get(call, update), self.cwd, trusts_titles=self.trusts_titles)
        return ToolCheck(CallId(call), mapped.name, mapped.input, used=True)

    async def permission(self, number: wire.RpcId, params: dict[str, Any]) -> None:
        asked = as_dict(params.get("toolCall"))
        call = as_text(asked.get("toolCallId"))
        fields = merged_fields(self._calls.get(call, {}), asked)
        mapped = map_call(fields, self.cwd, trusts_titles=self.trusts_titles)
        request = await self._register(number, params, form=False)
        if request is not None:
            await self._sink.permission_requested(PermissionRequest(request, CallId(call), mapped.name, mapped.input))

    def completed_request(self, message: wire.Message, raw: bytes) -> bytes:
        """A request as a restarted gateway needs it: a permission request with all known fields of its call."""
        asked = as_dict(message.params.get("toolCall"))
        fields = self._calls.get(as_text(asked.get("toolCallId")))
        if message.method != wire.REQUEST_PERMISSION or message.id is None or fields is None:
            return raw
        params = {**message.params, "toolCall": merged_fields(fields, asked)}
        return wire.request_line(message.id, message.method, params)[:-1]

    async def recall(self, number: wire.RpcId, params: dict[str, Any], *, form: bool) -> None:
        """Open a request again that an earlier gateway has received. If it was resolved there, answer it."""
        name = request_id(self._process, number)
        known = await self._sink.request_state(name)
        if isinstance(known, PermissionResolved):
            await self._reply(_OpenRequest(number, params, form=form), decision_of(known))
        elif known == "pending":
            self._open[name] = _OpenRequest(number, params, form=form)

    async def question(self, number: wire.RpcId, params: dict[str, Any]) -> None:
        request = await self._register(number, params, form=True)
        if request is not None:
            await self._sink.permission_requested(PermissionRequest(request, CallId(request), QUESTION, params))

    async def _register(self, number: wire.RpcId, params: dict[str, Any], *, form: bool) -> RequestId | None:
        opened = _OpenRequest(number, params, form=form)
        if len(self._open) >= MOST_OPEN:
            await self._reply(opened, None)
            return None
        name = request_id(self._process, number)
        self._open[name] = opened
        return name

    async def withdraw(self, number: wire.RpcId) -> None:
        """Cancel a request that the agent has withdrawn."""
        name = request_id(self._process, number)
        opened = self._open.pop(name, None)
        if opened is not None:
            await self._sink.permission_cancelled(name)
            await self._reply(opened, None)

    async def answer(self, request: RequestId, decision: Decision) -> None:
        opened = self._open.pop(request, None)
        if opened is None:
            raise Stale("The agent does not wait for this answer any more.", request=request)
        await self._reply(opened, decision)

    async def cancel_all(self) -> None:
        """Answer every open request as cancelled, as ACP requires of a client that cancels a turn."""
        opened, self._open = self._open, {}
        for request in opened.values():
            await self._reply(request, None)

    def close(self) -> None:
        self._open.clear()

    async def _reply(self, opened: _OpenRequest, decision: Decision | None) -> None:
        """Answer a request; without a decision it is cancelled."""
        result = _form_answer(opened.params, decision) if opened.form else _option(opened.params, decision)
        await self._send(wire.answer_line(opened.number, result), reply_key(str(opened.number)))
        self._answered(str(opened.number))


def _option(params: Mapping[str, Any], decision: Decision | None) -> dict[str, Any]:
    """The outcome of a permission request: the option for this once. The gateway itself remembers an `always`."""
    kind = "allow_once" if decision is not None and decision.behavior == "allow" else "reject_once"
    options = as_dicts(params.get("options")) if decision is not None else []
    chosen = next((option.get("optionId") for option in options if option.get("kind") == kind), None)
    if chosen is None:
        return {"outcome": {"outcome": "cancelled"}}
    return {"outcome": {"outcome": "selected", "optionId": chosen}}


def _form_answer(params: Mapping[str, Any], decision: Decision | None) -> dict[str, Any]:
    if decision is None:
        return {"action": "cancel"}
    if decision.behavior != "allow":
        return {"action": "decline"}
    answers = as_dict(as_dict(decision.updated_input).get("answers"))
    return {"action": "accept", "content": form_content(params, answers)}
