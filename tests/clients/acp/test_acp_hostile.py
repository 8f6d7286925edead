"""Clients of /acp that send junk, too much, or what their scopes do not allow."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clients.acp.acp_harness import AcpHarness, CallRefused, open_acp
from clients.acp.acp_rig import ConversationRig
from clients.acp.test_acp_requests import asking, decisions
from fairlead.clients.acp import conversation, params, wire
from fairlead.model import events as ev
from fairlead.server.limits import ServerLimits

JUNK: list[tuple[Any, int]] = [
    ("{", -32700),
    ("\u0000", -32700),
    ("[" * 100_000, -32700),
    ("[]", -32600),
    ('[{"jsonrpc":"2.0","id":1,"method":"initialize"}]', -32600),
    ("null", -32600),
    ('"text"', -32600),
    ({}, -32600),
    ({"id": 1}, -32600),
    ({"id": True, "method": "initialize"}, -32600),
    ({"id": 1.5, "method": "initialize"}, -32600),
    ({"id": {"a": 1}, "method": "initialize"}, -32600),
    ({"id": "x" * 1000, "method": "initialize"}, -32600),
    ({"id": 1, "method": 7}, -32600),
    ({"id": 1, "method": "initialize", "params": [1]}, -32602),
    ({"id": 1, "method": "initialize", "params": {}}, -32602),
    ({"id": 1, "method": "initialize", "params": {"protocolVersion": "one"}}, -32602),
    ({"id": 1, "method": "fs/read_text_file"}, -32601),
    ({"id": 1, "method": "authenticate", "params": {"methodId": "x"}}, -32601),
    ({"id": 1, "method": "session/new", "params": {"cwd": 1, "mcpServers": []}}, -32602),
    ({"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": [1]}}, -32602),
    ({"id": 1, "method": "session/load", "params": {"sessionId": "not-a-uuid"}}, -32602),
    ({"id": 1, "method": "session/load", "params": {"sessionId": "5e551011-0000-4000-8000-000000000000"}}, -32002),
    ({"id": 1, "method": "session/prompt", "params": {"sessionId": "5e551011-0000-4000-8000-000000000000"}}, -32002),
    ({"id": 1, "method": "session/list", "params": {"cursor": 7}}, -32602),
]


async def test_junk_gets_an_error_and_the_socket_lives_on(acp: AcpHarness) -> None:
    async with acp.editor() as editor:
        for message, code in JUNK:
            count = len(editor.received)
            with pytest.MonkeyPatch.context() as patch:
                # The ids of junk are not those of calls.
                patch.setattr(editor, "_take", editor.received.append)
                await editor.raw(message)
                await editor.until(lambda count=count: len(editor.received) > count)  # type: ignore[misc]
            assert editor.received[-1]["error"]["code"] == code, message
        await editor.raw(b"\xff\x00 binary frames are ignored")
        for quiet in (
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "nothing"}},
            {"jsonrpc": "2.0", "method": "session/cancel"},
            {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": {"a": 1}}},
            {"jsonrpc": "2.0", "method": "_unknown/notification"},
            {"jsonrpc": "2.0", "id": "unknown/request", "result": {}},
            {"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "x"}},
        ):
            await editor.raw(quiet)
        count = len(editor.received)
        assert (await editor.call("session/list"))["sessions"] == []
        assert len(editor.received) == count + 1


async def test_the_first_call_is_initialize(acp: AcpHarness) -> None:
    async with acp.editor(start=False) as editor:
        with pytest.raises(CallRefused, match="initialize"):
            await editor.call("session/list")
        answer = await editor.initialize({"elicitation": "yes", "session": 7, "fs": None})
        assert answer["protocolVersion"] == 1
        assert (await editor.call("session/list"))["sessions"] == []


async def test_calls_above_the_rate_limit_get_an_error_each(tmp_path: Any) -> None:
    async with open_acp(tmp_path, ServerLimits(commands_per_s=1)) as acp, acp.editor(start=False) as editor:
        await editor.initialize()
        numbers = [await editor.start("session/list") for _ in range(20)]
        outcomes = []
        for number in numbers:
            try:
                await editor.answer_to(number)
            except CallRefused as error:
                outcomes.append(error.error["data"]["code"])
        assert "too_many" in outcomes


# --- scopes


async def test_a_viewer_reads_and_changes_nothing(acp: AcpHarness) -> None:
    token = await acp.gateway.token("view")
    async with acp.editor() as owner, acp.editor(token=token, start=False) as viewer:
        capabilities = (await viewer.initialize())["agentCapabilities"]["sessionCapabilities"]
        assert "delete" not in capabilities
        session, agent, _ = await asking(acp, owner)
        card = await owner.request(session)
        answer = await viewer.load(session)
        assert [mode["id"] for mode in answer["modes"]["availableModes"]] == ["default"]
        assert viewer.of(session).calls["toolu_1"]["status"] == "pending"
        assert viewer.of(session).requests == {}, "a card that it may not answer"
        before = await acp.core.log(session)
        for method, more in (
            ("session/new", {"cwd": str(acp.core.cwd), "mcpServers": []}),
            ("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}),
            ("session/set_mode", {"sessionId": session, "modeId": "plan"}),
            ("session/set_config_option", {"sessionId": session, "configId": "mode", "value": "plan"}),
            ("session/set_config_option", {"sessionId": session, "configId": "model", "value": "x"}),
            ("session/delete", {"sessionId": session}),
        ):
            with pytest.raises(CallRefused) as error:
                await viewer.call(method, **more)
            assert (error.value.error["code"], error.value.error["data"]["code"]) == (-32000, "not_allowed")
        await viewer.notify("session/cancel", sessionId=session)
        outcome = {"outcome": {"outcome": "selected", "optionId": "allow"}}
        await viewer.raw({"jsonrpc": "2.0", "id": card["id"], "result": outcome})
        await viewer.settled(session)
        assert len((await viewer.call("session/list"))["sessions"]) == 1
        assert await acp.core.log(session) == before and agent.answers == [] and agent.requests == []


async def test_chat_without_approve_sends_prompts_and_decides_nothing(acp: AcpHarness) -> None:
    token = await acp.gateway.token("view", "chat")
    async with acp.editor() as owner, acp.editor(token=token) as talker:
        session, agent, prompt = await asking(acp, owner)
        card = await owner.request(session)
        await talker.load(session)
        await talker.prompt(session, "and then this")
        await acp.core.until(lambda: len(acp.core.state(session).queue) == 1)
        outcome = {"outcome": {"outcome": "selected", "optionId": "allow"}}
        await talker.raw({"jsonrpc": "2.0", "id": card["id"], "result": outcome})
        with pytest.raises(CallRefused):
            await talker.call("session/set_mode", sessionId=session, modeId="acceptEdits")
        assert agent.answers == []
        await owner.choose(session, "deny")
        await acp.core.until(lambda: decisions(agent) == [("req-1", "deny")])
        assert not owner.is_answered(prompt)


async def test_another_users_session_does_not_exist(acp: AcpHarness) -> None:
    async with acp.editor() as owner:
        session, _, _ = await asking(acp, owner)
        card = await owner.request(session)
        credentials = acp.gateway.credentials
        await credentials.users.add("eve")
        stranger = (await credentials.create("token", "x", ("view", "chat", "approve"), user="eve")).secret
        async with acp.editor(token=stranger) as editor:
            assert (await editor.call("session/list"))["sessions"] == []
            for method in ("session/load", "session/resume", "session/delete"):
                with pytest.raises(CallRefused) as error:
                    await editor.call(method, sessionId=session, cwd="/", mcpServers=[])
                assert error.value.error["code"] == -32002
            outcome = {"outcome": {"outcome": "selected", "optionId": "allow"}}
            await editor.raw({"jsonrpc": "2.0", "id": card["id"], "result": outcome})
            await editor.settled(session)
        resolved = [event for event in await acp.core.log(session) if isinstance(event, ev.PermissionResolved)]
        assert resolved == []


# --- any message


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
METHODS = (
    *("initialize", "session/new", "session/load", "session/resume", "session/list", "session/prompt"),
    *("session/cancel", "session/set_mode", "session/set_config_option", "session/close", "session/delete"),
    *("$/cancel_request", "authenticate", "logout", ""),
)
NAMES = (
    *("sessionId", "cwd", "mcpServers", "prompt", "modeId", "configId", "value", "cursor", "requestId"),
    *("protocolVersion", "clientCapabilities", "additionalDirectories", "_meta"),
)
fields = st.dictionaries(st.sampled_from(NAMES), values | st.just(ConversationRig.SESSION), max_size=5)
messages = st.fixed_dictionaries(
    {"method": st.sampled_from(METHODS), "params": fields | values}, optional={"id": values, "result": values}
)


@settings(max_examples=300, deadline=None)
@given(st.lists(messages | values | st.binary(max_size=40), max_size=8))
def test_any_messages_are_answered_or_ignored(said: list[Any]) -> None:
    """Each call gets at most one answer, which has its id; no message raises."""
    rig = ConversationRig()
    rig.say({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}})
    for message in said:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        for answer in rig.receive(data):
            assert ("result" in answer) != ("error" in answer)
            if isinstance(message, dict) and isinstance(message.get("id"), str):
                assert answer["id"] in (message["id"], None)


def test_unfinished_calls_are_bounded() -> None:
    rig = ConversationRig(answers=False)
    rig.say({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}})
    for number in range(conversation.UNFINISHED):
        assert rig.say({"jsonrpc": "2.0", "id": number, "method": "session/list"}) == []
    (refused,) = rig.say({"jsonrpc": "2.0", "id": "more", "method": "session/list"})
    assert refused["error"]["data"]["code"] == "too_many"


def test_long_lists_are_refused() -> None:
    folders = ["/x"] * (params.FOLDERS + 1)
    call = wire.ClientCall(1, "session/new", {"cwd": "/", "additionalDirectories": folders}, notification=False)
    with pytest.raises(wire.BadMessage, match="at most"):
        params.read_folders(params.read_params(call, params.NewParams))
    with pytest.raises(wire.BadMessage, match="blocks"):
        params.prompt_content(({"type": "text", "text": "x"},) * (params.BLOCKS + 1), "/")
