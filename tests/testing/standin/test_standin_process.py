"""The stand-in as a process: every script, and every request that a gateway may send."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.agents.scripts import catalogue
from patience import PATIENCE
from testing.standin.standin_host import Record, allow, deny, standin

pytestmark = pytest.mark.process

# Scripts that end by themselves with a success when everything is allowed, and a part of their result.
FINISHING = {
    "text hello": "hello",
    "echo": "I see 1 messages.",
    "long 20": "word19",
    "think": "thought",
    "tool": "hi",
    "bash pwd": "project",
    "write new.txt": "created",
    "read here.txt": "hello",
    "edit here.txt": "updated",
    "parallel": "no output",
    "twice": "no output",
    "subagent tool": "Done. The tool said: hi",
    "question": "Blue",
    "plan": "approved",
    "slow 1": "tick",
    "slowtool 0": "1",
    "todo": "changed",
    "glob *.txt": "here.txt",
    "error_once": "second attempt",
    "cut": "second attempt",
    "unknown": "unknown types",
    "burst 10": "word",
    'structured {"a": 2}': '{"a": 2}',
    "mcp mcp__nobody__add": "No such tool",
    "background tool": "launched",
    "bgbash echo hi": "background",
}


def permit(request: Record) -> Record:
    if request["tool_name"] == "AskUserQuestion":
        return {"behavior": "allow", "updatedInput": {**request["input"], "answers": {"Which colour?": "Blue"}}}
    return allow(request)


@pytest.mark.parametrize("script", FINISHING)
async def test_a_script_runs_to_its_end(script: str, tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        (host.cwd / "here.txt").write_text("hello\nworld\n")
        host.permit = permit
        result = await host.ask(f"SCRIPT:{script}")
        assert result["subtype"] == "success"
        assert not result["is_error"]
        assert FINISHING[script] in result["result"]
        assert await host.end() == 0


def test_no_script_is_left_untested() -> None:
    elsewhere = {"loop", "error", "crash"}
    assert {name for name, _, _ in catalogue()} == {s.split()[0] for s in FINISHING} | elsewhere


async def test_a_prompt_without_a_marker_gets_the_tour(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        result = await host.ask("hello there")
        assert "SCRIPT:write" in result["result"]


async def test_initialize_is_answered_before_any_prompt_and_nothing_else_is_sent(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        answer = await host.control("initialize")
        assert {"commands", "models", "account"} <= set(answer)
        assert [r["type"] for r in host.seen] == ["control_response"]


async def test_every_turn_begins_with_init_and_costs_add_up(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        first = await host.ask("SCRIPT:tool")
        second = await host.ask("SCRIPT:text")
        assert len(host.of("init")) == 2
        assert {r["session_id"] for r in host.seen} == {first["session_id"]}
        (model,) = first["modelUsage"]
        assert second["total_cost_usd"] == pytest.approx(first["total_cost_usd"] * 1.5)
        assert second["model_usage_since_last_result"][model]["outputTokens"] == second["usage"]["output_tokens"]
        assert second["modelUsage"][model]["outputTokens"] == 3 * second["usage"]["output_tokens"]


async def test_deltas_come_only_when_asked_for_and_join_to_the_text(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.ask("SCRIPT:long 30")
        assert host.of("stream_event") == []
    async with standin(tmp_path, partial=True) as host:
        result = await host.ask("SCRIPT:long 30")
        events = [r["event"] for r in host.of("stream_event")]
        deltas = [e["delta"]["text"] for e in events if e["type"] == "content_block_delta"]
        assert len(deltas) > 20
        assert "".join(d for d in deltas) == result["result"]


async def test_each_block_has_one_assistant_record_under_one_message_id(tmp_path: Path) -> None:
    async with standin(tmp_path, partial=True) as host:
        await host.ask("SCRIPT:think")
        first, second = host.of("assistant")
        assert first["message"]["id"] == second["message"]["id"]
        assert first["uuid"] != second["uuid"]
        assert first["message"]["stop_reason"] is None
        order = [r["event"]["type"] if r["type"] == "stream_event" else r["type"] for r in host.seen]
        assert order.index("assistant") < order.index("content_block_stop")
        assert order[-3:] == ["message_delta", "message_stop", "result"]


async def test_a_denied_tool_does_not_run_and_the_model_gets_the_reason(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        host.permit = deny
        result = await host.ask("SCRIPT:write secret.txt")
        assert result["result"] == "The tool failed: no way"
        assert not (host.cwd / "secret.txt").exists()


async def test_a_changed_input_is_what_runs(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        host.permit = lambda request: {"behavior": "allow", "updatedInput": {"command": "touch other"}}
        await host.ask("SCRIPT:bash touch mine")
        assert (host.cwd / "other").exists()
        assert not (host.cwd / "mine").exists()


def decides(decision: str) -> Record:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision}}


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
async def test_a_hooks_deny_holds_in_every_mode(mode: str, tmp_path: Path) -> None:
    async with standin(tmp_path, "--permission-mode", mode) as host:
        host.permit = allow
        host.hook = lambda request: decides("deny")
        await host.control("initialize", hooks={"PreToolUse": [{"hookCallbackIds": ["policy"]}]})
        await host.ask("SCRIPT:write no.txt")
        assert not (host.cwd / "no.txt").exists()


async def test_a_second_initialize_replaces_the_hooks(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.control("initialize", hooks={"PreToolUse": [{"hookCallbackIds": ["h"]}]})
        await host.control("initialize", hooks={})
        assert (await host.ask("SCRIPT:tool"))["result"] == "Done. The tool said: hi"


async def test_a_failing_hook_blocks_when_the_host_requested_it(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.control("initialize", hooks={"PreToolUse": [{"hookCallbackIds": ["h"], "onFailure": "block"}]})
        await host.prompt("SCRIPT:tool")
        request = await host.until(lambda r: r["type"] == "control_request")
        body = {"subtype": "error", "request_id": request["request_id"], "error": "host broke"}
        await host.send({"type": "control_response", "response": body})
        assert "failed to answer its hook" in (await host.result())["result"]


async def test_a_person_can_deny_and_end_the_run(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        host.permit = lambda request: {"behavior": "deny", "message": "enough", "interrupt": True}
        assert (await host.ask("SCRIPT:bash touch a"))["subtype"] == "error_during_execution"


async def test_no_schema_means_no_structured_output(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.control("initialize", jsonSchema=None, sdkMcpServers=None)
        await host.ask("SCRIPT:text")
        assert "StructuredOutput" not in host.of("init")[0]["tools"]


async def test_files_are_rewound_to_a_prompt(tmp_path: Path) -> None:
    prompts = [f"{n}1111111-1111-4111-8111-111111111111" for n in range(2)]
    async with standin(tmp_path) as host:
        host.permit = allow
        for uuid, prompt in zip(prompts, ("SCRIPT:write a.txt", "SCRIPT:edit a.txt"), strict=True):
            await host.prompt(prompt, uuid=uuid)
            await host.result()
        file = host.cwd / "a.txt"
        would = await host.control("rewind_files", user_message_id=prompts[1], dry_run=True)
        assert would == {"canRewind": True, "filesChanged": [str(file)], "insertions": 1, "deletions": 1}
        assert "goodbye" in file.read_text()
        await host.control("rewind_files", user_message_id=prompts[1])
        assert file.read_text() == "hello\nworld\n"
        await host.control("rewind_files", user_message_id=prompts[0])
        assert not file.exists()
        assert "error" in await host.control("rewind_files", user_message_id="nowhere")


async def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        host.permit = lambda request: {"behavior": "allow", "updatedInput": {"command": "sleep 60", "timeout": 50}}
        assert "timed out" in (await host.ask("SCRIPT:bash touch a"))["result"]


async def test_tools_report_their_failures(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        host.permit = allow
        (host.cwd / "other.txt").write_text("nothing to find")
        assert "not found" in (await host.ask("SCRIPT:edit other.txt"))["result"]
        assert "Cannot write" in (await host.ask("SCRIPT:write other.txt/below"))["result"]
        assert "No files found" in (await host.ask("SCRIPT:glob *.nothing"))["result"]


async def test_an_interrupt_during_a_tool_kills_the_command(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        host.permit = allow
        await host.prompt("SCRIPT:bash echo $$ > pid; sleep 60")
        await host.asked()
        async with asyncio.timeout(PATIENCE):
            while not (pid := _read(host.cwd / "pid")):
                await asyncio.sleep(0.01)
        await host.control("interrupt")
        result = await host.result()
        assert (result["subtype"], result["is_error"]) == ("error_during_execution", True)
        assert "for tool use" in host.of("user")[-1]["message"]["content"][0]["text"]
        assert not _alive(int(pid))
        assert not (await host.ask("SCRIPT:text"))["is_error"]


async def test_an_interrupt_in_mid_text_keeps_the_text_so_far(tmp_path: Path) -> None:
    async with standin(tmp_path, partial=True) as host:
        await host.prompt("SCRIPT:slow 40")
        await host.until(lambda r: r["type"] == "stream_event" and r["event"]["type"] == "content_block_delta")
        await host.control("interrupt")
        before = len(host.seen)
        assert (await host.result())["subtype"] == "error_during_execution"
        # The answer to the interrupt comes first, then the rest of the message.
        rest = [r["event"]["type"] if r["type"] == "stream_event" else r["type"] for r in host.seen[before:]]
        assert rest == ["assistant", "content_block_stop", "message_delta", "message_stop", "user", "result"]
        assert host.of("assistant")[0]["message"]["content"][0]["text"].startswith("tick ")
        assert (await host.ask("SCRIPT:echo"))["result"] == "I see 4 messages."


async def test_an_interrupt_withdraws_a_question_and_stops_a_subagent(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.prompt("SCRIPT:subagent bash touch a")
        request = await host.asked()
        await host.control("interrupt")
        assert (await host.result())["is_error"]
        assert [r["request_id"] for r in host.of("control_cancel_request")] == [request["request_id"]]
        assert [r["status"] for r in host.of("task_notification")] == ["stopped"]
        assert not (host.cwd / "a").exists()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


async def test_an_idle_interrupt_is_answered_and_ends_nothing(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        assert await host.control("interrupt") == {}
        assert not (await host.ask("SCRIPT:text"))["is_error"]
        assert len(host.of("result")) == 1


async def test_an_unknown_control_request_is_refused_by_name(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        answer = await host.control("no_such_thing")
        assert answer["error"] == "Unsupported control request subtype: no_such_thing"


async def test_modes_are_validated_and_reported(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        assert await host.control("set_permission_mode", mode="plan") == {"mode": "plan"}
        assert "must be one of" in (await host.control("set_permission_mode", mode="nonsense"))["error"]
        assert "not launched" in (await host.control("set_permission_mode", mode="bypassPermissions"))["error"]
        await host.ask("SCRIPT:text")
        assert [r["permissionMode"] for r in host.of("status")] == ["plan"]
        assert host.of("init")[0]["permissionMode"] == "plan"


async def test_the_model_is_changed_by_alias(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        assert await host.control("set_model", model="haiku") == {"model": "claude-haiku-5-5"}
        assert await host.control("set_max_thinking_tokens", max_thinking_tokens=4000) == {}
        result = await host.ask("SCRIPT:text")
        assert list(result["modelUsage"]) == ["claude-haiku-5-5"]


async def test_a_subagents_records_carry_its_call(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.ask("SCRIPT:subagent tool")
        (call,) = [r for r in host.of("assistant") if r["message"]["content"][0].get("name") == "Agent"]
        call_id = call["message"]["content"][0]["id"]
        inside = [r for r in host.seen if r.get("parent_tool_use_id") == call_id]
        assert [r["type"] for r in inside] == ["user", "assistant", "assistant", "user", "assistant"]
        assert {r["tool_use_id"] for r in host.of("task_notification")} == {call_id}


async def test_a_subagent_of_a_subagent(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        result = await host.ask("SCRIPT:subagent subagent tool")
        assert "The tool said: hi" in result["result"]
        assert len(host.of("task_started")) == 2


async def test_a_background_subagent_gives_a_second_result(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        host.permit = allow
        first = await host.ask("SCRIPT:background bash touch later")
        second = await host.result()
        assert "launched" in first["result"]
        assert 'Agent "demo job" finished' in second["result"]
        assert (host.cwd / "later").exists()
        assert host.of("background_tasks_changed")[-1]["tasks"] == []


async def test_a_background_task_can_be_stopped(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        host.permit = allow
        await host.ask("SCRIPT:bgbash sleep 60")
        (started,) = host.of("task_started")
        await host.control("stop_task", task_id=started["task_id"])
        notification = await host.until(lambda r: r.get("subtype") == "task_notification")
        assert notification["status"] == "stopped"


async def test_a_slow_tool_shows_its_progress(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        host.permit = allow
        await host.ask("SCRIPT:slowtool 2")
        call = host.of("assistant")[-2]["message"]["content"][0]
        first = host.of("tool_progress")[0]
        assert (first["tool_use_id"], first["elapsed_time_seconds"]) == (call["id"], 1)


@pytest.mark.parametrize("status", [400, 401, 429, 529])
async def test_an_api_error_is_a_success_with_is_error(status: int, tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        result = await host.ask(f"SCRIPT:error {status}")
        assert (result["subtype"], result["is_error"]) == ("success", True)
        assert result["api_error_status"] == status
        assert host.of("assistant")[0]["message"]["model"] == "<synthetic>"
        assert len(host.of("api_retry")) == (0 if status == 400 else 2)
        assert len(host.of("rate_limit_event")) == (1 if status == 429 else 0)
        assert await host.end() == 1


async def test_a_loop_ends_at_max_turns(tmp_path: Path) -> None:
    async with standin(tmp_path, "--max-turns", "3") as host:
        result = await host.ask("SCRIPT:loop")
        assert (result["subtype"], result["num_turns"]) == ("error_max_turns", 4)


async def test_a_crash_leaves_a_broken_turn_and_stderr_output(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.prompt("SCRIPT:crash")
        while await host.read() is not None:
            continue
        assert await host.process.wait() == 1
        assert "crashed" in await host.errors()
        assert host.of("result") == []


async def test_a_crash_of_a_background_subagent_is_a_crash_of_the_process(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.prompt("SCRIPT:background crash")
        while await host.read() is not None:
            continue
        assert await host.process.wait() == 1


async def test_invalid_messages_of_the_host_are_tolerated(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        for message in ("text", 7, None, {"content": 7}, {"content": None}):
            await host.send({"type": "user", "message": message})
        await host.send({"type": "control_request", "request_id": "x", "request": "what"})
        await host.send({"type": "control_response", "response": "what"})
        await host.control("initialize", hooks=[1, 2])
        await host.send({"type": "user", "message": {"content": [1, {"type": "text", "text": "SCRIPT:text borne"}]}})
        assert "borne" in (await host.result())["result"]


async def test_an_unwritable_home_loses_only_the_transcript(tmp_path: Path) -> None:
    async with standin(tmp_path, env={"HOME": "/proc/nowhere"}) as host:
        assert not (await host.ask("SCRIPT:text"))["is_error"]
        await host.end()
        assert "no transcript is kept" in await host.errors()


async def test_unknown_records_are_sent(tmp_path: Path) -> None:
    async with standin(tmp_path, partial=True) as host:
        await host.ask("SCRIPT:unknown")
        assert host.of("demo_unheard_of")
        assert host.of("demo_never_seen")
        assert [r for r in host.of("stream_event") if r["event"]["type"] == "demo_event"]


async def test_prompts_sent_while_busy_are_one_turn(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.prompt("SCRIPT:slow 2")
        await host.prompt("SCRIPT:text two")
        await host.prompt("SCRIPT:text three")
        results = [await host.result(), await host.result()]
        assert "three" in results[1]["result"]
        assert await host.end() == 0
        assert len(host.of("result")) == 2


async def test_a_prompt_sent_during_a_tool_joins_the_turn(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.prompt("SCRIPT:bash touch a")
        request = await host.asked()
        await host.prompt("SCRIPT:text steered")
        await host.reply(request, allow(request["request"]))
        result = await host.result()
        assert "steered" in result["result"]
        assert await host.end() == 0
        assert len(host.of("result")) == 1


async def test_a_repeated_uuid_is_answered_once(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.prompt("SCRIPT:text", uuid="u1")
        await host.result()
        await host.prompt("SCRIPT:text", uuid="u1")
        await host.prompt("SCRIPT:echo", uuid="u2")
        assert (await host.result())["result"] == "I see 3 messages."
        assert len(host.of("result")) == 2


async def test_an_mcp_server_of_the_host_is_called(tmp_path: Path) -> None:
    def serve(message: Record) -> Record:
        results: dict[str, Record] = {
            "initialize": {"serverInfo": {"name": "demo", "version": "1"}},
            "tools/list": {"tools": [{"name": "add"}]},
            "tools/call": {"content": [{"type": "text", "text": "3"}]},
        }
        return {"jsonrpc": "2.0", "id": message.get("id"), "result": results.get(message["method"], {})}

    async with standin(tmp_path) as host:
        host.permit = allow
        await host.control("initialize", sdkMcpServers=["demo"])
        await host.prompt("SCRIPT:mcp mcp__demo__add")
        while True:
            record = await host.until(lambda r: r["type"] in ("result", "control_request"))
            if record["type"] == "result":
                break
            if record["request"]["subtype"] == "mcp_message":
                await host.reply(record, {"mcp_response": serve(record["request"]["message"])})
        assert record["result"] == "Done. The tool said: 3"
        assert [server["name"] for server in host.of("init")[0]["mcp_servers"]] == ["demo"]
        assert (await host.control("mcp_status"))["mcpServers"][0]["tools"] == [{"name": "add"}]


async def test_lines_that_mean_nothing_are_skipped(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        assert host.process.stdin is not None
        host.process.stdin.write(b"\n  \n{broken\n")
        await host.send({"type": "who_knows"})
        await host.send({"type": "keep_alive"})
        await host.send({"type": "control_response", "response": {"request_id": "nobody", "subtype": "success"}})
        assert not (await host.ask("SCRIPT:text"))["is_error"]


async def test_sigterm_ends_the_agent_and_its_command(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        host.permit = allow
        await host.prompt("SCRIPT:bash echo $$ > pid; sleep 60")
        await host.asked()
        async with asyncio.timeout(PATIENCE):
            while not (pid := _read(host.cwd / "pid")):
                await asyncio.sleep(0.01)
        host.process.terminate()
        assert await host.process.wait() == 143
        async with asyncio.timeout(PATIENCE):
            while _alive(int(pid)):
                await asyncio.sleep(0.01)


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fairlead_testing.standin_cli", *flags]
    return subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False
    )


def test_the_version_names_the_imitated_cli() -> None:
    assert run("--version").stdout == "2.1.325 (Fairlead stand-in)\n"


def test_an_unknown_flag_is_an_error() -> None:
    done = run("-p", "--nonsense")
    assert done.returncode != 0
    assert "unrecognized arguments: --nonsense" in done.stderr


def test_the_demo_agent_starts_without_the_libraries_of_the_server() -> None:
    code = (
        "import sys, fairlead_testing.standin_cli.agent, fairlead.agents.scripts;"
        "print([m for m in ('starlette', 'uvicorn', 'typer', 'httpx2', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == "[]\n"


async def test_a_burst_is_complete(tmp_path: Path) -> None:
    async with standin(tmp_path, partial=True) as host:
        await host.ask("SCRIPT:burst 5000")
        deltas = [r for r in host.of("stream_event") if r["event"]["type"] == "content_block_delta"]
        assert len(deltas) == 5000
        assert len({r["uuid"] for r in deltas}) == 5000
        assert len(host.of("assistant")[0]["message"]["content"][0]["text"]) == 5 * 5000


async def test_output_is_one_json_object_per_line(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        assert host.process.stdout is not None
        await host.prompt("SCRIPT:text line\\nbreak ü \u2028 end")
        while b'"result"' not in (line := await host.process.stdout.readline()):
            assert json.loads(line)["session_id"]
