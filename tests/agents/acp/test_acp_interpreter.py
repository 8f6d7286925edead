"""ACP's interpreter: blocks, calls, plans, reports, and messages that no agent should send."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agents.acp.acp_log import PROCESS, SESSION, AcpLog, asked
from fairlead.agents.acp.interpreter.interpreter import UPDATES, AcpInterpreter
from fairlead.model import events as ev
from fairlead.model.agents import Record
from fairlead.model.content import ImageBlock, TextBlock

ALLOW = [{"optionId": "once", "name": "Once", "kind": "allow_once"}]


def kinds(events: list[ev.Event]) -> list[str]:
    return [str(type(event).__struct_config__.tag) for event in events]


def request(log: AcpLog, number: int = 0, **call: Any) -> list[ev.Event]:
    params = {"toolCall": {"toolCallId": "c1", **call}, "options": ALLOW}
    return log.agent({"jsonrpc": "2.0", "id": number, "method": "session/request_permission", "params": params})


def test_a_run_of_chunks_is_one_block_and_another_kind_begins_another() -> None:
    log = AcpLog()
    log.prompt()
    log.chunk("Let me ", "agent_thought_chunk")
    log.chunk("think.", "agent_thought_chunk")
    log.chunk("It is ")
    assert kinds(log.chunk("so.")) == ["text.delta"]
    log.answered()
    thought, text = [event for event in log.events.values() if isinstance(event, ev.Text | ev.Thinking)]
    assert (thought.text, thought.block, text.text, text.block) == ("Let me think.", 0, "It is so.", 1)
    assert thought.message == text.message
    assert [end for _, end in text.marks] == [6, 9]


def test_a_text_after_a_tool_is_another_message() -> None:
    log = AcpLog()
    log.prompt()
    log.chunk("First.")
    log.update("tool_call", toolCallId="c1", kind="read", status="completed", locations=[{"path": "/srv/project/a"}])
    log.chunk("Second.")
    log.answered()
    first, second = [event for event in log.events.values() if isinstance(event, ev.Text)]
    (called,) = [event for event in log.events.values() if isinstance(event, ev.ToolCalled)]
    assert first.message == called.message != second.message


def test_a_plan_is_a_list_of_tasks_and_is_shown_when_it_changes() -> None:
    log = AcpLog()
    log.prompt()
    entries = [{"content": "Look", "priority": "high", "status": "in_progress"}]
    assert kinds(log.update("plan", entries=entries)) == ["tool.called", "tool.ended"]
    assert kinds(log.update("plan", entries=entries)) == ["record"]
    (called,) = [event for event in log.events.values() if isinstance(event, ev.ToolCalled)]
    assert called.name == "TodoWrite"
    assert called.input == {"todos": [{"content": "Look", "status": "in_progress", "activeForm": "Look"}]}


def test_a_denied_call_ends_when_the_agent_goes_on() -> None:
    log = AcpLog()
    log.prompt()
    log.deny(asked(request(log, kind="execute", rawInput={"command": "rm x"})), "Not that.")
    assert kinds(log.chunk("Then not.")) == ["tool.ended", "text.delta"]
    (ended,) = [event for event in log.events.values() if isinstance(event, ev.ToolEnded)]
    assert (ended.content, ended.is_error, ended.status) == ("Not that.", True, "failed")


def test_an_uncertain_call_is_marked() -> None:
    log = AcpLog()
    log.prompt()
    assert not asked(request(log, kind="execute", title="ls -l")).certain
    assert asked(request(log, 1, kind="execute", rawInput={"command": "ls"})).certain
    assert not asked(request(log, 2, kind="execute", rawInput={"command": "ls", "cwd": "/elsewhere"})).certain


def test_requests_of_two_processes_have_different_ids() -> None:
    log = AcpLog()
    log.prompt()
    assert asked(request(log, kind="read")).request == f"{PROCESS}:0"


def test_the_exit_ends_block_call_and_turn() -> None:
    log = AcpLog()
    log.prompt()
    log.update("tool_call", toolCallId="c1", kind="execute", status="in_progress", rawInput={"command": "sleep 9"})
    log.chunk("Working")
    events = log.add(log.interpreter.exited("it crashed", "x1"))
    assert kinds(events) == ["text", "tool.ended", "turn.ended"]
    ended = events[-1]
    assert isinstance(ended, ev.TurnEnded)
    assert (ended.status, ended.reason, ended.text, ended.closed) == ("failed", "it crashed", "Working", ("c1",))
    assert log.interpreter.turn is None and not log.interpreter.busy


def test_reports_outside_the_conversation() -> None:
    log = AcpLog()
    assert kinds(log.update("available_commands_update", availableCommands=[{"name": "init"}])) == ["agent.ready"]
    assert kinds(log.update("available_commands_update", availableCommands=[{"name": "init"}])) == ["record"]
    options = [{"id": "m", "category": "model", "currentValue": "big"}]
    (ready,) = log.update("config_option_update", configOptions=options)
    assert isinstance(ready, ev.AgentReady) and (ready.model, ready.commands) == ("big", ("init",))
    (notice,) = log.update("current_mode_update", currentModeId="yolo")
    assert isinstance(notice, ev.Notice) and "yolo" in notice.text
    assert kinds(log.update("compaction_update", status="in_progress")) == ["compaction"]
    assert kinds(log.update("something_new", field=1)) == ["record"]


def test_cost_and_tokens_of_a_turn() -> None:
    log = AcpLog()
    for total, message in ((0.5, "m1"), (0.75, "m2")):
        log.prompt(message)
        log.update("usage_update", used=10, size=1000, cost={"amount": total, "currency": "USD"})
        log.answered(message, usage={"inputTokens": 7, "outputTokens": 3})
    ends = [event for event in log.events.values() if isinstance(event, ev.TurnEnded)]
    assert [end.cost_usd for end in ends] == [0.5, 0.25]
    assert ends[0].usage["m"] == ev.ModelUsage(input=7, output=3, window=1000)


def test_a_prompt_is_logged_as_it_was_sent() -> None:
    log = AcpLog()
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    params = {"sessionId": "s1", "prompt": [{"type": "text", "text": "look"}, image]}
    line = json.dumps({"jsonrpc": "2.0", "id": "m1", "method": "session/prompt", "params": params})
    _, message = log.gateway(line.encode())
    assert isinstance(message, ev.UserMessage)
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert message.content == (TextBlock("look"), ImageBlock(source))


def test_markers_and_prompts_from_the_agent_are_not_taken_for_ours() -> None:
    log = AcpLog()
    log.agent(b'{"fairlead":"ready","process":"p9","agent_session":"other"}')
    log.agent({"jsonrpc": "2.0", "id": "m9", "method": "session/prompt", "params": {"prompt": []}})
    assert log.interpreter.turn is None
    assert {event.known for event in log.events.values() if isinstance(event, ev.RecordStored)} == {False}


_CALL = {"sessionUpdate": "tool_call", "toolCallId": "c1"}

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_updates = st.sampled_from([*UPDATES, "x"])
_fields = st.dictionaries(
    st.sampled_from(["content", "toolCallId", "kind", "status", "rawInput", "locations", "entries", "title"]),
    _json | st.sampled_from(["c1", "c2", "execute", "edit", "completed", "failed", "pending"]),
    max_size=5,
)
_messages = st.one_of(
    st.tuples(_updates, _fields).map(
        lambda given: {"method": "session/update", "params": {"update": {"sessionUpdate": given[0], **given[1]}}}
    ),
    st.fixed_dictionaries(
        {"id": st.integers(0, 5), "method": st.sampled_from(["session/request_permission", "elicitation/create", "x"])},
        optional={"params": _json | st.fixed_dictionaries({"toolCall": _fields})},
    ),
    st.fixed_dictionaries({"id": st.sampled_from(["m0", "m1", "m2", 3])}, optional={"result": _json, "error": _json}),
    st.dictionaries(st.text(max_size=5), _json, max_size=3),
)


@example(["prompt", {"method": "session/update", "params": {"update": {**_CALL, "status": ["completed"]}}}])
@given(st.lists(_messages | st.just("prompt") | st.just("restore"), max_size=12))
def test_any_messages_give_a_log_in_which_everything_ends(messages: list[Any]) -> None:
    """Whatever the agent sends, also over a restart of the interpreter: ids are unique, and calls and turns end."""
    log = AcpLog()
    for number, message in enumerate(messages):
        if message == "prompt":
            if log.interpreter.turn is None:
                log.prompt(f"m{number}")
        elif message == "restore":
            restored = AcpInterpreter(SESSION)
            restored.restore(log.interpreter.snapshot())
            assert restored.snapshot() == log.interpreter.snapshot()
            log.interpreter = restored
        else:
            log.agent(json.dumps({"jsonrpc": "2.0", **message}).encode())
    log.add(log.interpreter.exited("gone", "end"))
    events = list(log.events.values())
    started = [event.turn for event in events if isinstance(event, ev.TurnStarted)]
    assert started == [event.turn for event in events if isinstance(event, ev.TurnEnded)]
    called = [event.call for event in events if isinstance(event, ev.ToolCalled)]
    assert sorted(called) == sorted(event.call for event in events if isinstance(event, ev.ToolEnded))
    assert not [event for event in events if isinstance(event, ev.TextDelta | ev.ThinkingDelta)]
    for event in events:
        assert ev.decode(msgspec.json.encode(event)) == event


@pytest.mark.parametrize("depth", [100, 500, 900, 100_000])
def test_content_of_any_depth_is_read_or_kept(depth: int) -> None:
    log = AcpLog()
    log.prompt()
    content = b'{"content":' * depth + b'{"type":"text","text":"deep"}' + b"}" * depth
    update = b'{"sessionUpdate":"tool_call","toolCallId":"c1","kind":"other","content":%b}' % content
    log.agent(b'{"jsonrpc":"2.0","method":"session/update","params":{"update":%b}}' % update)
    assert log.interpreter.busy


@given(st.binary(max_size=60))
def test_any_line_is_kept(line: bytes) -> None:
    log = AcpLog()
    log.prompt()
    log.add(log.interpreter.step(Record(line, "agent")))
    assert log.interpreter.busy
