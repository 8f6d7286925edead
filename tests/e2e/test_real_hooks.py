"""The seed's statements about the CLI's permissions, hooks and MCP servers, over stdio."""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from e2e.cli_wire import BASE, Message, RealCli, real_cli
from e2e.harness import on_versions, since
from e2e.test_real_permissions import Adder
from fairlead.agents.claude.wire import control
from fairlead_testing.model_api import ScriptedModel
from patience import PATIENCE

Start = Callable[..., AbstractAsyncContextManager[RealCli]]


@pytest.fixture
def start(claude: Path, cli_env: dict[str, str], cli_cwd: Path) -> Start:
    return lambda *arguments, **more: real_cli(claude, cli_env, cli_cwd, *arguments, **more)


def hooked(event: str = "PreToolUse", matcher: str | None = None) -> dict[str, Any]:
    named = {} if matcher is None else {"matcher": matcher}
    return {"hooks": {event: [{"hookCallbackIds": ["h1"], **named, "timeout": 30}]}}


def deciding(decision: str, **more: Any) -> control.HookAnswer:
    output = {"hookEventName": "PreToolUse", "permissionDecision": decision, **more}
    return control.HookAnswer(hookSpecificOutput=control.HookOutput(**output))


PYTHON_RULE: Message = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "python3:*"}],
    "behavior": "allow",
}


NOTHING: Message = {"type": "addRules", "rules": [], "behavior": "allow"}


def allowing(update: Message, destination: str) -> Callable[[Message], Message]:
    """Answers a permission request with an allow that changes the permissions."""
    updates = [{**update, "destination": destination}]
    return lambda request: {"behavior": "allow", "updatedInput": request["input"], "updatedPermissions": updates}


def callbacks(cli: RealCli) -> list[Message]:
    return [m["request"] for m in cli.all("control_request", "hook_callback")]


# --- the person's answer -------------------------------------------------------------------------------


@on_versions()
@pytest.mark.rules("S004-033", "S004-034", "S004-035", "S004-151", "S004-158", "S004-160", "S004-218", "S004-221")
@pytest.mark.rules("S004-161", "S004-163", "S004-219", "S004-162", "S004-220", "S004-222", "S004-223")
@pytest.mark.rules("S004-159", "S004-224", "S004-225", "S004-228")
async def test_a_person_allows_denies_aborts_changes_and_remembers(
    start: Start, cli_cwd: Path, model: ScriptedModel
) -> None:
    async with start() as cli:
        await cli.set_up(**hooked("PostToolUse"))
        await an_allowed_tool_runs_unchanged_and_the_turn_goes_on(cli, cli_cwd)
        for scene in (
            a_denial_blocks_the_tool_and_its_words_reach_the_model,
            a_denial_can_abort_the_whole_run,
            a_changed_input_is_the_one_that_runs,
            updated_permissions_hold_for_the_session,
        ):
            cli.scene()
            model.requests.clear()
            await scene(cli, cli_cwd, model)


async def an_allowed_tool_runs_unchanged_and_the_turn_goes_on(cli: RealCli, cwd: Path) -> None:
    cli.permission = None
    await cli.prompt(f"SCRIPT:bash touch {cwd / 'allowed'}")
    asked = await cli.until(lambda m: m.get("request", {}).get("subtype") == "can_use_tool")
    assert not (cwd / "allowed").exists(), "the turn waits"
    before = len(cli.all("assistant"))
    call = cli.all("assistant")[-1]["message"]["content"][0]
    request = {name: asked["request"][name] for name in ("tool_name", "input", "tool_use_id")}
    assert request == {"tool_name": "Bash", "input": call["input"], "tool_use_id": call["id"]}
    allow = control.AllowTool(updatedInput=request["input"], toolUseID=call["id"])
    await cli.write(control.answer_line(asked["request_id"], allow))
    decision = {"behavior": "allow", "updatedInput": request["input"], "toolUseID": call["id"]}
    answer = {"subtype": "success", "request_id": asked["request_id"], "response": decision}
    assert json.loads(cli.sent[-1]) == {"type": "control_response", "response": answer}
    await cli.until("result")
    assert (cwd / "allowed").exists()
    assert len(cli.all("assistant")) > before


