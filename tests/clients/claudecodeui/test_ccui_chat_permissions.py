"""Permissions over /ws: requests, answers, reports to all sockets, needed scopes, remembered rules and their effect."""

from typing import Any

import pytest

from clients.claudecodeui.chat_harness import ChatHarness, Peer
from fairlead.model import commands as cmd
from fairlead.model.agents import Decision
from fairlead.model.ids import SessionId
from fairlead.sessions.permissions.requests import MOST_REQUESTED_RULES
from sessions.harness import BOB, FakeAgent


async def asking(chats: ChatHarness, peer: Peer, tool: str = "Bash", **given: Any) -> tuple[SessionId, FakeAgent, str]:
    """A run that waits for the answer to a permission request."""
    name = await chats.session()
    await peer.send(name, "go")
    agent = await chats.agent()
    await agent.call("toolu_1", tool, **(given or {"command": "make"}))
    await agent.ask("req-1", "toolu_1", tool, **(given or {"command": "make"}))
    asked = await peer.until("permission_request")
    return name, agent, asked["requestId"]


def answered(agent: FakeAgent, request: str) -> bool:
    return any(name == request for name, _ in agent.answers)


def answer(agent: FakeAgent, request: str) -> Decision:
    (found,) = [decision for name, decision in agent.answers if name == request]
    return found


async def only_in_the_sessions_folder(agent: FakeAgent, tool: str) -> None:
    async def verdict(path: str) -> str:
        return (await agent.check("toolu_9", tool, file_path=path, content="x")).behavior

    assert await verdict("notes.txt") == await verdict("deep/down/notes.txt") == "allow"
    outside = ("/etc/hosts", "../notes.txt", "~/notes.txt", ".git/hooks/post-commit", ".claude/settings.json", ".envrc")
    assert {path: await verdict(path) for path in outside} == dict.fromkeys(outside, "ask")


@pytest.mark.rules("S003-049", "S003-069")
@pytest.mark.rules("S003-026", "S003-027")
async def test_an_approval_is_requested_from_all_answered_once_and_reported_to_all(chats: ChatHarness) -> None:
    async with chats.peer() as one, chats.peer() as two:
        name, agent, request = await asking(chats, one)
        asked = one.run()[-1]
        assert (asked["toolName"], asked["input"]) == ("Bash", {"command": "make"})
        ack = await two.subscribe(name)
        (pending,) = ack["pendingPermissions"]
        assert pending == {
            "requestId": request,
            "toolName": "Bash",
            "input": {"command": "make"},
            "sessionId": name,
            "receivedAt": asked["timestamp"],
        }
        assert request in two.client.sessions[name].requests
        await two.say("chat.permission-response", requestId=request, allow=True, rememberEntry=None)
        for peer in (one, two):
            settled = await peer.until("permission_cancelled")
            assert (settled["requestId"], settled["reason"], settled["allow"], settled["by"]) == (
                request,
                "answered",
                True,
                "owner (ann)",
            )
            assert peer.client.sessions[name].requests == {}
        await chats.core.until(lambda: answered(agent, "req-1"))
        assert answer(agent, "req-1").behavior == "allow"
        # The sender of a late answer learns that the request is cancelled; its run continues.
        await one.say("chat.permission-response", requestId=request, allow=False)
        late = await one.until(lambda frame: frame["kind"] == "permission_cancelled" and "seq" not in frame)
        assert (late["requestId"], late["reason"]) == (request, "cancelled")
        assert [decision.behavior for _, decision in agent.answers] == ["allow"], "the first answer wins"
        assert (await two.subscribe(name))["pendingPermissions"] == []


