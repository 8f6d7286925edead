"""Publishing with a condition, until there is an answer or the time is over.

Rule: what was sent may have been stored, whatever came back. So a message with a condition is sent again as it is: if
it was stored, its condition fails now, and the last message of the subject has its nonce.
"""

import asyncio
import json
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from fairlead.model.errors import Unavailable
from fairlead.stores.nats.connection import PAUSE_S, TRANSIENT, TRY_S, JetStream
from fairlead.stores.nats.messages import EXPECTED, NONCE, PART, SPOKEN, VERSION

DEADLINE_S: Final = 12.0
"""An election of a new leader took up to 9 seconds; then one more try."""
_WRONG_LAST: Final = 10071
_FULL: Final = (10047, 10077)
# Bytes of a body in one message; the server's own limit (1 MiB by default) includes the headers.
_PART_BYTES: Final = 512 << 10
_NUMBER: Final = re.compile(r"(\d+)\D*$")


class Refused(Exception):
    """The condition does not hold: `last` is the sequence of the subject's last message, 0 if it has none."""

    def __init__(self, last: int) -> None:
        super().__init__(f"the last message is {last}")
        self.last = last


class Outgoing(msgspec.Struct, frozen=True):
    """A message; `expected` None: without a condition."""

    subject: str
    body: bytes
    expected: int | None = None
    headers: dict[str, str] = {}


class Publisher:
    """Publishes to one stream. `expires`: messages of the stream may go by themselves, so that the last sequence of a
    subject becomes smaller. In other streams that means that a server has lost messages: `behind` is called with
    the subject, the server's sequence and the known one."""

    def __init__(
        self,
        js: JetStream,
        stream: str,
        *,
        expires: bool,
        behind: Callable[[str, int, int], None] = lambda subject, last, known: None,
    ) -> None:
        self._js = js
        self._stream = stream
        self._expires = expires
        self.behind = behind

    async def publish(self, message: Outgoing) -> int:
        """Store a message, in parts if it is large; return the sequence of its last part. Raises Refused, and
        Unavailable if there is no answer in time: then the outcome is unknown."""
        size = min(_PART_BYTES, self._js.client.max_payload // 2)
        body = message.body
        parts = [body[start : start + size] for start in range(0, len(body), size)] or [b""]
        if len(parts) == 1:
            return await self.publish_all([message])
        first = Outgoing(message.subject, parts[0], message.expected, {**message.headers, PART: f"1/{len(parts)}"})
        rest = [
            Outgoing(message.subject, part, None, {**message.headers, PART: f"{number}/{len(parts)}"})
            for number, part in enumerate(parts[1:], 2)
        ]
        return await self.publish_all([first, *rest])

    async def publish_all(self, messages: Sequence[Outgoing]) -> int:
        """Store all messages or none; return the sequence of the last one."""
        nonce = uuid.uuid4().hex[:16]
        loop = asyncio.get_running_loop()
        until = loop.time() + DEADLINE_S
        problem, open_outcome = "no answer", False
        while True:
            try:
                answer = await self._send(messages, nonce)
                if (error := answer.get("error")) is None:
                    return int(answer["seq"])
                problem = str(error.get("description", error))
                if error.get("err_code") in _FULL:
                    raise Unavailable(f"The store is full ({problem}): remove old sessions with fairlead prune.")
                if error.get("err_code") == _WRONG_LAST and (found := _NUMBER.search(problem)):
                    seq = await self._refused(messages, nonce, int(found[1]), open_outcome)
                    if seq is not None:
                        return seq
            except TRANSIENT as failure:
                problem, open_outcome = str(failure) or type(failure).__name__, True
                if self._js.client.is_closed:
                    raise Unavailable("The store is closed.") from None
            if loop.time() > until:
                raise Unavailable(f"The store does not acknowledge a change ({problem}): repeating is safe.")
            await asyncio.sleep(PAUSE_S)

    async def _refused(self, messages: Sequence[Outgoing], nonce: str, last: int, open_outcome: bool) -> int | None:
        """The sequence if this very call was stored before. None: try again. Raises Refused, Unavailable.
        `open_outcome`: an earlier try had no answer."""
        expected = next((message.expected for message in messages if message.expected is not None), 0)
        found = await self._js.last_of(self._stream, messages[-1].subject)
        if found is not None and found.headers.get(NONCE) == nonce:
            return found.seq
        if last < expected and not self._expires:
            # The leader knows less than was acknowledged: it is out of date, or it has lost messages. Never go on from
            # there.
            self.behind(messages[0].subject, last, expected)
            return None
        if open_outcome and self._expires:
            # Only the last message of a key is kept: whether this call was stored before that one cannot be seen.
            raise Unavailable("The outcome of a change is unknown, and there was another one since: repeat it.")
        raise Refused(last)

    async def _send(self, messages: Sequence[Outgoing], nonce: str) -> dict[str, Any]:
        client = self._js.client
        common = {VERSION: str(SPOKEN), NONCE: nonce}
        batch = uuid.uuid4().hex if len(messages) > 1 else ""
        for number, message in enumerate(messages, 1):
            headers = {**common, **message.headers}
            if message.expected is not None:
                headers[EXPECTED] = str(message.expected)
            if batch:
                headers |= {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
            if number < len(messages):
                await client.publish(message.subject, message.body, headers=headers)
                continue
            if batch:
                headers["Nats-Batch-Commit"] = "1"
            answer = await self._js.request(message.subject, message.body, TRY_S, headers)
            found: dict[str, Any] = json.loads(answer.data)
            return found
        raise AssertionError("there is a message")
