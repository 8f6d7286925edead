"""Our own records between Claude's: what the interpreter must know beside what the agent said. Never sent.

They have the origin `gateway`, no newline, and a `type` that no CLI uses.
"""

from typing import Any, Final

import msgspec

from fairlead.agents.claude.wire.framing import encode_line

INTERRUPT_MARKER: Final = "fairlead_interrupt"
LINK_MARKER: Final = "fairlead_link"
SUBAGENT_LINK: Final = "fairlead_subagent"
TYPED_PROMPT: Final = "fairlead_typed"
SCREEN_MARKER: Final = "fairlead_screen"
"""The `type`s of our own markers; the prefix keeps them apart from any type of the CLI."""


class InterruptMarker(msgspec.Struct, frozen=True, kw_only=True):
    """Ours, never sent: an interrupt was asked for here."""

    cause: str = ""


class SubagentLink(msgspec.Struct, frozen=True, kw_only=True):
    """Ours: what the file beside a subagent's transcript says about whose it is (its `.meta.json`)."""

    agentId: str
    toolUseId: str


class ConnectionMarker(msgspec.Struct, frozen=True, kw_only=True):
    """Ours, never sent: the agent's socket was away. `gap`: some of what it said was lost; `over`: nothing more comes
    of what it was doing; `back`: it is here again, and `asked` are the calls about which a person is being asked."""

    cause: str = ""
    gap: bool = False
    over: bool = False
    back: bool = False
    asked: tuple[str, ...] = ()


class TypedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """Ours: a prompt that is typed into the agent's terminal. The row of its transcript will be the user's message;
    `uuid` is the message's id, which that row does not know."""

    uuid: str
    content: Any


class TerminalMarker(msgspec.Struct, frozen=True, kw_only=True):
    """Ours, never sent: what the driver of a terminal knows beside the transcript.

    `ready`: the agent runs (agent_session and what follows). `stopped`: its Stop hook came. `idle`: it is back at its
    prompt; `left`: it has been for a while, and no answer came. `untyped`: the prompt `message` could not be typed.
    `shows`: something a person must see to (`kind`, `lines`)."""

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
    """The record (origin `gateway`, never sent) that tells the interpreter of an interrupt; no newline."""
    return encode_line({"type": INTERRUPT_MARKER, "cause": cause})[:-1]


def link_marker(marker: ConnectionMarker) -> bytes:
    """The record (origin `gateway`, never sent) that tells the interpreter how the link fared; no newline."""
    return encode_line({"type": LINK_MARKER, **msgspec.structs.asdict(marker)})[:-1]


def subagent_link(agent: str, call: str) -> bytes:
    """The record (origin `gateway`, never sent) that tells the interpreter which call began a subagent; no newline."""
    return encode_line({"type": SUBAGENT_LINK, "agentId": agent, "toolUseId": call})[:-1]


def typed_prompt(content: Any, message: str) -> bytes:
    """Our line for a prompt that is typed (origin `gateway`); no newline."""
    return encode_line({"type": TYPED_PROMPT, "uuid": message, "content": content})[:-1]


def screen_marker(marker: TerminalMarker) -> bytes:
    """The record (origin `gateway`, never sent) by which the driver of a terminal tells what it knows; no newline."""
    return encode_line({"type": SCREEN_MARKER, **msgspec.structs.asdict(marker)})[:-1]
