"""The shim at work: the pipes of the caller and of the CLI, the connection to the gateway, signals, the exit.

Rule: the caller and the CLI never wait for the gateway, except where a permission request needs its word.
"""

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, WebSocketException

from fairlead.agents.claude.shim.frames import CliExit, Stored, decode_from_gateway
from fairlead.cli.shim.child import CliProcess
from fairlead.cli.shim.gateway import MESSAGE_BYTES, ShimGateway
from fairlead.cli.shim.invocation import Invocation
from fairlead.cli.shim.lines import LineBuffer
from fairlead.cli.shim.outbox import ShimOutbox
from fairlead.cli.shim.real_cli import version_of
from fairlead.cli.shim.router import (
    AwaitGateway,
    CloseCliInput,
    Effect,
    EndProcess,
    Router,
    ToCaller,
    ToCli,
    ToGateway,
)
from fairlead.client.errors import ClientError, CommandFailed
from fairlead.model.agents import LentProcess, ShimInvitation
from fairlead.system.clock import Clock, ends_within
from fairlead.system.pipes import PipeClosed, PipeReader, PipeWriter

SENT_AT_ONCE: Final = 256 << 10
ANSWER_SECONDS: Final = 2.0
"""How long the caller's answer waits for a gateway that is connected but does not react."""
QUIET_SECONDS: Final = 2.0
"""The CLI begins a queued prompt right after a result. If it is silent for this long, it has none."""
LAST_SECONDS: Final = 2.0
"""How long the exit waits for a connected gateway to store the last lines."""
ENDING_SECONDS: Final = 5.0
"""How long the CLI may take to end by itself when a person has asked for its end."""
FIRST_DELAY: Final = 0.1
LONGEST_DELAY: Final = 5.0
PING_SECONDS: Final = 5.0


async def offer_process(
    gateway: ShimGateway, invocation: Invocation, argv: Sequence[str], env: Mapping[str, str], child: CliProcess
) -> tuple[LentProcess, ShimInvitation | None]:
    """Offer the process to the gateway before it starts. Without an invitation if the CLI itself chooses the session.
    Raises ClientError."""
    version = await asyncio.to_thread(version_of, argv, env)
    if not version:
        raise CommandFailed(f"{argv[-1]} prints no version.")
    session = invocation.session
    process = LentProcess(version=version, agent_session=session, pid=child.pid, started=child.started)
    if not session:
        return process, None
    new = await asyncio.to_thread(gateway.open_session, invocation, session, os.getcwd())
    try:
        return process, await asyncio.to_thread(gateway.attach, session, process)
    except ClientError:
        if new:  # without its process it would stay empty for good
            with contextlib.suppress(ClientError):
                await asyncio.to_thread(gateway.delete_session, session)
        raise


