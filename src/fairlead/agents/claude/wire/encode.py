"""Encodes the lines that we send to the CLI: a closed set, since an unknown type ends 2.1.37. Requests: control.py."""

from typing import Any

import msgspec

from fairlead.agents.claude.wire.framing import encode_line


class _Sent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base class of the messages that we may send."""


class _PromptBody(msgspec.Struct, frozen=True):
    role: str
    content: Any


class SendUser(_Sent, frozen=True, kw_only=True, tag="user"):
    """A prompt. `session_id` is empty in the first prompt; later it is the id from the init record."""

    message: _PromptBody
    parent_tool_use_id: str | None = None
    session_id: str = ""
    uuid: str | msgspec.UnsetType = msgspec.UNSET


class SendAnswer(_Sent, frozen=True, kw_only=True, tag="control_response"):
    response: Any


class SendRequest(_Sent, frozen=True, kw_only=True, tag="control_request"):
    request_id: str
    request: Any


class SendCancel(_Sent, frozen=True, kw_only=True, tag="control_cancel_request"):
    request_id: str


class SendKeepAlive(_Sent, frozen=True, kw_only=True, tag="keep_alive"):
    pass


class SendEnvironment(_Sent, frozen=True, kw_only=True, tag="update_environment_variables"):
    variables: dict[str, str]


Sent = SendUser | SendAnswer | SendRequest | SendCancel | SendKeepAlive | SendEnvironment


def user_line(content: Any, session_id: str = "", uuid: str = "", parent: str | None = None) -> bytes:
    """The line for a prompt: `content` is a plain string or a list of content blocks."""
    return encode_line(
        SendUser(
            message=_PromptBody("user", content),
            parent_tool_use_id=parent,
            session_id=session_id,
            uuid=uuid or msgspec.UNSET,
        )
    )


def cancel_line(request_id: str) -> bytes:
    """The line that cancels one of our requests. Never send it to 2.1.37: see versions.py."""
    return encode_line(SendCancel(request_id=request_id))


def keep_alive_line() -> bytes:
    return encode_line(SendKeepAlive())


def environment_line(variables: dict[str, str]) -> bytes:
    return encode_line(SendEnvironment(variables=variables))
