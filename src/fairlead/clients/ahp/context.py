"""What the translation of a log to actions remembers: small, immutable, and the same at the same position. Pure.

The turns of AHP are those of the log with one difference: a turn begins when its message is accepted, not when the
agent receives it, so that a client sees its prompt at once. `ChatTurn.begun` says that the agent has it.
"""

from typing import Annotated, Any, Final, Literal

import msgspec

from fairlead.clients.ahp.wire import Fields
from fairlead.model.formats.frames import decode_or_none
from fairlead.model.formats.numbered_frames import LARGEST_NUMBER
from fairlead.model.ids import CallId, MessageId, RequestId

IDLE: Final = 1
FAILED: Final = 2
WORKING: Final = 8
INPUT_NEEDED: Final = 24
READ: Final = 32
ARCHIVED: Final = 64
"""Bits of a status. AHP has one read flag per session, Fairlead one per user: sessions are shown as read."""

TEXT_CHARACTERS: Final = 256 << 10
"""Maximum characters of one text; the log has the rest."""
RESULT_CHARACTERS: Final = 16 << 10
"""Maximum characters of a tool's input, and of its result."""
TURN_CHARACTERS: Final = 2 << 20
"""Characters of one turn after which its texts and results are cut to `SHORT`: a turn is kept in memory while it
runs, and is one row when it has ended."""
SHORT: Final = 200
LAST_CHARACTERS: Final = 4 << 20
PART_CHARACTERS: Final = 200
"""Characters of one turn after which it gets no more parts, except requests to a person; `PART_CHARACTERS` are counted
for each part in addition to its own."""
OPEN_TEXTS: Final = 256
"""Unfinished texts of a turn: one per thread, and some that were abandoned."""


ActionNumber = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_NUMBER)]
"""A client's number of its action."""


class ActionOrigin(msgspec.Struct, frozen=True, tag_field="of", tag="ahp"):
    """Who dispatched an action: stored in the log as the reference of its command. `name` is the client's own id of
    the turn or of the queued message."""

    client: str
    number: ActionNumber
    name: str = ""

    @property
    def fields(self) -> Fields:
        return {"clientId": self.client, "clientSeq": self.number}


_read_origin = msgspec.json.Decoder(ActionOrigin).decode


def read_origin(reference: str) -> ActionOrigin | None:
    return decode_or_none(_read_origin, reference.encode()) if reference else None


def reference_of(origin: ActionOrigin) -> str:
    return msgspec.json.encode(origin).decode()


class ChatTurn(msgspec.Struct, frozen=True):
    """`message`: the prompt that it answers. `turn`: the log's own id. `texts`: the characters that were sent of each
    unfinished text. `calls`: the unfinished calls. `used`: characters of its finished parts. `cancel`: the client that
    interrupts it."""

    id: str
    started: int
    message: MessageId | None = None
    turn: str = ""
    begun: bool = False
    texts: dict[str, int] = {}
    calls: dict[CallId, Literal["running", "pending"]] = {}
    used: int = 0
    cancel: ActionOrigin | None = None

    @property
    def full(self) -> bool:
        return self.used > LAST_CHARACTERS


class OpenRequest(msgspec.Struct, frozen=True):
    """A request that waits for a person. `question`: it takes answers, not a confirmation. `editable`: clients have
    the tool's whole input and may change it."""

    turn: str
    call: CallId
    question: bool = False
    suggestions: tuple[str, ...] = ()
    editable: bool = False


class QueuedPrompt(msgspec.Struct, frozen=True):
    """A message that waits in the queue, under the id that clients know."""

    id: str
    fields: Fields


MODE: Final = "permissionMode"
MODEL: Final = "model"
THINKING: Final = "thinking"
DEFAULTS: Final[Fields] = {MODE: "default", MODEL: "", THINKING: 0}
"""The configuration of a session, by its keys. VS Code knows `permissionMode` and shows it in its own picker. An empty
model and no thinking budget (0) leave the choice to the agent."""


class Context(msgspec.Struct, frozen=True):
    """`queue` in the order in which the messages will be sent. `status`: of the chat, as it was last sent. `title`:
    empty until there is a title or a prompt."""

    turn: ChatTurn | None = None
    queue: dict[MessageId, QueuedPrompt] = {}
    requests: dict[RequestId, OpenRequest] = {}
    status: int = IDLE
    ended: int = IDLE
    """The status between turns: the last turn failed, or not."""
    title: str = ""
    config: Fields = msgspec.field(default_factory=lambda: dict(DEFAULTS))
    """The values of the session's configuration (`session_config`)."""
    archived: bool = False

    @property
    def current_status(self) -> int:
        if self.turn is None:
            return self.ended
        waiting = "pending" in self.turn.calls.values() or any(
            request.question and request.turn == self.turn.id for request in self.requests.values()
        )
        return INPUT_NEEDED if waiting else WORKING

    def request_of(self, call: str) -> tuple[RequestId, OpenRequest] | None:
        """The pending confirmation of a call."""
        return next(((name, one) for name, one in self.requests.items() if one.call == call and not one.question), None)


class Sent(msgspec.Struct, frozen=True):
    """One action, on the chat's channel or on the session's. `since`: the seq at which the part that it adds began, if
    that was before this entry."""

    chat: bool
    action: Fields
    origin: ActionOrigin | None = None
    since: int = 0


def without(table: dict[Any, Any], key: Any) -> dict[Any, Any]:
    return {name: value for name, value in table.items() if name != key}
