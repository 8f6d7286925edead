"""One client on /ws: its frames and their order, errors, aborts, options, and the choices that it may make."""

import json
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from clients.claudecodeui.chat_harness import ChatHarness, open_chat
from clients.cognova.chat_harness import stream
from fairlead.model import commands as cmd
from fairlead.model.agents import Exit
from fairlead.model.auth import Identity
from fairlead.model.errors import AgentMissing
from fairlead.server.limits import ServerLimits
from sessions.harness import CoreHarness

UNKNOWN = "99999999-9999-4999-8999-999999999999"


@pytest.mark.rules("S003-001", "S003-013", "S003-014", "S003-018", "S003-019")
async def test_the_chat_is_at_ws_with_any_query(chats: ChatHarness) -> None:
    token = chats.gateway.admin
    for path in ("/ws", "/claudecodeui/ws", f"/ws?token={token}&x=1"):
        headers = {} if "token" in path else {"authorization": f"Bearer {token}"}
        async with chats.peer(path=path, additional_headers=headers) as peer:
            await peer.settled()
    with pytest.raises(InvalidStatus) as refused:
        async with chats.peer(path="/ws/x"):
            pass
    assert refused.value.response.status_code == 404


@pytest.mark.rules("S003-010", "S003-016", "S003-017")
async def test_a_connection_without_a_token_is_refused(chats: ChatHarness) -> None:
    for path in ("/ws", "/ws?token=wrong", "/nosuch"):
        with pytest.raises(InvalidStatus) as refused:
            async with chats.peer(path=path, additional_headers={}):
                pass
        assert refused.value.response.status_code == 401


async def test_a_foreign_origin_is_refused_even_with_a_token(chats: ChatHarness) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with chats.peer(path=f"/ws?token={chats.gateway.admin}", origin="https://evil.example"):
            pass
    assert refused.value.response.status_code == 403


async def test_a_revoked_token_closes_its_sockets(chats: ChatHarness) -> None:
    made = await chats.gateway.credentials.create("token", "bob", ("view", "chat"))
    async with chats.peer(token=made.secret) as peer:
        await peer.settled()
        await chats.gateway.credentials.revoke("token", made.credential.id)
        assert await peer.closed() == 4401


@pytest.mark.rules("S003-026", "S003-027", "S003-036", "S003-039", "S003-042", "S003-055")
async def test_a_run_streams_to_the_socket_that_sent_it(chats: ChatHarness) -> None:
    name = await chats.session()
    async with chats.peer() as peer:
        await peer.send(name, "hello", {"model": "default", "effort": "default", "permissionMode": "default"})
        agent = await chats.agent()
        await stream(agent, "Hel", "lo.")
        await agent.call("toolu_1", command="ls")
        await agent.result_of("toolu_1", "a.txt")
        await agent.text("Done.", "m2")
        await agent.result()
        end = await peer.until("complete")
        run = peer.run()
        assert peer.run_kinds() == [
            *["stream_delta", "stream_delta", "stream_end", "tool_use", "tool_result", "text", "complete"]
        ]
        assert {frame["sessionId"] for frame in run} == {name}
        rest = [frame["kind"] for frame in peer.frames if "seq" not in frame]
        assert set(rest) <= {"session_upserted"}, "no acknowledgement, and no session_created"
        numbers = [frame["seq"] for frame in run]
        assert numbers == sorted(set(numbers))
        for frame in run:
            assert frame["id"] and frame["provider"] == "claude" and frame["timestamp"].endswith("Z")
        result = {field: end[field] for field in ("actualSessionId", "exitCode", "success", "aborted")}
        assert result == {"actualSessionId": name, "exitCode": 0, "success": True, "aborted": False}
        assert json.loads(agent.written[0].raw)["message"]["content"] == "hello"


