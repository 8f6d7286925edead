"""Every line that we send to an ACP agent is valid by the schema of the protocol's own SDK."""

import json
from functools import cache
from importlib import import_module
from typing import Any

import pytest

from agents.acp.test_acp_driver import OPTIONS, READY, AcpDriverHarness
from fairlead.agents.acp import wire
from fairlead.agents.acp.kind import AcpKind
from fairlead.agents.stdio_kind import StdioSettings
from fairlead.model.agents import Decision
from fairlead.model.content import ImageBlock, TextBlock
from fairlead.model.ids import MessageId
from fairlead_testing.clock import ManualClock
from patience import settled
from tools.acp_agents import program_path

JSON_SCHEMA: Any = import_module("jsonschema")
"""It has no types."""
NOT_IN_THE_SCHEMA = frozenset({wire.SET_MODEL})
"""For agents that have `models` in place of options, as Gemini CLI does."""
FORM = {"type": "object", "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}}}

pytestmark = pytest.mark.skipif(
    not program_path("sdk").exists(), reason="the schema is missing: `python -m tools.acp_agents sdk` fetches it"
)


@cache
def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(program_path("sdk").read_text("utf-8"))
    return found


def check(method: str, part: str, value: Any) -> None:
    """Validate the params (`Request`, `Notification`) or the result (`Response`) of a method."""
    names = [
        name
        for name, definition in schema()["$defs"].items()
        if definition.get("x-method") == method and name.endswith(part)
    ]
    assert len(names) == 1, f"{method} has no {part} in the schema"
    JSON_SCHEMA.Draft202012Validator({"$ref": f"#/$defs/{names[0]}", "$defs": schema()["$defs"]}).validate(value)


def check_sent(harness: AcpDriverHarness, asked: dict[Any, str]) -> set[str]:
    """Validate everything that was sent; `asked` are the agent's requests, by id. Returns the methods and answers."""
    seen = set()
    for message in harness.link.sent:
        assert message["jsonrpc"] == "2.0"
        method = message.get("method")
        if method is None:
            check(asked[message["id"]], "Response", message["result"])
            seen.add(f"answer to {asked[message['id']]}")
        elif method not in NOT_IN_THE_SCHEMA:
            check(method, "Request" if "id" in message else "Notification", message["params"])
            seen.add(method)
    return seen


async def test_a_session_with_everything_is_valid() -> None:
    harness = AcpDriverHarness()
    capabilities = {"loadSession": True, "sessionCapabilities": {"resume": {}, "additionalDirectories": {}}}
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "plan"}]}
    options = [{"id": "model", "category": "model", "currentValue": "a"}]
    harness.answers |= {
        wire.INITIALIZE: READY | {"agentCapabilities": capabilities},
        wire.RESUME: {"modes": modes, "configOptions": options},
        wire.SET_MODE: {},
        wire.SET_OPTION: {"configOptions": []},
    }
    await harness.start(resume="s1", directories=("/srv/other",), model="b", mode="plan")
    kind = AcpKind(StdioSettings(name="some-agent", command=("cat",), host={}), ManualClock())
    image = ImageBlock({"type": "base64", "media_type": "image/png", "data": "aGk="})
    await harness.agent.write(kind.prompt((TextBlock("look"), image), MessageId("m1"), "s1"))
    asked: dict[Any, str] = {}
    for number, decision in enumerate((Decision("allow"), Decision("deny"), None)):
        harness.asks(number, kind="execute", rawInput={"command": "ls"})
        asked[number] = wire.REQUEST_PERMISSION
        await settled()
        if decision is not None:
            await harness.agent.answer(harness.sink.all("asked")[-1].request, decision)
    for number, decision in (
        (10, Decision("allow", updated_input={"answers": {"colour": "red"}})),
        (11, Decision("deny")),
    ):
        params = {"sessionId": "s1", "mode": "form", "message": "Which?", "requestedSchema": FORM}
        harness.link.says({"jsonrpc": "2.0", "id": number, "method": wire.ELICIT, "params": params})
        asked[number] = wire.ELICIT
        await settled()
        await harness.agent.answer(harness.sink.all("asked")[-1].request, decision)
    await harness.agent.interrupt()
    assert check_sent(harness, asked) == {
        *(wire.INITIALIZE, wire.RESUME, wire.SET_MODE, wire.SET_OPTION, wire.PROMPT, wire.CANCEL),
        *(f"answer to {wire.REQUEST_PERMISSION}", f"answer to {wire.ELICIT}"),
    }


@pytest.mark.parametrize("method", [wire.NEW, wire.LOAD])
async def test_the_other_ways_to_open_a_conversation_are_valid(method: str) -> None:
    harness = AcpDriverHarness()
    if method == wire.NEW:
        await harness.start()
    else:
        harness.answers |= {wire.INITIALIZE: READY | {"agentCapabilities": {"loadSession": True}}}
        harness.answers[wire.LOAD] = {"code": -32002, "message": "unknown"}
        with pytest.raises(Exception, match="unknown"):
            await harness.start(resume="s1")
    assert method in check_sent(harness, {})


def test_the_options_of_the_other_tests_are_valid() -> None:
    call = {"toolCallId": "c1"}
    check(wire.REQUEST_PERMISSION, "Request", {"sessionId": "s1", "toolCall": call, "options": OPTIONS})
