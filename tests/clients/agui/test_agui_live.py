"""AG-UI on a running gateway with the demo agent: repeated runs, other clients, scopes, and hostile input."""

import asyncio
import contextlib
import uuid
from pathlib import Path
from typing import Any

import pytest

from clients.agui.harness import AgUiGateway, Page, kinds, open_gateway
from fairlead_testing.agui_client import events_of
from local_http import local_client
from patience import PATIENCE

pytestmark = pytest.mark.process


async def prompts(gateway: AgUiGateway, session: str) -> list[str]:
    """The texts that were sent to the agent."""
    page = (await gateway.http.get(f"/v1/sessions/{session}/events?limit=1000")).json()
    return [event["content"][0]["text"] for event in page["events"] if event["type"] == "user.message"]


async def test_a_repeated_run_joins_the_turn_and_sends_nothing_again(gateway: AgUiGateway) -> None:
    page = gateway.page()
    await page.say("SCRIPT:text before")
    await page.say("SCRIPT:think")
    body, messages = page.body, page.client.messages
    page.client.messages = [*body["messages"]]
    events = await page.repeat(body)
    assert page.client.messages == messages
    assert kinds(events)[:2] == ["RUN_STARTED", "STATE_SNAPSHOT"], "the history is the same"
    assert await prompts(gateway, page.thread) == ["SCRIPT:text before", "SCRIPT:think"]


async def test_two_requests_of_one_run_at_the_same_time_send_one_message(gateway: AgUiGateway) -> None:
    pages = [gateway.page("a thread")]
    pages.append(gateway.page("a thread"))
    name = pages[0].write("SCRIPT:text once")
    pages[1].write("SCRIPT:text once", name)
    body = pages[0].input(forwardedProps={"cwd": str(gateway.root)})
    async with asyncio.TaskGroup() as group:
        for page in pages:
            group.create_task(page.repeat(body))
    assert pages[0].client.messages == pages[1].client.messages
    session = pages[0].client.state["fairlead"]["session"]
    assert session == pages[1].client.state["fairlead"]["session"]
    assert await prompts(gateway, session) == ["SCRIPT:text once"]


async def test_a_client_that_leaves_stops_nothing_and_comes_back_to_the_whole_turn(gateway: AgUiGateway) -> None:
    page = gateway.page()
    page.write("SCRIPT:slow 3")
    body = page.input()
    async with asyncio.timeout(PATIENCE), gateway.stream(body) as answer:
        async for chunk in answer.aiter_bytes():
            if any(event["type"] == "TEXT_MESSAGE_CONTENT" for event in events_of(chunk)):
                break
    session = (await gateway.http.get(f"/v1/sessions/{page.thread}")).json()
    assert session["turn"], "the turn goes on"
    await page.repeat(body)
    assert page.texts == [("user", "SCRIPT:slow 3"), ("assistant", "tick tick tick ")]
    assert (await gateway.http.get(f"/v1/sessions/{page.thread}")).json().get("watchers", []) == []


async def test_a_message_in_a_busy_session_waits_for_its_own_turn(gateway: AgUiGateway) -> None:
    first, second = gateway.page(), None
    first.write("SCRIPT:slow 3")
    running = asyncio.create_task(first.run())
    second = gateway.page(first.thread)
    async with asyncio.timeout(PATIENCE):
        while (await gateway.http.get(f"/v1/sessions/{first.thread}/events")).status_code != 200:
            await asyncio.sleep(0.02)
        while not await prompts(gateway, first.thread):
            await asyncio.sleep(0.02)
    await second.say("SCRIPT:text mine")
    await running
    assert second.client.outcomes == ["success"]
    assert ("assistant", "tick tick tick ") in second.texts, "it sees the turn of the other page too"
    assert second.texts[-1] == ("assistant", "Hello from the scripted model. mine")
    assert second.client.state["fairlead"]["queue"] == []


async def test_a_request_can_be_answered_twice_and_counts_once(gateway: AgUiGateway) -> None:
    page = gateway.page()
    await page.say("SCRIPT:bash touch once.txt")
    assert page.client.outcomes == ["interrupt"]
    history = page.client.messages.copy()
    await page.answer(approved=True)
    body, messages = page.body, page.client.messages
    page.client.messages = history
    await page.repeat(body)
    assert page.client.messages == messages
    assert page.client.outcomes == ["interrupt", "success", "success"]


async def test_a_new_page_of_a_waiting_session_gets_its_history_and_the_interrupt(gateway: AgUiGateway) -> None:
    page = gateway.page()
    await page.say("SCRIPT:text first")
    await page.say("SCRIPT:bash touch late.txt")
    other = gateway.page(page.thread)
    await other.run()
    assert [one["id"] for one in other.client.interrupts] == [one["id"] for one in page.client.interrupts]
    assert other.client.messages == page.client.messages
    await other.answer(approved=True, editedArgs={"command": "touch edited.txt"})
    assert other.client.outcomes[-1] == "success"
    assert (gateway.root / "edited.txt").exists() and not (gateway.root / "late.txt").exists()


