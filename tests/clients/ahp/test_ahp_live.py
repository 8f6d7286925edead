"""AHP clients on a running gateway with the demo agent."""

import json
import uuid
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from clients.ahp.harness import ROOT, AhpGateway, RequestFailed, ahp_gateway, channel_of, chat_of, message

pytestmark = pytest.mark.process


async def test_a_new_session_a_prompt_a_permission_and_the_answer(gateway: AhpGateway) -> None:
    session = str(uuid.uuid4())
    async with gateway.peer() as peer, gateway.peer() as watcher:
        answer = await peer.initialize()
        assert answer["protocolVersion"] == "0.9.0" and answer["defaultDirectory"] == gateway.folder.as_uri()
        assert [agent["provider"] for agent in peer.client.root["agents"]] == ["fairlead"]
        await watcher.initialize()

        config = await peer.request(
            "resolveSessionConfig", provider="fairlead", workingDirectory=gateway.folder.as_uri()
        )
        assert config["values"] == {"permissionMode": "default", "model": "", "thinking": 0}
        folders = [gateway.folder.as_uri()]
        about = {
            "workingDirectories": folders,
            "config": {"permissionMode": "plan", "model": "demo-small", "isolation": "folder"},
        }
        assert await peer.request("createSession", channel_of(session), provider="fairlead", **about) is None
        added = await watcher.until(lambda client: [one for one in client.notices if "summary" in one["params"]])
        assert added[0]["method"] == "root/sessionAdded"
        assert added[0]["params"]["summary"]["workingDirectories"] == folders
        with pytest.raises(RequestFailed) as twice:
            await peer.request("createSession", channel_of(session), provider="fairlead")
        assert twice.value.code == -32003

        for client in (peer, watcher):
            await client.request("subscribe", channel_of(session))
            await client.request("subscribe", chat_of(session))
        state = peer.client.sessions[channel_of(session)]
        assert (
            state["config"]["values"] == {"permissionMode": "plan", "model": "demo-small", "thinking": 0}
            and state["lifecycle"] == "ready"
        )
        changed = await peer.dispatch(
            channel_of(session), "session/configChanged", config={"permissionMode": "default", "model": ""}
        )
        assert "rejectionReason" not in changed
        await watcher.until(
            lambda client: (
                client.sessions[channel_of(session)]["config"]["values"]
                == {"permissionMode": "default", "model": "", "thinking": 0}
            )
        )
        wrong = await peer.dispatch(channel_of(session), "session/configChanged", config={"thinking": "much"})
        assert "whole number" in wrong["rejectionReason"]

        started = await peer.prompt(session, "SCRIPT:bash", turn="request_1")
        assert started["action"]["turnId"] == "request_1"
        call = await watcher.call(session, "pending-confirmation")
        needed = watcher.client.sessions[channel_of(session)]["inputNeeded"]
        assert [one["toolCall"]["toolCallId"] for one in needed] == [call["toolCallId"]]
        answer = {"turnId": "request_1", "toolCallId": call["toolCallId"], "approved": True}
        confirmed = await peer.dispatch(
            chat_of(session), "chat/toolCallConfirmed", **answer, confirmed="user-action", selectedOptionId="allow"
        )
        assert "rejectionReason" not in confirmed
        again = await watcher.dispatch(chat_of(session), "chat/toolCallConfirmed", **answer)
        assert "does not wait" in again["rejectionReason"]

        for client in (peer, watcher):
            (turn,) = await client.turns(session, 1)
            assert turn["id"] == "request_1" and turn["state"] == "complete"
            parts = [part["kind"] for part in turn["responseParts"]]
            assert parts == ["toolCall", "markdown"]
            assert turn["responseParts"][0]["toolCall"]["selectedOption"]["id"] == "allow"
            assert turn["responseParts"][1]["content"].endswith("said: hi")
            assert "inputNeeded" not in client.client.sessions[channel_of(session)]

        # What they folded is what a client gets that comes now.
        async with gateway.peer() as late:
            await late.initialize(channel_of(session), chat_of(session))
            late_chat, folded = late.chat(session), watcher.chat(session)
            assert {**late_chat, "title": ""} == {**folded, "title": ""}
            assert late_chat["title"] == "SCRIPT:bash"


