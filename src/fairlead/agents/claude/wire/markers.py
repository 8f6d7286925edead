"""The gateway's own records between Claude's: facts for the interpreter that are not in the agent's output.

They are never sent. They have the origin `gateway`, no newline, and a `type` that no CLI uses.
"""

from typing import Any, Final

import msgspec

from fairlead.agents.links.framing import encode_line


class Marker(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of the markers. The prefix of their tags distinguishes them from the CLI's types."""


class InterruptMarker(Marker, frozen=True, kw_only=True, tag="fairlead_interrupt"):
    """An interrupt was requested at this point."""

    cause: str = ""


class SubagentLink(Marker, frozen=True, kw_only=True, tag="fairlead_subagent"):
    """The call that a subagent belongs to, from the `.meta.json` file next to its transcript."""

    agentId: str
    toolUseId: str


class ConnectionMarker(Marker, frozen=True, kw_only=True, tag="fairlead_link"):
    """The agent's socket was disconnected.

    `gap`: some of its output was lost; `over`: its current work brings no more output; `back`: it has reconnected, and
    `asked` are the calls with an undecided permission request."""

    cause: str = ""
    gap: bool = False
    over: bool = False
    back: bool = False
    asked: tuple[str, ...] = ()


class TypedPrompt(Marker, frozen=True, kw_only=True, tag="fairlead_typed"):
    """A prompt that is typed into the agent's terminal.

    Its transcript row will become the user's message; `uuid` is the message's id, which that row does not contain."""

    uuid: str
    content: Any


class TerminalMarker(Marker, frozen=True, kw_only=True, tag="fairlead_screen"):
    """Facts that the driver of a terminal knows and the transcript does not contain.

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


MARKERS: Final = {str(kind.__struct_config__.tag): kind for kind in Marker.__subclasses__()}


def encode_marker(marker: Marker) -> bytes:
    return encode_line(marker)[:-1]
