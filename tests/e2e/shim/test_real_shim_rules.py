"""The rules of the shim with the real CLI: which runs it lends, what the policy does, how a run ends."""

import signal
from pathlib import Path

import pytest

from e2e.gateway_harness import GatewayHarness, open_gateway, settings
from e2e.harness import NEWEST, on_versions
from e2e.shim.caller import ASKING, SHIM, STREAM_JSON, Line, asks_for, calling, trust
from fairlead_testing.model_api import ScriptedModel

SESSION = "5b9d0c1e-3c55-4a0f-9f43-0d9c1f5c8a41"
RUN = [*SHIM, "claude", *STREAM_JSON]


def session_of(lines: list[Line]) -> str:
    return next(str(line["session_id"]) for line in lines if line["type"] == "system")


@on_versions(NEWEST)
async def test_the_policy_observes(harness: GatewayHarness, shim_env: dict[str, str], cli_cwd: Path) -> None:
    """What a rule denies is denied. Nothing else is decided for the caller: neither asked nor allowed."""
    argv = [*RUN, *ASKING, "--session-id", SESSION, "--allowedTools", "Bash(echo mine:*)"]
    async with calling(argv, shim_env, cli_cwd) as caller:
        await caller.request("r1", "initialize")
        await caller.until("control_response")
        await harness.watch(SESSION)
        rules = {"allow": ["Bash(touch:*)"], "deny": ["Bash(echo secret:*)"]}
        await harness.do("set_rules", **rules)

        # The caller's own flag allows it, and the gateway does not ask.
        await caller.prompt("SCRIPT:bash echo mine")
        await caller.until("result")
        assert not harness.all("permission.asked")

        # A rule of the gateway allows it, and the caller is asked all the same.
        await caller.prompt("SCRIPT:bash touch made")
        card = await caller.until(asks_for("Bash"))
        await caller.respond(card, {"behavior": "deny", "message": "not now"})
        await caller.until("result")
        assert not (cli_cwd / "made").exists()

        # A rule of the gateway denies it.
        await caller.prompt("SCRIPT:bash echo secret")
        await caller.until("result")
        assert not any(asks_for("Bash")(line) and "secret" in str(line) for line in caller.lines)
        denied = await harness.until(lambda line: line["type"] == "permission.resolved" and line["how"] == "rule")
        assert denied["behavior"] == "deny"
        assert await caller.ended() == 0


