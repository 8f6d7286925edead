"""The official SDKs, unmodified, through the shim: their callbacks, hooks and servers work, and a phone takes part."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from e2e.acp.acp_harness import why_not_here
from e2e.acp.acpx import PERMISSION_DENIED, Acpx
from e2e.gateway_harness import GatewayHarness
from e2e.harness import NEWEST, OLDEST, on_versions
from e2e.shim.caller import calling
from fairlead.cli.main import app
from tools.acp_agents import program_path
from tools.agent_sdks import python_program, typescript_program

HERE = Path(__file__).parent
Line = dict[str, Any]


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    """The executable that `fairlead shim install` writes."""
    folder = tmp_path / "shim"
    installed = CliRunner().invoke(app, ["shim", "install", "--path", str(folder)])
    assert installed.exit_code == 0, installed.output
    return folder / "claude"


@on_versions(OLDEST, NEWEST, core=True)
async def test_the_python_sdk(harness: GatewayHarness, shim_env: dict[str, str], shim: Path, cli_cwd: Path) -> None:
    if not python_program().exists():
        pytest.skip("the Python SDK is not fetched: python -m tools.agent_sdks")
    argv = [str(python_program()), str(HERE / "python_sdk.py"), str(shim), str(cli_cwd)]
    async with calling(argv, shim_env, cli_cwd) as program:
        await harness.watch((await program.until(lambda line: "session" in line))["session"])
        for _ in range(3):
            assert (await program.until(lambda line: "result" in line))["result"] == "success"
        assert (cli_cwd / "made").exists()
        seen = await program.until(lambda line: "hooked" in line)
        assert seen["hooked"] == ["Bash", "mcp__mine__add"], "each hook fired once"
        assert seen["asked"] == ["Bash"], "an allowed tool is not asked for"
        assert "sum 3" in str(program.lines)

        await program.until(lambda line: line.get("asked") == "Bash")
        await harness.answer(
            await harness.until(lambda line: "touch wait" in str(line) and line["type"] == "permission.asked")
        )
        assert (await program.until(lambda line: "result" in line))["result"] == "success"
        assert (cli_cwd / "wait").exists()

        await program.until(lambda line: "ready" in line)
        await harness.send("SCRIPT:text from the phone")
        assert "from the phone" in (await program.until(lambda line: "result" in line))["text"]
        interrupted = await program.until(lambda line: "result" in line)
        assert interrupted["result"] == "error_during_execution"
        assert "simple" in (await program.until(lambda line: "simple" in line))["simple"]
        assert await program.ended() == 0
    assert await statuses(harness, 6) == ["completed"] * 5 + ["cancelled"]


@on_versions(NEWEST)
async def test_the_typescript_sdk(harness: GatewayHarness, shim_env: dict[str, str], shim: Path, cli_cwd: Path) -> None:
    node = shutil.which("node", path=shim_env["PATH"])
    if node is None or not typescript_program().exists():
        pytest.skip("node or the TypeScript SDK is missing: python -m tools.agent_sdks")
    argv = [node, str(HERE / "typescript_sdk.mjs"), str(typescript_program()), str(shim), str(cli_cwd)]
    async with calling(argv, shim_env, cli_cwd) as program:
        await harness.watch((await program.until(lambda line: "session" in line))["session"])
        for _ in range(2):
            result = await program.until(lambda line: "result" in line)
            assert result["result"] == "success"
        assert (result["hooked"], result["asked"]) == (1, 1)
        await harness.answer(
            await harness.until(lambda line: "touch wait" in str(line) and line["type"] == "permission.asked")
        )
        assert (await program.until(lambda line: "result" in line))["result"] == "success"
        assert (cli_cwd / "wait").exists()
        assert await program.ended() == 0, program.stderr
    assert await statuses(harness, 3) == ["completed"] * 3


@on_versions(NEWEST)
async def test_zeds_adapter(harness: GatewayHarness, shim_env: dict[str, str], shim: Path, cli_cwd: Path) -> None:
    """The adapter that Zed and other ACP editors run Claude Code with, driven by acpx."""
    if reason := why_not_here("claude") or why_not_here("acpx"):
        pytest.skip(reason)
    env = {**shim_env, "CLAUDE_CODE_EXECUTABLE": str(shim), "NO_COLOR": "1"}
    acpx = Acpx(f"exec node {program_path('claude')}", env, cli_cwd, shim.parent)
    code, out = await acpx.run("--format", "json", "--approve-all", "exec", "SCRIPT:bash touch made")
    messages = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert code == 0 and messages[-1]["result"]["stopReason"] == "end_turn", out
    assert (cli_cwd / "made").exists()
    code, out = await acpx.run("--deny-all", "exec", "SCRIPT:bash touch denied")
    assert code == PERMISSION_DENIED, out
    assert not (cli_cwd / "denied").exists()

    listed = (await harness.http.get("/v1/sessions")).json()["sessions"]
    assert len(listed) == 2, "each run was a session of the gateway"
    for session in listed:
        await harness.watch(session["session"])
        ended = await harness.until("turn.ended")
        assert ended["status"] == "completed"
    asked = {line["input"]["command"] for line in harness.all("permission.asked")}
    assert asked == {"touch made", "touch denied"}


async def statuses(harness: GatewayHarness, count: int) -> list[str]:
    await harness.until("agent.exited")
    ends = [line["status"] for line in harness.all("turn.ended")]
    assert len(ends) == count
    return ends
