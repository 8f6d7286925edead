"""The base classes of events: the common fields, and the groups that a `match` can name at once.

A projection that does not show a group names it after the kinds of the group that it does show.
"""

import msgspec

from fairlead.model.ids import CallId, EventId, MessageId, SubagentId, TurnId


class EventBase(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """The common fields of all events."""

    id: EventId
    at: int = 0
    turn: TurnId | None = None
    subagent: SubagentId | None = None


class LifecycleEvent(EventBase, frozen=True, kw_only=True):
    """The session, the agent's process, or its link starts, changes or ends."""


class SettingEvent(EventBase, frozen=True, kw_only=True):
    """A setting took effect."""


class HousekeepingEvent(EventBase, frozen=True, kw_only=True):
    """The agent reports about itself, outside the conversation."""


class QueueEvent(EventBase, frozen=True, kw_only=True):
    """A message enters the queue, moves in it or leaves it."""

    message: MessageId


class DeltaEvent(EventBase, frozen=True, kw_only=True):
    """A piece of a block that is still being written."""

    message: MessageId
    block: int
    offset: int


class SubagentEvent(EventBase, frozen=True, kw_only=True):
    """The subagent `child`, which `call` started, begins, ends, or is found to have sent earlier messages. Agents whose
    records do not have the form of the CLI name a subagent by its call."""

    child: SubagentId
    call: CallId