async def test_questions_plans_and_denials(gateway: AhpGateway) -> None:
    session = await gateway.create()
    async with gateway.peer() as peer:
        await peer.initialize(channel_of(session), chat_of(session))
        await peer.prompt(session, "SCRIPT:question")
        needed = await peer.until(lambda client: client.sessions[channel_of(session)].get("inputNeeded"))
        request = needed[0]["request"]
        question = request["questions"][0]
        answers = {
            question["id"]: {
                "state": "submitted",
                "value": {"kind": "selected", "value": question["options"][0]["id"]},
            }
        }
        done = await peer.dispatch(
            chat_of(session), "chat/inputCompleted", requestId=request["id"], response="accept", answers=answers
        )
        assert "rejectionReason" not in done
        (turn,) = await peer.turns(session, 1)
        asked = next(part for part in turn["responseParts"] if part["kind"] == "inputRequest")
        assert asked["response"] == "accept"
        late = await peer.dispatch(chat_of(session), "chat/inputCompleted", requestId=request["id"], response="decline")
        assert "does not wait" in late["rejectionReason"]

        await peer.prompt(session, "SCRIPT:bash")
        call = await peer.call(session, "pending-confirmation")
        about = {"turnId": peer.chat(session)["activeTurn"]["id"], "toolCallId": call["toolCallId"]}
        await peer.dispatch(
            chat_of(session),
            "chat/toolCallConfirmed",
            **about,
            approved=False,
            reason="denied",
            userSuggestion={"text": "Use ls."},
        )
        turns = await peer.turns(session, 2)
        denied = next(part["toolCall"] for part in turns[1]["responseParts"] if part["kind"] == "toolCall")
        assert (denied["status"], denied["reasonMessage"]) == ("cancelled", "Use ls.")

        await peer.prompt(session, "SCRIPT:bash")
        call = await peer.call(session, "pending-confirmation")
        edited = json.dumps({**json.loads(call["toolInput"]), "command": "echo changed"})
        about = {"turnId": peer.chat(session)["activeTurn"]["id"], "toolCallId": call["toolCallId"]}
        wrong = await peer.dispatch(
            chat_of(session), "chat/toolCallConfirmed", **about, approved=True, editedToolInput="no JSON"
        )
        assert "JSON object" in wrong["rejectionReason"]
        await peer.dispatch(chat_of(session), "chat/toolCallConfirmed", **about, approved=True, editedToolInput=edited)
        turns = await peer.turns(session, 3)
        ran = next(part["toolCall"] for part in turns[2]["responseParts"] if part["kind"] == "toolCall")
        assert json.loads(ran["toolInput"])["command"] == "echo changed"
        assert ran["content"][0]["text"] == "changed"


async def test_the_queue_an_interrupt_and_a_message_into_the_turn(gateway: AhpGateway) -> None:
    session = await gateway.create()
    chat = chat_of(session)
    async with gateway.peer() as peer:
        await peer.initialize(channel_of(session), chat)
        await peer.prompt(session, "SCRIPT:slow 400", turn="request_1")
        busy = await peer.prompt(session, "SCRIPT:text", turn="request_x")
        assert "at work" in busy["rejectionReason"]
        for number in (2, 3):
            about = {"kind": "queued", "id": f"request_{number}", "message": message(f"SCRIPT:text {number}")}
            assert "rejectionReason" not in await peer.dispatch(chat, "chat/pendingMessageSet", **about)
        assert [one["id"] for one in peer.chat(session)["queuedMessages"]] == ["request_2", "request_3"]
        await peer.dispatch(chat, "chat/queuedMessagesReordered", order=["request_3", "request_2"])
        await peer.until(
            lambda client: [one["id"] for one in client.chats[chat]["queuedMessages"]] == ["request_3", "request_2"]
        )
        await peer.dispatch(chat, "chat/pendingMessageRemoved", kind="queued", id="request_2")
        unknown = await peer.dispatch(chat, "chat/pendingMessageRemoved", kind="queued", id="request_9")
        assert "no queued message" in unknown["rejectionReason"]
        steering = {"kind": "steering", "id": "request_4", "message": message("and this")}
        await peer.dispatch(chat, "chat/pendingMessageSet", **steering)
        assert "steeringMessage" not in peer.chat(session) or await peer.until(
            lambda client: "steeringMessage" not in client.chats[chat]
        )
        cancelled = await peer.dispatch(chat, "chat/turnCancelled", turnId="request_1", duration=1)
        assert "rejectionReason" not in cancelled
        late = await peer.dispatch(chat, "chat/turnCancelled", turnId="request_1", duration=1)
        assert "ended already" in late["rejectionReason"]
        turns = await peer.turns(session, 2)
        assert [(turn["id"], turn["state"]) for turn in turns][:2] == [
            ("request_1", "cancelled"),
            ("request_3", "complete"),
        ]
    events = await gateway.events(session)
    steered = [event for event in events if event["type"] == "user.message" and event.get("via") == "steer"]
    queued = [event for event in events if event["type"] == "message.queued"]
    assert len(steered) + len([event for event in queued if event["content"][0]["text"] == "and this"]) == 1


