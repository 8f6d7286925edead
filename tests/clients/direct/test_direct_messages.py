"""Messages of a direct client, decoded into commands: every shape in the seed, and arbitrary input."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.clients.direct.conversation import perform
from fairlead.clients.direct.messages import DENIED, ControlQuestion, SentCommand, read
from fairlead.model import commands as cmd
from fairlead.model.content import TextBlock
from fairlead.model.errors import AgentRefused, Busy, FairleadError
from fairlead.model.ids import MessageId, RequestId, SessionId

SESSION = SessionId("11111111-1111-4111-8111-111111111111")
UUID = "22222222-2222-4222-8222-222222222222"


def read_one(message: Any) -> Any:
    (one,) = read(SESSION, json.dumps(message).encode())
    return one


@pytest.mark.rules("S004-312")
def test_a_prompt_in_one_frame_without_a_newline_is_a_whole_message() -> None:
    prompt = {
        "type": "user",
        "message": {"role": "user", "content": "hello"},
        "parent_tool_use_id": None,
        "session_id": "",
    }
    content = (TextBlock("hello"),)
    steer, send = cmd.Steer(session=SESSION, content=content), cmd.Send(session=SESSION, content=content)
    assert read_one(prompt) == SentCommand(steer, send)
    assert read_one({**prompt, "uuid": UUID}).other == cmd.Send(
        session=SESSION, content=content, message=MessageId(UUID)
    )
    assert read_one({**prompt, "uuid": "no uuid"}).other == send


def test_a_frame_may_have_several_lines_and_lines_that_are_not_messages_are_ignored() -> None:
    lines = [b'{"type":"keep_alive"}', b"nonsense", b"", b"[1]", b'{"type":"user"}', b'{"type":"user","message":{}}']
    prompt = b'{"type":"user","message":{"role":"user","content":[{"type":"text","text":"a"}]}}'
    found = read(SESSION, b"\n".join([*lines, prompt, prompt, b"\xff\xfe"]))
    assert [sent.command for sent in found] == [cmd.Steer(session=SESSION, content=(TextBlock("a"),))] * 2


def answer(response: Any, **more: Any) -> list[Any]:
    inner = {"subtype": "success", "request_id": "r1", "response": response, **more}
    return read(SESSION, json.dumps({"type": "control_response", "response": inner}).encode())


@pytest.mark.rules("S004-313")
def test_permissions_are_answered() -> None:
    (allowed,) = answer({"behavior": "allow", "updatedInput": {"command": "ls"}})
    wanted = cmd.AnswerPermission(
        session=SESSION, request=RequestId("r1"), behavior="allow", updated_input={"command": "ls"}
    )
    assert allowed.command == wanted
    (denied,) = answer({"behavior": "deny", "message": "no", "interrupt": True})
    assert denied.command == cmd.AnswerPermission(
        session=SESSION, request=RequestId("r1"), behavior="deny", message="no", interrupt=True
    )
    (failed,) = answer(None, subtype="error", error="broken")
    assert (failed.command.behavior, failed.command.message) == ("deny", "broken")
    (odd,) = answer(None)
    assert (odd.command.behavior, odd.command.message) == ("deny", DENIED)
    assert answer({"behavior": "perhaps"}) == []


def test_rules_and_modes_of_an_answer_apply_to_the_session() -> None:
    updates = [
        {
            "type": "addRules",
            "behavior": "allow",
            "destination": "userSettings",
            "rules": [{"toolName": "Bash", "ruleContent": "ls *"}, {"toolName": "Read"}, {"toolName": 7}, "x"],
        },
        {"type": "addRules", "behavior": "deny", "rules": [{"toolName": "Edit"}]},
        {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
        {"type": "addDirectories", "directories": ["/"]},
        "nonsense",
    ]
    first, second = answer({"behavior": "allow", "updatedInput": {}, "updatedPermissions": updates})
    assert first.command.remember == ("Bash(ls *)", "Read")
    assert second.command == cmd.SetMode(session=SESSION, mode="acceptEdits")


REQUESTS = [
    ({"subtype": "interrupt"}, cmd.Interrupt(session=SESSION)),
    ({"subtype": "set_permission_mode", "mode": "plan"}, cmd.SetMode(session=SESSION, mode="plan")),
    ({"subtype": "set_model", "model": "haiku"}, cmd.SetModel(session=SESSION, model="haiku")),
    ({"subtype": "set_model", "model": None}, cmd.SetModel(session=SESSION, model="")),
    ({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 9}, cmd.SetThinking(session=SESSION, budget=9)),
    (
        {"subtype": "rewind_files", "user_message_id": UUID, "dry_run": True},
        cmd.Rewind(session=SESSION, message=MessageId(UUID), dry_run=True),
    ),
    ({"subtype": "mcp_status", "a": 1}, cmd.Control(session=SESSION, subtype="mcp_status", fields={"a": 1})),
    ({"subtype": "initialize", "hooks": {"PreToolUse": []}}, None),
]


@pytest.mark.rules("S004-314")
@pytest.mark.parametrize(("request_", "command"), REQUESTS)
def test_control_requests_become_commands(request_: Any, command: cmd.Command | None) -> None:
    asked = read_one({"type": "control_request", "request_id": "q", "request": request_})
    assert asked == ControlQuestion("q", request_["subtype"], command)


@pytest.mark.parametrize(
    "request_",
    [
        {"subtype": "set_permission_mode"},
        {"subtype": "set_model", "model": 7},
        {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": True},
        {"subtype": "rewind_files"},
    ],
)
def test_an_incomplete_control_request_gets_an_error(request_: Any) -> None:
    asked = read_one({"type": "control_request", "request_id": "q", "request": request_})
    assert asked.command is None
    assert asked.error


def test_environment_variables_have_their_own_message() -> None:
    sent = read_one({"type": "update_environment_variables", "variables": {"A": "b"}})
    assert sent.command == cmd.SetVariables(session=SESSION, variables={"A": "b"})
    assert read(SESSION, b'{"type":"update_environment_variables","variables":{"A":1}}') == []


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(["user", "control_request", "control_response", "update_environment_variables", "keep_alive"])


@given(
    st.fixed_dictionaries(
        {"type": KINDS},
        optional=dict.fromkeys(("message", "request", "request_id", "response", "uuid", "variables"), ANYTHING),
    )
)
def test_any_message_is_decoded_or_ignored(message: Any) -> None:
    for one in read(SESSION, json.dumps(message).encode()):
        assert isinstance(one, SentCommand | ControlQuestion)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_ignored(data: bytes) -> None:
    read(SESSION, data)


@pytest.mark.parametrize("error", [Busy("No turn runs."), AgentRefused("This agent accepts none.")])
def test_a_message_that_cannot_go_into_a_turn_begins_one(error: FairleadError) -> None:
    (message,) = read(SESSION, b'{"type":"user","message":{"content":"hi"}}')
    flow = perform(message)
    assert isinstance(next(flow), cmd.Steer)
    assert isinstance(flow.throw(error), cmd.Send)
    with pytest.raises(StopIteration) as ended:
        flow.send(cmd.Reply(session=SESSION))
    assert ended.value.value == [], "the client gets no error"
