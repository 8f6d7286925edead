"""`fairlead acp`: lines between an editor and the gateway, unchanged and in order; its ends and its errors."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from cli.cli_processes import environment
from cli.conftest import CliGateway, Fairlead
from fairlead.cli.acp_pipe import AcpPipe
from fairlead.client.errors import CommandFailed
from patience import PATIENCE

LIMIT = 2 << 20
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
COMMAND = [sys.executable, "-c", "from fairlead.cli.main import main; main()", "acp"]


class PipeRig:
    """A pipe between two file descriptors of the test and a socket whose other end the test has."""

    def __init__(self, server: ServerConnection, pipe: AcpPipe, source: int, target: int) -> None:
        self.server = server
        self.running = asyncio.create_task(pipe.run())
        self._source = source
        self._target = target

    async def say(self, data: bytes) -> None:
        await asyncio.to_thread(self._write, data)

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._source, data) :]

    def end(self) -> None:
        os.close(self._source)

    async def read(self, size: int) -> bytes:
        def read() -> bytes:
            found = b""
            while len(found) < size and (data := os.read(self._target, size - len(found))):
                found += data
            return found

        return await asyncio.wait_for(asyncio.to_thread(read), PATIENCE)


@contextlib.asynccontextmanager
async def pipe_rig() -> AsyncIterator[PipeRig]:
    arrived: asyncio.Queue[ServerConnection] = asyncio.Queue()

    async def connected(socket: ServerConnection) -> None:
        arrived.put_nowait(socket)
        await socket.wait_closed()

    input_end, source = os.pipe()
    target, output_end = os.pipe()
    async with (
        serve(connected, "127.0.0.1", 0, max_size=None, compression=None) as listening,
        connect(f"ws://127.0.0.1:{listening.sockets[0].getsockname()[1]}", proxy=None, max_size=None) as client,
    ):
        rig = PipeRig(await arrived.get(), AcpPipe(client, LIMIT, input_end, output_end), source, target)
        try:
            yield rig
        finally:
            for end in (source, target):
                with contextlib.suppress(OSError):
                    os.close(end)
            await client.close()
            with contextlib.suppress(CommandFailed):
                await rig.running


async def test_lines_are_forwarded_unchanged_and_in_order() -> None:
    async with pipe_rig() as rig:
        large = json.dumps({"text": "ü" * (1 << 19)}, ensure_ascii=False)
        sending = asyncio.create_task(rig.say(f'{{"a":1}}\r\n\n{large}\n{{"b":2}}\n'.encode()))
        assert [await rig.server.recv() for _ in range(3)] == ['{"a":1}', large, '{"b":2}']
        await sending
        await rig.server.send('{"c":"é"}')
        await rig.server.send(b"binary frames are not messages")
        await rig.server.send("{}")
        assert await rig.read(14) == '{"c":"é"}\n{}\n'.encode()


async def test_a_line_above_the_limit_is_answered_and_the_next_one_goes_on() -> None:
    async with pipe_rig() as rig:
        sending = asyncio.create_task(rig.say(b"x" * (LIMIT + 5) + b'\n{"a":1}\n'))
        assert await rig.server.recv() == '{"a":1}'
        await sending
        answer = b""
        while not answer.endswith(b"\n"):
            answer += await rig.read(1)
        error = json.loads(answer)
        assert (error["id"], error["error"]["code"]) == (None, -32600)
        assert str(LIMIT + 5) in error["error"]["message"]


async def test_the_end_of_stdin_closes_the_connection() -> None:
    async with pipe_rig() as rig:
        await rig.say(b'{"a":1}\n{"without":"a newline"}')
        rig.end()
        assert [await rig.server.recv() for _ in range(2)] == ['{"a":1}', '{"without":"a newline"}']
        await asyncio.wait_for(rig.running, PATIENCE)


async def test_a_gateway_that_goes_away_is_an_error() -> None:
    async with pipe_rig() as rig:
        await rig.server.close(1012, "restart")
        with pytest.raises(CommandFailed, match="1012: restart"):
            await asyncio.wait_for(rig.running, PATIENCE)


async def test_an_editor_that_does_not_read_stops_the_gateway_and_loses_nothing() -> None:
    async with pipe_rig() as rig:
        message = json.dumps({"text": "x" * (1 << 16)})
        sent = 0

        async def flood() -> None:
            nonlocal sent
            for _ in range(500):
                await rig.server.send(message)
                sent += 1

        flooding = asyncio.create_task(flood())
        before = -1
        while sent != before:  # until the buffers on the way are full
            before = sent
            for _ in range(200):
                await asyncio.sleep(0)
        # What the editor sends is forwarded although its own answers are stuck.
        await rig.say(b'{"a":1}\n')
        assert await rig.server.recv() == '{"a":1}'
        size = (len(message) + 1) * 500
        assert await rig.read(size) == f"{message}\n".encode() * 500
        await flooding


async def test_an_editor_that_is_gone_ends_the_pipe() -> None:
    async with pipe_rig() as rig:
        os.close(rig._target)
        await rig.server.send("{}")
        await asyncio.wait_for(rig.running, PATIENCE)


# --- the command


def test_without_a_gateway_it_says_so_in_one_line(fairlead: Fairlead, tmp_path: Path) -> None:
    for words in (("--data", str(tmp_path)), ("--url", "http://127.0.0.1:1", "--token", "x")):
        result = fairlead("acp", *words)
        assert result.code == 1 and result.out == ""
        assert len(result.err.splitlines()) == 1 and "fairlead serve" in result.err


def test_a_wrong_token_is_refused(gateway: CliGateway, fairlead: Fairlead) -> None:
    result = fairlead("acp", "--token", "fl_wrong")
    assert result.code == 4 and len(result.err.splitlines()) == 1


def test_an_editor_starts_the_command_and_ends_it(gateway: CliGateway) -> None:
    session = {"cwd": str(gateway.project), "mcpServers": []}
    lines = [HELLO, {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": session}]
    answers = converse(gateway, lines, last=2)
    assert answers[1]["result"]["agentInfo"]["name"] == "fairlead"
    assert answers[2]["result"]["sessionId"]


def converse(gateway: CliGateway, lines: list[Any], last: int) -> dict[int, Any]:
    """Run the command with these lines, and end it after the answer to the call `last`."""
    command = subprocess.Popen(
        [*COMMAND, "--data", str(gateway.data)],
        env=environment(gateway.data),
        cwd=gateway.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdin is not None and command.stdout is not None and command.stderr is not None
    with command:
        command.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        command.stdin.flush()
        answers: dict[int, Any] = {}
        while last not in answers:
            message = json.loads(command.stdout.readline())
            if "method" not in message:
                answers[message["id"]] = message
        command.stdin.close()
        assert command.wait(PATIENCE) == 0 and command.stderr.read() == b""
    return answers
