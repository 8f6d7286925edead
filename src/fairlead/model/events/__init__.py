"""Events: what happened in a session, independent of the agent. One frozen class per kind; `type` on the wire is its
tag.

Rule: an event is true for every client. It holds facts that several projections need (was this text streamed before,
which subagent, how a turn ended), so that projections need little state. Adding a kind means adding it to `Event`
below; the type checker then names every `match` to extend.

`id` is permanent, `at` is milliseconds since 1970 and grows strictly within a log, `turn` and `subagent` are set on
every event inside one. `seq` is not here: the log assigns it.
"""

import msgspec

from fairlead.model.events.base import *
from fairlead.model.events.conversation import *
from fairlead.model.events.lifecycle import *

Delta = TextDelta | ThinkingDelta | InputDelta
Block = Text | Thinking | ToolCalled

_Session = SessionOpened | SessionResumed | SessionForked | SessionChanged | SessionClosed
_Process = AgentStarted | AgentReady | AgentExited | HandoverRequested | HandoverSettled
_Message = TurnStarted | TurnEnded | UserMessage | Delta | Block
_Tool = ToolProgress | ToolEnded | SubagentStarted | SubagentEnded | SubagentResolved
_Permission = PermissionRequested | QuestionAsked | PlanProposed | PermissionResolved | PermissionCancelled
_Setting = ModeChanged | ModelChanged | ThinkingChanged
_Housekeeping = Compaction | RateLimit | HookProgress | Notice
_Queue = MessageQueued | MessageDequeued | MessageCancelled | MessageMoved
_Other = InterruptRequested | Rewound | ErrorRaised | RecordStored

Event = _Session | _Process | _Message | _Tool | _Permission | _Setting | _Housekeeping | _Queue | _Other

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def kind_of(event: Event) -> str:
    """The event's `type` on the wire."""
    return str(type(event).__struct_config__.tag)


def encode(event: Event) -> bytes:
    """As stored: a JSON object whose first key is `type`."""
    return _encoder.encode(event)


def decode(data: bytes) -> Event:
    return _decoder.decode(data)