async def test_what_was_sent_twice_happens_once(gateway: AhpGateway) -> None:
    """A client that comes back sends again what was not confirmed."""
    session = await gateway.create()
    async with gateway.peer(name="vs") as peer:
        await peer.initialize(channel_of(session), chat_of(session))
        await peer.prompt(session, "SCRIPT:text once", turn="request_1")
        await peer.turns(session, 1)
    async with gateway.peer(name="vs") as peer:
        about = {"clientId": "vs", "lastSeenServerSeq": 1, "subscriptions": [ROOT, chat_of(session)]}
        with pytest.raises(RequestFailed) as unknown:
            await peer.request("reconnect", **about)
        assert unknown.value.code == -32008
        await peer.initialize(channel_of(session), chat_of(session))
        assert len(peer.chat(session)["turns"]) == 1
        again = await peer.prompt(session, "SCRIPT:text once", turn="request_1")
        assert "already" in again["rejectionReason"]
        await peer.prompt(session, "SCRIPT:text more", turn="request_2")
        assert [turn["id"] for turn in await peer.turns(session, 2)] == ["request_1", "request_2"]


async def test_a_restart_of_the_gateway_keeps_the_ids_of_turns(tmp_path: Path) -> None:
    async with ahp_gateway(tmp_path) as gateway:
        session = await gateway.create()
        async with gateway.peer(name="vs") as peer:
            await peer.initialize(channel_of(session), chat_of(session))
            await peer.prompt(session, "SCRIPT:text", turn="request_1")
            await peer.turns(session, 1)
            before = peer.chat(session)
    async with ahp_gateway(tmp_path) as gateway, gateway.peer(name="vs") as peer:
        await peer.initialize(channel_of(session), chat_of(session))
        assert {**peer.chat(session), "title": ""} == {**before, "title": ""}
        again = await peer.prompt(session, "SCRIPT:text", turn="request_1")
        assert "already" in again["rejectionReason"]


async def test_sessions_are_renamed_archived_and_disposed_of(gateway: AhpGateway) -> None:
    used, empty = await gateway.create(), await gateway.create()
    async with gateway.peer() as peer, gateway.peer() as watcher:
        await peer.initialize(channel_of(used), chat_of(used))
        await watcher.initialize()
        await peer.prompt(used, "SCRIPT:text")
        await peer.turns(used, 1)
        await peer.dispatch(channel_of(used), "session/titleChanged", title="Better")
        await peer.until(lambda client: client.sessions[channel_of(used)]["title"] == "Better")
        listed = (await peer.request("listSessions"))["items"]
        assert {item["title"] for item in listed} == {"Better", "New session"}
        first = await peer.request("listSessions", limit=1)
        rest = await peer.request("listSessions", limit=1, cursor=first["nextCursor"])
        assert len({item["resource"] for item in (*first["items"], *rest["items"])}) == 2

        await peer.request("disposeSession", channel_of(empty))
        await peer.request("disposeSession", channel_of(used))
        removed = {channel_of(used), channel_of(empty)}
        await watcher.until(
            lambda client: (
                {one["params"].get("session") for one in client.notices if "Removed" in one["method"]} >= removed
            )
        )
        assert (await peer.request("listSessions"))["items"] == []
    kept = await gateway.http.get(f"/v1/sessions/{used}")
    assert kept.json()["summary"]["archived"] and kept.json()["summary"]["turns"] == 1
    assert (await gateway.http.get(f"/v1/sessions/{empty}")).status_code == 404


