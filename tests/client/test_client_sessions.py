"""The Python client against a gateway with the demo agent, and the example of the documentation as it stands there."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from docs.documents import ROOT
from fairlead.client import ClientError, CommandFailed, Denied, EventLine, Missing, SessionClient, UsageError, connect
from fairlead.model import events as ev
from fairlead.system.platform import FORCED
from fairlead.wiring import GatewayInfo
from patience import PATIENCE

pytestmark = pytest.mark.process
PAGE = ROOT / "docs" / "how-to" / "python-client.md"


async def until(session: SessionClient, kind: type[ev.Event], after: int = 0, log_id: str = "") -> list[EventLine]:
    """The events up to the first one of a kind."""
    found: list[EventLine] = []
    async with asyncio.timeout(PATIENCE), session.stream(after, log_id) as items:
        async for item in items:
            assert isinstance(item, EventLine)
            found.append(item)
            if isinstance(item.event, kind):
                return found
    raise AssertionError("the stream ended")


async def test_a_conversation(gateway: GatewayInfo, project: Path) -> None:
    async with connect(gateway.url, gateway.token) as client:
        session = await client.start(str(project), title="mine")
        message = "0a000000-0000-4000-8000-000000000001"
        assert not (await session.send("SCRIPT:bash touch made", message=message)).repeated
        assert (await session.send("SCRIPT:bash touch made", message=message)).repeated, "an id counts once"

        first = await until(session, ev.PermissionRequested)
        asked = first[-1].event
        assert isinstance(asked, ev.PermissionRequested)
        assert [ev.decode(bytes(pending.event)) for pending in (await session.view()).pending] == [asked]
        await session.allow(asked.request)
        with pytest.raises((Missing, CommandFailed)):
            await session.deny(asked.request)

        rest = await until(session, ev.TurnEnded, first[-1].seq, first[-1].log_id)
        assert (project / "made").exists()
        assert min(line.seq for line in rest) > first[-1].seq, "a cursor goes on after its event"
        stored = {line.seq async for line in session.events(first[-1].seq)}
        whole = {line.seq for line in rest if not isinstance(line.event, ev.TextDelta | ev.InputDelta)}
        assert whole <= stored

        await session.send("SCRIPT:slow 400")
        await until(session, ev.TextDelta, rest[-1].seq, rest[-1].log_id)
        await session.interrupt()
        ended = (await until(session, ev.TurnEnded, rest[-1].seq, rest[-1].log_id))[-1].event
        assert isinstance(ended, ev.TurnEnded)
        assert ended.status == "cancelled"
        assert [summary.title async for summary in client.sessions()] == ["mine"]
        await session.close()


async def test_failures_are_client_errors(gateway: GatewayInfo, project: Path) -> None:
    async with connect(data=gateway.data) as client:
        with pytest.raises(Missing):
            await client.session("0a000000-0000-4000-8000-00000000dead").view()
        with pytest.raises(UsageError):
            await client.start(str(project), session="not a uuid")
        with pytest.raises(Denied):
            await client.start("/")
    async with connect(gateway.url, "fl_wrong") as stranger:
        with pytest.raises(ClientError, match="token"):
            await stranger.start(str(project))


@pytest.mark.parametrize(("typed", "made"), [("y\n", True), ("n\n", False)])
async def test_the_example_of_the_page(
    gateway: GatewayInfo, project: Path, tmp_path: Path, typed: str, made: bool
) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "ask.py").write_text(program)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(tmp_path / "ask.py"), "SCRIPT:bash touch made"),
        cwd=project,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "FAIRLEAD_DATA": gateway.data, **FORCED},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE):
        output = (await process.communicate(typed.encode()))[0].decode()
    assert process.returncode == 0, output
    assert "Allow Bash? [y/N]" in output
    assert output.endswith(": completed\n")
    assert (project / "made").exists() is made
