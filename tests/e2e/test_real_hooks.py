"""What the seed says of the CLI's permissions, hooks and MCP servers, over stdio."""

import json
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import NEWEST, OLDEST, on_versions, since
from e2e.test_real_permissions import Adder
from e2e.wire import BASE, Message, RealCli, real_cli
from fairlead.agents.claude import control
from fairlead.testing.model_api import ScriptedModel

Start = Callable[..., AbstractAsyncContextManager[RealCli]]


@pytest.fixture
def start(claude: Path, cli_env: dict[str, str], cli_cwd: Path) -> Start:
    return lambda *arguments, **more: real_cli(claude, cli_env, cli_cwd, *arguments, **more)


def hooked(event: str = "PreToolUse", matcher: str | None = None) -> dict[str, Any]:
    return {"hooks": {event: (control.HookMatcher(hookCallbackIds=("h1",), matcher=matcher, timeout=30),)}}


def deciding(decision: str, **more: Any) -> control.HookAnswer:
    output = {"hookEventName": "PreToolUse", "permissionDecision": decision, **more}
    return control.HookAnswer(hookSpecificOutput=control.HookOutput(**output))


def callbacks(cli: RealCli) -> list[Message]:
    return [m["request"] for m in cli.all("control_request", "hook_callback")]


# --- the person's answer -------------------------------------------------------------------------------


@on_versions()
@pytest.mark.rules("S004-033", "S004-035", "S004-218", "S004-221")
async def test_an_allowed_tool_runs_unchanged_and_the_turn_goes_on(start: Start, cli_cwd: Path) -> None:
    async with start() as cli:
        cli.permission = None
        await cli.prompt(f"SCRIPT:bash touch {cli_cwd / 'a'}")
        asked = await cli.until(lambda m: m.get("request", {}).get("subtype") == "can_use_tool")
        assert not (cli_cwd / "a").exists(), "the turn waits"
        said = len(cli.all("assistant"))
        allow = control.Allow(updatedInput=asked["request"]["input"])
        await cli.write(control.answer_line(asked["request_id"], allow))
        await cli.until("result")
        assert (cli_cwd / "a").exists()
        assert len(cli.all("assistant")) > said


@on_versions()
@pytest.mark.rules("S004-161", "S004-219")
async def test_a_denial_blocks_the_tool_and_its_words_reach_the_model(
    start: Start, cli_cwd: Path, model: ScriptedModel
) -> None:
    async with start() as cli:
        cli.permission = lambda request: control.Deny(message="the moon is wrong")
        await cli.turn(f"SCRIPT:bash touch {cli_cwd / 'a'}")
        assert not (cli_cwd / "a").exists()
        assert "the moon is wrong" in str(model.of("bash")[-1].told)


@on_versions()
@pytest.mark.rules("S004-162")
async def test_a_denial_can_abort_the_whole_run(start: Start, model: ScriptedModel) -> None:
    async with start() as cli:
        cli.permission = lambda request: control.Deny(message="stop", interrupt=True)
        await cli.turn("SCRIPT:bash touch a")
        assert [request.step for request in model.of("bash")] == [0], "the model was not asked again"
        assert (await cli.turn("SCRIPT:text"))["subtype"] == "success"


@on_versions()
@pytest.mark.rules("S004-220", "S004-222", "S004-223")
async def test_a_changed_input_is_the_one_that_runs(start: Start, cli_cwd: Path) -> None:
    async with start() as cli:
        cli.permission = lambda request: control.Allow(updatedInput={"command": 'echo "blocked"'})
        await cli.turn("SCRIPT:bash rm -rf ./everything")
        results = [m for m in cli.all("user") if "blocked" in str(m)]
        assert results, "the changed command ran, without the description that was left out"
        moved = cli_cwd / "moved.txt"
        cli.permission = lambda request: control.Allow(updatedInput={**request["input"], "file_path": str(moved)})
        await cli.turn(f"SCRIPT:write {cli_cwd / 'asked.txt'}")
        assert moved.exists()
        assert not (cli_cwd / "asked.txt").exists()


@on_versions()
@pytest.mark.rules("S004-224", "S004-228")
async def test_updated_permissions_hold_for_the_session(start: Start, cli_cwd: Path) -> None:
    async with start() as cli:
        rule = control.AddRules(
            rules=(control.PermissionRule("Bash", "python3:*"),), behavior="allow", destination="session"
        )
        cli.permission = lambda request: control.Allow(updatedInput=request["input"], updatedPermissions=(rule,))
        await cli.turn("SCRIPT:bash python3 one.py")
        await cli.turn("SCRIPT:bash python3 two.py")
        assert cli.asked() == ["Bash"]
        mode = control.SetMode(mode="acceptEdits", destination="session")
        cli.permission = lambda request: control.Allow(updatedInput=request["input"], updatedPermissions=(mode,))
        await cli.turn(f"SCRIPT:write {cli_cwd / 'a.txt'}")
        await cli.turn(f"SCRIPT:write {cli_cwd / 'b.txt'}")
        assert cli.asked() == ["Bash", "Write"]