async def test_another_users_sessions_do_not_exist_and_a_watched_one_is_not_deleted(gateway: AhpGateway) -> None:
    session = await gateway.create()
    made = await gateway.http.post("/v1/users", json={"name": "bob", "scopes": ["view", "chat", "approve"]})
    assert made.status_code == 201, made.text
    about = {"name": "bobs", "user": "bob", "scopes": ["view", "chat", "approve"]}
    bobs = (await gateway.http.post("/v1/tokens", json=about)).json()["secret"]
    async with gateway.peer(bobs) as bob, gateway.peer() as owner:
        await owner.initialize(channel_of(session), chat_of(session))
        answer = await bob.initialize(channel_of(session), chat_of(session))
        assert [one["resource"] for one in answer["snapshots"]] == [ROOT]
        assert (await bob.request("listSessions"))["items"] == []
        for method in ("subscribe", "disposeSession"):
            with pytest.raises(RequestFailed) as refused:
                await bob.request(method, channel_of(session))
            assert refused.value.code == -32001
        rejected = await bob.prompt(session, "SCRIPT:text")
        assert "no session" in rejected["rejectionReason"]
        assert bob.client.notices == []

        shared = await gateway.http.post(f"/v1/sessions/{session}/share", json={"user": "bob"})
        assert shared.status_code == 200, shared.text
        await bob.request("subscribe", channel_of(session))
        await owner.request("disposeSession", channel_of(session))
    kept = await gateway.http.get(f"/v1/sessions/{session}")
    assert kept.json()["summary"]["archived"]


