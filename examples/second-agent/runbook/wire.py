"""The messages between the gateway and the program, one per line. Pure."""

from typing import Literal

import msgspec


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag=str.lower):
    """A message; its class is its `type`."""


class Open(Message, frozen=True, kw_only=True):
    """To the program: begin, or continue this session."""

    session: str = ""


class Prompt(Message, frozen=True, kw_only=True):
    id: str
    text: str


class Permit(Message, frozen=True, kw_only=True):
    """To the program: the decision about the command that waits."""

    id: str
    allow: bool
    reason: str = ""


class Cancel(Message, frozen=True, kw_only=True):
    """To the program: end the turn."""


class Hello(Message, frozen=True, kw_only=True):
    """From the program: it is ready. `id` names this process."""

    id: str
    session: str
    version: str


class Text(Message, frozen=True, kw_only=True):
    """From the program: a piece of its answer."""

    text: str


class Command(Message, frozen=True, kw_only=True):
    """From the program: it wants to run this."""

    id: str
    command: str


class Result(Message, frozen=True, kw_only=True):
    id: str
    output: str
    failed: bool


class Done(Message, frozen=True, kw_only=True):
    status: Literal["completed", "cancelled"]


FromProgram = Hello | Text | Command | Result | Done
FromGateway = Open | Prompt | Permit | Cancel

_from_program: msgspec.json.Decoder[FromProgram] = msgspec.json.Decoder(FromProgram)
_from_gateway: msgspec.json.Decoder[FromGateway] = msgspec.json.Decoder(FromGateway)


def encode(message: Message) -> bytes:
    return msgspec.json.encode(message)


def decode(raw: bytes) -> FromProgram | None:
    """A message of the program; None for anything else that it printed."""
    try:
        return _from_program.decode(raw)
    except msgspec.DecodeError:
        return None


def decode_ours(raw: bytes) -> FromGateway:
    return _from_gateway.decode(raw)
