"""The demo agent's wire, one JSON object per line. Pure.

A line of the process is an event of the model, which the gateway logs as it is but for the turn, or one of the messages
below. The events of a process are numbered by their ids, so that the same lines, read again from the agent's own file,
are recognised.
"""

from typing import Any

import msgspec

from fairlead.model.events import Event
from fairlead.model.ids import EventId, event_id


class DemoMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """A message; its `type` is its tag."""


# --- from the gateway -------------------------------------------------------------------------------------------


class OpenSession(DemoMessage, frozen=True, kw_only=True, tag="open"):
    """Begin a session, or continue one: `resume` is its id, `at` the last event to keep, `fork` continues in a copy."""

    id: str
    session: str
    resume: str = ""
    fork: bool = False
    at: str = ""
    model: str = ""
    mode: str = "default"
    directories: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    structured: bool = False
    max_turns: int | None = None
    max_budget_usd: float | None = None


class SendPrompt(DemoMessage, frozen=True, kw_only=True, tag="prompt"):
    message: str
    content: list[Any]


class InterruptTurn(DemoMessage, frozen=True, kw_only=True, tag="interrupt"):
    pass


class DecideRequest(DemoMessage, frozen=True, kw_only=True, tag="decide"):
    """The decision about a request for permission, a question or a plan."""

    request: str
    allow: bool
    message: str = ""
    input: dict[str, Any] | None = None
    interrupt: bool = False


class SetMode(DemoMessage, frozen=True, kw_only=True, tag="set_mode"):
    id: str
    mode: str


class SetModel(DemoMessage, frozen=True, kw_only=True, tag="set_model"):
    id: str
    model: str


class RewindFiles(DemoMessage, frozen=True, kw_only=True, tag="rewind"):
    id: str
    message: str
    dry_run: bool = False


class StopTask(DemoMessage, frozen=True, kw_only=True, tag="stop_task"):
    id: str
    task: str


# --- from either side -------------------------------------------------------------------------------------------


class DemoAnswer(DemoMessage, frozen=True, kw_only=True, tag="answer"):
    """The answer to the message with this id."""

    id: str
    result: Any = None
    error: str = ""


# --- from the process -------------------------------------------------------------------------------------------


class CheckCall(DemoMessage, frozen=True, kw_only=True, tag="check"):
    """Ask for the policy's verdict on a call."""

    id: str
    call: str
    tool: str
    input: dict[str, Any]
    mode: str


class McpCall(DemoMessage, frozen=True, kw_only=True, tag="mcp"):
    """A message to an MCP server inside the gateway."""

    id: str
    server: str
    message: dict[str, Any]


class WithdrawRequest(DemoMessage, frozen=True, kw_only=True, tag="withdraw"):
    request: str


FromGateway = (
    OpenSession | SendPrompt | InterruptTurn | DecideRequest | SetMode | SetModel | RewindFiles | StopTask | DemoAnswer
)
FromProcess = DemoAnswer | CheckCall | McpCall | WithdrawRequest

_from_gateway: msgspec.json.Decoder[FromGateway] = msgspec.json.Decoder(FromGateway)
_from_process: msgspec.json.Decoder[Event | FromProcess] = msgspec.json.Decoder(Event | FromProcess)


def encode(message: DemoMessage) -> bytes:
    return msgspec.json.encode(message)


def decode_ours(raw: bytes) -> FromGateway | None:
    try:
        return _from_gateway.decode(raw)
    except msgspec.DecodeError:
        return None


def decode(raw: bytes) -> Event | FromProcess | None:
    """A line of the process; None if it is neither an event nor a message that we know."""
    try:
        return _from_process.decode(raw)
    except msgspec.DecodeError:
        return None


def numbered(process: str, number: int, kind: str) -> EventId:
    """The id of an event: the number counts the events of one process."""
    return event_id(f"{process}:{number}", kind)


def number_of(event: EventId) -> tuple[str, int]:
    """The process and the number of an event; zero if its id has another form."""
    process, _, number = event.partition("/")[0].rpartition(":")
    return process, int(number) if number.isdecimal() else 0
