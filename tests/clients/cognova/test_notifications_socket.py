"""/notifications on a real server: credentials, the frames to each peer, and notices of the core's sessions."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from clients.cognova.notifications_harness import FeedHarness, open_feed
from fairlead.model import commands as cmd
from fairlead.model.errors import AgentMissing
from patience import PATIENCE
from sessions.harness import ANN, SESSION

TASK = {"title": "Fix login bug"}
AGENT = {"name": "Tidy", "schedule": "0 9 * * *", "prompt": "Tidy up."}


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[FeedHarness]:
    async with open_feed(tmp_path) as made:
        yield made


@pytest.mark.rules("S002-001", "S002-083", "S002-092")
async def test_the_socket_needs_no_other_socket_and_sends_connected_first(harness: FeedHarness) -> None:
    async with harness.listener() as listener:
        (first,) = await listener.until(1)
    assert first == {
        "type": "connected",
        "message": "Notification bus connected",
        "timestamp": "2023-11-14T22:13:20.000Z",
    }


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_a_connection_without_a_credential_is_refused(harness: FeedHarness, token: str) -> None:
    address = f"ws://127.0.0.1:{harness.port}/notifications" + (f"?token={token}" if token else "")
    with pytest.raises(InvalidStatus) as refused:
        await connect(address, proxy=None).__aenter__()
    assert refused.value.response.status_code == 401
    assert (await harness.call("GET", "/api/tasks", token="wrong")).status_code == 401


@pytest.mark.parametrize(
    ("scopes", "method", "path", "status"),
    [
        (("view",), "GET", "/api/tasks", 200),
        (("view",), "POST", "/api/tasks", 403),
        (("view", "chat"), "POST", "/api/tasks", 400),
        (("view", "chat"), "GET", "/api/secrets", 403),
        (("view", "chat", "approve", "terminal"), "GET", "/api/secrets/A", 403),
        (("view", "chat"), "POST", "/api/targets", 403),
        (("view", "chat"), "GET", "/api/push/key", 200),
    ],
)
async def test_scopes_come_from_the_credential(
    harness: FeedHarness, scopes: tuple[str, ...], method: str, path: str, status: int
) -> None:
    assert (await harness.call(method, path, {}, await harness.token(*scopes))).status_code == status


async def test_a_viewer_gets_every_change(harness: FeedHarness) -> None:
    async with harness.listener(token=await harness.token("view")) as listener:
        await listener.until(1)
        await harness.done("POST", "/api/secrets", {"key": "A", "value": "s3cret"})
        frame = await listener.change("secret", "create")
    assert "s3cret" not in json.dumps(frame)


@pytest.mark.rules("S002-085", "S002-086", "S002-087", "S002-103", "S002-112", "S002-113", "S002-114", "S002-115")
@pytest.mark.rules("S002-104", "S002-105", "S002-106", "S002-107", "S002-108", "S002-109", "S002-111", "S002-132")
@pytest.mark.rules("S002-133")
async def test_changes_of_every_resource_type_are_sent_to_every_peer(harness: FeedHarness) -> None:
    async with harness.listener() as first, harness.listener() as second:
        await first.until(1)
        await second.until(1)
        task = (await harness.done("POST", "/api/tasks", TASK))["id"]
        await harness.done("PUT", f"/api/tasks/{task}", {"status": "done"})
        await harness.done("DELETE", f"/api/tasks/{task}")
        await harness.done("POST", f"/api/tasks/{task}/restore")
        await harness.done("POST", "/api/reminders", {"message": "m", "remindAt": "2100-01-01"})
        await harness.done("POST", "/api/agents", AGENT)
        await harness.done("POST", "/api/hooks/events", {"eventType": "SessionStart"})
        await harness.done("POST", "/api/memory/store", {"content": "c", "chunkType": "fact"})
        await harness.done("POST", "/api/documents/by-path", {"path": "a.md"})
        await harness.done("POST", "/api/projects", {"name": "p", "color": "#000000"})
        await harness.done("POST", "/api/secrets", {"key": "K", "value": "v"})
        changes = [
            [(one["resource"], one["action"]) for one in await peer.settled() if one["type"] == "resource_change"]
            for peer in (first, second)
        ]
    assert (
        changes[0]
        == changes[1]
        == [
            *[("task", action) for action in ("create", "edit", "delete", "restore")],
            *[(one, "create") for one in ("reminder", "agent", "hook", "memory", "document", "project", "secret")],
        ]
    )


@pytest.mark.rules("S002-110")
async def test_created_renamed_and_deleted_conversations_are_reported(harness: FeedHarness) -> None:
    async with harness.listener() as listener:
        await listener.until(1)
        made = (await harness.done("POST", "/api/conversations", {"title": "First"}))["id"]
        created = await listener.change("conversation", "create")
        assert (created["resourceId"], created["resourceName"]) == (made, "First")
        await harness.done("PUT", f"/api/conversations/{made}", {"title": "Second"})
        assert (await listener.change("conversation", "edit"))["resourceName"] == "Second"
        await harness.done("DELETE", f"/api/conversations/{made}")
        deleted = await listener.change("conversation", "delete")
    assert deleted["resourceId"] == made and "resourceName" not in deleted


async def test_turns_and_permissions_reach_subscribers_without_any_content(harness: FeedHarness) -> None:
    async with harness.listener() as asking, harness.listener() as silent:
        await asking.say({"type": "subscribe", "topics": ["session", "permission", "turn"]})
        await asking.until(2)
        await silent.until(1)
        core = harness.core
        await core.open(title="Work")
        await core.send("a secret plan")
        agent = await core.kind.launched()
        await agent.ready()
        await agent.call("c1", command="rm -rf secret")
        await agent.ask("r1", "c1", command="rm -rf secret")
        await core.gateway.command(ANN, cmd.AnswerPermission(session=SESSION, request=_request("r1"), behavior="deny"))
        await agent.result(result="the secret answer")
        notices = await _notices(asking, "turn.completed")
    kinds = [one["kind"] for one in notices]
    assert kinds == ["session.created", "session.working", "permission.asked", "permission.settled", "turn.completed"]
    assert {one["sessionId"] for one in notices} == {SESSION} and {one["sessionName"] for one in notices} == {"Work"}
    assert notices[2]["meta"] == {"requestId": "r1", "toolName": "Bash"}
    assert notices[4]["meta"]["status"] == "completed"
    assert "secret" not in json.dumps(notices)
    assert {one["type"] for one in silent.frames} == {"connected", "resource_change"}


def _request(text: str) -> Any:
    return text


async def _notices(listener: Any, last: str) -> list[dict[str, Any]]:
    async with asyncio.timeout(PATIENCE):
        while not any(one.get("kind") == last for one in listener.frames):
            await listener.settled()
    return [one for one in listener.frames if one["type"] == "notice"]


@pytest.mark.rules("S002-105", "S002-116", "S002-118", "S002-119")
async def test_an_agent_started_by_hand_runs_as_a_session_of_the_core(harness: FeedHarness) -> None:
    async with harness.listener() as listener:
        await listener.until(1)
        made = (await harness.done("POST", "/api/agents", AGENT | {"maxTurns": 3}))["id"]
        answer = (await harness.call("POST", f"/api/agents/{made}/run")).json()
        assert answer["message"] == "Agent started"
        run = await listener.change("agent", "run")
        assert run["meta"] == {"runId": answer["runId"], "sessionId": answer["sessionId"]}
        agent = await harness.core.kind.launched()
        assert await agent.prompted() == "Tidy up."
        assert agent.launch.settings.max_turns == 3
        assert (await harness.call("POST", f"/api/agents/{made}/run")).status_code == 409
        await agent.ready()
        await agent.result()
        assert (await listener.change("agent", "complete"))["meta"]["status"] == "success"
        await _second_run(harness, made, listener)
        found = await harness.done("GET", f"/api/agents/{made}")
    assert [(one["status"], one["error"]) for one in found["runs"]] == [
        ("error", "error_during_execution"),
        ("success", None),
    ]


async def _second_run(harness: FeedHarness, made: str, listener: Any) -> None:
    await harness.call("POST", f"/api/agents/{made}/run")
    agent = await harness.core.kind.launched(2)
    await agent.prompted()
    await agent.ready()
    await agent.result(subtype="error_during_execution", is_error=True, result=None)
    failed = await listener.change("agent", "fail")
    assert (failed["color"], failed["message"]) == ("error", "error_during_execution")


@pytest.mark.rules("S002-117")
async def test_a_running_agent_is_cancelled_in_the_core(harness: FeedHarness) -> None:
    async with harness.listener() as listener:
        await listener.until(1)
        made = (await harness.done("POST", "/api/agents", AGENT))["id"]
        await harness.call("POST", f"/api/agents/{made}/run")
        agent = await harness.core.kind.launched()
        await agent.prompted()
        await agent.ready()
        answer = (await harness.call("POST", f"/api/agents/{made}/cancel")).json()
        assert answer == {"success": True, "message": "Cancelling 1 running execution", "cancelledCount": 1}
        assert ("interrupt", None) in agent.requests
        await agent.result(subtype="error_during_execution", is_error=True, result=None)
        assert (await listener.change("agent", "cancel"))["color"] == "warning"


async def test_an_agent_whose_program_is_missing_fails_with_the_reason(harness: FeedHarness) -> None:
    harness.core.kind.failures.append(AgentMissing("There is no such program."))
    async with harness.listener() as listener:
        await listener.until(1)
        made = (await harness.done("POST", "/api/agents", AGENT))["id"]
        await harness.call("POST", f"/api/agents/{made}/run")
        assert (await listener.change("agent", "fail"))["message"] == "There is no such program."


@pytest.mark.rules("S002-128")
async def test_a_change_right_after_connected_is_never_missed(harness: FeedHarness) -> None:
    for _ in range(20):
        async with harness.listener() as listener:
            await listener.until(1)
            await harness.done("POST", "/api/tasks", TASK)
            await listener.change("task", "create")


@pytest.mark.rules("S002-130", "S002-131")
async def test_disconnected_peers_are_removed(harness: FeedHarness) -> None:
    for _ in range(20):
        async with harness.listener() as listener:
            await listener.until(1)
            listener.socket.transport.abort()
    async with asyncio.timeout(PATIENCE):
        while harness.service.feed.subscribers:
            await asyncio.sleep(0)


async def test_messages_sent_right_after_connecting_are_handled(harness: FeedHarness) -> None:
    async with harness.listener() as listener:
        await listener.say({"type": "subscribe", "topics": ["turn"]})
        await listener.say({"type": "ping"})
        assert {one["type"] for one in await listener.until(3)} == {"connected", "subscribed", "pong"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"kind": "webhook", "url": "http://127.0.0.1/x"}, "not a public address"),
        ({"kind": "webhook", "url": "http://169.254.169.254/latest"}, "not a public address"),
        ({"kind": "ntfy", "url": "http://[::1]/topic"}, "not a public address"),
        ({"kind": "webhook", "url": "file:///etc/passwd"}, "https://"),
        ({"kind": "pigeon", "url": "https://a/"}, "kind must be one of"),
        ({"url": "https://a/"}, "kind must be one of"),
        ({"kind": "webhook"}, "url is required"),
        ({"kind": "webhook", "url": "https://a/", "topics": ["weather"]}, "topics must be some of"),
    ],
)
async def test_a_target_that_is_not_allowed_is_a_clear_error(
    harness: FeedHarness, body: dict[str, Any], message: str
) -> None:
    answer = await harness.call("POST", "/api/targets", body)
    assert answer.status_code == 400 and message in answer.json()["message"]
    assert await harness.done("GET", "/api/targets") == []


async def test_an_invalid_or_too_large_body_is_an_error_and_the_server_keeps_working(harness: FeedHarness) -> None:
    assert (await harness.call("POST", "/api/tasks", content=b"{")).json()["message"] == "The body is not JSON."
    assert (await harness.call("POST", "/api/tasks", content=b"x" * (1 << 20) + b"x")).status_code == 413
    assert (await harness.call("POST", "/api/tasks", content=b'{"title":"\\ud800"}')).status_code == 400
    await harness.done("POST", "/api/tasks", TASK)
