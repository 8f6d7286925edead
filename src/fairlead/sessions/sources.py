"""Messages of agents: which agent sent one, how far it may go, and how it is marked. Pure.

Rule: the source comes from the caller's identity, which the gate made from a credential. Nothing that an agent writes
can change it. The mark is a part of the message's content, so that the receiving agent and every client see it.
"""

from typing import Final

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.content import Content, MessageSource, TextBlock
from fairlead.model.errors import BadRequest, NotAllowed, TooDeep

MOST_DEPTH: Final = 2
"""An agent's message reaches a session (1), whose agent may send one further (2)."""


def source_of(who: Identity, depth: int, target: str = "") -> MessageSource | None:
    """The source of a message of `who`, None for a person. `depth` is that of the caller's own session, 0 if it is
    unknown. Raises TooDeep, BadRequest."""
    if not who.agent:
        return None
    if who.session and who.session == target:
        raise BadRequest("This is your own session: answer in your turn instead of sending a message.")
    if depth >= MOST_DEPTH:
        raise TooDeep(MOST_DEPTH)
    return MessageSource(session=who.session, depth=depth + 1)


def check_alone(who: Identity, owned: tuple[str, tuple[str, ...]] | None) -> None:
    """Raise NotAllowed unless the caller's own session belongs to the user of its token alone: the people with whom it
    is shared must not see its owner's other sessions through its agent."""
    if not who.user or owned != (who.user, ()):
        raise NotAllowed(
            "The agent of a session that is shared, or whose user is gone, has no access to other sessions."
        )


def sender(who: Identity, source: MessageSource | None) -> str:
    """The sender's name that every client shows."""
    if source is None or source.session:
        return who.name
    return f"agent outside the gateway, {who.name}"


def marked(content: tuple[Content, ...], who: Identity, source: MessageSource) -> tuple[Content, ...]:
    """The content with a first line that names the sender. The line also keeps a text that begins with a slash from
    being taken for a command of the receiving agent."""
    if source.session:
        named = f"the agent of session {source.session}"
    else:
        named = f"an agent outside this gateway, whose session is unknown (credential: {_plain(who.name)})"
    line = f"[From {named}, depth {source.depth} of {MOST_DEPTH}. No person wrote this; all of it is from that agent.]"
    first = content[0] if content else None
    if isinstance(first, TextBlock):
        return (msgspec.structs.replace(first, text=f"{line}\n\n{first.text}"), *content[1:])
    return (TextBlock(line), *content)


def _plain(name: str) -> str:
    """A name that cannot end the mark."""
    return "".join(character for character in name if character.isprintable() and character not in "[]")
