"""The seed's statements about the CLI itself, over stdio: its flags, its life cycle, resume and fork, its modes."""

import asyncio
import json
import os
import re
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from e2e.cli_wire import ASKING, BASE, RealCli, allow, real_cli
from e2e.harness import NEWEST, OLDEST, on_versions, since
from fairlead.agents.claude.versions import Abilities, parse_version
from fairlead.agents.claude.wire import control
from fairlead.agents.claude.wire.control import cancel_line
from fairlead.model.ids import is_uuid
from fairlead_testing.model_api import ScriptedModel
from patience import PATIENCE

Start = Callable[..., AbstractAsyncContextManager[RealCli]]


@pytest.fixture
def start(claude: Path, cli_env: dict[str, str], cli_cwd: Path) -> Start:
    env = {**cli_env, "CLAUDE_CODE_MAX_RETRIES": "1", "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "1"}
    return lambda *arguments, **more: real_cli(claude, env, cli_cwd, *arguments, **more)


@on_versions()
@pytest.mark.rules("S004-031", "S004-037", "S004-065", "S004-077", "S004-136", "S004-144", "S004-145", "S004-146")
@pytest.mark.rules("S004-147", "S004-148", "S004-240", "S004-241", "S004-249", "S004-328")
@pytest.mark.rules("S004-237", "S004-244", "S004-265")
@pytest.mark.rules("S004-170", "S004-171", "S004-172", "S004-173", "S004-174", "S004-333", "S004-243", "S004-235")
@pytest.mark.rules("S004-234", "S004-339", "S004-132", "S004-167", "S004-168", "S004-169", "S004-214", "S004-340")
@pytest.mark.rules("S004-301", "S004-248")
async def test_the_life_of_one_process(start: Start, version: str, cli_cwd: Path, model: ScriptedModel) -> None:
    async with start() as cli:
        await initialize_then_three_turns(cli)
        for scene in (
            model_and_thinking_are_set_by_request,
            prompts_sent_while_it_works_are_worked_off_in_order,
            an_interrupt_withdraws_the_permission_that_waits,
            an_unanswered_permission_is_waited_for,
            the_mode_delegate_is_known_to_old_versions_alone,
            the_mode_is_set_by_request,
            the_withdrawal_of_a_request_ends_an_old_version_and_no_new_one,
        ):
            cli.scene()
            model.requests.clear()
            await scene(cli, version, cli_cwd, model)


async def initialize_then_three_turns(cli: RealCli) -> None:
    info = await cli.set_up()
    assert cli.all("system", "init") == [], "nothing but the answer before the first prompt"
    assert json.loads(cli.sent[0])["request"] == {"subtype": "initialize"}
    assert info["commands"]
    for command in info["commands"]:
        assert isinstance(command["name"], str) and isinstance(command["description"], str)
        assert isinstance(command.get("argumentHint", ""), str)
    assert isinstance(info["output_style"], str)
    assert all(isinstance(style, str) for style in info["available_output_styles"])
    assert info["available_output_styles"]
    assert info["models"]
    assert all({"value", "displayName", "description"} <= entry.keys() for entry in info["models"])
    account = ("email", "organization", "subscriptionType", "apiKeySource")
    assert all(isinstance(info["account"].get(name, ""), str) for name in account)
    names = [await _prompted(cli, f"SCRIPT:text {n}") for n in range(3)]
    kinds = [m["type"] for m in cli.seen if m["type"] in ("control_response", "system", "assistant", "result")]
    assert kinds.index("control_response") < kinds.index("system") < kinds.index("assistant")
    assert kinds.index("assistant") < kinds.index("result")
    assert len(cli.all("system", "init")) == 3
    assert len({init["session_id"] for init in cli.all("system", "init")}) == 1
    turns = [m for m in cli.seen if m["type"] in ("assistant", "result") or m.get("subtype") == "init"]
    assert [m["type"] for m in turns] == ["system", "assistant", "result"] * 3
    (session,) = {m["session_id"] for m in turns}
    assert is_uuid(session), "made by itself: no flag gave it"
    assert cli.process.returncode is None
    await _written(cli, set(names))


async def _prompted(cli: RealCli, text: str) -> str:
    name = await cli.prompt(text)
    result = await cli.until("result")
    assert result["subtype"] == "success"
    return name


async def _written(cli: RealCli, uuids: set[str]) -> None:
    """Wait until the transcript has rows with these uuids; it lags behind the wire, and its last line may be
    incomplete.
    """
    async with asyncio.timeout(PATIENCE):
        while True:
            lines = cli.transcript().read_text().split("\n")[:-1]
            if uuids <= {json.loads(line).get("uuid") for line in lines if line}:
                return
            await asyncio.sleep(0.02)


async def model_and_thinking_are_set_by_request(cli: RealCli, version: str, cwd: Path, model: ScriptedModel) -> None:
    await cli.turn("SCRIPT:text a")
    reply = await cli.got("set_model", model="claude-haiku-4-5")
    assert reply == ({"model": "claude-haiku-4-5"} if since(version, "2.1.310") else {})
    assert not await cli.got("set_max_thinking_tokens", max_thinking_tokens=2000)
    await cli.turn("SCRIPT:text b")
    await cli.got("set_model", model="default")
    assert not await cli.got("set_max_thinking_tokens", max_thinking_tokens=None)
    await cli.turn("SCRIPT:text c")
    first, second, third = (request.model for request in model.of("text"))
    assert second == "claude-haiku-4-5"
    assert first == third != second


async def prompts_sent_while_it_works_are_worked_off_in_order(
    cli: RealCli, version: str, cwd: Path, model: ScriptedModel
) -> None:
    await cli.prompt("SCRIPT:slow 4")
    await cli.prompt("SCRIPT:text two")
    await cli.prompt("SCRIPT:text three")
    await cli.until(lambda m: m["type"] == "result" and m["result"].endswith("three"))
    results = [m["result"].split()[-1] for m in cli.all("result")]
    in_one = ["tick", "three"]  # newer versions take queued prompts as one turn
    assert results in (["tick", "two", "three"], in_one)
    last = str(model.of("text")[-1].conversation)
    assert -1 < last.find("SCRIPT:text two") < last.find("SCRIPT:text three")


async def an_interrupt_withdraws_the_permission_that_waits(
    cli: RealCli, version: str, cwd: Path, model: ScriptedModel
) -> None:
    cli.permission = None
    await cli.prompt("SCRIPT:bash touch withdrawn")
    asked = await cli.until(lambda m: m.get("request", {}).get("subtype") == "can_use_tool")
    await cli.got("interrupt")
    withdrawn = await cli.until("control_cancel_request")
    assert withdrawn["request_id"] == asked["request_id"]
    await cli.until("result")


async def an_unanswered_permission_is_waited_for(cli: RealCli, version: str, cwd: Path, model: ScriptedModel) -> None:
    if not since(version, NEWEST):
        return
    cli.permission = None
    await cli.prompt(f"SCRIPT:bash touch {cwd / 'at-last'}")
    asked = await cli.until(lambda m: m.get("request", {}).get("subtype") == "can_use_tool")
    await asyncio.sleep(10)
    assert cli.all("result") == cli.all("control_cancel_request") == []
    await cli.write(control.answer_line(asked["request_id"], allow(asked["request"])))
    assert (await cli.until("result"))["subtype"] == "success"
    assert (cwd / "at-last").exists()


async def the_mode_delegate_is_known_to_old_versions_alone(
    cli: RealCli, version: str, cwd: Path, model: ScriptedModel
) -> None:
    answer = await cli.ask("set_permission_mode", mode="delegate")
    assert answer["subtype"] == ("error" if since(version, "2.1.220") else "success")


async def the_mode_is_set_by_request(cli: RealCli, version: str, cwd: Path, model: ScriptedModel) -> None:
    assert (await cli.got("set_permission_mode", mode="dontAsk"))["mode"] == "dontAsk"
    name = json.loads(cli.sent[-1])["request_id"]
    await cli.turn(f"SCRIPT:write {cwd / 'a.txt'}")
    answers = [m["response"] for m in cli.all("control_response") if m["response"]["request_id"] == name]
    assert len(answers) == (1 if since(version, "2.1.77") else 2)
    assert not any(answer.get("response") for answer in answers[1:]), "the second answer is empty"
    assert cli.asked() == []
    assert not (cwd / "a.txt").exists(), "what no rule allows is denied"
    answer = await cli.ask("set_permission_mode", mode="bypassPermissions")
    if not since(version, "2.1.77"):
        assert answer["subtype"] == "success", "the old CLI takes anything: the gateway must refuse it"
    else:
        words = "Cannot set permission mode to bypassPermissions because "
        assert answer["error"].startswith(f"{words}the session was not launched with --dangerously-")


async def the_withdrawal_of_a_request_ends_an_old_version_and_no_new_one(
    cli: RealCli, version: str, cwd: Path, model: ScriptedModel
) -> None:
    """A new version ends when its input is closed after a result."""
    known = parse_version(version)
    assert known is not None
    await cli.write(cancel_line("asked-before"))
    if Abilities(known).takes_cancel:
        assert (await cli.turn("SCRIPT:text after"))["subtype"] == "success"
        assert await cli.close() == 0
    else:
        assert await cli.ended() == 1


@on_versions(OLDEST, daily=False)
async def test_another_output_format_ends_it_with_its_own_words(start: Start) -> None:
    base = tuple("text" if BASE[place - 1] == "--output-format" else word for place, word in enumerate(BASE))
    async with start(base=(*base, *ASKING)) as cli:
        await cli.write(b"{}\n")
        assert await cli.close() != 0
        assert cli.stderr


@on_versions()
@pytest.mark.rules("S004-010", "S004-329", "S004-164", "S004-166", "S004-266", "S004-332", "S004-013", "S004-215")
@pytest.mark.rules("S004-245", "S004-246", "S004-247")
async def test_deltas_come_with_their_flag_alone(start: Start, cli_cwd: Path, model: ScriptedModel) -> None:
    async with start("--replay-user-messages", "--allowedTools", "Write") as cli:
        await cli.turn("SCRIPT:long 30")
        assert cli.all("stream_event") == [], "--verbose is not enough"
        cli.scene()
        await allowed_tools_are_not_asked_about(cli, cli_cwd)
        cli.scene()
        await a_prompt_whose_uuid_was_seen_is_skipped(cli, model)
    async with start("--include-partial-messages") as cli:
        await cli.prompt("SCRIPT:slow 6")
        await cli.until(lambda m: m["type"] == "stream_event" and m["event"]["type"] == "content_block_delta")
        assert cli.all("assistant") == [], "output while it is made"
        await cli.until("result")
        assert len(cli.all("stream_event")) > 6
        cli.scene()
        await an_interrupt_aborts_the_turn_and_the_next_prompt_works(cli)


async def allowed_tools_are_not_asked_about(cli: RealCli, cwd: Path) -> None:
    await cli.turn(f"SCRIPT:write {cwd / 'a.txt'}")
    assert cli.asked() == []
    assert (cwd / "a.txt").exists()


async def a_prompt_whose_uuid_was_seen_is_skipped(cli: RealCli, model: ScriptedModel) -> None:
    name = await _prompted(cli, "SCRIPT:text once")
    await cli.prompt("SCRIPT:text once", name)
    await cli.until(lambda m: m["type"] == "user" and bool(m.get("isReplay")) and m.get("uuid") == name)
    for _ in range(2):
        await cli.write(b'{"type":"user","message":{"role":"user","content":"SCRIPT:text nameless"},')
        await cli.write(b'"parent_tool_use_id":null,"session_id":""}\n')
        await cli.until("result")
    asked = [request.argument for request in model.of("text")]
    assert (asked.count("once"), asked.count("nameless")) == (1, 2)


async def an_interrupt_aborts_the_turn_and_the_next_prompt_works(cli: RealCli) -> None:
    await cli.prompt("SCRIPT:slow 200")
    await cli.until(lambda m: m["type"] == "stream_event" and m["event"]["type"] == "content_block_delta")
    await cli.got("interrupt")
    assert (await cli.until("result"))["subtype"] == "error_during_execution"
    assert (await cli.turn("SCRIPT:text after"))["subtype"] == "success"


@on_versions()
@pytest.mark.rules("S004-011", "S004-012", "S004-216", "S004-217", "S004-334", "S004-335", "S004-336", "S004-135")
@pytest.mark.rules("S004-190", "S004-191", "S004-192", "S004-333")
async def test_the_first_model_and_mode_are_those_of_the_flags(start: Start, cli_cwd: Path) -> None:
    """Nothing initializes these processes: that is optional."""
    async with start("--model", "claude-haiku-4-5", "--permission-mode", "acceptEdits") as cli:
        await cli.turn(f"SCRIPT:write {cli_cwd / 'a.txt'}")
        assert (cli.init["model"], cli.init["permissionMode"]) == ("claude-haiku-4-5", "acceptEdits")
        assert cli.asked() == [], "edits are approved"
        assert (cli_cwd / "a.txt").exists()
        await cli.turn("SCRIPT:bash python3 -c 1")
        assert cli.asked() == ["Bash"], "other tools still ask"
        cli.scene()
        await rewinding_puts_the_files_back(cli, cli_cwd)
    async with start("--permission-mode", "default") as cli:
        await cli.turn(f"SCRIPT:write {cli_cwd / 'b.txt'}")
        assert cli.asked() == ["Write"]


async def rewinding_puts_the_files_back(cli: RealCli, cwd: Path) -> None:
    target = cwd / "rewound.txt"
    name = await _prompted(cli, f"SCRIPT:write {target}")
    assert target.exists()
    dry = await cli.got("rewind_files", user_message_id=name, dry_run=True)
    assert dry["canRewind"] is True
    assert dry["filesChanged"] == [str(target)]
    assert isinstance(dry["insertions"], int) and isinstance(dry["deletions"], int)
    assert target.exists()
    done = await cli.got("rewind_files", user_message_id=name)
    assert done["canRewind"] is True
    assert not {"filesChanged", "insertions", "deletions"} & done.keys(), "a dry run alone counts"
    assert not target.exists()


@pytest.mark.slow
@on_versions()
@pytest.mark.rules("S004-014", "S004-015", "S004-239", "S004-253", "S004-256", "S004-257", "S004-327")
@pytest.mark.rules("S004-254", "S004-237", "S004-258", "S004-259", "S004-260", "S004-261", "S004-262", "S004-252")
@pytest.mark.rules("S004-308")
async def test_resume_continue_and_fork_go_on_with_a_conversation(start: Start, model: ScriptedModel) -> None:
    async with start() as cli:
        await cli.turn("SCRIPT:text an older session of the folder")
        older = cli.init["session_id"]
        assert await cli.close() == 0
    async with start() as cli:
        await cli.turn("SCRIPT:text remember me")
        first = cli.all("assistant")[-1]["uuid"]
        await cli.turn("SCRIPT:text second")
        session = cli.init["session_id"]
        assert await cli.close() == 0
    transcript = cli.transcript(session)
    assert transcript.parent.name == re.sub("[^A-Za-z0-9]", "-", cli.init["cwd"])
    assert session != older, "every process makes an id of its own"
    assert {uuid.UUID(name).version for name in (older, session)} == {4}, "a random one"
    await they_go_on_with_the_conversation(start, model, session)
    model.requests.clear()
    await a_fork_has_its_own_id_and_leaves_the_original_alone(start, model, transcript, first)
    await resume_reads_the_transcript_of_the_folder(start, model, transcript)


def content(transcript: Path) -> bytes:
    return transcript.read_bytes()


def rewrite(transcript: Path, old: str, new: str) -> None:
    transcript.write_text(transcript.read_text().replace(old, new))


async def they_go_on_with_the_conversation(start: Start, model: ScriptedModel, session: str) -> None:
    for arguments in (("--resume", session), ("--continue",)):
        asked = len([request for request in model.requests if request.script])
        async with start(*arguments, "--replay-user-messages") as cli:
            await cli.set_up()
            assert cli.all("system", "init") == []
            assert len([request for request in model.requests if request.script]) == asked, "it waits for a prompt"
            name = await _prompted(cli, "SCRIPT:echo")
            assert [m["uuid"] for m in cli.seen if m.get("isReplay")] == [name], "nothing of before is said again"
            assert cli.init["session_id"] == session
            assert int(cli.all("result")[-1]["result"].split()[2]) >= 3
            assert "remember me" in str(model.of("echo")[-1].conversation)
            assert await cli.close() == 0


async def a_fork_has_its_own_id_and_leaves_the_original_alone(
    start: Start, model: ScriptedModel, transcript: Path, first: str
) -> None:
    session, before = transcript.stem, content(transcript)
    ids = {session}
    for more in ((), ("--resume-session-at", first)):
        async with start("--resume", session, "--fork-session", *more) as cli:
            await cli.turn("SCRIPT:echo")
            assert is_uuid(cli.init["session_id"])
            assert cli.init["session_id"] not in ids
            ids.add(cli.init["session_id"])
            await cli.close()
            assert content(transcript) == before
    whole, early = (str(request.conversation) for request in model.of("echo"))
    assert "SCRIPT:text remember me" in whole and "SCRIPT:text second" in whole
    assert "SCRIPT:text remember me" in early and "SCRIPT:text second" not in early, "history is cut after that message"


async def resume_reads_the_transcript_of_the_folder(start: Start, model: ScriptedModel, transcript: Path) -> None:
    session = transcript.stem
    rewrite(transcript, "remember me", "remember the sea")
    async with start("--resume", session) as cli:
        await cli.turn("SCRIPT:text again")
        assert "remember the sea" in str(model.of("text")[-1].conversation)
        assert await cli.close() == 0
    os.unlink(transcript)
    async with start("--resume", session) as cli:
        await cli.prompt("SCRIPT:echo")
        assert await cli.ended() == 1
        (result,) = cli.all("result")
        assert result["subtype"] == "error_during_execution"
        assert "No conversation found" in str(result["errors"]) + cli.stderr


@on_versions()
@pytest.mark.rules("S004-338")
async def test_plan_mode_reads_freely_and_shows_the_plan_for_approval(start: Start, cli_cwd: Path) -> None:
    (cli_cwd / "a.txt").write_text("the tide is high")
    async with start("--permission-mode", "plan") as cli:
        cli.permission = lambda request: control.DenyTool(message="not yet")
        await cli.turn(f"SCRIPT:read {cli_cwd / 'a.txt'}")
        assert "the tide is high" in str(cli.all("user"))
        assert cli.asked() == [], "reading needs no word"
        await cli.turn(f"SCRIPT:write {cli_cwd / 'b.txt'}")
        assert not (cli_cwd / "b.txt").exists()
        cli.permission = allow
        await cli.turn("SCRIPT:plan")
        assert cli.asked() == ["Write", "ExitPlanMode"]