@on_versions()
@pytest.mark.rules("S004-217")
async def test_over_stdio_nobody_is_asked_without_the_flag(start: Start, cli_cwd: Path) -> None:
    async with start(base=BASE) as cli:
        result = await cli.turn(f"SCRIPT:write {cli_cwd / 'a.txt'}")
        assert cli.asked() == []
        assert [denial["tool_name"] for denial in result["permission_denials"]] == ["Write"]


# --- hooks -------------------------------------------------------------------------------------------------


@on_versions()
@pytest.mark.rules("S004-137", "S004-138", "S004-200", "S004-207", "S004-208", "S004-209", "S004-242")
async def test_a_hook_allows_denies_or_leaves_it_to_the_next_layer(start: Start, cli_cwd: Path) -> None:
    async with start() as cli:
        await cli.set_up(**hooked(matcher="Bash"))
        cli.hook = lambda request: deciding("allow")
        await cli.turn(f"SCRIPT:bash touch {cli_cwd / 'a'}")
        assert (cli_cwd / "a").exists()
        cli.hook = lambda request: deciding("deny", permissionDecisionReason="by our rules")
        await cli.turn(f"SCRIPT:bash touch {cli_cwd / 'b'}")
        assert not (cli_cwd / "b").exists()
        assert cli.asked() == [], "decided in the first layer"
        cli.hook = lambda request: deciding("ask")
        await cli.turn(f"SCRIPT:bash touch {cli_cwd / 'c'}")
        assert cli.asked() == ["Bash"]
        assert {request["callback_id"] for request in callbacks(cli)} == {"h1"}
        count = len(callbacks(cli))
        await cli.turn(f"SCRIPT:write {cli_cwd / 'd.txt'}")
        assert len(callbacks(cli)) == count, "the matcher names another tool"


@on_versions()
@pytest.mark.rules("S004-197", "S004-201", "S004-202")
async def test_a_hook_blocks_changes_the_input_and_adds_context(
    start: Start, cli_cwd: Path, model: ScriptedModel
) -> None:
    async with start() as cli:
        await cli.set_up(**hooked())
        cli.hook = lambda request: control.HookAnswer(decision="block", reason="blocked here")
        await cli.turn(f"SCRIPT:bash touch {cli_cwd / 'a'}")
        assert not (cli_cwd / "a").exists()
        changed = {"command": f"touch {cli_cwd / 'changed'}"}
        cli.hook = lambda request: deciding("allow", updatedInput=changed)
        await cli.turn(f"SCRIPT:bash touch {cli_cwd / 'b'}")
        assert (cli_cwd / "changed").exists()
        assert not (cli_cwd / "b").exists()
    async with start() as cli:
        await cli.set_up(**hooked("UserPromptSubmit"))
        output = control.HookOutput(hookEventName="UserPromptSubmit", additionalContext="the tide is high")
        cli.hook = lambda request: control.HookAnswer(hookSpecificOutput=output)
        await cli.turn("SCRIPT:text x")
        assert "the tide is high" in str(model.of("text")[-1].told)


@on_versions()
@pytest.mark.rules("S004-198")
async def test_a_hook_can_stop_the_run(start: Start, model: ScriptedModel) -> None:
    async with start() as cli:
        await cli.set_up(**hooked("PostToolUse"))
        cli.hook = lambda request: control.HookAnswer(continue_=False, stopReason="enough")
        await cli.turn("SCRIPT:tool")
        assert [request.step for request in model.of("tool")] == [0], "the model was not asked again"


@on_versions()
@pytest.mark.rules("S004-203")
async def test_a_permission_request_hook_decides_the_request(start: Start, cli_cwd: Path) -> None:
    async with start() as cli:
        await cli.set_up(**hooked("PermissionRequest"))
        decision = {"behavior": "allow", "updatedInput": {"command": f"touch {cli_cwd / 'a'}"}}
        output = control.HookOutput(hookEventName="PermissionRequest", decision=decision)
        cli.hook = lambda request: control.HookAnswer(hookSpecificOutput=output)
        cli.permission = None
        await cli.turn(f"SCRIPT:bash touch {cli_cwd / 'a'}")
        assert (cli_cwd / "a").exists()


@on_versions(NEWEST)
@pytest.mark.rules("S004-342")
async def test_the_hook_events_are_told_by_their_names(start: Start) -> None:
    events = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStart", "SubagentStop")
    async with start() as cli:
        await cli.set_up(hooks={event: (control.HookMatcher(hookCallbackIds=(event,)),) for event in events})
        await cli.turn("SCRIPT:subagent tool")
        told = {request["input"]["hook_event_name"] for request in callbacks(cli)}
        assert told == set(events)
        assert all(request["callback_id"] == request["input"]["hook_event_name"] for request in callbacks(cli))