BAD = [
    ({"type": "chat.send"}, "SESSION_ID_REQUIRED", "chat.send requires a sessionId.", None),
    ({"type": "chat.send", "sessionId": "  "}, "SESSION_ID_REQUIRED", "chat.send requires a sessionId.", None),
    ({"type": "chat.send", "sessionId": 7}, "SESSION_ID_REQUIRED", "chat.send requires a sessionId.", None),
    ({"type": "chat.abort"}, "SESSION_ID_REQUIRED", "chat.abort requires a sessionId.", None),
    (
        {"type": "chat.send", "sessionId": UNKNOWN, "content": "x"},
        "SESSION_NOT_FOUND",
        f'Session "{UNKNOWN}" was not found. Create it via POST /api/providers/sessions first.',
        UNKNOWN,
    ),
    (
        {"type": "chat.send", "sessionId": "../x", "content": "x"},
        "SESSION_NOT_FOUND",
        'Session "../x" was not found. Create it via POST /api/providers/sessions first.',
        "../x",
    ),
    (
        {"type": "chat.abort", "sessionId": UNKNOWN},
        "SESSION_NOT_FOUND",
        f'Session "{UNKNOWN}" was not found. Create it via POST /api/providers/sessions first.',
        UNKNOWN,
    ),
    ({"type": "x"}, "UNKNOWN_MESSAGE_TYPE", 'Unknown message type "x".', None),
    ({}, "UNKNOWN_MESSAGE_TYPE", 'Unknown message type "undefined".', None),
    (
        {"type": "check-session-status"},
        "UNKNOWN_MESSAGE_TYPE",
        'Unknown message type "check-session-status".',
        None,
    ),
    (
        {"type": "get-pending-permissions"},
        "UNKNOWN_MESSAGE_TYPE",
        'Unknown message type "get-pending-permissions".',
        None,
    ),
]


@pytest.mark.rules("S003-027", "S003-032", "S003-040", "S003-050", "S003-070", "S003-136", "S003-137")
async def test_an_invalid_request_is_answered_with_its_code_and_starts_nothing(chats: ChatHarness) -> None:
    async with chats.peer() as peer:
        for message, code, words, session in BAD:
            await peer.socket.send(json.dumps(message))
            error = await peer.until("protocol_error")
            assert tuple(error) == ("kind", "code", "error", "sessionId", "timestamp")
            assert (error["code"], error["error"], error["sessionId"]) == (code, words, session), message
    assert chats.core.kind.agents == []