async def test_earlier_turns_are_loaded_by_pages(gateway: AhpGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.clients.ahp.subscriptions.TURNS", 2)
    monkeypatch.setattr("fairlead.clients.ahp.conversation.PAGE_TURNS", 2)
    session = await gateway.create()
    async with gateway.peer() as peer, gateway.peer() as late:
        await peer.initialize(chat_of(session))
        for number in range(1, 6):
            await peer.prompt(session, f"SCRIPT:text {number}", turn=f"request_{number}")
            await peer.turns(session, number)
        await late.initialize(chat_of(session))
        chat = late.chat(session)
        assert [turn["id"] for turn in chat["turns"]] == ["request_4", "request_5"]
        await late.request("fetchTurns", chat_of(session), cursor=chat["turnsNextCursor"])
        cursor = late.chat(session)["turnsNextCursor"]
        await late.request("fetchTurns", chat_of(session), cursor=cursor)
        assert late.chat(session)["turns"] == peer.chat(session)["turns"]
        assert "turnsNextCursor" not in late.chat(session)
        with pytest.raises(RequestFailed):
            await late.request("fetchTurns", chat_of(session), cursor="../1")


async def test_files_are_read_inside_the_roots_and_never_written(gateway: AhpGateway) -> None:
    (gateway.folder / "a ü.txt").write_text("text")
    (gateway.folder / "b.bin").write_bytes(b"\xff\x00")
    (gateway.folder / "inner").mkdir()
    here = gateway.folder.as_uri()
    async with gateway.peer() as peer:
        await peer.initialize()
        listed = await peer.request("resourceList", uri=here)
        assert {(entry["name"], entry["type"]) for entry in listed["entries"]} == {
            ("inner", "directory"),
            ("a ü.txt", "file"),
            ("b.bin", "file"),
        }
        text = (gateway.folder / "a ü.txt").as_uri()
        assert await peer.request("resourceRead", uri=text) == {"data": "text", "encoding": "utf-8"}
        assert (await peer.request("resourceRead", uri=f"{here}/b.bin"))["encoding"] == "base64"
        assert (await peer.request("resourceResolve", uri=here))["type"] == "directory"
        assert (await peer.request("resourceResolve", uri=text))["size"] == 4
        outside = (gateway.folder.parent / "data").as_uri()
        for method, uri, code in (
            ("resourceList", outside, -32009),
            ("resourceRead", f"{outside}/token", -32009),
            ("resourceRead", f"{here}/../data/token", -32009),
            ("resourceRead", f"{here}/none", -32008),
            ("resourceResolve", f"{here}/none", -32008),
            ("resourceRead", "http://example.org/a", -32602),
            ("resourceRead", "file://elsewhere/a", -32602),
            ("resourceRead", f"{here}/%00", -32602),
            ("resourceWrite", f"{here}/new", -32009),
            ("resourceDelete", text, -32009),
            ("resourceMkdir", f"{here}/new", -32009),
        ):
            with pytest.raises(RequestFailed) as refused:
                await peer.request(method, uri=uri)
            assert refused.value.code == code, (method, uri)
    assert sorted(path.name for path in gateway.folder.iterdir()) == ["a ü.txt", "b.bin", "inner"]


async def test_a_credential_that_may_only_watch_changes_nothing(gateway: AhpGateway) -> None:
    session = await gateway.create()
    token = await gateway.token("view")
    async with gateway.peer() as owner, gateway.peer(token) as peer:
        await owner.initialize(channel_of(session), chat_of(session))
        await peer.initialize(channel_of(session), chat_of(session))
        await owner.prompt(session, "SCRIPT:bash", turn="request_1")
        call = await peer.call(session, "pending-confirmation")
        before = await gateway.events(session)
        chat, turn = chat_of(session), {"turnId": "request_1"}
        for channel, kind, fields in (
            (chat, "chat/turnStarted", {"turnId": "request_2", "message": message("hi")}),
            (chat, "chat/pendingMessageSet", {"kind": "queued", "id": "q", "message": message("hi")}),
            (chat, "chat/pendingMessageSet", {"kind": "steering", "id": "q", "message": message("hi")}),
            (chat, "chat/toolCallConfirmed", {**turn, "toolCallId": call["toolCallId"], "approved": True}),
            (chat, "chat/turnCancelled", turn),
            (channel_of(session), "session/titleChanged", {"title": "Mine"}),
            (channel_of(session), "session/isArchivedChanged", {"isArchived": True}),
            (channel_of(session), "session/configChanged", {"config": {"permissionMode": "acceptEdits"}}),
        ):
            answer = await peer.dispatch(channel, kind, **fields)
            assert "scope" in answer["rejectionReason"], kind
        new = channel_of(str(uuid.uuid4()))
        for method, channel in (("createSession", new), ("disposeSession", channel_of(session))):
            with pytest.raises(RequestFailed) as refused:
                await peer.request(method, channel, provider="fairlead")
            assert refused.value.code == -32009
        assert await gateway.events(session) == before
    chatting = await gateway.token("view", "chat")
    async with gateway.peer(chatting) as peer:
        await peer.initialize(channel_of(session), chat_of(session))
        about = {"turnId": "request_1", "toolCallId": call["toolCallId"], "approved": True}
        assert "scope approve" in (await peer.dispatch(chat, "chat/toolCallConfirmed", **about))["rejectionReason"]


async def test_the_token_is_checked_and_the_window_of_vs_code_is_let_in(gateway: AhpGateway) -> None:
    for token, headers, status in (
        ("", {}, 401),
        ("wrong", {}, 401),
        (None, {"Origin": "https://example.org"}, 403),
        (None, {"Origin": "vscode-webview://abc"}, 403),
    ):
        with pytest.raises(InvalidStatus) as refused:
            async with gateway.peer(token, **headers):
                pass
        assert refused.value.response.status_code == status
    async with gateway.peer(Origin="vscode-file://vscode-app") as peer:
        assert (await peer.initialize())["serverInfo"]["name"] == "fairlead"
    async with gateway.peer("", Authorization=f"Bearer {gateway.gateway.token}") as peer:
        assert await peer.request("ping") == {}
