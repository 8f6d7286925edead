"""The bare relay: an agent's lines, read by asyncio, sent by `websockets` to every socket. Nothing else is done.

Run as `python bench/bare_relay.py AGENT`; prints its port. Messages from a socket go to the agent.
"""

import asyncio
import signal
import sys
from contextlib import suppress

import uvloop
from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed


async def main(agent: str) -> None:
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(agent, stdin=pipe, stdout=pipe, limit=1 << 26)
    assert child.stdin is not None
    assert child.stdout is not None
    lines, prompts = child.stdout, child.stdin
    sockets: set[ServerConnection] = set()

    async def handle(socket: ServerConnection) -> None:
        sockets.add(socket)
        with suppress(ConnectionClosed):  # the measuring client disconnects without a close frame
            async for message in socket:
                prompts.write((message if isinstance(message, bytes) else message.encode()) + b"\n")
        sockets.discard(socket)

    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)

    async def relay() -> None:
        while line := await lines.readline():
            if len(sockets) == 1:
                await next(iter(sockets)).send(line, text=True)
            else:
                broadcast(sockets, line.decode())
                # Otherwise a burst would never let the sockets be written.
                await asyncio.sleep(0)

    async with serve(handle, "127.0.0.1", 0, compression=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        relaying = asyncio.create_task(relay())
        await stopped.wait()
        relaying.cancel()
    child.kill()
    await child.wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
