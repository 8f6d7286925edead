"""The stand-in's transcripts: resume, fork, and a host that disappears in the middle of a turn."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from patience import PATIENCE
from testing.standin.standin_host import allow, standin

pytestmark = pytest.mark.process


async def first_session(tmp_path: Path, *prompts: str) -> str:
    async with standin(tmp_path) as host:
        host.permit = allow
        for prompt in prompts:
            result = await host.ask(prompt)
        await host.end()
    return str(result["session_id"])


async def test_a_resume_has_the_history_and_replays_nothing(tmp_path: Path) -> None:
    session = await first_session(tmp_path, "SCRIPT:text one", "SCRIPT:tool")
    async with standin(tmp_path, "--resume", session) as host:
        result = await host.ask("SCRIPT:echo")
        assert result["session_id"] == session
        # user, assistant; user, assistant, tool result, assistant; user
        assert result["result"] == "I see 7 messages."
        assert [r["type"] for r in host.seen] == ["system", "assistant", "result"]


async def test_a_message_sent_into_a_turn_is_part_of_the_history(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.prompt("SCRIPT:bash touch a")
        request = await host.asked()
        await host.prompt("SCRIPT:text steered")
        await host.reply(request, allow(request["request"]))
        session = (await host.result())["session_id"]
        await host.end()
    async with standin(tmp_path, "--resume", session) as host:
        # user, assistant, tool result, the message sent, assistant; user
        assert (await host.ask("SCRIPT:echo"))["result"] == "I see 6 messages."


async def test_a_fork_has_the_history_under_its_own_id(tmp_path: Path) -> None:
    session = await first_session(tmp_path, "SCRIPT:text one")
    async with standin(tmp_path, "--resume", session, "--fork-session") as host:
        result = await host.ask("SCRIPT:echo")
        assert result["session_id"] != session
        assert result["result"] == "I see 3 messages."
        await host.end()
        forked = host.transcript(result["session_id"])
        assert {r["sessionId"] for r in forked} == {result["session_id"]}
        assert len([r for r in host.transcript(session) if r["type"] == "user"]) == 1


async def test_a_resume_at_a_message_forgets_what_came_later(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.ask("SCRIPT:text one")
        at = host.of("assistant")[0]["uuid"]
        session = (await host.ask("SCRIPT:text two"))["session_id"]
        await host.end()
    async with standin(tmp_path, "--resume", session, "--resume-session-at", at) as host:
        assert (await host.ask("SCRIPT:echo"))["result"] == "I see 3 messages."
        await host.end()
    async with standin(tmp_path, "--resume", session) as host:
        assert (await host.ask("SCRIPT:echo"))["result"] == "I see 5 messages."


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--resume", "560124e2-5fa3-489d-883b-d29d91279acc"], "No conversation found with session ID: 560124e2"),
        (["--resume", "SESSION", "--resume-session-at", "nowhere"], "No message found with message.uuid of: nowhere"),
    ],
)
async def test_nothing_to_resume_is_a_lone_failed_result(flags: list[str], error: str, tmp_path: Path) -> None:
    session = await first_session(tmp_path, "SCRIPT:text")
    async with standin(tmp_path, *(f.replace("SESSION", session) for f in flags)) as host:
        result = await host.result()
        assert (result["subtype"], result["is_error"]) == ("error_during_execution", True)
        assert result["errors"][0].startswith(error)
        assert await host.end() == 1
        assert error in await host.errors()


async def test_a_given_session_id_is_used(tmp_path: Path) -> None:
    wanted = "560124e2-5fa3-489d-883b-d29d91279acc"
    async with standin(tmp_path, "--session-id", wanted) as host:
        assert (await host.ask("SCRIPT:text"))["session_id"] == wanted


async def test_an_id_with_a_transcript_is_rejected_for_a_new_session(tmp_path: Path) -> None:
    session = await first_session(tmp_path, "SCRIPT:text")
    async with standin(tmp_path, "--session-id", session) as host:
        assert await host.end() == 1
        assert [r["errors"] for r in host.seen] == [[f"Error: Session ID {session} is already in use."]]


async def test_the_transcript_repeats_the_wire_by_uuid(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        host.permit = allow
        session = (await host.ask("SCRIPT:edit f.txt"))["session_id"]
        await host.prompt("SCRIPT:write f.txt", uuid="11111111-1111-4111-8111-111111111111")
        await host.result()
        lines = {r["uuid"]: r for r in host.transcript(session) if "uuid" in r}
        for record in [*host.of("assistant"), *host.of("user")]:
            assert lines[record["uuid"]]["message"]["content"] == record["message"]["content"]
        assert lines["11111111-1111-4111-8111-111111111111"]["message"]["content"] == "SCRIPT:write f.txt"
        parents = [r["parentUuid"] for r in lines.values()]
        assert parents == [None, *list(lines)[:-1]]
        assert {r["cwd"] for r in lines.values()} == {str(host.cwd)}
        assert {r["message"]["stop_reason"] for r in lines.values() if r["type"] == "assistant"} == {
            "tool_use",
            "end_turn",
        }


async def test_a_subagent_has_its_own_file_that_names_its_call(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        session = (await host.ask("SCRIPT:subagent tool"))["session_id"]
        agent = host.of("task_started")[0]["task_id"]
        (path,) = host.home.glob(f".claude/projects/*/{session}/subagents/agent-{agent}.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert [r["type"] for r in lines] == ["user", "assistant", "assistant", "user", "assistant"]
        assert {(r["isSidechain"], r["agentId"], r["sessionId"]) for r in lines} == {(True, agent, session)}
        meta = json.loads(path.with_suffix(".meta.json").read_text())
        assert meta["toolUseId"] == host.of("task_started")[0]["tool_use_id"]


async def test_a_resume_after_kill_9_has_the_finished_messages(tmp_path: Path) -> None:
    async with standin(tmp_path, partial=True) as host:
        session = (await host.ask("SCRIPT:text one"))["session_id"]
        await host.prompt("SCRIPT:slow")
        await host.until(lambda r: r["type"] == "stream_event" and r["event"]["type"] == "content_block_delta")
        host.process.kill()
        await host.process.wait()
    async with standin(tmp_path, "--resume", session) as host:
        # Two prompts in a row: the interrupted answer was never finished, so it was never written.
        assert (await host.ask("SCRIPT:echo"))["result"] == "I see 4 messages."


def _tear(tmp_path: Path, session: str) -> None:
    (path,) = tmp_path.glob(f"home/.claude/projects/*/{session}.jsonl")
    path.write_text(path.read_text() + '{"type":"user","uu')


async def test_a_torn_last_line_does_not_stop_a_resume(tmp_path: Path) -> None:
    session = await first_session(tmp_path, "SCRIPT:text one")
    _tear(tmp_path, session)
    async with standin(tmp_path, "--resume", session) as host:
        assert (await host.ask("SCRIPT:echo"))["result"] == "I see 3 messages."


async def test_compaction_replaces_the_history_also_after_a_resume(tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        await host.ask("SCRIPT:text one")
        compacted = await host.ask("/compact")
        assert not compacted["is_error"]
        statuses = [r["status"] for r in host.of("status")]
        assert statuses == ["compacting", None]
        assert (await host.ask("SCRIPT:echo"))["result"] == "I see 2 messages."
        await host.end()
    async with standin(tmp_path, "--resume", compacted["session_id"]) as host:
        result = (await host.ask("SCRIPT:echo"))["result"]
        # the summary and the command's own output, the prompt and the answer, the prompt
        assert result == "I see 5 messages."


@pytest.mark.parametrize("prompt", ["SCRIPT:slow 3", "SCRIPT:bash sleep 0.5; touch done"])
async def test_the_agent_finishes_its_turn_after_the_host_dies(prompt: str, tmp_path: Path) -> None:
    async with standin(tmp_path) as host:
        assert host.process.stdout is not None
        host.permit = allow
        await host.prompt(prompt)
        session = (await host.until(lambda r: r.get("subtype") == "init"))["session_id"]
        if "bash" in prompt:
            await host.asked()
        # Both pipes break at once, as they do when a gateway is killed.
        host.close_stdin()
        host.process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]  # no public way
        async with asyncio.timeout(PATIENCE):
            await host.process.wait()
        last = [r for r in host.transcript(session) if r["type"] == "assistant"][-1]
        assert last["message"]["stop_reason"] == "end_turn"
