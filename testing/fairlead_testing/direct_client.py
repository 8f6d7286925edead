"""The reference client of the direct protocol: what a client of the CLI's own wire holds and sends. Pure, public.

client = DirectClient(write=socket_send)
client.feed(frame)                      # each received frame
client.send_message("hello")            # False once the connection is closed
"""

import json
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]


class DirectClient:
    """`init` is the last `system/init`, `pending` the permissions that wait, `messages` all other frames in order."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self.init: Message | None = None
        self.pending: dict[str, Message] = {}
        self.messages: list[Message] = []
        self.answers: dict[str, Message] = {}
        self._write = write

    # --- receiving

    def feed(self, frame: str | bytes) -> None:
        for line in frame.splitlines():
            self._take(json.loads(line))

    def _take(self, message: Message) -> None:
        match message:
            case {"type": "control_request", "request": {"subtype": "can_use_tool"} as request, "request_id": name}:
                self.pending[name] = request
            case {"type": "control_cancel_request", "request_id": name}:
                self.pending.pop(name, None)
            case {"type": "control_response", "response": {"request_id": name} as response}:
                self.answers[name] = response
            case {"type": "system", "subtype": "init"}:
                self.init = message
                self.messages.append(message)
            case _:
                self.messages.append(message)

    # --- sending

    def send_message(self, content: Any, uuid: str = "") -> bool:
        message: Message = {"role": "user", "content": content}
        record: Message = {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""}
        return self._say({**record, "uuid": uuid} if uuid else record)

    def respond_to_permission(self, request: str, behavior: str, **fields: Any) -> bool:
        asked = self.pending.pop(request, None)
        if behavior == "allow" and asked is not None:
            fields = {"updatedInput": asked["input"], **fields}
        answer = {"behavior": behavior, **fields}
        inner = {"subtype": "success", "request_id": request, "response": answer}
        return self._say({"type": "control_response", "response": inner})

    def request(self, name: str, subtype: str, **fields: Any) -> bool:
        return self._say({"type": "control_request", "request_id": name, "request": {"subtype": subtype, **fields}})

    def send_interrupt(self, name: str) -> bool:
        return self.request(name, "interrupt")

    def disconnected(self) -> None:
        self._write = None

    @property
    def is_connected(self) -> bool:
        return self._write is not None

    def _say(self, message: Message) -> bool:
        if self._write is None:
            return False
        self._write(json.dumps(message))
        return True
