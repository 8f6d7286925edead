"""One live session of the real CLI, open at once in a client of each protocol: all see the same."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.all_clients import all_clients, answered_on_one, happy_words, over
from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import NEWEST, OLDEST, on_versions


@pytest.fixture
async def harness(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path
) -> AsyncIterator[GatewayHarness]:
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(claude), pass_env=["IS_SANDBOX"])
    async with open_gateway(config, cli_env, cli_cwd) as opened:
        yield opened


@on_versions(NEWEST)
async def test_a_permission_that_is_answered_on_one_is_seen_as_answered_on_all(harness: GatewayHarness) -> None:
    await harness.open()
    requests: list[str] = []
    async with all_clients(harness) as clients:
        for answering in ("native", "mylifedb", "direct", "cognova", "claudecodeui"):
            harness.scene()
            await answered_on_one(harness, clients, answering, requests)


@on_versions(OLDEST, NEWEST)
async def test_each_of_them_says_something_and_all_hear_it(harness: GatewayHarness) -> None:
    await harness.open()
    async with all_clients(harness) as clients:
        tab, envelopes, hearing = clients.tab, clients.envelopes, clients.hearing
        direct, peer, app = clients.direct, clients.peer, clients.app
        await harness.turn("SCRIPT:text native")
        await tab.say(type="user_message", content="SCRIPT:text mylifedb")
        await harness.until("turn.ended")
        await direct.prompt("SCRIPT:text direct")
        await harness.until("turn.ended")
        message = {
            "localId": "one",
            "content": {"role": "user", "content": {"type": "text", "text": "SCRIPT:text happy"}},
        }
        posted = await harness.http.post(f"/v3/sessions/{harness.session}/messages", json={"messages": [message]})
        assert posted.status_code == 200, posted.text
        await harness.until("turn.ended")
        await peer.send("SCRIPT:text cognova", harness.session)
        await harness.until("turn.ended")
        await app.send(harness.session, "SCRIPT:text claudecodeui")
        await harness.until("turn.ended")
        await hearing.until(lambda: len(over(envelopes)) == 6)
        names = ["native", "mylifedb", "direct", "happy", "cognova", "claudecodeui"]
        assert [text.split()[-1] for text in harness.texts()] == names
        for name in names:
            assert any(name in word for word in happy_words(envelopes))
        await tab.until(lambda frame: frame["type"] == "assistant" and "claudecodeui" in str(frame["message"]))
        received = [str(frame["message"]) for frame in tab.frames if frame["type"] == "assistant"]
        assert [next(name for name in names if name in words) for words in received] == names
        await direct.until(lambda client: len([m for m in client.messages if m["type"] == "result"]) == 6)
        for _ in names:
            await peer.until("stream_end")
            await app.until("complete")
        (conversation,) = peer.client.conversations.values()
        assert [answer.text.split()[-1] for answer in conversation.answers] == names
        texts = [row["content"] for row in app.client.sessions[harness.session].rows if row["kind"] == "text"]
        assert [text.split()[-1] for text in texts] == names
        raw = await harness.raw()
        assert len([line for line in raw if line["type"] == "turn.ended"]) == 6
