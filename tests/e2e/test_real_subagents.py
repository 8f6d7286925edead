"""The output of the real CLI's subagents: in its own thread, at its place, once, in every protocol, on every link."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from e2e.all_clients import all_clients, mylifedb, over
from e2e.gateway_harness import GatewayHarness, Line, open_gateway, settings
from e2e.harness import LAST_DIAL_IN, on_versions
from fairlead_testing.happy_client import HappyClient
from patience import PATIENCE

RULES = {"allow": ["Bash(echo hi)"]}
FIRST = "I will run a command."
LAST = "Done. The tool said: hi"
"""The texts of the scripted model before and after its tool call."""


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(claude), pass_env=["IS_SANDBOX"], **RULES)
    async with open_gateway(config, cli_env, cli_cwd) as opened:
        yield opened


def output_of(lines: list[Line], subagent: str) -> list[str]:
    """A subagent's texts and calls, in the order of the log."""
    own = [line for line in lines if line.get("subagent") == subagent]
    words = {"text": lambda line: line["text"], "tool.called": lambda line: line["name"]}
    return [words[line["type"]](line) for line in own if line["type"] in words]


def place(items: list[Any], wanted: Any) -> int:
    """The index of the one matching item."""
    (found,) = [number for number, item in enumerate(items) if wanted(item)]
    return found


def has(record: dict[str, Any], text: str) -> bool:
    """Whether this is an assistant's record with this text."""
    blocks = record["message"]["content"] if record.get("type") == "assistant" else []
    return any(block.get("text") == text for block in blocks)


def inside(records: list[dict[str, Any]], call: str, name: str) -> None:
    """Check that a subagent's sentences appear once among the records, in its thread, before their turn's end."""
    end = place(records, lambda record: record.get("type") == "result")
    places = [place(records, lambda record, text=text: has(record, text)) for text in (FIRST, LAST)]
    assert places == sorted(places) and places[-1] < end
    assert [records[number][name] for number in places] == [call, call]


def happy_thread(client: HappyClient) -> list[str]:
    shown = [item for item in client.state.shown if item.isSidechain]
    return [part["text"] for item in shown for part in item.content if part["type"] == "text"]


@on_versions(core=True)
@pytest.mark.rules("S004-062", "S004-083")
async def test_a_subagents_sentences_are_in_its_thread_in_every_protocol(harness: GatewayHarness) -> None:
    await harness.open()
    async with all_clients(harness) as clients:
        tab, envelopes, hearing = clients.tab, clients.envelopes, clients.hearing
        direct, peer, app = clients.direct, clients.peer, clients.app
        await harness.send("SCRIPT:subagent tool")
        await harness.until("turn.ended")
        await tab.until("result")
        await direct.result()
        await hearing.until(lambda: over(envelopes))
        await peer.until("stream_end")
        await app.until("complete")
        (started,) = harness.all("subagent.started")
        child, call = started["child"], started["call"]
        # The sentences surround its tool call and come before its own call ends.
        assert output_of(harness.events, child) == [FIRST, "Bash", LAST]
        ended = place(harness.events, lambda line: line["type"] == "tool.ended" and line["call"] == call)
        assert ended > place(harness.events, lambda line: line["type"] == "text" and line["text"] == LAST)
        inside(tab.frames, call, "parentToolUseID")
        inside(direct.client.messages, call, "parent_tool_use_id")
        assert [text for text in happy_thread(envelopes) if text in (FIRST, LAST)] == [FIRST, LAST]
        (conversation,) = peer.client.conversations.values()
        assert conversation.subagents[child].call == call
        assert conversation.subagents[child].texts == [FIRST, LAST]
        assert FIRST not in conversation.answers[-1].text
        rows = [row for row in app.client.sessions[harness.session].rows if row.get("parentToolUseId") == call]
        assert [row["content"] for row in rows if row["kind"] == "text"][-2:] == [FIRST, LAST]
    await history_is_as_it_was_shown(harness, call)
    await harness.raw()
    harness.scene()
    await a_background_subagents_sentences_keep_its_thread(harness)


async def history_is_as_it_was_shown(harness: GatewayHarness, call: str) -> None:
    """Also when the transcript's rows have replaced the wire's: no record comes after the turn's end."""

    async def copied() -> None:
        while True:
            async with mylifedb(harness) as later:
                await later.until("result")
                records = [frame for frame in later.frames if frame["type"] in ("user", "assistant", "result")]
                assert not [frame for frame in later.frames if "agentId" in frame and "message" not in frame]
            if any(has(record, LAST) and record.get("isSidechain") for record in records):
                inside(records, call, "parentToolUseID")
                assert records[-1]["type"] == "result"
                return
            await asyncio.sleep(0.05)

    await asyncio.wait_for(copied(), PATIENCE)


async def a_background_subagents_sentences_keep_its_thread(harness: GatewayHarness) -> None:
    """Whether they come before or after the first result, and also where the CLI does not send them."""
    (harness.cwd / "found.txt").write_text("a needle")
    await harness.send("SCRIPT:background read found.txt")
    await harness.until("subagent.ended")
    (started,) = harness.all("subagent.started")
    called, last = output_of(harness.events, started["child"])
    assert called == "Read"
    assert last.startswith("Done. The tool said:") and "a needle" in last
    ends = [line["call"] for line in harness.events if line["type"] == "tool.ended"]
    assert sorted(ends) == sorted(line["call"] for line in harness.all("tool.called"))
    # No agent is still busy: a further prompt is answered in a turn that ends.
    await harness.send("SCRIPT:text afterwards")
    await harness.until(lambda line: line["type"] == "text" and "afterwards" in line["text"])
    assert (await harness.until("turn.ended"))["status"] == "completed"
    # The task's notification may have started its own turn meanwhile; that turn ends too.
    while len(harness.all("turn.started")) > len(harness.all("turn.ended")):
        await harness.until("turn.ended")
    await harness.raw()


@on_versions(last=LAST_DIAL_IN)
async def test_they_come_over_a_socket_too(harness: GatewayHarness) -> None:
    await harness.open("SCRIPT:subagent tool", settings={"link": "dial-in"})
    await harness.until("turn.ended")
    (started,) = harness.all("subagent.started")
    assert output_of(harness.events, started["child"]) == [FIRST, "Bash", LAST]
