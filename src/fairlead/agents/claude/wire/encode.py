"""Encodes the lines that we send to the CLI. With those of control.py a closed set: an unknown type ends 2.1.37."""

from typing import Any

from fairlead.agents.claude.wire.framing import encode_line


def user_line(content: Any, session_id: str = "", uuid: str = "") -> bytes:
    """The line for a prompt: `content` is a plain string or a list of content blocks.

    `session_id` is empty in the first prompt; later it is the id from the init record."""
    message = {"role": "user", "content": content}
    prompt = {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": session_id}
    return encode_line({**prompt, "uuid": uuid} if uuid else prompt)


def cancel_line(request_id: str) -> bytes:
    """The line that cancels one of our requests. Never send it to 2.1.37: see versions.py."""
    return encode_line({"type": "control_cancel_request", "request_id": request_id})


def keep_alive_line() -> bytes:
    return encode_line({"type": "keep_alive"})


def environment_line(variables: dict[str, str]) -> bytes:
    return encode_line({"type": "update_environment_variables", "variables": variables})
