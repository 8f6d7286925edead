"""The pipe of `fairlead acp`: lines from stdin to the gateway's socket, messages of the socket to stdout. No state.

Back-pressure goes both ways: the next line is read when the last one was sent, and the next message is received when
the last one was written.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from fairlead.agents.links.framing import LineSplitter, Oversize, encode_line
from fairlead.client.connection import open_socket, response_error, unreachable
from fairlead.client.endpoint import GatewayEndpoint
from fairlead.client.errors import CommandFailed

CHUNK = 1 << 16
TOO_LARGE = -32600
"""JSON-RPC's code of an invalid request: a line above the limit is answered here, and its id is not known."""


async def run_pipe(endpoint: GatewayEndpoint, path: str, limit: int) -> None:
    """Connect stdin and stdout with the socket until stdin ends. A line has up to `limit` bytes. Raises ClientError."""
    try:
        async with open_socket(endpoint, path) as socket:
            await AcpPipe(socket, limit).run()
    except InvalidStatus as error:
        raise response_error(error.response.status_code, error.response.body, endpoint.url) from error
    except (OSError, InvalidHandshake, TimeoutError) as error:
        raise unreachable(endpoint.url, error) from error


class AcpPipe:
    """Threads read and write the pipes: they may be files, which the loop cannot wait for. They end with the process,
    also if the editor neither reads nor goes away."""

    def __init__(self, socket: ClientConnection, limit: int, source: int = 0, target: int = 1) -> None:
        self._socket = socket
        self._lines = LineSplitter(limit, kept=0)
        self._limit = limit
        self._source = source
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        """The editor has closed its side."""
        self._outgoing: SimpleQueue[tuple[bytes, Callable[[], object]] | None] = SimpleQueue()
        """Messages, each with the call for the time when it is written; None at the end."""

    async def run(self) -> None:
        """Run until stdin ends. Raises CommandFailed if the gateway goes away before that."""
        for end in (self._source, self._target):
            # Some parents leave their pipes in the other mode.
            os.set_blocking(end, True)
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()
        receiving = asyncio.create_task(self._receive())
        await asyncio.wait({receiving, self._ended}, return_when=asyncio.FIRST_COMPLETED)
        receiving.cancel()
        self._outgoing.put(None)
        if not self._ended.done():
            code, reason = self._socket.close_code, self._socket.close_reason or "no reason was given"
            raise CommandFailed(f"The gateway closed the connection ({code}: {reason}). Is it still running?")

    async def _receive(self) -> None:
        with suppress(ConnectionClosed):
            async for message in self._socket:
                if isinstance(message, str):
                    written = asyncio.Event()
                    self._outgoing.put((message.encode() + b"\n", written.set))
                    await written.wait()

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    # --- the threads

    def _call(self, callback: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed: the command has ended before this thread
            self._loop.call_soon_threadsafe(callback)

    def _read(self) -> None:
        """Send each line, then read on."""
        try:
            while data := os.read(self._source, CHUNK):
                for line in self._lines.feed(data):
                    self._forward(line)
            for line in self._lines.end():
                self._forward(line)
        except (ConnectionClosed, RuntimeError):
            return  # the receiving side reports it, or the command has ended
        except OSError:
            pass
        self._call(self._end)

    def _forward(self, line: bytes | Oversize) -> None:
        if isinstance(line, Oversize):
            error = {"code": TOO_LARGE, "message": f"A message has at most {self._limit} bytes; this has {line.size}."}
            self._outgoing.put((encode_line({"jsonrpc": "2.0", "id": None, "error": error}), lambda: None))
            return
        text = line.decode("utf-8", "replace")
        asyncio.run_coroutine_threadsafe(self._socket.send(text), self._loop).result()

    def _write(self) -> None:
        """Write what the gateway sent, one message at a time."""
        while (message := self._outgoing.get()) is not None:
            data, written = message
            try:
                while data:
                    data = data[os.write(self._target, data) :]
            except OSError:  # nothing reads our answers any more
                self._call(self._end)
                return
            self._call(written)