@pytest.mark.rules("S003-136", "S003-137")
async def test_an_unexpected_error_is_answered_and_ends_neither_the_socket_nor_another_run(
    chats: ChatHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = await chats.session(1), await chats.session(2)
    works = chats.core.gateway.command

    async def breaks(who: Identity, command: cmd.Command) -> cmd.Reply:
        if isinstance(command, cmd.Send):
            raise RuntimeError("nobody thought of this")
        return await works(who, command)

    async with chats.peer() as peer:
        await peer.send(one, "a")
        first = await chats.agent(1)
        with monkeypatch.context() as broken:
            broken.setattr(chats.core.gateway, "command", breaks)
            await peer.send(two, "b")
            error = await peer.until("protocol_error")
        assert (error["code"], error["sessionId"]) == ("INTERNAL_ERROR", two)
        assert "nobody thought" not in error["error"], "what broke is for the log"
        await first.text("On.", "m1")
        await first.result()
        assert (await peer.until("complete"))["sessionId"] == one
        await peer.send(two, "again")
        second = await chats.agent(2)
        await second.result()
        assert (await peer.until("complete"))["sessionId"] == two


@pytest.mark.rules("S003-025", "S003-037", "S003-038")
@pytest.mark.parametrize("payload", ["", " ", "{", "[]", "7", '"chat.send"', "null", b"\xff", b"[]"])
async def test_a_payload_that_is_not_an_object_is_answered_and_the_socket_stays_open(
    chats: ChatHarness, payload: Any
) -> None:
    async with chats.peer() as peer:
        await peer.socket.send(payload)
        error = await peer.until("protocol_error")
        assert (error["code"], error["error"]) == ("INTERNAL_ERROR", "Invalid websocket payload")
        assert (await peer.subscribe(UNKNOWN))["sessionId"] == UNKNOWN
        await peer.socket.send(json.dumps({"type": "y"}).encode())
        assert (await peer.until("protocol_error"))["code"] == "UNKNOWN_MESSAGE_TYPE", "bytes are taken like text"


@pytest.mark.rules("S003-039", "S003-136", "S003-137")
async def test_a_second_send_during_a_run_is_refused_or_queued_on_request(chats: ChatHarness) -> None:
    name = await chats.session()
    async with chats.peer() as peer, chats.peer() as other:
        await other.subscribe(name)
        await peer.send(name, "one")
        await peer.send(name, "at once")
        error = await peer.until("protocol_error")
        assert error["code"] == "RUN_IN_PROGRESS"
        assert error["error"] == f'Session "{name}" already has a run in progress.'
        agent = await chats.agent()
        await peer.send(name, "two")
        assert (await peer.until("protocol_error"))["code"] == "RUN_IN_PROGRESS"
        await peer.send(name, "three", {"queue": True})
        await agent.result()
        await peer.until("complete")
        assert await agent.prompted() == "three"
        await agent.result()
        await peer.until("complete")
        assert peer.client.sessions[name].errors == ["RUN_IN_PROGRESS"] * 2
        assert len(agent.written) == 2, "what was refused never runs"
        await other.until("complete")
        await other.until("complete")
        assert "protocol_error" not in other.kinds(), "an error is an answer to the socket that asked"


async def test_only_one_of_two_simultaneous_sends_runs(chats: ChatHarness) -> None:
    """The original checks and acts in two steps; here exactly one of the two sends comes first."""
    name = await chats.session()
    async with chats.peer() as one, chats.peer() as two:
        await one.send(name, "a")
        await two.send(name, "a")
        agent = await chats.agent()
        # Wait for the refusal first: a send that arrives after the run has ended would start another run.
        await chats.core.until(lambda: any("RUN_IN_PROGRESS" in str(peer.frames) for peer in (one, two)))
        (runs,) = [peer for peer in (one, two) if "RUN_IN_PROGRESS" not in str(peer.frames)]
        await agent.result()
        await runs.until("complete")
        assert len(agent.written) == 1


async def test_a_message_with_an_id_is_acknowledged_and_runs_once_however_often_it_is_sent(chats: ChatHarness) -> None:
    name = await chats.session()
    mine = "aaaaaaaa-0000-4000-8000-000000000001"
    async with chats.peer() as peer:
        await peer.send(name, "once", messageId=mine)
        ack = await peer.until("chat_subscribed")
        assert (ack["messageId"], ack["isProcessing"]) == (mine, True)
        agent = await chats.agent()
        await agent.result()
        await peer.until("complete")
    async with chats.peer() as again:
        await again.send(name, "once", messageId=mine)
        assert (await again.until("chat_subscribed"))["messageId"] == mine
        await again.send(name, "x", messageId="7")
        assert (await again.until("protocol_error"))["code"] == "INTERNAL_ERROR"
    assert len(agent.written) == 1


@pytest.mark.rules("S003-043", "S003-044", "S003-054")
@pytest.mark.rules("S003-026", "S003-027")
async def test_an_abort_ends_the_run_with_one_complete_and_nothing_after_it(chats: ChatHarness) -> None:
    name = await chats.session()
    async with chats.peer() as peer:
        await peer.send(name, "write")
        agent = await chats.agent()
        await stream(agent, "Once upon", whole=False)
        await peer.until("stream_delta")
        await peer.say("chat.abort", sessionId=name)
        await chats.core.until(lambda: ("interrupt", None) in agent.requests)
        await agent.result(subtype="error_during_execution", is_error=True, result=None)
        end = await peer.until("complete")
        assert (end["aborted"], end["success"], end["exitCode"]) == (True, False, 0)
        await agent.text("late words", "m9")
        await agent.result()
        await peer.until("complete")
        await peer.say("chat.abort", sessionId=name)
        assert (await peer.until("protocol_error"))["code"] == "NO_ACTIVE_RUN"
        assert peer.run_kinds() == [
            *["stream_delta", "stream_end", "complete"],
            *["text", "complete"],  # unprompted output of the agent is a separate run
        ]


@pytest.mark.rules("S003-058")
async def test_a_repeated_result_does_not_end_the_next_run(chats: ChatHarness) -> None:
    name = await chats.session()
    async with chats.peer() as peer:
        await peer.send(name, "one")
        agent = await chats.agent()
        first = "0b0b0b0b-0000-4000-8000-00000000000b"
        for _ in range(2):
            await agent.result(uuid=first)
        await peer.until("complete")
        await peer.send(name, "two")
        await agent.prompted()
        await agent.result(uuid=first)
        await agent.text("Still at it.", "m2")
        await peer.until("text")
        assert (await peer.subscribe(name))["isProcessing"] is True, "the late end of the first run is not the second's"
        await agent.result()
        await peer.until("complete")
        await agent.die(Exit(code=1))
        await chats.core.until(lambda: chats.core.loaded(name).supervisor.agent is None)
        assert (await peer.subscribe(name))["isProcessing"] is False
        assert peer.run_kinds() == ["complete", "text", "complete"]


@pytest.mark.rules("S003-043")
async def test_an_abort_before_the_agent_has_started_withdraws_the_message(chats: ChatHarness) -> None:
    """The original reports the message as aborted and runs it anyway."""
    name = await chats.session()
    chats.core.kind.launch_when.clear()
    async with chats.peer() as peer:
        await peer.send(name, "never")
        await peer.say("chat.abort", sessionId=name)
        end = await peer.until("complete")
        assert (end["aborted"], end["success"], end["exitCode"]) == (True, False, 0)
        chats.core.kind.launch_when.set()
        agent = await chats.core.kind.launched()
        await peer.send(name, "and now")
        assert await agent.prompted() == "and now"
        assert len(agent.written) == 1


@pytest.mark.rules("S003-057", "S003-054")
@pytest.mark.parametrize("exit", [Exit(code=3), Exit(signal=9), Exit(code=0), Exit()], ids=repr)
async def test_an_agent_that_dies_or_cannot_start_ends_its_run_with_an_error_and_one_complete(
    chats: ChatHarness, exit: Exit
) -> None:
    name = await chats.session()
    async with chats.peer() as peer:
        await peer.send(name, "one")
        agent = await chats.agent()
        await agent.die(exit)
        await peer.until("error")
        end = await peer.until("complete")
        assert (end["exitCode"], end["success"], end["aborted"]) == (1, False, False)
        chats.core.kind.failures.append(AgentMissing("There is no claude on this machine."))
        await peer.send(name, "two")
        assert "no claude" in (await peer.until("error"))["content"]
        assert (await peer.until("complete"))["exitCode"] == 1
        assert peer.kinds().count("complete") == 2


@pytest.mark.rules("S003-032", "S003-041")
async def test_a_client_chooses_neither_the_folder_nor_the_provider(chats: ChatHarness) -> None:
    name = await chats.session()
    async with chats.peer() as peer:
        options = {"cwd": "/", "projectPath": "/", "resume": "x", "env": {"A": "b"}, "provider": "codex"}
        await peer.say("chat.send", sessionId=name, content="x", provider="codex", options=options)
        agent = await chats.agent()
        assert (agent.launch.cwd, agent.launch.resume) == (str(chats.core.cwd), "")
        assert agent.launch.settings == cmd.Settings()
        await agent.result()
        assert (await peer.until("complete"))["provider"] == "claude"


@pytest.mark.parametrize(
    "options",
    [
        {"permissionMode": "bypassPermissions"},
        {"skipPermissions": True},
        {"toolsSettings": {"allowedTools": [], "disallowedTools": [], "skipPermissions": True}},
    ],
)
async def test_bypass_mode_is_allowed_by_policy_and_not_by_the_client(
    chats: ChatHarness, options: dict[str, Any]
) -> None:
    name = await chats.session()
    async with chats.peer() as peer:
        await peer.send(name, "x", options)
        error = await peer.until("protocol_error")
        assert error["code"] == "INTERNAL_ERROR" and "bypass" in error["error"].lower()
    assert chats.core.kind.agents == []


async def test_options_of_a_send_become_the_sessions_settings(tmp_path: Any) -> None:
    async with open_chat(tmp_path, core=CoreHarness(tmp_path, allow_bypass=True)) as chats:
        name = await chats.session()
        async with chats.peer() as peer:
            options = {"permissionMode": "acceptEdits", "model": "opus", "effort": "high"}
            await peer.send(name, "x", options)
            agent = await chats.agent()
            settings = agent.launch.settings
            assert (settings.mode, settings.model, settings.effort) == ("acceptEdits", "opus", "high")
            await agent.result()
            await peer.until("complete")
            await peer.send(name, "y", {"permissionMode": "plan", "skipPermissions": True, "model": "default"})
            await agent.prompted()
            assert agent.requests == [("mode", "plan")]
            assert chats.core.state(name).settings.model == "opus"


async def test_the_scope_view_is_not_enough_to_send(chats: ChatHarness) -> None:
    name = await chats.session()
    token = await chats.gateway.token("view")
    async with chats.peer(token=token) as peer:
        await peer.send(name, "x")
        error = await peer.until("protocol_error")
        assert error["code"] == "INTERNAL_ERROR" and "scope chat" in error["error"]


async def test_too_many_messages_are_answered(tmp_path: Any) -> None:
    async with open_chat(tmp_path, ServerLimits(commands_per_s=1)) as chats, chats.peer() as peer:
        for _ in range(5):
            await peer.say("x")
        error = await peer.until(lambda frame: frame.get("code") == "INTERNAL_ERROR")
        assert "messages a second" in error["error"]
