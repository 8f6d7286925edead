"""Checks messages of the agent's side against the schema of the protocol's own SDK."""

import json
from functools import cache
from importlib import import_module
from typing import Any

from tools.acp_agents import program_path

JSON_SCHEMA: Any = import_module("jsonschema")
"""It has no types."""

Fields = dict[str, Any]


def has_schema() -> bool:
    return program_path("sdk").exists()


@cache
def _definitions() -> Fields:
    found: Fields = json.loads(program_path("sdk").read_text("utf-8"))["$defs"]
    return found


@cache
def _validator(method: str, part: str) -> Any:
    names = [
        name
        for name, definition in _definitions().items()
        if definition.get("x-method") == method and name.endswith(part)
    ]
    assert len(names) == 1, f"{method} has no {part} in the schema"
    return JSON_SCHEMA.Draft202012Validator({"$ref": f"#/$defs/{names[0]}", "$defs": _definitions()})


def check_message(message: Fields, methods: dict[Any, str]) -> str:
    """Validate a message of the agent; `methods` are the client's calls by id. Returns what the message is."""
    assert message["jsonrpc"] == "2.0"
    if "method" in message:
        part = "Request" if "id" in message else "Notification"
        assert set(message) == {"jsonrpc", "method", "params"} | ({"id"} if "id" in message else set())
        _validator(message["method"], part).validate(message["params"])
        return str(message["method"])
    method = methods[message["id"]]
    if "error" in message:
        assert set(message) == {"jsonrpc", "id", "error"}
        error = {"$ref": "#/$defs/Error", "$defs": _definitions()}
        JSON_SCHEMA.Draft202012Validator(error).validate(message["error"])
        return f"error of {method}"
    assert set(message) == {"jsonrpc", "id", "result"}
    _validator(method, "Response").validate(message["result"])
    return f"answer to {method}"