async def a_denial_blocks_the_tool_and_its_words_reach_the_model(cli: RealCli, cwd: Path, model: ScriptedModel) -> None:
    cli.permission = lambda request: control.DenyTool(message="the moon is wrong", toolUseID=request["tool_use_id"])
    await cli.turn(f"SCRIPT:bash touch {cwd / 'denied'}")
    assert not (cwd / "denied").exists()
    contents = [message["content"] for message in model.of("bash")[-1].since_last_answer if message["role"] == "user"]
    results = [block for content in contents for block in content if block["type"] == "tool_result"]
    assert "the moon is wrong" in str(results), "as the result of the tool"


async def a_denial_can_abort_the_whole_run(cli: RealCli, cwd: Path, model: ScriptedModel) -> None:
    cli.permission = lambda request: control.DenyTool(message="stop", interrupt=True)
    await cli.turn("SCRIPT:bash touch aborted")
    assert [request.step for request in model.of("bash")] == [0], "the model was not asked again"
    assert (await cli.turn("SCRIPT:text"))["subtype"] == "success"


async def a_changed_input_is_the_one_that_runs(cli: RealCli, cwd: Path, model: ScriptedModel) -> None:
    (cwd / "everything").mkdir()
    cli.permission = lambda request: control.AllowTool(updatedInput={"command": 'echo "blocked"'})
    await cli.turn("SCRIPT:bash rm -rf ./everything")
    assert [m for m in cli.all("user") if "blocked" in str(m)], "the changed command ran"
    assert (cwd / "everything").exists()
    (ran,) = callbacks(cli)
    assert ran["input"]["tool_input"] == {"command": 'echo "blocked"'}, "the description that was left out is gone"
    moved = cwd / "moved.txt"
    cli.permission = lambda request: control.AllowTool(updatedInput={**request["input"], "file_path": str(moved)})
    await cli.turn(f"SCRIPT:write {cwd / 'asked.txt'}")
    assert moved.exists()
    assert not (cwd / "asked.txt").exists()


async def updated_permissions_hold_for_the_session(cli: RealCli, cwd: Path, model: ScriptedModel) -> None:
    cli.permission = allowing(PYTHON_RULE, destination="session")
    await cli.turn("SCRIPT:bash python3 one.py")
    await cli.turn("SCRIPT:bash python3 two.py")
    assert cli.asked() == ["Bash"]
    cli.permission = allowing({"type": "setMode", "mode": "acceptEdits"}, destination="session")
    await cli.turn(f"SCRIPT:write {cwd / 'a.txt'}")
    await cli.turn(f"SCRIPT:write {cwd / 'b.txt'}")
    assert cli.asked() == ["Bash", "Write"]


@on_versions()
@pytest.mark.rules("S004-006", "S004-217", "S004-224")
async def test_updated_permissions_in_the_settings_hold_for_a_process_that_asks_nobody(
    start: Start, cli_cwd: Path
) -> None:
    """Without its flag it asks for no permission over stdio: it runs what the settings allow, and denies the rest."""
    async with start() as cli:
        cli.permission = allowing(PYTHON_RULE, destination="userSettings")
        await cli.turn("SCRIPT:bash python3 one.py")
        assert cli.asked() == ["Bash"]
    async with start(base=BASE) as cli:
        assert (await cli.turn("SCRIPT:bash python3 two.py"))["permission_denials"] == []
        result = await cli.turn(f"SCRIPT:write {cli_cwd / 'a.txt'}")
        assert cli.asked() == []
        assert [denial["tool_name"] for denial in result["permission_denials"]] == ["Write"]