# --- the CLI's own rules ---------------------------------------------------------------------------------------


@on_versions()
@pytest.mark.rules("S004-210", "S004-211", "S004-212")
async def test_its_own_rules_deny_before_they_ask_and_ask_before_they_allow(start: Start, cli_cwd: Path) -> None:
    rules = {"deny": ["Bash(touch:*)"], "ask": ["Write"], "allow": ["Bash(touch:*)", "Write"]}
    async with start("--settings", json.dumps({"permissions": rules})) as cli:
        await cli.turn(f"SCRIPT:bash touch {cli_cwd / 'a'}")
        assert cli.asked() == []
        assert not (cli_cwd / "a").exists()
        await cli.turn(f"SCRIPT:write {cli_cwd / 'b.txt'}")
        assert cli.asked() == ["Write"]


# --- prompts, agents, schemas --------------------------------------------------------------------------------


@on_versions()
@pytest.mark.rules("S004-141", "S004-142", "S004-143")
async def test_prompts_and_agents_of_initialize_reach_the_model(start: Start, model: ScriptedModel) -> None:
    async with start() as cli:
        await cli.set_up(systemPrompt="You are a lighthouse.")
        await cli.turn("SCRIPT:text a")
        assert "You are a lighthouse." in model.of("text")[-1].system
    agents = {"pilot": {"description": "Guides ships", "prompt": "Guide."}}
    async with start() as cli:
        await cli.set_up(appendSystemPrompt="Mind the rocks.", agents=agents)
        await cli.turn("SCRIPT:text b")
        sent = model.of("text")[-1]
        assert "Mind the rocks." in sent.system
        assert len(sent.system) > len("Mind the rocks."), "it was added"
        assert "pilot" in cli.init["agents"]


@on_versions(OLDEST, NEWEST)
@pytest.mark.rules("S004-140")
async def test_a_schema_gives_structured_output(start: Start) -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "number"}}, "required": ["answer"]}
    async with start() as cli:
        await cli.set_up(jsonSchema=schema)
        result = await cli.turn('SCRIPT:structured {"answer": 42}')
        assert result["structured_output"] == {"answer": 42}


# --- MCP -------------------------------------------------------------------------------------------------------

_SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    result = {}
    if asked["method"] == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "small", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": "nothing", "description": "x", "inputSchema": {"type": "object"},
                             "annotations": {"readOnlyHint": True}}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@on_versions()
@pytest.mark.rules("S004-070", "S004-139", "S004-175", "S004-180", "S004-183", "S004-333")
async def test_a_server_of_ours_is_called_over_the_wire(start: Start, model: ScriptedModel) -> None:
    adder = Adder()

    def serve(message: Message) -> Message:
        try:
            adder.handle(message).send(None)
        except StopIteration as done:
            return done.value or {"jsonrpc": "2.0", "id": message.get("id", 0), "result": {}}
        raise AssertionError("it waits for nothing")

    async with start("--allowedTools", "mcp__adder__add") as cli:
        cli.mcp = serve
        await cli.set_up(sdkMcpServers=("adder",))
        await cli.turn("SCRIPT:mcp mcp__adder__add")
        assert [call["name"] for call in adder.calls] == ["add"]
        assert "sum=3" in str(model.of("mcp")[-1].told)
        assert {"name", "status"} <= cli.init["mcp_servers"][0].keys()
        status = await cli.got(control.McpStatus())
        assert "adder" in [server["name"] for server in status["mcpServers"]]


@on_versions()
@pytest.mark.rules("S004-176", "S004-177", "S004-178", "S004-179", "S004-185", "S004-186", "S004-187")
async def test_servers_are_set_toggled_and_told(start: Start, version: str, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(_SERVER)
    good = control.McpServer(type="stdio", command=sys.executable, args=(str(script),))
    broken = control.McpServer(type="stdio", command="/nowhere/server")
    async with start() as cli:
        await cli.set_up()
        await cli.got(control.McpSetServers(servers={"small": good, "gone": broken}))
        servers = {}
        for _ in range(200):
            told = (await cli.got(control.McpStatus()))["mcpServers"]
            servers = {server["name"]: server for server in told}
            if servers.get("small", {}).get("status") == "connected" and servers["gone"]["status"] == "failed":
                break
        assert (servers["small"]["status"], servers["gone"]["status"]) == ("connected", "failed")
        assert isinstance(servers["small"]["scope"], str)
        assert servers["small"]["config"]["type"] == "stdio"
        assert servers["small"]["tools"][0]["name"] == "nothing"
        assert "serverInfo" in servers["small"]
        assert "serverInfo" not in servers["gone"]
        for request in (
            control.McpToggle(serverName="small", enabled=False),
            control.McpToggle(serverName="small", enabled=True),
            control.McpReconnect(serverName="small"),
        ):
            answer = await cli.ask(request)
            assert answer["subtype"] == ("success" if since(version, "2.1.77") else "error")
