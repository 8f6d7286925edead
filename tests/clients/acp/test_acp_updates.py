"""Events as updates: titles, kinds, diffs, results, plans, notices and the messages around them."""

from typing import Any

import msgspec
import pytest

from clients.acp.acp_rig import ConversationRig
from clients.acp.acp_schema import check_message, has_schema
from fairlead.clients.acp.encoder import AcpEncoder, OpenPrompt, SessionOpening
from fairlead.clients.acp.options import CurrentOptions, OfferedOptions, config_options, offered_modes
from fairlead.clients.acp.requests import answer_commands, request_id, split_id
from fairlead.clients.acp.tools import RAW_BYTES, TITLE_LENGTH, call_fields, plan_entries, result_fields, title_of
from fairlead.clients.acp.updates import EditorFeatures
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.content import TextBlock
from fairlead.model.gateway import Cursor
from fairlead.model.ids import CallId, EventId, MessageId, RequestId, SubagentId, TurnId
from fairlead.model.queries import SessionView
from fairlead.model.store import Summary
from fairlead.model.web.sockets import Subscribe
from fairlead_testing.acp_client import AcpEditor
from fairlead_testing.replay import SESSION, log_of, unframed
from golden.cases import GOLDEN, case_names, read_lines

Fields = dict[str, Any]
ALL = EditorFeatures(forms=True, notices=True, compaction=True, approves=True)
TURN = TurnId("t1")
TASK = SubagentId("c1")


def event(kind: type[Any], /, **fields: Any) -> Any:
    return kind(id=EventId("e"), at=1_768_797_915_012, **fields)


def sent(encoder: AcpEncoder, *events: ev.Event) -> list[Fields]:
    """The messages of a session with these events."""
    context, found = None, []
    for entry in log_of(events).entries:
        context, frames = encoder.step(context, SESSION, entry)
        found += [msgspec.json.decode(payload) for payload in unframed(frames)]
    return found


def updates(*events: ev.Event, features: EditorFeatures = ALL) -> list[Fields]:
    """The updates, without their kind of message."""
    messages = sent(AcpEncoder(features=features), *events)
    return [message["params"]["update"] for message in messages if message["method"] == "session/update"]


def called(call: str, name: str, subagent: Any = None, **given: Any) -> ev.ToolCalled:
    fields = {"call": CallId(call), "name": name, "input": given, "message": MessageId("m"), "subagent": subagent}
    return event(ev.ToolCalled, turn=TURN, **fields)  # type: ignore[no-any-return]


def opened() -> ev.SessionOpened:
    return event(ev.SessionOpened, cwd="/project", agent="demo")  # type: ignore[no-any-return]


# --- tools


@pytest.mark.parametrize(
    ("name", "given", "title", "kind"),
    [
        ("Bash", {"command": "ls -l", "description": "harmless"}, "ls -l", "execute"),
        ("Read", {"file_path": "a.py"}, "Read a.py", "read"),
        ("Write", {"file_path": "/project/src/a.py"}, "Write src/a.py", "edit"),
        ("Write", {"file_path": "/projects/a.py"}, "Write /projects/a.py", "edit"),
        ("Grep", {"pattern": "x", "path": "src"}, "Grep src", "search"),
        ("WebFetch", {"url": "https://example.org"}, "WebFetch https://example.org", "fetch"),
        ("Task", {"description": "look around", "prompt": "p"}, "look around", "think"),
        ("ExitPlanMode", {"plan": "1."}, "ExitPlanMode", "switch_mode"),
        ("mcp__x__y", {}, "mcp__x__y", "other"),
        ("", {}, "Tool", "other"),
        ("Bash", {"command": ["ls"]}, "Bash", "execute"),
    ],
)
def test_the_title_and_kind_of_a_call(name: str, given: Fields, title: str, kind: str) -> None:
    fields = call_fields(name, given, "/project")
    assert (fields["title"], fields["kind"]) == (title, kind)


def test_a_title_is_bounded() -> None:
    assert len(title_of("Bash", {"command": "x" * 10_000})) == TITLE_LENGTH


def test_paths_are_absolute_or_missing() -> None:
    assert call_fields("Read", {"file_path": "/etc/hosts"}, "/project")["locations"] == [{"path": "/etc/hosts"}]
    assert call_fields("Read", {"file_path": "a.py"}, "/project")["locations"] == [{"path": "/project/a.py"}]
    assert "locations" not in call_fields("Read", {"file_path": "a.py"}, "")
    assert "locations" not in call_fields("Read", {"file_path": 7}, "/project")


