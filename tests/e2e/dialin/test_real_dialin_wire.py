"""The real CLI dialing a bare socket of the test: the seed's statements about the program itself over dial-in."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import Server, ServerConnection, serve

from e2e.dialin_harness import dialing
from e2e.gateway_harness import open_gateway, settings
from e2e.harness import LAST_DIAL_IN, OLDEST, on_versions
from fairlead_testing.model_api import ScriptedModel
from fairlead_testing.replay import settled
from patience import PATIENCE

Message = dict[str, Any]
WORDS = ("--print", "--output-format", "stream-json", "--verbose")


def prompting(text: str, name: str) -> Message:
    message = {"role": "user", "content": text}
    return {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "", "uuid": name}


class Dialed:
    """One process and its socket."""

    def __init__(self, process: asyncio.subprocess.Process, socket: ServerConnection, server: Server) -> None:
        self.process = process
        self._server = server
        self.seen: list[Message] = []
        self._socket = socket

    async def send_message(self, message: Message) -> None:
        await self._socket.send(json.dumps(message) + "\n")

    async def send(self, text: str) -> None:
        """Send one frame, unchanged."""
        await self._socket.send(text)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the upgrade, names in lower case."""
        assert self._socket.request is not None
        return {name.lower(): value for name, value in self._socket.request.headers.raw_items()}

    async def prompt(self, text: str) -> str:
        name = str(uuid.uuid4())
        await self.send_message(prompting(text, name))
        return name

    async def until(self, wanted: Callable[[Message], bool], timeout: float = PATIENCE) -> Message:
        async with asyncio.timeout(timeout):
            while True:
                for line in str(await self._socket.recv(decode=True)).splitlines():
                    self.seen.append(json.loads(line))
                    if wanted(self.seen[-1]):
                        return self.seen[-1]

    async def stays_silent(self) -> None:
        with pytest.raises(TimeoutError):
            await self.until(lambda message: True, timeout=3)

    def vanish(self) -> None:
        """Stop the server, so that it refuses every new connection."""
        self._server.close(close_connections=False)
        self._socket.transport.abort()


@contextlib.asynccontextmanager
async def dialed(program: Path, env: dict[str, str], cwd: Path, *words: str) -> AsyncIterator[Dialed]:
    came: asyncio.Future[ServerConnection] = asyncio.get_running_loop().create_future()

    async def hold(socket: ServerConnection) -> None:
        if not came.done():
            came.set_result(socket)
        await socket.wait_closed()

    async with serve(hold, "127.0.0.1", 0, ping_interval=None) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws/cli/s1"
        pipe = asyncio.subprocess.PIPE
        argv = [str(program), "--sdk-url", url, *WORDS, *words, "-p", "placeholder"]
        process = await asyncio.create_subprocess_exec(*argv, env=env, cwd=cwd, stdout=pipe, stderr=pipe)
        try:
            yield Dialed(process, await asyncio.wait_for(came, PATIENCE), server)
        finally:
            server.close()
            if process.returncode is None:
                process.kill()
            await process.communicate()
            # A connection that was being accepted when the server closed gets its handler, which the server waits for.
            await settled()


JSON_IN = ("--input-format", "stream-json")


@dialing
@pytest.mark.rules("S004-017", "S004-030", "S004-038", "S004-045", "S004-308")
async def test_it_waits_for_a_whole_prompt_and_repeats_it_behind_its_init(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, model: ScriptedModel
) -> None:
    """A message counts once its newline has arrived. The CLI repeats prompts because a flag asks for it."""
    async with dialed(claude, cli_env, cli_cwd, *JSON_IN, "--replay-user-messages") as cli:
        assert "authorization" not in cli.headers, "it was given no token"
        await cli.stays_silent()
        assert {request.kind for request in model.requests} <= {"other"}, "its argument is no prompt"
        name = str(uuid.uuid4())
        await cli.send(json.dumps(prompting("SCRIPT:text", name)))
        await cli.stays_silent()
        await cli.send("\n")
        await cli.until(lambda message: message["type"] == "result")
        assert (cli.seen[0]["type"], cli.seen[0]["subtype"]) == ("system", "init")
        assert [message["uuid"] for message in cli.seen if message.get("isReplay")] == [name]


@on_versions(OLDEST, last=LAST_DIAL_IN)
@pytest.mark.rules("S004-009")
async def test_another_input_format_ends_it_with_its_own_words(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path
) -> None:
    pipe = asyncio.subprocess.PIPE
    argv = [
        str(claude),
        "--sdk-url",
        "ws://127.0.0.1:9/ws/cli/s1",
        *WORDS,
        "--input-format",
        "text",
        "-p",
        "placeholder",
    ]
    process = await asyncio.create_subprocess_exec(*argv, env=cli_env, cwd=cli_cwd, stdout=pipe, stderr=pipe)
    output, complaint = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 1
    assert b"--input-format" in output + complaint


@on_versions(OLDEST, last=OLDEST)
@pytest.mark.rules("S004-009")
async def test_one_that_refuses_its_input_format_is_an_agent_that_exited_with_its_own_words(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> None:
    """As if the flags of a launch had been changed."""
    other = tmp_path / "claude"
    other.write_text(f'#!/bin/bash\nexec {claude} "${{@/--input-format=stream-json/--input-format=text}}"\n')
    other.chmod(0o755)
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(other), pass_env=["IS_SANDBOX"])
    async with open_gateway(config, cli_env, cli_cwd) as harness:
        harness.settings = {"link": "dial-in"}
        await harness.open("SCRIPT:text")
        exited = await harness.until("agent.exited")
        assert (exited["code"], "--input-format" in exited["stderr"]) == (1, True)


@on_versions(LAST_DIAL_IN, first=LAST_DIAL_IN, last=LAST_DIAL_IN)
@pytest.mark.long
@pytest.mark.rules("S004-054", "S004-121", "S004-281")
async def test_the_last_that_dials_says_that_it_is_alive(claude: Path, cli_env: dict[str, str], cli_cwd: Path) -> None:
    async with dialed(claude, cli_env, cli_cwd, *JSON_IN) as cli:
        assert await cli.until(lambda message: True, timeout=400) == {"type": "keep_alive"}
        await cli.send_message({"type": "keep_alive"})
        await cli.prompt("SCRIPT:text")
        await cli.until(lambda message: message["type"] == "result")


@on_versions(OLDEST, last=OLDEST)
@pytest.mark.rules("S004-236")
async def test_closed_for_good_its_open_requests_fail_in_its_own_words(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path
) -> None:
    """When its server disappears, the CLI waits for a hook of ours and gives the line up some seconds later."""
    async with dialed(claude, cli_env, cli_cwd, *JSON_IN) as cli:
        hooks = {"PreToolUse": [{"hookCallbackIds": ["cb"]}]}
        await cli.send_message(
            {"type": "control_request", "request_id": "r1", "request": {"subtype": "initialize", "hooks": hooks}}
        )
        await cli.prompt("SCRIPT:bash touch x")
        await cli.until(lambda message: message["type"] == "control_request")
        cli.vanish()
        _, complaint = await asyncio.wait_for(cli.process.communicate(), PATIENCE)
        assert b"Tool permission stream closed before response received" in complaint
