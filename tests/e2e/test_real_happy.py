"""The real CLI's sessions as envelopes, over stdio; and the same session on three protocols at once."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from clients.happy.envelopes import assert_balanced, real_schema
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import on_versions
from e2e.test_real_transcripts import WHOLE
from fairlead.agents.scripts import ScriptText, ToolUse
from fairlead_testing.happy_client import HappyClient
from fairlead_testing.model_api import ANSWERS, ScriptedModel
from fairlead_testing.mylifedb_client import MyLifeDbClient
from patience import PATIENCE


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    passed = ["IS_SANDBOX", "CLAUDE_CODE_MAX_RETRIES"]
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(claude), pass_env=passed)
    async with open_gateway(config, {**cli_env, "CLAUDE_CODE_MAX_RETRIES": "1"}, cli_cwd) as opened:
        yield opened


@contextlib.asynccontextmanager
async def socket(harness: GatewayHarness, path: str) -> AsyncIterator[ClientConnection]:
    url = harness.gateway.url.replace("http", "ws", 1) + path
    headers = {"Authorization": f"Bearer {harness.gateway.token}"}
    async with connect(url, additional_headers=headers) as opened:
        yield opened


class Phone:
    """A Happy client on its socket."""

    def __init__(self, wire: ClientConnection) -> None:
        self.wire = wire
        self.client = HappyClient()
        self.envelopes: list[dict[str, Any]] = []

    async def until(self, wanted: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not wanted():
                frame = json.loads(await self.wire.recv())
                if frame.get("type") != "resumed":
                    self.envelopes.append(frame["content"])
                    assert self.client.receive(frame["meta"]["seq"], frame)

    async def turns(self, count: int) -> list[str]:
        """The statuses of the turns so far, once that many have ended."""
        await self.until(lambda: len([turn for turn in self.client.state.turns if turn.status]) >= count)
        return [turn.status for turn in self.client.state.turns]

    def states(self) -> list[str]:
        permissions = [envelope["ev"].get("permission") for envelope in self.envelopes]
        return [facts["state"] for facts in permissions if facts]

    def kinds(self) -> list[str]:
        return [envelope["ev"]["t"] for envelope in self.envelopes]


@contextlib.asynccontextmanager
async def phone(harness: GatewayHarness) -> AsyncIterator[Phone]:
    async with socket(harness, f"/v1/sessions/{harness.session}/envelopes") as wire:
        yield Phone(wire)


async def pages(harness: GatewayHarness) -> list[dict[str, Any]]:
    page = (await harness.http.get(f"/v3/sessions/{harness.session}/messages?limit=500")).json()
    assert page["hasMore"] is False
    return [message["content"]["c"]["content"] for message in page["messages"]]


@on_versions()
@pytest.mark.rules("S001-019", "S001-021", "S001-022", "S001-081", "S001-085", "S001-125", "S001-143")
@pytest.mark.rules("S001-065")
async def test_several_turns_and_processes_as_envelopes(harness: GatewayHarness, model: ScriptedModel) -> None:
    await harness.open()
    async with phone(harness) as device:
        await an_answer_on_one_protocol_is_seen_on_all(harness, device)
        expected = ["text", "turn-start", "tool-call-start", "service", "service", "tool-call-end", "text", "turn-end"]
        assert device.kinds() == expected
        assert device.states() == ["asked", "allowed"]

        await harness.send("SCRIPT:slowtool 60")
        await harness.answer(await harness.until("permission.asked"))
        await harness.until("permission.resolved")
        await harness.do("interrupt")
        assert (await device.turns(2))[-1] == "cancelled"
        assert device.kinds()[-2:] == ["tool-call-end", "turn-end"]

        await harness.send("SCRIPT:error 400")
        assert (await device.turns(3))[-1] == "failed"

        await harness.do("close")
        await harness.send("SCRIPT:text another process")
        assert (await device.turns(4))[-1] == "completed"
        await example_1(harness, device, model)

        await harness.send(f"SCRIPT:subagent bash touch {harness.cwd / 'sub'}")
        await harness.answer(await harness.until("permission.asked"))
        await harness.until("subagent.ended")
        await harness.until("turn.ended")
        await device.until(lambda: "stop" in device.kinds() and not device.client.state.open_turn)
    inside = [envelope for envelope in device.envelopes if "subagent" in envelope]
    assert {"start", "text", "tool-call-start", "tool-call-end", "stop"} <= {item["ev"]["t"] for item in inside}
    prompts = [item["ev"]["text"] for item in inside if str(item["ev"].get("text")).startswith("SCRIPT:bash touch")]
    assert len(prompts) == 1, "what it was asked is told once, whether or not the CLI says it"
    await asyncio.to_thread(check, device.envelopes)
    assert_balanced(await pages(harness))
    assert (await pages(harness))[: len(device.envelopes)] == device.envelopes


async def example_1(harness: GatewayHarness, device: Phone, model: ScriptedModel) -> None:
    """A sentence, a call, and no text after its result. The newest CLI then asks the model for one, in vain: that
    prompt is not a person's.
    """
    (harness.cwd / "auth.py").write_text("the tide is high")
    call = ToolUse("Read", {"file_path": str(harness.cwd / "auth.py")})
    model.answers = [[ScriptText("I will inspect auth files."), call], []]
    before = len(device.envelopes)
    await harness.send(f"SCRIPT:{ANSWERS}")
    assert (await device.turns(5))[-1] == "completed"
    prompt, *example = device.envelopes[before:]
    assert (prompt["role"], prompt["ev"]["t"]) == ("user", "text")
    kinds = [envelope["ev"]["t"] for envelope in example]
    assert kinds == ["turn-start", "text", "tool-call-start", "tool-call-end", "turn-end"]
    assert {envelope["role"] for envelope in example} == {"agent"}
    assert len({envelope["turn"] for envelope in example}) == 1
    assert not [envelope for envelope in example if "subagent" in envelope]


def check(envelopes: list[dict[str, Any]]) -> None:
    with real_schema() as schema:
        schema.check(envelopes)


async def an_answer_on_one_protocol_is_seen_on_all(harness: GatewayHarness, device: Phone) -> None:
    """One session on three protocols, in its first turn."""
    browser = MyLifeDbClient()
    frames: list[dict[str, Any]] = []
    async with socket(harness, f"/api/claude/sessions/{harness.session}/subscribe") as tab:

        async def browse(wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
            async with asyncio.timeout(PATIENCE):
                while True:
                    data = await tab.recv()
                    browser.received(data)
                    frames.append(json.loads(data))
                    if wanted(frames[-1]):
                        return frames[-1]

        await harness.send(f"SCRIPT:bash touch {harness.cwd / 'made'}")
        asked = await browse(lambda frame: frame["type"] == "control_request")
        assert asked["request_id"] == (await harness.until("permission.asked"))["request"]
        await device.until(lambda: device.states() == ["asked"])
        answer = {"subtype": "success", "response": {"behavior": "allow"}}
        await tab.send(json.dumps({"type": "control_response", "request_id": asked["request_id"], "response": answer}))
        settled = await browse(lambda frame: frame["type"] == "control_response")
        assert (settled["request_id"], settled["behavior"]) == (asked["request_id"], "allow")
        resolved = await harness.until("permission.resolved")
        assert (resolved["request"], resolved["behavior"]) == (asked["request_id"], "allow")
        await device.until(lambda: device.states() == ["asked", "allowed"])
        assert (await harness.until("turn.ended"))["status"] == "completed"
        assert await device.turns(1) == ["completed"]
        await browse(lambda frame: frame["type"] == "result")
    assert browser.state.requests == {}
    assert (harness.cwd / "made").exists()
    (user_texts,) = [line["text"] for line in harness.all("text")]
    assert user_texts in [envelope["ev"].get("text") for envelope in device.envelopes]
    answers = [frame for frame in frames if frame["type"] == "assistant"]
    assert user_texts in json.dumps(answers[-1], ensure_ascii=False) or user_texts in str(answers[-1])


async def by_hand(claude: Path, env: dict[str, str], cwd: Path, *words: str) -> None:
    """Run the CLI as a person does, without a gateway."""
    process = await asyncio.create_subprocess_exec(
        *(str(claude), "-p", *words),
        env={**env, **WHOLE},
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0


async def listed(harness: GatewayHarness, count: int) -> list[str]:
    """The known sessions, newest first, once there are that many."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = (await harness.http.get("/v1/sessions")).json()["sessions"]
            if len(found) >= count:
                return [row["session"] for row in found]
            await asyncio.sleep(0.05)


