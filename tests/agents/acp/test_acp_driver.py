"""The driver of an ACP agent: the start, requests of the agent, unexpected output, the end."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from agents.claude_driver.harness import FakeLink, MemorySink
from fairlead.agents.acp import wire
from fairlead.agents.acp.driver import AcpAgent
from fairlead.agents.acp.interpreter.calls import request_id
from fairlead.model.agents import Decision, Exit, Launch, Record
from fairlead.model.commands import Settings
from fairlead.model.errors import AgentNotRunning, AgentRefused, HistoryMissing, Stale
from fairlead.model.ids import MessageId, SessionId
from fairlead.model.policy import Behavior, Verdict
from fairlead_testing.clock import ManualClock
from patience import settled

SESSION = SessionId("5f0c1e8e-4d58-4a3a-9a3c-0d5f3a1f0001")
READY = {"protocolVersion": 1, "agentInfo": {"name": "some-agent", "version": "2.0"}, "agentCapabilities": {}}
OPTIONS = [
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "once", "name": "Once", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class AcpDriverHarness:
    """A driver with a fake agent, which answers the requests in `answers` by their method."""

    def __init__(self) -> None:
        self.link = FakeLink()
        self.sink = MemorySink()
        self.clock = ManualClock()
        self.agent = AcpAgent(self.link, self.sink, self.clock, "some-agent", None, "process-1")
        self.answers: dict[str, Any] = {wire.INITIALIZE: READY, wire.NEW: {"sessionId": "s1"}}
        self.link.on_send = self._answer

    def _answer(self, message: dict[str, Any]) -> None:
        answer = self.answers.get(message.get("method", ""))
        if answer is not None:
            body = {"error": answer} if "code" in answer else {"result": answer}
            self.link.says({"jsonrpc": "2.0", "id": message["id"], **body})

    async def start(
        self, resume: str = "", mcp_servers: Mapping[str, Any] | None = None, **settings: Any
    ) -> "AcpDriverHarness":
        given = Settings(**settings)
        launch = Launch(session=SESSION, cwd="/srv", settings=given, resume=resume, mcp_servers=mcp_servers or {})
        await self.agent.start(launch, "/srv")
        return self

    async def prompt(self, name: str = "m1") -> None:
        params = {"sessionId": "s1", "prompt": [{"type": "text", "text": "hello"}]}
        await self.agent.write(Record(wire.request_line(name, wire.PROMPT, params)[:-1], "gateway"))

    def asks(self, number: int = 0, **call: Any) -> None:
        params = {"sessionId": "s1", "toolCall": {"toolCallId": "c1", **call}, "options": OPTIONS}
        self.link.says({"jsonrpc": "2.0", "id": number, "method": wire.REQUEST_PERMISSION, "params": params})

    def has_asked(self, count: int) -> bool:
        return len(self.sink.all("asked")) == count

    def sent(self, method: str) -> list[dict[str, Any]]:
        return [message["params"] for message in self.link.sent if message.get("method") == method]

    def answer_to(self, number: int) -> Any:
        (found,) = [message for message in self.link.sent if message.get("id") == number and "method" not in message]
        return found.get("result", found.get("error"))


async def test_the_start_offers_no_files_and_no_terminals() -> None:
    harness = await AcpDriverHarness().start()
    (asked,) = harness.sent(wire.INITIALIZE)
    assert asked["protocolVersion"] == 1
    assert asked["clientCapabilities"]["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert asked["clientCapabilities"]["terminal"] is False
    assert harness.sent(wire.NEW) == [{"cwd": "/srv", "mcpServers": []}]
    assert (harness.agent.agent_session, harness.agent.version) == ("s1", "2.0")
    marker = wire.decode_marker(harness.sink.raws[-1])
    assert isinstance(marker, wire.ReadyMarker) and marker.agent_session == "s1"


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({wire.INITIALIZE: {"protocolVersion": 2}}, "speaks version 2 of ACP"),
        ({wire.NEW: {"code": -32000, "message": "no"}}, "is not signed in"),
        ({wire.NEW: {"code": -32603, "message": "it is broken"}}, "it is broken"),
    ],
)
async def test_an_agent_that_cannot_start_says_why(answers: dict[str, Any], words: str) -> None:
    harness = AcpDriverHarness()
    harness.answers |= answers
    with pytest.raises(AgentNotRunning, match=words):
        await harness.start()
    assert harness.link.stopped and harness.sink.all("exited")


async def test_an_agent_that_does_not_answer_is_given_up() -> None:
    harness = AcpDriverHarness()
    harness.answers = {}
    starting = asyncio.create_task(harness.start())
    await settled()
    await harness.clock.advance(121)
    with pytest.raises(AgentNotRunning, match="did not answer initialize"):
        await starting


async def test_a_resumed_conversation_is_preferred_to_a_loaded_one() -> None:
    harness = AcpDriverHarness()
    capabilities = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    harness.answers |= {wire.INITIALIZE: READY | {"agentCapabilities": capabilities}, wire.RESUME: {}}
    await harness.start(resume="old")
    assert harness.sent(wire.RESUME)[0]["sessionId"] == "old" and not harness.sent(wire.LOAD)


async def test_the_replay_of_a_loaded_conversation_is_dropped() -> None:
    """Also the part that comes after the answer, as long as the agent is not silent."""
    harness = AcpDriverHarness()
    harness.answers |= {wire.INITIALIZE: READY | {"agentCapabilities": {"loadSession": True}}, wire.LOAD: {}}
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}}
    replayed = {"jsonrpc": "2.0", "method": wire.UPDATE, "params": {"sessionId": "old", "update": chunk}}
    starting = asyncio.create_task(harness.start(resume="old"))
    for _ in range(3):
        await settled()
        harness.link.says(replayed)
        await harness.clock.advance(0.9)
    await harness.clock.advance(1.1)
    await starting
    assert not [raw for raw in harness.sink.raws if b"old" in raw and b"agent_message_chunk" in raw]
    harness.link.says(replayed)
    await harness.sink.record_with(b"agent_message_chunk")


async def test_a_conversation_that_is_lost_can_begin_again() -> None:
    harness = AcpDriverHarness()
    harness.answers |= {
        wire.INITIALIZE: READY | {"agentCapabilities": {"loadSession": True}},
        wire.LOAD: {"code": -32002, "message": "no such session"},
    }
    with pytest.raises(HistoryMissing, match="no such session"):
        await harness.start(resume="old")
    with pytest.raises(HistoryMissing, match="cannot continue"):
        await AcpDriverHarness().start(resume="old")


async def test_a_decision_chooses_the_option_for_this_once() -> None:
    harness = await AcpDriverHarness().start()
    await harness.prompt()
    for number, decision in enumerate((Decision("allow"), Decision("deny"))):
        harness.asks(number, kind="execute", rawInput={"command": "ls"})
        await harness.sink.until(partial(harness.has_asked, number + 1))
        ask = harness.sink.all("asked")[-1]
        assert (ask.tool, ask.input) == ("Bash", {"command": "ls"})
        await harness.agent.answer(ask.request, decision)
    assert harness.answer_to(0) == {"outcome": {"outcome": "selected", "optionId": "once"}}
    assert harness.answer_to(1) == {"outcome": {"outcome": "selected", "optionId": "no"}}
    with pytest.raises(Stale):
        await harness.agent.answer(request_id(harness.agent.process, 1), Decision("allow"))


async def test_an_interrupt_cancels_the_turn_and_its_open_requests() -> None:
    harness = await AcpDriverHarness().start()
    await harness.prompt()
    harness.asks()
    await harness.sink.until(lambda: harness.sink.all("asked"))
    await harness.agent.interrupt()
    assert harness.sent(wire.CANCEL) == [{"sessionId": "s1"}]
    assert harness.answer_to(0) == {"outcome": {"outcome": "cancelled"}}


async def test_a_request_that_the_agent_withdraws_is_cancelled() -> None:
    harness = await AcpDriverHarness().start()
    await harness.prompt()
    harness.asks(7)
    await harness.sink.until(lambda: harness.sink.all("asked"))
    harness.link.says({"jsonrpc": "2.0", "method": wire.CANCEL_REQUEST, "params": {"requestId": 7}})
    await harness.sink.until(lambda: harness.sink.all("cancelled"))
    assert harness.sink.all("cancelled") == [request_id(harness.agent.process, 7)]


@pytest.mark.parametrize("method", ["fs/read_text_file", "fs/write_text_file", "terminal/create", "_own/method"])
async def test_methods_that_are_not_offered_are_refused(method: str) -> None:
    harness = await AcpDriverHarness().start()
    harness.link.says({"jsonrpc": "2.0", "id": 3, "method": method, "params": {}})
    await harness.sink.record_with(method.encode())
    await settled()
    assert harness.answer_to(3)["code"] == wire.METHOD_NOT_FOUND


async def test_other_output_is_kept_and_does_not_stop_the_agent() -> None:
    harness = await AcpDriverHarness().start()
    harness.link.says_bytes(b"Welcome to some agent!\n[1, 2]\nnull\n\xff\xfe\n")
    harness.link.says({"jsonrpc": "2.0", "method": "auth/status_update", "params": None})
    await harness.sink.record_with(b"auth/status_update")
    assert b"Welcome to some agent!" in harness.sink.raws and b"[1, 2]" in harness.sink.raws
    await harness.prompt()


async def test_a_form_is_a_question() -> None:
    harness = await AcpDriverHarness().start()
    await harness.prompt()
    schema = {"properties": {"colour": {"type": "string", "title": "Colour", "enum": ["red", "blue"]}}}
    params = {"sessionId": "s1", "mode": "form", "message": "Which?", "requestedSchema": schema}
    harness.link.says({"jsonrpc": "2.0", "id": 1, "method": wire.ELICIT, "params": params})
    await harness.sink.until(lambda: harness.sink.all("asked"))
    ask = harness.sink.all("asked")[0]
    await harness.agent.answer(ask.request, Decision("allow", updated_input={"answers": {"Colour": "blue"}}))
    assert harness.answer_to(1) == {"action": "accept", "content": {"colour": "blue"}}


async def test_an_agent_that_dies_fails_its_open_requests() -> None:
    harness = await AcpDriverHarness().start()
    harness.answers = {}
    setting = asyncio.create_task(harness.agent._ask(wire.SET_MODE, {}, 30.0))
    await settled()
    harness.link.die(Exit(code=1, stderr="out of memory"))
    with pytest.raises(AgentNotRunning):
        await setting
    await harness.sink.until(lambda: harness.sink.all("exited"))
    with pytest.raises(AgentNotRunning):
        await harness.agent.answer(request_id(harness.agent.process, 1), Decision("allow"))


async def test_the_agents_plan_mode_is_followed_and_the_other_modes_are_the_policys() -> None:
    harness = AcpDriverHarness()
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "plan"}, {"id": "yolo"}]}
    harness.answers |= {wire.NEW: {"sessionId": "s1", "modes": modes}, wire.SET_MODE: {}}
    await harness.start()
    for mode in ("acceptEdits", "plan", "default", "bypassPermissions"):
        await harness.agent.set_mode(mode)
    assert [params["modeId"] for params in harness.sent(wire.SET_MODE)] == ["ask", "plan", "ask", "ask"]


async def test_a_model_is_set_by_the_option_that_the_agent_has() -> None:
    harness = AcpDriverHarness()
    option = {"id": "model", "category": "model", "currentValue": "a"}
    harness.answers |= {wire.NEW: {"sessionId": "s1", "configOptions": [option]}, wire.SET_OPTION: {}}
    await harness.start()
    await harness.agent.set_model("b")
    assert harness.sent(wire.SET_OPTION) == [{"sessionId": "s1", "configId": "model", "value": "b"}]
    harness = AcpDriverHarness()
    harness.answers |= {wire.NEW: {"sessionId": "s1", "models": {"currentModelId": "a"}}, wire.SET_MODEL: {}}
    await harness.start()
    await harness.agent.set_model("b")
    assert harness.sent(wire.SET_MODEL) == [{"sessionId": "s1", "modelId": "b"}]


async def test_what_the_agent_cannot_do_is_refused() -> None:
    agent = (await AcpDriverHarness().start()).agent
    for call in (
        agent.set_model("b"),
        agent.set_thinking(1),
        agent.rewind(MessageId("m"), dry_run=True),
        agent.set_variables({"A": "b"}),
        agent.control("get_context_usage", {}),
    ):
        with pytest.raises(AgentRefused):
            await call


def reported(harness: AcpDriverHarness, status: str, call: str = "c1") -> None:
    fields = {"toolCallId": call, "kind": "execute", "rawInput": {"command": "rm -r src"}, "status": status}
    params = {"sessionId": "s1", "update": {"sessionUpdate": "tool_call_update", **fields}}
    harness.link.says({"jsonrpc": "2.0", "method": wire.UPDATE, "params": params})


@pytest.mark.parametrize(
    ("verdict", "interrupted"),
    [
        (Verdict(Behavior.DENY, "a rule denies it", "Bash(rm:*)", "rule"), True),
        (Verdict(Behavior.DENY, "the mode is plan", None, "mode"), False),
        (Verdict(Behavior.ASK, "no rule allows it"), False),
    ],
)
async def test_an_agent_that_does_what_a_rule_denies_without_asking_is_interrupted(
    verdict: Verdict, interrupted: bool
) -> None:
    harness = await AcpDriverHarness().start()
    harness.sink.verdict = verdict
    await harness.prompt()
    reported(harness, "in_progress")
    await settled()
    assert harness.sink.all("check") == [], "it may still ask"
    reported(harness, "completed")
    await settled()
    (check,) = harness.sink.all("check")
    assert (check.call, check.tool, check.input, check.used) == ("c1", "Bash", {"command": "rm -r src"}, True)
    await harness.agent.stop("done")
    assert len(harness.sent(wire.CANCEL)) == int(interrupted)


async def test_a_call_that_was_asked_for_is_not_checked_again() -> None:
    harness = await AcpDriverHarness().start()
    await harness.prompt()
    harness.asks(kind="execute", rawInput={"command": "rm -r src"})
    await settled()
    reported(harness, "completed")
    await settled()
    await harness.agent.stop("done")
    assert harness.sink.all("check") == []


MCP: dict[str, Any] = {
    "files": {"command": "mcp-files", "args": ("--root", "."), "env": {"LEVEL": "1"}},
    "issues": {"type": "http", "url": "http://127.0.0.1:1/mcp"},
}


async def test_the_mcp_servers_of_the_session_are_given_to_the_agent() -> None:
    harness = AcpDriverHarness()
    harness.answers[wire.INITIALIZE] = {**READY, "agentCapabilities": {"mcpCapabilities": {"http": True}}}
    await harness.start(mcp_servers=MCP)
    (opened,) = harness.sent(wire.NEW)
    assert opened["mcpServers"] == [
        {
            "name": "files",
            "command": "mcp-files",
            "args": ["--root", "."],
            "env": [{"name": "LEVEL", "value": "1"}],
        },
        {"type": "http", "name": "issues", "url": "http://127.0.0.1:1/mcp", "headers": []},
    ]


async def test_an_agent_that_cannot_connect_to_a_server_says_which() -> None:
    with pytest.raises(AgentNotRunning, match="cannot use the MCP server issues: it does not offer http"):
        await AcpDriverHarness().start(mcp_servers=MCP)
