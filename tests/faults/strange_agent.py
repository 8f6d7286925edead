"""A stand-in for the CLI that breaks its protocol: run as a program, it plays the fault that the prompt names.

Standard library only: it is copied with a shebang and started by the gateway as `--claude`.
"""

import json
import os
import sys
import time
from typing import Any

MANY = 3000
"""The count of everything that is sent in bulk."""


def emit(*records: Any) -> None:
    for record in records:
        raw(json.dumps(record).encode() + b"\n")


def raw(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def text(words: str, uuid: str) -> dict[str, Any]:
    block = {"type": "text", "text": words}
    message = {"id": f"msg_{uuid}", "role": "assistant", "model": "m", "content": [block], "stop_reason": "end_turn"}
    return {"type": "assistant", "uuid": f"a-{uuid}", "parent_tool_use_id": None, "message": message}


def nested(depth: int) -> bytes:
    return b'{"type":"assistant","x":' + b"[" * depth + b"]" * depth + b"}\n"


def play(fault: str) -> None:
    match fault:
        case "garbage":
            raw(b"Segmentation fault (not really)\n{broken json\n\x00\x01\x02\n}\n")
        case "blank":
            raw(b"\n\n   \n\r\n\t\n" * MANY)
        case "utf8":
            raw(
                b'{"type":"assistant","uuid":"u","message":{"content":[{"type":"text","text":"\xff\xfe\xc3"}]}}\n\xff\n'
            )
        case "wrong":
            emit(None, 5, "text", [1, 2], {}, {"type": 7}, {"type": None}, {"type": "assistant", "message": "none"})
            emit({"type": "assistant", "uuid": 3, "message": {"content": [None, 5, {"type": 9}, {"type": "tool_use"}]}})
            emit({"type": "user", "message": {"content": {"a": 1}}}, {"type": "stream_event", "event": []})
            emit({"type": "system"}, {"type": "system", "subtype": {}}, {"type": "control_response", "response": 4})
            emit({"type": "control_request", "request_id": 1}, {"type": "control_request", "request_id": "x"})
            emit({"type": "control_cancel_request"}, {"type": "control_cancel_request", "request_id": "nobody"})
        case "unknown":
            emit({"type": "never_heard_of", "uuid": "n1", "list": [1, None, "ü", {"deep": {"er": 2**70}}]})
            emit({"type": "system", "subtype": "never_seen", "uuid": "n2"})
            emit({"type": "control_request", "request_id": "r9", "request": {"subtype": "never_asked"}})
        case "deep":
            raw(nested(200_000))
        case "large":
            emit({"type": "never_heard_of", "uuid": "big", "data": "x" * (1 << 20)})
        case "oversize":
            raw(b'{"type":"never_heard_of","data":"')
            for _ in range(65):
                raw(b"x" * (1 << 20))
            raw(b'"}\n')
        case "pieces":
            for byte in json.dumps(text("in pieces", "pieces")).encode() + b"\n":
                raw(bytes([byte]))
        case "stderr":
            os.write(2, b"complaining\n" * 100_000)
        case "torn":
            raw(b'{"type":"assistant","message":{"content":[{"type":"text","te')
            os._exit(3)
        case "look":
            os.system("sh look.sh agent")
        case "deaf":
            raw(b'{"type":"half')
            os.close(1)
            time.sleep(600)
        case _:
            pass


def main() -> None:
    if "--version" in sys.argv:
        print("2.1.325 (a strange agent)")
        look = os.path.join(os.environ["HOME"], "project", "look.sh")
        if os.path.exists(look):
            os.system(f"sh {look} version")
        return
    if os.path.exists(os.path.join(os.environ["HOME"], "broken")):
        print("I do not feel like it.", file=sys.stderr)
        sys.exit(4)
    for line in sys.stdin:
        record = json.loads(line)
        if record["type"] == "control_request":
            answer = {"subtype": "success", "request_id": record["request_id"], "response": {}}
            emit({"type": "control_response", "response": answer})
        elif record["type"] == "user":
            content = record["message"]["content"]
            fault = content if isinstance(content, str) else content[0]["text"]
            play(fault)
            emit(text(f"after {fault}", record["uuid"]))
            emit({"type": "result", "subtype": "success", "uuid": f"r-{record['uuid']}", "is_error": False})


if __name__ == "__main__":
    main()
