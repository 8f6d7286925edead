"""One step of the translation: the context as it changes, and the actions so far. Pure."""

from typing import Any, Final

from msgspec import structs

from fairlead.clients.ahp.channels import chat_uri
from fairlead.clients.ahp.context import (
    PART_CHARACTERS,
    RESULT_CHARACTERS,
    SHORT,
    TURN_CHARACTERS,
    ActionOrigin,
    ChatTurn,
    Context,
    Sent,
)
from fairlead.clients.ahp.wire import Fields
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.ids import SessionId

REST_NOT_SHOWN: Final = "This turn is too long to be shown: the rest is in Fairlead's log."


class Translation:
    def __init__(self, session: SessionId, context: Context, at: int) -> None:
        self.session = session
        self.chat = chat_uri(session)
        self.context = context
        self.at = at
        self.sent: list[Sent] = []

    def on_chat(self, kind: str, origin: ActionOrigin | None = None, /, **fields: Any) -> None:
        self.sent.append(Sent(True, {"type": f"chat/{kind}", **fields}, origin))

    def on_session(self, kind: str, /, **fields: Any) -> None:
        self.sent.append(Sent(False, {"type": f"session/{kind}", **fields}))

    def change(self, **fields: Any) -> None:
        self.context = structs.replace(self.context, **fields)

    def change_turn(self, **fields: Any) -> None:
        assert self.context.turn is not None
        self.change(turn=structs.replace(self.context.turn, **fields))

    def update_chat(self, **changes: Any) -> None:
        """Change the chat's entry in the session."""
        self.on_session("chatUpdated", chat=self.chat, changes={**changes, "modifiedAt": iso_timestamp(self.at)})

    def cut(self, text: str, most: int = RESULT_CHARACTERS) -> str:
        """A text as it is shown: shortened above the limit, and in a turn that is large already."""
        turn = self.context.turn
        limit = SHORT if turn is not None and turn.used > TURN_CHARACTERS else most
        return text if len(text) <= limit else f"{text[:limit]}\n… ({len(text) - limit} more characters)"

    def use(self, characters: int) -> None:
        """Count the characters of a part that is complete. A client sees where the turn became too long."""
        turn = self.context.turn
        if turn is None:
            return
        self.change_turn(used=turn.used + characters + PART_CHARACTERS)
        if self.context.turn is not None and self.context.turn.full and not turn.full:
            self.add_part(turn, {"kind": "systemNotification", "content": REST_NOT_SHOWN})

    def add_part(self, turn: ChatTurn, part: Fields, since: int = 0) -> None:
        action = {"type": "chat/responsePart", "turnId": turn.id, "part": part}
        self.sent.append(Sent(True, action, since=since))