def user_texts(envelopes: list[dict[str, Any]]) -> list[str]:
    return [item["ev"]["text"] for item in envelopes if item["role"] == "user"]


@on_versions()
@pytest.mark.rules("S001-118", "S001-119")
async def test_a_fork_of_the_cli_s_own_tells_nothing_again(
    harness: GatewayHarness, claude: Path, cli_env: dict[str, str], cli_cwd: Path
) -> None:
    """The forked file repeats the parent's beginning, each record once; a client watching the parent receives nothing
    more.
    """
    await by_hand(claude, cli_env, cli_cwd, "SCRIPT:text one")
    (first,) = await listed(harness, 1)
    await harness.watch(first)
    await harness.until("turn.ended")
    before = await pages(harness)
    assert user_texts(before) == ["SCRIPT:text one"]
    await by_hand(claude, cli_env, cli_cwd, "SCRIPT:text two", "--resume", first, "--fork-session")
    (fork,) = {*await listed(harness, 2)} - {first}
    places = {line["seq"] for line in harness.events}
    await harness.leave()
    await harness.watch(fork)
    await it_shows_its_parents_beginning_without_copying_it(harness, first, places)
    async with phone(harness) as device:
        await device.until(lambda: len(user_texts(device.envelopes)) == 2)
    assert user_texts(device.envelopes) == ["SCRIPT:text one", "SCRIPT:text two"]
    ids = [envelope["id"] for envelope in device.envelopes]
    assert len(set(ids)) == len(ids)
    await by_hand(claude, cli_env, cli_cwd, "SCRIPT:text three", "--resume", first)
    harness.session = first
    async with phone(harness) as device:
        await device.until(lambda: len(user_texts(device.envelopes)) == 2)
    assert user_texts(device.envelopes) == ["SCRIPT:text one", "SCRIPT:text three"]
    assert (await pages(harness))[: len(before)] == before


async def it_shows_its_parents_beginning_without_copying_it(
    harness: GatewayHarness, parent: str, places: set[int]
) -> None:
    """Shared events have the parent's positions in the log; each event is sent once."""
    await harness.until(lambda line: line["type"] == "text" and "two" in line["text"])
    (forked,) = harness.all("session.forked")
    assert forked["parent"] == parent
    assert [line["content"][0]["text"] for line in harness.all("user.message")] == [
        "SCRIPT:text one",
        "SCRIPT:text two",
    ]
    assert {line["seq"] for line in harness.events if line["seq"] < forked["seq"]} <= places
    assert len({line["id"] for line in harness.events}) == len(harness.events)
