"""Sessions that another program writes: reported when their file changes, read from its end, followed like others."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clients.claudecodeui.chat_harness import peer_at
from clients.claudecodeui.chat_scenario import history
from clients.mylifedb.test_mylifedb_transcripts import SESSION, Home, gateway, row
from fairlead.clients.claudecodeui.chat.conversation import ChatConversation
from fairlead.clients.claudecodeui.rest.history_pages import messages
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.auth import Identity
from fairlead.model.ids import EventId, MessageId, SessionId
from fairlead.model.web.requests import Head
from fairlead.model.web.routes import Request
from fairlead.model.web.sockets import Handshake, RunFlow
from local_http import local_client

WHO = Identity("c", "ann", "ann", frozenset({"admin"}))
HEAD = Head(method="GET", path="/")


@pytest.mark.process
@pytest.mark.rules("S003-007", "S003-030", "S003-130")
async def test_rows_written_by_another_program_are_reported_at_once_and_appear_in_history(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(row(1), row(2))
    async with gateway(home, tmp_path) as served:
        headers = {"Authorization": f"Bearer {served.token}"}
        async with (
            local_client(base_url=served.url, headers=headers) as http,
            peer_at(served.url, served.token) as peer,
            peer_at(served.url, served.token) as other,
        ):
            await peer.settled()
            await other.settled()
            # No client has opened the session yet: only its file is known.
            home.write(row(3), row(4))
            update = await other.until("session_upserted")
            assert (update["sessionId"], update["project"]["path"]) == (SESSION, "/srv")
            assert (await peer.subscribe(SESSION))["sessionId"] == SESSION
            home.write(row(5), row(6))
            live = await peer.until(lambda frame: frame["kind"] == "text" and frame["content"] == "answer 6")
            await other.until("session_upserted")
            page = await history(http, SESSION)
            assert [entry["content"] for entry in page["messages"]] == [
                *["prompt 1", "answer 2", "prompt 3", "answer 4", "prompt 5", "answer 6"]
            ]
            assert page["messages"][-1]["id"] == live["id"] == f"{row(6)['uuid']}_0"
            assert peer.run()[-1]["seq"] == peer.client.sessions[SESSION].seq


@pytest.mark.process
async def test_a_new_transcript_is_reported(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(row(1), row(2))
    async with gateway(home, tmp_path) as served, peer_at(served.url, served.token) as peer:
        await peer.settled()
        name = "7afc3e49-0000-4000-8000-000000000002"
        fresh = home.folder / f"{name}.jsonl"
        fresh.write_text("".join(json.dumps(row(number, sessionId=name)) + "\n" for number in (1, 2)))
        update = await peer.until(lambda frame: frame["kind"] == "session_upserted" and frame["sessionId"] == name)
        assert update["session"]["summary"] == "prompt 1"


def text(number: int) -> msgspec.Raw:
    event = ev.Text(id=EventId(f"u{number}/0/text"), message=MessageId(f"m{number}"), block=0, text=f"words {number}")
    return msgspec.Raw(ev.encode(event))


def asked(query: dict[str, str]) -> Any:
    return messages(Request(head=HEAD, who=WHO, fresh="", params={"session": SESSION}, query=query))


def test_the_end_of_a_long_file_is_shown_while_the_file_is_still_being_read() -> None:
    """The original reads and interprets the whole file for every page."""
    steps = asked({"limit": "20"})
    assert next(steps) == q.WaitLoaded(SessionId(SESSION), wait=False)
    assert steps.send(False) == q.PreviewTranscript(SessionId(SESSION), 100)
    glance = q.TranscriptPreview(session=SessionId(SESSION), events=tuple(text(number) for number in range(30)))
    with pytest.raises(StopIteration) as end:
        steps.send(glance)
    page = json.loads(end.value.value.body)
    assert [entry["content"] for entry in page["messages"]] == [f"words {number}" for number in range(10, 30)]
    assert (page["hasMore"], page["total"]) == (True, 31)


@pytest.mark.parametrize("query", [{"limit": "20", "offset": "20"}, {}, {"limit": "0"}])
def test_other_pages_wait_until_the_file_is_loaded(query: dict[str, str]) -> None:
    steps = asked(query)
    assert next(steps) == q.WaitLoaded(SessionId(SESSION))
    assert isinstance(steps.send(True), q.ReadRows)


def test_a_preview_that_is_too_short_is_not_used() -> None:
    steps = asked({"limit": "20"})
    next(steps)
    steps.send(False)
    few = q.TranscriptPreview(session=SessionId(SESSION), events=(text(1),))
    assert steps.send(few) == q.WaitLoaded(SessionId(SESSION))


def test_a_subscription_waits_until_the_file_is_loaded() -> None:
    conversation = ChatConversation(Handshake(head=HEAD, who=WHO, version="1", fresh=lambda: "f"))
    message = {"type": "chat.subscribe", "sessions": [{"sessionId": SESSION}]}
    (run,) = conversation.received(json.dumps(message).encode(), True)
    assert isinstance(run, RunFlow) and next(run.flow) == q.WaitLoaded(SessionId(SESSION))


@pytest.mark.process
async def test_a_previewed_page_equals_the_page_of_the_loaded_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.sessions.transcripts.filling.AT_ONCE_BYTES", 0)
    home = Home(tmp_path)
    home.write(*(row(number) for number in range(1, 301)))
    async with gateway(home, tmp_path, listed="/all") as served:
        headers = {"Authorization": f"Bearer {served.token}"}
        async with local_client(base_url=served.url, headers=headers) as http:
            first = await history(http, SESSION, "?limit=20")
            whole = await history(http, SESSION)
            assert whole["total"] == 300
            assert [entry["id"] for entry in first["messages"]] == [entry["id"] for entry in whole["messages"][-20:]]
            assert first["hasMore"] is True
