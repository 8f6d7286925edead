"""The mapper: a session's events in, envelopes out. Pure; its whole state is one `MapperMemory`.

The events already carry the author of each message, the turns and how each turn ended. The mapper opens turns lazily,
always closes them, and emits `start` and `stop` for subagents. Every agent envelope is inside a turn: agent output
outside the session's turns gets a separate turn, which is closed right after it.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final, TypedDict, Unpack, assert_never

from msgspec.structs import replace

from fairlead.clients.happy import envelopes as en
from fairlead.clients.happy import memory as mem
from fairlead.clients.happy.envelopes import Envelope, envelope_id
from fairlead.clients.happy.memory import HeldEnd, MappedRequest, MappedSubagent, MapperMemory
from fairlead.model import events as ev
from fairlead.model.content import ImageBlock, TextBlock, plain_text
from fairlead.model.events.base import SubagentEvent
from fairlead.model.formats.bounded_tables import put, trim
from fairlead.model.ids import SessionId, event_id, is_uuid, subagent_id, turn_id
from fairlead.model.store import Entry
from fairlead.model.views import Made, MemoryReducer, NewRow

VIEW: Final = "happy.2"
"""Increment the number when the same log would give different rows."""

SERVICE_NOTICES: Final = frozenset(
    {"local_command", "command", "unresolved", "link.gap", "link.back", "mode.ignored", "draining"}
)
"""Notices emitted as `service`: commands that a person typed outside the conversation, and messages of the gateway.
The agent's other system records give no envelope."""


Payload = dict[str, Any]
Which = int | str
"""Distinguishes envelopes of one event."""


class _More(TypedDict, total=False):
    """Optional fields of an envelope."""

    claudeUuid: str
    localId: str
    usage: dict[str, Any] | None


