"""A plugin's server that follows instructions, for tests: the gateway must cope with all of its behaviour.

The words in how.txt decide how it starts, messages decide what it does then. It records the ends of its sockets in
ends.jsonl.
"""

import asyncio
import http
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

PARENT = os.getppid()
SECOND = Subprotocol("second")
HOW = Path("how.txt").read_text().split() if Path("how.txt").exists() else []


def answer(connection: ServerConnection, request: Request) -> Response | None:
    if "elsewhere" not in HOW:
        return None
    port = connection.local_address[1]
    where = Headers({"location": f"ws://127.0.0.1:{port}/ws?again", "content-length": "0"})
    return None if "again" in request.path else Response(http.HTTPStatus.FOUND, "Found", where)


async def slow_answer(connection: ServerConnection, request: Request) -> None:
    mark("asked")
    while not marked("hear"):
        await asyncio.sleep(0.01)


def choose(connection: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return SECOND if SECOND in offered else None


def note(code: int | None, reason: str | None) -> None:
    with open("ends.jsonl", "a") as file:
        file.write(json.dumps([code, reason]) + "\n")


def mark(name: str) -> None:
    Path(name).touch()


def marked(name: str) -> bool:
    """Also true if the parent process is gone: a killed test must not leave a process."""
    return Path(name).exists() or os.getppid() != PARENT


async def obey(connection: ServerConnection, words: list[str]) -> bool:
    match words:
        case ["about"]:
            request = connection.request
            assert request is not None
            info = {
                "path": request.path,
                "headers": [[name.lower(), value] for name, value in request.headers.raw_items()],
                "subprotocol": connection.subprotocol,
                "pid": os.getpid(),
                "env": dict(os.environ),
                "cwd": os.getcwd(),
                "argv": sys.argv,
            }
            await connection.send(json.dumps(info))
        case ["close"]:
            await connection.close(None)  # type: ignore[arg-type]  # a close frame without a code is valid
        case ["close", code, *reason]:
            await connection.close(int(code), " ".join(reason))
        case ["hang-up"]:
            connection.transport.abort()
        case ["flood", count, size]:
            for number in range(int(count)):
                await connection.send(f"{number} ".ljust(int(size), "x"))
            mark("flooded")
        case ["deaf"]:
            mark("deaf")
            while not marked("hear"):
                await asyncio.sleep(0.01)
        case ["die"]:
            os._exit(3)
        case _:
            return False
    return True


async def socket(connection: ServerConnection) -> None:
    try:
        while True:
            message = await connection.recv()
            if isinstance(message, bytes) or not await obey(connection, message.split()):
                await connection.send(message)
    except ConnectionClosed as closed:
        note(closed.rcvd.code if closed.rcvd else None, closed.rcvd.reason if closed.rcvd else None)


async def main() -> None:
    if "stubborn" in HOW:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "fails" in HOW:
        print("it cannot be", file=sys.stderr)
        sys.exit(7)
    print("hello, this is no JSON", flush=True)
    print(json.dumps({"ready": False, "port": 1}), flush=True)
    if "silent" in HOW:
        await asyncio.Event().wait()
    async with serve(
        socket,
        "127.0.0.1",
        0,
        select_subprotocol=choose,
        subprotocols=[SECOND],
        compression=None,
        process_request=slow_answer if "slow" in HOW else answer,
    ) as server:
        print(json.dumps({"ready": True, "port": server.sockets[0].getsockname()[1]}), flush=True)
        print("x" * 100_000, flush=True)
        if "stubborn" in HOW:
            await asyncio.Event().wait()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
