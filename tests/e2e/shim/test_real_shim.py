"""`fairlead claude` with the real CLI: its caller notices no shim, and the gateway has the session."""

from pathlib import Path

from e2e.gateway_harness import GatewayHarness
from e2e.harness import on_versions
from e2e.shim.caller import ASKING, SHIM, STREAM_JSON, asks_for, calling

SESSION = "5b9d0c1e-3c55-4a0f-9f43-0d9c1f5c8a11"


@on_versions()
async def test_a_caller_and_a_phone_share_one_session(
    harness: GatewayHarness, shim_env: dict[str, str], cli_cwd: Path
) -> None:
    argv = [*SHIM, "claude", *STREAM_JSON, *ASKING, "--session-id", SESSION]
    async with calling(argv, shim_env, cli_cwd) as caller:
        await caller.request("r1", "initialize", hooks=None)
        answered = await caller.until("control_response")
        assert answered["response"]["request_id"] == "r1"
        await harness.watch(SESSION)
        await caller.prompt("SCRIPT:text hello")
        assert (await caller.until("result"))["subtype"] == "success"
        assert (await harness.until("turn.ended"))["status"] == "completed"
        (message,) = harness.all("user.message")
        assert message["by"] == "owner (admin)"

        # The phone answers first: the caller's card is withdrawn.
        made = cli_cwd / "made"
        await caller.prompt(f"SCRIPT:bash touch {made}")
        card = await caller.until(asks_for("Bash"))
        await harness.answer(await harness.until("permission.asked"))
        withdrawn = await caller.until("control_cancel_request")
        assert withdrawn["request_id"] == card["request_id"]
        await caller.until("result")
        assert made.exists()

        # The caller answers first: every client sees it settled.
        again = cli_cwd / "again"
        await caller.prompt(f"SCRIPT:bash touch {again}")
        card = await caller.until(asks_for("Bash"))
        await caller.allow(card)
        await caller.until("result")
        assert again.exists()
        settled = await harness.until(
            lambda line: line["type"] == "permission.resolved" and line["request"] == card["request_id"]
        )
        assert (settled["behavior"], settled["how"], settled["by"]) == ("allow", "person", "owner (admin)")

        # A prompt of the phone is answered in the caller's stream.
        await harness.send("SCRIPT:text from the phone")
        await caller.until("result")
        assert "from the phone" in str(caller.lines[-2:])
        assert await caller.ended() == 0
        assert caller.stderr == b""
    exited = await harness.until("agent.exited")
    assert exited["code"] == 0
    kinds = [line["type"] for line in await harness.raw()]
    assert kinds.count("agent.started") == 1
    assert kinds.count("turn.ended") == 4

    # The session goes on without its caller.
    assert (await harness.turn("SCRIPT:text alone"))["status"] == "completed"