async def test_an_idle_session_ends_a_run_at_once_with_its_history(gateway: AgUiGateway) -> None:
    page = gateway.page()
    await page.say("SCRIPT:text hello")
    other = gateway.page(page.thread)
    events = await other.run()
    assert kinds(events) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"]
    assert other.client.messages == page.client.messages


async def test_a_page_keeps_its_own_state_and_messages_and_learns_that_its_tools_are_ignored(
    gateway: AgUiGateway,
) -> None:
    page = gateway.page("no uuid")
    page.client.messages.append({"id": "s1", "role": "system", "content": "be brief"})
    page.write("SCRIPT:text hello", "m-1")
    await page.run(state={"theme": "dark"}, tools=[{"name": "paint", "description": "", "parameters": {}}])
    assert page.client.state["theme"] == "dark"
    assert page.client.customs[0] == {
        "type": "CUSTOM",
        "name": "fairlead.ignored_tools",
        "value": {"tools": ["paint"]},
    }
    session = page.client.state["fairlead"]["session"]
    await gateway.http.post(f"/v1/sessions/{session}/messages", json={"text": "SCRIPT:text other"})
    await gateway.turns_over(session, 2)
    await page.say("SCRIPT:text again")
    assert [text for _, text in page.texts][:4] == [
        "be brief",
        "SCRIPT:text hello",
        "Hello from the scripted model. hello",
        "SCRIPT:text other",
    ]
    assert page.client.messages[1]["id"] == "m-1"


async def test_the_title_changes_while_a_run_goes_on(gateway: AgUiGateway) -> None:
    page = gateway.page()
    page.write("SCRIPT:slow 3")
    running = asyncio.create_task(page.run())
    async with asyncio.timeout(PATIENCE):
        while (await gateway.http.get(f"/v1/sessions/{page.thread}")).json().get("turn") is None:
            await asyncio.sleep(0.02)
    await gateway.http.patch(f"/v1/sessions/{page.thread}", json={"title": "A title"})
    await running
    assert page.client.state["fairlead"]["title"] == "A title"


async def test_a_path_names_the_agent_and_a_folder_is_inside_the_roots(gateway: AgUiGateway) -> None:
    page = gateway.page()
    page.write("SCRIPT:text hello")
    assert (await gateway.post(page.input(), "/v1/agui/demo")).status_code == 200
    other = gateway.page()
    other.write("SCRIPT:text hello")
    assert (await gateway.post(other.input(), "/v1/agui/nothing")).status_code in (400, 404)
    outside = await gateway.post(other.input(forwardedProps={"cwd": "/etc"}))
    assert (outside.status_code, outside.json()["error"]["code"]) == (403, "outside_roots")


async def test_scopes_decide_who_may_run_and_who_may_answer(gateway: AgUiGateway) -> None:
    view, chat = await gateway.token("view"), await gateway.token("view", "chat")
    page = gateway.page()
    await page.say("SCRIPT:bash touch scoped.txt")
    (interrupt,) = page.client.interrupts
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
    assert (await gateway.post(page.input(), token=view)).status_code == 403
    page.write("SCRIPT:text not sent")
    refused = await gateway.post(page.input(resume=resume), token=chat)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_allowed")
    pending = (await gateway.http.get(f"/v1/sessions/{page.thread}/permissions")).json()["permissions"]
    assert len(pending) == 1, "nothing was answered"
    assert await prompts(gateway, page.thread) == ["SCRIPT:bash touch scoped.txt"], "and nothing was sent"
    assert (await gateway.post(page.input(), token="wrong")).status_code == 401


async def test_a_thread_with_a_name_belongs_to_its_credential(gateway: AgUiGateway) -> None:
    page = gateway.page("notes")
    await page.say("SCRIPT:text mine")
    other = await gateway.token("view", "chat")
    answer = await gateway.post({"threadId": "notes", "runId": "r", "messages": []}, token=other)
    (snapshot,) = [event for event in events_of(answer.content) if event["type"] == "STATE_SNAPSHOT"]
    assert snapshot["snapshot"]["fairlead"]["session"] != page.client.state["fairlead"]["session"]


