"""Drives an ACP conversation without a server, in front of a core that knows at most one session."""

import itertools
import json
from typing import Any

import msgspec

from clients.native.conversation_driver import frames
from fairlead.clients.acp.conversation import AcpConversation
from fairlead.model.auth import Identity
from fairlead.model.commands import Reply, Send
from fairlead.model.errors import NotFound
from fairlead.model.queries import EventPage, GetSession, ListSessions, ReadMessages, SessionView, WaitLoaded
from fairlead.model.store import SessionPage
from fairlead.model.web.requests import Head
from fairlead.model.web.sockets import Handshake, RunFlow, Subscribe, Subscribed, Write
from fairlead.sessions.api.folders import ReadSessionChoices, SessionChoices
from flows import drive

Fields = dict[str, Any]


class ConversationRig:
    """`answers` false: no step is ever answered. `view`: the only session; `last`: the seq of its last stored entry."""

    SESSION = "5e551011-0000-4000-8000-000000000000"

    def __init__(self, *, answers: bool = True, view: SessionView | None = None, last: int = 0) -> None:
        numbers = itertools.count(1)
        self._view, self._last = view, last
        self.steps: list[Any] = []
        """All steps and subscriptions of the conversation, in order."""
        self._answers = answers
        self.conversation = AcpConversation(
            Handshake(
                head=Head(method="GET", path="/acp", socket=True),
                who=Identity("c1", "owner", "Ann", frozenset({"admin"})),
                version="1.2.3",
                fresh=lambda: f"00000000-0000-4000-8000-{next(numbers):012d}",
            )
        )

    def say(self, message: Fields) -> list[Fields]:
        return self.receive(json.dumps(message).encode())

    def receive(self, data: bytes) -> list[Fields]:
        """The messages that the client gets for this one."""
        effects = self.conversation.received(data, True)
        if not self._answers:
            effects = [effect for effect in effects if not isinstance(effect, RunFlow)]
        found: list[Fields] = []
        for effect in drive(self.conversation, effects, self._step):
            assert isinstance(effect, Write)
            found += [json.loads(payload) for _, payload in frames(effect.frames)]
        return found

    def _step(self, step: Any, lane: str) -> Any:
        self.steps.append(step)
        view = self._view
        match step:
            case ListSessions():
                return SessionPage(())
            case WaitLoaded() if view is not None:
                return True
            case GetSession() if view is not None:
                return view
            case ReadMessages() if view is not None:
                event = msgspec.Raw(b'{"seq":%d}' % self._last)
                return EventPage(session=step.session, log_id=view.log_id, head=view.head, events=(event,))
            case ReadSessionChoices():
                return SessionChoices(("/",), modes=("default",))
            case Subscribe() if view is not None:
                return Subscribed(step.session, "ok", view.log_id, view.head)
            case Send():
                return Reply(session=step.session, message=step.message)
            case _:
                pass
        raise NotFound("session", str(getattr(step, "session", "")))
