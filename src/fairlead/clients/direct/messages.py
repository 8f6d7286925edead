"""Messages of a direct client: lines of the CLI's own input, decoded to Fairlead's commands. Pure.

A frame holds one or more messages, one per line; the newline at its end may be missing. Messages of unknown type are
ignored, as the CLI itself does; lines that are not JSON are ignored too, where old CLIs would exit.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.model import commands as cmd
from fairlead.model.content import content_blocks
from fairlead.model.errors import BadRequest
from fairlead.model.formats.frames import decode_message
from fairlead.model.ids import MessageId, RequestId, SessionId, is_uuid

DENIED: Final = "The user does not want this tool to be used."


class SentCommand(msgspec.Struct, frozen=True):
    """A message that gets no answer when it succeeds. `other` is tried if `command` is rejected as Busy."""

    command: cmd.Command
    other: cmd.Command | None = None
    about: str = ""
    """The uuid or request id that an error record names."""


class ControlQuestion(msgspec.Struct, frozen=True):
    """A control request, answered under the id that the client gave it. Without a command: `error`, if set, is why it
    was rejected; else the gateway answers it itself."""

    request: str
    subtype: str
    command: cmd.Command | None = None
    error: str = ""


ClientMessage = SentCommand | ControlQuestion


def read(session: SessionId, data: bytes) -> list[ClientMessage]:
    return [message for line in data.splitlines() for message in read_message(session, decode_message(line))]


def read_message(session: SessionId, message: Any) -> Sequence[ClientMessage]:
    """Decode one message; empty if it does not have a known shape."""
    match message:
        case {"type": "user", "message": {"content": content}}:
            return _user(session, content, message.get("uuid"))
        case {"type": "control_response", "response": {"request_id": str(request)} as response}:
            return _answer(session, request, response)
        case {"type": "control_request", "request_id": str(request), "request": {"subtype": str(subtype), **fields}}:
            try:
                return (ControlQuestion(request, subtype, _command(session, subtype, fields)),)
            except BadRequest as error:
                return (ControlQuestion(request, subtype, error=error.message),)
        case {"type": "update_environment_variables", "variables": dict(variables)}:
            if all(isinstance(value, str) for value in variables.values()):
                return (SentCommand(cmd.SetVariables(session=session, variables=variables)),)
    return ()


def _user(session: SessionId, given: Any, uuid: Any) -> Sequence[ClientMessage]:
    content = content_blocks(given)
    if not content:
        return ()
    name = MessageId(uuid) if isinstance(uuid, str) and is_uuid(uuid) else None
    steer = cmd.Steer(session=session, content=content, message=name)
    return (SentCommand(steer, cmd.Send(session=session, content=content, message=name), about=name or ""),)


def _answer(session: SessionId, request: str, response: Mapping[str, Any]) -> Sequence[ClientMessage]:
    answer = response.get("response")
    if response.get("subtype") != "success" or not isinstance(answer, dict):
        reason = response.get("error")
        answer = {"behavior": "deny", "message": reason if isinstance(reason, str) and reason else DENIED}
    if answer.get("behavior") not in ("allow", "deny"):
        return ()
    allowed = answer["behavior"] == "allow"
    given, reason = answer.get("updatedInput"), answer.get("message")
    updates = answer.get("updatedPermissions") if allowed else None
    decision = cmd.AnswerPermission(
        session=session,
        request=RequestId(request),
        behavior="allow" if allowed else "deny",
        message=reason if isinstance(reason, str) else "",
        updated_input=given if allowed and isinstance(given, dict) else None,
        remember=_rules(updates),
        interrupt=not allowed and answer.get("interrupt") is True,
    )
    commands: list[cmd.Command] = [decision, *(cmd.SetMode(session=session, mode=mode) for mode in _modes(updates))]
    return [SentCommand(command, about=request) for command in commands]


def _updates(updates: Any, kind: str) -> list[dict[str, Any]]:
    return [
        update
        for update in (updates if isinstance(updates, list) else ())
        if isinstance(update, dict) and update.get("type") == kind
    ]


def _rules(updates: Any) -> tuple[str, ...]:
    """Return the allow rules in Fairlead's notation. They are remembered for the session, wherever the client wanted
    them stored."""
    return tuple(
        f"{rule['toolName']}({rule['ruleContent']})" if rule.get("ruleContent") else str(rule["toolName"])
        for update in _updates(updates, "addRules")
        if update.get("behavior") == "allow" and isinstance(update.get("rules"), list)
        for rule in update["rules"]
        if isinstance(rule, dict) and isinstance(rule.get("toolName"), str)
    )


def _modes(updates: Any) -> list[str]:
    return [update["mode"] for update in _updates(updates, "setMode") if isinstance(update.get("mode"), str)]


def _command(session: SessionId, subtype: str, fields: Mapping[Any, Any]) -> cmd.Command | None:
    """Return the command of a control request; None if the gateway answers the request itself."""
    match subtype:
        case "initialize":
            return None
        case "interrupt":
            return cmd.Interrupt(session=session)
        case "set_permission_mode":
            return cmd.SetMode(session=session, mode=_text(fields, "mode"))
        case "set_model":
            return cmd.SetModel(session=session, model=_text(fields, "model") if fields.get("model") else "")
        case "set_max_thinking_tokens":
            budget = fields.get("max_thinking_tokens")
            if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool)):
                raise BadRequest("max_thinking_tokens must be a whole number or null.")
            return cmd.SetThinking(session=session, budget=budget)
        case "rewind_files":
            dry = fields.get("dry_run") is True
            return cmd.Rewind(session=session, message=MessageId(_text(fields, "user_message_id")), dry_run=dry)
        case _:
            return cmd.Control(session=session, subtype=subtype, fields=dict(fields))


def _text(fields: Mapping[Any, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise BadRequest(f"{name} must be a text.")
    return value
