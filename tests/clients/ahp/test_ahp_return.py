"""AHP clients that come back to a running gateway with the demo agent: `reconnect`."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from clients.ahp.harness import ROOT, AhpGateway, AhpPeer, RequestFailed, ahp_gateway, channel_of, chat_of
from fairlead_testing.ahp_client import AhpClient

pytestmark = pytest.mark.process


async def come_back(peer: AhpPeer, before: AhpClient, *channels: str) -> Any:
    """The same client on another connection, with its state: the answer to `reconnect`."""
    answers, peer.client = peer.client.answers, before
    before.answers = answers
    about = {"clientId": peer.name, "lastSeenServerSeq": before.seen, "subscriptions": [ROOT, *channels]}
    return await peer.request("reconnect", **about)


async def refused(peer: AhpPeer, seen: Any, *channels: str) -> int:
    about = {"clientId": peer.name, "lastSeenServerSeq": seen, "subscriptions": [ROOT, *channels]}
    with pytest.raises(RequestFailed) as error:
        await peer.request("reconnect", **about)
    return int(error.value.code)


def parts(peer: AhpPeer, session: str) -> str:
    """All that the last turn says."""
    chat = peer.chat(session)
    turn = chat.get("activeTurn") or chat["turns"][-1]
    return "".join(part.get("content", "") for part in turn["responseParts"])


async def test_the_rest_of_a_turn_and_what_others_did_is_replayed(gateway: AhpGateway) -> None:
    one, two = await gateway.create(), await gateway.create()
    channels = [channel_of(one), chat_of(one), channel_of(two), chat_of(two)]
    async with gateway.peer(name="vs") as peer:
        await peer.initialize(*channels)
        await peer.dispatch(channel_of(one), "session/activeClientSet", activeClient={"tools": []})
        await peer.prompt(one, "SCRIPT:slow 12", turn="request_1")
        await peer.until(lambda client: client.chats[chat_of(one)]["activeTurn"]["responseParts"])
        before = peer.client
    async with gateway.peer() as other:
        await other.initialize(*channels)
        await other.prompt(two, "SCRIPT:text two", turn="request_2")
        await other.turns(two, 1)
        seen = len(before.envelopes)
        async with gateway.peer(name="vs") as peer:
            answer = await come_back(peer, before, *channels)
            assert answer["type"] == "replay" and answer["missing"] == []
            kinds = [envelope["action"]["type"] for envelope in answer["actions"]]
            assert "chat/turnComplete" in kinds
            await peer.turns(one, 1)
            assert parts(peer, one).split() == ["tick"] * 12
            assert {**peer.chat(two), "title": ""} == {**other.chat(two), "title": ""}
            numbers = [(envelope["channel"], envelope["serverSeq"]) for envelope in before.envelopes]
            assert len(numbers) == len(set(numbers)) > seen, "no action came twice"
            state = await peer.request("subscribe", channel_of(one))
            assert [one["clientId"] for one in state["snapshot"]["state"]["activeClients"]] == ["vs"]
            # The new connection is like any other one.
            await peer.prompt(one, "SCRIPT:text more", turn="request_3")
            assert [turn["id"] for turn in await peer.turns(one, 2)] == ["request_1", "request_3"]
            with pytest.raises(RequestFailed) as twice:
                await peer.request("initialize", protocolVersions=["0.9.0"], clientId="vs")
            assert twice.value.code == -32600
            before = peer.client
        async with gateway.peer(name="vs") as peer:
            assert (await come_back(peer, before, *channels))["actions"] == []


async def test_an_own_action_that_was_confirmed_too_late_is_replayed(gateway: AhpGateway) -> None:
    session = await gateway.create()
    async with gateway.peer(name="vs") as peer:
        await peer.initialize(channel_of(session), chat_of(session))
        await peer.dispatch(chat_of(session), "chat/draftChanged", draft={"text": "a"})
        stale = await peer.dispatch(chat_of(session), "chat/turnCancelled", turnId="none", duration=1)
        assert stale["rejectionReason"]
        seen = next(one["serverSeq"] for one in peer.client.envelopes if one["action"]["type"] == "chat/draftChanged")
    async with gateway.peer(name="vs") as peer:
        about = {"lastSeenServerSeq": seen, "subscriptions": [channel_of(session), chat_of(session)]}
        answer = await peer.request("reconnect", clientId="vs", **about)
        assert answer["actions"] == [stale]


async def test_a_client_that_is_silent_after_its_return_gets_actions_too(
    gateway: AhpGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.clients.ahp.conversation.ANSWER_S", 0.05)
    session = await gateway.create()
    async with gateway.peer() as other:
        await other.initialize(chat_of(session))
        async with gateway.peer(name="vs") as peer:
            await peer.initialize(chat_of(session))
            await peer.request("ping")
            await other.prompt(session, "SCRIPT:text", turn="request_1")
            await peer.turns(session, 1)
            before = peer.client
        async with gateway.peer(name="vs") as peer:
            assert (await come_back(peer, before, chat_of(session)))["type"] == "replay"
            await other.prompt(session, "SCRIPT:text", turn="request_2")
            await peer.turns(session, 2)


async def test_sessions_that_are_gone_or_not_ours_any_more_are_missing(gateway: AhpGateway) -> None:
    made = await gateway.http.post("/v1/users", json={"name": "bob", "scopes": ["view", "chat"]})
    assert made.status_code == 201, made.text
    about = {"name": "bobs", "user": "bob", "scopes": ["view", "chat"]}
    bobs = (await gateway.http.post("/v1/tokens", json=about)).json()["secret"]
    shared, deleted = await gateway.create(), await gateway.create()
    for session in (shared, deleted):
        answer = await gateway.http.post(f"/v1/sessions/{session}/share", json={"user": "bob"})
        assert answer.status_code == 200, answer.text
    channels = [chat_of(shared), channel_of(shared), chat_of(deleted), "ahp-terminal:/1", chat_of(str(uuid.uuid4()))]
    async with gateway.peer(bobs, name="vs") as bob, gateway.peer() as owner:
        await bob.initialize(*channels)
        await owner.initialize(chat_of(shared))
        await bob.request("ping")
        await owner.prompt(shared, "SCRIPT:text secret", turn="request_1")
        before = bob.client.seen
        await bob.turns(shared, 1)
        seen = bob.client.seen
        # Another credential's client of this name is not known, whoever it is.
        async with gateway.peer(name="vs") as stranger:
            assert await refused(stranger, seen, chat_of(shared)) == -32008
        assert (await gateway.http.delete(f"/v1/sessions/{deleted}")).status_code == 200
        taken = await gateway.http.post(f"/v1/sessions/{shared}/share", json={"user": "bob", "remove": True})
        assert taken.status_code == 200, taken.text
    async with gateway.peer(bobs, name="vs") as bob:
        answer = await bob.request(
            "reconnect", clientId="vs", lastSeenServerSeq=before, subscriptions=[ROOT, *channels]
        )
        assert answer["actions"] == [] and sorted(answer["missing"]) == sorted(channels)


async def test_what_cannot_be_told_is_answered_like_by_a_new_host(tmp_path: Path) -> None:
    async with ahp_gateway(tmp_path) as gateway:
        session = await gateway.create()
        async with gateway.peer(name="vs") as peer:
            await peer.initialize(chat_of(session))
            await peer.prompt(session, "SCRIPT:text", turn="request_1")
            await peer.turns(session, 1)
            seen = peer.client.seen
        async with gateway.peer(name="vs") as peer:
            for number in (0, 5, seen - 64, seen + 1, 2**53):
                assert await refused(peer, number, chat_of(session)) == -32008
            assert await refused(peer, seen, chat_of(session), channel_of(session)) == -32008, "never subscribed"
            for wrong in (None, "5", -1, True, 2**70):
                assert await refused(peer, wrong, chat_of(session)) == -32602
            # It initializes on the same connection, and gets exact snapshots.
            await peer.initialize(chat_of(session))
            assert [turn["id"] for turn in peer.chat(session)["turns"]] == ["request_1"]
    async with ahp_gateway(tmp_path) as gateway, gateway.peer(name="vs") as peer:
        assert await refused(peer, seen, chat_of(session)) == -32008, "the gateway was restarted"


async def test_a_client_that_missed_too_much_gets_snapshots(
    gateway: AhpGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await gateway.create()
    async with gateway.peer(name="vs") as peer:
        await peer.initialize(chat_of(session))
        await peer.prompt(session, "SCRIPT:text", turn="request_1")
        await peer.turns(session, 1)
        seen = peer.client.seen
    async with gateway.peer() as other:
        await other.initialize(chat_of(session))
        await other.prompt(session, "SCRIPT:text", turn="request_2")
        await other.turns(session, 2)
    for limit in ("MISSED_ENTRIES", "MISSED_BYTES"):
        with monkeypatch.context() as patched:
            patched.setattr(f"fairlead.clients.ahp.replay.{limit}", 3)
            async with gateway.peer(name="vs") as peer:
                assert await refused(peer, seen, chat_of(session)) == -32008
    async with gateway.peer(name="vs") as peer:
        about = {"clientId": "vs", "lastSeenServerSeq": seen, "subscriptions": [chat_of(session)]}
        assert (await peer.request("reconnect", **about))["type"] == "replay"


@pytest.mark.parametrize("known", [True, False])
async def test_the_list_of_a_client_that_comes_back_is_brought_up_to_date(gateway: AhpGateway, known: bool) -> None:
    archived, session = await gateway.create(), await gateway.create()
    async with gateway.peer(name="vs") as peer:
        await peer.initialize(chat_of(session))
        await peer.prompt(session, "SCRIPT:text", turn="request_1")
        await peer.turns(session, 1)
        before = peer.client
    new = await gateway.create(title="Made meanwhile")
    await gateway.http.patch(f"/v1/sessions/{archived}", json={"archived": True})
    before.notices.clear()
    async with gateway.peer(name="vs" if known else "another") as peer:
        if known:
            await come_back(peer, before, chat_of(session))
        else:
            assert await refused(peer, before.seen, chat_of(session)) == -32008
            await peer.initialize(chat_of(session))
        notices = await peer.until(
            lambda client: (
                {one["method"]: one for one in client.notices}.keys() >= {"root/sessionAdded", "root/sessionRemoved"}
                and client.notices
            )
        )
    added = [one["params"]["summary"] for one in notices if "summary" in one["params"]]
    assert "Made meanwhile" in [summary["title"] for summary in added]
    assert channel_of(new) in [summary["resource"] for summary in added]
    assert channel_of(archived) in [one["params"].get("session") for one in notices]
