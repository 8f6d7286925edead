"""Tool calls, and the requests of the agent to a person. Pure."""

from typing import Any, Final

from fairlead.agents.acp import tools, wire
from fairlead.agents.acp.interpreter.state import CALLS_OPEN, OUTPUT_CHARACTERS, AcpCall
from fairlead.agents.acp.interpreter.step import Step
from fairlead.agents.acp.interpreter.texts import current_message, end_block
from fairlead.agents.acp.questions import questions_of
from fairlead.agents.acp.wire import as_dict, as_text
from fairlead.agents.common_tools import QUESTION
from fairlead.model import events as ev
from fairlead.model.formats.bounded_tables import put
from fairlead.model.ids import CallId, MessageId, RequestId

_ENDED: Final = frozenset({"completed", "failed"})


def request_id(process: str, number: wire.RpcId) -> RequestId:
    """The id of an agent's request: its own ids begin from 0 in every process."""
    return RequestId(f"{process}:{number}")


def on_tool_call(step: Step, update: dict[str, Any]) -> None:
    name = as_text(update.get("toolCallId"))
    if not name or step.state.turn is None:
        step.store(wire.UPDATE, as_text(update.get("sessionUpdate")))
        return
    end_denied(step, but=name)
    call = merge(step, name, update)
    status = as_text(call.fields.get("status"))
    if not call.emitted and (status != "pending" or map_fields(step, call.fields).certain):
        # The model still writes the arguments of a pending call.
        emit_call(step, name, call)
    if status in _ENDED:
        _end_call(step, name, call)
    elif call.emitted:
        note = _output(call)
        if note and note != call.note:
            call.note = note
            step.emit(ev.ToolProgress, call=CallId(name), name=call.name, note=note)
    if not step.events:
        step.store(wire.UPDATE, as_text(update.get("sessionUpdate")))


def merge(step: Step, name: str, update: dict[str, Any]) -> AcpCall:
    call = step.state.calls.get(name)
    if call is None:
        call = AcpCall()
        put(step.state.calls, name, call, CALLS_OPEN)
    call.fields = merged_fields(call.fields, update)
    terminal = as_dict(as_dict(update.get("_meta")).get("terminal_output_delta"))
    call.output = (call.output + as_text(terminal.get("data")))[-OUTPUT_CHARACTERS:]
    return call


def _output(call: AcpCall) -> str:
    """The text of a call's content; the output of a terminal that the agent runs itself (Codex)."""
    return tools.text_of(call.fields.get("content")) or call.output


def merged_fields(before: dict[str, Any], update: dict[str, Any]) -> dict[str, Any]:
    """The fields of a call after an update. Empty lists replace nothing: they stand for what is not repeated."""
    news = {key: value for key, value in update.items() if value not in (None, [], {}) and key != "sessionUpdate"}
    given = {**as_dict(before.get("rawInput")), **as_dict(news.get("rawInput"))}
    return {**before, **news, **({"rawInput": given} if given else {})}


def map_fields(step: Step, fields: dict[str, Any]) -> tools.MappedCall:
    return tools.map_call(fields, as_text(step.state.ready.get("cwd")), trusts_titles=step.state.trusts_titles)


def emit_call(step: Step, name: str, call: AcpCall) -> None:
    turn = step.state.turn
    assert turn is not None
    end_block(step)
    mapped = map_fields(step, call.fields)
    message = current_message(turn)
    index = turn.messages[message]
    turn.messages[message] += 1
    call.emitted, call.name = True, mapped.name
    where: dict[str, Any] = {"message": MessageId(message), "block": index}
    model = as_text(step.state.ready.get("model"))
    step.emit(ev.ToolCalled, part=name, call=CallId(name), name=mapped.name, input=mapped.input, model=model, **where)


def _end_call(step: Step, name: str, call: AcpCall) -> None:
    del step.state.calls[name]
    failed = call.fields.get("status") == "failed"
    kept = ("title", "kind", "locations", "content", "rawOutput")
    data = {key: call.fields[key] for key in kept if key in call.fields}
    close_call(step, name, call.name, _output(call), failed=failed, data=data)


def close_call(step: Step, name: str, tool: str, content: str, *, failed: bool, data: Any = None) -> None:
    turn = step.state.turn
    if turn is not None:
        turn.current = ""
    status = "failed" if failed else "done"
    fields: dict[str, Any] = {"is_error": failed, "status": status, "content": content, "data": data}
    step.emit(ev.ToolEnded, part=name, call=CallId(name), name=tool, **fields)


def end_denied(step: Step, but: str = "") -> None:
    """End the denied calls: when the agent goes on, it will not mention them again."""
    for name, call in list(step.state.calls.items()):
        if call.denied and name != but:
            del step.state.calls[name]
            close_call(step, name, call.name, call.denied, failed=True)


def end_calls(step: Step) -> tuple[CallId, ...]:
    """End all open calls with their turn, and return those that were interrupted."""
    end_denied(step)
    closed = []
    for name, call in step.state.calls.items():
        if call.emitted:
            closed.append(CallId(name))
            fields: dict[str, Any] = {"is_error": True, "status": "interrupted"}
            step.emit(ev.ToolEnded, part=name, call=CallId(name), name=call.name, **fields)
    step.state.calls.clear()
    return tuple(closed)


def on_permission(step: Step, number: wire.RpcId, params: dict[str, Any]) -> None:
    asked = as_dict(params.get("toolCall"))
    name = as_text(asked.get("toolCallId")) or f"{step.source}-call"
    if step.state.turn is None:
        step.store(wire.REQUEST_PERMISSION)
        return
    end_denied(step, but=name)
    known = step.state.calls.get(name)
    fields = merged_fields({} if known is None else known.fields, asked)
    if known is None or not known.emitted:
        known = merge(step, name, asked)
        emit_call(step, name, known)
    mapped = map_fields(step, fields)
    step.emit(
        ev.PermissionRequested,
        request=request_id(step.state.process, number),
        call=CallId(name),
        tool=mapped.name,
        input=mapped.input,
        title=as_text(fields.get("title")),
        certain=mapped.certain,
        data={"options": params.get("options")},
    )


def on_elicitation(step: Step, number: wire.RpcId, params: dict[str, Any]) -> None:
    if params.get("mode") == "url":
        step.emit(ev.Notice, kind="elicitation", text=as_text(params.get("message")), data={"url": params.get("url")})
        return
    name = request_id(step.state.process, number)
    questions = questions_of(params)
    call = CallId(as_text(params.get("toolCallId")) or name)
    given = {"questions": list(questions), "message": params.get("message")}
    step.emit(ev.QuestionAsked, tool=QUESTION, request=name, call=call, questions=questions, input=given)
