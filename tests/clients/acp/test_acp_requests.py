"""Permissions, questions and plans over /acp: one answer counts, and the cards of the other clients are withdrawn."""

from typing import Any

import pytest

from clients.acp.acp_harness import EVERYTHING, AcpHarness, Editor
from clients.acp.test_acp_sessions import running
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.ids import RequestId, SessionId
from sessions.harness import BOB, FakeAgent

QUESTION = {"question": "Which?", "header": "One", "options": [{"label": "a"}, {"label": "b"}], "multiSelect": False}
SEVERAL = {"question": "Which ones?", "header": "Two", "options": [{"label": "c"}, {"label": "d"}], "multiSelect": True}


async def asking(acp: AcpHarness, editor: Editor, command: str = "make") -> tuple[SessionId, FakeAgent, int]:
    """A turn that waits for the answer to a permission request."""
    session, agent, prompt = await running(acp, editor)
    await agent.call("toolu_1", command=command)
    await agent.ask("req-1", "toolu_1", command=command)
    await editor.request(session)
    return session, agent, prompt


def withdrawn(editor: Editor) -> list[str]:
    """The requests that were withdrawn from this editor."""
    cancelled = [message for message in editor.received if message.get("method") == "$/cancel_request"]
    return [message["params"]["requestId"].partition("/")[2] for message in cancelled]


def decisions(agent: FakeAgent) -> list[tuple[str, str]]:
    return [(request, decision.behavior) for request, decision in agent.answers]


async def resolved(acp: AcpHarness, session: SessionId) -> list[ev.PermissionResolved]:
    return [event for event in await acp.core.log(session) if isinstance(event, ev.PermissionResolved)]


