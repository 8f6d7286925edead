"""A transport of the Agent SDK: its conversation is a session of a gateway, over the direct protocol.

It has the methods of the SDK's `Transport`; the SDK does not check the class. The options of the SDK do not reach a
transport: it is given the settings of the session itself.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from fairlead.client.connection import open_socket, response_error, unreachable
from fairlead.client.errors import CommandFailed, Unreachable
from fairlead.client.gateway_client import GatewayClient, connect
from fairlead.model.commands import Settings

PATH: Final = "/v1/sessions/ws/{session}/subscribe"
QUIET_SECONDS: Final = 5.0
"""How long nothing may come before the session is asked whether it works at all."""
CLOSE_SECONDS: Final = 5.0
"""The SDK waits for `close` without a limit of its own."""


class _Responses(msgspec.Struct):
    responses: list[dict[str, Any]]


class FairleadTransport:
    """Give it to `ClaudeSDKClient(transport=...)` or `query(transport=...)`.

    `session` is the id of a session to continue. Without one, `connect` starts a session in `cwd` with `settings`, and
    its id is in `session` from then on. Without `url` it is the gateway that runs on this machine."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        session: str | None = None,
        cwd: str = "",
        agent: str = "",
        settings: Settings | None = None,
    ) -> None:
        self._place = (url, token)
        self.session = session
        self._start = partial(GatewayClient.start, cwd=cwd, agent=agent, settings=settings)
        self._gateway: GatewayClient | None = None
        self._socket: ClientConnection | None = None
        self._unanswered = False
        """A message was sent, and no turn has ended since."""
        self._input_ended = False

    async def connect(self) -> None:
        """Start the session, or join it. Raises ClientError."""
        gateway = connect(*self._place)
        try:
            if self.session is None:
                self.session = (await self._start(gateway)).id
            self._socket = await _joined(gateway, self.session)
        except BaseException:
            await gateway.__aexit__()
            raise
        self._gateway = gateway

    def is_ready(self) -> bool:
        return self._socket is not None and not self._input_ended

    async def write(self, data: str) -> None:
        """Send lines. A message of the user is stored by the gateway when this returns; a refused one raises
        CommandFailed."""
        _, socket = self._open()
        for line in data.splitlines():
            message = msgspec.json.decode(line) if line.strip() else {}
            if isinstance(message, dict) and message.get("type") == "user":
                await self._send_user(message)
            elif message:
                try:
                    await socket.send(line)
                except ConnectionClosed as error:
                    raise _lost(error) from error

    async def _send_user(self, message: dict[str, Any]) -> None:
        """By HTTP: only so is it known when the gateway has it, and whether the session is idle after that."""
        gateway, _ = self._open()
        answer = await gateway.post(f"/v1/sessions/{self.session}/events", _Responses, {"events": [message]})
        for record in answer.responses:
            raise CommandFailed(str(record.get("message", "")), str(record.get("code", "")))
        self._unanswered = True

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Yield what the agent writes, until the input has ended and nothing is left to do. Raises Unreachable if the
        connection breaks; a new transport with the same `session` continues."""
        _, socket = self._open()
        while True:
            try:
                frame = await self._receive(socket)
            except ConnectionClosed as error:
                if self._input_ended:
                    return
                raise _lost(error) from error
            for line in frame.splitlines():
                message = msgspec.json.decode(line)
                if message.get("type") == "result":
                    self._unanswered = False
                yield message
                if message.get("type") == "result" and await self._is_over():
                    return

    async def _receive(self, socket: ClientConnection) -> str | bytes:
        """Wait for a frame. Raises CommandFailed if a message was sent, and the session is idle without a result: the
        agent died, or another client took the message out of the queue."""
        idle = 0
        while True:
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    return await socket.recv()
            except TimeoutError:
                # Twice: a result may be on its way while the session is idle already.
                idle = idle + 1 if self._unanswered and await self._is_idle() else 0
                if idle > 1:
                    raise CommandFailed("The session is idle, and the message has no result.") from None

    async def end_input(self) -> None:
        """Let `read_messages` end with the turns that are still to come."""
        self._input_ended = True
        if self._socket is not None and await self._is_over():
            await self._socket.close()

    async def _is_over(self) -> bool:
        return self._input_ended and not self._unanswered and await self._is_idle()

    async def _is_idle(self) -> bool:
        if self._gateway is None or self.session is None:
            return True
        view = await self._gateway.session(self.session).view()
        return view.turn is None and not view.queue

    async def close(self) -> None:
        """Leave the session, which stays in the gateway."""
        gateway, socket = self._gateway, self._socket
        self._gateway = self._socket = None
        self._input_ended = True
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                if socket is not None:
                    await socket.close()
                if gateway is not None:
                    await gateway.__aexit__()

    def _open(self) -> tuple[GatewayClient, ClientConnection]:
        if self._gateway is None or self._socket is None:
            raise Unreachable("The transport is not connected.")
        return self._gateway, self._socket


async def _joined(gateway: GatewayClient, session: str) -> ClientConnection:
    endpoint = gateway.locate()
    try:
        return await open_socket(endpoint, PATH.format(session=session))
    except InvalidStatus as error:
        raise response_error(error.response.status_code, error.response.body, endpoint.url) from error
    except (OSError, InvalidHandshake, TimeoutError) as error:
        raise unreachable(endpoint.url, error) from error


def _lost(error: ConnectionClosed) -> Unreachable:
    return Unreachable(f"The connection to the gateway is lost ({error}). The session continues there.")
