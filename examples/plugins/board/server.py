"""The board's server: what one page writes, all pages see; who comes later is shown the last of it.

It listens on 127.0.0.1 alone, tells its port in one line, and ends when its input does: then the gateway is gone.
"""

import asyncio
import json
import sys
from collections import deque

from websockets.asyncio.server import ServerConnection, broadcast, serve

KEPT = 100

notes: deque[str | bytes] = deque(maxlen=KEPT)
pages: set[ServerConnection] = set()


async def page(connection: ServerConnection) -> None:
    for note in tuple(notes):
        await connection.send(note)
    pages.add(connection)
    try:
        async for note in connection:
            notes.append(note)
            broadcast(pages, note)
    finally:
        pages.discard(connection)


async def main() -> None:
    loop = asyncio.get_running_loop()
    # A page may not come here by itself: it would send an Origin. The gateway has asked who it is, and sends none.
    async with serve(page, "127.0.0.1", 0, origins=[None], compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        print(json.dumps({"ready": True, "port": port}), flush=True)
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
