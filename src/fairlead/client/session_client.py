"""Client of one session: send, follow, answer, interrupt."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from fairlead.client.watch import EventLine, Note, SessionWatch, read_line
from fairlead.clients.native.schemas import AnswerBody, PostMessage
from fairlead.model.commands import Reply
from fairlead.model.queries import EventPage, SessionView

if TYPE_CHECKING:
    from fairlead.client.gateway_client import GatewayClient


class SessionClient:
    """One session of a gateway. It keeps nothing but the id: two of them for one session do not disturb each other."""

    def __init__(self, gateway: "GatewayClient", id: str) -> None:
        self._gateway = gateway
        self.id = id

    async def view(self) -> SessionView:
        """Return the present state, with the cursor to follow from (`head`, `log_id`) and the pending requests."""
        return await self._gateway.get(f"/v1/sessions/{self.id}", SessionView)

    async def send(
        self, text: str, *, content: list[Any] | None = None, message: str | None = None, steer: bool = False
    ) -> Reply:
        """Send a message; it waits for its turn while the agent works, or goes into the running turn (`steer`).

        `content`, a list of blocks, replaces the text. `message` is your own id of the message, a UUID: sent twice, it
        counts once."""
        body = PostMessage(text=None if content else text, content=content, id=message, steer=steer)
        return await self._gateway.post(f"/v1/sessions/{self.id}/messages", Reply, body)

    async def interrupt(self) -> Reply:
        """Stop the running turn."""
        return await self._gateway.post(f"/v1/sessions/{self.id}/interrupt", Reply, {})

    async def allow(
        self,
        request: str,
        *,
        updated_input: dict[str, Any] | None = None,
        answers: dict[str, Any] | None = None,
        remember: tuple[str, ...] = (),
    ) -> Reply:
        """Allow a request. `answers` are for a question; `remember` are rules that hold from now on in the session."""
        body = AnswerBody(behavior="allow", updated_input=updated_input, answers=answers, remember=remember)
        return await self._gateway.answer(request, body)

    async def deny(self, request: str, message: str = "", *, interrupt: bool = False) -> Reply:
        """Deny a request; the agent reads the message. `interrupt` ends the turn, too."""
        return await self._gateway.answer(request, AnswerBody(behavior="deny", message=message, interrupt=interrupt))

    async def close(self) -> Reply:
        """End the agent's process. The next message resumes the session."""
        return await self._gateway.post(f"/v1/sessions/{self.id}/close", Reply, {})

    async def events(self, after: int = 0) -> AsyncIterator[EventLine]:
        """Yield the events after a sequence number up to the current end of the log."""
        while True:
            page = await self._gateway.get(f"/v1/sessions/{self.id}/events", EventPage, after=after, limit=1000)
            for raw in page.events:
                yield read_line(bytes(raw), page.log_id)
            if page.next is None:
                return
            after = page.next

    def stream(self, after: int = 0, log_id: str = "") -> "aclosing[AsyncGenerator[EventLine | Note, None]]":
        """Follow the session from a cursor on, across reconnects: `async with session.stream() as events`.

        Without a cursor it begins with the first event. `seq` and `log_id` of an event are the cursor after it."""
        return aclosing(SessionWatch(self._gateway.locate, self.id, after, log_id).items())
