"""The native socket as an AsyncAPI document, generated from the commands and events; the docs contain the file."""

from typing import Any, get_args

import msgspec

from fairlead.clients.native.codec import SUBPROTOCOLS
from fairlead.clients.native.decode import KINDS
from fairlead.model.commands import Command
from fairlead.model.events import Event

REF = "#/components/schemas/{name}"
STRING, WHOLE, ANY = {"type": "string"}, {"type": "integer"}, {"description": "Any value; it comes back as it is."}
CONTENT = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "object", "properties": {"type": {"enum": ["text", "image", "document"]}}, "required": ["type"]},
}


def frame(kind: str, required: dict[str, Any], optional: dict[str, Any], about: str, *, more: bool = False) -> Any:
    return {
        "type": "object",
        "description": about,
        "properties": {"type": {"const": kind}, **required, **optional},
        "required": ["type", *required],
        "additionalProperties": more,
    }


def client_frames(commands: dict[str, Any]) -> dict[str, Any]:
    session = {"session": STRING}
    ours = {
        "subscribe": frame(
            "subscribe",
            session,
            {"id": ANY, "after": {"type": ["integer", "null"], "minimum": 0}, "log_id": STRING},
            "Watch a session: from a cursor, or without `after` from now on.",
        ),
        "unsubscribe": frame("unsubscribe", session, {"id": ANY}, "Watch it no more."),
        "typing": frame("typing", session, {"id": ANY, "active": {"type": "boolean"}}, "Tell the other watchers."),
        "ping": frame("ping", {}, {"id": ANY}, "Answered by pong."),
    }
    for kind, model in KINDS.items():
        shape = commands[model.__name__]
        fields = {name: value for name, value in shape["properties"].items() if name != "command"}
        required = [name for name in shape["required"] if name != "command"]
        if kind in ("send", "steer"):
            fields = {**fields, "content": CONTENT, "text": {"type": "string", "minLength": 1}}
            required.remove("content")
        if kind == "create":
            required.remove("session")
        if kind == "fork":
            required.remove("child")
        needed = {name: fields.pop(name) for name in required}
        about = (model.__doc__ or "").strip() or f"The command {kind}."
        ours[kind] = frame(kind, needed, {"id": ANY, **fields}, about)
    return ours


def server_frames(events: list[Any]) -> dict[str, Any]:
    you = {"type": "object", "description": "Who you are here: credential, user, name, scopes."}
    verdict = {"enum": ["ok", "gap"]}
    session = {"session": STRING}
    return {
        "hello": frame("hello", {"protocol": STRING, "version": STRING, "you": you}, {}, "The first frame."),
        "subscribed": frame(
            "subscribed",
            {**session, "verdict": verdict, "log_id": STRING, "head": WHOLE},
            {"id": ANY},
            "Events follow. `gap`: the cursor meant nothing, forget what you have; the replay is from the beginning.",
        ),
        "unsubscribed": frame("unsubscribed", session, {"id": ANY}, "Nothing of that session comes any more."),
        "reply": frame(
            "reply",
            session,
            {"id": ANY, "seq": WHOLE, "message": STRING, "data": {}, "repeated": {"type": "boolean"}},
            "A command was done, durably.",
        ),
        "error": frame(
            "error",
            {"code": STRING, "message": STRING},
            {"id": ANY, "data": {"type": "object"}},
            "A frame of yours was refused; `code` is stable. (An event of the type `error` has a `seq`.)",
        ),
        "pong": frame("pong", {}, {"id": ANY}, "Answers ping."),
        "presence": frame("presence", {**session, "name": STRING}, {"data": {}}, "Who watches has changed."),
        "typing": frame("typing", {**session, "name": STRING}, {"data": {}}, "Somebody types."),
        "event": {
            "description": "An event of a session: its place, then the event itself.",
            "allOf": [
                {
                    "type": "object",
                    "properties": {"seq": WHOLE, "prev": WHOLE, "session": STRING},
                    "required": ["seq", "prev", "session"],
                },
                {"anyOf": events},
            ],
        },
    }