async def test_a_permission_is_shown_with_what_the_call_does(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        session, agent, _ = await running(acp, editor)
        await agent.call("toolu_1", "Edit", file_path="a.txt", old_string="x", new_string="y")
        await agent.ask("req-1", "toolu_1", "Edit", file_path="a.txt", old_string="x", new_string="y")
        params = (await editor.request(session))["params"]
        path = str(acp.core.cwd / "a.txt")
        assert params["toolCall"]["content"] == [{"type": "diff", "path": path, "oldText": "x", "newText": "y"}]
        assert params["toolCall"]["toolCallId"] == "toolu_1" and params["toolCall"]["status"] == "pending"
        assert editor.of(session).calls["toolu_1"]["status"] == "pending"
        assert [option["kind"] for option in params["options"]] == ["allow_once", "allow_always", "reject_once"]


async def test_a_long_command_is_shown_whole(acp: AcpHarness) -> None:
    command = "make " + "x" * 600 + " && rm -r ."
    async with acp.editor() as editor:
        session, _, _ = await asking(acp, editor, command)
        call = (await editor.request(session))["params"]["toolCall"]
        assert call["content"] == [{"type": "content", "content": {"type": "text", "text": command}}]


@pytest.mark.parametrize(("option", "behavior"), [("allow", "allow"), ("deny", "deny")])
async def test_an_answer_decides_and_is_not_withdrawn(acp: AcpHarness, option: str, behavior: str) -> None:
    async with acp.editor() as editor:
        session, agent, prompt = await asking(acp, editor)
        await editor.choose(session, option)
        await acp.core.until(lambda: decisions(agent) == [("req-1", behavior)])
        status = "in_progress" if behavior == "allow" else "failed"
        await editor.until_status(session, "toolu_1", status)
        await agent.result()
        await editor.answer_to(prompt)
        assert withdrawn(editor) == []


async def test_always_allow_remembers_the_rule_that_the_option_names(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        session, agent, _ = await asking(acp, editor)
        options = (await editor.request(session))["params"]["options"]
        assert options[1] == {"optionId": "always:0", "name": "Always allow Bash(make)", "kind": "allow_always"}
        await editor.choose(session, "always:0")
        await acp.core.until(lambda: decisions(agent) == [("req-1", "allow")])
        assert acp.core.state(session).rules == ("Bash(make)",)


async def test_two_editors_and_a_phone_exactly_one_answer_counts(acp: AcpHarness) -> None:
    async with acp.editor() as one, acp.editor() as two:
        session, agent, prompt = await asking(acp, one)
        await two.load(session)
        cards = [await editor.request(session) for editor in (one, two)]
        assert cards[0] == cards[1], "the card is raised again after the load"
        await acp.core.do(cmd.AnswerPermission(session=session, request=RequestId("req-1"), behavior="allow"), who=BOB)
        for editor in (one, two):
            await editor.until(lambda editor=editor: withdrawn(editor) == ["req-1"])  # type: ignore[misc]
            assert editor.of(session).requests == {}
            await editor.until_status(session, "toolu_1", "in_progress")
        # Late answers, as editors give them: they change nothing and nobody gets an error.
        late = {"outcome": {"outcome": "selected", "optionId": "deny"}}
        await one.raw({"jsonrpc": "2.0", "id": cards[0]["id"], "result": late})
        await two.raw({"jsonrpc": "2.0", "id": cards[0]["id"], "error": {"code": -32800, "message": "cancelled"}})
        await agent.result_of("toolu_1")
        await agent.result()
        assert await one.answer_to(prompt) == {"stopReason": "end_turn"}
        assert decisions(agent) == [("req-1", "allow")]
        (answer,) = await resolved(acp, session)
        assert (answer.behavior, answer.by) == ("allow", "bob")


async def test_two_editors_answer_at_once(acp: AcpHarness) -> None:
    async with acp.editor() as one, acp.editor() as two:
        session, agent, prompt = await asking(acp, one)
        await two.load(session)
        await two.request(session)
        await one.choose(session, "allow")
        await two.choose(session, "deny")
        await acp.core.until(lambda: len(agent.answers) == 1)
        (answer,) = await resolved(acp, session)
        assert decisions(agent) == [("req-1", answer.behavior)]
        for editor in (one, two):
            await editor.settled(session)
            assert withdrawn(editor) == [], "both have answered their card"
        await agent.result()
        assert await one.answer_to(prompt) == {"stopReason": "end_turn"}


async def test_a_dismissed_card_leaves_the_request_open_for_others(acp: AcpHarness) -> None:
    async with acp.editor() as one, acp.editor() as two:
        session, agent, _ = await asking(acp, one)
        card = await one.request(session)
        for answer in (
            {"result": {"outcome": {"outcome": "cancelled"}}},
            {"error": {"code": -32601, "message": "no cards here"}},
            {"result": {"outcome": {"outcome": "selected", "optionId": "always:7"}}},
            {"result": {"outcome": {"outcome": "selected", "optionId": ["allow"]}}},
            {"result": {"action": "accept", "content": {}}},
            {"result": None},
        ):
            await one.raw({"jsonrpc": "2.0", "id": card["id"], **answer})
        await one.settled(session)
        await two.resume(session)
        await two.choose(session, "allow")
        await acp.core.until(lambda: decisions(agent) == [("req-1", "allow")])


async def test_a_settled_request_is_not_raised_in_a_replay(acp: AcpHarness) -> None:
    async with acp.editor() as one, acp.editor() as two:
        session, agent, _ = await asking(acp, one)
        await one.choose(session, "allow")
        await acp.core.until(lambda: decisions(agent) == [("req-1", "allow")])
        await agent.result_of("toolu_1")
        await two.load(session)
        assert two.of(session).requests == {} and withdrawn(two) == []
        assert two.of(session).calls["toolu_1"]["status"] == "completed"


async def test_an_interrupt_withdraws_the_card(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        session, agent, prompt = await asking(acp, editor)
        await editor.notify("session/cancel", sessionId=session)
        await acp.core.until(lambda: ("interrupt", None) in agent.requests)
        await agent.sink.permission_cancelled(RequestId("req-1"))
        await agent.result(subtype="error_during_execution", is_error=True)
        assert await editor.answer_to(prompt) == {"stopReason": "cancelled"}
        assert withdrawn(editor) == ["req-1"] and editor.of(session).requests == {}


# --- questions


async def questioned(acp: AcpHarness, editor: Editor, *questions: dict[str, Any]) -> tuple[SessionId, FakeAgent]:
    session, agent, _ = await running(acp, editor)
    await agent.call("toolu_1", "AskUserQuestion", questions=list(questions))
    await agent.ask("req-1", "toolu_1", "AskUserQuestion", questions=list(questions))
    return session, agent


async def test_questions_are_a_form_for_a_client_with_forms(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        session, agent = await questioned(acp, editor, QUESTION, SEVERAL)
        form = await editor.request(session)
        assert form["method"] == "elicitation/create"
        fields = form["params"]["requestedSchema"]["properties"]
        assert fields["question0"]["oneOf"] == [{"const": "a", "title": "a"}, {"const": "b", "title": "b"}]
        assert fields["question1"]["items"] == {"anyOf": [{"const": "c", "title": "c"}, {"const": "d", "title": "d"}]}
        content = {"question0": "b", "question1": ["c", "d"]}
        await editor.raw({"jsonrpc": "2.0", "id": form["id"], "result": {"action": "accept", "content": content}})
        await acp.core.until(lambda: len(agent.answers) == 1)
        answers = {"Which?": "b", "Which ones?": "c, d"}
        ((_, decision),) = agent.answers
        assert decision.behavior == "allow"
        assert decision.updated_input == {"questions": [QUESTION, SEVERAL], "answers": answers}


async def test_a_form_that_is_declined_denies_and_one_that_is_cancelled_stays_open(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        session, agent = await questioned(acp, editor, QUESTION)
        form = await editor.request(session)
        await editor.raw({"jsonrpc": "2.0", "id": form["id"], "result": {"action": "cancel"}})
        await editor.raw({"jsonrpc": "2.0", "id": form["id"], "result": {"action": "accept", "content": {"x": 1}}})
        await editor.settled(session)
        assert agent.answers == []
        await editor.raw({"jsonrpc": "2.0", "id": form["id"], "result": {"action": "decline"}})
        await acp.core.until(lambda: decisions(agent) == [("req-1", "deny")])


async def test_a_single_choice_is_a_card_for_a_client_without_forms(acp: AcpHarness) -> None:
    async with acp.editor({}) as editor:
        session, agent = await questioned(acp, editor, QUESTION)
        card = await editor.request(session)
        assert [option["name"] for option in card["params"]["options"]] == ["a", "b", "Do not answer"]
        await editor.choose(session, "answer:1")
        await acp.core.until(lambda: len(agent.answers) == 1)
        ((_, decision),) = agent.answers
        assert decision.updated_input is not None and decision.updated_input["answers"] == {"Which?": "b"}


async def test_several_questions_wait_for_a_client_that_can_show_them(acp: AcpHarness) -> None:
    async with acp.editor({}) as plain, acp.editor(EVERYTHING) as other:
        session, agent = await questioned(acp, plain, QUESTION, SEVERAL)
        await plain.until_status(session, "toolu_1", "pending")
        await other.load(session)
        form = await other.request(session)
        content = {"question0": "a", "question1": ["c"]}
        await other.raw({"jsonrpc": "2.0", "id": form["id"], "result": {"action": "accept", "content": content}})
        await acp.core.until(lambda: decisions(agent) == [("req-1", "allow")])
        await plain.until_status(session, "toolu_1", "in_progress")
        assert plain.of(session).requests == {} and withdrawn(plain) == []


async def test_the_next_prompt_answers_questions_that_a_client_cannot_show(acp: AcpHarness) -> None:
    async with acp.editor({}) as editor:
        session, agent, first = await running(acp, editor)
        questions = [QUESTION, SEVERAL]
        await agent.call("toolu_1", "AskUserQuestion", questions=questions)
        await agent.ask("req-1", "toolu_1", "AskUserQuestion", questions=questions)
        await editor.until_status(session, "toolu_1", "pending")
        second = await editor.prompt(session, "a, and the rest as you like")
        await acp.core.until(lambda: len(agent.answers) == 1)
        ((_, decision),) = agent.answers
        assert decision.updated_input is not None
        words = "a, and the rest as you like"
        assert decision.updated_input["answers"] == {"Which?": words, "Which ones?": words}
        await editor.settled(session)
        assert acp.core.state(session).queue == () and not editor.is_answered(second)
        await agent.result()
        for prompt in (first, second):
            assert await editor.answer_to(prompt) == {"stopReason": "end_turn"}


# --- plans


@pytest.mark.parametrize(
    ("option", "behavior", "mode"),
    [("accept-edits", "allow", "acceptEdits"), ("allow", "allow", "plan"), ("deny", "deny", "plan")],
)
async def test_a_plan_is_approved_with_or_without_edits(acp: AcpHarness, option: str, behavior: str, mode: str) -> None:
    async with acp.editor() as editor:
        session = await acp.new(editor)
        await editor.call("session/set_mode", sessionId=session, modeId="plan")
        await editor.prompt(session, "plan it")
        agent = await acp.agent()
        await agent.call("toolu_1", "ExitPlanMode", plan="1. do it")
        await agent.ask("req-1", "toolu_1", "ExitPlanMode", plan="1. do it")
        card = (await editor.request(session))["params"]
        assert card["toolCall"]["kind"] == "switch_mode"
        assert card["toolCall"]["content"][0]["content"]["text"] == "1. do it"
        await editor.choose(session, option)
        await acp.core.until(lambda: decisions(agent) == [("req-1", behavior)])
        await acp.core.until(lambda: acp.core.state(session).settings.mode == mode)