@on_versions()
@pytest.mark.usefixtures("agreed")  # newer versions ignore the rules that an untrusted project's own files allow
@pytest.mark.rules("S004-226", "S004-227", "S004-229", "S004-230", "S004-231", "S004-232")
async def test_an_answer_changes_rules_and_folders_at_each_destination(
    start: Start, cli_cwd: Path, cli_home: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("a")
    files = {
        "userSettings": cli_home / ".claude" / "settings.json",
        "projectSettings": cli_cwd / ".claude" / "settings.json",
        "localSettings": cli_cwd / ".claude" / "settings.local.json",
        "session": None,
        "cliArg": None,
    }
    async with start() as cli:

        async def is_asked(script: str, update: Message | None = None, destination: str = "session") -> bool:
            """Whether this call is asked about; it is allowed, with that change of the permissions."""
            before = len(cli.asked())
            cli.permission = allowing(update, destination) if update else allowing(NOTHING, "session")
            await cli.turn(f"SCRIPT:{script}")
            return len(cli.asked()) > before

        changes = [*(("addRules", destination) for destination in files), ("replaceRules", "session")]
        for number, (kind, destination) in enumerate(changes):
            update: Message = {
                "type": kind,
                "rules": [{"toolName": "Bash", "ruleContent": f"python3 {number}.py:*"}],
                "behavior": "allow",
            }
            assert await is_asked(f"bash python3 {number}.py", update, destination), (kind, destination)
            assert not await is_asked(f"bash python3 {number}.py once more"), (kind, destination)
            if (file := files[destination]) is not None:
                assert f"Bash(python3 {number}.py:*)" in json.loads(file.read_text())["permissions"]["allow"]
            assert await is_asked(f"bash python3 other{number}", {**update, "type": "removeRules"}, destination)
        assert await is_asked("bash python3 0.py"), "a removed rule allows nothing"
        for kind, is_denied in (("deny", True), ("ask", False)):
            rules = [{"toolName": "Bash", "ruleContent": f"python3 {kind}.py:*"}]
            assert await is_asked(f"bash python3 {kind}", {"type": "addRules", "rules": rules, "behavior": kind})
            assert await is_asked(f"bash python3 {kind}.py") is not is_denied
        read = f"read {outside / 'a.txt'}"
        folders = {"directories": [str(outside)]}
        assert await is_asked(read, {"type": "addDirectories", **folders})
        assert not await is_asked(read)
        assert await is_asked("bash python3 last", {"type": "removeDirectories", **folders})
        assert await is_asked(read)


# --- hooks -------------------------------------------------------------------------------------------------


@on_versions()
@pytest.mark.rules("S004-052", "S004-053", "S004-137", "S004-138", "S004-200", "S004-207", "S004-208", "S004-209")
@pytest.mark.rules("S004-242", "S004-193", "S004-194", "S004-332", "S004-195")
async def test_a_hook_allows_denies_or_leaves_it_to_the_next_layer(
    start: Start, cli_cwd: Path, model: ScriptedModel
) -> None:
    async with start() as cli:
        quick = {"hookCallbackIds": ["h1"], "matcher": "Bash", "timeout": 30}
        slow = {"hookCallbackIds": ["slow"], "matcher": "Read", "timeout": 1}
        await cli.set_up(hooks={"PreToolUse": (quick, slow)})
        cli.hook = lambda request: deciding("allow")
        await cli.turn(f"SCRIPT:bash touch {cli_cwd / 'a'}")
        assert (cli_cwd / "a").exists()
        cli.hook = lambda request: deciding("deny", permissionDecisionReason="by our rules")
        await cli.turn(f"SCRIPT:bash touch {cli_cwd / 'b'}")
        assert not (cli_cwd / "b").exists()
        assert "by our rules" in str(model.of("bash")[-1].since_last_answer)
        assert cli.asked() == [], "decided in the first layer"
        cli.hook = lambda request: deciding("ask")
        await cli.turn(f"SCRIPT:bash touch {cli_cwd / 'c'}")
        assert cli.asked() == ["Bash"]
        assert {request["callback_id"] for request in callbacks(cli)} == {"h1"}
        both_ways = {"control_request", "control_response"}
        assert both_ways <= {json.loads(line)["type"] for line in cli.sent}
        assert both_ways <= {message["type"] for message in cli.seen}
        for request in callbacks(cli):
            assert request["input"]["tool_name"] == "Bash"
            assert request["tool_use_id"] == request["input"]["tool_use_id"]
        count = len(callbacks(cli))
        await cli.turn(f"SCRIPT:write {cli_cwd / 'd.txt'}")
        assert len(callbacks(cli)) == count, "the matcher names another tool"
        cli.scene()
        await a_hook_that_is_not_answered_in_its_time_is_not_waited_for(cli, cli_cwd)


async def a_hook_that_is_not_answered_in_its_time_is_not_waited_for(cli: RealCli, cwd: Path) -> None:
    (cwd / "e.txt").write_text("the tide is high")
    cli.hook = None
    assert (await cli.turn(f"SCRIPT:read {cwd / 'e.txt'}"))["subtype"] == "success"
    assert [request["callback_id"] for request in callbacks(cli)] == ["slow"]


OF_TOOLS = {"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"}
EVENTS = OF_TOOLS | {"UserPromptSubmit", "Stop", "SubagentStart", "SubagentStop"}


def answering(event: str, answer: control.HookAnswer | Message) -> Callable[[Message], Any]:
    """A hook handler that decides about one event and leaves the others unchanged."""
    return lambda request: answer if request["callback_id"] == event else control.HookAnswer()


@on_versions()
@pytest.mark.rules("S004-342", "S004-193", "S004-197", "S004-201", "S004-202", "S004-196", "S004-204", "S004-203")
@pytest.mark.rules("S004-198", "S004-199")
async def test_hooks_of_every_event_are_told_and_decide(start: Start, cli_cwd: Path, model: ScriptedModel) -> None:
    async with start() as cli:
        await cli.set_up(hooks={event: [{"hookCallbackIds": [event]}] for event in EVENTS})
        await events_are_reported_by_name(cli)
        for scene in (
            a_hook_blocks_changes_the_input_and_adds_context,
            every_field_of_an_answer_may_be_left_out_or_given,
            an_async_answer_does_not_hold_the_tool_up,
            a_permission_request_hook_decides_the_request,
            a_hook_can_stop_the_run,
        ):
            cli.scene()
            model.requests.clear()
            await scene(cli, cli_cwd, model)


@on_versions()
@pytest.mark.rules("S004-075", "S004-076", "S004-116", "S004-117", "S004-118", "S004-119", "S004-120")
async def test_runs_of_the_hooks_of_the_settings_are_reported(start: Start, version: str, cli_cwd: Path) -> None:
    gate = cli_cwd / "gate"
    commands: list[Message] = [
        {"command": "echo good"},
        {"command": "echo bad >&2; exit 1"},
        {"command": "sleep 300", "timeout": 1},
        {"command": f"echo one; while [ ! -e {gate} ]; do sleep 0.1; done; echo two"},
    ]
    hooks = {"SessionStart": [{"hooks": [{"type": "command", **command} for command in commands]}]}
    async with start("--settings", json.dumps({"hooks": hooks})) as cli:
        await cli.prompt("SCRIPT:text")
        if since(version, "2.1.120"):
            await cli.until(lambda message: message.get("subtype") == "hook_progress")
        gate.touch()
        await cli.until("result")
        started, ended = cli.all("system", "hook_started"), cli.all("system", "hook_response")
        names = {"type", "subtype", "hook_id", "hook_name", "hook_event", "uuid", "session_id"}
        for record in started:
            assert record.keys() == names
            assert (record["hook_name"], record["hook_event"]) == ("SessionStart:startup", "SessionStart")
            assert record["session_id"] == cli.init["session_id"]
        for record in cli.all("system", "hook_progress"):
            assert record.keys() == names | {"stdout", "stderr", "output"}
            assert (record["stdout"], record["stderr"], record["output"]) == ("one\n", "", "one\n")
        for record in ended:
            assert record.keys() == names | {"stdout", "stderr", "output", "exit_code", "outcome"}
        (cancelled,) = [run for run in ended if run["outcome"] == "cancelled"]
        assert (cancelled["stdout"], cancelled["exit_code"] != 0) == ("", True)
        runs = [(run["stdout"], run["stderr"], run["exit_code"], run["outcome"]) for run in ended if run != cancelled]
        assert sorted(runs) == [
            ("", "bad\n", 1, "error"),
            ("good\n", "", 0, "success"),
            ("one\ntwo\n", "", 0, "success"),
        ]
        of_one_run = {record["hook_id"] for record in started}
        assert of_one_run == {record["hook_id"] for record in ended} and len(of_one_run) == len(commands)
        assert len({record["uuid"] for record in (*started, *ended)}) == 2 * len(commands)
        assert all(isinstance(name, str) for name in cli.init.get("skills", ()))
        assert all({"name", "path"} <= plugin.keys() for plugin in cli.init.get("plugins", ()))
        assert bool(cli.init["skills"]) and (bool(cli.init["plugins"]) or not since(version, "2.1.325"))


async def events_are_reported_by_name(cli: RealCli) -> None:
    await cli.turn("SCRIPT:subagent bash touch made")
    await cli.turn("SCRIPT:bash python3 -c 'raise SystemExit(1)'")
    names = {request["input"]["hook_event_name"] for request in callbacks(cli)}
    assert names == EVENTS
    for request in callbacks(cli):
        assert request["callback_id"] == request["input"]["hook_event_name"]
        assert ("tool_name" in request["input"]) == (request["callback_id"] in OF_TOOLS)


async def a_hook_blocks_changes_the_input_and_adds_context(cli: RealCli, cwd: Path, model: ScriptedModel) -> None:
    cli.hook = answering("PreToolUse", control.HookAnswer(decision="block", reason="blocked here"))
    await cli.turn(f"SCRIPT:bash touch {cwd / 'a'}")
    assert not (cwd / "a").exists()
    cli.hook = answering("PreToolUse", deciding("allow", updatedInput={"command": f"touch {cwd / 'changed'}"}))
    await cli.turn(f"SCRIPT:bash touch {cwd / 'b'}")
    assert (cwd / "changed").exists()
    assert not (cwd / "b").exists()
    output = control.HookOutput(hookEventName="UserPromptSubmit", additionalContext="the tide is high")
    cli.hook = answering("UserPromptSubmit", control.HookAnswer(hookSpecificOutput=output))
    await cli.turn("SCRIPT:text x")
    assert "the tide is high" in str(model.of("text")[-1].since_last_answer)
    output = control.HookOutput(hookEventName="PostToolUse", additionalContext="the tide is low")
    cli.hook = answering("PostToolUse", control.HookAnswer(hookSpecificOutput=output))
    await cli.turn("SCRIPT:tool")
    assert "the tide is low" in str(model.of("tool")[-1].since_last_answer)


async def every_field_of_an_answer_may_be_left_out_or_given(cli: RealCli, cwd: Path, model: ScriptedModel) -> None:
    cli.hook = answering("PreToolUse", control.HookAnswer())
    await cli.turn(f"SCRIPT:bash touch {cwd / 'left-out'}")
    assert cli.asked() == ["Bash"], "an empty answer decides nothing"
    assert (cwd / "left-out").exists()
    every = control.HookAnswer(
        continue_=True,
        suppressOutput=True,
        stopReason="not now",
        decision="approve",
        reason="it is harmless",
        systemMessage="a note",
    )
    cli.hook = answering("PreToolUse", every)
    await cli.turn(f"SCRIPT:bash touch {cwd / 'said'}")
    assert cli.asked() == ["Bash"], "approved"
    assert (cwd / "said").exists()


async def an_async_answer_does_not_hold_the_tool_up(cli: RealCli, cwd: Path, model: ScriptedModel) -> None:
    answers: dict[str, Message] = {"c": {"async": True}, "d": {"async": True, "asyncTimeout": 5000}}
    for name, answer in answers.items():
        cli.hook = answering("PreToolUse", answer)
        assert (await cli.turn(f"SCRIPT:bash touch {cwd / name}"))["subtype"] == "success"
        assert (cwd / name).exists()
    assert [request["callback_id"] for request in callbacks(cli)].count("PreToolUse") == 2


async def a_permission_request_hook_decides_the_request(cli: RealCli, cwd: Path, model: ScriptedModel) -> None:
    decision = {"behavior": "allow", "updatedInput": {"command": f"touch {cwd / 'e'}"}}
    output = control.HookOutput(hookEventName="PermissionRequest", decision=decision)
    cli.hook = answering("PermissionRequest", control.HookAnswer(hookSpecificOutput=output))
    cli.permission = None
    await cli.turn(f"SCRIPT:bash touch {cwd / 'e'}")
    assert (cwd / "e").exists()
    no = control.HookOutput(
        hookEventName="PermissionRequest", decision={"behavior": "deny", "message": "the moon is wrong"}
    )
    cli.hook = answering("PermissionRequest", control.HookAnswer(hookSpecificOutput=no))
    await cli.turn(f"SCRIPT:bash touch {cwd / 'f'}")
    assert not (cwd / "f").exists()
    assert "the moon is wrong" in str(model.of("bash")[-1].since_last_answer)


async def a_hook_can_stop_the_run(cli: RealCli, cwd: Path, model: ScriptedModel) -> None:
    cli.hook = answering("PostToolUse", control.HookAnswer(continue_=False, stopReason="enough"))
    await cli.turn("SCRIPT:tool")
    assert [request.step for request in model.of("tool")] == [0], "the model was not asked again"


# --- the CLI's own rules ---------------------------------------------------------------------------------------


@on_versions()
@pytest.mark.rules("S004-210", "S004-211", "S004-212", "S004-214", "S004-215", "S004-340", "S004-213", "S004-337")
async def test_its_own_rules_deny_before_they_ask_and_ask_before_they_allow(start: Start, cli_cwd: Path) -> None:
    touch, make = "Bash(touch:*)", "Bash(python3:*)"
    rules = {"deny": [touch], "ask": [touch, "Write"], "allow": [touch, "Write", make]}
    async with start("--settings", json.dumps({"permissions": rules})) as cli:
        await cli.turn(f"SCRIPT:bash touch {cli_cwd / 'a'}")
        assert cli.asked() == []
        assert not (cli_cwd / "a").exists()
        await cli.turn('SCRIPT:bash python3 -c \'open("b", "w")\'')
        assert cli.asked() == [], "a rule allows it"
        assert (cli_cwd / "b").exists()
        await cli.turn(f"SCRIPT:write {cli_cwd / 'c.txt'}")
        assert cli.asked() == ["Write"]
        await cli.got("set_permission_mode", mode="dontAsk")
        await cli.turn('SCRIPT:bash python3 -c \'open("d", "w")\'')
        await cli.turn(f"SCRIPT:bash mkdir {cli_cwd / 'e'}")
        assert cli.asked() == ["Write"]
        assert ((cli_cwd / "d").exists(), (cli_cwd / "e").exists()) == (True, False), "what no rule allows is denied"
    modes = ("--permission-mode", "bypassPermissions", "--dangerously-skip-permissions")
    async with start("--settings", json.dumps({"permissions": rules}), *modes) as cli:
        await cli.turn(f"SCRIPT:bash touch {cli_cwd / 'a'}")
        assert cli.asked() == []
        assert not (cli_cwd / "a").exists(), "a rule denies before the mode allows"
        await cli.turn(f"SCRIPT:bash mkdir {cli_cwd / 'f'}")
        assert cli.asked() == [], "bypass asks nobody"
        assert (cli_cwd / "f").exists()


# --- prompts, agents, schemas --------------------------------------------------------------------------------


@on_versions()
@pytest.mark.rules("S004-141", "S004-142", "S004-143", "S004-097", "S004-140", "S004-074")
async def test_prompts_agents_and_a_schema_of_initialize_reach_the_model(start: Start, model: ScriptedModel) -> None:
    async with start() as cli:
        await cli.set_up(systemPrompt="You are a lighthouse.")
        assert "structured_output" not in await cli.turn("SCRIPT:text"), "there is no schema"
        replaced = model.of("text")[-1].system
        assert "You are a lighthouse." in replaced
    agents = {"pilot": {"description": "Guides ships", "prompt": "Guide."}}
    schema = {"type": "object", "properties": {"answer": {"type": "number"}}, "required": ["answer"]}
    async with start() as cli:
        await cli.set_up(appendSystemPrompt="Mind the rocks.", agents=agents, jsonSchema=schema)
        result = await cli.turn('SCRIPT:structured {"answer": 42}')
        assert result["structured_output"] == {"answer": 42}
        sent = model.of("structured")[-1]
        assert "Mind the rocks." in sent.system
        assert len(sent.system) > 10 * len(replaced), "one was added to the CLI's own, the other stands in its place"
        assert "pilot" in cli.init["agents"]
        assert all(isinstance(name, str) for name in cli.init["agents"])


# --- MCP -------------------------------------------------------------------------------------------------------

_SERVER = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    result = {}
    if asked["method"] == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "small", "version": "1 " + os.environ["TIDE"]}}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": "nothing", "description": "x", "inputSchema": {"type": "object"},
                             "annotations": {"readOnlyHint": True, "openWorldHint": True}},
                            {"name": "bare", "description": "y", "inputSchema": {"type": "object"}},
                            {"name": "harm", "description": "z", "inputSchema": {"type": "object"},
                             "annotations": {"destructiveHint": True}}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@on_versions()
