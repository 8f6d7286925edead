"""A bare file server: each connection receives every line of a file as a frame, by `websockets`. Nothing else is done.

Run as `python bench/bare_file.py FILE`; prints its port.
"""

import asyncio
import signal
import sys
from contextlib import suppress
from pathlib import Path

import uvloop
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed


async def main(file: Path) -> None:
    async def handle(socket: ServerConnection) -> None:
        with suppress(ConnectionClosed), file.open("rb") as lines:
            for line in lines:
                await socket.send(line.rstrip(b"\n"), text=True)
            await socket.wait_closed()

    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with serve(handle, "127.0.0.1", 0, compression=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await stopped.wait()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))