@pytest.mark.rules("S003-049")
async def test_a_denial_with_a_message_and_a_changed_input_reach_the_agent(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        _, agent, request = await asking(chats, peer)
        await peer.say("chat.permission-response", requestId=request, allow=0, message="not today")
        await chats.core.until(lambda: answered(agent, "req-1"))
        assert (answer(agent, "req-1").behavior, answer(agent, "req-1").message) == ("deny", "not today")
        await agent.call("toolu_2", command="ls")
        await agent.ask("req-2", "toolu_2", command="ls")
        await peer.until("permission_request")
        changed = {"command": "ls -a"}
        await peer.say("chat.permission-response", requestId="req-2", allow=True, updatedInput=changed)
        await chats.core.until(lambda: answered(agent, "req-2"))
        assert answer(agent, "req-2").updated_input == changed


async def test_a_question_is_answered_with_the_chosen_answers(chats: ChatHarness) -> None:
    questions = [{"question": "Which?", "options": []}]
    async with chats.peer() as peer:
        _, agent, request = await asking(chats, peer, "AskUserQuestion", questions=questions)
        assert peer.run()[-1]["toolName"] == "AskUserQuestion"
        given = {"questions": questions, "answers": {"Which?": "this"}}
        await peer.say("chat.permission-response", requestId=request, allow=True, updatedInput=given)
        await chats.core.until(lambda: answered(agent, "req-1"))
        assert answer(agent, "req-1").updated_input == given


async def test_an_unanswered_request_waits_indefinitely(chats: ChatHarness) -> None:
    """The original silently denies it after 55 s."""
    async with chats.peer() as peer:
        name, agent, request = await asking(chats, peer)
        await chats.core.clock.advance(24 * 3600)
        assert [pending["requestId"] for pending in (await peer.subscribe(name))["pendingPermissions"]] == [request]
        assert agent.answers == []


@pytest.mark.parametrize("given", [{}, {"requestId": 7}, {"requestId": ""}])
async def test_an_answer_without_a_request_id_is_ignored(chats: ChatHarness, given: dict[str, Any]) -> None:
    async with chats.peer() as peer:
        await peer.say("chat.permission-response", allow=True, **given)
        await peer.settled()
        assert peer.kinds() == ["protocol_error"]


async def test_an_answer_to_an_unknown_request_removes_the_card(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        await peer.say("chat.permission-response", requestId="nothing", allow=True)
        cancelled = await peer.until("permission_cancelled")
        assert (cancelled["requestId"], cancelled["reason"], cancelled["sessionId"]) == ("nothing", "cancelled", None)


async def test_answering_needs_the_scope_approve(chats: ChatHarness) -> None:
    """The original does not check who answers."""
    token = await chats.gateway.token("view", "chat")
    async with chats.peer() as peer, chats.peer(token=token) as other:
        _, agent, request = await asking(chats, peer)
        await other.say("chat.permission-response", requestId=request, allow=True)
        error = await other.until("protocol_error")
        assert error["code"] == "INTERNAL_ERROR" and "scope approve" in error["error"]
        assert agent.answers == []


@pytest.mark.rules("S003-049")
async def test_a_remembered_rule_does_not_allow_commands_chained_to_its_command(chats: ChatHarness) -> None:
    """In the original `Bash(echo:*)` allowed `echo hi; touch chained.txt` without a request."""
    async with chats.peer() as peer:
        _, agent, request = await asking(chats, peer, command="echo one")
        entry = "Bash(echo:*)"
        await peer.say("chat.permission-response", requestId=request, allow=True, rememberEntry=entry)
        await peer.until("permission_cancelled")
        await chats.core.until(lambda: answered(agent, "req-1"))
        assert (await agent.check("toolu_2", command="echo two")).behavior == "allow"
        for command in ("echo hi; touch chained.txt", "echo $(touch x)", "echo a > /etc/b", "echo a && rm b"):
            assert (await agent.check("toolu_3", command=command)).behavior == "ask", command


async def test_an_answer_stays_valid_when_its_rule_cannot_be_remembered(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        name, agent, request = await asking(chats, peer)
        await peer.say("chat.permission-response", requestId=request, allow=True, rememberEntry="((")
        await peer.until("permission_cancelled")
        await chats.core.until(lambda: answered(agent, "req-1"))
        assert answer(agent, "req-1").behavior == "allow"
        assert chats.core.state(name).rules == ()
        (note,) = peer.client.sessions[name].notes
        start = "Your answer applies only this time and is not remembered. The rule '((' does not begin with"
        assert note.startswith(start)


async def test_a_file_tool_remembered_by_name_is_allowed_only_in_the_sessions_folder(chats: ChatHarness) -> None:
    """The app's *Allow & remember* sends the bare name of every tool but Bash."""
    token = await chats.gateway.token("view", "chat", "approve")
    async with chats.peer(token=token) as peer:
        name, agent, request = await asking(chats, peer, "Write", file_path="notes.txt", content="hello")
        await peer.say("chat.permission-response", requestId=request, allow=True, rememberEntry="Write")
        await peer.until("permission_cancelled")
        await chats.core.until(lambda: answered(agent, "req-1"))
        assert chats.core.state(name).rules == ("Write(./**)",)
        assert peer.client.sessions[name].notes == []
        await only_in_the_sessions_folder(agent, "Write")


async def test_a_request_is_cancelled_when_its_run_ends(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        name, agent, _ = await asking(chats, peer)
        await peer.say("chat.abort", sessionId=name)
        await chats.core.until(lambda: ("interrupt", None) in agent.requests)
        await agent.result(subtype="error_during_execution", is_error=True, result=None)
        end = await peer.until("complete")
        assert end["aborted"] is True
        assert (await peer.subscribe(name))["pendingPermissions"] == []
        assert peer.run()[-1] == end
        assert peer.client.sessions[name].requests == {}


async def test_rules_of_the_app_apply_to_the_session_while_the_app_sends_them(chats: ChatHarness) -> None:
    """The app sends its whole list with each prompt; rules that are no longer in it no longer apply."""
    name = await chats.session()
    token = await chats.gateway.token("view", "chat", "approve")
    async with chats.peer(token=token) as peer:
        tools = {"allowedTools": ["Bash(git log:*)", "((", 7, "Bash", "Bash(make:*)"], "disallowedTools": ["WebFetch"]}
        await peer.send(name, "go", {"toolsSettings": tools})
        agent = await chats.agent()
        assert (chats.core.state(name).allow, chats.core.state(name).deny) == (
            ("Bash(git log:*)", "Bash(make:*)"),
            ("WebFetch",),
        )
        assert (await agent.check("t1", command="git log -3")).behavior == "allow"
        assert (await agent.check("t2", command="git log; rm x")).behavior == "ask"
        assert (await agent.check("t3", "WebFetch", url="https://example.org")).behavior == "deny"
        await agent.result()
        await peer.until("complete")
        await peer.send(name, "go on", {"toolsSettings": {"allowedTools": ["Bash(make:*)"]}})
        await agent.prompted()
        assert (await agent.check("t4", command="git log")).behavior == "ask"
        assert (await agent.check("t5", command="make")).behavior == "allow"
        assert (await agent.check("t6", "WebFetch", url="https://example.org")).behavior == "ask"


async def test_without_the_scope_approve_rules_are_ignored_and_the_prompt_is_sent(chats: ChatHarness) -> None:
    name = await chats.session()
    token = await chats.gateway.token("view", "chat")
    async with chats.peer(token=token) as peer:
        await peer.send(name, "go", {"toolsSettings": {"allowedTools": ["Bash(make:*)"], "disallowedTools": []}})
        agent = await chats.agent()
        assert chats.core.state(name).allow == ()
        assert (await agent.check("t1", command="make")).behavior == "ask"
        await agent.result()
        await peer.until("complete")
        (note,) = peer.client.sessions[name].notes
        assert "Bash(make:*): " in note and "scope approve" in note


async def test_a_file_tool_allowed_by_name_in_the_app_is_allowed_only_in_the_sessions_folder(
    chats: ChatHarness,
) -> None:
    """The app's list of tools contains bare names."""
    name = await chats.session()
    token = await chats.gateway.token("view", "chat", "approve")
    async with chats.peer(token=token) as peer:
        await peer.send(name, "go", {"toolsSettings": {"allowedTools": ["Write"], "disallowedTools": []}})
        agent = await chats.agent()
        assert chats.core.state(name).allow == ("Write(./**)",)
        await only_in_the_sessions_folder(agent, "Write")
        await agent.result()
        await peer.until("complete")
        assert peer.client.sessions[name].notes == []


async def test_rejected_tool_permissions_are_explained_once(chats: ChatHarness) -> None:
    name = await chats.session()
    token = await chats.gateway.token("view", "chat", "approve")
    async with chats.peer(token=token) as peer:
        wide = {"toolsSettings": {"allowedTools": ["Bash", "Write"], "disallowedTools": []}}
        for _ in range(2):
            await peer.send(name, "go", wide)
            agent = await chats.agent()
            await agent.result()
            await peer.until("complete")
        shown = peer.client.sessions[name]
        (note,) = shown.notes
        assert note == (
            "These tool permissions of your settings are not applied:\n"
            "Bash: would allow every command: name one, or let an admin set it."
        )
        assert shown.errors == [], "the app would take the run for ended"
        many = {"toolsSettings": {"allowedTools": [f"Bash(({number}" for number in range(30)]}}
        await peer.send(name, "go", many)
        agent = await chats.agent()
        await agent.result()
        await peer.until("complete")
        assert shown.notes[1].endswith("And 20 more.")


async def test_rejected_and_narrowed_rules_are_reported(chats: ChatHarness) -> None:
    name = await chats.session()
    many = tuple(f"Bash(make {number}:*)" for number in range(MOST_REQUESTED_RULES + 1))
    reply = await chats.core.do(cmd.SetRules(session=name, allow=("Bash", "Bash(ls:*)"), deny=many), BOB)
    assert reply.data == {
        "refused": {
            "Bash": "would allow every command: name one, or let an admin set it",
            many[-1]: "only the first 100 rules of a kind are taken",
        }
    }
    narrowed = await chats.core.do(cmd.SetRules(session=name, allow=("Write", "Bash(ls:*)"), deny=many[:-1]), BOB)
    assert narrowed.data == {"narrowed": {"Write": "Write(./**)"}}
    await chats.core.do(cmd.SetRules(session=name, allow=("Bash(ls:*)",), deny=many[:-1]), BOB)
    before = await chats.core.kinds(name)
    await chats.core.do(cmd.SetRules(session=name, allow=("Bash(ls:*)",), deny=many[:-1]), BOB)
    assert await chats.core.kinds(name) == before, "what is so already is not told again"
