"""Drives an ACP conversation without a server, in front of a core that knows no session."""

import itertools
import json
from typing import Any

from clients.native.conversation_driver import frames
from fairlead.clients.acp.conversation import AcpConversation
from fairlead.model.auth import Identity
from fairlead.model.errors import NotFound
from fairlead.model.queries import ListSessions
from fairlead.model.store import SessionPage
from fairlead.model.web.requests import Head
from fairlead.model.web.sockets import Handshake, RunFlow, Write
from flows import drive

Fields = dict[str, Any]


class ConversationRig:
    """`answers` false: no step is ever answered."""

    SESSION = "5e551011-0000-4000-8000-000000000000"

    def __init__(self, *, answers: bool = True) -> None:
        numbers = itertools.count(1)
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
        if isinstance(step, ListSessions):
            return SessionPage(())
        raise NotFound("session", str(getattr(step, "session", "")))
