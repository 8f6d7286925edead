"""Everything around the sessions of real ACP agents: search, usage, export, notices, hand-over, the command line."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from e2e.acp.acp_harness import Agent, each_agent
from e2e.acp.test_acp_gateway import configured
from e2e.gateway_harness import GatewayHarness, open_gateway
from fairlead_testing.acp_models import AcpModel
from fairlead_testing.acp_scripts import GREETING
from patience import PATIENCE

PROGRAM = Path(sys.executable).with_name("fairlead")


async def fairlead(harness: GatewayHarness, *arguments: str) -> str:
    """What the command prints; it must succeed."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(harness.cwd), "FAIRLEAD_URL": harness.gateway.url}
    env |= {"FAIRLEAD_TOKEN": harness.gateway.token, "NO_COLOR": "1"}
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(PROGRAM, *arguments, env=env, stdout=pipe, stderr=pipe)
    out, err = await asyncio.wait_for(child.communicate(), PATIENCE)
    assert child.returncode == 0, err
    return out.decode()


async def found(harness: GatewayHarness, path: str, **params: Any) -> Any:
    answer = await harness.http.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


@each_agent
async def test_a_session_is_found_counted_exported_and_reported(
    agent: Agent, agent_name: str, acp_model: AcpModel, tmp_path: Path, cli_cwd: Path
) -> None:
    async with open_gateway(configured(agent, tmp_path, cli_cwd), agent.env, cli_cwd) as harness:
        session = await harness.open("SCRIPT:text about aardvarks")
        await harness.until("turn.ended")
        await harness.send("SCRIPT:shell touch allowed")
        await harness.answer(await harness.until("permission.asked"))
        await harness.until("turn.ended")

        async with asyncio.timeout(PATIENCE):
            while session not in str(await found(harness, "/v1/search", q="aardvarks")):
                await asyncio.sleep(0.05)
        summary = (await found(harness, f"/v1/sessions/{session}"))["summary"]
        assert (summary["agent"], summary["turns"]) == (agent_name, 2)
        span = {"since": summary["updated"] - 86_400_000, "until": summary["updated"] + 86_400_000}
        async with asyncio.timeout(PATIENCE):
            while "Bash" not in str((insight := await found(harness, "/v1/insight", **span))["tools"]):
                await asyncio.sleep(0.05)
        assert insight["turns"][0]["project"] == str(cli_cwd)

        for form, words in (("html", "about aardvarks"), ("jsonl", '"tool":"Bash"')):
            export = await harness.http.get(f"/v1/sessions/{session}/export", params={"format": form})
            assert words in export.text
        kinds = {notice["kind"] for notice in (await found(harness, "/v1/notices"))["notices"]}
        assert {"permission.asked", "permission.settled"} <= kinds

        refused = await harness.http.post(f"/v1/sessions/{session}/hand-over", json={"link": "terminal"})
        assert refused.json()["error"]["code"] == "agent_refused"
        assert {"terminal", "transcripts"} <= {*(await found(harness, f"/v1/sessions/{session}"))["cannot"]}

        assert session in await fairlead(harness, "ls", "--json")
        said = await fairlead(harness, "run", "--agent", agent_name, "--cwd", str(cli_cwd), "SCRIPT:text from a script")
        assert f"{GREETING} from a script" in said
