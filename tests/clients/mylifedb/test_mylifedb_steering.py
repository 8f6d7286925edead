"""Requests of a client on the socket: permissions, modes, interrupts, results, typing, acks, pages."""

from typing import Any

import pytest

from clients.mylifedb.harness import MyLifeDbGateway, Tab
from clients.mylifedb.test_mylifedb_socket import level, prompt, stream, talked
from fairlead.clients.mylifedb import pages
from fairlead.model import commands as cmd
from fairlead.sessions.api.read_state import SPACE
from sessions.harness import SESSION, FakeAgent


async def asked(
    gateway: MyLifeDbGateway, tab: Tab, request: str = "R1", call: str = "toolu_1", tool: str = "Write"
) -> FakeAgent:
    agent = await prompt(gateway, tab, "do it")
    await agent.ask(request, call, tool, file_path=str(gateway.core.cwd / "a"), content="x")
    await tab.until("control_request")
    return agent


def allow(request: str, **more: Any) -> dict[str, Any]:
    inner = {"behavior": "allow", **more.pop("inner", {})}
    response = {"subtype": "success", "response": inner}
    return {"type": "control_response", "request_id": request, "response": response, **more}


# --- permissions


async def test_an_answer_of_one_client_is_sent_to_all(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab, gateway.tab() as other:
        agent = await asked(gateway, tab)
        assert (await other.until("control_request"))["request"]["tool_name"] == "Write"
        assert list(tab.client.state.requests) == ["R1"]
        await tab.say(
            **allow("R1", inner={"updated_input": {"file_path": str(gateway.core.cwd / "b"), "content": "y"}})
        )
        for both in (tab, other):
            reply = await both.until("control_response")
            assert reply == {"type": "control_response", "request_id": "R1", "behavior": "allow"}
            assert both.client.state.requests == {}
        await gateway.core.until(lambda: bool(agent.answers))
        request, decision = agent.answers[0]
        assert (request, decision.behavior) == ("R1", "allow")
        assert decision.updated_input == {"file_path": str(gateway.core.cwd / "b"), "content": "y"}
        for late in ("R1", "R-unknown"):
            await other.say(**allow(late))
        await level(other)
        assert "error" not in {*tab.kinds(), *other.kinds()}, "the original is silent too"
        assert len(agent.answers) == 1


async def test_a_refusal_stops_the_turn_and_names_the_tool(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        agent = await asked(gateway, tab)
        denied = {"subtype": "success", "response": {"behavior": "deny"}}
        await tab.say(type="control_response", request_id="R1", response=denied)
        assert (await tab.until("control_response"))["behavior"] == "deny"
        await gateway.core.until(lambda: bool(agent.answers))
        _, decision = agent.answers[0]
        assert (decision.message, decision.interrupt) == ("Permission denied by user for tool: Write", True)


async def test_always_allow_remembers_the_tool_and_settles_its_pending_requests(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        agent = await asked(gateway, tab)
        await agent.ask("R2", "toolu_2", "Write", file_path=str(gateway.core.cwd / "b"), content="y")
        await agent.ask("R3", "toolu_3", "Bash", command="make")
        for _ in range(2):
            await tab.until("control_request")
        await tab.say(**allow("R1", always_allow=True, tool_name="Write"))
        answered = [(await tab.until("control_response"))["request_id"] for _ in range(2)]
        assert answered == ["R1", "R2"]
        assert list(tab.client.state.requests) == ["R3"]
        assert gateway.core.loaded().core.state.rules == ("Write",)
        verdict = await agent.check("toolu_9", "Write", file_path=str(gateway.core.cwd / "c"), content="z")
        assert str(verdict.behavior) == "allow"


async def test_a_client_without_the_scope_cannot_allow_every_shell_command(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    token = await gateway.token("view", "chat", "approve")
    async with gateway.tab(token=token) as tab:
        agent = await prompt(gateway, tab, "do it")
        await agent.ask("R1", "toolu_1", "Bash", command="make test")
        await tab.until("control_request")
        await tab.say(**allow("R1", always_allow=True, tool_name="Bash"))
        assert (await tab.until("control_response"))["behavior"] == "allow"
        assert gateway.core.loaded().core.state.rules and "Bash" not in gateway.core.loaded().core.state.rules


async def test_always_allow_for_one_call_answers_only_calls_that_its_rule_covers(gateway: MyLifeDbGateway) -> None:
    """A client that may not open the whole tool gets the narrow rule, and only that rule decides other requests."""
    await gateway.core.open()
    token = await gateway.token("view", "chat", "approve")
    async with gateway.tab(token=token) as tab:
        agent = await prompt(gateway, tab, "do it")
        await agent.ask("R1", "toolu_1", "Bash", command="git tag v1")
        await agent.ask("R2", "toolu_2", "Bash", command="touch EVIL")
        await agent.ask("R3", "toolu_3", "Bash", command="git tag v2")
        for _ in range(3):
            await tab.until("control_request")
        await tab.say(**allow("R1", always_allow=True, tool_name="Bash"))
        answered = [(await tab.until("control_response"))["request_id"] for _ in range(2)]
        assert answered == ["R1", "R3"]
        assert list(tab.client.state.requests) == ["R2"]
        assert gateway.core.loaded().core.state.rules == ("Bash(git tag:*)",)
        await gateway.core.until(lambda: len(agent.answers) == 2)
        assert [request for request, _ in agent.answers] == ["R1", "R3"]


async def test_an_answer_to_an_unknown_request_is_ignored(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        await tab.say(**allow("none"))
        await level(tab)
        assert [frame for frame in tab.frames if not frame.get("request_id", "").startswith("mark-")] == []


async def test_a_client_that_may_not_approve_receives_an_error(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    token = await gateway.token("view", "chat")
    async with gateway.tab(token=token) as tab:
        agent = await asked(gateway, tab)
        await tab.say(**allow("R1"))
        assert "approve" in (await tab.until("error"))["error"]
        assert agent.answers == []


async def test_a_question_is_answered_with_the_changed_input(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    questions = [{"question": "Tea?", "options": [{"label": "Yes"}]}]
    async with gateway.tab() as tab:
        agent = await prompt(gateway, tab, "ask me")
        await agent.ask("Q1", "toolu_1", "AskUserQuestion", questions=questions)
        await tab.until("control_request")
        given = {"questions": questions, "answers": {"Tea?": "Yes"}}
        await tab.say(**allow("Q1", inner={"updated_input": given}))
        await tab.until("control_response")
        await gateway.core.until(lambda: bool(agent.answers))
        assert agent.answers[0][1].updated_input == given


async def test_a_request_withdrawn_by_the_agent_disappears_from_every_client(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        agent = await asked(gateway, tab)
        await agent.sink.permission_cancelled(next(iter(gateway.core.loaded().core.state.pending)).request)
        assert await tab.until("control_cancel_request") == {"type": "control_cancel_request", "request_id": "R1"}
        assert tab.client.state.requests == {}


# --- control requests


def mode(name: Any, request: str = "m1") -> dict[str, Any]:
    request_ = {"subtype": "set_permission_mode", "mode": name}
    return {"type": "control_request", "request_id": request, "request": request_}


async def test_a_mode_change_is_sent_to_all_under_its_request_id(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab, gateway.tab() as other:
        await tab.say(**mode("plan"))
        wanted = {"subtype": "set_permission_mode", "mode": "plan"}
        for both in (tab, other):
            reply = await both.until("control_response")
            assert reply == {"type": "control_response", "request_id": "m1", "response": wanted}
        await tab.say(**mode("plan", "m2"))
        assert await tab.until("control_response") == {**reply, "request_id": "m2"}, (
            "its asker is answered all the same"
        )
        await level(other)
        assert len(other.frames) == 2
    assert gateway.core.loaded().core.state.settings.mode == "plan"
    assert gateway.core.kind.agents == [], "the mode waits for the first message"


@pytest.mark.parametrize("name", ["sudo", "", 7, None])
async def test_an_invalid_mode_is_rejected_to_its_sender_and_changes_nothing(
    gateway: MyLifeDbGateway, name: Any
) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab, gateway.tab() as other:
        await tab.say(**mode(name))
        shown = name if isinstance(name, str) else ""
        refused = {"type": "control_response", "request_id": "m1", "error": f"Invalid permission mode: {shown}"}
        assert await tab.until("control_response") == refused
        await level(other)
        assert len(other.frames) == 1
    assert gateway.core.loaded().core.state.settings.mode == "default"


async def test_an_interrupt_has_no_answer_but_its_effect(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    stop = {"type": "control_request", "request_id": "interrupt_1", "request": {"subtype": "interrupt"}}
    async with gateway.tab() as tab:
        agent = await prompt(gateway, tab, "long")
        await tab.until("user")
        await tab.say(**stop)
        await gateway.core.until(lambda: ("interrupt", None) in agent.requests)
        await level(tab)
        assert not [frame for frame in tab.frames if frame.get("request_id") == "interrupt_1"]
        await agent.result(subtype="error_during_execution", is_error=True)
        assert (await tab.until("result"))["subtype"] == "error_during_execution"


async def test_an_interrupt_without_a_running_process_is_an_error(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        stop = {"type": "control_request", "request_id": "interrupt_1", "request": {"subtype": "interrupt"}}
        await tab.say(**stop)
        cold = "Failed to interrupt session: Cannot interrupt: session not active (no running process)"
        assert await tab.until("error") == {"type": "error", "error": cold}


async def test_a_tool_result_goes_to_the_agent_unchanged(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        await tab.say(type="tool_result", tool_use_id="toolu_1", content="42")
        assert (await tab.until("error"))["error"].startswith("Failed to send tool result: ")
        agent = await prompt(gateway, tab, "go")
        await agent.call("toolu_1", "Ask")
        call = await tab.until("assistant")
        await tab.say(type="tool_result", tool_use_id="toolu_1", content="42")
        block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "42"}
        record = await tab.until(
            lambda frame: frame["type"] == "user" and isinstance(frame["message"]["content"], list)
        )
        assert record["message"]["content"] == [block]
        assert record["parentUuid"] == call["uuid"]
        await gateway.core.until(lambda: len(agent.written) == 2)
        assert b'"tool_result"' in agent.written[-1].raw


# --- typing and acks


@pytest.mark.rules("S000-228", "S000-229")
async def test_typing_is_shown_to_the_other_clients_by_name(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    token = await gateway.token("view", "chat", name="bob")
    async with gateway.tab() as ann, gateway.tab(token=token) as bob:
        await level(ann)
        await level(bob)
        for typing in (True, False):
            await bob.say(type="typing", isTyping=typing)
            assert await ann.until("typing") == {"type": "typing", "isTyping": typing, "name": "owner (bob)"}
        await level(bob)
        assert "typing" not in bob.kinds()


@pytest.mark.rules("S000-230")
async def test_a_message_with_an_id_is_acknowledged_with_its_uuid_and_accepted_once(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        await tab.say(type="user_message", content="hello", id="mine-1")
        ack = await tab.until("ack")
        assert ack["id"] == "mine-1"
        await gateway.core.kind.launched()
        await tab.say(type="user_message", content="hello", id="mine-1")
        assert await tab.until("ack") == ack, "a repeat is answered, and not sent again"
        await gateway.core.until(lambda: "user" in tab.kinds())
        await level(tab)
        sent = [frame for frame in tab.frames if frame["type"] == "user"]
        assert [frame["uuid"] for frame in sent] == [ack["uuid"]]


async def state_of(gateway: MyLifeDbGateway) -> str:
    async with gateway.http() as http:
        return str((await http.get(f"/api/claude/sessions/{SESSION}")).json()["sessionState"])


async def turn(gateway: MyLifeDbGateway, agent: FakeAgent, text: str) -> None:
    """Play one more turn, from its prompt to its end."""
    await gateway.core.send(text)
    await agent.prompted()
    await agent.text(f"to {text}")
    await agent.result()
    await gateway.core.until(lambda: gateway.core.loaded().core.interpreter.turn is None)


async def left(gateway: MyLifeDbGateway) -> None:
    """Wait until every client has left and the read state is stored."""
    await gateway.core.until(lambda: not gateway.core.registry.feed(SESSION).names)
    await gateway.book.tasks.wait()


async def test_turns_shown_on_an_open_socket_are_read_and_later_turns_are_not(gateway: MyLifeDbGateway) -> None:
    agent = await talked(gateway, 1)
    assert await state_of(gateway) == "unread"
    async with gateway.tab() as tab:
        await tab.until("result")
        assert await state_of(gateway) == "idle", "connecting shows everything"
        await turn(gateway, agent, "more")
        await tab.until("result")
        assert await state_of(gateway) == "idle", "and so does watching"
    await left(gateway)
    assert await state_of(gateway) == "idle", "it stays read when one leaves"
    await turn(gateway, agent, "unseen")
    assert await state_of(gateway) == "unread"
    assert (await gateway.http_get("/all"))["sessions"][0]["sessionState"] == "unread"


async def test_a_turn_that_only_another_user_watched_is_unread(gateway: MyLifeDbGateway) -> None:
    agent = await talked(gateway, 1)
    await gateway.credentials.users.add("bob", scopes=("view",))
    bob = (await gateway.credentials.create("token", "bob's phone", ("view",), user="bob")).secret
    await gateway.core.do(cmd.ShareSession(session=SESSION, user="bob"))
    async with gateway.tab(), gateway.tab(token=bob):
        pass
    await left(gateway)
    async with gateway.tab(token=bob) as theirs:
        await turn(gateway, agent, "for bob")
        await theirs.until(lambda frame: frame["type"] == "result" and len(theirs.uuids()) > 4)
        assert await state_of(gateway) == "unread"
        async with gateway.http(bob) as http:
            assert (await http.get(f"/api/claude/sessions/{SESSION}")).json()["sessionState"] == "idle"


async def test_a_running_turn_is_unread_at_its_end_if_the_client_has_left(gateway: MyLifeDbGateway) -> None:
    agent = await talked(gateway, 1)
    async with gateway.tab() as tab:
        await prompt(gateway, tab, "long")
    await left(gateway)
    await agent.text("done")
    await agent.result()
    await gateway.core.until(lambda: gateway.core.loaded().core.interpreter.turn is None)
    assert await state_of(gateway) == "unread"


@pytest.mark.rules("S000-230")
async def test_an_ack_marks_turns_read_only_up_to_its_record(gateway: MyLifeDbGateway) -> None:
    await talked(gateway, 2)
    async with gateway.tab() as tab:
        await tab.until("result")
        first = tab.frames[0]["uuid"]
        last = await tab.until("result")
        await requests_done(gateway)
        await gateway.core.store.documents.delete(SPACE, SESSION)
        for uuid, kept in ((first, None), (last["uuid"], 2)):
            await tab.say(type="ack", uuid=uuid)
            await level(tab)
            await requests_done(gateway)
            turns = await gateway.core.store.documents.get(SPACE, SESSION)
            assert (turns or {}).get("owner") == kept, "an old record leaves the newer ones unread"


async def requests_done(gateway: MyLifeDbGateway) -> None:
    """Wait until every dispatched request is done."""
    await gateway.core.until(lambda: not [task for task in gateway.app.dispatcher.tasks._tasks if not task.done()])


async def test_a_pending_request_is_unread_only_while_no_client_is_connected(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab() as tab:
        await asked(gateway, tab)
        assert await state_of(gateway) == "working"
    await gateway.core.until(lambda: not gateway.core.registry.feed(SESSION).names)
    assert await state_of(gateway) == "unread"


# --- state and pages


@pytest.mark.rules("S000-035")
async def test_the_true_state_is_sent_to_clients_that_ask_for_it(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab("?state=1") as tab, gateway.tab() as plain:
        assert await tab.until("session_state") == {"type": "session_state", "state": "idle"}
        agent = await prompt(gateway, tab, "hello")
        assert (await tab.until("session_state"))["state"] == "working"
        await agent.say(agent._assistant({"type": "thinking", "thinking": "Hm.", "signature": ""}))
        await tab.until("assistant")
        assert not tab.client.state.working, "the fold of the frames alone must guess"
        assert tab.client.session_state == "working", "and this is how it is"
        await agent.text("Done.")
        await agent.result()
        assert (await tab.until("session_state"))["state"] == "idle"
        await gateway.core.do(cmd.ArchiveSession(session=SESSION))
        assert (await tab.until("session_state"))["state"] == "archived"
        await plain.until("result")
        assert "session_state" not in plain.kinds()


async def test_a_message_brings_an_archived_session_back(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    await gateway.core.do(cmd.ArchiveSession(session=SESSION))
    async with gateway.tab() as tab:
        await prompt(gateway, tab, "hello")
        await gateway.core.until(lambda: not gateway.core.loaded().core.state.archived)


@pytest.mark.rules("S000-217", "S000-218")
async def test_a_long_session_opens_with_its_last_pages_and_the_others_are_fetched(
    gateway: MyLifeDbGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_ROWS", 10)
    await gateway.core.open()
    await gateway.core.send("count")
    agent = await gateway.core.kind.launched()
    await agent.prompted()
    for number in range(34):
        await agent.text(f"line {number}")
    async with gateway.tab() as tab:
        await tab.until(lambda frame: "line 33" in str(frame))
        everything = tab.frames
    async with gateway.tab("?pages=1") as tab:
        first = await tab.until("session_info")
        assert first == tab.frames[0] == {"type": "session_info", "totalPages": 4, "lowestBurstPage": 2}
        await tab.until(lambda frame: "line 33" in str(frame))
        assert tab.frames[1:] == everything[20:]
    async with gateway.http() as http:
        found: list[Any] = []
        for number in range(4):
            page = (await http.get(f"/api/claude/sessions/{SESSION}/messages?page={number}")).json()
            assert (page["page"], page["totalPages"], page["sealed"]) == (number, 4, number < 3)
            found += page["messages"]
        assert found == everything


async def test_the_open_page_has_the_message_that_is_being_written(gateway: MyLifeDbGateway) -> None:
    await gateway.core.open()
    async with gateway.tab("?pages=1") as tab:
        assert await tab.until("session_info") == {"type": "session_info", "totalPages": 1, "lowestBurstPage": 0}
        agent = await prompt(gateway, tab, "hello")
        await stream(agent, "Half ", "a ")
        await tab.until(lambda frame: "a " in str(frame.get("event")))
        async with gateway.http() as http:
            page = (await http.get(f"/api/claude/sessions/{SESSION}/messages?page=0")).json()
        assert page["messages"][-1]["event"]["delta"] == {"type": "text_delta", "text": "Half a "}
