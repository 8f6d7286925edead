"""claudecodeui's terminal on a whole gateway: on its door and on the main port, for a signed-in user."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from clients.claudecodeui.shell_harness import ShellClient
from clients.claudecodeui.signed_gateway import SignedGateway, signed_gateway
from fairlead.system.proctable import is_alive
from terminals.sandboxed_process import PRINT_PID, outside

pytestmark = pytest.mark.process


@contextlib.asynccontextmanager
async def shell(url: str, token: str, origin: str | None = None) -> AsyncIterator[ShellClient]:
    address = f"{url.replace('http', 'ws', 1)}/shell?token={token}"
    headers = {"Origin": origin} if origin else None
    async with connect(address, additional_headers=headers, proxy=None, max_size=None) as socket:
        yield ShellClient(socket)


@pytest.mark.rules("S003-002", "S003-071")
async def test_a_shell_is_the_same_on_both_ports_and_ends_with_the_gateway(
    tmp_path: Path, cheap_passwords: None
) -> None:
    async with (
        signed_gateway(tmp_path, shell="/bin/sh", record_terminals=True) as signed,
        shell(signed.door, signed.token) as one,
        shell(signed.gateway.url, signed.token) as two,
    ):
        await one.begin(signed.project)
        await one.type(f"{PRINT_PID}; env | grep -c -i fairlead\r")
        await one.until(lambda: "]." in one.text)
        await one.wait_for_line("0")
        await two.begin(signed.project)
        await two.until(lambda: two.reconnects)
        await two.wait_for_text("pid:[")
        await two.begin("/etc")
        await two.until(lambda: two.errors)
        assert two.errors == ["Invalid project path"]
        process = outside(one.text)
        assert is_alive(*process)
    assert not is_alive(*process)
    (recording,) = (tmp_path / "data" / "recordings").iterdir()
    assert "pid:[" in recording.read_text() and "-ann-" in recording.name


async def test_a_session_whose_agent_has_no_terminal_is_refused(signed: SignedGateway) -> None:
    session = await signed.create("hello")
    async with shell(signed.door, signed.token) as client:
        fields = {"sessionId": session, "hasSession": True, "provider": "claude", "isPlainShell": False}
        await client.begin(signed.project, **fields)
        await client.until(lambda: client.errors)
        assert "The agent demo cannot run in a terminal" in client.errors[0]
    # The session still works as before.
    frames = await signed.run(session, "SCRIPT:text one")
    assert frames[-1]["success"] is True


async def test_unauthorized_clients_are_refused_before_the_upgrade(signed: SignedGateway) -> None:
    """Fault 14, for this socket: origin, token and scope are checked, and a token is checked again later."""
    await signed.add("bob", scopes=["view", "chat"])
    refused = [
        (signed.token, "http://evil.example", 403),
        ("wrong", None, 401),
        (await signed.sign_in("bob"), None, 403),
    ]
    for token, origin, status in refused:
        with pytest.raises(InvalidStatus) as error:
            async with shell(signed.door, token, origin):
                pass
        assert error.value.response.status_code == status
    async with shell(signed.door, signed.token) as client:
        await client.begin(signed.project)
        await client.begun()
        answer = await signed.admin.delete("/v1/users/ann")
        assert answer.status_code < 300, answer.text
        with pytest.raises(ConnectionClosed):
            await client.until(lambda: False)