@pytest.mark.rules("S004-070", "S004-139", "S004-175", "S004-180", "S004-183", "S004-333")
@pytest.mark.rules("S004-181", "S004-182", "S004-184", "S004-188", "S004-332")
async def test_a_server_of_ours_is_called_over_the_wire(start: Start, version: str, model: ScriptedModel) -> None:
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
        early = await cli.got("mcp_status")
        if not since(version, "2.1.121"):
            assert early["mcpServers"] == [], "it comes with the first turn"
        await cli.turn("SCRIPT:mcp mcp__adder__add")
        assert [call["name"] for call in adder.calls] == ["add"]
        assert "sum=3" in str(model.of("mcp")[-1].since_last_answer)
        (entry,) = cli.init["mcp_servers"]
        assert entry["name"] == "adder" and isinstance(entry["status"], str)
        status = await cli.got("mcp_status")
        assert "adder" in [server["name"] for server in status["mcpServers"]]
        for message in cli.all("control_request", "mcp_message"):
            assert message["request"]["server_name"] == "adder"
            assert message["request"]["message"]["jsonrpc"] == "2.0"
        listed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        answer = await cli.ask("mcp_message", server_name="adder", message=listed)
        assert answer["subtype"] == "success"
        assert not answer.get("response"), "nothing but that it was taken"


