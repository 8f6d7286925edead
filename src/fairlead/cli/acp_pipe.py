"""The pipe of `fairlead acp`: lines from stdin to the gateway's socket, messages of the socket to stdout. No state.

Back-pressure goes both ways: the next line is read when the last one was sent, and the next message is received when
the last one was written.
"""

import asyncio
import os
import threading

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from fairlead.agents.links.framing import LineSplitter, Oversize, encode_line
from fairlead.cli.client import open_socket, response_error, unreachable
from fairlead.cli.endpoint import GatewayEndpoint
from fairlead.cli.errors import CommandFailed

CHUNK = 1 << 16
TOO_LARGE = -32600
"""JSON-RPC's code of an invalid request: a line above the limit is answered here, and its id is not known."""


async def run_pipe(endpoint: GatewayEndpoint, path: str, limit: int) -> None:
    """Connect stdin and stdout with the socket until stdin ends. Lines have at most `limit` bytes. Raises CliError."""
    try:
        async with open_socket(endpoint, path) as socket:
            await AcpPipe(socket, limit).run()
    except InvalidStatus as error:
        raise response_error(error.response.status_code, error.response.body, endpoint.url) from error
    except (OSError, InvalidHandshake, TimeoutError) as error:
        raise unreachable(endpoint.url, error) from error


class AcpPipe:
    def __init__(self, socket: ClientConnection, limit: int, source: int = 0, target: int = 1) -> None:
        self._socket = socket
        self._lines = LineSplitter(limit, kept=0)
        self._limit = limit
        self._source = source
        self._target = target
        self._writing = threading.Lock()
        self._ended = False

    async def run(self) -> None:
        """Run until stdin ends. Raises CommandFailed if the gateway goes away before that."""
        loop = asyncio.get_running_loop()
        # A thread, because stdin may be a file, which the loop cannot wait for; it ends with the process.
        threading.Thread(target=self._read, args=(loop,), name="stdin", daemon=True).start()
        try:
            async for message in self._socket:
                if isinstance(message, str):
                    await asyncio.to_thread(self._write, message.encode() + b"\n")
        except ConnectionClosed:
            pass
        except BrokenPipeError:
            return  # nothing reads our answers any more
        code, reason = self._socket.close_code or 1006, self._socket.close_reason or "no reason was given"
        if not self._ended:
            raise CommandFailed(f"The gateway closed the connection ({code}: {reason}). Is it still running?")

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send each line, then read on. Runs in a thread of its own."""
        try:
            while data := os.read(self._source, CHUNK):
                for line in self._lines.feed(data):
                    self._forward(line, loop)
            for line in self._lines.end():
                self._forward(line, loop)
        except (ConnectionClosed, OSError):
            return  # the gateway is gone, which the receiving side reports, or nothing reads our answers
        finally:
            self._ended = self._socket.close_code is None
            asyncio.run_coroutine_threadsafe(self._socket.close(), loop)

    def _forward(self, line: bytes | Oversize, loop: asyncio.AbstractEventLoop) -> None:
        if isinstance(line, Oversize):
            error = {"code": TOO_LARGE, "message": f"A message has at most {self._limit} bytes; this has {line.size}."}
            self._write(encode_line({"jsonrpc": "2.0", "id": None, "error": error}))
            return
        text = line.decode("utf-8", "replace")
        asyncio.run_coroutine_threadsafe(self._socket.send(text), loop).result()

    def _write(self, data: bytes) -> None:
        with self._writing:
            while data:
                data = data[os.write(self._target, data) :]