@on_versions(NEWEST)
async def test_a_folder_that_is_not_trusted_is_left_alone(
    harness: GatewayHarness, shim_env: dict[str, str], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    env = {name: value for name, value in shim_env.items() if name != "FAIRLEAD_SHIM"}
    async with calling([*RUN, *ASKING], env, other) as caller:
        await caller.prompt("SCRIPT:text hello")
        await caller.until("result")
        assert await caller.ended() == 0
    (line,) = caller.stderr.decode().splitlines()
    assert line.startswith("fairlead: Claude Code runs without the gateway: ")
    assert "is not trusted" in line and line.endswith(f"fairlead trust {other}")
    assert (await harness.http.get("/v1/sessions?transcripts=false")).json()["sessions"] == [], "no session is left"


@on_versions(NEWEST)
async def test_a_mode_that_the_gateway_forbids_is_left_alone(
    harness: GatewayHarness, shim_env: dict[str, str], cli_cwd: Path
) -> None:
    bypass = [*RUN, "--dangerously-skip-permissions"]
    async with calling(bypass, shim_env, cli_cwd) as caller:
        assert await caller.ended() == 1
    assert b"bypassPermissions" in caller.stderr
    env = {name: value for name, value in shim_env.items() if name != "FAIRLEAD_SHIM"}
    async with calling(bypass, env, cli_cwd) as caller:
        await caller.prompt("SCRIPT:bash touch made")
        await caller.until("result")
        assert await caller.ended() == 0
    assert (cli_cwd / "made").exists()
    assert len(caller.stderr.splitlines()) == 1


@on_versions(NEWEST)
async def test_a_script_that_closes_its_input_gets_its_answer(
    harness: GatewayHarness, shim_env: dict[str, str], cli_cwd: Path
) -> None:
    """`echo PROMPT | claude ...`: the policy hook of the shim needs the CLI's input for longer than the script does."""
    allowed = ["--allowedTools", "Bash", "--session-id", SESSION]
    async with calling([*RUN, *allowed], shim_env, cli_cwd) as caller:
        await caller.prompt("SCRIPT:twice")
        assert await caller.ended() == 0
    (result,) = [line for line in caller.lines if line["type"] == "result"]
    assert result["subtype"] == "success"
    assert not any(line["type"].startswith("control_") for line in caller.lines)
    await harness.watch(SESSION)
    await harness.until("agent.exited")
    assert [line["status"] for line in harness.all("turn.ended")] == ["completed"]


@on_versions(NEWEST)
async def test_a_conversation_is_resumed_continued_and_forked(
    harness: GatewayHarness, shim_env: dict[str, str], cli_cwd: Path
) -> None:
    async def say(*arguments: str) -> str:
        async with calling([*RUN, *ASKING, *arguments], shim_env, cli_cwd) as caller:
            await caller.prompt("SCRIPT:echo")
            await caller.until("result")
            assert await caller.ended() == 0
            assert caller.stderr == b""
        return session_of(caller.lines)

    first = await say()
    await harness.watch(first)
    await harness.until("agent.exited")
    assert await say("--resume", first) == first
    await harness.until("agent.exited")
    assert await say("--continue") == first
    await harness.until("agent.exited")
    assert len(harness.all("turn.ended")) == 3
    assert len(harness.all("user.message")) == 3
    child = await say("--resume", first, "--fork-session")
    assert child != first
    assert (await harness.http.get(f"/v1/sessions/{child}")).status_code == 200

    # A session that began in the gateway goes on at a caller, and here again.
    await harness.leave()
    begun = await harness.open("SCRIPT:text here")
    await harness.until("turn.ended")
    assert await say("--resume", begun) == begun
    await harness.until(lambda line: line["type"] == "agent.exited" and line.get("code") == 0)
    assert (await harness.turn("SCRIPT:echo"))["status"] == "completed"


@on_versions(NEWEST)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signals_end_the_cli(
    harness: GatewayHarness,
    shim_env: dict[str, str],
    cli_cwd: Path,
    number: signal.Signals,
    claude: Path,
    cli_env: dict[str, str],
) -> None:
    async def ended_by_signal(argv: list[str], env: dict[str, str]) -> int:
        async with calling([*argv, *STREAM_JSON, *ASKING, "--include-partial-messages"], env, cli_cwd) as caller:
            await caller.prompt("SCRIPT:slow 400")
            await caller.until(lambda line: line["type"] == "stream_event" and "tick" in str(line))
            caller.process.send_signal(number)
            return await caller.process.wait()

    alone = await ended_by_signal([str(claude)], cli_env)
    assert await ended_by_signal([*SHIM, "claude"], shim_env) == alone


@on_versions(NEWEST)
async def test_a_person_can_end_it(harness: GatewayHarness, shim_env: dict[str, str], cli_cwd: Path) -> None:
    async with calling([*RUN, *ASKING, "--session-id", SESSION], shim_env, cli_cwd) as caller:
        await caller.prompt("SCRIPT:text hello")
        await caller.until("result")
        await harness.watch(SESSION)
        await harness.do("close")
        assert await caller.process.wait() == 0


@on_versions(NEWEST)
async def test_people_may_answer_for_a_caller_that_cannot(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path, model: ScriptedModel
) -> None:
    config = settings(
        tmp_path / "data", tmp_path, agent="claude", claude=str(claude), pass_env=["IS_SANDBOX"], shim_approvals=True
    )
    async with open_gateway(config, cli_env, cli_cwd) as harness:
        await trust(harness.http, cli_cwd)
        env = {
            **cli_env,
            "FAIRLEAD_URL": harness.gateway.url,
            "FAIRLEAD_TOKEN": harness.gateway.token,
            "FAIRLEAD_CLAUDE": str(claude),
            "FAIRLEAD_SHIM": "require",
            "FAIRLEAD_SHIM_WAIT_MS": "60000",
        }
        async with calling([*RUN, "--session-id", SESSION], env, cli_cwd) as caller:
            await caller.prompt("SCRIPT:bash touch made")
            caller.end_input()
            await caller.until("system")
            await harness.watch(SESSION)
            await harness.answer(await harness.until("permission.asked"))
            assert await caller.ended() == 0
        assert (cli_cwd / "made").exists()
        assert not any(line["type"].startswith("control_") for line in caller.lines)


@on_versions(NEWEST)
async def test_a_session_that_is_at_work_gets_no_second_process(
    harness: GatewayHarness, shim_env: dict[str, str], cli_cwd: Path
) -> None:
    session = await harness.open("SCRIPT:slow 400")
    await harness.until("text.delta")
    async with calling([*RUN, *ASKING, "--resume", session], shim_env, cli_cwd) as caller:
        await caller.until("system")
        await harness.do("interrupt")
        await caller.until("result")
        await caller.prompt("SCRIPT:text together")
        result = await caller.until("result")
        assert "together" in result["result"]
        assert await caller.ended() == 0
    assert b"takes part in the running session" in caller.stderr
    assert len(harness.all("agent.started")) == 1