def test_edits_are_diffs() -> None:
    def diffs(name: str, **given: Any) -> Any:
        return call_fields(name, {"file_path": "/a", **given}, "")["content"]

    whole = {"type": "diff", "path": "/a", "newText": "new"}
    assert diffs("Write", content="new") == [whole]
    assert diffs("Edit", old_string="old", new_string="new") == [whole | {"oldText": "old"}]
    assert diffs("Edit", old_string=None, new_string=7) == [whole | {"newText": ""}]
    edits = [{"old_string": "a", "new_string": "b"}, 7, {"old_string": "c", "new_string": "d"}]
    assert [(diff["oldText"], diff["newText"]) for diff in diffs("MultiEdit", edits=edits)] == [("a", "b"), ("c", "d")]
    assert call_fields("NotebookEdit", {"notebook_path": "/a", "new_source": "new"}, "")["content"] == [whole]


def test_the_diff_of_an_edit_stays_unless_the_edit_failed() -> None:
    assert "content" not in result_fields("Edit", "edited", None, failed=False)
    assert result_fields("Edit", "no such text", None, failed=True)["content"][0]["content"]["text"] == "no such text"


def test_a_large_structured_result_is_left_out() -> None:
    small, large = {"stdout": "x"}, {"stdout": "x" * RAW_BYTES}
    assert result_fields("Bash", "x", small, failed=False)["rawOutput"] == small
    assert "rawOutput" not in result_fields("Bash", "x", large, failed=False)


def test_a_large_input_is_left_out_only_where_a_diff_shows_it() -> None:
    text = "x" * RAW_BYTES
    written = call_fields("Write", {"file_path": "/a", "content": text}, "")
    assert "rawInput" not in written and written["content"][0]["newText"] == text
    assert call_fields("mcp__x__y", {"text": text}, "")["rawInput"] == {"text": text}
    assert "rawInput" in call_fields("Write", {"file_path": "/a", "content": "small"}, "")


def test_todos_are_the_plan_and_no_call() -> None:
    todos = [{"content": "one", "status": "completed"}, {"content": "two", "status": "odd", "priority": "high"}, 7]
    ended = event(ev.ToolEnded, call=CallId("c"), name="TodoWrite", content="ok")
    (plan,) = updates(called("c", "TodoWrite", todos=todos), ended)
    assert plan["entries"] == [
        {"content": "one", "priority": "medium", "status": "completed"},
        {"content": "two", "priority": "high", "status": "pending"},
    ]
    assert plan_entries({"todos": "x"}) == []


def test_the_end_of_a_call_that_was_never_made_is_not_sent() -> None:
    assert updates(event(ev.ToolEnded, call=CallId("c"), status="interrupted", is_error=True)) == []


