"""Permissions in the core: decided once, with the decider's name, and sent to the agent after they are in the log."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.agents import Decision, Exit, ToolCheck
from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, NotAllowed, NotFound, Stale
from fairlead.model.ids import CallId, RequestId
from fairlead.model.policy import BadRule, Behavior, parse_rule
from sessions.harness import ANN, BOB, SESSION, CoreHarness, FakeAgent

R1 = RequestId("r1")


def answer(behavior: Literal["allow", "deny"] = "allow", request: str = "r1", **fields: Any) -> cmd.AnswerPermission:
    return cmd.AnswerPermission(session=SESSION, request=RequestId(request), behavior=behavior, **fields)


async def asking(harness: CoreHarness, command: str = "touch x") -> FakeAgent:
    agent = await harness.working("one")
    await agent.call("c1", command=command)
    await agent.ask("r1", "c1", command=command)
    return agent


async def resolved(harness: CoreHarness) -> list[ev.PermissionResolved]:
    return [event for event in await harness.log() if isinstance(event, ev.PermissionResolved)]


async def cancelled(harness: CoreHarness) -> list[tuple[str, str]]:
    return [(event.request, event.reason) for event in await harness.log() if isinstance(event, ev.PermissionCancelled)]


async def test_a_request_waits_for_a_person_and_the_answer_reaches_the_agent(harness: CoreHarness) -> None:
    agent = await asking(harness)
    assert harness.state().phase == "waiting"
    assert agent.answers == []
    asked = next(event for event in await harness.log() if isinstance(event, ev.PermissionRequested))
    assert asked.suggestions == ("Bash(touch x)",), "what an always-allow would remember, by our own policy"
    await harness.do(answer(), BOB)
    assert agent.answers == [("r1", Decision("allow", updated_input={"command": "touch x"}, call=CallId("c1")))]
    (event,) = await resolved(harness)
    assert (event.behavior, event.how, event.by, event.asked) == ("allow", "person", "bob", True)


def answer_by_request(request: str = "r1") -> cmd.AnswerPermission:
    return cmd.AnswerPermission(request=RequestId(request), behavior="allow")


async def test_an_answer_needs_only_its_request_and_reads_no_list(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await asking(harness)

    async def must_not_list(*wanted: object) -> None:
        raise AssertionError("the list was read")

    monkeypatch.setattr(harness.store, "sessions", must_not_list)
    reply = await harness.do(answer_by_request(), BOB)
    assert reply.session == SESSION
    assert [(request, decision.behavior) for request, decision in agent.answers] == [("r1", "allow")]
    for request in ("r1", "never"):
        with pytest.raises(NotFound, match="pending request"):
            await harness.do(answer_by_request(request), BOB)


async def test_a_request_of_a_hidden_session_is_refused_like_an_unknown_one(harness: CoreHarness) -> None:
    agent = await asking(harness)
    eve = Identity("cred-eve", "eve", "eve", frozenset({"view", "chat", "approve"}))
    refused = []
    for request in ("r1", "never"):
        with pytest.raises(NotFound) as error:
            await harness.do(answer_by_request(request), eve)
        refused.append((error.value.message.replace(request, "?"), {**error.value.data, "given": "?"}))
    assert refused[0] == refused[1]
    for scopes in ({"view", "chat"}, {"approve"}):
        with pytest.raises(NotAllowed):
            await harness.do(answer_by_request(), msgspec.structs.replace(BOB, scopes=frozenset(scopes)))
    assert agent.answers == []
    assert harness.state().phase == "waiting"


async def test_the_first_answer_wins_and_the_second_gets_the_first_deciders_name(harness: CoreHarness) -> None:
    agent = await asking(harness)
    replies = await asyncio.gather(
        harness.do(answer("allow"), ANN), harness.do(answer("deny"), BOB), return_exceptions=True
    )
    late = [reply for reply in replies if isinstance(reply, Stale)]
    assert len(late) == 1
    assert late[0].data["by"] in ("ann", "bob")
    assert len(agent.answers) == 1
    assert len(await resolved(harness)) == 1
    with pytest.raises(NotFound):
        await harness.do(answer(request="never"))


async def test_a_denial_carries_a_message_to_the_model(harness: CoreHarness) -> None:
    agent = await asking(harness)
    await harness.do(answer("deny", message="not today", interrupt=True))
    assert agent.answers[0][1].message == "not today"
    assert agent.answers[0][1].interrupt
    agent.answers.clear()
    await agent.ask("r2", "c2", command="touch y")
    await harness.do(answer("deny", "r2"))
    assert agent.answers[0][1].message == "ann denied this."


async def test_a_changed_input_is_logged_next_to_the_old_one(harness: CoreHarness) -> None:
    agent = await asking(harness)
    await harness.do(answer(updated_input={"command": "touch y"}))
    (event,) = await resolved(harness)
    assert (event.input, event.updated_input) == ({"command": "touch x"}, {"command": "touch y"})
    assert agent.answers[0][1].updated_input == {"command": "touch y"}


async def test_a_changed_input_is_checked_like_a_new_call(tmp_path: Path) -> None:
    harness = await CoreHarness(tmp_path, rules=(parse_rule("Bash(rm:*)", Behavior.DENY, "settings"),)).start()
    agent = await asking(harness)
    with pytest.raises(NotAllowed):
        await harness.do(answer(updated_input={"command": "rm -rf ."}))
    assert agent.answers == []
    assert harness.state().phase == "waiting"
    await harness.stop()


async def test_a_remembered_rule_answers_the_next_request(harness: CoreHarness) -> None:
    agent = await asking(harness)
    await harness.do(answer(remember=("Bash(touch:*)",)))
    assert harness.state().rules == ("Bash(touch:*)",)
    await agent.call("c2", command="touch y")
    await agent.ask("r2", "c2", command="touch y")
    assert [request for request, _ in agent.answers] == ["r1", "r2"]
    event = (await resolved(harness))[-1]
    assert (event.how, event.rule, event.behavior) == ("rule", "Bash(touch:*)", "allow")
    await agent.ask("r3", "c3", command="touch y; rm z")
    assert harness.state().phase == "waiting"


@pytest.mark.parametrize("rule", ["Bash", "not a rule(", "Bash(*:*)"])
async def test_a_bad_or_too_wide_rule_is_refused_and_the_request_stays_open(harness: CoreHarness, rule: str) -> None:
    await asking(harness)
    with pytest.raises(BadRule):
        await harness.do(answer(remember=(rule,)), BOB)
    assert harness.state().phase == "waiting"


async def test_a_question_is_answered_with_answers(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    questions = [{"question": "Which?", "options": [{"label": "Red"}]}]
    await agent.call("c1", "AskUserQuestion", questions=questions)
    await agent.ask("r1", "c1", "AskUserQuestion", questions=questions)
    assert harness.state().phase == "waiting"
    await harness.do(answer(answers={"Which?": "Red"}))
    assert agent.answers[0][1].updated_input == {"questions": questions, "answers": {"Which?": "Red"}}


async def test_answers_inside_the_changed_input_are_completed_by_the_question(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    questions = [{"question": "Which?", "options": [{"label": "Red"}]}]
    await agent.call("c1", "AskUserQuestion", questions=questions)
    await agent.ask("r1", "c1", "AskUserQuestion", questions=questions)
    await harness.do(answer(updated_input={"answers": {"Which?": "Red"}}))
    assert agent.answers[0][1].updated_input == {"questions": questions, "answers": {"Which?": "Red"}}


async def test_only_questions_take_answers(harness: CoreHarness) -> None:
    await asking(harness)
    with pytest.raises(BadRequest):
        await harness.do(answer(answers={"x": "y"}))


async def test_a_tool_that_was_used_without_asking_is_an_error_if_a_rule_denies_it(tmp_path: Path) -> None:
    rules = (parse_rule("Bash(rm:*)", Behavior.DENY, "settings"), parse_rule("Bash(ls:*)", Behavior.ALLOW, "settings"))
    harness = await CoreHarness(tmp_path, rules=rules).start()
    agent = await harness.working("one")
    for number, command in enumerate(("rm x", "ls", "touch x")):
        await agent.sink.check(ToolCheck(CallId(f"c{number}"), "Bash", {"command": command}, used=True))
    assert await resolved(harness) == []
    (error,) = [event for event in await harness.log() if isinstance(event, ev.ErrorRaised)]
    assert (error.code, error.data["call"]) == ("not_allowed", "c0")
    assert "used Bash without asking" in error.message
    await harness.stop()


async def test_the_policy_decides_before_the_agents_own_rules(tmp_path: Path) -> None:
    rules = (parse_rule("Bash(rm:*)", Behavior.DENY, "settings"), parse_rule("Bash(ls:*)", Behavior.ALLOW, "settings"))
    harness = await CoreHarness(tmp_path, rules=rules).start()
    agent = await harness.working("one")
    denied = await agent.check("c1", command="rm x")
    allowed = await agent.check("c2", command="ls")
    open_ = await agent.check("c3", command="touch x")
    assert [verdict.behavior for verdict in (denied, allowed, open_)] == ["deny", "allow", "ask"]
    events = await resolved(harness)
    assert [(event.call, event.behavior, event.rule, event.asked) for event in events] == [
        ("c1", "deny", "Bash(rm:*)", False),
        ("c2", "allow", "Bash(ls:*)", False),
    ]
    await agent.check("c4", "Read", file_path=str(harness.cwd / "a"))
    assert len(await resolved(harness)) == 2, "what is allowed anyway is not worth a line"
    await harness.stop()


async def test_modes_are_enforced_by_the_gateway(harness: CoreHarness) -> None:
    agent = await harness.working("one")
    await harness.do(cmd.SetMode(session=SESSION, mode="acceptEdits"))
    edit = await agent.check("c1", "Write", file_path=str(harness.cwd / "a"), content="x")
    shell = await agent.check("c2", command="touch x")
    assert (edit.behavior, edit.by, shell.behavior) == ("allow", "mode", "ask")
    await harness.do(cmd.SetMode(session=SESSION, mode="dontAsk"))
    assert (await agent.check("c3", command="touch x")).behavior == "deny"


async def test_a_request_that_the_agent_withdraws_is_cancelled(harness: CoreHarness) -> None:
    agent = await asking(harness)
    await agent.sink.permission_cancelled(R1)
    await agent.sink.permission_cancelled(R1)
    assert await cancelled(harness) == [("r1", "the agent withdrew it")]
    with pytest.raises(Stale):
        await harness.do(answer())


async def test_a_tool_result_settles_its_request(harness: CoreHarness) -> None:
    agent = await asking(harness)
    await agent.result_of("c1")
    assert await cancelled(harness) == [("r1", "the tool has ended")]


async def test_the_end_of_the_turn_settles_open_requests(harness: CoreHarness) -> None:
    agent = await asking(harness)
    await agent.result()
    assert [request for request, _ in await cancelled(harness)] == ["r1"]
    assert harness.state().phase == "idle"


@pytest.mark.rules("S004-236")
async def test_an_agent_that_dies_settles_its_requests(harness: CoreHarness) -> None:
    agent = await asking(harness)
    await agent.die(Exit(signal=9))
    assert await cancelled(harness) == [("r1", "the agent has exited")]


async def test_an_answer_that_never_reached_the_agent_is_logged_as_cancelled(harness: CoreHarness) -> None:
    agent = await asking(harness)
    agent.gone = True
    await harness.do(answer())
    assert await cancelled(harness) == [("r1", "the agent ended before it received the answer")]
    agent.gone = False
    await agent.die(Exit(signal=9))


async def test_a_repeated_answer_with_a_key_is_answered_from_the_log(harness: CoreHarness) -> None:
    agent = await asking(harness)
    first = await harness.do(answer(key="k"))
    again = await harness.do(answer(key="k"))
    assert (again.seq, again.repeated) == (first.seq, True)
    assert len(agent.answers) == 1


async def test_a_session_reads_without_asking_only_in_its_own_folders(harness: CoreHarness) -> None:
    """The gateway's roots limit where a session may be opened; they give no access to files next to it."""
    agent = await harness.working("one")
    (harness.folder / "neighbour").mkdir()
    secret = str(harness.folder / "neighbour" / "secret")
    assert (await agent.check("c1", "Read", file_path=str(harness.cwd / "a"))).behavior == "allow"
    assert (await agent.check("c2", "Read", file_path=secret)).behavior == "ask"
    settings = cmd.Settings(directories=(str(harness.folder / "neighbour"),))
    await harness.do(cmd.Configure(session=SESSION, settings=settings))
    assert (await agent.check("c3", "Read", file_path=secret)).behavior == "allow"


async def test_an_answer_decides_its_request_and_its_rules_decide_the_requests_they_cover(harness: CoreHarness) -> None:
    agent = await asking(harness, "git tag v1")
    for number, line in enumerate(("touch x", "git tag v2", "git tag v3; touch y", "git tag -d v1"), 2):
        await agent.call(f"c{number}", command=line)
        await agent.ask(f"r{number}", f"c{number}", command=line)
    await harness.do(answer(remember=("Bash(git tag:*)",)), BOB)
    assert [request for request, _ in agent.answers] == ["r1", "r3"]
    assert [(event.request, event.how, event.by) for event in await resolved(harness)] == [
        ("r1", "person", "bob"),
        ("r3", "rule", ""),
    ]
    await harness.do(answer(request="r2"), BOB)
    assert [request for request, _ in agent.answers] == ["r1", "r3", "r2"], "without a rule nothing else is settled"
