"""The gateway's own records between Claude's: facts for the interpreter that are not in the agent's output.

They are never sent. They have the origin `gateway`, no newline, and a `type` that no CLI uses.
"""

from typing import Any, Final

import msgspec

from fairlead.agents.claude.wire.framing import encode_line

INTERRUPT_MARKER: Final = "fairlead_interrupt"
LINK_MARKER: Final = "fairlead_link"
SUBAGENT_LINK: Final = "fairlead_subagent"
TYPED_PROMPT: Final = "fairlead_typed"
SCREEN_MARKER: Final = "fairlead_screen"
"""The `type`s of our own markers; the prefix distinguishes them from the CLI's types."""


class InterruptMarker(msgspec.Struct, frozen=True, kw_only=True):
    """Gateway marker, never sent: an interrupt was requested at this point."""

    cause: str = ""


class SubagentLink(msgspec.Struct, frozen=True, kw_only=True):
    """Gateway marker: the call that a subagent belongs to, from the `.meta.json` file next to its transcript."""

    agentId: str
    toolUseId: str


class ConnectionMarker(msgspec.Struct, frozen=True, kw_only=True):
    """Gateway marker, never sent: the agent's socket was disconnected.

    `gap`: some of its output was lost; `over`: its current work brings no more output; `back`: it has reconnected, and
    `asked` are the calls with an undecided permission request."""

    cause: str = ""
    gap: bool = False
    over: bool = False
    back: bool = False
    asked: tuple[str, ...] = ()


class TypedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """Gateway marker: a prompt that is typed into the agent's terminal.

    Its transcript row will become the user's message; `uuid` is the message's id, which that row does not contain."""

    uuid: str
    content: Any


class TerminalMarker(msgspec.Struct, frozen=True, kw_only=True):
    """Gateway marker, never sent: facts that the driver of a terminal knows and the transcript does not contain.

    The values of `what`: `ready`: the agent runs (agent_session and the following fields). `stopped`: its Stop hook
    ran. `idle`: it is back at its prompt; `left`: it has been there for a while without an answer. `untyped`: the
    prompt `message` could not be typed. `shows`: the screen shows something that needs a person (`kind`, `lines`)."""

    cause: str = ""
    what: str = ""
    agent_session: str = ""
    version: str = ""
    mode: str = ""
    cwd: str = ""
    message: str = ""
    text: str = ""
    kind: str = ""
    lines: tuple[str, ...] = ()


def interrupt_marker(cause: str) -> bytes:
    """The record (origin `gateway`, never sent) that marks an interrupt for the interpreter; no newline."""
    return encode_line({"type": INTERRUPT_MARKER, "cause": cause})[:-1]


def link_marker(marker: ConnectionMarker) -> bytes:
    """The record (origin `gateway`, never sent) that reports a disconnection to the interpreter; no newline."""
    return encode_line({"type": LINK_MARKER, **msgspec.structs.asdict(marker)})[:-1]


def subagent_link(agent: str, call: str) -> bytes:
    """The record (origin `gateway`, never sent) that links a subagent to the call that started it; no newline."""
    return encode_line({"type": SUBAGENT_LINK, "agentId": agent, "toolUseId": call})[:-1]


def typed_prompt(content: Any, message: str) -> bytes:
    """Our record for a typed prompt (origin `gateway`); no newline."""
    return encode_line({"type": TYPED_PROMPT, "uuid": message, "content": content})[:-1]


def screen_marker(marker: TerminalMarker) -> bytes:
    """The record (origin `gateway`, never sent) that carries a terminal driver's facts; no newline."""
    return encode_line({"type": SCREEN_MARKER, **msgspec.structs.asdict(marker)})[:-1]