def test_the_call_of_a_question_shows_what_is_asked() -> None:
    questions = ({"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]}, {"question": "Why?"})
    asked = event(ev.QuestionAsked, request=RequestId("r"), call=CallId("c"), questions=questions)
    update = updates(called("c", "AskUserQuestion"), asked, features=EditorFeatures(approves=True))[-1]
    assert update["content"][0]["content"]["text"] == "Which?\n- a\n- b\n\nWhy?"


def test_calls_that_end_with_their_turn_have_failed() -> None:
    ended = event(ev.TurnEnded, turn=TURN, status="cancelled", closed=(CallId("c"), CallId("unknown")))
    assert updates(called("c", "Bash"), ended)[-1]["status"] == "failed"


# --- subagents


def test_a_subagents_text_is_shown_at_its_call_and_its_calls_name_it() -> None:
    found = updates(
        called("task", "Task", description="look"),
        event(ev.SubagentStarted, child=TASK, call=CallId("task")),
        event(ev.UserMessage, message=MessageId("p"), content=(TextBlock("Look."),), subagent=TASK),
        event(ev.TextDelta, message=MessageId("m2"), block=0, offset=0, text="I lo", subagent=TASK),
        event(ev.Text, message=MessageId("m2"), block=0, text="I look.", subagent=TASK),
        called("inner", "Bash", TASK, command="ls"),
        event(ev.Text, message=MessageId("m3"), block=0, text="Found.", subagent=TASK),
    )
    assert [update["sessionUpdate"] for update in found] == [
        *("tool_call", "tool_call_update", "tool_call", "tool_call_update")
    ]
    assert found[1]["content"][0]["content"]["text"] == "I look."
    assert found[2]["_meta"]["claudeCode"] == {"toolName": "Bash", "parentToolUseId": "task"}
    assert found[3]["content"][0]["content"]["text"] == "I look.\n\nFound."


def test_a_background_subagent_keeps_its_call_open_until_it_ends() -> None:
    found = updates(
        called("task", "Task", description="look"),
        event(ev.SubagentStarted, child=TASK, call=CallId("task"), background=True),
        event(ev.ToolEnded, call=CallId("task"), content="launched", background=True),
        event(ev.TurnEnded, turn=TURN, status="completed"),
        event(ev.Text, message=MessageId("m2"), block=0, text="Found.", subagent=TASK),
        event(ev.SubagentEnded, child=TASK, call=CallId("task"), summary="Two files."),
    )
    assert [update["status"] for update in found if "status" in update] == ["in_progress", "in_progress", "completed"]
    assert found[-1]["content"][0]["content"]["text"] == "Two files."


# --- messages around the updates


def test_the_opening_is_answered_after_its_last_entry_also_if_that_is_gone() -> None:
    events = (
        opened(),
        event(ev.Text, message=MessageId("m"), block=0, text="hi"),
        event(ev.AgentReady, agent_session=""),
    )
    for seq, place in ((2, 1), (3, 1)):
        answers = sent(AcpEncoder(opening=SessionOpening("id", seq, b'{"x":1}')), *events)
        assert answers[place] == {"jsonrpc": "2.0", "id": "id", "result": {"x": 1}}
    removed = [entry for entry in log_of(events).entries if entry.seq != 2]
    encoder, context, found = AcpEncoder(opening=SessionOpening("id", 2, b"{}")), None, b""
    for entry in removed:
        context, frames = encoder.step(context, SESSION, entry)
        found += frames
    assert b'"id":"id"' in found


def test_a_session_is_opened_at_its_last_entry_that_stays_in_the_log() -> None:
    """The head may be a delta, which is removed when its text is complete."""
    summary = Summary(session=SESSION, agent="demo", cwd="/project")
    rig = ConversationRig(view=SessionView(summary=summary, log_id="log", head=10, settings={"mode": "plan"}), last=7)
    rig.say({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}})
    for method, shown_after in (("load", 0), ("resume", 7)):
        rig.say({"jsonrpc": "2.0", "id": method, "method": f"session/{method}", "params": {"sessionId": SESSION}})
        subscription = rig.steps[-1]
        encoder = subscription.variant
        assert (encoder.opening.id, encoder.opening.seq, encoder.shown_after) == (method, 7, shown_after)
        assert subscription.cursor == Cursor(0, "log")
        assert msgspec.json.decode(encoder.opening.result)["modes"]["currentModeId"] == "plan"


def test_the_encoder_knows_a_prompt_before_the_log_has_it() -> None:
    view = SessionView(summary=Summary(session=SESSION, cwd="/project"), log_id="log", head=7)
    rig = ConversationRig(view=view, last=7)
    rig.say({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}})
    rig.say({"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": {"sessionId": SESSION}})
    prompt = {"sessionId": SESSION, "prompt": [{"type": "text", "text": "hi"}]}
    assert rig.say({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": prompt}) == []
    subscription, sending = rig.steps[-2:]
    assert isinstance(subscription, Subscribe) and subscription.keep and isinstance(sending, cmd.Send)
    encoder = subscription.variant
    assert isinstance(encoder, AcpEncoder) and encoder.prompts == (OpenPrompt(sending.message or "", 2),)


def test_notices_are_sent_live_and_only_to_clients_that_take_them() -> None:
    notice = event(ev.Notice, kind="api_retry", text="Trying again")
    limit = event(ev.RateLimit, info={"status": "rejected"})
    fine = event(ev.RateLimit, info={"status": "allowed"})
    error = event(ev.ErrorRaised, code="agent_missing", message="There is no agent.")
    died = event(ev.AgentExited, reason="crashed", expected=False)
    found = updates(notice, limit, fine, error, died)
    assert [update["severity"] for update in found] == ["info", "warning", "error", "error"]
    assert updates(notice, limit, error, died, features=EditorFeatures()) == []
    loading = AcpEncoder(features=ALL, opening=SessionOpening(1, 3, b"{}"))
    assert [message.get("id") for message in sent(loading, notice, limit, error)] == [1]


def test_a_compaction_begins_and_ends_once() -> None:
    phases = [event(ev.Compaction, phase=phase) for phase in ("started", "ended", "boundary")]
    found = updates(*phases)
    assert [update["status"] for update in found] == ["in_progress", "completed"]
    assert len({update["compactionId"] for update in found}) == 1
    assert updates(*phases, features=EditorFeatures()) == []


def test_a_fork_does_not_inherit_the_open_requests_of_its_parent() -> None:
    asked = event(ev.PermissionRequested, request=RequestId("r"), call=CallId("c"), tool="Bash", input={})
    forked = event(ev.SessionForked, parent=SESSION, seq=2)
    encoder = AcpEncoder(features=ALL, opening=SessionOpening(1, 3, b"{}"))
    assert [message.get("method") for message in sent(encoder, opened(), asked, forked)] == [None]
    assert len(sent(encoder, opened(), asked, opened())) == 2


def test_prompts_are_answered_by_the_end_of_their_turn_or_their_withdrawal() -> None:
    prompts = (OpenPrompt("a", 1), OpenPrompt("b", "two"))
    messages = sent(
        AcpEncoder(prompts=prompts),
        event(ev.UserMessage, message=MessageId("a"), content=(TextBlock("x"),), turn=TURN),
        event(ev.MessageQueued, message=MessageId("b"), content=(TextBlock("y"),)),
        event(ev.MessageCancelled, message=MessageId("b")),
        event(ev.TurnEnded, turn=TurnId("another"), status="completed"),
        event(ev.TurnEnded, turn=TURN, status="failed", reason="refusal"),
    )
    assert [(message["id"], message["result"]["stopReason"]) for message in messages] == [
        ("two", "cancelled"),
        (1, "refusal"),
    ]


def test_usage_is_sent_when_the_window_is_known() -> None:
    text = event(ev.Text, message=MessageId("m"), block=0, text="x", tokens=ev.TokenCount(input=10, output=5))
    ends = [
        event(ev.TurnEnded, turn=TURN, status="completed", cost_usd=0.5, usage={"opus": ev.ModelUsage(window=200)}),
        event(ev.TurnEnded, turn=TURN, status="completed", cost_usd=0.25),
    ]
    usage = [update for update in updates(text, *ends) if update["sessionUpdate"] == "usage_update"]
    assert [(update["used"], update["size"], update["cost"]["amount"]) for update in usage] == [(15, 200, 0.5)]


# --- answers


def test_only_an_option_of_the_card_is_an_answer() -> None:
    asked = event(ev.PermissionRequested, request=RequestId("r"), call=CallId("c"), tool="Bash", input={})
    plan = event(ev.PlanProposed, request=RequestId("r"), call=CallId("c"), plan="1.")

    def commands(request: Any, option: str) -> list[cmd.Command]:
        chosen = {"outcome": {"outcome": "selected", "optionId": option}}
        return [*answer_commands(SESSION, request, chosen)]

    assert [type(command) for command in commands(plan, "accept-edits")] == [cmd.AnswerPermission, cmd.SetMode]
    assert [type(command) for command in commands(asked, "allow")] == [cmd.AnswerPermission]
    for option in ("accept-edits", "always:0", "always:x", "answer:0", ""):
        assert commands(asked, option) == []


def test_the_name_of_a_request_is_read_back() -> None:
    name = request_id(SESSION, "a/b/c")
    assert split_id(name) == (SESSION, "a/b/c")
    for other in (None, 7, "", "x", f"{SESSION}", f"{SESSION}/", "nothing/r"):
        assert split_id(other) is None


# --- options


def test_options_show_values_that_another_client_chose() -> None:
    now = CurrentOptions("auto", "sonnet-9", 123)
    mode, model, thinking = config_options(OfferedOptions(("default",), ("opus",), thinking=True), now)
    assert (mode["currentValue"], mode["options"][-1]["value"]) == ("auto", "auto")
    assert [option["value"] for option in model["options"]] == ["default", "opus", "sonnet-9"]
    assert thinking["options"][-1]["value"] == thinking["currentValue"] == "123 tokens"


def test_modes_are_those_that_the_gateway_allows_and_the_agent_can() -> None:
    assert offered_modes(("default", "plan", "bypassPermissions"), ()) == ("default", "plan", "bypassPermissions")
    assert offered_modes(("default", "plan", "acceptEdits"), ("plan",)) == ("default", "acceptEdits")


# --- the schema


@pytest.mark.skipif(not has_schema(), reason="the schema is missing: `python -m tools.acp_agents sdk` fetches it")
def test_every_golden_message_is_valid_by_the_schema() -> None:
    files = [(case, path.name) for case in case_names("acp") for path in (GOLDEN / "acp" / case).glob("*.jsonl")]
    seen = set()
    for case, name in files:
        if name == "events.jsonl":
            continue
        for message in read_lines("acp", case, name):
            seen.add(check_message(message, {}))
    assert seen == {"session/update", "session/request_permission", "elicitation/create", "$/cancel_request"}


def test_the_reference_client_notices_a_call_without_its_beginning() -> None:
    editor = AcpEditor()
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "x", "status": "completed"}
    with pytest.raises(AssertionError, match="no call x"):
        editor.feed({"method": "session/update", "params": {"update": update}})
