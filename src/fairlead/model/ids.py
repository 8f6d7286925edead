"""Ids: the format of each and, for derived ids, the source.

Derived ids are functions of the named object, so that interpreting the same records again gives the same ids. Random
ids are made by the caller and passed in: nothing here is random.
"""

import hashlib
import re
from typing import Final, NewType

from fairlead.model.errors import BadId

SessionId = NewType("SessionId", str)
"""A lowercase UUID. Where the agent lets us choose, it is the agent's own session id too."""
TurnId = NewType("TurnId", str)
"""`t` and 23 characters of `[0-9a-z]`."""
SubagentId = NewType("SubagentId", str)
"""`c` and 23 hexadecimal digits, from the id of the call that started the subagent."""
CallId = NewType("CallId", str)
"""The agent's own id of a tool call."""
RequestId = NewType("RequestId", str)
"""The agent's own id of a request to us (a permission, a question)."""
MessageId = NewType("MessageId", str)
"""For a prompt, the UUID that we send to the agent with it; else the agent's own message id."""
EventId = NewType("EventId", str)
"""Permanent name of one event of a session: `<record uuid>/<block>/<kind>`."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def session_id(text: str) -> SessionId:
    """Check an id from outside; a UUID in upper case is accepted and converted to lower case."""
    lowered = text.lower()
    if not _UUID.fullmatch(lowered):
        raise BadId(what="session", given=text[:80])
    return SessionId(lowered)


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def turn_id(session: SessionId, origin: str) -> TurnId:
    """The turn that `origin` (the uuid of the record or prompt that began it) opened in `session`."""
    number = int.from_bytes(hashlib.sha256(f"{session}:{origin}".encode()).digest()[:15], "big")
    digits = []
    for _ in range(23):
        number, digit = divmod(number, 36)
        digits.append(_BASE36[digit])
    return TurnId("t" + "".join(digits))


def subagent_id(agent: str, call: str) -> SubagentId:
    """The subagent that a call of this kind of agent started. Clients of the Happy protocol know subagents by this
    formula."""
    return SubagentId("c" + hashlib.sha256(f"{agent}-subagent:{call}".encode()).hexdigest()[:23])


def event_id(record: str, kind: str, block: int | str = 0) -> EventId:
    return EventId(f"{record}/{block}/{kind}")
