"""An agent that only sends text: implements just enough of Claude's wire to be measured. Standard library only.

paced N RATE   N deltas, RATE a second, each with the time when it was sent
burst N        N deltas as fast as possible, then the block that repeats them
fill N         N records of an unknown type: each stays in the log as an event
say N SIZE     N whole texts of that many characters
held N SIZE    the same, and the turn stays open until the next request
"""

import json
import os
import sys
import time
from itertools import pairwise
from typing import Any
from uuid import uuid4

NAMED = ("--session-id", "--resume")
SESSION = next((word for flag, word in pairwise(sys.argv) if flag in NAMED), str(uuid4()))
"""The conversation that it is started for."""
BATCH = 100
"""Lines per write, when they are sent as fast as possible."""


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def emit(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


class Turn:
    def __init__(self, name: str) -> None:
        self.name = name

    def stream(self, number: object, event: dict[str, Any]) -> bytes:
        uuid = f"{self.name}-{number}"
        return line({"type": "stream_event", "uuid": uuid, "parent_tool_use_id": None, "event": event})

    def delta(self, number: object, text: str) -> bytes:
        event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        return self.stream(number, event)

    def run(self, kind: str, count: int, rate: int) -> None:
        body = {"id": f"m-{self.name}", "role": "assistant", "model": "m", "content": [], "usage": {}}
        if kind == "fill":
            self.write([self.stored(number) for number in range(count)])
        elif kind in ("say", "held"):
            emit(line({"type": "system", "subtype": "init", "session_id": SESSION, "uuid": f"i-{self.name}"}))
            for number in range(count):
                emit(self.whole(f"m-{self.name}-{number}", f"{self.name}-{number}", "x" * rate))
            if kind == "held":
                handle(sys.stdin.readline())
        else:
            emit(self.stream("start", {"type": "message_start", "message": body}))
            block = {"type": "text", "text": ""}
            emit(self.stream("block", {"type": "content_block_start", "index": 0, "content_block": block}))
            text = self.paced(count, rate) if kind == "paced" else self.burst(count)
            emit(self.whole(f"m-{self.name}", f"a-{self.name}", text))
            emit(self.stream("stop", {"type": "message_stop"}))
        done = {"type": "result", "subtype": "success", "is_error": False, "uuid": f"r-{self.name}"}
        emit(line({**done, "session_id": SESSION}))

    def stored(self, number: int) -> bytes:
        uuid, words = f"{self.name}-{number}", "word " * 12
        if number % 4:
            return line({"type": "bench", "uuid": uuid, "words": words})
        return self.whole(f"m-{uuid}", uuid, words)

    def whole(self, message: str, uuid: str, text: str) -> bytes:
        body = {"id": message, "role": "assistant", "model": "m", "content": [{"type": "text", "text": text}]}
        named = {"uuid": uuid, "session_id": SESSION, "parent_tool_use_id": None}
        return line({"type": "assistant", **named, "message": body})

    def paced(self, count: int, rate: int) -> str:
        due = time.monotonic()
        stamps = []
        for number in range(count):
            due += 1 / rate
            time.sleep(max(0.0, due - time.monotonic()))
            stamps.append(f"{time.monotonic_ns()} ")
            emit(self.delta(number, stamps[-1]))
        return "".join(stamps)

    def burst(self, count: int) -> str:
        head, tail = self.delta("NUMBER", "some words ").split(b"NUMBER")
        self.write([b"%b%d%b" % (head, number, tail) for number in range(count)])
        return "some words " * count

    def write(self, lines: list[bytes]) -> None:
        for start in range(0, len(lines), BATCH):
            emit(b"".join(lines[start : start + BATCH]))


def handle(line_read: str) -> None:
    message = json.loads(line_read or "{}")
    if message.get("type") == "control_request":
        answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
        emit(line({"type": "control_response", "response": answer}))
    elif message.get("type") == "user":
        content = message["message"]["content"]
        words = (content if isinstance(content, str) else content[0]["text"]).split()
        Turn(message.get("uuid", str(time.monotonic_ns()))).run(words[0], int(words[1]), int((*words, "0")[2]))


def main() -> None:
    if "--version" in sys.argv:
        print("2.1.325 (bench)")
        return
    for line_read in sys.stdin:
        handle(line_read)


if __name__ == "__main__":
    main()