class Shim:
    """`find` locates the gateway again: it may have restarted on another port."""

    def __init__(
        self,
        invocation: Invocation,
        process: LentProcess,
        child: CliProcess,
        find: Callable[[], ShimGateway],
        clock: Clock,
        *,
        approvals: bool,
    ) -> None:
        self._invocation = invocation
        self._process = process
        self._child = child
        self._find = find
        self._clock = clock
        self._router = Router(asks=invocation.asks, approvals=approvals, new_id=lambda: str(uuid.uuid4()))
        self._outbox = ShimOutbox()
        self._news = asyncio.Event()
        self._stored = asyncio.Event()
        self._session = asyncio.Event()
        self._quiet: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._caller: PipeWriter

    async def run(self, argv: Sequence[str], env: Mapping[str, str], invitation: ShimInvitation | None) -> int:
        """Run the CLI until it exits; return its status as `os.waitpid` does."""
        self._child.start(argv, env)
        self._caller = PipeWriter(os.dup(1))
        self._forward_signals()
        if self._process.agent_session:
            self._session.set()
        connecting = asyncio.create_task(self._stay_connected(invitation))
        reading = asyncio.create_task(self._read_caller())
        status = await self._read_cli()
        await self._report_exit(status)
        for task in (reading, connecting, *self._tasks):
            task.cancel()
        await asyncio.wait({reading, connecting})
        self._caller.close()
        return status

    def _forward_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._child.send_signal, number)

    # --- the pipes

    async def _read_caller(self) -> None:
        buffer = LineBuffer()

        async def take(data: bytes) -> None:
            for line in buffer.feed(data):
                await self._apply(self._router.from_caller(line))

        await PipeReader(os.dup(0)).run(take)
        if rest := buffer.rest():
            await self._apply(self._router.from_caller(rest + b"\n"))
        await self._apply(self._router.caller_ended())

    async def _read_cli(self) -> int:
        """Pass the CLI's output on until it has exited and everything that it wrote is out."""
        buffer = LineBuffer()

        async def take(data: bytes) -> None:
            for line in buffer.feed(data):
                await self._take_cli_line(line)

        reading = asyncio.create_task(self._child.output.run(take))
        status = await self._child.wait()
        # Its own children may hold the pipe open.
        self._child.output.finish()
        await reading
        if rest := buffer.rest():
            await self._take_cli_line(rest)
        return status

    async def _take_cli_line(self, line: bytes) -> None:
        if not self._session.is_set():
            self._learn_session(line)
        await self._apply(self._router.from_cli(line))
        self._watch_silence()

    def _learn_session(self, line: bytes) -> None:
        with contextlib.suppress(msgspec.DecodeError):
            found = msgspec.json.decode(line, type=_Named)
            if found.type == "system" and found.session_id:
                self._process = msgspec.structs.replace(self._process, agent_session=found.session_id)
                self._session.set()

    def _watch_silence(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
        loop = asyncio.get_running_loop()
        self._quiet = loop.call_later(QUIET_SECONDS, lambda: self._spawn(self._router.cli_is_quiet()))

    # --- effects

    def _spawn(self, effects: Sequence[Effect]) -> None:
        task = asyncio.get_running_loop().create_task(self._apply(effects))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _apply(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case ToCaller():
                    await self._write_to_caller(effect.line)
                case ToCli():
                    with contextlib.suppress(PipeClosed):
                        await self._child.input.write(effect.line)
                case ToGateway():
                    self._outbox.add(effect.frame)
                    self._news.set()
                case CloseCliInput():
                    self._child.input.close()
                case AwaitGateway():
                    asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._settle_alone, effect.request)
                case EndProcess():
                    self._child.input.close()
                    asyncio.get_running_loop().call_later(ENDING_SECONDS, self._child.send_signal, signal.SIGTERM)

    def _settle_alone(self, request: str) -> None:
        self._spawn(self._router.gateway_is_silent(request))

    async def _write_to_caller(self, line: bytes) -> None:
        try:
            await self._caller.write(line)
        except PipeClosed:
            # Nobody reads any more: the CLI alone would end with a broken pipe.
            self._child.send_signal(signal.SIGTERM)

    # --- the gateway

    async def _stay_connected(self, invitation: ShimInvitation | None) -> None:
        """Connect, and connect again, as long as the CLI runs."""
        await self._session.wait()
        delay, same_link = 0.0, False
        while True:
            await self._clock.sleep(delay)
            try:
                gateway = self._find()
                if invitation is None:
                    invitation = await asyncio.to_thread(self._offer, gateway)
                    same_link = False
                headers = {"authorization": f"Bearer {invitation.token}"}
                async with connect(
                    gateway.socket_url(invitation),
                    additional_headers=headers,
                    max_size=MESSAGE_BYTES,
                    compression=None,
                    ping_interval=PING_SECONDS,
                    ping_timeout=PING_SECONDS,
                    proxy=None,
                ) as socket:
                    delay = FIRST_DELAY
                    await self._serve(socket, same_link=same_link)
                same_link = True
            except InvalidHandshake:
                # The gateway expects this link no more; it may be a new gateway.
                invitation = None
                delay = min(LONGEST_DELAY, max(FIRST_DELAY, delay * 2))
            except (OSError, WebSocketException, ClientError):
                delay = min(LONGEST_DELAY, max(FIRST_DELAY, delay * 2))

    def _offer(self, gateway: ShimGateway) -> ShimInvitation:
        session = self._process.agent_session
        gateway.open_session(self._invocation, session, os.getcwd())
        return gateway.attach(session, self._process)

    async def _serve(self, socket: ClientConnection, *, same_link: bool) -> None:
        await self._apply(self._router.gateway_opened(same_link=same_link))
        self._outbox.rewind()
        self._news.set()
        sending = asyncio.create_task(self._send_frames(socket))
        try:
            async for message in socket:
                data = message if isinstance(message, bytes) else message.encode()
                for line in data.split(b"\n"):
                    if line:
                        await self._take_frame(line)
        finally:
            sending.cancel()
            await asyncio.wait({sending})
            await self._apply(self._router.gateway_lost())

    async def _send_frames(self, socket: ClientConnection) -> None:
        with contextlib.suppress(WebSocketException):
            while True:
                self._news.clear()
                while data := self._outbox.take(SENT_AT_ONCE):
                    await socket.send(data, text=True)
                await self._news.wait()

    async def _take_frame(self, line: bytes) -> None:
        try:
            frame = decode_from_gateway(line)
        except msgspec.DecodeError:
            return  # a newer gateway sends something that we do not know
        if isinstance(frame, Stored):
            self._outbox.confirm(frame.n)
            if self._outbox.empty:
                self._stored.set()
        await self._apply(self._router.from_gateway(frame))

    async def _report_exit(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self._stored.clear()
        self._outbox.add(CliExit(n=0, code=code) if code >= 0 else CliExit(n=0, signal=-code))
        self._news.set()
        if self._router.attached:
            await ends_within(self._clock, LAST_SECONDS, self._stored.wait())


class _Named(msgspec.Struct):
    type: str = ""
    session_id: str = ""
