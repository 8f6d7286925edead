"""Agents that die, crash, and send nonsense: the session emits clear events and continues; the gateway lives."""

import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead_testing.native_client import FoldedBlock
from faults import strange_agent
from faults.gateway_process import GatewayProcess
from faults.log_checks import Line, check_log
from faults.native_client import NativeClient, folded

pytestmark = pytest.mark.fault


@contextlib.asynccontextmanager
async def watching(folder: Path, **settings: object) -> AsyncIterator[tuple[GatewayProcess, NativeClient]]:
    """A gateway and a client on a new session; at the end the log must be sound and match the events of the client."""
    async with GatewayProcess(folder, allow="Bash,Agent,Task", **settings) as gateway:
        client = NativeClient(await gateway.create())
        await client.come(gateway)
        yield gateway, client
        stored = await gateway.stored(client.session)
        check_log(stored, idle=True)
        await client.passed(stored[-1]["seq"])
        assert client.folded() == folded(stored)
        await client.go()


async def ended(client: NativeClient, text: str) -> Line:
    """Send a prompt and return the end of that turn."""
    answer = await client.send(text)
    assert answer["type"] == "reply", answer
    await client.holds(lambda: answer["message"] in client.over, text)
    return client.all("turn.ended")[-1]


async def test_an_agent_killed_mid_turn_is_reported_and_the_next_message_resumes(tmp_path: Path) -> None:
    async with watching(tmp_path) as (_, client):
        await client.send("SCRIPT:slow 1000")
        queued = await client.send("SCRIPT:echo")
        await client.until("text.delta")
        os.kill(client.all("agent.started")[0]["pid"], signal.SIGKILL)
        end = await client.until("turn.ended")
        assert (end["status"], end["reason"]) == ("failed", "the agent was ended by signal 9")
        exited = await client.until("agent.exited")
        assert (exited["signal"], exited["expected"]) == (9, False)
        await client.holds(lambda: queued["message"] in client.over)
        assert client.all("session.resumed")
        assert client.all("turn.ended")[1]["status"] == "completed"
        answer = client.folded().conversation[1]
        assert isinstance(answer, FoldedBlock)
        assert "tick" in answer.text, "what was streamed of the lost answer is still there"


async def test_a_crashed_agent_is_reported_with_its_exit_code(tmp_path: Path) -> None:
    async with watching(tmp_path) as (_, client):
        end = await ended(client, "SCRIPT:crash")
        assert end["status"] == "failed"
        exited = await client.until("agent.exited")
        assert exited["expected"] is False
        assert exited.get("code") or exited.get("signal")
        assert (await ended(client, "SCRIPT:text"))["status"] == "completed"


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """The strange agent as a program."""
    program = tmp_path / "claude"
    source = strange_agent.__file__
    program.write_text(f"#!{sys.executable}\n{Path(source).read_text()}")
    program.chmod(0o755)
    return program


async def test_nonsense_is_stored_and_does_no_harm(tmp_path: Path, strange: Path) -> None:
    settings = {"agent": "claude", "claude": strange, "claude_home": tmp_path, "record_bytes": 1 << 16}
    async with watching(tmp_path, **settings) as (gateway, client):
        for fault in ("garbage", "blank", "utf8", "wrong", "unknown", "deep", "large", "oversize", "pieces", "stderr"):
            since = client.seq
            end = await ended(client, fault)
            assert end["status"] == "completed", f"{fault}: {end}"
            texts = [line["text"] for line in client.all("text") if line["seq"] > since]
            assert texts[-1] == f"after {fault}"
        assert len(client.all("agent.started")) == 1, "one process bore it all"
        assert not client.all("agent.exited")
        kept = {line["record"] for line in client.all("record") if not line.get("known", True)}
        assert {"garbage", "never_heard_of", "fairlead_oversize"} <= kept
        assert list((gateway.data / "spill").rglob("*")), "the large record is in a file"


async def test_an_agent_that_ends_in_the_middle_of_a_line(tmp_path: Path, strange: Path) -> None:
    settings = {"agent": "claude", "claude": strange, "claude_home": tmp_path}
    async with watching(tmp_path, **settings) as (_, client):
        end = await ended(client, "torn")
        assert (end["status"], end["reason"]) == ("failed", "the agent exited with code 3")
        assert (await ended(client, "hello"))["status"] == "completed"


async def test_an_agent_that_closes_its_output_is_ended(tmp_path: Path, strange: Path) -> None:
    settings = {"agent": "claude", "claude": strange, "claude_home": tmp_path}
    async with watching(tmp_path, **settings) as (gateway, client):
        end = await ended(client, "deaf")
        assert end["status"] == "failed"
        await client.until("agent.exited")
        assert not list(gateway.offspring())
        assert (await ended(client, "hello"))["status"] == "completed"


async def test_an_agent_that_fails_to_start_reports_the_reason(tmp_path: Path, strange: Path) -> None:
    settings = {"agent": "claude", "claude": strange, "claude_home": tmp_path}
    (tmp_path / "broken").touch()
    async with watching(tmp_path, **settings) as (_, client):
        end = await ended(client, "hello")
        assert end["status"] == "failed"
        (failure,) = client.all("error")
        assert failure["code"] == "agent_gone"
        assert "I do not feel like it." in failure["message"]
        (tmp_path / "broken").unlink()
        assert (await ended(client, "hello"))["status"] == "completed"
        os.unlink(strange)
        os.kill(client.all("agent.started")[-1]["pid"], signal.SIGKILL)
        await client.holds(lambda: len(client.all("agent.exited")) >= 2)
        assert (await ended(client, "hello"))["status"] == "failed"
        assert client.all("error")[-1]["code"] == "agent_missing"