@on_versions()
@pytest.mark.rules("S004-176", "S004-177", "S004-178", "S004-179", "S004-185", "S004-186", "S004-187")
@pytest.mark.rules("S004-188", "S004-189")
async def test_servers_are_set_toggled_and_told(start: Start, version: str, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(_SERVER)
    good = {"type": "stdio", "command": sys.executable, "args": [str(script)], "env": {"TIDE": "high"}}
    broken = {"type": "stdio", "command": "/nowhere/server"}
    far = {"type": "http", "url": "http://127.0.0.1:9/mcp"}
    older = {"type": "sse", "url": "http://127.0.0.1:9/sse"}
    async with start() as cli:
        await cli.set_up()

        async def states(**wanted: str) -> dict[str, Message]:
            """The status of its servers, once they are in these states."""
            async with asyncio.timeout(PATIENCE):
                while True:
                    status = (await cli.got("mcp_status"))["mcpServers"]
                    servers = {server["name"]: server for server in status}
                    if {name: servers.get(name, {}).get("status") for name in wanted} == wanted:
                        return servers

        await cli.got("mcp_set_servers", servers={"small": good, "gone": broken, "far": far, "older": older})
        servers = await states(small="connected", gone="failed", far="failed", older="failed")
        for name, server in servers.items():
            assert (server["name"], type(server["scope"])) == (name, str)
        small, gone = servers["small"], servers["gone"]
        assert small["config"] == {"type": "stdio", "command": sys.executable, "args": [str(script)]}
        assert servers["far"]["config"] == far
        assert servers["older"]["config"] == older
        tools = {tool["name"]: tool.get("annotations") or {} for tool in small["tools"]}
        assert tools == {"nothing": {"readOnly": True, "openWorld": True}, "bare": {}, "harm": {"destructive": True}}
        assert small["serverInfo"] == {"name": "small", "version": "1 high"}, "it has the variable"
        assert "error" not in small
        assert isinstance(gone["error"], str)
        assert not {"serverInfo", "tools"} & gone.keys()
        listed = [server["name"] for server in (await cli.got("mcp_status"))["mcpServers"]]
        twice = not since(version, "2.1.77")
        assert listed.count("small") == (2 if twice else 1)
        changes: list[tuple[str, Message, str]] = [
            ("mcp_toggle", {"enabled": False}, "disabled"),
            ("mcp_toggle", {"enabled": True}, "connected"),
            ("mcp_reconnect", {}, "connected"),
        ]
        for subtype, fields, status in changes:
            answer = await cli.ask(subtype, serverName="small", **fields)
            if twice:
                assert "Server not found" in answer["error"]
            else:
                assert answer["subtype"] == "success"
                await states(small=status)