def terminal_frames() -> tuple[dict[str, Any], dict[str, Any]]:
    """Frames that a client sends on a terminal's socket, and frames that the gateway sends in addition to the bytes."""
    cells = {"type": "integer", "minimum": 1, "maximum": 65535}
    size = {"cols": cells, "rows": cells}
    client = {
        "input": frame("input", {"data": STRING}, {}, "What is typed."),
        "resize": frame("resize", size, {}, "How much room the client has."),
        "ping": frame("ping", {}, {}, "Answered by pong."),
    }
    maybe = {"type": ["integer", "null"]}
    server = {
        "size": frame("size", size, {}, "The size that the next drawing is for."),
        "redraw": frame("redraw", {}, {}, "The next binary frame draws everything anew."),
        "exit": frame("exit", {"code": maybe, "signal": maybe}, {}, "The program has ended."),
        "error": frame("error", {"code": STRING, "message": STRING}, {"data": {"type": "object"}}, "A refused frame."),
        "pong": frame("pong", {}, {}, "Answers ping."),
        "bytes": {"type": "string", "format": "binary", "description": "What the terminal is to show."},
    }
    return client, server


def plain(value: Any) -> Any:
    return named_discriminators(msgspec.json.decode(msgspec.json.encode(value)))


def named_discriminators(value: Any) -> Any:
    """In AsyncAPI a discriminator is the name of a property; in OpenAPI, which msgspec writes, it is an object."""
    if isinstance(value, list):
        return [named_discriminators(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item["propertyName"] if key == "discriminator" and isinstance(item, dict) else named_discriminators(item)
        for key, item in value.items()
    }


def document(version: str) -> Any:
    shapes, schemas = msgspec.json.schema_components([*get_args(Command), *get_args(Event)], ref_template=REF)
    known = dict(schemas)
    commands = {kind.__name__: known.pop(kind.__name__) for kind in get_args(Command)}
    events = list(shapes[len(get_args(Command)) :])
    client, server = client_frames(commands), server_frames(events)
    messages = {f"{kind}.request": {"payload": shape} for kind, shape in client.items()}
    messages |= {kind: {"payload": shape} for kind, shape in server.items()}
    typed, shown = terminal_frames()
    terminal = {f"terminal.{kind}.request": {"payload": shape} for kind, shape in typed.items()}
    terminal |= {f"terminal.{kind}": {"payload": shape} for kind, shape in shown.items()}

    def operation(channel: str, action: str, about: str, names: list[str]) -> dict[str, Any]:
        listed = [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in names]
        return {
            "action": action,
            "summary": about,
            "channel": {"$ref": f"#/channels/{channel}"},
            "messages": listed,
        }

    return plain(
        {
            "asyncapi": "3.0.0",
            "info": {"title": "Fairlead: the native socket", "version": version, "license": {"name": "Apache-2.0"}},
            "channels": {
                "socket": {
                    "address": "/v1/ws",
                    "description": f"Subprotocols: {', '.join(SUBPROTOCOLS)}. JSON text frames, or MessagePack.",
                    "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
                },
                "terminal": {
                    "address": "/v1/sessions/{session}/terminal",
                    "description": "Binary frames are the terminal's bytes, all others JSON.",
                    "parameters": {"session": {"description": "The session's id."}},
                    "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in terminal},
                },
            },
            "operations": {
                "ask": operation("socket", "receive", "What a client sends.", [f"{kind}.request" for kind in client]),
                "tell": operation("socket", "send", "What the gateway sends.", list(server)),
                "type": operation(
                    "terminal", "receive", "What is typed.", [f"terminal.{kind}.request" for kind in typed]
                ),
                "show": operation("terminal", "send", "What is shown.", [f"terminal.{kind}" for kind in shown]),
            },
            "components": {"messages": messages | terminal, "schemas": known},
        }
    )