BAD: list[Any] = [
    None,
    [],
    "run",
    {},
    {"threadId": "t", "runId": "r"},
    {"threadId": 1, "runId": "r", "messages": []},
    {"threadId": "", "runId": "r", "messages": []},
    {"threadId": "t" * 5000, "runId": "r", "messages": []},
    {"threadId": "t", "runId": "r", "messages": [1]},
    {"threadId": "t", "runId": "r", "messages": [{}]},
    {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": 1}]},
    {"threadId": "t", "runId": "r", "messages": [{"id": {}, "role": "user", "content": "x"}]},
    {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user"}]},
    {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": ""}]},
    {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": [{"type": "audio"}]}]},
    {"threadId": "t", "runId": "r", "messages": [{"id": f"m{n}", "role": "user", "content": "x"} for n in range(50)]},
    {"threadId": "t", "runId": "r", "messages": [], "forwardedProps": {"cwd": 7}},
    {"threadId": "t2", "runId": "r", "messages": [], "forwardedProps": {"cwd": "a\0b"}},
    {"threadId": "t", "runId": "r", "messages": [], "resume": [{}]},
    {"threadId": "t", "runId": "r", "messages": [], "resume": [{"interruptId": "x", "status": "maybe"}]},
    {"threadId": "t", "runId": "r", "messages": [], "resume": [{"interruptId": "x", "status": "cancelled"}]},
]


async def test_malformed_runs_are_refused_and_do_no_harm(gateway: AgUiGateway) -> None:
    for body in BAD:
        answer = await gateway.post(body)
        assert answer.status_code in (400, 404), (body, answer.status_code, answer.content[:300])
        assert answer.json()["error"]["message"]
    for data in (b"{", b"\xff", b"[" * 100_000):
        answer = await gateway.http.post("/v1/agui", content=data)
        assert answer.status_code == 400
    page = gateway.page("t")
    await page.say("SCRIPT:text still here")
    assert page.client.outcomes == ["success"]


async def test_strange_histories_are_compared_and_replaced(gateway: AgUiGateway) -> None:
    page = gateway.page()
    await page.say("SCRIPT:text hello")
    good = page.client.messages.copy()
    strange: list[dict[str, Any]] = [
        {"id": "x1", "role": "assistant", "toolCalls": [1, {"id": 2}, {"function": None}]},
        {"id": "x2", "role": "assistant", "toolCalls": "none", "content": [1]},
        {"id": "x3", "role": "tool", "content": {"a": 1}},
        {"id": "x4", "role": "nothing known"},
        {"id": good[0]["id"], "role": "user", "content": [None]},
    ]
    page.client.messages = [*strange]
    page.write("SCRIPT:text again")
    await page.run()
    assert page.client.messages[:2] == good
    assert [text for _, text in page.texts][2:] == ["SCRIPT:text again", "Hello from the scripted model. again"]


@pytest.mark.parametrize(
    "payload",
    [None, {}, True, {"approved": "yes"}, {"approved": True, "editedArgs": 1}, {"approved": True, "remember": 1}],
)
async def test_an_answer_that_does_not_fit_settles_nothing(gateway: AgUiGateway, payload: Any) -> None:
    page = gateway.page()
    await page.say("SCRIPT:bash touch refused.txt")
    (interrupt,) = page.client.interrupts
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": payload}]
    assert (await gateway.post(page.input(resume=resume))).status_code == 400
    assert len((await gateway.http.get(f"/v1/sessions/{page.thread}/permissions")).json()["permissions"]) == 1


async def test_a_revoked_credential_ends_its_run(gateway: AgUiGateway) -> None:
    made = (await gateway.http.post("/v1/tokens", json={"name": "page", "scopes": ["view", "chat"]})).json()
    page = Page(gateway, str(uuid.uuid4()))
    page.write("SCRIPT:slow 8")
    seen: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE), gateway.stream(page.input(), token=made["secret"]) as answer:
        async for chunk in answer.aiter_bytes():
            seen += events_of(chunk)
            if "TEXT_MESSAGE_CONTENT" in kinds(seen) and made:
                revoked = await gateway.http.delete(f"/v1/tokens/{made['credential']['id']}")
                assert revoked.status_code in (200, 204), revoked.text
                made = {}
    assert (seen[-1]["type"], seen[-1]["code"]) == ("RUN_ERROR", "not_allowed")


async def test_a_gateway_that_stops_ends_its_runs(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE), contextlib.AsyncExitStack() as stack:
        async with open_gateway(tmp_path) as gateway:
            page = gateway.page()
            page.write("SCRIPT:slow 400")
            headers = {"Authorization": f"Bearer {gateway.gateway.token}"}
            client = await stack.enter_async_context(local_client(base_url=gateway.gateway.url, headers=headers))
            answer = await stack.enter_async_context(client.stream("POST", "/v1/agui", json=page.input()))
            chunks = answer.aiter_bytes()
            while "TEXT_MESSAGE_CONTENT" not in kinds(seen):
                seen += events_of(await anext(chunks))
        async for chunk in chunks:
            seen += events_of(chunk)
    assert (seen[-1]["type"], seen[-1]["code"]) == ("RUN_ERROR", "stopping")