class HappyReducer(MemoryReducer[MapperMemory]):
    """Implements `model.views.Reducer` for one session."""

    def __init__(self, session: SessionId) -> None:
        super().__init__(MapperMemory())
        self._session = session
        self._made: list[Made] = []

    def step(self, entry: Entry) -> Sequence[Made]:
        event = with_happy_ids(ev.decode(entry.event))
        self._made = []
        self._dispatch(event)
        if self._memory.turn and not self._memory.base:
            self._close(event, "completed")
        return self._made

    # --- by kind

    def _dispatch(self, event: ev.Event) -> None:
        match event:
            case ev.TurnStarted():
                self._memory.base = event.turn or ""
                self._memory.used = False
            case ev.TurnEnded():
                self._turn_ended(event)
            case ev.UserMessage():
                self._user(event)
            case ev.Text():
                self._memory.emitted_error = self._memory.emitted_error or bool(event.error)
                self._agent_text(event, {"t": "text", "text": event.text})
            case ev.Thinking():
                if event.text:
                    self._agent_text(event, {"t": "text", "text": event.text, "thinking": True})
            case ev.ToolCalled():
                self._called(event)
            case ev.ToolEnded():
                self._ended(event)
            case ev.SubagentStarted():
                self._subagent(event)
            case ev.SubagentEnded():
                self._subagent_ended(event)
            case ev.PermissionRequested():
                about = f"{event.tool}: {event.title}" if event.title else event.tool
                self._asked(event, f"Waiting for permission: {about}")
            case ev.QuestionAsked():
                self._asked(event, "Waiting for an answer to a question.")
            case ev.PlanProposed():
                self._asked(event, "Waiting for the plan to be approved.")
            case ev.PermissionResolved():
                verb = "Allowed" if event.behavior == "allow" else "Denied"
                by = f" by {event.by}" if event.by else ""
                self._settled(event, event.request, "allowed" if event.behavior == "allow" else "denied", verb + by)
            case ev.PermissionCancelled():
                self._settled(event, event.request, "cancelled", f"No longer asked ({event.reason})")
            case ev.Notice():
                if event.kind in SERVICE_NOTICES and event.text.strip():
                    self._service(event, event.text)
            case ev.HookProgress():
                if event.phase == "ended" and event.outcome not in ("", "success") and event.output.strip():
                    self._service(event, f"Hook {event.name}: {event.output}")
            case ev.ErrorRaised():
                self._service(event, event.message)
            case ev.LifecycleEvent() | ev.DeltaEvent() | ev.SettingEvent() | ev.HousekeepingEvent() | ev.QueueEvent():
                pass
            case ev.SubagentResolved() | ev.ToolProgress() | ev.InterruptRequested() | ev.Rewound() | ev.RecordStored():
                pass
            case _:
                assert_never(event)

    # --- turns

    def _open(self, event: ev.Event) -> None:
        """Emit `turn-start` before the first agent output of a turn."""
        memory = self._memory
        if memory.turn:
            return
        own = bool(memory.base) and not memory.used
        memory.turn = memory.base if own else turn_id(self._session, event.id)
        memory.used = True
        self._emit(event, {"t": "turn-start"})

    def _close(self, event: ev.Event, status: ev.TurnStatus) -> None:
        memory = self._memory
        if not memory.turn:
            return
        for subagent in memory.active:
            self._emit(event, {"t": "stop"}, subagent, which=subagent)
        self._emit(event, {"t": "turn-end", "status": status})
        memory.turn = ""
        memory.started.clear()
        memory.active.clear()
        memory.emitted_error = False

    def _turn_ended(self, event: ev.TurnEnded) -> None:
        memory = self._memory
        for call in list(memory.held):
            # A log of an earlier version does not record that a call's subagent continues in the background.
            self._release_held(event, call)
        for request in [name for name, asked in memory.asked.items() if asked.subagent is None]:
            self._settled(event, request, "cancelled", "No longer asked (the turn has ended)")
        if event.status == "failed" and not memory.emitted_error:
            self._service(event, "\n".join(event.errors) or event.reason)
        self._close(event, event.status)
        memory.base = ""
        for model, usage in event.usage.items():
            if usage.window:
                memory.windows[model] = usage.window
        trim(memory.windows, mem.WINDOWS_KEPT)

    # --- messages

    def _user(self, event: ev.UserMessage) -> None:
        if event.subagent is not None:
            self._task(event, event.subagent)
        elif event.via != "agent":
            self._close(event, "completed")
            self._prompt(event)
        elif not event.synthetic:
            # The text in a tool result's record is the agent's, in its turn.
            self._texts(event)

    def _prompt(self, event: ev.UserMessage) -> None:
        """Emit one envelope per block, images first: a client shows them with the text that follows."""
        self._memory.time = max(self._memory.time, event.at - 1)
        images = [block for block in event.content if isinstance(block, ImageBlock)]
        files = [en.file_of(f"{event.message}.{number}", number, one.source) for number, one in enumerate(images)]
        # The id depends on the message, not on its record, so the client that posted it can compute the id.
        name = event_id(event.message, "user.message")
        uuid, local = (event.record, event.message) if event.record else (event.message, "")
        for blocks in (files, _text_payloads(event)):
            for number, one in enumerate(blocks):
                self._put(name, one, role="user", which=number, claudeUuid=uuid, localId=local)

    def _task(self, event: ev.UserMessage, name: str) -> None:
        """Emit a subagent's task once, whether it comes from the agent's stream, its transcript or from `_speaks`."""
        known = self._known(name)
        root = _hash(plain_text(event.content))
        if known.root == root:
            return
        if not known.root:
            known.root, known.prompt = root, ""
        self._speaks(event, name)
        self._texts(event, name)

    def _texts(self, event: ev.UserMessage, subagent: str | None = None) -> None:
        for number, payload in enumerate(_text_payloads(event)):
            self._say(event, payload, subagent, claudeUuid=_record(event), which=number)

    def _agent_text(self, event: ev.Text | ev.Thinking, payload: dict[str, Any]) -> None:
        self._say(event, payload, event.subagent, claudeUuid=_record(event), usage=self._usage(event))

    def _usage(self, event: ev.Block) -> dict[str, Any] | None:
        return en.usage_of(event.tokens, self._memory.windows.get(event.model, 0))

    def _service(self, event: ev.Event, text: str, subagent: str | None = None, **more: Any) -> None:
        if text.strip():
            self._say(event, {"t": "service", "text": text, **more}, subagent)

    # --- calls

    def _called(self, event: ev.ToolCalled) -> None:
        memory = self._memory
        child = ""
        if event.name in (en.HIDDEN, en.VISIBLE):
            child = subagent_id("claude", event.call)
            known = memory.subagents.setdefault(child, MappedSubagent(event.call))
            known.title = en.subagent_title(event.input)
            known.hidden = event.name == en.HIDDEN
            trim(memory.subagents, mem.SUBAGENTS_KEPT)
            if known.hidden:
                return
        put(memory.calls, event.call, event.subagent, mem.CALLS_OPEN)
        start = en.call_start(event.call, event.name, event.input, child)
        self._say(event, start, event.subagent, usage=self._usage(event))

    def _ended(self, event: ev.ToolEnded) -> None:
        memory = self._memory
        if event.call not in memory.calls:
            return
        subagent = memory.calls.pop(event.call)
        end = en.call_end(event.call, event.content, event.is_error, event.status == "interrupted")
        child = memory.subagents.get(subagent_id("claude", event.call))
        if child is not None and not child.over and not event.background:
            memory.held[event.call] = HeldEnd(end, event.id, subagent)
            return
        self._say(event, end, subagent)

    def _release_held(self, event: ev.Event, call: str) -> None:
        end = self._memory.held.pop(call)
        self._speaks(event, end.subagent)
        self._put(end.event, end.ev, end.subagent)

    # --- subagents

    def _known(self, name: str) -> MappedSubagent:
        return self._memory.subagents.setdefault(name, MappedSubagent(""))

    def _subagent(self, event: ev.SubagentStarted) -> None:
        known = self._memory.subagents.setdefault(event.child, MappedSubagent(event.call))
        trim(self._memory.subagents, mem.SUBAGENTS_KEPT)
        known.call, known.parent, known.over = event.call, event.subagent, False
        known.title = known.title or (event.title or event.kind or event.prompt).strip()
        if not known.root:
            known.prompt = event.prompt

    def _speaks(self, event: ev.Event, name: str | None) -> None:
        """Emit the missing `turn-start` and `start` envelopes before output of the agent or of the subagent `name`."""
        memory = self._memory
        self._open(event)
        if name is None or name in memory.started:
            return
        known = self._known(name)
        if known.parent is not None and not self._known(known.parent).over:
            # The parent may have emitted nothing yet except starting this subagent.
            self._speaks(event, known.parent)
        known.begun = True
        memory.started.append(name)
        memory.active.append(name)
        self._emit(event, {"t": "start", "title": known.title} if known.title else {"t": "start"}, name, which=name)
        if known.prompt.strip():
            text, known.root, known.prompt = known.prompt, _hash(known.prompt), ""
            self._put(name, {"t": "text", "text": text}, name, which="root")

    def _subagent_ended(self, event: ev.SubagentEnded) -> None:
        memory = self._memory
        known = self._known(event.child)
        known.over = True
        if not known.begun:
            # It produced no output, but clients still get its `start` and `stop`.
            self._speaks(event, event.child)
        if event.child in memory.active:
            memory.active.remove(event.child)
            self._emit(event, {"t": "stop"}, event.child, which=event.child)
        if event.call in memory.held:
            self._release_held(event, event.call)

    # --- permission requests

    def _asked(self, event: ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed, text: str) -> None:
        asked = MappedRequest(event.tool, event.call, event.subagent)
        put(self._memory.asked, event.request, asked, mem.ASKED_OPEN)
        facts = {"request": event.request, "call": event.call, "tool": event.tool, "state": "asked"}
        self._service(event, text, event.subagent, permission=facts)

    def _settled(self, event: ev.Event, request: str, state: str, text: str) -> None:
        """Emit the outcome of a request that was emitted as asked. Decisions made by a rule alone are not shown."""
        asked = self._memory.asked.pop(request, None)
        if asked is None:
            return
        facts = {"request": request, "call": asked.call, "tool": asked.tool, "state": state}
        payload = {"t": "service", "text": f"{text}: {asked.tool}", "permission": facts}
        self._say(event, payload, asked.subagent, which=request)

    # --- envelopes

    def _say(
        self, event: ev.Event, payload: Payload, subagent: str | None = None, which: Which = 0, **more: Unpack[_More]
    ) -> None:
        """Emit output of the agent or of a subagent, after the envelopes that must come before it."""
        self._speaks(event, subagent)
        self._emit(event, payload, subagent, which, **more)

    def _emit(
        self, event: ev.Event, payload: Payload, subagent: str | None = None, which: Which = 0, **more: Unpack[_More]
    ) -> None:
        self._memory.time = max(self._memory.time, event.at - 1)
        self._put(event.id, payload, subagent, which, **more)

    def _put(
        self,
        source: str,
        payload: Payload,
        subagent: str | None = None,
        which: Which = 0,
        role: en.Role = "agent",
        **more: Unpack[_More],
    ) -> None:
        self._memory.time += 1
        time, turn = self._memory.time, self._memory.turn if role == "agent" else ""
        name = envelope_id(source, payload["t"], which)
        envelope = Envelope(id=name, time=time, role=role, turn=turn, subagent=subagent, ev=payload, **more)
        self._made.append(NewRow(en.encode(envelope), name))


def _text_payloads(message: ev.UserMessage) -> list[dict[str, Any]]:
    texts = [block.text for block in message.content if isinstance(block, TextBlock)]
    return [{"t": "text", "text": text} for text in texts if text.strip()]


def _record(event: ev.Event) -> str:
    """Return the uuid of the agent's record that an event came from; empty if it came from none."""
    name = event.id.partition("/")[0]
    return name if is_uuid(name) else ""


def _hash(words: str) -> str:
    return hashlib.sha256(words.strip().encode("utf-8", "surrogatepass")).hexdigest()[:16]


_HAPPY_ID: Final = re.compile("c[0-9a-f]{23}")


def with_happy_ids(event: ev.Event) -> ev.Event:
    """Name subagents by the formula that clients know. Claude Code's have such names already; other agents name a
    subagent by its call."""
    if event.subagent is not None and not _HAPPY_ID.fullmatch(event.subagent):
        event = replace(event, subagent=subagent_id("claude", event.subagent))
    if isinstance(event, SubagentEvent) and not _HAPPY_ID.fullmatch(event.child):
        event = replace(event, child=subagent_id("claude", event.call))
    return event
